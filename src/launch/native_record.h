// A native server's record as text. Pure.
#pragma once

#include "launch/native_servers.h"

namespace sightline {

std::string NativeRecordText(const NativeServer& server);
// kCorruptWeights for what is no record.
Result<NativeServer> ParseNativeRecord(std::string_view text);

}  // namespace sightline
