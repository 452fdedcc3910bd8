#include "runtime/text/chat/ChatOutput.h"

#include <iterator>
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
  ToolCallParser::Piece parsed = parser.push(split.content);
  return {std::move(split.reasoning), std::move(parsed.content), std::move(parsed.calls)};
}

ChatDelta ChatOutput::flush() {
  ReasoningSplitter::Piece split = splitter.flush();
  ChatDelta delta = {std::move(split.reasoning), "", {}};
  for (ToolCallParser::Piece parsed : {parser.push(split.content), parser.flush()})
    delta.append({"", std::move(parsed.content), std::move(parsed.calls)});
  return delta;
}

} // namespace dsv3::text
