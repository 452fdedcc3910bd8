#include "runtime/text/chat/ReasoningSplitter.h"

#include <algorithm>

#include <utility>

namespace dsv3::text {

namespace {

constexpr std::string_view kOpen = "<think>", kClose = "</think>", kSpace = " \t\r\n";
/// White space before the tag is held back up to this, so that nothing grows without bound.
constexpr size_t kMostSpace = 64;

bool endsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

} // namespace

ReasoningStart reasoningStart(const std::vector<Segment> &prompt, std::string_view chatTemplate) {
  std::string_view last;
  for (const Segment &segment : prompt)
    last = segment.trusted ? std::string_view(segment.text) : std::string_view();
  size_t end = last.find_last_not_of(kSpace);
  last = last.substr(0, end == last.npos ? 0 : end + 1);
  if (endsWith(last, kOpen))
    return ReasoningStart::Inside;
  bool knows = chatTemplate.find(kOpen) != chatTemplate.npos || chatTemplate.find(kClose) != chatTemplate.npos;
  return knows && !endsWith(last, kClose) ? ReasoningStart::Opens : ReasoningStart::None;
}

ReasoningSplitter::ReasoningSplitter(ReasoningStart start)
    : state(start == ReasoningStart::None     ? State::Answering
            : start == ReasoningStart::Inside ? State::Reasoning
                                              : State::Opening),
      end(*StopMatcher::create({std::string(kClose)})) {}

/// Takes bytes until it is decided whether the stream begins with the tag.
void ReasoningSplitter::open(std::string_view &text, Piece &piece) {
  while (!text.empty()) {
    begin += text.front();
    text.remove_prefix(1);
    size_t space = std::min(begin.find_first_not_of(kSpace), begin.size());
    std::string_view tag = std::string_view(begin).substr(space);
    if (tag == kOpen) {
      state = State::Reasoning;
      begin.clear();
      return;
    }
    if (space > kMostSpace || kOpen.substr(0, tag.size()) != tag) {
      state = State::Answering;
      piece.content = std::exchange(begin, {});
      return;
    }
  }
}

ReasoningSplitter::Piece ReasoningSplitter::push(std::string_view text) {
  Piece piece;
  if (state == State::Opening)
    open(text, piece);
  if (state == State::Reasoning) {
    piece.reasoning = end.take(text);
    if (end.stopped())
      state = State::Answering;
  }
  if (state == State::Answering)
    piece.content += text;
  return piece;
}

ReasoningSplitter::Piece ReasoningSplitter::flush() {
  Piece piece;
  piece.content = std::exchange(begin, {});
  if (state == State::Reasoning)
    piece.reasoning = end.flush();
  return piece;
}

} // namespace dsv3::text
