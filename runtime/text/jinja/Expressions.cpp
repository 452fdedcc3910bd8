// The evaluator's expressions; its statements are in Statements.cpp.
#include "runtime/text/jinja/Evaluator.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace dsv3::text::jinja {
namespace {

constexpr size_t kMaxText = size_t(64) << 20;

/// Python also repeats, formats and divides other things than numbers; we do not.
Error mismatch(const std::string &op, const Value &left, const Value &right) {
  if (op != "+" && op != "-" && op[0] != '<' && op[0] != '>')
    return unsupportedError("unsupported '" + op + "' of " + left.typeName() + " and " +
                            right.typeName());
  return checkpointError("expected operands that '" + op + "' can take, got " + left.typeName() +
                         " and " + right.typeName());
}

/// Python's slice.indices: where to begin and where to end, for either direction.
std::vector<int64_t> sliceEnds(int64_t size, const int64_t *start, const int64_t *stop, int64_t step) {
  auto clamp = [&](int64_t i, int64_t low, int64_t high) {
    if (i < 0)
      i = std::max(i, -size - 1) + size;
    return std::max(low, std::min(high, i));
  };
  int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  return {start ? clamp(*start, low, high) : step > 0 ? low : high, stop ? clamp(*stop, low, high) : step > 0 ? high : low};
}

/// Positions inside [0, size).
std::vector<size_t> sliceIndices(int64_t size, const int64_t *start, const int64_t *stop, int64_t step) {
  std::vector<int64_t> ends = sliceEnds(size, start, stop, step);
  std::vector<size_t> indices;
  // A step beyond the size visits one element either way, and cannot overflow.
  step = std::max(-size - 1, std::min(size + 1, step));
  for (int64_t i = ends[0]; step > 0 ? i < ends[1] : i > ends[1]; i += step)
    indices.push_back(static_cast<size_t>(i));
  return indices;
}

Result<Value> integerArithmetic(const std::string &op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;
  if (op == "+")
    overflow = __builtin_add_overflow(a, b, &result);
  else if (op == "-")
    overflow = __builtin_sub_overflow(a, b, &result);
  else if (op == "*")
    overflow = __builtin_mul_overflow(a, b, &result);
  else if (b == 0)
    return checkpointError("division by zero");
  else if (op == "/")
    return Value(static_cast<double>(a) / static_cast<double>(b));
  else if (b == -1) // the one quotient that can overflow; the remainder is 0
    overflow = op == "//" && __builtin_sub_overflow(int64_t(0), a, &result);
  else {
    int64_t quotient = a / b - ((a % b != 0) && ((a < 0) != (b < 0))); // Python rounds down
    result = op == "//" ? quotient : a - quotient * b;
  }
  if (overflow)
    return unsupportedError("integer beyond 64 bits");
  return Value(result);
}

} // namespace

/// Freeing, comparing and printing a value recurse as deep as it is nested. JSON of a request is at most 100 deep.
constexpr int kDeepest = 200;

/// What a value costs to make and to copy.
static size_t costOf(const Value &value) { return value.asText() ? value.asText()->size() / 64 : value.asList() ? value.asList()->size() / 4 : 0; }

Value Evaluator::evaluate(const Expr &expr) {
  if (!spend(expr.offset, 1))
    return Value();
  Value value = evaluateKind(expr);
  if (value.depth() > kDeepest)
    fail(ExitCode::DoesNotFit, expr.offset, "expected lists and dicts nested at most " + std::to_string(kDeepest) + " deep, got more");
  return spend(expr.offset, costOf(value)) ? value : Value();
}

Value Evaluator::evaluateKind(const Expr &expr) {
  switch (expr.kind) {
  case Expr::Literal:
    return expr.literal;
  case Expr::Name:
    return evaluateName(expr);
  case Expr::ListLiteral: {
    List list;
    for (const ExprPtr &element : expr.operands)
      list.push_back(evaluate(*element));
    return Value(std::move(list));
  }
  case Expr::DictLiteral:
    return evaluateDict(expr);
  case Expr::Attribute:
    return attribute(expr, evaluate(*expr.operands[0]), Value(Text(expr.name, true)));
  case Expr::Subscript: {
    Value object = evaluate(*expr.operands[0]);
    return attribute(expr, object, evaluate(*expr.operands[1]));
  }
  case Expr::Slice:
    return evaluateSlice(expr);
  case Expr::Call:
    return evaluateCall(expr);
  case Expr::Filter: {
    Value input = evaluate(*expr.operands[0]);
    Arguments arguments = evaluateArguments(expr);
    return failed() ? Value() : check(expr.offset, applyFilter(expr.name, input, arguments));
  }
  case Expr::Test: {
    Value input = evaluate(*expr.operands[0]);
    Arguments arguments = evaluateArguments(expr);
    return failed() ? Value() : Value(check(expr.offset, applyTest(expr.name, input, arguments)) != expr.negated);
  }
  case Expr::Unary:
    return evaluateUnary(expr);
  case Expr::Binary:
    return evaluateBinary(expr);
  case Expr::Compare:
    return evaluateCompare(expr);
  case Expr::Conditional:
    if (evaluate(*expr.operands[1]).truthy())
      return evaluate(*expr.operands[0]);
    return expr.operands[2] ? evaluate(*expr.operands[2]) : Value();
  }
  return Value();
}

Value Evaluator::evaluateName(const Expr &expr) {
  for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope)
    if (auto found = scope->find(expr.name); found != scope->end())
      return found->second;
  return Value::undefined(expr.name);
}

Value Evaluator::evaluateDict(const Expr &expr) {
  Dict dict;
  for (size_t i = 0; i < expr.operands.size(); i += 2) {
    Value key = evaluate(*expr.operands[i]);
    if (!key.asText()) {
      fail(ExitCode::Unsupported, expr.operands[i]->offset,
           "unsupported dict key: expected a string, got " + key.typeName());
      return Value();
    }
    dict.set(key.asText()->bytes(), evaluate(*expr.operands[i + 1]));
  }
  return Value(std::move(dict));
}

/// `object.key` and `object[key]`. What a dict, list or string does not have is
/// undefined; looking inside an undefined value is an error, as in Jinja.
Value Evaluator::attribute(const Expr &expr, const Value &object, const Value &key) {
  if (failed())
    return Value();
  if (object.isUndefined()) {
    fail(ExitCode::BadCheckpoint, expr.offset, "cannot look inside " + object.typeName());
    return Value();
  }
  std::string name = key.asText() ? key.asText()->bytes() : "";
  const Dict *dict = object.asDict() ? object.asDict() : object.asNamespace();
  if (dict && key.asText()) {
    const Value *found = dict->find(name);
    if (!found && object.asDict() && isMethod(name))
      fail(ExitCode::Unsupported, expr.offset, "unsupported use of method '" + name +
                                                   "' without a call");
    return found ? *found : Value::undefined(name);
  }
  if (const int64_t *index = key.asInt(); index && (object.asList() || object.asText())) {
    const List *items = object.asList();
    int64_t size = static_cast<int64_t>(items ? items->size() : object.asText()->length());
    int64_t i = *index < 0 ? *index + size : *index;
    if (i < 0 || i >= size)
      return Value();
    return items ? (*items)[size_t(i)] : Value(object.asText()->slice(size_t(i), size_t(i) + 1));
  }
  return Value::undefined(name);
}

Value Evaluator::evaluateSlice(const Expr &expr) {
  Value object = evaluate(*expr.operands[0]);
  Value bounds[3];
  const int64_t *numbers[3] = {};
  for (int i = 0; i < 3; ++i) {
    const ExprPtr &bound = expr.operands[static_cast<size_t>(i) + 1];
    bounds[i] = bound ? evaluate(*bound) : Value::none();
    numbers[i] = bounds[i].asInt();
    if (!numbers[i] && !bounds[i].isNone())
      fail(ExitCode::BadCheckpoint, expr.offset,
           "expected integers in the slice, got " + bounds[i].typeName());
  }
  int64_t step = numbers[2] ? *numbers[2] : 1;
  if (step == 0)
    fail(ExitCode::BadCheckpoint, expr.offset, "expected a slice step other than 0");
  if (!object.asText() && !object.asList())
    fail(ExitCode::BadCheckpoint, expr.offset,
         "expected a list or string to slice, got " + object.typeName());
  if (failed())
    return Value();
  const List *items = object.asList();
  auto size = static_cast<int64_t>(items ? items->size() : object.asText()->length());
  if (!items && step == 1) { // as ever so often; texts may be long
    std::vector<int64_t> ends = sliceEnds(size, numbers[0], numbers[1], step);
    return Value(object.asText()->slice(size_t(ends[0]), size_t(std::max(ends[0], ends[1]))));
  }
  List all = check(expr.offset, toList(object)), picked;
  if (failed())
    return Value();
  for (size_t i : sliceIndices(size, numbers[0], numbers[1], step))
    picked.push_back(all[i]);
  if (object.asList())
    return Value(std::move(picked));
  Text text;
  for (const Value &c : picked)
    text += *c.asText();
  return Value(std::move(text));
}

Arguments Evaluator::evaluateArguments(const Expr &expr) {
  Arguments result;
  for (const Argument &argument : expr.arguments) {
    Value value = evaluate(*argument.value);
    if (argument.name.empty())
      result.positional.push_back(std::move(value));
    else
      result.named.emplace_back(argument.name, std::move(value));
  }
  return result;
}

Value Evaluator::evaluateCall(const Expr &expr) {
  Value self = expr.operands.empty() ? Value() : evaluate(*expr.operands[0]);
  Arguments arguments = evaluateArguments(expr);
  if (failed())
    return Value();
  if (!expr.operands.empty())
    return check(expr.offset, callMethod(expr.name, self, arguments));
  if (auto macro = macros.find(expr.name); macro != macros.end())
    return callMacro(expr, *macro->second, std::move(arguments));
  if (!isFunction(expr.name)) {
    fail(ExitCode::BadCheckpoint, expr.offset, "macro '" + expr.name + "' is called before it is there");
    return Value();
  }
  return expr.name == "raise_exception" ? refuse(expr, arguments)
         : expr.name == "range"         ? evaluateRange(expr, arguments)
                                        : evaluateNamespace(expr, std::move(arguments));
}

Value Evaluator::refuse(const Expr &expr, const Arguments &arguments) {
  const List &given = arguments.positional;
  const Text *text = given.size() == 1 ? given[0].asText() : nullptr;
  std::string reason = text ? text->bytes() : "no reason given";
  std::replace_if(reason.begin(), reason.end(), [](unsigned char c) { return c < 0x20; }, ' ');
  fail(ExitCode::Usage, expr.offset, "the template refuses the messages: " + reason);
  return Value();
}

Value Evaluator::evaluateNamespace(const Expr &expr, Arguments arguments) {
  Dict members;
  for (const Value &value : arguments.positional) {
    if (!value.asDict())
      fail(ExitCode::BadCheckpoint, expr.offset, "expected a dict as argument of namespace, got " + value.typeName());
    else
      for (const auto &[name, member] : value.asDict()->entries())
        members.set(name, member);
  }
  for (auto &[name, value] : arguments.named)
    members.set(name, std::move(value));
  for (const auto &[name, value] : members.entries())
    if (value.holdsNamespace())
      fail(ExitCode::Unsupported, expr.offset, "a namespace as '" + name + "' of a namespace");
  return Value::makeNamespace(std::move(members));
}

Value Evaluator::evaluateRange(const Expr &expr, const Arguments &arguments) {
  int64_t numbers[3] = {0, 0, 1};
  const List &given = arguments.positional;
  bool ok = !given.empty() && given.size() <= 3 && arguments.named.empty();
  for (size_t i = 0; ok && i < given.size(); ++i) {
    ok = given[i].asInt() && std::abs(*given[i].asInt()) < (int64_t(1) << 40);
    numbers[given.size() == 1 ? 1 : i] = ok ? *given[i].asInt() : 0;
  }
  auto [from, to, step] = numbers;
  if (!ok || step == 0) {
    fail(ExitCode::BadCheckpoint, expr.offset, "expected one to three integers below 2^40 for range, the last not 0");
    return Value();
  }
  List list;
  for (int64_t i = from; step > 0 ? i < to : i > to; i += step) {
    if (list.size() >= 100'000) { // as Jinja's sandbox
      fail(ExitCode::DoesNotFit, expr.offset, "expected a range of at most 100000 numbers, got more");
      return Value();
    }
    list.push_back(Value(i));
  }
  return Value(std::move(list));
}

Value Evaluator::evaluateUnary(const Expr &expr) {
  Value operand = evaluate(*expr.operands[0]);
  if (failed())
    return Value();
  if (expr.name == "not")
    return Value(!operand.truthy());
  if (const int64_t *i = operand.asInt())
    return expr.name == "+" ? operand : check(expr.offset, integerArithmetic("-", 0, *i));
  if (const double *d = operand.asFloat())
    return Value(expr.name == "+" ? *d : -*d);
  fail(ExitCode::BadCheckpoint, expr.offset, "expected a number, got " + operand.typeName());
  return Value();
}

Value Evaluator::evaluateBinary(const Expr &expr) {
  Value left = evaluate(*expr.operands[0]);
  if (expr.name == "and")
    return left.truthy() ? evaluate(*expr.operands[1]) : left;
  if (expr.name == "or")
    return left.truthy() ? left : evaluate(*expr.operands[1]);
  Value right = evaluate(*expr.operands[1]);
  if (failed())
    return Value();
  if (expr.name != "~" && !(expr.name == "+" && left.asText() && right.asText()))
    return evaluateArithmetic(expr, left, right);
  Text joined = check(expr.offset, toText(left));
  Text tail = check(expr.offset, toText(right));
  if (joined.size() + tail.size() > kMaxText) {
    fail(ExitCode::DoesNotFit, expr.offset, "expected a string of at most 64 MiB, got more");
    return Value();
  }
  joined += tail;
  return Value(std::move(joined));
}

Value Evaluator::evaluateArithmetic(const Expr &expr, const Value &left, const Value &right) {
  const std::string &op = expr.name;
  if (left.asInt() && right.asInt())
    return check(expr.offset, integerArithmetic(op, *left.asInt(), *right.asInt()));
  if (op == "+" && left.asList() && right.asList()) {
    List joined = *left.asList();
    joined.insert(joined.end(), right.asList()->begin(), right.asList()->end());
    return Value(std::move(joined));
  }
  if (const int64_t *times = left.asText() ? right.asInt() : nullptr; times && op == "*") {
    const Text &text = *left.asText();
    if (*times > 0 && text.size() > kMaxText / size_t(*times)) {
      fail(ExitCode::DoesNotFit, expr.offset, "expected a string of at most 64 MiB, got more");
      return Value();
    }
    Text repeated;
    for (int64_t i = 0; i < *times && !text.empty(); ++i)
      repeated += text;
    return Value(std::move(repeated));
  }
  double a, b;
  if (left.toNumber(a) && right.toNumber(b) && (op == "+" || op == "-" || op == "*"))
    return Value(op == "+" ? a + b : op == "-" ? a - b : a * b);
  Error error = mismatch(op, left, right);
  fail(error.code, expr.offset, error.message);
  return Value();
}

Value Evaluator::evaluateCompare(const Expr &expr) {
  Value left = evaluate(*expr.operands[0]);
  for (size_t i = 0; i < expr.comparisons.size(); ++i) {
    Value right = evaluate(*expr.operands[i + 1]);
    if (failed() || !compare(expr, expr.comparisons[i], left, right))
      return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

bool Evaluator::compare(const Expr &expr, const std::string &op, const Value &left,
                        const Value &right) {
  if (op == "==" || op == "!=")
    return equals(left, right) == (op == "==");
  if (op == "in" || op == "not in")
    return check(expr.offset, contains(right, left)) == (op == "in");
  Result<int> compared = compareValues(left, right);
  if (!compared) {
    Error error = mismatch(op, left, right);
    fail(error.code, expr.offset, error.message);
    return false;
  }
  int order = *compared;
  return op == "<" ? order < 0 : op == ">" ? order > 0 : op == "<=" ? order <= 0 : order >= 0;
}

} // namespace dsv3::text::jinja
