#include "runtime/text/chat/ToolCalls.h"

#include "runtime/core/Hash.h"

#include <algorithm>
#include <utility>

namespace dsv3::text {

namespace {

const std::string kCallsBegin = "<｜tool▁calls▁begin｜>", kCallsEnd = "<｜tool▁calls▁end｜>";
const std::string kCallBegin = "<｜tool▁call▁begin｜>", kCallEnd = "<｜tool▁call▁end｜>";
const std::string kSeparator = "<｜tool▁sep｜>", kFence = "\n```json\n", kFenceEnd = "\n```";

constexpr std::string_view kSpace = " \t\r\n";
/// What comes before a name may have this many bytes.
constexpr size_t kMostHeader = 512;

bool endsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

bool beginsWith(std::string_view text, std::string_view begin) { return text.substr(0, begin.size()) == begin; }

std::string_view trim(std::string_view text) {
  size_t first = text.find_first_not_of(kSpace);
  return first == text.npos ? std::string_view() : text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

} // namespace

bool isToolName(std::string_view name) {
  return !name.empty() && name.size() <= kMostHeader / 2 &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) { return c > ' ' && c != 0x7f && c != '<'; });
}

const std::vector<std::string> &toolMarkers() {
  static const std::vector<std::string> markers = {kCallsBegin, kCallsEnd, kCallBegin, kCallEnd, kSeparator};
  return markers;
}

ToolSyntax toolSyntaxOf(ToolFormat format) {
  if (format == ToolFormat::Fenced)
    return {kCallsBegin, kCallBegin + "function" + kSeparator, kFence, kFenceEnd + kCallEnd, "\n", kCallsEnd};
  return {kCallsBegin, kCallBegin, kSeparator, kCallEnd, "", kCallsEnd};
}

ToolFormat toolFormatOf(std::string_view chatTemplate) {
  if (chatTemplate.find(kCallBegin) == chatTemplate.npos)
    return ToolFormat::None;
  return chatTemplate.find("```json") == chatTemplate.npos ? ToolFormat::Plain : ToolFormat::Fenced;
}

ToolCallParser::ToolCallParser(ToolFormat format, std::string idSeed, bool forced)
    : format(format), idSeed(std::move(idSeed)), forced(forced), begin(*StopMatcher::create({kCallsBegin})),
      end(*StopMatcher::create(format == ToolFormat::Fenced ? std::vector<std::string>{kFenceEnd + kCallEnd, kCallEnd}
                                                            : std::vector<std::string>{kCallEnd})) {}

ToolCallParser::Piece ToolCallParser::push(std::string_view text) {
  Piece piece;
  if (format == ToolFormat::None) {
    piece.content = text;
    return piece;
  }
  while (!text.empty()) {
    if (state == State::Content) {
      std::string outside = begin.take(text);
      if (!forced)
        piece.content += outside;
      if (begin.stopped()) {
        begin.reset();
        state = State::Between;
        raw = kCallsBegin;
        from = raw.size();
      }
    } else if (state == State::Arguments) {
      forced ? forcedArguments(text, piece) : arguments(text, piece);
    } else {
      char c = text.front();
      text.remove_prefix(1);
      raw += c;
      state == State::Between ? between(piece) : header(c, piece);
    }
  }
  return piece;
}

/// White space, then a call or the end of all.
void ToolCallParser::between(Piece &piece) {
  std::string_view part = std::string_view(raw).substr(from);
  part.remove_prefix(std::min(part.find_first_not_of(kSpace), part.size()));
  if (part == kCallBegin) {
    state = State::Header;
    from = raw.size();
  } else if (part == kCallsEnd && count > 0) {
    state = State::Content;
    raw.clear();
  } else if (raw.size() - from > kMostHeader || !(beginsWith(kCallBegin, part) || beginsWith(kCallsEnd, part)) || part == kCallsEnd) {
    giveUp(piece);
  }
}

/// Up to where the arguments begin.
void ToolCallParser::header(char c, Piece &piece) {
  std::string_view part = std::string_view(raw).substr(from);
  const std::string &last = format == ToolFormat::Fenced ? kFence : kSeparator;
  if (endsWith(part, last)) {
    std::string_view name = part.substr(0, part.size() - last.size());
    if (format == ToolFormat::Fenced) {
      size_t separator = name.find(kSeparator);
      name = separator == name.npos ? std::string_view() : name.substr(separator + kSeparator.size());
    }
    isToolName(trim(name)) ? beginCall(trim(name), piece) : giveUp(piece);
    return;
  }
  bool marker = c == '>' && (endsWith(part, kCallEnd) || endsWith(part, kCallsEnd) || endsWith(part, kCallBegin) || endsWith(part, kCallsBegin));
  if (marker || part.size() > kMostHeader)
    giveUp(piece);
}

void ToolCallParser::beginCall(std::string_view name, Piece &piece) {
  std::string id = "call_" + hashHex(idSeed + "/" + std::to_string(count)).substr(0, 24);
  piece.calls.push_back({count++, std::move(id), std::string(name), ""});
  state = State::Arguments;
  end.reset();
  extent = {};
  raw.clear();
}

void ToolCallParser::addArguments(std::string text, Piece &piece) {
  if (text.empty())
    return;
  if (!piece.calls.empty() && piece.calls.back().index == count - 1)
    piece.calls.back().arguments += text;
  else
    piece.calls.push_back({count - 1, "", "", std::move(text)});
}

void ToolCallParser::arguments(std::string_view &text, Piece &piece) {
  addArguments(end.take(text), piece);
  if (!end.stopped())
    return;
  state = State::Between;
  raw.clear();
  from = 0;
}

/// The value as far as it goes, then what closes the call.
void ToolCallParser::forcedArguments(std::string_view &text, Piece &piece) {
  if (!extent.ended()) {
    const size_t length = extent.take(text);
    addArguments(std::string(text.substr(0, length)), piece);
    text.remove_prefix(length);
  }
  if (text.empty())
    return;
  end.take(text);
  if (!end.stopped())
    return;
  state = State::Between;
  raw.clear();
  from = 0;
}

void ToolCallParser::giveUp(Piece &piece) {
  if (!forced)
    piece.content += raw;
  raw.clear();
  state = State::Content;
}

ToolCallParser::Piece ToolCallParser::flush() {
  Piece piece;
  if (forced) {
    // cut off: what was certain is out
  } else if (state == State::Content) {
    piece.content = begin.flush();
  } else if (state == State::Arguments) {
    std::string held = end.flush();
    if (!beginsWith(held, kFenceEnd)) // else the fence was closed, only the marker is missing
      addArguments(std::move(held), piece);
  } else if (count == 0 || !trim(raw).empty()) {
    giveUp(piece);
  }
  state = State::Content;
  raw.clear();
  return piece;
}

} // namespace dsv3::text
