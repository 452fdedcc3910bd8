#include "runtime/text/jinja/Lexer.h"

#include "runtime/text/Utf8.h"

#include <algorithm>
#include <cctype>

namespace dsv3::text::jinja {
namespace {

bool isBlank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool isNameStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool isDigit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
public:
  explicit Lexer(std::string_view source) : source(source) {}

  Result<std::vector<Token>> run() {
    while (pos < source.size())
      if (Status s = lexData(); !s)
        return s.error();
    add(Token::End, "", source.size());
    return std::move(tokens);
  }

private:
  bool at(std::string_view what) const { return source.substr(pos, what.size()) == what; }
  void add(Token::Kind kind, std::string text, size_t offset) {
    tokens.push_back({kind, std::move(text), offset});
  }
  Error bad(size_t offset, const std::string &message) const {
    return errorAt(ExitCode::BadCheckpoint, source, offset, message);
  }

  Status lexData();
  Status skipComment();
  Status lexTag(bool block);
  bool closeTag(bool block, int depth);
  Status lexExpressionToken(int &depth);
  Status lexString();
  Result<char32_t> lexEscape();
  void lexNumber();
  bool lexOperator();
  void skipBlanks();

  std::string_view source;
  size_t pos = 0;
  bool lineStart = true; ///< the text at `pos` begins a line
  std::vector<Token> tokens;
};

/// Everything up to the next tag, then the tag.
Status Lexer::lexData() {
  size_t open = pos;
  auto opensTag = [&](size_t i) {
    std::string_view two = source.substr(i, 2);
    return two == "{%" || two == "{{" || two == "{#";
  };
  while (open < source.size() && !opensTag(open))
    ++open;
  std::string_view data = source.substr(pos, open - pos);
  char sign = open + 2 < source.size() ? source[open + 2] : '\0';
  bool isOutput = source.substr(open, 2) == "{{";
  if (open < source.size() && sign == '-') {
    while (!data.empty() && isBlank(data.back()))
      data.remove_suffix(1);
  } else if (open < source.size() && sign != '+' && !isOutput) {
    size_t newline = data.rfind('\n');
    size_t line = newline == std::string_view::npos ? 0 : newline + 1;
    bool blank = std::all_of(data.begin() + static_cast<long>(line), data.end(), isBlank);
    if (blank && (line > 0 || lineStart))
      data = data.substr(0, line);
  }
  if (!data.empty())
    add(Token::Data, std::string(data), pos);
  pos = open;
  if (pos == source.size())
    return {};
  if (at("{#"))
    return skipComment();
  return lexTag(!isOutput);
}

void Lexer::skipBlanks() {
  while (pos < source.size() && isBlank(source[pos]))
    ++pos;
}

Status Lexer::skipComment() {
  size_t close = source.find("#}", pos + 2);
  if (close == std::string_view::npos)
    return bad(pos, "expected '#}' to end the comment, got the end of the template");
  pos = close + 2;
  char sign = source[close - 1];
  if (sign == '-')
    skipBlanks();
  else if (sign != '+' && at("\n"))
    ++pos;
  lineStart = source[pos - 1] == '\n';
  return {};
}

Status Lexer::lexTag(bool block) {
  size_t open = pos;
  add(block ? Token::BlockBegin : Token::OutputBegin, "", pos);
  pos += 2;
  if (at("-") || at("+"))
    ++pos;
  int depth = 0;
  while (true) {
    skipBlanks();
    if (pos == source.size())
      return bad(open, std::string("expected '") + (block ? "%}" : "}}") +
                           "' to end the tag, got the end of the template");
    if (closeTag(block, depth))
      return {};
    if (Status s = lexExpressionToken(depth); !s)
      return s;
  }
}

/// Brackets still open belong to the expression: `{{ {"a": {}} }}`.
bool Lexer::closeTag(bool block, int depth) {
  if (depth > 0)
    return false;
  std::string_view end = block ? "%}" : "}}";
  size_t offset = pos;
  bool hasSign = at("-") || (block && at("+"));
  if (source.substr(pos + hasSign, 2) != end)
    return false;
  char sign = hasSign ? source[pos] : '\0';
  pos += hasSign + 2;
  add(block ? Token::BlockEnd : Token::OutputEnd, "", offset);
  if (sign == '-')
    skipBlanks();
  else if (block && sign != '+' && at("\n"))
    ++pos;
  lineStart = source[pos - 1] == '\n';
  return true;
}

Status Lexer::lexExpressionToken(int &depth) {
  char c = source[pos];
  size_t begin = pos;
  if (c == '"' || c == '\'')
    return lexString();
  if (isDigit(c)) {
    lexNumber();
    return {};
  }
  if (isNameStart(c)) {
    while (pos < source.size() && (isNameStart(source[pos]) || isDigit(source[pos])))
      ++pos;
    add(Token::Name, std::string(source.substr(begin, pos - begin)), begin);
    return {};
  }
  if (lexOperator()) {
    depth += c == '(' || c == '[' || c == '{';
    depth -= c == ')' || c == ']' || c == '}';
    return {};
  }
  return bad(pos, "unexpected character '" +
                      std::string(source.substr(pos, decodeUtf8(source, pos).length)) + "'");
}

bool Lexer::lexOperator() {
  for (std::string_view op : {"==", "!=", "<=", ">=", "//", "**", "<", ">", "=", "+", "-", "*",
                              "/", "%", "~", "|", ".", ",", ":", "(", ")", "[", "]", "{", "}"})
    if (at(op)) {
      add(Token::Operator, std::string(op), pos);
      pos += op.size();
      return true;
    }
  return false;
}

void Lexer::lexNumber() {
  size_t begin = pos;
  auto digits = [&] {
    while (pos < source.size() && isDigit(source[pos]))
      ++pos;
  };
  digits();
  bool isFloat = at(".") && pos + 1 < source.size() && isDigit(source[pos + 1]);
  if (isFloat) {
    ++pos;
    digits();
  }
  size_t sign = pos + 1 < source.size() && (source[pos + 1] == '+' || source[pos + 1] == '-');
  if ((at("e") || at("E")) && pos + 1 + sign < source.size() && isDigit(source[pos + 1 + sign])) {
    isFloat = true;
    pos += 1 + sign;
    digits();
  }
  add(isFloat ? Token::Float : Token::Integer, std::string(source.substr(begin, pos - begin)),
      begin);
}

Status Lexer::lexString() {
  size_t open = pos;
  char quote = source[pos++];
  std::string text;
  while (pos < source.size() && source[pos] != quote) {
    if (source[pos] != '\\') {
      text += source[pos++];
      continue;
    }
    size_t escape = pos++;
    if (pos < source.size() && source[pos] != 'n' && source[pos] != 't' && source[pos] != 'r' &&
        source[pos] != 'x' && source[pos] != 'u' && source[pos] != '\\' && source[pos] != '\'' &&
        source[pos] != '"')
      return errorAt(ExitCode::Unsupported, source, escape,
                     std::string("unsupported escape '\\") + source[pos] + "'");
    Result<char32_t> c = lexEscape();
    if (!c)
      return c.error();
    appendUtf8(text, *c);
  }
  if (pos == source.size())
    return bad(open, "expected a quote to end the string, got the end of the template");
  ++pos;
  add(Token::String, std::move(text), open);
  return {};
}

/// What follows a backslash.
Result<char32_t> Lexer::lexEscape() {
  if (pos == source.size())
    return bad(pos, "expected an escape, got the end of the template");
  char c = source[pos++];
  if (c != 'x' && c != 'u')
    return static_cast<char32_t>(c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c);
  size_t digits = c == 'x' ? 2 : 4;
  char32_t value = 0;
  for (size_t i = 0; i < digits; ++i, ++pos) {
    if (pos == source.size() || !std::isxdigit(static_cast<unsigned char>(source[pos])))
      return bad(pos, "expected " + std::to_string(digits) + " hexadecimal digits");
    value = value * 16 + static_cast<char32_t>(std::stoi(std::string(1, source[pos]), nullptr, 16));
  }
  return value;
}

} // namespace

std::string describePosition(std::string_view source, size_t offset) {
  std::string_view before = source.substr(0, offset);
  size_t line = 1 + static_cast<size_t>(std::count(before.begin(), before.end(), '\n'));
  size_t newline = before.rfind('\n');
  std::string_view current =
      newline == std::string_view::npos ? before : before.substr(newline + 1);
  auto startsCharacter = [](char c) { return (c & 0xC0) != 0x80; };
  size_t column =
      1 + static_cast<size_t>(std::count_if(current.begin(), current.end(), startsCharacter));
  return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

Error errorAt(ExitCode code, std::string_view source, size_t offset, const std::string &message) {
  return {code, "chat template: " + describePosition(source, offset) + ": " + message};
}

std::string normaliseTemplate(std::string_view raw) {
  std::string valid = toValidUtf8(raw), text;
  for (size_t i = 0; i < valid.size(); ++i) {
    if (valid[i] != '\r')
      text += valid[i];
    else if (i + 1 == valid.size() || valid[i + 1] != '\n')
      text += '\n';
  }
  if (!text.empty() && text.back() == '\n')
    text.pop_back();
  return text;
}

Result<std::vector<Token>> tokenize(std::string_view source) { return Lexer(source).run(); }

} // namespace dsv3::text::jinja
