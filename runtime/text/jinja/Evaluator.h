// Runs a syntax tree.
#pragma once

#include "runtime/text/jinja/Ast.h"
#include "runtime/text/jinja/Builtins.h"

#include <map>
#include <optional>
#include <string_view>

namespace dsv3::text::jinja {

using Scope = std::map<std::string, Value>;

/// One evaluation of a template. The first error wins: after it, expressions are
/// undefined and statements do nothing.
class Evaluator {
public:
  /// `source` is the normalised template, for positions in messages.
  Evaluator(std::string_view source, Scope globals) : source(source) {
    scopes.push_back(std::move(globals));
  }

  /// The text of `body`. Errors: Usage for raise_exception (the template refuses the
  /// messages), BadCheckpoint when it mishandles types, Unsupported as in Builtins.h,
  /// DoesNotFit for output of more than 64 MiB and for more work than any prompt needs.
  Result<Text> run(const Body &body);

private:
  enum class Flow { Next, Break, Continue };

  Flow execute(const Body &body, Text &out);
  Flow execute(const Stmt &stmt, Text &out);
  Flow executeIf(const Stmt &stmt, Text &out);
  Flow executeFor(const Stmt &stmt, Text &out);
  void executeSet(const Stmt &stmt);
  bool bindTargets(const Stmt &stmt, const Value &item);
  Value callMacro(const Expr &expr, const Stmt &macro, Arguments arguments);
  Value evaluateRange(const Expr &expr, const Arguments &arguments);
  Value evaluateNamespace(const Expr &expr, Arguments arguments);
  Value refuse(const Expr &expr, const Arguments &arguments);
  Value evaluateKind(const Expr &expr);
  bool spend(size_t offset, size_t cost);
  void append(size_t offset, const Text &text, Text &out);

  Value evaluate(const Expr &expr);
  Value evaluateName(const Expr &expr);
  Value evaluateDict(const Expr &expr);
  Value evaluateCall(const Expr &expr);
  Value evaluateUnary(const Expr &expr);
  Value evaluateBinary(const Expr &expr);
  Value evaluateArithmetic(const Expr &expr, const Value &left, const Value &right);
  Value evaluateCompare(const Expr &expr);
  bool compare(const Expr &expr, const std::string &op, const Value &left, const Value &right);
  Value attribute(const Expr &expr, const Value &object, const Value &key);
  Value evaluateSlice(const Expr &expr);
  Arguments evaluateArguments(const Expr &expr);

  /// Unwraps, or records the error at `offset`.
  template <typename T> T check(size_t offset, Result<T> result) {
    if (result)
      return std::move(*result);
    fail(result.error().code, offset, result.error().message);
    return T();
  }
  void fail(ExitCode code, size_t offset, const std::string &message);
  bool failed() const { return error.has_value(); }

  std::string_view source;
  std::vector<Scope> scopes; ///< innermost last; each iteration of a for has its own
  std::map<std::string, const Stmt *> macros;
  int calls = 0;    ///< of macros, one inside the other
  size_t spent = 0; ///< of the budget of work
  std::optional<Error> error;
};

} // namespace dsv3::text::jinja
