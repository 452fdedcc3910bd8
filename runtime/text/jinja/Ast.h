// The syntax tree of a template.
#pragma once

#include "runtime/text/jinja/Value.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace dsv3::text::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

/// An argument of a call or filter; `name` is empty for a positional one.
struct Argument {
  std::string name;
  ExprPtr value;
};

struct Expr {
  enum Kind {
    Literal,     ///< literal
    Name,        ///< name
    ListLiteral, ///< operands: elements (tuples too)
    DictLiteral, ///< operands: key, value, key, value, ...
    Attribute,   ///< operands[0].name
    Subscript,   ///< operands[0][operands[1]]
    Slice,       ///< operands[0][operands[1]:operands[2]:operands[3]], absent ones null
    Call,        ///< function `name`, or method `name` of operands[0]; arguments
    Filter,      ///< operands[0] | name(arguments)
    Test,        ///< operands[0] is name, `negated` for `is not`
    Unary,       ///< name is "-", "+" or "not"
    Binary,      ///< name is "+", "-", "*", "/", "//", "%", "~", "and", "or"
    Compare,     ///< operands[0] comparisons[0] operands[1] comparisons[1] ...
    Conditional, ///< operands[0] if operands[1] else operands[2], which may be null
  };
  Kind kind = Literal;
  size_t offset = 0;
  std::string name;
  Value literal;
  std::vector<ExprPtr> operands;
  std::vector<Argument> arguments;
  std::vector<std::string> comparisons; ///< "==", "<", "in", "not in", ...
  bool negated = false;
};

struct Stmt;
using Body = std::vector<Stmt>;

struct Stmt {
  enum Kind {
    Data,     ///< text
    Output,   ///< {{ expr }}
    Set,      ///< names = expr (several: its elements), or names[0].attribute = expr; without expr the text of body
    Macro,    ///< names[0](parameters), what body writes
    If,       ///< branches in order, then orElse
    For,      ///< names in expr, perhaps filtered by condition; orElse when empty
    Break,
    Continue,
  };
  struct Branch;

  Kind kind = Data;
  size_t offset = 0;
  Text text;
  ExprPtr expr, condition;
  std::vector<std::string> names;
  std::string attribute;
  std::vector<Branch> branches;
  std::vector<Argument> parameters; ///< with defaults, where there is one
  Body body, orElse;
};

struct Stmt::Branch {
  ExprPtr condition;
  Body body;
};

} // namespace dsv3::text::jinja
