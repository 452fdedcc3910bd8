#include "tools/dsv3-bench/Conflicts.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <unistd.h>

namespace dsv3::bench {
namespace {

using tile::FragKind;
using tile::SmemInstruction;
using tile::SmemKind;
using tile::SmemLayout;

constexpr int64_t kThreads = 1024, kWarps = kThreads / 32, kTrips = 256;
constexpr int64_t kCopies = 4;          // of the instruction in the loop, at addresses of their own
constexpr int64_t kCopyBytes = 12288;   // a multiple of all banks; four fill 48 KiB
constexpr int64_t kPerWarp = kTrips * kCopies;

// ---- probes

/// swizzle<bits, base, shift> of rows `pitch` bytes apart.
struct Rows {
  int64_t pitch, bits = 0, base = 0, shift = 0;
  int64_t operator()(int64_t row, int64_t column) const {
    return SmemLayout::Xor{bits, base, shift}.apply(row * pitch + column);
  }
};

template <typename At> Probe probe(std::string name, SmemInstruction instruction, bool store, At at) {
  Probe p{std::move(name), {instruction, {}}, store};
  for (int64_t lane = 0; lane < 32; ++lane)
    p.access.address[size_t(lane)] = at(lane);
  return p;
}

void addColumns(std::vector<Probe> &out) {
  const std::pair<const char *, Rows> layouts[] = {{"linear", {128}},          {"pad<4>", {132}},           {"pad<8>", {136}},
                                                   {"pad<16>", {144}},         {"sw128", {128, 3, 4, 3}},   {"<5, 2, 5>", {128, 5, 2, 5}},
                                                   {"<4, 3, 4>", {128, 4, 3, 4}}, {"pitch 96", {96}},       {"pitch 160, sw64", {160, 2, 4, 3}},
                                                   {"pitch 144, <2, 5, 4>", {144, 2, 5, 4}}};
  for (auto &[name, rows] : layouts) {
    const Rows at = rows;
    const std::string in = std::string(", ") + name;
    for (bool store : {false, true}) {
      out.push_back(probe("f32 column" + in, SmemInstruction::Access4, store, [=](int64_t l) { return at(l, 20) / 4 * 4; }));
      if (at.pitch % 8 == 0)
        out.push_back(probe("f32 pairs down a column" + in, SmemInstruction::Access8, store, [=](int64_t l) { return at(l, 24) / 8 * 8; }));
      if (at.pitch % 16 == 0 && (at.bits == 0 || at.base >= 4)) {
        out.push_back(probe("16 bytes down a column" + in, SmemInstruction::Access16, store, [=](int64_t l) { return at(l, 48); }));
        out.push_back(probe("bf16 tile" + in, SmemInstruction::Matrix4, store, [=](int64_t l) { return at(l % 16, l / 16 * 16); }));
      }
    }
  }
  for (auto [pitch, bits] : {std::pair(64, 0), std::pair(64, 2), std::pair(32, 0), std::pair(32, 1)}) {
    const Rows at{pitch, bits, 4, 3};
    const std::string in = ", " + std::to_string(pitch) + "-byte rows" + (bits ? ", swizzled" : "");
    for (bool store : {false, true})
      out.push_back(probe("bf16 tile" + in, SmemInstruction::Matrix4, store, [=](int64_t l) { return at(l % 16, l / 16 * 16); }));
  }
}

void addAccumulators(std::vector<Probe> &out) {
  struct Layout {
    const char *name;
    SmemKind kind;
    int64_t a, b, c;
  };
  for (const Layout &l : {Layout{"linear", SmemKind::Linear, 0, 0, 0}, Layout{"pad<16>", SmemKind::Pad, 16, 0, 0}, Layout{"pad<32>", SmemKind::Pad, 32, 0, 0},
                          Layout{"sw128", SmemKind::Sw128, 0, 0, 0}}) {
    const std::vector<int64_t> shape = {64, 32};
    const tile::Fragment acc(FragKind::Acc, shape);
    for (auto [element, bits] : {std::pair("f32", 32u), std::pair("bf16", 16u)}) {
      if (l.kind == SmemKind::Sw128 && bits == 16)
        continue; // rows of 64 bytes
      for (bool store : {false, true})
        out.push_back({std::string(element) + " accumulator, " + l.name, tile::accessesOf(acc, bits, SmemLayout(l.kind, shape, bits, l.a, l.b, l.c), false, store)[0], store});
    }
  }
}

// ---- kernels

std::string instruction(SmemInstruction kind, bool store, const std::string &address) {
  const bool matrix = kind >= SmemInstruction::Matrix1;
  const int n = kind == SmemInstruction::Matrix1 || kind == SmemInstruction::Access4 ? 1 : kind == SmemInstruction::Matrix2 || kind == SmemInstruction::Access8 ? 2 : 4;
  std::string regs;
  for (int i = 0; i < n; ++i)
    regs += (i ? ", %v" : "%v") + std::to_string(i);
  std::string text;
  if (matrix) {
    const std::string form = ".sync.aligned.m8n8.x" + std::to_string(n) + ".shared.b16 ";
    text = store ? "  stmatrix" + form + "[" + address + "], {" + regs + "};\n" : "  ldmatrix" + form + "{" + regs + "}, [" + address + "];\n";
  } else {
    const std::string form = std::string(".volatile.shared") + (n > 1 ? ".v" + std::to_string(n) : "") + ".u32 ";
    const std::string list = n > 1 ? "{" + regs + "}" : regs;
    text = store ? "  @%on st" + form + "[" + address + "], " + list + ";\n" : "  @%on ld" + form + list + ", [" + address + "];\n";
  }
  if (!store) // the values are used, so that the loads stay
    for (int i = 0; i < n; ++i)
      text += "  xor.b32 %sum, %sum, %v" + std::to_string(i) + ";\n";
  return text;
}

/// Parameters: addresses of the lanes, results (cycles, then a word per thread), and 0, which the compiler does not know.
std::string kernel(SmemInstruction kind, bool store) {
  std::string text = ".visible .entry " + probeSymbol(kind, store) + "(.param .u64 lanes, .param .u64 out, .param .u64 zero) {\n"
      "  .reg .b32 %t, %lane, %a, %base, %d, %i, %sum, %v<4>;\n  .reg .b64 %p, %q, %start, %stop, %w;\n  .reg .pred %on, %more, %first;\n"
      "  .shared .align 1024 .b8 buf[" + std::to_string(kCopies * kCopyBytes) + "];\n"
      "  mov.u32 %t, %tid.x;\n  and.b32 %lane, %t, 31;\n  ld.param.u64 %p, [lanes];\n  mul.wide.u32 %w, %lane, 4;\n  add.u64 %p, %p, %w;\n"
      "  ld.global.s32 %a, [%p];\n  setp.ge.s32 %on, %a, 0;\n  mov.u32 %base, buf;\n  add.u32 %a, %a, %base;\n"
      "  ld.param.u32 %d, [zero];\n  mov.u32 %sum, %t;\n  mov.u32 %v0, 0;\n  mov.u32 %v1, 0;\n  mov.u32 %v2, 0;\n  mov.u32 %v3, 0;\n"
      "  mov.u32 %i, " + std::to_string(kTrips) + ";\n  bar.sync 0;\n  mov.u64 %start, %clock64;\nLOOP:\n";
  for (int64_t c = 0; c < kCopies; ++c)
    text += instruction(kind, store, "%a+" + std::to_string(c * kCopyBytes));
  return text + "  add.u32 %a, %a, %d;\n  sub.u32 %i, %i, 1;\n  setp.ne.u32 %more, %i, 0;\n  @%more bra LOOP;\n  bar.sync 0;\n  mov.u64 %stop, %clock64;\n"
      "  ld.param.u64 %q, [out];\n  sub.u64 %stop, %stop, %start;\n  setp.eq.u32 %first, %t, 0;\n  @%first st.global.u64 [%q], %stop;\n"
      "  mul.wide.u32 %w, %t, 4;\n  add.u64 %q, %q, %w;\n  st.global.u32 [%q+8], %sum;\n  ret;\n}\n";
}

constexpr SmemInstruction kinds[] = {SmemInstruction::Access4, SmemInstruction::Access8, SmemInstruction::Access16,
                                     SmemInstruction::Matrix1, SmemInstruction::Matrix2, SmemInstruction::Matrix4};

/// The driver loads files.
Result<void *> load(const Device &device) {
  char path[] = "/tmp/dsv3-probe-XXXXXX";
  const int file = mkstemp(path);
  if (file < 0)
    return internalError("cannot write a temporary file");
  close(file);
  std::ofstream(path) << probePtx();
  Result<void *> module = device.loadModule(path);
  std::remove(path);
  return module;
}

Result<double> cyclesOf(const Device &device, void *module, const Probe &p, const Memory &lanes, const Memory &out) {
  // From the least address on; whole rows of banks change nothing.
  int64_t least = INT64_MAX;
  for (int64_t a : p.access.address)
    if (a != tile::kInactiveLane)
      least = std::min(least, a / 128 * 128);
  std::array<int32_t, 32> address;
  for (size_t l = 0; l < 32; ++l)
    address[l] = p.access.address[l] == tile::kInactiveLane ? -(1 << 30) : int32_t(p.access.address[l] - least);
  if (*std::max_element(address.begin(), address.end()) + 16 > kCopyBytes)
    return internalError(p.name + ": expected addresses within " + std::to_string(kCopyBytes) + " bytes");
  if (Status s = device.upload(lanes, 0, address.data(), sizeof address); !s)
    return s.error();
  Launch launch;
  launch.kernel = probeSymbol(p.access.instruction, p.store);
  launch.threads = kThreads;
  BoundLaunch bound;
  bound.launch = &launch;
  Result<void *> function = device.function(module, launch.kernel, 0, 1);
  if (!function)
    return function.error();
  bound.function = *function;
  bound.words = {lanes.address(), out.address(), 0};
  for (uint64_t &word : bound.words)
    bound.arguments.push_back(&word);
  uint64_t best = UINT64_MAX;
  for (int run = 0; run < 3; ++run) { // the first one warms up
    uint64_t cycles = 0;
    Status s = device.launch(bound);
    if (s)
      s = device.synchronize();
    if (s)
      s = device.download(&cycles, out, 0, sizeof cycles);
    if (!s)
      return s.error();
    best = std::min(best, cycles);
  }
  return double(best) / double(kWarps * kPerWarp);
}

} // namespace

std::vector<Probe> conflictProbes() {
  std::vector<Probe> out;
  for (bool store : {false, true})
    for (SmemInstruction kind : kinds) // without conflicts: what the others are compared with
      out.push_back(probe("in order", kind, store, [=](int64_t l) { return l * tile::bytesPerLane(kind); }));
  addColumns(out);
  addAccumulators(out);
  return out;
}

std::string probeSymbol(SmemInstruction instruction, bool store) {
  return std::string(store ? "store_" : "load_") + std::to_string(int(instruction));
}

std::string probePtx() {
  std::string text = ".version 8.0\n.target sm_90\n.address_size 64\n";
  for (bool store : {false, true})
    for (SmemInstruction kind : kinds)
      text += kernel(kind, store);
  return text;
}

Result<std::vector<ProbeRow>> measureConflicts(const Device &device) {
  Result<void *> module = load(device);
  if (!module)
    return module.error();
  Result<Memory> lanes = device.allocate(32 * 4), out = device.allocate(8 + kThreads * 4);
  if (!lanes || !out)
    return lanes ? out.error() : lanes.error();
  std::vector<ProbeRow> rows;
  double alone[2][6] = {};
  for (const Probe &p : conflictProbes()) {
    Result<double> cycles = cyclesOf(device, *module, p, *lanes, *out);
    if (!cycles)
      return cycles.error();
    const tile::BankConflicts c = tile::countBankConflicts(p.access.instruction, p.access.address);
    double &base = alone[p.store][int(p.access.instruction)];
    if (base == 0)
      base = *cycles / double(c.phases);
    ProbeRow row{p.name, tile::name(p.access.instruction, p.store), c.degree, double(c.phases + c.excess), *cycles, 0};
    row.ratio = *cycles / base / row.predicted;
    rows.push_back(row);
  }
  if (Status s = device.unloadModule(*module); !s)
    return s.error();
  return rows;
}

std::string conflictTable(const std::vector<ProbeRow> &rows) {
  std::string out = "access                                          instruction    degree  predicted  measured  ratio\n";
  char line[160];
  for (const ProbeRow &r : rows) {
    std::snprintf(line, sizeof line, "%-46s  %-13s  %6u  %9.1f  %8.2f  %5.2f%s\n", r.name.c_str(), r.instruction.c_str(), r.degree, r.predicted, r.measured, r.ratio,
                  r.agrees() ? "" : "  differs");
    out += line;
  }
  return out;
}

} // namespace dsv3::bench
