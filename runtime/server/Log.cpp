#include "runtime/server/Log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <ctime>

namespace dsv3::server {

namespace {

LogFormat format = LogFormat::Text;
LogLevel least = LogLevel::Info;

spdlog::logger &logger() {
  static const std::shared_ptr<spdlog::logger> made = [] {
    auto l = std::make_shared<spdlog::logger>("dsv3-serve", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    l->set_pattern("%v"); // the whole line is made here: fields differ by format
    l->set_level(spdlog::level::trace);
    l->flush_on(spdlog::level::trace);
    return l;
  }();
  return *made;
}

const char *levelName(LogLevel level) {
  switch (level) {
  case LogLevel::Debug: return "debug";
  case LogLevel::Info: return "info";
  case LogLevel::Warning: return "warning";
  case LogLevel::Error: return "error";
  }
  return "?";
}

std::string timeNow() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  tm parts;
  gmtime_r(&now.tv_sec, &parts);
  char text[40];
  size_t length = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  snprintf(text + length, sizeof text - length, ".%03ldZ", now.tv_nsec / 1000000);
  return text;
}

std::string dumped(const OrderedJson &value) { return value.dump(-1, ' ', true, OrderedJson::error_handler_t::replace); }

/// A word stands as it is, anything else in quotes.
std::string plain(const OrderedJson &value) {
  if (value.is_string()) {
    const auto &text = value.get_ref<const std::string &>();
    bool word = !text.empty() && text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:") == text.npos;
    if (word)
      return text;
  }
  return dumped(value);
}

} // namespace

void setUpLog(LogFormat f, LogLevel l) {
  format = f;
  least = l;
}

void log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  if (level < least)
    return;
  std::string line;
  if (format == LogFormat::Json) {
    OrderedJson json = {{"time", timeNow()}, {"level", levelName(level)}, {"message", message}};
    for (const auto &[key, value] : fields)
      json[std::string(key)] = value;
    line = dumped(json);
  } else {
    line = timeNow() + " " + levelName(level) + " " + std::string(message);
    for (const auto &[key, value] : fields)
      line += " " + std::string(key) + "=" + plain(value);
  }
  logger().log(spdlog::level::info, spdlog::string_view_t(line));
}

} // namespace dsv3::server
