#include "tools/dsv3-bench/Run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

namespace dsv3::bench {

namespace {
/// Bytes between copies of a buffer: tensor maps and packed weights want 256-byte alignment.
int64_t stride(int64_t bytes) { return (bytes + 255) / 256 * 256; }

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Device memory of one case: each buffer in as many copies as sets need.
class Session {
public:
  Session(const Device &device, const Pack &pack, const std::string &folder, const Case &c, const RunOptions &options, Kept &kept)
      : device(device), pack(pack), folder(folder), c(c), options(options), kept(kept) {}

  Result<RunRow> run(const Anchors &anchors) {
    row.name = c.name;
    row.op = c.op;
    Status done = prepare();
    if (done && options.check)
      done = checkResults();
    if (done && options.time && row.problem.empty())
      done = time(anchors);
    keepWeights();
    for (void *module : modules)
      (void)device.unloadModule(module); // the process may be past saving; the next one starts afresh
    return done ? Result<RunRow>(row) : Result<RunRow>(done.error());
  }

private:
  //===-- Memory ----------------------------------------------------------===//

  /// How many sets make `coldBytes` of what a launch must find cold: weights, cached rows, the weights of chosen experts.
  int64_t chooseSets() {
    if (!options.time)
      return 1;
    int64_t weights = 0, cached = 0;
    bool routed = false;
    for (const Buffer &b : c.buffers) {
      weights += b.role == Role::Weight ? b.bytes : 0;
      routed |= b.role == Role::Input && (b.name == "offsets" || b.name == "token_of");
      if (b.role == Role::Cache)
        if (Result<ShapeEntry> e = parseShape(c.shape, c.name); e)
          for (const Sequence &s : e->sequences)
            cached += (s.past + s.count) * b.pageBytes() / 64;
    }
    int64_t cold = weights + cached;
    int64_t sets = cold ? std::clamp<int64_t>(ceilDiv(options.coldBytes, cold), 1, 64) : 1;
    return routed ? std::max<int64_t>(sets, 16) : sets;
  }

  int64_t copiesOf(const Buffer &b, int64_t sets) const {
    if (b.role == Role::Weight)
      return std::min(sets, std::max<int64_t>(1, ceilDiv(options.coldBytes, std::max<int64_t>(1, b.bytes))));
    bool routing = b.role == Role::Input && b.elem == DType::I32;
    return b.role == Role::Step || routing ? sets : 1;
  }

  Status prepare() {
    Result<CaseData> made = CaseData::make(pack, c, chooseSets());
    if (!made)
      return made.error();
    data.emplace(std::move(*made));
    row.sets = data->sets();
    Kept before = std::move(kept); // what this case does not take over is freed before anything is allocated
    kept.clear();
    for (const Buffer &b : c.buffers)
      if (auto same = before.find(keyOf(b)); same != before.end())
        taken.insert(before.extract(same));
    before.clear();
    for (const Buffer &b : c.buffers) {
      int64_t bytes = b.role == Role::Cache ? b.shape[0] * data->cachePages() * b.pageBytes() : b.bytes;
      int64_t copies = copiesOf(b, data->sets());
      if (auto same = taken.find(keyOf(b)); same != taken.end()) {
        places.push_back({std::move(same->second), bytes, copies, /*filled=*/true});
        continue;
      }
      Result<Memory> m = device.allocate(stride(bytes) * (copies - 1) + bytes);
      if (!m)
        return doesNotFitError(c.name + ": " + b.name + " of " + std::to_string(copies) + " x " + std::to_string(bytes) + " bytes: " + m.error().message);
      if (Status s = device.setGuard(*m); !s)
        return s;
      places.push_back({std::move(*m), bytes, copies});
    }
    Result<Memory> scalars = device.allocate(int64_t(sizeof data->scalars().scalars));
    if (!scalars)
      return scalars.error();
    stepScalars = std::move(*scalars);
    if (Status s = device.upload(stepScalars, 0, data->scalars().scalars, sizeof data->scalars().scalars); !s)
      return s;
    for (size_t i = 0; i < c.buffers.size(); ++i)
      if (Status s = places[i].filled ? Status() : fillBuffer(i); !s)
        return s;
    return bind();
  }

  /// Names what a buffer holds, empty for what is not kept: values are drawn by name, type, shape and number of rows.
  std::string keyOf(const Buffer &b) const {
    if (b.role != Role::Weight && !(b.role == Role::Input && b.isQuantised()))
      return "";
    std::string key = c.op + " " + b.name + " of " + std::to_string(b.bytes) + " bytes, " + std::to_string(copiesOf(b, data->sets())) + " copies, rows " +
                      c.shape.value("rows", Json()).dump() + " of " + c.shape.value("m", Json()).dump();
    for (const std::vector<int64_t> *sizes : {&b.shape, &b.block})
      for (int64_t size : *sizes)
        key += " " + std::to_string(size);
    for (const Part &p : b.parts)
      key += " " + p.name + std::to_string(int(p.elem)) + "@" + std::to_string(p.offset) + p.layout;
    return key;
  }

  void keepWeights() {
    for (size_t i = 0; i < places.size(); ++i)
      if (std::string key = keyOf(c.buffers[i]); !key.empty() && places.size() == c.buffers.size())
        kept.emplace(std::move(key), std::move(places[i].memory));
  }

  static bool isWritten(const Buffer &b) { return b.role == Role::Output || b.role == Role::Scratch; }

  Status fillBuffer(size_t i) {
    const Buffer &b = c.buffers[i];
    Place &p = places[i];
    if (isWritten(b))
      return options.poison ? device.fill(p.memory, 0, kPoison, p.memory.bytes()) : Status();
    for (int64_t copy = 0; copy < p.copies; ++copy) {
      bool same = copy > 0 && b.role == Role::Weight;
      std::vector<uint8_t> bytes = same ? std::vector<uint8_t>() : data->bytes(b, copy);
      Status s = same ? device.copy(p.memory, copy * stride(p.bytes), p.memory, 0, p.bytes)
                      : device.upload(p.memory, copy * stride(p.bytes), bytes.data(), p.bytes);
      if (!s)
        return s;
    }
    return {};
  }

  //===-- Launches --------------------------------------------------------===//

  Result<void *> function(const Launch &l) {
    void *&known = functions[l.kernel];
    if (known)
      return known;
    Result<void *> module = device.loadModule(folder + "/" + l.kernel + ".cubin");
    if (!module)
      return module;
    modules.push_back(*module);
    Result<void *> f = device.function(*module, l.kernel, l.smem, l.cluster);
    if (f)
      known = *f;
    return f;
  }

  uint64_t address(int64_t buffer, int64_t set) const {
    const Place &p = places[size_t(buffer)];
    return p.memory.address() + uint64_t(set % p.copies * stride(p.bytes));
  }

  Result<BoundLaunch> bindOne(const Launch &l, int64_t set) {
    BoundLaunch bound;
    bound.launch = &l;
    Result<void *> f = function(l);
    if (!f)
      return f.error();
    bound.function = *f;
    bound.words.reserve(l.params.size() + 1);
    bound.maps.reserve(l.params.size());
    auto pass = [&](uint64_t word) {
      bound.words.push_back(word);
      bound.arguments.push_back(&bound.words.back());
    };
    pass(stepScalars.address());
    for (const Param &p : l.params) {
      if (p.kind == Param::Kind::Const) {
        pass(uint64_t(p.value));
      } else if (p.kind == Param::Kind::Pointer) {
        pass(address(p.buffer, set) + uint64_t(p.offset));
      } else {
        Result<cuda::TensorMapImage> map = device.encode(p.map, address(p.buffer, set) + uint64_t(p.offset), places[size_t(p.buffer)].bytes - p.offset);
        if (!map)
          return internalError(l.kernel + ": tensor map of " + c.buffers[size_t(p.buffer)].name + ": " + map.error().message);
        bound.maps.push_back(*map);
        bound.arguments.push_back(&bound.maps.back());
      }
    }
    return bound;
  }

  Status bind() {
    for (int64_t set = 0; set < data->sets(); ++set) {
      launches.emplace_back();
      launches.back().reserve(c.launches.size());
      for (const Launch &l : c.launches) {
        Result<BoundLaunch> bound = bindOne(l, set);
        if (!bound)
          return bound.error();
        launches.back().push_back(std::move(*bound));
      }
    }
    for (const Launch &l : c.launches) {
      row.smem = std::max(row.smem, l.smem);
      row.launches += !l.perProgram;
      for (const Kernel &k : pack.kernels)
        if (k.symbol == l.kernel) {
          row.registers = std::max(row.registers, k.registers);
          row.spills = std::max(row.spills, k.spills);
        }
    }
    return {};
  }

  Status launchSet(int64_t set, bool perProgram, bool perLayer) {
    for (const BoundLaunch &l : launches[size_t(set)])
      if (l.launch->perProgram ? perProgram : perLayer)
        if (Status s = device.launch(l); !s)
          return s;
    return {};
  }

  //===-- Checking --------------------------------------------------------===//

  /// One run of set 0 from poisoned outputs.
  Result<Outputs> runOnce() {
    for (size_t i = 0; i < c.buffers.size(); ++i) {
      if (Status s = isWritten(c.buffers[i]) || isChanged(c.buffers[i]) ? fillBuffer(i) : Status(); !s)
        return s.error();
    }
    Status s = device.synchronize();
    if (s)
      s = launchSet(0, true, true);
    if (s)
      s = device.synchronize();
    if (!s)
      return s.error();
    Outputs out;
    for (size_t i = 0; i < c.buffers.size(); ++i) {
      const Buffer &b = c.buffers[i];
      if (b.role != Role::Output && !isChanged(b))
        continue;
      std::vector<uint8_t> bytes(size_t(places[i].bytes));
      if (Status got = device.download(bytes.data(), places[i].memory, 0, places[i].bytes); !got)
        return got.error();
      out[b.name] = std::move(bytes);
    }
    return out;
  }

  /// Read and written: the cache that is appended to, rows that are rotated in place.
  bool isChanged(const Buffer &b) const {
    bool inPlace = b.role == Role::Input && b.name == "x" && c.op == "rope" && !c.find("out");
    return inPlace || (b.role == Role::Cache && c.op == "kv_append");
  }

  Status checkResults() {
    Result<Expected> expected = expect(c, *data, options.samples);
    if (!expected)
      return expected.error();
    row.checked = true;
    Result<Outputs> first = runOnce(), second = first ? runOnce() : first;
    if (!second) {
      row.problem = second.error().message;
      return {};
    }
    Verdict v = check(c, *data, *expected, *first, *second);
    row.problem = v.problem;
    row.worst = v.worst;
    row.bits = v.bits;
    row.rows = v.rows;
    for (size_t i = 0; i < places.size() && row.problem.empty(); ++i) {
      Result<bool> holds = device.guardHolds(places[i].memory);
      if (!holds)
        return holds.error();
      if (!*holds)
        row.problem = c.buffers[i].name + ": expected the bytes behind its end to stay, but a kernel wrote there";
    }
    return {};
  }

  //===-- Timing ----------------------------------------------------------===//

  /// A graph of `count` turns over the sets.
  Result<void *> graphOf(int64_t count) {
    return device.capture([&]() -> Status {
      for (int64_t i = 0; i < count; ++i)
        if (Status s = launchSet(i % data->sets(), false, true); !s)
          return s;
      return {};
    });
  }

  Status time(const Anchors &anchors) {
    constexpr double kReplayUs = 3000; // long against the 5 us that events resolve, short against the power limit's reaction
    constexpr int64_t kMostTurns = 1024;
    if (Status s = launchSet(0, true, false); !s) // plans: the same for all sets, whose lengths are equal
      return s;
    if (Status s = device.synchronize(); !s)
      return s;
    Result<void *> probe = graphOf(data->sets());
    if (!probe)
      return probe.error();
    double once = 0;
    for (int i = 0; i < 3; ++i) {
      Result<double> us = device.replay(*probe);
      if (!us)
        return us.error();
      once = *us / double(data->sets());
    }
    (void)device.destroyGraph(*probe);
    int64_t turns = std::clamp<int64_t>(int64_t(std::ceil(kReplayUs / std::max(once, 0.1))), 1, kMostTurns);
    turns = ceilDiv(turns, data->sets()) * data->sets();
    Result<void *> graph = graphOf(turns);
    if (!graph)
      return graph.error();
    std::vector<double> times;
    int64_t replays = std::clamp<int64_t>(int64_t(1000 * double(options.timedMs) / std::max(1.0, once * double(turns))), 7, 21);
    for (int64_t i = 0; i < replays + 2; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(options.restMs));
      Result<double> us = device.replay(*graph);
      if (!us)
        return us.error();
      if (i >= 2) // the first ones warm the instruction cache and the clocks
        times.push_back(*us / double(turns));
    }
    (void)device.destroyGraph(*graph);
    std::sort(times.begin(), times.end());
    row.us = times[times.size() / 2];
    row.fastest = times.front();
    row.slowest = times.back();
    return compare(anchors);
  }

  Status compare(const Anchors &anchors) {
    for (int64_t set = 0; set < data->sets(); ++set) {
      Cost cost = costOf(c, *data, set);
      row.bytes += cost.bytes / double(data->sets());
      row.flops += cost.flops / double(data->sets());
    }
    row.floorUs = Cost{row.bytes, row.flops}.floorUs();
    std::string key = c.shape.value("anchor", std::string());
    if (key.empty())
      return {};
    const Anchor *anchor = anchors.find(key);
    if (!anchor)
      return usageError(c.name + ": anchor: expected a row of the anchors, got '" + printable(key) + "'");
    row.peer = anchor->peer;
    row.anchorUs = anchor->us;
    return {};
  }

  struct Place {
    Memory memory;
    int64_t bytes, copies;
    bool filled = false; ///< by the case before
  };

  const Device &device;
  const Pack &pack;
  const std::string &folder;
  const Case &c;
  const RunOptions &options;
  Kept &kept;
  Kept taken; ///< of the case before, until they have their places
  RunRow row;
  std::optional<CaseData> data;
  std::vector<Place> places; ///< of the buffers
  Memory stepScalars;
  std::map<std::string, void *> functions;
  std::vector<void *> modules;
  std::vector<std::vector<BoundLaunch>> launches; ///< by set
};
} // namespace

Result<RunRow> runCase(const Device &device, const Pack &pack, const std::string &folder, const Case &c, const RunOptions &options,
                       const Anchors &anchors, Kept &kept) {
  return Session(device, pack, folder, c, options, kept).run(anchors);
}

//===-- Rows as JSON ------------------------------------------------------===//

OrderedJson toJson(const RunRow &r) {
  OrderedJson json = {{"name", r.name}, {"op", r.op}, {"checked", r.checked}, {"problem", r.problem}, {"worst", r.worst}, {"rows", r.rows},
                      {"bits", r.bits}, {"us", r.us}, {"fastest", r.fastest}, {"slowest", r.slowest}, {"bytes", r.bytes}, {"flops", r.flops}, {"floor_us", r.floorUs},
                      {"sets", r.sets}, {"peer", r.peer}, {"anchor_us", r.anchorUs}, {"registers", r.registers}, {"spills", r.spills},
                      {"smem", r.smem}, {"launches", r.launches}};
  return json;
}

Result<RunRow> rowFromJson(const Json &json) {
  if (!json.is_object())
    return internalError("expected a row, got " + describe(json));
  RunRow r;
  r.name = json.value("name", std::string());
  r.op = json.value("op", std::string());
  r.checked = json.value("checked", false);
  r.problem = json.value("problem", std::string());
  r.worst = json.value("worst", 0.0);
  r.rows = json.value("rows", int64_t(0));
  r.bits = json.value("bits", std::string());
  r.us = json.value("us", 0.0);
  r.fastest = json.value("fastest", 0.0);
  r.slowest = json.value("slowest", 0.0);
  r.bytes = json.value("bytes", 0.0);
  r.flops = json.value("flops", 0.0);
  r.floorUs = json.value("floor_us", 0.0);
  r.sets = json.value("sets", int64_t(1));
  r.peer = json.value("peer", std::string());
  r.anchorUs = json.value("anchor_us", 0.0);
  r.registers = json.value("registers", int64_t(0));
  r.spills = json.value("spills", int64_t(0));
  r.smem = json.value("smem", int64_t(0));
  r.launches = json.value("launches", int64_t(0));
  return r;
}

} // namespace dsv3::bench
