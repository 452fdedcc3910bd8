#include "dialects/kernel/Layout.h"

#include <cctype>

namespace dsv3 {

namespace {
/// A cursor over the layout's text. Spaces mean nothing.
struct Cursor {
  std::string_view text;
  size_t at = 0;

  void skip() {
    while (at < text.size() && text[at] == ' ')
      ++at;
  }
  bool eat(std::string_view token) {
    skip();
    if (text.substr(at, token.size()) != token)
      return false;
    at += token.size();
    return true;
  }
  bool done() {
    skip();
    return at == text.size();
  }
  std::string name() {
    skip();
    size_t begin = at;
    while (at < text.size() && (std::isalpha(static_cast<unsigned char>(text[at])) || text[at] == '_'))
      ++at;
    return std::string(text.substr(begin, at - begin));
  }
  /// A positive number below 2^31, or -1.
  int64_t number() {
    skip();
    int64_t n = -1;
    while (at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) && n < (int64_t(1) << 31))
      n = (n < 0 ? 0 : n) * 10 + (text[at++] - '0');
    return n;
  }
  Error expected(std::string_view what) {
    skip();
    return checkpointError("expected " + std::string(what) + " at " + std::to_string(at) + " in layout '" + std::string(text) + "'");
  }
};
} // namespace

Result<Layout> Layout::parse(std::string_view text) {
  Layout layout;
  Cursor c{text};
  auto dimOf = [&](const std::string &name) -> int {
    for (size_t i = 0; i < layout.dims.size(); ++i)
      if (layout.dims[i] == name)
        return int(i);
    return -1;
  };
  auto expectedAt = [&](size_t at, std::string_view what) {
    c.at = at; // of the name, not behind it
    return c.expected(what);
  };
  auto parseTerm = [&](Term &t) -> Status {
    size_t begin = c.at;
    int dim = dimOf(c.name());
    if (dim < 0)
      return expectedAt(begin, "a dimension name");
    t.dim = unsigned(dim);
    if (c.eat("/") && (t.div = c.number()) <= 0)
      return c.expected("a positive divisor");
    if (c.eat("%") && (t.mod = c.number()) <= 0)
      return c.expected("a positive modulus");
    return {};
  };

  if (!c.eat("("))
    return c.expected("'('");
  do {
    size_t begin = c.at;
    std::string name = c.name();
    if (name.empty() || dimOf(name) >= 0)
      return expectedAt(begin, "a new dimension name");
    layout.dims.push_back(name);
  } while (c.eat(","));
  if (!c.eat(")") || !c.eat("->") || !c.eat("["))
    return c.expected("') -> ['");
  do {
    Term t;
    if (auto s = parseTerm(t); !s)
      return s.error();
    if (c.eat("^")) {
      int64_t constant = c.number();
      if (constant >= 0) {
        t.xorConst = constant;
      } else {
        Term x;
        if (auto s = parseTerm(x); !s)
          return s.error();
        t.xorTerm = int(layout.xors.size());
        layout.xors.push_back(x);
      }
    }
    layout.terms.push_back(t);
  } while (c.eat(","));
  if (!c.eat("]"))
    return c.expected("']'");

  layout.pads.assign(layout.dims.size(), 1);
  if (c.eat("pad")) {
    while (!c.done()) {
      int dim = dimOf(c.name());
      if (dim < 0 || !c.eat(":"))
        return c.expected("'dim:multiple'");
      if ((layout.pads[size_t(dim)] = c.number()) <= 0)
        return c.expected("a positive multiple");
    }
  }
  if (!c.done())
    return c.expected("the end");
  return layout;
}

std::vector<int64_t> Layout::paddedShape(const std::vector<int64_t> &shape) const {
  std::vector<int64_t> padded(shape);
  for (size_t i = 0; i < padded.size(); ++i)
    padded[i] = (padded[i] + pads[i] - 1) / pads[i] * pads[i];
  return padded;
}

std::vector<int64_t> Layout::termExtents(const std::vector<int64_t> &shape) const {
  std::vector<int64_t> padded = paddedShape(shape), extents;
  for (const Term &t : terms) {
    int64_t n = (padded[t.dim] + t.div - 1) / t.div;
    extents.push_back(t.mod && t.mod < n ? t.mod : n);
  }
  return extents;
}

int64_t Layout::elements(const std::vector<int64_t> &shape) const {
  int64_t n = 1;
  for (int64_t e : termExtents(shape))
    n *= e;
  return n;
}

int64_t Layout::value(const Term &t, const std::vector<int64_t> &index) {
  int64_t v = index[t.dim] / t.div;
  return t.mod ? v % t.mod : v;
}

int64_t Layout::offset(const std::vector<int64_t> &index, const std::vector<int64_t> &shape) const {
  std::vector<int64_t> extents = termExtents(shape);
  int64_t at = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    int64_t v = value(terms[i], index) ^ terms[i].xorConst;
    if (terms[i].xorTerm >= 0)
      v ^= value(xors[size_t(terms[i].xorTerm)], index);
    at = at * extents[i] + v;
  }
  return at;
}

std::optional<std::vector<Layout::Stride>> Layout::strides(const std::vector<int64_t> &shape) const {
  std::vector<int64_t> extents = termExtents(shape);
  std::vector<Stride> out(terms.size());
  int64_t stride = 1;
  for (size_t i = terms.size(); i-- > 0; stride *= extents[i]) {
    if (terms[i].xorConst != 0 || terms[i].xorTerm >= 0)
      return std::nullopt;
    out[i] = {terms[i].dim, terms[i].div, terms[i].mod, stride};
  }
  return out;
}

bool Layout::isBijective(const std::vector<int64_t> &shape) const {
  std::vector<int64_t> padded = paddedShape(shape), index(shape.size(), 0);
  int64_t total = 1, count = elements(shape);
  for (int64_t d : padded)
    total *= d;
  if (total != count)
    return false;
  std::vector<bool> hit(size_t(count), false);
  for (int64_t i = 0; i < total; ++i) {
    int64_t rest = i;
    for (size_t d = padded.size(); d-- > 0;) {
      index[d] = rest % padded[d];
      rest /= padded[d];
    }
    int64_t at = offset(index, shape);
    if (at < 0 || at >= count || hit[size_t(at)])
      return false;
    hit[size_t(at)] = true;
  }
  return true;
}

} // namespace dsv3
