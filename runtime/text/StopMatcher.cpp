#include "runtime/text/StopMatcher.h"

#include "runtime/text/Utf8.h"

#include <algorithm>
#include <utility>

namespace dsv3::text {
namespace {

std::vector<size_t> failureFunction(const std::string &text) {
  std::vector<size_t> failure(text.size(), 0);
  for (size_t i = 1, k = 0; i < text.size(); ++i) {
    while (k > 0 && text[i] != text[k])
      k = failure[k - 1];
    k += text[i] == text[k];
    failure[i] = k;
  }
  return failure;
}

} // namespace

Result<StopMatcher> StopMatcher::create(const std::vector<std::string> &stops) {
  StopMatcher matcher;
  for (const std::string &stop : stops) {
    if (stop.empty())
      return usageError("stop string: expected at least one character, got an empty string");
    // The stream is valid UTF-8, so a broken stop string can match in this form only.
    Pattern pattern;
    pattern.text = toValidUtf8(stop);
    pattern.failure = failureFunction(pattern.text);
    matcher.patterns.push_back(std::move(pattern));
  }
  return matcher;
}

void StopMatcher::Pattern::advance(char c) {
  while (state > 0 && text[state] != c)
    state = failure[state - 1];
  state += text[state] == c;
}

std::string StopMatcher::push(std::string_view input) {
  return hit ? "" : take(input);
}

std::string StopMatcher::take(std::string_view &input) {
  while (!input.empty() && !hit) {
    char c = input.front();
    input.remove_prefix(1);
    held += c;
    for (size_t i = 0; i < patterns.size(); ++i) {
      Pattern &p = patterns[i];
      p.advance(c);
      if (p.state == p.text.size() && (!hit || p.text.size() > patterns[*hit].text.size()))
        hit = i;
    }
  }
  return release();
}

std::string StopMatcher::pass(std::string_view input) {
  for (char c : input) {
    held += c;
    for (Pattern &p : patterns) {
      p.advance(c);
      if (p.state == p.text.size()) // no match, but its end may begin the next
        p.state = p.failure.back();
    }
  }
  return release();
}

/// What of the held text no stop string can need any more.
std::string StopMatcher::release() {
  size_t keep = 0;
  for (const Pattern &p : patterns)
    keep = std::max(keep, p.state);
  if (hit)
    keep = patterns[*hit].text.size();
  std::string ready = held.substr(0, held.size() - keep);
  held.erase(0, hit ? held.size() : ready.size());
  return ready;
}

void StopMatcher::reset() {
  hit.reset();
  held.clear();
  for (Pattern &p : patterns)
    p.state = 0;
}

std::string StopMatcher::flush() { return std::exchange(held, {}); }

} // namespace dsv3::text
