#include "runtime/text/chat/ChatOutput.h"

#include <algorithm>
#include <utility>

namespace dsv3::text {

void ChatDelta::append(const ChatDelta &next) {
  reasoning += next.reasoning;
  content += next.content;
  for (const ToolCallDelta &call : next.toolCalls) {
    if (!toolCalls.empty() && toolCalls.back().index == call.index)
      toolCalls.back().arguments += call.arguments;
    else
      toolCalls.push_back(call);
  }
}

ChatDelta ChatOutput::push(std::string_view text) {
  ReasoningSplitter::Piece split = splitter.push(text);
  return parsed(std::move(split.reasoning), parser.push(split.content));
}

ChatDelta ChatOutput::parsed(std::string reasoning, ToolCallParser::Piece piece) const {
  if (oneCall)
    piece.calls.erase(std::remove_if(piece.calls.begin(), piece.calls.end(), [](auto &call) { return call.index > 0; }), piece.calls.end());
  return {std::move(reasoning), std::move(piece.content), std::move(piece.calls)};
}

ChatDelta ChatOutput::flush() {
  ReasoningSplitter::Piece split = splitter.flush();
  ChatDelta delta = {std::move(split.reasoning), "", {}};
  delta.append(parsed("", parser.push(split.content)));
  delta.append(parsed("", parser.flush()));
  return delta;
}

} // namespace dsv3::text
