// Tells what a model thinks from what it answers.
#pragma once

#include "runtime/text/Segment.h"
#include "runtime/text/StopMatcher.h"

#include <string>
#include <string_view>
#include <vector>

namespace dsv3::text {

/// Where an answer begins, as its prompt leaves it.
enum class ReasoningStart {
  None,   ///< no reasoning: "<think>" means nothing
  Inside, ///< the prompt ends with "<think>": R1, and V3.1 with thinking on
  Opens,  ///< the model may begin with "<think>", white space before it allowed: first templates of R1
};

/// By what the template (not a user) wrote at the end of the prompt; `chatTemplate` is its source. Off when the prompt ends
/// with "</think>", or the template does not know the tag.
ReasoningStart reasoningStart(const std::vector<Segment> &prompt, std::string_view chatTemplate);

/// Cuts a stream at the first "</think>". Tags are dropped, all other text is kept byte for byte (as vLLM's parser
/// deepseek_r1 does); a tag that may have begun is held back. How the stream is cut into pieces does not matter.
class ReasoningSplitter {
public:
  struct Piece {
    std::string reasoning, content;
  };

  explicit ReasoningSplitter(ReasoningStart start);

  /// Takes valid UTF-8 and returns what is certain.
  Piece push(std::string_view text);

  /// Ends the stream: what was held back.
  Piece flush();

  /// The answer has begun.
  bool answers() const { return state == State::Answering; }

private:
  enum class State { Opening, Reasoning, Answering };
  void open(std::string_view &text, Piece &piece);

  State state;
  std::string begin; ///< text that may be white space and an opening tag
  StopMatcher end;
};

} // namespace dsv3::text
