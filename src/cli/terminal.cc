#include "cli/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "cli/persona.h"

namespace sightline {
namespace {

void WriteLine(std::string_view prefix, std::string_view sentence) {
  const std::string line = fmt::format("{}: {}{}\n", ProgramName(), prefix, OneLine(sentence));
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

void Print(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

Status FlushOutput() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return {};
  return tl::make_unexpected(ErrnoError("write", "standard output", errno != 0 ? errno : EIO));
}

void PrintError(std::string_view sentence) { WriteLine("", sentence); }
void PrintNote(std::string_view sentence) { WriteLine("note: ", sentence); }
void PrintWarning(std::string_view sentence) { WriteLine("warning: ", sentence); }

bool CanRedraw() { return ::isatty(STDERR_FILENO) == 1 && EnvironmentVariable("TERM") != "dumb"; }

std::string OneLine(std::string_view text) {
  std::string line(text);
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return line;
}

Progress::Progress(std::string label) : label_(OneLine(label)), terminal_(CanRedraw()) {}

Progress::~Progress() { Clear(); }

void Progress::Show(int done, int total) { Show(fmt::format("{} of {}", done, total)); }

void Progress::Show(std::string_view state) {
  if (!terminal_) return;
  const std::string line = fmt::format("\r\033[K{} {}", label_, OneLine(state));
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
  shown_ = true;
}

void Progress::ShowLong(std::string_view state) {
  constexpr std::chrono::seconds kBetweenNotes{10};
  if (terminal_) return Show(state);
  if (Clock::now() - noted_ < kBetweenNotes) return;
  PrintNote(state);
  noted_ = Clock::now();
}

void Progress::Clear() {
  if (!shown_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  shown_ = false;
}

}  // namespace sightline
