#include "frontends/huggingface/NamePattern.h"

#include "runtime/core/Json.h"

#include <oniguruma.h>

namespace dsv3::hf {

class NamePattern::Regex {
public:
  Regex() = default;
  Regex(const Regex &) = delete;
  Regex &operator=(const Regex &) = delete;
  ~Regex() {
    if (handle)
      onig_free(handle);
  }

  /// Empty, or what is wrong.
  std::string compile(const std::string &text) {
    // Idempotent, and guarded against concurrent first calls by the static's lock.
    static const int initialised = [] {
      OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
      return onig_initialize(encodings, 1);
    }();
    if (initialised != ONIG_NORMAL)
      return "the regex engine does not start";
    OnigErrorInfo info;
    int rc = onig_new(&handle, begin(text), begin(text) + text.size(), ONIG_OPTION_NONE, ONIG_ENCODING_UTF8,
                      ONIG_SYNTAX_PYTHON, &info);
    if (rc == ONIG_NORMAL)
      return {};
    handle = nullptr;
    return describe(rc, &info);
  }

  /// 1, 0, or an error of the engine: by default it gives up after ten million retries.
  int match(const std::string &name) const {
    const OnigUChar *first = begin(name), *last = first + name.size();
    int rc = onig_match(handle, first, last, first, nullptr, ONIG_OPTION_NONE);
    return rc >= 0 ? 1 : rc == ONIG_MISMATCH ? 0 : rc;
  }

  static std::string describe(int rc, OnigErrorInfo *info = nullptr) {
    OnigUChar message[ONIG_MAX_ERROR_MESSAGE_LEN];
    int length = info ? onig_error_code_to_str(message, rc, info) : onig_error_code_to_str(message, rc);
    return printable({reinterpret_cast<const char *>(message), size_t(length)});
  }

private:
  static const OnigUChar *begin(const std::string &s) { return reinterpret_cast<const OnigUChar *>(s.data()); }

  OnigRegex handle = nullptr;
};

Result<NamePattern> NamePattern::parse(const std::string &text, const std::string &where) {
  NamePattern out;
  out.pattern = text;
  out.where = where;
  if (text.compare(0, 3, "re:") != 0)
    return out;
  auto regex = std::make_shared<Regex>();
  if (std::string message = regex->compile(text.substr(3)); !message.empty())
    return checkpointError(where + ": expected a regular expression, got \"" + printable(text) + "\": " + message);
  out.regex = std::move(regex);
  return out;
}

NamePattern NamePattern::containing(const std::string &text) {
  NamePattern out;
  out.pattern = text;
  out.anywhere = true;
  return out;
}

Result<bool> NamePattern::matches(const std::string &module) const {
  if (!regex)
    return anywhere ? module.find(pattern) != module.npos : module == pattern;
  int rc = regex->match(module);
  if (rc < 0)
    return checkpointError(where + ": the pattern \"" + printable(pattern) + "\" cannot be matched against " + module + ": " +
                           Regex::describe(rc));
  return rc == 1;
}

} // namespace dsv3::hf
