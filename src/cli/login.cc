#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "cli/interrupts.h"
#include "cli/persona.h"
#include "cli/questions.h"
#include "cli/store_verbs.h"
#include "cli/terminal.h"

namespace sightline {
namespace {

namespace fs = std::filesystem;

class LoginVerb : public Verb {
 public:
  VerbText text() const override {
    return {"login", "Keep a token of the hub for this user", fmt::format("{} login", ProgramName()),
            "Without --token the token is read from the terminal or standard input; one that is kept already is tried\n"
            "first. It goes where Hugging Face's programs look for it too."};
  }
  void Declare(OptionSet& options) override {
    options.Text("--token", token_, "TOKEN", "hf_...; other users of this machine may see it in the list of processes");
  }
  Result<int> Run() override;

 private:
  std::string token_;
};

Status Keep(const fs::path& file, const std::string& token) {
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  const fs::path beside = file.parent_path() / fmt::format(".token-{}", ::getpid());
  const int descriptor = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (descriptor < 0) return tl::make_unexpected(ErrnoError("write", file, errno));
  const bool written = ::write(descriptor, token.data(), token.size()) == static_cast<ssize_t>(token.size());
  const int problem = errno;
  ::close(descriptor);
  if (written) fs::rename(beside, file, error);
  if (written && !error) return {};
  fs::remove(beside, error);
  return tl::make_unexpected(ErrnoError("write", file, written ? error.value() : problem));
}

Result<std::string> ReadToken() {
  const Interrupts interrupts;
  SIGHTLINE_ASSIGN_OR_RETURN(std::string token, Ask("Token: ", Echo::kHidden, interrupts.token()));
  while (!token.empty() && (token.back() == '\r' || token.back() == ' ')) token.pop_back();
  return token;
}

Result<int> LoginVerb::Run() {
  SIGHTLINE_ASSIGN_OR_RETURN(StoreSettings settings, StoreSettingsOfProgram());
  const std::unique_ptr<ShownReporter> reporter = MakeReporter();
  const bool kept = token_.empty() && !settings.hub.token.empty();
  if (!kept) {
    settings.hub.token = token_;
    if (token_.empty()) {
      SIGHTLINE_ASSIGN_OR_RETURN(settings.hub.token, ReadToken());
    }
    settings.hub.token_source = "--token";
  }
  if (settings.hub.token.empty()) return Fail(Code::kUsage, "no token is given, expected one as hf_...");
  Hub hub(settings.hub);
  const HubResult<HubUser> user = hub.WhoAmI();
  if (!user) return ShowFailure(StoreError(user.error()), *reporter);
  if (!kept) SIGHTLINE_RETURN_IF_ERROR(Keep(settings.hub.token_file, settings.hub.token));
  Print(fmt::format("Logged in as {}\n", OneLine(user->name)));
  return 0;
}

}  // namespace

std::unique_ptr<Verb> MakeLoginVerb() { return std::make_unique<LoginVerb>(); }

}  // namespace sightline
