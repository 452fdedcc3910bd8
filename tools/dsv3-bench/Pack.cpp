#include "tools/dsv3-bench/Pack.h"

#include <algorithm>
#include <limits>

namespace dsv3::bench {

namespace {
constexpr int64_t kFormat = 1, kMost = std::numeric_limits<int64_t>::max();

constexpr std::pair<const char *, Role> roles[] = {{"input", Role::Input}, {"weight", Role::Weight}, {"cache", Role::Cache},
                                                   {"step", Role::Step},   {"output", Role::Output}, {"scratch", Role::Scratch}};

std::string nameOf(Role role) {
  for (auto [name, r] : roles)
    if (r == role)
      return name;
  return "?";
}

//===-- Writing -----------------------------------------------------------===//

OrderedJson write(const Part &p) {
  OrderedJson json = {{"name", p.name},     {"dtype", safetensorsName(p.elem)},  {"offset", p.offset},
                      {"bytes", p.bytes},   {"outer_stride", p.outerStride},     {"layout", p.layout}};
  if (p.nibbles)
    json["nibbles"] = true;
  return json;
}

OrderedJson write(const Buffer &b) {
  OrderedJson json = {{"name", b.name}, {"role", nameOf(b.role)}, {"dtype", safetensorsName(b.elem)}, {"shape", b.shape},
                      {"at", b.at},     {"lanes", b.lanes},       {"bytes", b.bytes}};
  if (!b.block.empty())
    json["block"] = b.block;
  if (b.latent) {
    json["latent"] = b.latent;
    json["codes"] = safetensorsName(b.codes);
  }
  for (const Part &p : b.parts)
    json["parts"].push_back(write(p));
  return json;
}

OrderedJson write(const Param &p) {
  if (p.kind == Param::Kind::Const)
    return {{"const", p.value}};
  OrderedJson json = {{p.kind == Param::Kind::Map ? "map" : "pointer", p.buffer}, {"offset", p.offset}};
  if (p.kind == Param::Kind::Map) {
    json["elem"] = safetensorsName(p.map.elem);
    json["dims"] = p.map.dims;
    json["strides"] = p.map.strides;
    json["box"] = p.map.box;
    json["swizzle"] = p.map.swizzle;
  }
  return json;
}

OrderedJson write(const Launch &l) {
  OrderedJson json = {{"kernel", l.kernel}, {"op", l.op}, {"per_program", l.perProgram}, {"grid", l.grid}, {"threads", l.threads},
                      {"smem", l.smem}, {"cluster", l.cluster}, {"params", OrderedJson::array()}};
  for (const Param &p : l.params)
    json["params"].push_back(write(p));
  return json;
}

OrderedJson write(const Case &c) {
  OrderedJson json = {{"name", c.name}, {"op", c.op}, {"shape", OrderedJson::parse(c.shape.dump())}};
  for (const Buffer &b : c.buffers)
    json["buffers"].push_back(write(b));
  for (const Launch &l : c.launches)
    json["launches"].push_back(write(l));
  return json;
}

//===-- Reading -----------------------------------------------------------===//

/// Reads fields and keeps the first error, so that a struct is read as a list of its fields.
class Reader {
public:
  Reader(const Json &object, const std::string &where) : object(object), where(where), fields(object, where) {
    if (!object.is_object())
      error = checkpointError(where + ": expected an object, got " + describe(object));
  }

  int64_t number(const char *key, int64_t low = 0) { return keep(fields.integer(key, low, kMost)); }
  std::string text(const char *key) { return keep(fields.string(key)); }
  bool flag(const char *key) { return keep(fields.boolean(key)); }
  DType dtype(const char *key) {
    std::string name = text(key);
    std::optional<DType> t = dtypeFromSafetensors(name);
    if (!t && error.message.empty())
      error = checkpointError(where + ": " + key + ": expected an element type, got '" + printable(name) + "'");
    return t.value_or(DType::F32);
  }
  std::vector<int64_t> numbers(const char *key, bool required = true) {
    std::vector<int64_t> out;
    for (const Json &v : list(key, required)) {
      if (!v.is_number_integer() || v.get<int64_t>() < 0)
        fail(key, "integers of 0 or more");
      else
        out.push_back(v.get<int64_t>());
    }
    return out;
  }
  const Json &list(const char *key, bool required = true) {
    static const Json none = Json::array();
    const Json *v = object.is_object() ? fields.find(key) : nullptr;
    if (v && v->is_array())
      return *v;
    if (v || required)
      fail(key, "a list");
    return none;
  }
  bool has(const char *key) const { return object.is_object() && fields.has(key); }
  void fail(const char *key, const std::string &expected) {
    if (error.message.empty())
      error = fields.wrong(key, expected);
  }
  Status status() const { return error.message.empty() ? Status() : Status(error); }

  Error error;

private:
  template <typename T> T keep(Result<T> r) {
    if (!error.message.empty())
      return T();
    if (r)
      return *r;
    error = r.error();
    return T();
  }
  const Json &object;
  std::string where;
  JsonFields fields;
};

Result<Part> readPart(const Json &json, const std::string &where) {
  Reader r(json, where);
  Part p{r.text("name"), r.dtype("dtype"), r.number("offset"), r.number("bytes"), r.number("outer_stride"), r.text("layout"),
         r.has("nibbles") && r.flag("nibbles")};
  return r.error.message.empty() ? Result<Part>(p) : r.error;
}

Result<Buffer> readBuffer(const Json &json, const std::string &where) {
  Reader r(json, where);
  Buffer b;
  b.name = r.text("name");
  std::string role = r.text("role");
  const auto *known = std::find_if(std::begin(roles), std::end(roles), [&](auto &entry) { return role == entry.first; });
  if (known == std::end(roles))
    r.fail("role", "a role (input, weight, cache, step, output, scratch)");
  else
    b.role = known->second;
  b.elem = r.dtype("dtype");
  b.shape = r.numbers("shape");
  b.at = r.number("at");
  b.lanes = r.number("lanes");
  b.bytes = r.number("bytes");
  b.block = r.numbers("block", false);
  if (json.is_object() && json.contains("latent")) {
    b.latent = r.number("latent");
    b.codes = r.dtype("codes");
  }
  for (const Json &entry : r.list("parts", false)) {
    Result<Part> part = readPart(entry, where + ".parts[" + std::to_string(b.parts.size()) + "]");
    if (!part)
      return part.error();
    if (part->offset + part->bytes > b.bytes)
      return checkpointError(where + ": part " + part->name + " ends behind the buffer's " + std::to_string(b.bytes) + " bytes");
    b.parts.push_back(*part);
  }
  if (b.role == Role::Weight && b.parts.empty())
    r.fail("parts", "the parts of a weight");
  if (!b.block.empty() && b.block.size() != 2)
    r.fail("block", "two numbers");
  return r.error.message.empty() ? Result<Buffer>(b) : r.error;
}

Result<Param> readParam(const Json &json, const Case &c, const std::string &where) {
  Reader r(json, where);
  Param p;
  if (r.has("const")) {
    p.value = r.number("const", std::numeric_limits<int64_t>::min());
    return r.error.message.empty() ? Result<Param>(p) : r.error;
  }
  bool map = r.has("map");
  p.kind = map ? Param::Kind::Map : Param::Kind::Pointer;
  p.buffer = r.number(map ? "map" : "pointer");
  p.offset = r.number("offset");
  if (map)
    p.map = {r.dtype("elem"), r.numbers("dims"), r.numbers("strides"), r.numbers("box"), r.number("swizzle")};
  if (!r.error.message.empty())
    return r.error;
  if (p.buffer >= int64_t(c.buffers.size()))
    return checkpointError(where + ": expected a buffer below " + std::to_string(c.buffers.size()) + ", got " + std::to_string(p.buffer));
  const Buffer &b = c.buffers[size_t(p.buffer)];
  if (b.role != Role::Cache && p.offset > b.bytes)
    return checkpointError(where + ": offset " + std::to_string(p.offset) + " is behind the end of " + b.name);
  if (map && (p.map.dims.size() != p.map.box.size() || p.map.strides.size() + 1 != p.map.dims.size()))
    return checkpointError(where + ": expected a box entry per dim and a stride per dim but the first");
  return p;
}

Result<Launch> readLaunch(const Json &json, const Case &c, const std::string &where) {
  Reader r(json, where);
  Launch l;
  l.kernel = r.text("kernel");
  l.op = r.text("op");
  l.perProgram = r.flag("per_program");
  std::vector<int64_t> grid = r.numbers("grid");
  if (grid.size() != 3)
    r.fail("grid", "three numbers");
  else
    std::copy(grid.begin(), grid.end(), l.grid.begin());
  l.threads = r.number("threads", 1);
  l.smem = r.number("smem");
  l.cluster = r.number("cluster", 1);
  for (const Json &entry : r.list("params")) {
    Result<Param> p = readParam(entry, c, where + ".params[" + std::to_string(l.params.size()) + "]");
    if (!p)
      return p.error();
    l.params.push_back(*p);
  }
  return r.error.message.empty() ? Result<Launch>(l) : r.error;
}

Result<Case> readCase(const Json &json, const std::string &where) {
  Reader r(json, where);
  Case c;
  c.name = r.text("name");
  c.op = r.text("op");
  c.shape = json.is_object() && json.contains("shape") ? json["shape"] : Json::object();
  for (const Json &entry : r.list("buffers")) {
    Result<Buffer> b = readBuffer(entry, where + ".buffers[" + std::to_string(c.buffers.size()) + "]");
    if (!b)
      return b.error();
    c.buffers.push_back(*b);
  }
  for (const Json &entry : r.list("launches")) {
    Result<Launch> l = readLaunch(entry, c, where + ".launches[" + std::to_string(c.launches.size()) + "]");
    if (!l)
      return l.error();
    c.launches.push_back(*l);
  }
  if (c.launches.empty())
    r.fail("launches", "one launch or more");
  return r.error.message.empty() ? Result<Case>(c) : r.error;
}
} // namespace

const Buffer *Case::find(std::string_view wanted) const {
  for (const Buffer &b : buffers)
    if (b.name == wanted)
      return &b;
  return nullptr;
}

OrderedJson toJson(const Pack &pack) {
  OrderedJson json = {{"format", kFormat}, {"target", pack.target}, {"tokens", pack.tokens}, {"seqs", pack.seqs},
                      {"pages", pack.pages}, {"step_bytes", pack.stepBytes}, {"fields", OrderedJson::array()},
                      {"kernels", OrderedJson::array()}, {"cases", OrderedJson::array()}};
  for (const StepField &f : pack.fields)
    json["fields"].push_back({{"kind", f.kind}, {"dtype", safetensorsName(f.elem)}, {"offset", f.offset}, {"count", f.count}});
  for (const Kernel &k : pack.kernels)
    json["kernels"].push_back({{"symbol", k.symbol}, {"registers", k.registers}, {"spills", k.spills}, {"degree", k.degree}});
  for (const Case &c : pack.cases)
    json["cases"].push_back(write(c));
  return json;
}

Result<Pack> packFromJson(const Json &json, const std::string &what) {
  Reader r(json, what);
  Pack pack;
  if (int64_t format = r.number("format"); r.error.message.empty() && format != kFormat)
    return unsupportedError(what + ": expected format " + std::to_string(kFormat) + ", got " + std::to_string(format));
  pack.target = r.text("target");
  pack.tokens = r.number("tokens", 1);
  pack.seqs = r.number("seqs", 1);
  pack.pages = r.number("pages", 1);
  pack.stepBytes = r.number("step_bytes", 1);
  for (const Json &entry : r.list("fields")) {
    Reader f(entry, what + ": fields[" + std::to_string(pack.fields.size()) + "]");
    pack.fields.push_back({f.number("kind"), f.dtype("dtype"), f.number("offset"), f.number("count")});
    if (Status s = f.status(); !s)
      return s.error();
  }
  for (const Json &entry : r.list("kernels")) {
    Reader k(entry, what + ": kernels[" + std::to_string(pack.kernels.size()) + "]");
    pack.kernels.push_back({k.text("symbol"), k.number("registers"), k.number("spills"), k.number("degree")});
    if (Status s = k.status(); !s)
      return s.error();
  }
  for (const Json &entry : r.list("cases")) {
    Result<Case> c = readCase(entry, what + ": cases[" + std::to_string(pack.cases.size()) + "]");
    if (!c)
      return c.error();
    for (const Launch &l : c->launches)
      if (std::none_of(pack.kernels.begin(), pack.kernels.end(), [&](const Kernel &k) { return k.symbol == l.kernel; }))
        return checkpointError(what + ": case '" + printable(c->name) + "' launches '" + printable(l.kernel) + "', which is not in the pack");
    pack.cases.push_back(std::move(*c));
  }
  return r.error.message.empty() ? Result<Pack>(std::move(pack)) : r.error;
}

Result<Pack> readPack(const std::string &folder) {
  std::string path = folder + "/" + kCasesFile;
  Result<Json> json = parseJsonFile(path);
  return json ? packFromJson(*json, path) : Result<Pack>(json.error());
}

} // namespace dsv3::bench
