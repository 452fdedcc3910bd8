#include "runtime/text/jinja/ExprParser.h"

#include "runtime/text/jinja/Builtins.h"

#include <cstdlib>

namespace dsv3::text::jinja {
namespace {

constexpr int kMaxDepth = 200;
constexpr int kMaxLinks = 2000;

} // namespace

void ExprParser::enter() {
  if (++depth > kMaxDepth)
    tokens.unsupported(tokens.peek().offset, "nesting deeper than " + std::to_string(kMaxDepth));
}

void ExprParser::countLink() {
  if (++links > kMaxLinks)
    tokens.unsupported(tokens.peek().offset,
                       "expression of more than " + std::to_string(kMaxLinks) + " operators");
}

ExprPtr ExprParser::make(Expr::Kind kind, size_t offset, std::string name) const {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->offset = offset;
  expr->name = std::move(name);
  return expr;
}

ExprPtr ExprParser::binary(ExprPtr left, const Token &op, ExprPtr right) const {
  ExprPtr expr = make(Expr::Binary, op.offset, op.text);
  expr->operands.push_back(std::move(left));
  expr->operands.push_back(std::move(right));
  return expr;
}

ExprPtr ExprParser::parseTuple() {
  size_t offset = tokens.peek().offset;
  ExprPtr first = parse();
  if (!tokens.isOperator(","))
    return first;
  ExprPtr tuple = make(Expr::ListLiteral, offset);
  tuple->operands.push_back(std::move(first));
  while (tokens.acceptOperator(",")) {
    if (tokens.isOperator(")") || tokens.peek().kind == Token::BlockEnd)
      break;
    tuple->operands.push_back(parse());
  }
  return tuple;
}

ExprPtr ExprParser::parse() {
  if (depth == 0)
    links = 0;
  enter();
  ExprPtr value = parseOr();
  while (tokens.isName("if")) {
    countLink();
    ExprPtr conditional = make(Expr::Conditional, tokens.next().offset);
    conditional->operands.push_back(std::move(value));
    conditional->operands.push_back(parseOr());
    conditional->operands.push_back(tokens.acceptName("else") ? parse() : nullptr);
    value = std::move(conditional);
  }
  --depth;
  return value;
}

ExprPtr ExprParser::parseOr() {
  ExprPtr left = parseAnd();
  while (tokens.isName("or")) {
    countLink();
    Token op = tokens.next();
    left = binary(std::move(left), op, parseAnd());
  }
  return left;
}

ExprPtr ExprParser::parseAnd() {
  ExprPtr left = parseNot();
  while (tokens.isName("and")) {
    countLink();
    Token op = tokens.next();
    left = binary(std::move(left), op, parseNot());
  }
  return left;
}

ExprPtr ExprParser::parseNot() {
  if (!tokens.isName("not"))
    return parseCompare();
  enter();
  ExprPtr expr = make(Expr::Unary, tokens.next().offset, "not");
  expr->operands.push_back(parseNot());
  --depth;
  return expr;
}

ExprPtr ExprParser::parseCompare() {
  size_t offset = tokens.peek().offset;
  ExprPtr first = parseSum();
  ExprPtr compare;
  while (true) {
    const Token &token = tokens.peek();
    bool notIn = tokens.isName("not") && tokens.peek(1).kind == Token::Name &&
                 tokens.peek(1).text == "in";
    bool isComparison = token.kind == Token::Operator &&
                        (token.text == "==" || token.text == "!=" || token.text == "<" ||
                         token.text == ">" || token.text == "<=" || token.text == ">=");
    if (!isComparison && !notIn && !tokens.isName("in"))
      break;
    if (!compare) {
      compare = make(Expr::Compare, offset);
      compare->operands.push_back(std::move(first));
    }
    std::string op = tokens.next().text;
    if (notIn)
      op += " " + tokens.next().text;
    compare->comparisons.push_back(op);
    compare->operands.push_back(parseSum());
  }
  return compare ? std::move(compare) : std::move(first);
}

ExprPtr ExprParser::parseSum() {
  ExprPtr left = parseConcat();
  while (tokens.isOperator("+") || tokens.isOperator("-")) {
    countLink();
    Token op = tokens.next();
    left = binary(std::move(left), op, parseConcat());
  }
  return left;
}

ExprPtr ExprParser::parseConcat() {
  ExprPtr left = parseProduct();
  while (tokens.isOperator("~")) {
    countLink();
    Token op = tokens.next();
    left = binary(std::move(left), op, parseProduct());
  }
  return left;
}

ExprPtr ExprParser::parseProduct() {
  ExprPtr left = parseUnary();
  while (tokens.isOperator("*") || tokens.isOperator("/") || tokens.isOperator("//") ||
                  tokens.isOperator("%")) {
    countLink();
    Token op = tokens.next();
    left = binary(std::move(left), op, parseUnary());
  }
  if (tokens.isOperator("**"))
    tokens.unsupported(tokens.peek().offset, "operator '**'");
  return left;
}

ExprPtr ExprParser::parseUnary(bool withFilters) {
  ExprPtr expr;
  if (tokens.isOperator("-") || tokens.isOperator("+")) {
    enter();
    Token op = tokens.next();
    expr = make(Expr::Unary, op.offset, op.text);
    expr->operands.push_back(parseUnary(false));
    --depth;
  } else {
    expr = parsePrimary();
  }
  expr = parsePostfix(std::move(expr));
  return withFilters ? parseFiltersAndTests(std::move(expr)) : std::move(expr);
}

ExprPtr ExprParser::parsePrimary() {
  const Token &token = tokens.peek();
  switch (token.kind) {
  case Token::Name:
    return parseName();
  case Token::Integer:
  case Token::Float:
    return parseNumber();
  case Token::String: {
    ExprPtr expr = make(Expr::Literal, token.offset);
    std::string text;
    while (tokens.peek().kind == Token::String) // neighbours join, as in Python
      text += tokens.next().text;
    expr->literal = Text(std::move(text), true);
    return expr;
  }
  default:
    if (tokens.isOperator("("))
      return parseParenthesis();
    if (tokens.isOperator("["))
      return parseList();
    if (tokens.isOperator("{"))
      return parseDict();
    size_t offset = token.offset;
    tokens.fail(ExitCode::BadCheckpoint, offset,
                "expected an expression, got " + TokenStream::show(token));
    return make(Expr::Literal, offset);
  }
}

ExprPtr ExprParser::parseName() {
  Token token = tokens.next();
  ExprPtr literal = make(Expr::Literal, token.offset);
  if (token.text == "true" || token.text == "True")
    literal->literal = Value(true);
  else if (token.text == "false" || token.text == "False")
    literal->literal = Value(false);
  else if (token.text == "none" || token.text == "None")
    literal->literal = Value::none();
  else
    return make(Expr::Name, token.offset, token.text);
  return literal;
}

ExprPtr ExprParser::parseNumber() {
  Token token = tokens.next();
  ExprPtr expr = make(Expr::Literal, token.offset);
  if (token.kind == Token::Float)
    expr->literal = Value(std::strtod(token.text.c_str(), nullptr));
  else if (token.text.size() > 18)
    tokens.unsupported(token.offset, "integer of more than 18 digits");
  else
    expr->literal = Value(static_cast<int64_t>(std::strtoll(token.text.c_str(), nullptr, 10)));
  return expr;
}

ExprPtr ExprParser::parseParenthesis() {
  size_t offset = tokens.next().offset;
  if (tokens.acceptOperator(")"))
    return make(Expr::ListLiteral, offset);
  ExprPtr expr = parseTuple();
  tokens.expect(Token::Operator, ")", "')'");
  return expr;
}

ExprPtr ExprParser::parseList() {
  ExprPtr list = make(Expr::ListLiteral, tokens.next().offset);
  while (!tokens.isOperator("]") && tokens.peek().kind != Token::End) {
    list->operands.push_back(parse());
    if (!tokens.acceptOperator(","))
      break;
  }
  tokens.expect(Token::Operator, "]", "']'");
  return list;
}

ExprPtr ExprParser::parseDict() {
  ExprPtr dict = make(Expr::DictLiteral, tokens.next().offset);
  while (!tokens.isOperator("}") && tokens.peek().kind != Token::End) {
    dict->operands.push_back(parse());
    tokens.expect(Token::Operator, ":", "':'");
    dict->operands.push_back(parse());
    if (!tokens.acceptOperator(","))
      break;
  }
  tokens.expect(Token::Operator, "}", "'}'");
  return dict;
}

ExprPtr ExprParser::parsePostfix(ExprPtr expr) {
  while (true) {
    if (tokens.acceptOperator(".")) {
      countLink();
      Token name = tokens.expect(Token::Name, "", "an attribute's name");
      ExprPtr attribute = make(Expr::Attribute, name.offset, name.text);
      attribute->operands.push_back(std::move(expr));
      expr = std::move(attribute);
    } else if (tokens.isOperator("[")) {
      expr = parseSubscript(std::move(expr));
    } else if (tokens.isOperator("(")) {
      expr = parseCall(std::move(expr));
    } else {
      return expr;
    }
  }
}

ExprPtr ExprParser::parseSubscript(ExprPtr object) {
  countLink();
  size_t offset = tokens.next().offset;
  ExprPtr parts[3];
  int colons = 0;
  while (!tokens.isOperator("]") && tokens.peek().kind != Token::End && colons < 3) {
    if (tokens.acceptOperator(":"))
      ++colons;
    else if (parts[colons])
      break;
    else
      parts[colons] = parse();
  }
  if (colons > 2 || (colons == 0 && !parts[0]))
    tokens.fail(ExitCode::BadCheckpoint, offset, "expected an index or a slice in '[]'");
  tokens.expect(Token::Operator, "]", "']'");
  ExprPtr expr = make(colons ? Expr::Slice : Expr::Subscript, offset);
  expr->operands.push_back(std::move(object));
  for (int i = 0; i < (colons ? 3 : 1); ++i)
    expr->operands.push_back(std::move(parts[i]));
  return expr;
}

/// Calls are resolved by name: a function, or a method of what stands before the dot.
ExprPtr ExprParser::parseCall(ExprPtr callee) {
  countLink();
  size_t offset = callee->offset;
  ExprPtr call = make(Expr::Call, offset, callee->name);
  if (callee->kind == Expr::Attribute) {
    if (!isMethod(callee->name))
      tokens.unsupported(offset, "method '" + callee->name + "'");
    call->operands.push_back(std::move(callee->operands[0]));
  } else if (callee->kind != Expr::Name) {
    tokens.unsupported(offset, "call of something other than a name");
  } else if (!isFunction(callee->name) && !macros.count(callee->name)) {
    tokens.unsupported(offset, "function '" + callee->name + "'");
  }
  call->arguments = parseArguments();
  return call;
}

std::vector<Argument> ExprParser::parseArguments() {
  std::vector<Argument> arguments;
  tokens.expect(Token::Operator, "(", "'('");
  while (!tokens.isOperator(")") && tokens.peek().kind != Token::End) {
    if (tokens.isOperator("*") || tokens.isOperator("**"))
      tokens.unsupported(tokens.peek().offset, "unpacking of arguments");
    Argument argument;
    if (tokens.peek().kind == Token::Name && tokens.peek(1).kind == Token::Operator &&
        tokens.peek(1).text == "=") {
      argument.name = tokens.next().text;
      tokens.next();
    }
    argument.value = parse();
    arguments.push_back(std::move(argument));
    if (!tokens.acceptOperator(","))
      break;
  }
  tokens.expect(Token::Operator, ")", "')'");
  return arguments;
}

ExprPtr ExprParser::parseFiltersAndTests(ExprPtr expr) {
  while (true) {
    if (tokens.acceptOperator("|"))
      expr = parseFilter(std::move(expr));
    else if (tokens.acceptName("is"))
      expr = parseTest(std::move(expr));
    else
      return expr;
  }
}

ExprPtr ExprParser::parseFilter(ExprPtr input) {
  countLink();
  Token name = tokens.expect(Token::Name, "", "a filter's name");
  if (!isFilter(name.text))
    tokens.unsupported(name.offset, "filter '" + name.text + "'");
  ExprPtr filter = make(Expr::Filter, name.offset, name.text);
  filter->operands.push_back(std::move(input));
  if (tokens.isOperator("("))
    filter->arguments = parseArguments();
  return filter;
}

/// Whether an expression begins here, rather than what may follow one.
static bool takesArgument(const Token &token) {
  if (token.kind == Token::Name)
    return token.text != "else" && token.text != "or" && token.text != "and" && token.text != "if" && token.text != "is" && token.text != "in" && token.text != "not";
  return token.kind == Token::String || token.kind == Token::Integer || token.kind == Token::Float ||
         (token.kind == Token::Operator && (token.text == "[" || token.text == "{"));
}

ExprPtr ExprParser::parseTest(ExprPtr input) {
  countLink();
  bool negated = tokens.acceptName("not");
  Token name = tokens.expect(Token::Name, "", "a test's name");
  if (!isTest(name.text))
    tokens.unsupported(name.offset, "test 'is " + name.text + "'");
  ExprPtr test = make(Expr::Test, name.offset, name.text);
  test->operands.push_back(std::move(input));
  test->negated = negated;
  if (tokens.isOperator("(")) {
    test->arguments = parseArguments();
  } else if (takesArgument(tokens.peek())) { // `is divisibleby 3`: one argument without parentheses
    test->arguments.emplace_back();
    test->arguments.back().value = parsePostfix(parsePrimary());
  }
  return test;
}

} // namespace dsv3::text::jinja
