// The expression half of the parser.
#pragma once

#include "runtime/text/jinja/Ast.h"
#include "runtime/text/jinja/TokenStream.h"

#include <set>
#include <string>
#include <utility>

namespace dsv3::text::jinja {

/// Recursive descent with Jinja's precedences, loosest first: inline if, or, and, not,
/// comparisons, + -, ~, * / // %, unary + -, then postfix, filters and tests.
/// Always returns a tree; whether it means anything, `tokens.error()` says.
class ExprParser {
public:
  /// `macros` are the names of the template's own functions.
  ExprParser(TokenStream &tokens, std::set<std::string> macros) : tokens(tokens), macros(std::move(macros)) {}

  /// An expression, or with a comma behind it a tuple (a list to us).
  ExprPtr parseTuple();
  ExprPtr parse();

  /// Without a trailing inline if: the iterable of `for x in y if z`.
  ExprPtr parseOr();

private:
  ExprPtr parseAnd();
  ExprPtr parseNot();
  ExprPtr parseCompare();
  ExprPtr parseSum();
  ExprPtr parseConcat();
  ExprPtr parseProduct();
  ExprPtr parseUnary(bool withFilters = true);
  ExprPtr parsePrimary();
  ExprPtr parseName();
  ExprPtr parseNumber();
  ExprPtr parseParenthesis();
  ExprPtr parseList();
  ExprPtr parseDict();
  ExprPtr parsePostfix(ExprPtr expr);
  ExprPtr parseSubscript(ExprPtr object);
  ExprPtr parseCall(ExprPtr callee);
  ExprPtr parseFiltersAndTests(ExprPtr expr);
  ExprPtr parseFilter(ExprPtr input);
  ExprPtr parseTest(ExprPtr input);
  std::vector<Argument> parseArguments();

  ExprPtr make(Expr::Kind kind, size_t offset, std::string name = "") const;
  ExprPtr binary(ExprPtr left, const Token &op, ExprPtr right) const;

  /// Bound what recursion over the tree can cost: nesting, and operators that chain to
  /// the left, which build a deep tree without any nesting in the text.
  void enter();
  void countLink();

  TokenStream &tokens;
  std::set<std::string> macros;
  int depth = 0, links = 0;
};

} // namespace dsv3::text::jinja
