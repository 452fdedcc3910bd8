#include "runtime/engine/Manifest.h"

#include "runtime/core/Abi.h"
#include "runtime/core/Json.h"

#include <limits>

namespace dsv3 {

namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMaxCount = 1 << 30;

const char *const kElemNames[] = {"f32", "bf16", "i32", "i64"};
const char *const kCodeNames[] = {"fp8_e4m3", "fp8_e5m2"};
const char *const kPhaseNames[] = {"prefill", "decode", "score", "mtp"};

/// Reads fields of one object after another and keeps the first error, so that a record
/// reads as the list of its fields.
class Reader {
public:
  /// `file` names the document, `path` is the way to this object inside it.
  Reader(JsonFields fields, const std::string &file, std::string path, std::optional<Error> &error)
      : fields(std::move(fields)), where(file), path(std::move(path)), error(error) {}

  template <typename T> void integer(const char *key, T &out, int64_t low, int64_t high) {
    take(fields.integer(key, low, high), out);
  }
  template <typename T> void size(const char *key, T &out) { integer(key, out, 0, kMax); }
  void string(const char *key, std::string &out) { take(fields.string(key), out); }

  /// A word out of `names`; `out` becomes its index.
  template <size_t N> void word(const char *key, const char *const (&names)[N], uint32_t &out) {
    std::string text, all;
    string(key, text);
    for (uint32_t i = 0; i < N; ++i) {
      if (text == names[i]) {
        out = i;
        return;
      }
      all += (i ? ", " : "") + std::string(names[i]);
    }
    fail(fields.wrong(key, "one of " + all));
  }

  bool has(const char *key) const { return fields.find(key) != nullptr; }

  /// Objects that draw a weight.
  void fills(const char *key, std::vector<DummyFill> &out) {
    const Json *array = findList(key);
    for (size_t i = 0; array && i < array->size(); ++i) {
      std::string name = path + key + "[" + std::to_string(i) + "].";
      if (!(*array)[i].is_object())
        return fail(checkpointError(where + ": " + name + ": expected an object, got " + describe((*array)[i])));
      Result<DummyFill> fill = dummyFillFromJson(JsonFields((*array)[i], where, name));
      if (!fill)
        return fail(fill.error());
      out.push_back(std::move(*fill));
    }
  }

  void boolean(const char *key, bool &out) {
    const Json *value = fields.find(key);
    if (!value)
      return fail(fields.missing(key));
    if (!value->is_boolean())
      return fail(fields.wrong(key, "true or false"));
    out = value->get<bool>();
  }

  template <typename Fn> void object(const char *key, Fn read) {
    Result<JsonFields> child = fields.child(key);
    if (!child)
      return fail(child.error());
    Reader reader(*child, where, path + key + ".", error);
    read(reader);
  }

  /// Calls `read(reader, element)` for each object of a list, appending to `out`.
  template <typename T, typename Fn> void list(const char *key, std::vector<T> &out, Fn read) {
    const Json *array = findList(key);
    if (!array)
      return;
    for (size_t i = 0; i < array->size(); ++i) {
      std::string name = path + key + "[" + std::to_string(i) + "]";
      if (!(*array)[i].is_object())
        return fail(
            checkpointError(where + ": " + name + ": expected an object, got " + describe((*array)[i])));
      Reader reader(JsonFields((*array)[i], where, name + "."), where, name + ".", error);
      out.emplace_back();
      read(reader, out.back());
    }
  }

  void ids(const char *key, std::vector<int32_t> &out, int64_t vocab) {
    const Json *array = findList(key);
    if (!array)
      return;
    for (const Json &id : *array) {
      if (!id.is_number_integer() || id < 0 || id >= vocab)
        return fail(fields.wrong(key, "token ids from 0 to " + std::to_string(vocab - 1)));
      out.push_back(id.get<int32_t>());
    }
  }

  void optionalId(const char *key, std::optional<int32_t> &out, int64_t vocab) {
    Result<std::optional<int64_t>> id = fields.integerOrNull(key, 0, vocab - 1);
    if (!id)
      fail(id.error());
    else if (*id)
      out = static_cast<int32_t>(**id);
  }

  /// The file of an artifact: it must lie inside the folder.
  void file(Manifest::File &out) {
    string("file", out.path);
    string("hash", out.hash);
    size("bytes", out.bytes);
    if (out.path.empty() || out.path[0] == '/' || ("/" + out.path + "/").find("/../") != std::string::npos)
      fail(fields.wrong("file", "a path inside the artifact"));
  }

  void requireList(const char *key) { findList(key); }
  void fail(Error e) {
    if (!error)
      error = std::move(e);
  }

private:
  template <typename V, typename T> void take(Result<V> value, T &out) {
    if (value)
      out = static_cast<T>(*value);
    else
      fail(value.error());
  }

  const Json *findList(const char *key) {
    const Json *value = fields.find(key);
    if (!value)
      fail(fields.missing(key));
    else if (!value->is_array())
      fail(fields.wrong(key, "a list"));
    return value && value->is_array() ? value : nullptr;
  }

  JsonFields fields;
  const std::string &where;
  std::string path;
  std::optional<Error> &error;
};

void readModel(Reader &r, Manifest::Model &m) {
  m.vocabSize = 1;
  r.integer("vocab_size", m.vocabSize, 1, kMaxCount);
  r.integer("hidden_size", m.hiddenSize, 1, kMaxCount);
  r.integer("layers", m.layers, 1, kMaxCount);
  r.integer("mtp_layers", m.mtpLayers, 0, kMaxCount);
  r.integer("max_position_embeddings", m.maxPositions, 1, kMax);
  r.optionalId("bos_token_id", m.bosId, m.vocabSize);
  r.ids("eos_token_ids", m.eosIds, m.vocabSize);
}

void readConfig(Reader &r, Manifest::Config &c) {
  r.string("dtype", c.dtype);
  r.string("quant", c.quant);
  r.string("determinism", c.determinism);
  r.integer("max_batch", c.maxBatch, 1, kMaxCount);
  r.integer("max_model_len", c.maxModelLen, 1, kMaxCount);
  r.integer("prefill_chunk", c.prefillChunk, 1, kMaxCount);
}

void readMemory(Reader &r, Manifest::Memory &m) {
  r.size("weights", m.weights);
  r.size("arena", m.arena);
  r.size("persist", m.persist);
  r.size("step", m.step);
  r.size("kv_page", m.kvPage);
  r.integer("kv_pages_min", m.kvPagesMin, 1, kMaxCount);
}

void readMatrix(Reader &r, Manifest::Matrix &m) {
  r.string("name", m.name);
  r.word("dtype", kElemNames, m.elem);
  r.integer("cols", m.cols, 1, kMaxCount);
}

void readProgram(Reader &r, Manifest::Program &p) {
  r.string("name", p.name);
  r.word("phase", kPhaseNames, p.phase);
  r.integer("tokens", p.tokens, 1, kMaxCount);
  r.integer("seqs", p.seqs, 1, kMaxCount);
  r.integer("qblocks", p.qblocks, 0, kMaxCount);
  r.integer("kblocks", p.kblocks, 0, kMaxCount);
  r.list("outputs", p.outputs, readMatrix);
}

void readDevice(Reader &r, Manifest::Device &d) {
  r.string("arch", d.arch);
  r.integer("sm_count", d.smCount, 1, kMaxCount);
  r.integer("smem", d.smem, 1, kMaxCount);
  r.boolean("verified", d.verified);
  r.object("host", [&](Reader &h) { h.file(d.host); });
  r.list("kernels", d.kernels, [](Reader &k, Manifest::Kernel &kernel) {
    k.string("symbol", kernel.symbol);
    k.object("ptx", [&](Reader &f) { f.file(kernel.ptx); });
    if (k.has("cubin"))
      k.object("cubin", [&](Reader &f) { f.file(kernel.cubin.emplace()); });
  });
}

void readTarget(Reader &r, Manifest::Target &t) {
  r.string("name", t.name);
  if (r.has("device"))
    r.object("device", [&](Reader &d) { readDevice(d, t.device.emplace()); });
  else
    r.list("variants", t.variants, [](Reader &v, Manifest::Variant &variant) {
      v.string("name", variant.name);
      v.file(variant.file);
    });
  r.object("weights", [&](Reader &w) {
    w.file(t.weightsFile);
    if (w.has("drawn"))
      w.boolean("drawn", t.drawn);
    w.list("tensors", t.weights, [&](Reader &one, Manifest::Weight &weight) {
      one.string("name", weight.name);
      one.size("offset", weight.offset);
      one.size("bytes", weight.bytes);
      if (t.drawn && one.has("stored_at"))
        one.size("stored_at", weight.storedAt.emplace());
      else if (t.drawn)
        one.fills("draw", weight.draw);
    });
  });
  r.object("memory", [&](Reader &o) { readMemory(o, t.memory); });
  r.list("programs", t.programs, readProgram);
}

void readManifest(Reader &r, Manifest &m) {
  r.object("compiler", [&](Reader &c) {
    c.string("name", m.compilerName);
    c.string("version", m.compilerVersion);
  });
  r.object("model", [&](Reader &o) { readModel(o, m.model); });
  r.object("config", [&](Reader &o) { readConfig(o, m.config); });
  r.list("targets", m.targets, readTarget);
  r.object("kv", [&](Reader &o) {
    o.integer("layers", m.kv.layers, 1, kMaxCount);
    o.integer("page_tokens", m.kv.pageTokens, 1, kMaxCount);
    o.integer("row_elems", m.kv.rowElems, 1, kMaxCount);
    o.word("dtype", kElemNames, m.kv.elem);
    if (o.has("latent"))
      o.object("latent", [&](Reader &latent) {
        latent.integer("lanes", m.kv.latent, 1, m.kv.rowElems);
        latent.word("codes", kCodeNames, m.kv.codes);
      });
  });
  r.list("taps", m.taps, readMatrix);
  r.requireList("ignored");
}

/// Versions come first: in another version the other keys mean other things.
Status checkVersions(const JsonFields &fields, const std::string &path) {
  struct {
    const char *key;
    int64_t expected;
  } versions[] = {{"format", kArtifactFormat}, {"abi", DSV3_ABI}};
  for (auto &v : versions) {
    Result<int64_t> got = fields.integer(v.key, 0, kMaxCount);
    if (!got)
      return got.error();
    if (*got != v.expected)
      return checkpointError(path + ": " + v.key + ": expected " + std::to_string(v.expected) + ", got " +
                             std::to_string(*got) +
                             ": the artifact is from another version, compile it again");
  }
  return {};
}

} // namespace

uint32_t elemBytes(uint32_t elem) {
  switch (elem) {
  case DSV3_ELEM_F32:
  case DSV3_ELEM_I32: return 4;
  case DSV3_ELEM_BF16: return 2;
  case DSV3_ELEM_I64: return 8;
  default: return 0;
  }
}

uint64_t Manifest::Kv::pageBytes() const {
  int64_t row = latent + (rowElems - latent) * elemBytes(elem) + (latent ? int64_t(sizeof(float)) : 0);
  return uint64_t(pageTokens * row);
}

const char *elemName(uint32_t elem) { return elem < 4 ? kElemNames[elem] : "?"; }
const char *phaseName(uint32_t phase) { return phase < 4 ? kPhaseNames[phase] : "?"; }

Result<Manifest> Manifest::load(const std::string &path) {
  Result<Json> json = parseJsonFile(path);
  if (!json)
    return json.error();
  if (!json->is_object())
    return checkpointError(path + ": expected an object, got " + describe(*json));
  JsonFields fields(*json, path);
  if (Status s = checkVersions(fields, path); !s)
    return s.error();
  Manifest manifest{};
  std::optional<Error> error;
  Reader reader(fields, path, "", error);
  readManifest(reader, manifest);
  if (error)
    return *error;
  if (manifest.targets.empty())
    return checkpointError(path + ": targets: expected at least one, got an empty list");
  for (size_t i = 0; i < manifest.targets.size(); ++i)
    if (manifest.targets[i].programs.empty())
      return checkpointError(path + ": targets[" + std::to_string(i) +
                             "].programs: expected at least one, got an empty list");
  return manifest;
}

const Manifest::Target *Manifest::findTarget(const std::string &name) const {
  for (const Target &t : targets)
    if (t.name == name)
      return &t;
  return nullptr;
}

std::string Manifest::targetNames() const {
  std::string names;
  for (const Target &t : targets)
    names += (names.empty() ? "" : ", ") + t.name;
  return names;
}

} // namespace dsv3
