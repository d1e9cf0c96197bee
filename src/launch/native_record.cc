#include "launch/native_record.h"

#include <limits>

namespace sightline {
namespace {

constexpr int64_t kVersion = 1;

Value Text(std::string text) { return Value{std::move(text)}; }
Value Number(int64_t number) { return Value{number}; }

// Members of one record; remembers whether all were there.
class Fields {
 public:
  explicit Fields(const Value& record) : record_(record) {}
  std::string Text(std::string_view key) {
    const Value* member = record_.Find(key);
    const std::string* text = member == nullptr ? nullptr : member->AsText();
    complete_ &= text != nullptr;
    return text == nullptr ? std::string() : *text;
  }
  int64_t Number(std::string_view key, int64_t most) {
    const Value* member = record_.Find(key);
    const int64_t* number = member == nullptr ? nullptr : std::get_if<int64_t>(&member->data);
    const bool valid = number != nullptr && *number >= 0 && *number <= most;
    complete_ &= valid;
    return valid ? *number : 0;
  }
  bool complete() const { return complete_; }

 private:
  const Value& record_;
  bool complete_ = true;
};

}  // namespace

std::string NativeRecordText(const NativeServer& server) {
  Value record{Value::Map{}};
  record.Set("version", Number(kVersion));
  record.Set("name", Text(server.name));
  record.Set("target", Text(server.target));
  record.Set("model", Text(server.model));
  record.Set("profile", Text(kNativeProfile));
  record.Set("port", Number(server.port));
  record.Set("started", Number(server.started));
  record.Set("log", Text(server.log.string()));
  record.Set("pid", Number(server.process.pid));
  record.Set("start_ticks", Number(static_cast<int64_t>(server.process.start_ticks)));
  record.Set("boot", Text(server.process.boot));
  constexpr int kIndent = 2;
  return ToJson(record, kIndent) + "\n";
}

Result<NativeServer> ParseNativeRecord(std::string_view text) {
  SIGHTLINE_ASSIGN_OR_RETURN(const Value record, ParseJson(text, "record"));
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  Fields fields(record);
  NativeServer server;
  const int64_t version = fields.Number("version", kAny);
  server.name = fields.Text("name");
  server.target = fields.Text("target");
  server.model = fields.Text("model");
  server.port = static_cast<int>(fields.Number("port", 65'535));
  server.started = fields.Number("started", kAny);
  server.log = fields.Text("log");
  server.process.pid = static_cast<pid_t>(fields.Number("pid", std::numeric_limits<pid_t>::max()));
  server.process.start_ticks = static_cast<uint64_t>(fields.Number("start_ticks", kAny));
  server.process.boot = fields.Text("boot");
  if (!fields.complete() || version != kVersion) return Fail(Code::kCorruptWeights, "this is no record of a server");
  return server;
}

}  // namespace sightline
