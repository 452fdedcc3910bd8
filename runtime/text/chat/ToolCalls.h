// Calls of tools in what a model writes, in the formats of the DeepSeek family.
//
//   V3, R1:  <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME\n```json\nARGUMENTS\n```<｜tool▁call▁end｜>
//            ... <｜tool▁calls▁end｜>
//   V3.1:    <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>NAME<｜tool▁sep｜>ARGUMENTS<｜tool▁call▁end｜> ... <｜tool▁calls▁end｜>
//
// (From the chat templates of these models; white space between calls is allowed.)
#pragma once

#include "runtime/text/StopMatcher.h"
#include "runtime/text/chat/JsonExtent.h"

#include <string>
#include <string_view>
#include <vector>

namespace dsv3::text {

enum class ToolFormat {
  None,   ///< the template writes no calls
  Fenced, ///< V3 and R1
  Plain,  ///< V3.1
};

/// The format a template (its source) writes calls in.
ToolFormat toolFormatOf(std::string_view chatTemplate);

/// The text around the parts of calls, as the templates write it: BEGIN CALL BETWEEN CALL ... END, where a CALL is
/// BEFORE_NAME name BEFORE_ARGUMENTS arguments AFTER_ARGUMENTS.
struct ToolSyntax {
  std::string begin, beforeName, beforeArguments, afterArguments, between, end;
};
ToolSyntax toolSyntaxOf(ToolFormat format);

/// The markers in it, which tokenizers of these models have as tokens.
const std::vector<std::string> &toolMarkers();

/// Whether the name of a function can stand in a call.
bool isToolName(std::string_view name);

/// A part of one call, as OpenAI streams them: the first of a call has `id` and `name`, the others arguments only.
struct ToolCallDelta {
  size_t index; ///< of the call in this answer
  std::string id, name, arguments;
};

/// Finds calls in a stream. Arguments are passed on as they come and byte for byte; whether they are JSON is for the
/// client to check, as OpenAI says too. Text outside of calls is content. What begins like a call and is none is content
/// as well, with its markers; a call whose name was already reported and that breaks off keeps the arguments it has. How
/// the stream is cut into pieces does not matter. The decoder must not skip special tokens, which markers may be.
class ToolCallParser {
public:
  struct Piece {
    std::string content;
    std::vector<ToolCallDelta> calls;
  };

  /// `idSeed` is unique to the answer (request and choice): ids of calls are derived from it. `forced`: a guide sees to it that the
  /// answer is calls and nothing else. Then a marker in a string of the arguments is text, and what is around calls, white space, is dropped.
  ToolCallParser(ToolFormat format, std::string idSeed, bool forced = false);

  /// Takes valid UTF-8 and returns what is certain.
  Piece push(std::string_view text);

  /// Ends the stream: what was held back.
  Piece flush();

  /// Calls reported so far. Then the reason for "stop" is "tool_calls".
  size_t calls() const { return count; }

private:
  enum class State { Content, Between, Header, Arguments };
  void between(Piece &piece);
  void header(char c, Piece &piece);
  void arguments(std::string_view &text, Piece &piece);
  void forcedArguments(std::string_view &text, Piece &piece);
  void beginCall(std::string_view name, Piece &piece);
  void giveUp(Piece &piece);
  void addArguments(std::string text, Piece &piece);

  ToolFormat format;
  std::string idSeed;
  bool forced;
  JsonExtent extent; ///< of the arguments, when forced
  State state = State::Content;
  size_t count = 0;
  std::string raw;  ///< all text since the last call, should it turn out to be none
  size_t from = 0;  ///< where in `raw` the current part begins
  StopMatcher begin, end;
};

} // namespace dsv3::text
