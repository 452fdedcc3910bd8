#include "runtime/engine/ModuleCheck.h"

#include "runtime/core/Json.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

namespace dsv3 {

namespace {

std::string text(const char *s) { return s ? printable(s) : "(no name)"; }

/// A table entry has to equal what the manifest says about it.
Status same(const std::string &what, uint64_t manifest, uint64_t module) {
  if (manifest == module)
    return {};
  return checkpointError(what + ": the manifest says " + std::to_string(manifest) + ", the code " +
                         std::to_string(module));
}

Status same(const std::string &what, const std::string &manifest, const char *module) {
  if (module && manifest == module)
    return {};
  return checkpointError(what + ": the manifest says " + printable(manifest) + ", the code " + text(module));
}

struct Pair {
  const char *what;
  uint64_t manifest, module;
};

Status allSame(const std::string &prefix, std::initializer_list<Pair> pairs) {
  for (const Pair &p : pairs)
    if (Status s = same(prefix + p.what, p.manifest, p.module); !s)
      return s;
  return {};
}

bool inside(uint64_t offset, uint64_t bytes, uint64_t pool) {
  return offset <= pool && bytes <= pool - offset;
}

Status checkHeader(const dsv3_module_desc &d, const Manifest &m, const Manifest::Target &t,
                   const std::string &variant) {
  if (d.abi != DSV3_ABI || d.bytes != sizeof(dsv3_module_desc))
    return checkpointError("abi: expected " + std::to_string(DSV3_ABI) + " (" +
                           std::to_string(sizeof(dsv3_module_desc)) + " bytes), got " +
                           std::to_string(d.abi) + " (" + std::to_string(d.bytes) + " bytes)");
  if (Status s = same("target", t.name, d.target); !s)
    return s;
  if (Status s = same("variant", variant, d.variant); !s)
    return s;
  uint64_t pages = (m.config.maxModelLen + m.kv.pageTokens - 1) / m.kv.pageTokens;
  Status s = allSame("", {{"programs", t.programs.size(), d.n_programs},
                          {"taps", m.taps.size(), d.n_taps},
                          {"memory.weights", t.memory.weights, d.pool_bytes[DSV3_POOL_WEIGHTS]},
                          {"memory.arena", t.memory.arena, d.pool_bytes[DSV3_POOL_ARENA]},
                          {"memory.persist", t.memory.persist, d.pool_bytes[DSV3_POOL_PERSIST]},
                          {"memory.step", t.memory.step, d.pool_bytes[DSV3_POOL_STEP]},
                          {"kv.layers", uint64_t(m.kv.layers), d.kv_layers},
                          {"kv.page_tokens", uint64_t(m.kv.pageTokens), d.kv_page_tokens},
                          {"kv.row_elems", uint64_t(m.kv.rowElems), d.kv_row_elems},
                          {"kv.dtype", m.kv.elem, d.kv_elem},
                          {"kv, a page in one layer", m.kv.pageBytes(), d.kv_page_bytes},
                          {"memory.kv_page", t.memory.kvPage,
                           uint64_t(d.kv_layers) * d.kv_page_bytes},
                          {"memory.kv_pages_min", uint64_t(t.memory.kvPagesMin), pages}});
  if (!s)
    return s;
  if (d.max_pages < pages)
    return checkpointError("block table: expected " + std::to_string(pages) + " pages for max_model_len " +
                           std::to_string(m.config.maxModelLen) + ", got " + std::to_string(d.max_pages));
  return {};
}

/// Elements and type that a field must have.
struct FieldRule {
  uint32_t elem;
  uint64_t count;
};

FieldRule fieldRule(const dsv3_module_desc &d, uint32_t kind) {
  uint64_t tokens = d.max_tokens, seqs = d.max_seqs, qblocks = 0, kblocks = 0;
  for (uint32_t i = 0; i < d.n_programs; ++i) {
    qblocks = std::max<uint64_t>(qblocks, d.programs[i].qblocks);
    kblocks = std::max<uint64_t>(kblocks, d.programs[i].kblocks);
  }
  switch (kind) {
  case DSV3_FIELD_TOKEN_SLOT: return {DSV3_ELEM_I64, tokens};
  case DSV3_FIELD_Q_START:
  case DSV3_FIELD_KBLOCK_START: return {DSV3_ELEM_I32, seqs + 1};
  case DSV3_FIELD_CTX_LEN:
  case DSV3_FIELD_LOGIT_ROW: return {DSV3_ELEM_I32, seqs};
  case DSV3_FIELD_BLOCK_TABLE: return {DSV3_ELEM_I32, seqs * d.max_pages};
  case DSV3_FIELD_QBLOCK: return {DSV3_ELEM_I32, qblocks * 4};
  case DSV3_FIELD_KBLOCK: return {DSV3_ELEM_I32, kblocks * 2};
  case DSV3_FIELD_SAMPLING: return {DSV3_ELEM_I32, seqs * DSV3_SAMPLING_WORDS};
  default: return {DSV3_ELEM_I32, tokens};
  }
}

Status checkFields(const dsv3_module_desc &d) {
  uint64_t pool = d.pool_bytes[DSV3_POOL_STEP];
  std::vector<std::pair<uint64_t, uint64_t>> spans;
  for (uint32_t kind = 0; kind < DSV3_FIELD_COUNT; ++kind) {
    const dsv3_field_desc *f = findField(d, kind);
    if (!f)
      return checkpointError("step buffer: field " + std::to_string(kind) + " is missing");
    FieldRule rule = fieldRule(d, kind);
    uint64_t size = elemBytes(rule.elem);
    if (f->elem != rule.elem || f->count < rule.count)
      return checkpointError("step buffer: field " + text(f->name) + ": expected at least " +
                             std::to_string(rule.count) + " of " + elemName(rule.elem) + ", got " +
                             std::to_string(f->count) + " of " + elemName(f->elem));
    if (f->count > pool / size || !inside(f->offset, f->count * size, pool) || f->offset % size)
      return checkpointError("step buffer: field " + text(f->name) + " at " + std::to_string(f->offset) +
                             " does not lie aligned inside its " + std::to_string(pool) + " bytes");
    spans.push_back({f->offset, f->offset + f->count * size});
  }
  std::sort(spans.begin(), spans.end());
  for (size_t i = 1; i < spans.size(); ++i)
    if (spans[i].first < spans[i - 1].second)
      return checkpointError("step buffer: two fields overlap at " + std::to_string(spans[i].first));
  return {};
}

Status checkOutput(const dsv3_module_desc &d, const dsv3_program_desc &p, const dsv3_output_desc &o,
                   const Manifest::Matrix &expected, int64_t vocab) {
  std::string what = "program " + text(p.name) + ", output " + text(o.name);
  if (Status s = same(what + ", name", expected.name, o.name); !s)
    return s;
  if (Status s = allSame(what, {{", dtype", expected.elem, o.elem}, {", cols", expected.cols, o.cols}}); !s)
    return s;
  if (expected.name == "logits" && (o.elem != DSV3_ELEM_F32 || o.cols != uint64_t(vocab)))
    return checkpointError(what + ": expected f32 and vocab_size " + std::to_string(vocab) +
                           " columns, got " + elemName(o.elem) + " and " + std::to_string(o.cols));
  if (expected.name == "sampled" && (o.elem != DSV3_ELEM_I32 || o.cols != DSV3_SAMPLED_WORDS))
    return checkpointError(what + ": expected i32 and " + std::to_string(DSV3_SAMPLED_WORDS) + " columns, got " +
                           elemName(o.elem) + " and " + std::to_string(o.cols));
  uint64_t bytes = outputRows(p, o.name) * o.cols * elemBytes(o.elem);
  if (o.ref.pool != DSV3_POOL_PERSIST || !inside(o.ref.offset, bytes, d.pool_bytes[DSV3_POOL_PERSIST]) ||
      o.ref.offset % elemBytes(o.elem))
    return checkpointError(what + ": expected " + std::to_string(bytes) + " bytes inside pool " +
                           std::to_string(DSV3_POOL_PERSIST) + ", got offset " +
                           std::to_string(o.ref.offset) + " of pool " + std::to_string(o.ref.pool));
  return {};
}

Status checkProgram(const dsv3_module_desc &d, const dsv3_program_desc &p, const Manifest::Program &m,
                    const Manifest &all) {
  if (Status s = same("program", m.name, p.name); !s)
    return s;
  std::string what = "program " + text(p.name);
  Status s = allSame(what, {{", phase", m.phase, p.phase},
                            {", tokens", uint64_t(m.tokens), p.tokens},
                            {", seqs", uint64_t(m.seqs), p.seqs},
                            {", qblocks", uint64_t(m.qblocks), p.qblocks},
                            {", kblocks", uint64_t(m.kblocks), p.kblocks},
                            {", outputs", m.outputs.size(), p.n_outputs}});
  if (!s)
    return s;
  if (p.tokens > d.max_tokens || p.seqs > d.max_seqs || !p.fn)
    return checkpointError(what + ": expected at most " + std::to_string(d.max_tokens) + " tokens and " +
                           std::to_string(d.max_seqs) + " sequences and a function, got " +
                           std::to_string(p.tokens) + " and " + std::to_string(p.seqs));
  for (uint32_t i = 0; i < p.n_outputs; ++i)
    if (Status o = checkOutput(d, p, p.outputs[i], m.outputs[i], all.model.vocabSize); !o)
      return o;
  if (!findOutput(p, "logits"))
    return checkpointError(what + ": expected an output called logits");
  // Else a request as long as the plan allows could never run.
  uint64_t keyBlocks = (all.config.maxModelLen + 63) / 64;
  if (p.kblocks && p.kblocks < keyBlocks)
    return checkpointError(what + ": expected room for " + std::to_string(keyBlocks) + " key blocks, got " +
                           std::to_string(p.kblocks));
  return {};
}

/// Walks a program with a host API that looks at launches instead of running them.
struct Walk {
  const dsv3_module_desc &module;
  bool onDevice;
  std::string fault;

  void range(const dsv3_launch &launch, int64_t tiles) {
    const char *why = onDevice ? "tiles for threads in a device's program" : launchFault(module, launch, kvBytes());
    if (!why && tiles < 0)
      why = "a negative number of tiles";
    keep(launch.site, why);
  }
  void grid(const dsv3_grid_launch &launch) {
    keep(launch.site, onDevice ? gridFault(module, launch, kvBytes()) : "a grid in a program for threads");
  }
  void keep(const char *site, const char *why) {
    if (why && fault.empty())
      fault = "launch " + text(site) + ": " + why;
  }
  /// One page in all layers: the least there is.
  uint64_t kvBytes() const {
    return uint64_t(module.kv_page_bytes) * module.kv_layers;
  }
  void tap(uint32_t tap, dsv3_ref src, int64_t rows) {
    const dsv3_tap_desc *t = tap < module.n_taps ? &module.taps[tap] : nullptr;
    bool pooled = src.pool < DSV3_POOL_COUNT && src.pool != DSV3_POOL_KV;
    if (t && pooled && rows >= 0 &&
        inside(src.offset, uint64_t(rows) * t->cols * elemBytes(t->elem), module.pool_bytes[src.pool]))
      return;
    if (fault.empty())
      fault = "tap " + (t ? text(t->name) : std::to_string(tap)) + " does not lie inside its pool";
  }
};

Status walkProgram(const dsv3_module_desc &d, const dsv3_program_desc &p, bool onDevice) {
  dsv3_host_api api{};
  api.abi = DSV3_ABI;
  api.bytes = sizeof(dsv3_host_api);
  api.range = [](void *ctx, const dsv3_launch *l, int64_t tiles) {
    static_cast<Walk *>(ctx)->range(*l, tiles);
  };
  api.tap = [](void *ctx, uint32_t tap, dsv3_ref src, int64_t rows) {
    static_cast<Walk *>(ctx)->tap(tap, src, rows);
  };
  api.grid = [](void *ctx, const dsv3_grid_launch *l) { static_cast<Walk *>(ctx)->grid(*l); };
  dsv3_step_host step{};
  step.scalars[DSV3_SCALAR_TOKENS] = p.tokens;
  step.scalars[DSV3_SCALAR_SEQS] = p.seqs;
  step.scalars[DSV3_SCALAR_QBLOCKS] = p.qblocks;
  step.scalars[DSV3_SCALAR_KBLOCKS] = p.kblocks;
  step.scalars[DSV3_SCALAR_KV_LAYER_STRIDE] = int64_t(d.kv_page_bytes);
  Walk walk{d, onDevice, ""};
  p.fn(&api, &walk, &step);
  return walk.fault.empty() ? Status() : checkpointError("program " + text(p.name) + ", " + walk.fault);
}

Status checkKernels(const dsv3_module_desc &d, bool onDevice) {
  for (uint32_t i = 0; i < d.n_kernels; ++i)
    if (bool(d.kernels[i].fn) == onDevice || !d.kernels[i].symbol)
      return checkpointError("kernel " + std::to_string(i) + " (" + text(d.kernels[i].symbol) +
                             (onDevice ? "): expected a name and no function" : ") has no function"));
  return {};
}

Status checkTaps(const dsv3_module_desc &d, const Manifest &m) {
  for (uint32_t i = 0; i < d.n_taps; ++i) {
    if (Status s = same("tap", m.taps[i].name, d.taps[i].name); !s)
      return s;
    std::string what = "tap " + text(d.taps[i].name);
    if (Status s = allSame(
            what, {{", dtype", m.taps[i].elem, d.taps[i].elem}, {", cols", m.taps[i].cols, d.taps[i].cols}});
        !s)
      return s;
  }
  return {};
}

} // namespace

const char *launchFault(const dsv3_module_desc &module, const dsv3_launch &launch, uint64_t kvBytes) {
  if (launch.kernel >= module.n_kernels)
    return "no such kernel";
  for (uint32_t i = 0; i < launch.n_refs; ++i) {
    const dsv3_ref &ref = launch.refs[i];
    if (ref.pool >= DSV3_POOL_COUNT)
      return "no such pool";
    if (ref.offset >= (ref.pool == DSV3_POOL_KV ? kvBytes : module.pool_bytes[ref.pool]))
      return "an address outside its pool";
  }
  return nullptr;
}

/// The rest of a pool from an address, or nothing when the address lies outside.
static std::optional<uint64_t> roomAt(const dsv3_module_desc &module, const dsv3_ref &ref, uint64_t kvBytes) {
  if (ref.pool >= DSV3_POOL_COUNT)
    return std::nullopt;
  uint64_t bytes = ref.pool == DSV3_POOL_KV ? kvBytes : module.pool_bytes[ref.pool];
  return ref.offset < bytes ? std::optional(bytes - ref.offset) : std::nullopt;
}

static const char *mapFault(const dsv3_tensor_map &map, const dsv3_ref &ref, uint64_t room) {
  constexpr uint64_t mostElements = uint64_t(1) << 32, mostStride = uint64_t(1) << 40;
  if (map.elem > DSV3_MAP_I32 || map.rank < 1 || map.rank > DSV3_MAP_MAX_RANK || ref.offset % 16)
    return "a tensor map of no type, rank or alignment that there is";
  uint64_t elem = map.elem == DSV3_MAP_U8 ? 1 : map.elem == DSV3_MAP_BF16 ? 2 : 4, extent = elem;
  bool open = map.dims[map.rank - 1] == 0;
  if (open && (map.rank == 1 || ref.pool != DSV3_POOL_KV))
    return "a tensor map of open size outside the kv pool";
  for (uint32_t i = 0; i < map.rank; ++i) {
    uint64_t stride = i ? map.strides[i - 1] : elem, dim = map.dims[i];
    bool last = open && i + 1 == map.rank;
    if ((!dim && !last) || dim > mostElements || stride >= mostStride || (i && stride % 16) || !map.box[i] || map.box[i] > 256)
      return "a tensor map that the hardware does not have";
    uint64_t step = last ? 0 : (dim - 1) * stride;
    if (step > room || extent > room - step)
      return "a tensor map that reaches out of its pool";
    extent += step;
  }
  return nullptr;
}

const char *gridFault(const dsv3_module_desc &module, const dsv3_grid_launch &launch, uint64_t kvBytes) {
  if (launch.kernel >= module.n_kernels)
    return "no such kernel";
  if (!launch.grid[0] || !launch.grid[1] || !launch.grid[2] || !launch.block || launch.block > 1024 || !launch.cluster)
    return "a grid of no blocks or of blocks of no threads";
  for (uint32_t i = 0; i < launch.n_params; ++i) {
    const dsv3_param &param = launch.params[i];
    if (param.kind == DSV3_PARAM_NUMBER)
      continue;
    if (param.kind > DSV3_PARAM_NUMBER || bool(param.map) != (param.kind == DSV3_PARAM_MAP))
      return "a parameter of no kind that there is";
    std::optional<uint64_t> room = roomAt(module, param.ref, kvBytes);
    if (!room)
      return "an address outside its pool";
    if (const char *why = param.map ? mapFault(*param.map, param.ref, *room) : nullptr)
      return why;
  }
  return nullptr;
}

uint64_t outputRows(const dsv3_program_desc &p, const std::string &name) {
  bool perSequence = (name == "logits" || name == "sampled") && (p.phase == DSV3_PHASE_PREFILL || p.phase == DSV3_PHASE_DECODE);
  return perSequence ? p.seqs : p.tokens;
}

const dsv3_output_desc *findOutput(const dsv3_program_desc &p, const std::string &name) {
  for (uint32_t i = 0; i < p.n_outputs; ++i)
    if (name == p.outputs[i].name)
      return &p.outputs[i];
  return nullptr;
}

const dsv3_field_desc *findField(const dsv3_module_desc &d, uint32_t kind) {
  for (uint32_t i = 0; i < d.n_fields; ++i)
    if (d.fields[i].kind == kind)
      return &d.fields[i];
  return nullptr;
}

Status checkModule(const dsv3_module_desc &d, const Manifest &m, const Manifest::Target &target,
                   const std::string &variant) {
  if (Status s = checkHeader(d, m, target, variant); !s)
    return s;
  if (Status s = checkFields(d); !s)
    return s;
  bool onDevice = variant == kHostVariant;
  if (Status s = checkKernels(d, onDevice); !s)
    return s;
  if (Status s = checkTaps(d, m); !s)
    return s;
  for (uint32_t i = 0; i < d.n_programs; ++i) {
    if (Status s = checkProgram(d, d.programs[i], target.programs[i], m); !s)
      return s;
    if (Status s = walkProgram(d, d.programs[i], onDevice); !s)
      return s;
  }
  return {};
}

} // namespace dsv3
