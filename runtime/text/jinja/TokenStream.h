// What the statement and the expression parser share.
#pragma once

#include "runtime/text/jinja/Lexer.h"

#include <optional>

namespace dsv3::text::jinja {

/// A cursor over tokens that remembers the first error. After an error it stands at the
/// end, so that every loop of the parser comes to its end by itself.
class TokenStream {
public:
  TokenStream(std::string_view source, std::vector<Token> tokens)
      : source(source), tokens(std::move(tokens)) {}

  const Token &peek(size_t ahead = 0) const {
    size_t i = position + ahead;
    return tokens[i < tokens.size() ? i : tokens.size() - 1];
  }
  Token next() {
    Token token = peek();
    if (position + 1 < tokens.size())
      ++position;
    return token;
  }
  bool isOperator(std::string_view text) const { return is(Token::Operator, text); }
  bool isName(std::string_view text) const { return is(Token::Name, text); }
  bool acceptOperator(std::string_view text) { return accept(Token::Operator, text); }
  bool acceptName(std::string_view text) { return accept(Token::Name, text); }

  /// Takes a token of this kind (and text, unless empty) or fails.
  Token expect(Token::Kind kind, std::string_view text, const std::string &expected) {
    const Token &token = peek();
    if (token.kind != kind || (!text.empty() && token.text != text))
      fail(ExitCode::BadCheckpoint, token.offset, "expected " + expected + ", got " + show(token));
    return next();
  }

  void unsupported(size_t offset, const std::string &construct) {
    fail(ExitCode::Unsupported, offset, "unsupported " + construct);
  }
  void fail(ExitCode code, size_t offset, const std::string &message) {
    if (!first)
      first = errorAt(code, source, offset, message);
    position = tokens.size() - 1;
  }
  const std::optional<Error> &error() const { return first; }

  static std::string show(const Token &token) {
    switch (token.kind) {
    case Token::Data: return "text";
    case Token::BlockBegin: return "'{%'";
    case Token::BlockEnd: return "'%}'";
    case Token::OutputBegin: return "'{{'";
    case Token::OutputEnd: return "'}}'";
    case Token::String: return "a string";
    case Token::End: return "the end of the template";
    default: return "'" + token.text + "'";
    }
  }

private:
  bool is(Token::Kind kind, std::string_view text) const {
    return peek().kind == kind && peek().text == text;
  }
  bool accept(Token::Kind kind, std::string_view text) {
    bool found = is(kind, text);
    if (found)
      next();
    return found;
  }

  std::string_view source;
  std::vector<Token> tokens;
  size_t position = 0;
  std::optional<Error> first;
};

} // namespace dsv3::text::jinja
