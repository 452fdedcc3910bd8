// Structured lines on standard error.
#pragma once

#include "runtime/core/Json.h"

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace dsv3::server {

enum class LogLevel { Debug, Info, Warning, Error };
enum class LogFormat { Text, Json };

/// Sets what is written, once at start. Before it: text from Info on.
void setUpLog(LogFormat format, LogLevel least);

using LogField = std::pair<std::string_view, OrderedJson>;

/// text: `2026-11-30T07:00:00.000Z info request id=cmpl-1 status=200`; json: {"time", "level", "message", fields...}. Any thread.
void log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {});

} // namespace dsv3::server
