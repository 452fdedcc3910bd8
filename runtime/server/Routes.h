// The paths the server knows.
#pragma once

#include "runtime/server/Http.h"

#include <string_view>

namespace dsv3::server {

class Server;

struct Route {
  const char *path;
  const char *method; ///< GET (then HEAD too) or POST
  bool open;          ///< needs no API key
  bool needsEngine;   ///< refused while the server drains
  /// What can be said at once; nullptr: Connection::answer knows.
  Response (*answer)(Server &, const RequestHead &);

  bool allows(std::string_view given) const;
};

/// nullptr for a path there is not.
const Route *findRoute(std::string_view path);

} // namespace dsv3::server
