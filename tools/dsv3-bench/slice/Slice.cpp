#include "tools/dsv3-bench/slice/Slice.h"

#include "runtime/cuda/OpenDevice.h"
#include "runtime/engine/ModuleCheck.h"
#include "tools/dsv3-bench/Check.h"
#include "tools/dsv3-bench/slice/StepData.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>

namespace dsv3::bench {

std::vector<std::string> defaultSteps() {
  return {"prefill:0+4096", "prefill:28672+4096", "prefill:1000+1500/0+700/63+65/4000+1", "decode:1x32768", "decode:8@32768", "decode:64@32768", "decode:128@32768"};
}

bool SliceReport::ok() const {
  return problems.empty() && std::all_of(rows.begin(), rows.end(), [](const SliceRow &r) { return r.problem.empty(); });
}

namespace {
using Clock = std::chrono::steady_clock;
double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

class SliceRun {
public:
  explicit SliceRun(const SliceOptions &options) : options(options) {}

  Result<SliceReport> run() {
    if (Status s = open(); !s)
      return s.error();
    report.device = device->describe();
    if (options.check)
      if (Status s = checkWeights(); !s)
        return s.error();
    if (Status s = drawCache(); !s)
      return s.error();
    for (const StepSpec &spec : specs)
      if (Status s = doStep(spec); !s)
        return s.error();
    return std::move(report);
  }

private:
  Status open() {
    Clock::time_point start = Clock::now();
    OpenOptions how;
    how.device = options.device;
    for (const std::string &text : options.steps.empty() ? defaultSteps() : options.steps) {
      Result<StepSpec> spec = parseStep(text);
      if (!spec)
        return spec.error();
      how.kvPages = std::max(how.kvPages, spec->pages());
      specs.push_back(std::move(*spec));
    }
    Result<OpenedModel> opened = openModel(options.artifact, how);
    if (!opened)
      return opened.error();
    model = std::move(*opened);
    device = model.device.get();
    report.loadSeconds = since(start);
    const Manifest::Target &target = model.artifact->target();
    if (!target.drawn)
      return unsupportedError(options.artifact + ": expected an artifact of compile-model --load-format=dummy, whose weights the reference can draw");
    Result<std::vector<ProgramOps>> ops = readOpFile(options.artifact + "/code/" + target.name + "/ops.json");
    if (!ops)
      return ops.error();
    programs = std::move(*ops);
    weights = std::make_unique<DrawnWeights>(target);
    return {};
  }

  /// Elements of every part of every weight, byte by byte.
  Status checkWeights() {
    constexpr int64_t runs = 4, each = 8;
    for (const Manifest::Weight &w : model.artifact->target().weights)
      for (const DummyFill &fill : w.draw)
        for (int64_t i = 0; i < runs * each; ++i) {
          int64_t run = i / each == 0 ? 0 : i / each == 1 ? fill.rows() - 1 : int64_t(mix(3, uint64_t(i / each)) % uint64_t(fill.rows()));
          int64_t count = fill.dims.back().count, j = i % each == 0 ? count - 1 : int64_t(mix(4, uint64_t(i)) % uint64_t(count));
          uint8_t want[4] = {}, got[4] = {};
          uint64_t size = byteSize(fill.elem);
          dsv3_ref at{DSV3_POOL_WEIGHTS, 0, fill.element(run, j, want)};
          if (Status s = device->read(at, size, got); !s)
            return s;
          report.weightBytesCompared += int64_t(size);
          if (std::memcmp(want, got, size) != 0)
            report.problems.push_back("weight " + printable(w.name) + ": expected the byte at " + std::to_string(at.offset) + " to be " +
                                      std::to_string(want[0]) + ", got " + std::to_string(got[0]));
        }
    return {};
  }

  /// Normal numbers in every row: as latents behind their norm are.
  Status drawCache() {
    const dsv3_module_desc &module = device->module();
    if (model.artifact->manifest().kv.latent)
      return unsupportedError("slice: expected a cache of plain rows, got codes: rows are drawn number by number");
    for (int64_t layer = 0; layer < int64_t(module.kv_layers); ++layer) {
      int64_t rows = device->kvPages() * module.kv_page_tokens, width = module.kv_row_elems;
      DummyFill fill;
      fill.tensor = "kv." + std::to_string(layer);
      fill.elem = module.kv_elem == DSV3_ELEM_BF16 ? DType::BF16 : DType::F32;
      fill.stored = fill.elem;
      fill.cols = width;
      fill.dims = {{0, 1, rows, 1, 0}, {0, 1, width, 0, 1}};
      fill.offset = uint64_t(layer * rows * width) * byteSize(fill.elem);
      fill.terms = {{0, 1, DummyFill::kMostIndex, width}, {1, 1, DummyFill::kMostIndex, 1}};
      if (Status s = device->draw(fill, DSV3_POOL_KV); !s)
        return s;
    }
    return {};
  }

  //===-- One step --------------------------------------------------------===//

  Status doStep(const StepSpec &spec) {
    Result<PlannedStep> step = PlannedStep::make(spec, *device, model.artifact->manifest().model.vocabSize);
    if (!step)
      return step.error();
    const char *name = device->module().programs[step->program()].name;
    auto program = std::find_if(programs.begin(), programs.end(), [&](const ProgramOps &p) { return p.name == name; });
    if (program == programs.end())
      return checkpointError("ops.json: expected program " + printable(name));
    size_t first = report.rows.size();
    for (const LaunchOp &op : program->ops)
      report.rows.push_back({spec.text, op.c.name, op.c.op, op.kernel, false, "", 0, 0, 0});
    if (options.check)
      if (Status s = checkStep(*step, program->ops, first); !s)
        return s;
    return options.time ? timeStep(spec, *step, first) : Status();
  }

  Status checkStep(PlannedStep &step, const std::vector<LaunchOp> &ops, size_t firstRow) {
    Clock::time_point start = Clock::now();
    std::optional<Expected> expected;
    LaunchHook hook = [&](uint32_t launch, bool done) -> Status {
      if (launch >= ops.size())
        return checkpointError("ops.json: expected the launches of the program, got fewer");
      const LaunchOp &op = ops[launch];
      if (op.opaque())
        return {};
      StepData data(*device, op, *weights, step.sequences());
      SliceRow &row = report.rows[firstRow + launch];
      if (!done) { // inputs are whole only before: an op may write in place
        Result<Expected> want = expect(op.c, op.c.shape, data, options.samples);
        if (!want || !data.status())
          return Error{ExitCode::Internal, op.c.name + ": " + (want ? data.status().error().message : want.error().message)};
        expected = std::move(*want);
        return {};
      }
      compare(*expected, op, data, row);
      return data.status();
    };
    Status s = device->runByLaunch(step.program(), step.host(), hook);
    report.checkSeconds += since(start);
    std::fprintf(stderr, "dsv3-bench: %s compared in %.1f s\n", device->module().programs[step.program()].name, since(start));
    return s;
  }

  void compare(const Expected &expected, const LaunchOp &op, const StepData &data, SliceRow &row) {
    std::set<int64_t> ties;
    auto fail = [&](const std::string &what) {
      if (row.problem.empty())
        row.problem = what;
    };
    row.compared = true;
    for (const ExpectedInts &e : expected.ints) {
      std::vector<int32_t> got = data.integers(*op.c.find(e.buffer), int64_t(e.values.size()));
      for (size_t i = 0; i < got.size(); ++i)
        if (got[i] != e.values[i])
          fail(e.buffer + " element " + std::to_string(i) + ": expected " + std::to_string(e.values[i]) + ", got " + std::to_string(got[i]));
      row.rows += int64_t(got.size());
    }
    for (const ExpectedExperts &e : expected.experts) {
      const Buffer &ids = *op.c.find("ids");
      int64_t top = ids.shape[1];
      std::vector<int32_t> got = data.integers(ids, (e.token + 1) * top);
      bool tie = false;
      std::string fault = expertFault(e, {got.end() - top, got.end()}, tie);
      if (!fault.empty())
        fail("ids row " + std::to_string(e.token) + " " + fault);
      if (tie)
        ties.insert(e.token);
      ++row.rows;
    }
    for (const ExpectedRow &e : expected.rows) {
      const Buffer *b = op.c.find(e.buffer);
      if (!b || (!expected.experts.empty() && ties.count(e.row)))
        continue;
      std::vector<double> got(e.values.size());
      data.read(*b, e.row * b->shape.back(), int64_t(got.size()), got.data());
      double relative = 0;
      std::string fault = rowFault(data.heldTo(*b), e.values, got, relative);
      row.worst = std::max(row.worst, relative);
      ++row.rows;
      if (!fault.empty())
        fail(e.buffer + " row " + std::to_string(e.row) + fault);
    }
  }

  Status timeStep(const StepSpec &spec, PlannedStep &step, size_t firstRow) {
    step.fill(*device);
    Result<StepTimes> times = device->time(step.program(), step.host(), options.runs);
    if (!times)
      return times.error();
    for (size_t i = 0; i < times->launches.size() && firstRow + i < report.rows.size(); ++i)
      report.rows[firstRow + i].us = times->launches[i];
    Result<double> steady = spec.phase == DSV3_PHASE_DECODE && device->stepsAtOnce() > 1 ? timeSteady(step) : Result<double>(0.0);
    if (!steady)
      return steady.error();
    report.totals.push_back({spec.text, times->total, *steady});
    return {};
  }

  /// Microseconds from step to step where the host fills one while the device runs another.
  Result<double> timeSteady(PlannedStep &step) {
    const dsv3_output_desc *sampled = findOutput(device->module().programs[step.program()], "sampled");
    if (!sampled)
      return 0.0;
    std::vector<HostCopy> copies = {{sampled->ref, uint64_t(step.sequences().seqs()) * sizeof(dsv3_sampled)}};
    const int count = 4 * options.runs;
    Clock::time_point start = Clock::now();
    for (int i = 0; i < count; ++i) {
      if (i == options.runs) // the first ones warm caches and clocks
        start = Clock::now();
      step.fillServing(*device, i > 0);
      Status s = device->launch(step.program(), step.host(), copies);
      if (s && i > 0)
        s = device->wait();
      if (!s)
        return s.error();
    }
    double us = since(start) * 1e6 / (count - options.runs);
    Status s = device->wait();
    return s ? Result<double>(us) : s.error();
  }

  const SliceOptions &options;
  std::vector<StepSpec> specs;
  OpenedModel model;
  Device *device = nullptr;
  std::vector<ProgramOps> programs;
  std::unique_ptr<DrawnWeights> weights;
  SliceReport report;
};

template <typename... T> std::string format(const char *pattern, T... values) {
  char text[512];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}
} // namespace

Result<SliceReport> runSlice(const SliceOptions &options) { return SliceRun(options).run(); }

//===-- Output ------------------------------------------------------------===//

OrderedJson toJson(const SliceReport &r) {
  OrderedJson json = {{"device", r.device}, {"load_s", r.loadSeconds}, {"check_s", r.checkSeconds}, {"weight_bytes_compared", r.weightBytesCompared}, {"problems", r.problems}};
  json["steps"] = OrderedJson::array();
  std::string current;
  for (const SliceRow &row : r.rows) {
    if (row.step != current) {
      json["steps"].push_back({{"step", row.step}});
      for (const SliceReport::Total &t : r.totals)
        if (t.step == row.step) {
          json["steps"].back()["us"] = t.us;
          if (t.steady > 0)
            json["steps"].back()["steady_us"] = t.steady;
        }
      json["steps"].back()["launches"] = OrderedJson::array();
      current = row.step;
    }
    OrderedJson launch = {{"site", row.site}, {"op", row.op}, {"kernel", row.kernel}};
    if (row.compared)
      launch.update(OrderedJson{{"rows", row.rows}, {"worst", row.worst}, {"problem", row.problem}});
    if (row.us > 0)
      launch["us"] = row.us;
    json["steps"].back()["launches"].push_back(std::move(launch));
  }
  return json;
}

std::string summary(const SliceReport &r) {
  std::string out = r.device + format("; loaded in %.1f s, compared in %.1f s, %lld bytes of weights as drawn\n", r.loadSeconds, r.checkSeconds, (long long)r.weightBytesCompared);
  struct Line {
    int launches = 0, compared = 0, wrong = 0;
    int64_t rows = 0;
    double worst = 0, us = 0;
  };
  std::vector<std::string> steps;
  std::map<std::string, std::map<std::string, Line>> lines;
  for (const SliceRow &row : r.rows) {
    if (!lines.count(row.step))
      steps.push_back(row.step);
    Line &l = lines[row.step][row.op];
    ++l.launches, l.compared += row.compared, l.wrong += !row.problem.empty(), l.rows += row.rows, l.us += row.us;
    l.worst = std::max(l.worst, row.worst);
  }
  for (const std::string &step : steps) {
    double sum = 0;
    SliceReport::Total total;
    for (auto &[op, l] : lines[step])
      sum += l.us;
    for (const SliceReport::Total &t : r.totals)
      total = t.step == step ? t : total;
    out += step + (total.us > 0 ? format(": %.1f us, launches one by one %.1f us", total.us, sum) : "") +
           (total.steady > 0 ? format(", from step to step %.1f us\n", total.steady) : "\n");
    for (auto &[op, l] : lines[step])
      out += format("  %-20s %3d launches %3d compared %6lld rows  worst %.2e  %s%s\n", op.c_str(), l.launches, l.compared, (long long)l.rows, l.worst,
                    l.us > 0 ? format("%9.1f us", l.us).c_str() : "", l.wrong ? format("  %d WRONG", l.wrong).c_str() : "");
  }
  for (const SliceRow &row : r.rows)
    if (!row.problem.empty())
      out += "wrong: " + row.step + " " + row.site + " (" + row.op + "): " + row.problem + "\n";
  for (const std::string &problem : r.problems)
    out += "wrong: " + problem + "\n";
  return out + (r.ok() ? "every launch is as the reference has it\n" : "");
}

} // namespace dsv3::bench
