// Which port a server listens on, and who has it when it is taken.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/base.h"
#include "net/net.h"

namespace sightline {

// `port` none: 20000 or the next free one; 0: any; else exactly that one, or kUsage naming it and, where the system
// lets us see it, the process that has it.
Result<std::unique_ptr<HttpServer>> ListenOn(std::optional<int> port, HttpServerOptions options,
                                             const HttpCallbacks& callbacks);

// "process 4711 (python3)", or nothing when it cannot be seen. Reads /proc.
std::optional<std::string> OwnerOfPort(int port);

}  // namespace sightline
