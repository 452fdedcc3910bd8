#include "runtime/text/jinja/Parser.h"

#include "runtime/text/jinja/ExprParser.h"

#include <initializer_list>
#include <set>
#include <utility>

namespace dsv3::text::jinja {
namespace {

constexpr int kMaxDepth = 100;

/// A macro may be called before it is written: within another one.
std::set<std::string> macroNames(const std::vector<Token> &tokens) {
  std::set<std::string> names;
  for (size_t i = 0; i + 2 < tokens.size(); ++i)
    if (tokens[i].kind == Token::BlockBegin && tokens[i + 1].kind == Token::Name && tokens[i + 1].text == "macro" &&
        tokens[i + 2].kind == Token::Name)
      names.insert(tokens[i + 2].text);
  return names;
}

class Parser {
public:
  Parser(std::string_view source, const std::vector<Token> &list)
      : tokens(source, list), expressions(tokens, macroNames(list)) {}

  Result<Body> run() {
    Body body = parseBody({});
    if (tokens.error())
      return *tokens.error();
    return body;
  }

private:
  /// Statements up to `{% WORD`, WORD being one of `ends`; stops in front of WORD.
  Body parseBody(std::initializer_list<std::string_view> ends);
  Stmt parseStatement();
  Stmt parseSet(size_t offset);
  Stmt parseIf(size_t offset);
  Stmt parseFor(size_t offset);
  Stmt parseMacro(size_t offset);
  void endBlock() { tokens.expect(Token::BlockEnd, "", "'%}'"); }
  std::string parseTarget();

  Stmt make(Stmt::Kind kind, size_t offset) const {
    Stmt stmt;
    stmt.kind = kind;
    stmt.offset = offset;
    return stmt;
  }

  TokenStream tokens;
  ExprParser expressions;
  int depth = 0, loops = 0;
};

Body Parser::parseBody(std::initializer_list<std::string_view> ends) {
  Body body;
  if (++depth > kMaxDepth)
    tokens.unsupported(tokens.peek().offset, "nesting deeper than " + std::to_string(kMaxDepth));
  while (tokens.peek().kind != Token::End) {
    size_t offset = tokens.peek().offset;
    Token token = tokens.next();
    if (token.kind == Token::Data) {
      body.push_back(make(Stmt::Data, offset));
      body.back().text = Text(std::move(token.text), true);
    } else if (token.kind == Token::OutputBegin) {
      body.push_back(make(Stmt::Output, offset));
      body.back().expr = expressions.parseTuple();
      tokens.expect(Token::OutputEnd, "", "'}}'");
    } else {
      for (std::string_view end : ends)
        if (tokens.isName(end)) {
          --depth;
          return body;
        }
      body.push_back(parseStatement());
    }
  }
  if (ends.size() != 0)
    tokens.fail(ExitCode::BadCheckpoint, tokens.peek().offset,
                "expected '" + std::string(*(ends.end() - 1)) + "', got the end of the template");
  --depth;
  return body;
}

Stmt Parser::parseStatement() {
  Token word = tokens.expect(Token::Name, "", "a statement's name");
  if (word.text == "set")
    return parseSet(word.offset);
  if (word.text == "if")
    return parseIf(word.offset);
  if (word.text == "for")
    return parseFor(word.offset);
  if (word.text == "macro")
    return parseMacro(word.offset);
  if (word.text == "break" || word.text == "continue") {
    if (loops == 0)
      tokens.fail(ExitCode::BadCheckpoint, word.offset, "'" + word.text + "' outside a for");
    endBlock();
    return make(word.text == "break" ? Stmt::Break : Stmt::Continue, word.offset);
  }
  for (const char *stray : {"elif", "else", "endif", "endfor", "endset", "endmacro"})
    if (word.text == stray)
      tokens.fail(ExitCode::BadCheckpoint, word.offset,
                  "'" + word.text + "' without its beginning");
  tokens.unsupported(word.offset, "statement '" + word.text + "'");
  return make(Stmt::Data, word.offset);
}

std::string Parser::parseTarget() {
  Token name = tokens.expect(Token::Name, "", "a variable's name");
  for (const char *reserved : {"true", "false", "none", "True", "False", "None", "loop"})
    if (name.text == reserved)
      tokens.fail(ExitCode::BadCheckpoint, name.offset, "cannot assign to '" + name.text + "'");
  return name.text;
}

Stmt Parser::parseSet(size_t offset) {
  Stmt stmt = make(Stmt::Set, offset);
  stmt.names.push_back(parseTarget());
  if (tokens.acceptOperator("."))
    stmt.attribute = tokens.expect(Token::Name, "", "an attribute's name").text;
  while (stmt.attribute.empty() && tokens.acceptOperator(","))
    stmt.names.push_back(parseTarget());
  if (tokens.isOperator("|"))
    tokens.unsupported(offset, "filter of a set block");
  if (tokens.peek().kind == Token::BlockEnd && stmt.names.size() == 1) {
    endBlock();
    stmt.body = parseBody({"endset"});
    tokens.expect(Token::Name, "endset", "'endset'");
    endBlock();
    return stmt;
  }
  tokens.expect(Token::Operator, "=", "'='");
  stmt.expr = expressions.parseTuple();
  endBlock();
  return stmt;
}

Stmt Parser::parseMacro(size_t offset) {
  Stmt stmt = make(Stmt::Macro, offset);
  if (depth > 1) // it would see the names around it
    tokens.unsupported(offset, "macro inside another statement");
  stmt.names.push_back(parseTarget());
  tokens.expect(Token::Operator, "(", "'('");
  while (!tokens.isOperator(")") && tokens.peek().kind != Token::End) {
    Argument parameter;
    parameter.name = parseTarget();
    if (tokens.acceptOperator("="))
      parameter.value = expressions.parse();
    stmt.parameters.push_back(std::move(parameter));
    if (!tokens.acceptOperator(","))
      break;
  }
  tokens.expect(Token::Operator, ")", "')'");
  endBlock();
  int around = std::exchange(loops, 0);
  stmt.body = parseBody({"endmacro"});
  loops = around;
  tokens.expect(Token::Name, "endmacro", "'endmacro'");
  endBlock();
  return stmt;
}

Stmt Parser::parseIf(size_t offset) {
  Stmt stmt = make(Stmt::If, offset);
  do {
    Stmt::Branch branch;
    branch.condition = expressions.parseTuple();
    endBlock();
    branch.body = parseBody({"elif", "else", "endif"});
    stmt.branches.push_back(std::move(branch));
  } while (tokens.acceptName("elif"));
  if (tokens.acceptName("else")) {
    endBlock();
    stmt.orElse = parseBody({"endif"});
  }
  tokens.expect(Token::Name, "endif", "'endif'");
  endBlock();
  return stmt;
}

Stmt Parser::parseFor(size_t offset) {
  Stmt stmt = make(Stmt::For, offset);
  bool parenthesised = tokens.acceptOperator("(");
  do
    stmt.names.push_back(parseTarget());
  while (tokens.acceptOperator(","));
  if (parenthesised)
    tokens.expect(Token::Operator, ")", "')'");
  tokens.expect(Token::Name, "in", "'in'");
  stmt.expr = expressions.parseOr();
  if (tokens.acceptName("if"))
    stmt.condition = expressions.parse();
  if (tokens.isName("recursive"))
    tokens.unsupported(tokens.peek().offset, "recursive for");
  endBlock();
  ++loops;
  stmt.body = parseBody({"else", "endfor"});
  --loops;
  if (tokens.acceptName("else")) {
    endBlock();
    stmt.orElse = parseBody({"endfor"});
  }
  tokens.expect(Token::Name, "endfor", "'endfor'");
  endBlock();
  return stmt;
}

} // namespace

Result<Body> parseTemplate(std::string_view source) {
  Result<std::vector<Token>> tokens = tokenize(source);
  if (!tokens)
    return tokens.error();
  return Parser(source, *tokens).run();
}

} // namespace dsv3::text::jinja
