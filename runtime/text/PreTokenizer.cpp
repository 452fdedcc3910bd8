#include "runtime/text/PreTokenizer.h"

#include "runtime/text/Utf8.h"

#include <oniguruma.h>

#include <limits>
#include <new>
#include <optional>

namespace dsv3::text {
namespace {

const OnigUChar *toOnig(const char *p) { return reinterpret_cast<const OnigUChar *>(p); }

struct Match {
  size_t begin, end;
};

/// The scratch state of one search, reused from match to match.
class Scratch {
public:
  Scratch() : region(onig_region_new()), param(onig_new_match_param()) {
    if (!region || !param)
      throw std::bad_alloc();
    onig_initialize_match_param(param);
    // The library's default gives up after ten million steps, which a long run of
    // blanks reaches; our regexes are linear, so there is no reason to give up.
    onig_set_retry_limit_in_match_of_match_param(param, std::numeric_limits<unsigned long>::max());
  }
  ~Scratch() {
    onig_region_free(region, 1);
    onig_free_match_param(param);
  }
  Scratch(const Scratch &) = delete;
  Scratch &operator=(const Scratch &) = delete;

  OnigRegion *region;
  OnigMatchParam *param;
};

} // namespace

class PreTokenizer::Regex {
public:
  Regex() = default;
  ~Regex() {
    if (handle)
      onig_free(handle);
  }
  Regex(const Regex &) = delete;
  Regex &operator=(const Regex &) = delete;

  /// Empty on success, else Oniguruma's message.
  std::string compile(const std::string &pattern) {
    OnigErrorInfo info;
    const char *begin = pattern.data(), *end = begin + pattern.size();
    int rc = onig_new(&handle, toOnig(begin), toOnig(end), ONIG_OPTION_NONE, ONIG_ENCODING_UTF8,
                      ONIG_SYNTAX_DEFAULT, &info);
    if (rc == ONIG_NORMAL)
      return "";
    handle = nullptr;
    OnigUChar message[ONIG_MAX_ERROR_MESSAGE_LEN];
    int length = onig_error_code_to_str(message, rc, &info);
    return std::string(reinterpret_cast<char *>(message), static_cast<size_t>(length));
  }

  std::optional<Match> search(std::string_view text, size_t from, Scratch &scratch) const {
    const char *begin = text.data(), *end = begin + text.size();
    int rc = onig_search_with_param(handle, toOnig(begin), toOnig(end), toOnig(begin + from),
                                    toOnig(end), scratch.region, ONIG_OPTION_NONE, scratch.param);
    if (rc == ONIG_MISMATCH)
      return std::nullopt;
    if (rc < 0) // with no retry limit only memory can run out
      throw std::bad_alloc();
    return Match{static_cast<size_t>(scratch.region->beg[0]),
                 static_cast<size_t>(scratch.region->end[0])};
  }

  /// Appends the matches of `text` and the gaps between them to `out`.
  void split(std::string_view text, Scratch &scratch, std::vector<std::string_view> &out) const {
    auto emit = [&](size_t begin, size_t end) {
      if (begin != end)
        out.push_back(text.substr(begin, end - begin));
    };
    size_t done = 0, from = 0;
    std::optional<size_t> lastEnd;
    while (from <= text.size()) {
      std::optional<Match> match = search(text, from, scratch);
      if (!match)
        break;
      from = match->end;
      // An empty match right behind the last one would repeat for ever: step over
      // one character. Anywhere else it cuts, without being a piece itself.
      if (match->begin == match->end && lastEnd == match->end) {
        from += from < text.size() ? decodeUtf8(text, from).length : 1;
        continue;
      }
      lastEnd = match->end;
      emit(done, match->begin);
      emit(match->begin, match->end);
      done = match->end;
    }
    emit(done, text.size());
  }

private:
  OnigRegex handle = nullptr;
};

Result<PreTokenizer> PreTokenizer::create(const std::vector<std::string> &patterns,
                                          const std::string &source) {
  // Idempotent, and guarded against concurrent first calls by the static's lock.
  static const int initialised = [] {
    OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
    return onig_initialize(encodings, 1);
  }();
  if (initialised != ONIG_NORMAL)
    return internalError("cannot initialise the regex engine");
  PreTokenizer result;
  for (size_t i = 0; i < patterns.size(); ++i) {
    auto regex = std::make_shared<Regex>();
    std::string message = regex->compile(patterns[i]);
    if (!message.empty())
      return checkpointError(source + ": pre_tokenizer: regex " + std::to_string(i) +
                             " does not compile: " + message);
    result.regexes.push_back(std::move(regex));
  }
  return result;
}

std::vector<std::string_view> PreTokenizer::split(std::string_view text) const {
  std::vector<std::string_view> pieces;
  if (text.empty())
    return pieces;
  pieces.push_back(text);
  Scratch scratch;
  for (const auto &regex : regexes) {
    std::vector<std::string_view> next;
    next.reserve(pieces.size());
    for (std::string_view piece : pieces)
      regex->split(piece, scratch, next);
    pieces = std::move(next);
  }
  return pieces;
}

} // namespace dsv3::text
