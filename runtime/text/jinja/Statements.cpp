// The evaluator's statements; its expressions are in Expressions.cpp.
#include "runtime/text/jinja/Evaluator.h"

#include "runtime/text/jinja/Lexer.h"

#include <algorithm>
#include <iterator>

namespace dsv3::text::jinja {
namespace {

/// No prompt is that long; a template that doubles a string in a loop is stopped here.
constexpr size_t kMaxOutput = size_t(64) << 20;

/// Expressions and statements that may be evaluated; handling 64 bytes of text counts as one more. About two seconds.
constexpr size_t kMostWork = 10'000'000;
/// What scopes cost, in the same units.
constexpr size_t kScopeWork = 16;
constexpr int kMostCalls = 40;

Value makeLoop(const List &items, size_t index) {
  auto number = [](size_t n) { return Value(static_cast<int64_t>(n)); };
  Dict loop;
  loop.set("index", number(index + 1));
  loop.set("index0", number(index));
  loop.set("revindex", number(items.size() - index));
  loop.set("revindex0", number(items.size() - index - 1));
  loop.set("first", Value(index == 0));
  loop.set("last", Value(index + 1 == items.size()));
  loop.set("length", number(items.size()));
  if (index > 0)
    loop.set("previtem", items[index - 1]);
  if (index + 1 < items.size())
    loop.set("nextitem", items[index + 1]);
  return Value(std::move(loop));
}

} // namespace

Result<Text> Evaluator::run(const Body &body) {
  Text out;
  execute(body, out);
  if (error)
    return *error;
  return out;
}

void Evaluator::fail(ExitCode code, size_t offset, const std::string &message) {
  if (!error)
    error = errorAt(code, source, offset, message);
}

/// False when there has been too much work: nested loops and macros need not come to an end soon.
bool Evaluator::spend(size_t offset, size_t cost) {
  spent += cost;
  if (spent > kMostWork)
    fail(ExitCode::DoesNotFit, offset, "expected a template that is done after " + std::to_string(kMostWork) + " steps, got more");
  return !failed();
}

Evaluator::Flow Evaluator::execute(const Body &body, Text &out) {
  for (const Stmt &stmt : body) {
    Flow flow = execute(stmt, out);
    if (failed() || flow != Flow::Next)
      return flow;
  }
  return Flow::Next;
}

Evaluator::Flow Evaluator::execute(const Stmt &stmt, Text &out) {
  if (!spend(stmt.offset, 1))
    return Flow::Next;
  switch (stmt.kind) {
  case Stmt::Macro:
    macros[stmt.names.front()] = &stmt;
    return Flow::Next;
  case Stmt::Data:
    append(stmt.offset, stmt.text, out);
    return Flow::Next;
  case Stmt::Output: {
    Value value = evaluate(*stmt.expr);
    append(stmt.offset, check(stmt.expr->offset, toText(value)), out);
    return Flow::Next;
  }
  case Stmt::Set:
    executeSet(stmt);
    return Flow::Next;
  case Stmt::If:
    return executeIf(stmt, out);
  case Stmt::For:
    return executeFor(stmt, out);
  case Stmt::Break:
    return Flow::Break;
  case Stmt::Continue:
    return Flow::Continue;
  }
  return Flow::Next;
}

void Evaluator::append(size_t offset, const Text &text, Text &out) {
  if (text.size() > kMaxOutput - out.size())
    fail(ExitCode::DoesNotFit, offset, "expected at most 64 MiB of output, got more");
  else
    out += text;
  spend(offset, text.size() / 64);
}

/// Parameters are bound from left to right; what was not given and has no default is undefined. A macro sees the outermost
/// names and its parameters, not those around its call.
Value Evaluator::callMacro(const Expr &expr, const Stmt &macro, Arguments arguments) {
  if (calls >= kMostCalls) {
    fail(ExitCode::DoesNotFit, expr.offset, "expected at most " + std::to_string(kMostCalls) + " calls of macros, one inside the other");
    return Value();
  }
  if (!spend(expr.offset, kScopeWork))
    return Value();
  std::vector<Scope> around(std::make_move_iterator(scopes.begin() + 1), std::make_move_iterator(scopes.end()));
  scopes.resize(1);
  scopes.emplace_back();
  size_t used = 0;
  for (size_t i = 0; i < macro.parameters.size() && !failed(); ++i) {
    const Argument &parameter = macro.parameters[i];
    Value value = Value::undefined(parameter.name);
    auto named = std::find_if(arguments.named.begin(), arguments.named.end(), [&](auto &a) { return a.first == parameter.name; });
    if (i < arguments.positional.size())
      value = arguments.positional[i];
    else if (named != arguments.named.end())
      value = named->second, ++used;
    else if (parameter.value)
      value = evaluate(*parameter.value);
    scopes.back()[parameter.name] = std::move(value);
  }
  if (arguments.positional.size() > macro.parameters.size() || used < arguments.named.size())
    fail(ExitCode::BadCheckpoint, expr.offset, "expected the parameters of macro '" + expr.name + "', got others");
  Text out;
  ++calls;
  execute(macro.body, out);
  --calls;
  scopes.resize(1);
  for (Scope &scope : around)
    scopes.push_back(std::move(scope));
  return Value(std::move(out));
}

void Evaluator::executeSet(const Stmt &stmt) {
  Value value;
  if (stmt.expr) {
    value = evaluate(*stmt.expr);
  } else {
    Text text;
    scopes.emplace_back(); // names set inside stay inside
    execute(stmt.body, text);
    scopes.pop_back();
    value = Value(std::move(text));
  }
  if (failed())
    return;
  if (stmt.names.size() > 1) {
    bindTargets(stmt, value);
    return;
  }
  const std::string &name = stmt.names.front();
  if (stmt.attribute.empty()) {
    scopes.back()[name] = std::move(value);
    return;
  }
  for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope) {
    auto found = scope->find(name);
    if (found == scope->end())
      continue;
    Dict *ns = found->second.asNamespace();
    if (ns && value.holdsNamespace())
      fail(ExitCode::Unsupported, stmt.offset, "a namespace as '" + name + "." + stmt.attribute + "'");
    else if (ns)
      ns->set(stmt.attribute, std::move(value));
    else
      fail(ExitCode::BadCheckpoint, stmt.offset,
           "expected '" + name + "' to be a namespace, got " + found->second.typeName());
    return;
  }
  fail(ExitCode::BadCheckpoint, stmt.offset, "expected a namespace, got undefined '" + name + "'");
}

Evaluator::Flow Evaluator::executeIf(const Stmt &stmt, Text &out) {
  for (const Stmt::Branch &branch : stmt.branches) {
    bool taken = evaluate(*branch.condition).truthy();
    if (failed())
      return Flow::Next;
    if (taken)
      return execute(branch.body, out);
  }
  return execute(stmt.orElse, out);
}

bool Evaluator::bindTargets(const Stmt &stmt, const Value &item) {
  Scope &scope = scopes.back();
  if (stmt.names.size() == 1) {
    scope[stmt.names.front()] = item;
    return true;
  }
  const List *parts = item.asList();
  if (!parts || parts->size() != stmt.names.size()) {
    fail(ExitCode::BadCheckpoint, stmt.offset,
         "expected elements of " + std::to_string(stmt.names.size()) + " values, got " +
             (parts ? std::to_string(parts->size()) : item.typeName()));
    return false;
  }
  for (size_t i = 0; i < parts->size(); ++i)
    scope[stmt.names[i]] = (*parts)[i];
  return true;
}

Evaluator::Flow Evaluator::executeFor(const Stmt &stmt, Text &out) {
  List items = check(stmt.expr->offset, toList(evaluate(*stmt.expr)));
  if (stmt.condition) {
    List kept;
    if (!spend(stmt.offset, kScopeWork * items.size()))
      return Flow::Next;
    for (Value &item : items) {
      scopes.emplace_back();
      if (bindTargets(stmt, item) && evaluate(*stmt.condition).truthy())
        kept.push_back(std::move(item));
      scopes.pop_back();
    }
    items = std::move(kept);
  }
  if (!spend(stmt.offset, kScopeWork * items.size()))
    return Flow::Next;
  for (size_t i = 0; i < items.size(); ++i) {
    scopes.emplace_back();
    scopes.back()["loop"] = makeLoop(items, i);
    Flow flow = bindTargets(stmt, items[i]) ? execute(stmt.body, out) : Flow::Next;
    scopes.pop_back();
    if (failed() || flow == Flow::Break)
      return Flow::Next;
  }
  if (items.empty()) {
    scopes.emplace_back();
    Flow flow = execute(stmt.orElse, out);
    scopes.pop_back();
    return flow;
  }
  return Flow::Next;
}

} // namespace dsv3::text::jinja
