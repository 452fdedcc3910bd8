// An answer of a chat model, taken apart: reasoning, content and calls of tools.
//
// For one choice of a chat completion:
//
//   ChatOutput output({reasoningStart(segments, source), tools ? toolFormatOf(source) : ToolFormat::None, "chatcmpl-1/0"});
//   for each piece of text:   ChatDelta d = output.push(text);   // stream what is not empty
//   at the end:               ChatDelta d = output.flush();
//   finish_reason:            output.toolCalls() > 0 && reason == "stop" ? "tool_calls" : reason
//
// For an answer in one piece, join the deltas: the result is the same. Text must come from a decoder that keeps special
// tokens (StreamDecoder with skipSpecial false) where a checkpoint calls the markers special; end ids are no text.
#pragma once

#include "runtime/text/chat/ReasoningSplitter.h"
#include "runtime/text/chat/ToolCalls.h"

#include <string>
#include <string_view>
#include <vector>

namespace dsv3::text {

/// What came with a piece of text; all parts may be empty.
struct ChatDelta {
  std::string reasoning, content;
  std::vector<ToolCallDelta> toolCalls;

  bool empty() const { return reasoning.empty() && content.empty() && toolCalls.empty(); }
  /// Joins what follows: parts of one call become one.
  void append(const ChatDelta &next);
};

class ChatOutput {
public:
  struct Options {
    ReasoningStart reasoning = ReasoningStart::None;
    ToolFormat tools = ToolFormat::None; ///< None also when the request has no tools, or tool_choice "none"
    std::string idSeed;                  ///< see ToolCallParser
    bool forcedCalls = false;            ///< see ToolCallParser
    bool oneCall = false;                ///< calls after the first are dropped
  };

  explicit ChatOutput(const Options &options)
      : splitter(options.reasoning), parser(options.tools, options.idSeed, options.forcedCalls), oneCall(options.oneCall) {}

  /// Takes valid UTF-8 and returns what is certain; never half a character. Calls are not looked for in reasoning.
  ChatDelta push(std::string_view text);
  ChatDelta flush();

  size_t toolCalls() const { return parser.calls(); }

private:
  ChatDelta parsed(std::string reasoning, ToolCallParser::Piece piece) const;

  ReasoningSplitter splitter;
  ToolCallParser parser;
  bool oneCall;
};

} // namespace dsv3::text
