// Text with its origin, so that a user's words can never act as control tokens.
#pragma once

#include <string>

namespace dsv3::text {

/// A piece of a prompt. Trusted text comes from the chat template or the operator, and
/// names of special tokens in it become those tokens; untrusted text comes from
/// messages and is plain text whatever it says. Both are UTF-8.
struct Segment {
  std::string text;
  bool trusted = false;
};

} // namespace dsv3::text
