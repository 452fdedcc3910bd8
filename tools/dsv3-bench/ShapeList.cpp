#include "tools/dsv3-bench/ShapeList.h"

#include <algorithm>
#include <set>

namespace dsv3::bench {

namespace {
constexpr int64_t kMost = int64_t(1) << 40;

std::string plain(const Json &v) { return v.is_string() ? v.get<std::string>() : v.dump(); }

/// `text` with every "{key}" replaced by the entry's value.
Result<std::string> substitute(std::string text, const Json &entry, const std::string &what) {
  for (size_t open = text.find('{'); open != std::string::npos; open = text.find('{', open)) {
    size_t close = text.find('}', open);
    std::string key = close == std::string::npos ? "" : text.substr(open + 1, close - open - 1);
    if (!entry.contains(key))
      return usageError(what + ": anchor: expected {KEY} to name a key of the entry, got '" + printable(text.substr(open)) + "'");
    std::string value = plain(entry[key]);
    text.replace(open, close - open + 1, value);
    open += value.size();
  }
  return text;
}

/// A number, or a list of them, repeated to `count` entries.
Result<std::vector<int64_t>> numbers(const Json &entry, const char *key, int64_t fallback, size_t count, const std::string &what) {
  std::vector<int64_t> out;
  if (!entry.contains(key)) {
    out.assign(count, fallback);
    return out;
  }
  const Json &v = entry[key];
  Json list = v.is_array() ? v : Json::array({v});
  for (const Json &n : list) {
    if (!n.is_number_integer() || n.get<int64_t>() < 0 || n.get<int64_t>() > kMost)
      return usageError(what + ": " + key + ": expected a number or a list of numbers, got " + describe(v));
    out.push_back(n.get<int64_t>());
  }
  if (!v.is_array())
    out.assign(count, out[0]);
  if (out.size() != count)
    return usageError(what + ": " + key + ": expected " + std::to_string(count) + " numbers, got " + std::to_string(out.size()));
  return out;
}

Status setSequences(ShapeEntry &e, const std::string &what) {
  bool decode = e.json.contains("ctx");
  JsonFields f(e.json, what);
  size_t count = 1;
  if (decode) {
    Result<int64_t> batch = f.integer("batch", 1, kMost);
    if (!batch)
      return batch.error();
    count = size_t(*batch);
  } else if (e.json.contains("lens")) {
    count = e.json["lens"].is_array() ? e.json["lens"].size() : 1;
  }
  int64_t rows = e.json.value("rows", e.json.value("m", int64_t(1)));
  Result<std::vector<int64_t>> lens = decode ? std::vector<int64_t>(count, 1) : numbers(e.json, "lens", rows, count, what);
  Result<std::vector<int64_t>> past = numbers(e.json, decode ? "ctx" : "past", 0, count, what);
  if (!lens)
    return lens.error();
  if (!past)
    return past.error();
  for (size_t s = 0; s < count; ++s) {
    if ((*lens)[s] < 1 || (decode && (*past)[s] < 1))
      return usageError(what + ": expected sequences of 1 token or more");
    e.sequences.push_back({(*past)[s] - (decode ? 1 : 0), (*lens)[s]});
  }
  return {};
}

Status setRows(ShapeEntry &e, const std::string &what) {
  JsonFields f(e.json, what);
  int64_t need = 0;
  for (const Sequence &s : e.sequences)
    need += s.count;
  Result<int64_t> tokens = f.integerOr("m", need, 1, kMost);
  Result<int64_t> seqs = f.integerOr("seqs", std::max<int64_t>(int64_t(e.sequences.size()), e.json.contains("ctx") && tokens ? *tokens : 1), 1, kMost);
  if (!tokens)
    return tokens.error();
  if (!seqs)
    return seqs.error();
  e.tokens = *tokens;
  e.seqs = *seqs;
  e.rows = need;
  if (e.rows > e.tokens || int64_t(e.sequences.size()) > e.seqs)
    return usageError(what + ": expected at most " + std::to_string(e.tokens) + " rows in " + std::to_string(e.seqs) + " sequences, got " +
                      std::to_string(e.rows) + " in " + std::to_string(e.sequences.size()));
  return {};
}

/// The entry once per combination of swept values.
Status multiply(Json entry, const std::string &what, std::vector<Json> &out) {
  if (!entry.contains("sweep")) {
    out.push_back(std::move(entry));
    return {};
  }
  Json sweep = entry["sweep"];
  entry.erase("sweep");
  if (!sweep.is_object() || sweep.empty())
    return usageError(what + ": sweep: expected an object of lists, got " + describe(sweep));
  std::vector<Json> done{entry};
  for (const auto &[key, values] : sweep.items()) {
    if (!values.is_array() || values.empty())
      return usageError(what + ": sweep." + key + ": expected a list, got " + describe(values));
    std::vector<Json> next;
    for (const Json &e : done)
      for (const Json &v : values) {
        next.push_back(e);
        next.back()[key] = v;
        next.back()["name"] = e.value("name", e.value("op", std::string())) + "." + key + plain(v);
      }
    done = std::move(next);
  }
  out.insert(out.end(), done.begin(), done.end());
  return {};
}
} // namespace

int64_t ShapeEntry::longest() const {
  int64_t n = 1;
  for (const Sequence &s : sequences)
    n = std::max(n, s.past + s.count);
  return n;
}

Result<ShapeEntry> parseShape(const Json &entry, const std::string &what) {
  if (!entry.is_object())
    return usageError(what + ": expected an object, got " + describe(entry));
  ShapeEntry e;
  e.json = entry;
  JsonFields f(e.json, what);
  Result<std::string> op = f.string("op");
  if (!op)
    return op.error();
  e.op = *op;
  Result<std::string> name = f.stringOr("name", e.op);
  if (!name)
    return name.error();
  e.name = *name;
  if (Status s = setSequences(e, what); !s)
    return s.error();
  if (Status s = setRows(e, what); !s)
    return s.error();
  Result<std::string> phase = f.stringOr("phase", e.tokens <= 256 ? "decode" : "prefill");
  if (!phase)
    return phase.error();
  if (*phase != "decode" && *phase != "prefill")
    return usageError(what + ": phase: expected decode or prefill, got '" + printable(*phase) + "'");
  e.phase = *phase;
  if (e.json.contains("anchor")) {
    Result<std::string> anchor = f.string("anchor");
    Result<std::string> text = anchor ? substitute(*anchor, e.json, what) : anchor;
    if (!text)
      return text.error();
    e.json["anchor"] = *text;
  }
  return e;
}

Result<std::vector<ShapeEntry>> parseShapeList(const Json &list, const std::string &what) {
  if (!list.is_array() || list.empty())
    return usageError(what + ": expected a list of cases, got " + describe(list));
  std::vector<ShapeEntry> entries;
  std::set<std::string> names;
  for (size_t i = 0; i < list.size(); ++i) {
    std::string where = what + "[" + std::to_string(i) + "]";
    if (!list[i].is_object())
      return usageError(where + ": expected an object, got " + describe(list[i]));
    std::vector<Json> resolved;
    if (Status s = multiply(list[i], where, resolved); !s)
      return s.error();
    for (const Json &entry : resolved) {
      Result<ShapeEntry> e = parseShape(entry, where);
      if (!e)
        return e.error();
      if (!names.insert(e->name).second)
        return usageError(where + ": expected cases of different names, got '" + printable(e->name) + "' twice");
      entries.push_back(std::move(*e));
    }
  }
  return entries;
}

} // namespace dsv3::bench
