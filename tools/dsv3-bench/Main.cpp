// dsv3-bench: kernels of a pack (compile-model kernels) and steps of an artifact on a GPU, and load on a server.
#include "tools/dsv3-bench/Conflicts.h"
#include "tools/dsv3-bench/Report.h"
#include "tools/dsv3-bench/Workers.h"
#include "tools/dsv3-bench/serve/Serve.h"
#include "tools/dsv3-bench/slice/Slice.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <regex>

namespace dsv3::bench {

namespace {
struct Options {
  std::string pack, filter, anchors = "bench/anchors/h200.csv", json, commit;
  RunOptions run;
  bool check = false, time = false, list = false, oneProcess = false;
  double timeout = 120;
};

/// What the workers do: one device per process, cases from `first` on until one breaks the device.
void work(const Pack &pack, const std::vector<const Case *> &cases, const Options &o, const Anchors &anchors, int64_t first,
          const std::function<void(const std::string &)> &report) {
  Result<std::unique_ptr<Device>> device = Device::open();
  Kept kept;
  for (size_t i = size_t(first); i < cases.size(); ++i) {
    RunRow row;
    row.name = cases[i]->name;
    row.op = cases[i]->op;
    Result<RunRow> done = device ? runCase(**device, pack, o.pack, *cases[i], o.run, anchors, kept) : Result<RunRow>(device.error());
    if (done)
      row = *done;
    else
      row.problem = done.error().message;
    OrderedJson json = toJson(row);
    json["no_device"] = !device;
    json["gpu"] = device ? (*device)->name() : "";
    json["driver"] = device ? (*device)->driver() : "";
    report(json.dump());
    if (!device)
      return;
    // A fault stays with the context: whatever comes next would fail of it.
    if (!(*device)->synchronize())
      return;
  }
}

RunRow lost(const Case &c, const std::string &why) {
  RunRow row;
  row.name = c.name;
  row.op = c.op;
  row.problem = why;
  return row;
}

/// Cases that say `same_bits: NAME` wrote what that case wrote: the same rows in another bucket.
void compareBits(const std::vector<const Case *> &cases, std::vector<RunRow> &rows) {
  auto rowOf = [&](const std::string &name) { return std::find_if(rows.begin(), rows.end(), [&](const RunRow &r) { return r.name == name; }); };
  for (const Case *c : cases) {
    std::string name = c->shape.value("same_bits", std::string());
    auto row = rowOf(c->name), other = rowOf(name);
    if (name.empty() || row == rows.end() || !row->problem.empty())
      continue;
    if (other == rows.end())
      row->problem = "same_bits: expected a case " + name + " in this run, got none";
    else if (row->bits != other->bits)
      row->problem = "expected the bits of " + name + " (" + other->bits + "), got " + row->bits;
  }
}

std::string today() {
  std::time_t now = std::time(nullptr);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
  return text;
}

/// Whole or not at all, whenever the process ends.
Status writeJson(const std::string &path, const OrderedJson &json) {
  const std::string part = path + ".part";
  std::ofstream file(part);
  file << json.dump(1) << "\n";
  file.close();
  std::error_code failed;
  if (file)
    std::filesystem::rename(part, path, failed);
  return file && !failed ? Status() : Status(usageError("cannot write '" + path + "'"));
}

Result<int> runKernels(const Options &o, const std::string &command) {
  Result<Pack> pack = readPack(o.pack);
  if (!pack)
    return pack.error();
  Result<Anchors> anchors = Anchors::read(o.anchors);
  if (!anchors)
    return anchors.error();
  std::regex wanted(o.filter.empty() ? ".*" : o.filter);
  std::vector<const Case *> cases;
  for (const Case &c : pack->cases)
    if (std::regex_search(c.name, wanted))
      cases.push_back(&c);
  if (cases.empty())
    return usageError("--filter: expected a case that matches '" + printable(o.filter) + "', got none");
  if (o.list) {
    for (const Case *c : cases)
      std::printf("%s\n", c->name.c_str());
    return 0;
  }
  RunInfo info{today(), o.commit, command, "", "", int64_t(cases.size())};
  std::vector<RunRow> rows;
  auto write = [&] { return o.json.empty() ? Status() : writeJson(o.json, reportJson(info, rows)); };
  auto add = [&](RunRow row) {
    if (rows.empty())
      std::printf("%s\n", tableHeader().c_str());
    std::printf("%s\n", tableLine(row).c_str());
    std::fflush(stdout);
    rows.push_back(std::move(row));
    (void)write(); // a run that is cut keeps its rows; the last one says whether it could
  };
  std::string noDevice; // why there is none
  auto onLine = [&](int64_t i, const std::string &line) {
    Result<Json> json = parseJson(line, "a worker's row");
    Result<RunRow> row = json ? rowFromJson(*json) : Result<RunRow>(json.error());
    if (row && json->value("no_device", false)) {
      noDevice = row->problem;
      return;
    }
    if (row && json->value("gpu", std::string()) != "") {
      info.gpu = (*json)["gpu"];
      info.driver = (*json)["driver"];
    }
    add(row ? *row : lost(*cases[size_t(i)], row.error().message));
  };
  auto onLoss = [&](int64_t i, const std::string &why) {
    if (noDevice.empty())
      add(lost(*cases[size_t(i)], why));
  };
  auto worker = [&](int64_t first, const std::function<void(const std::string &)> &report) { work(*pack, cases, o, *anchors, first, report); };
  if (o.oneProcess) {
    int64_t next = 0;
    worker(0, [&](const std::string &line) { onLine(next++, line); });
    for (; next < int64_t(cases.size());)
      onLoss(next++, "not run: an earlier case broke the device");
  } else if (Status s = runWorkers(int64_t(cases.size()), o.timeout, worker, onLine, onLoss); !s) {
    return s.error();
  }
  if (!noDevice.empty())
    return unsupportedError(noDevice);
  if (o.run.check)
    compareBits(cases, rows);
  std::printf("\n%s", summaryText(rows).c_str());
  if (Status s = write(); !s)
    return s.error();
  bool failed = std::any_of(rows.begin(), rows.end(), [](const RunRow &r) { return !r.problem.empty(); });
  return failed ? 1 : 0;
}

/// 1 when the device and the model disagree somewhere.
Result<int> runConflicts() {
  Result<std::unique_ptr<Device>> device = Device::open();
  if (!device)
    return device.error();
  Result<std::vector<ProbeRow>> rows = measureConflicts(**device);
  if (!rows)
    return rows.error();
  std::printf("%s, driver %s\n%s", (*device)->name().c_str(), (*device)->driver().c_str(), conflictTable(*rows).c_str());
  return std::all_of(rows->begin(), rows->end(), [](const ProbeRow &r) { return r.agrees(); }) ? 0 : 1;
}

Result<int> runSliceCommand(const SliceOptions &o, const std::string &jsonPath, const std::string &commit, const std::string &command) {
  Result<SliceReport> report = runSlice(o);
  if (!report)
    return report.error();
  std::printf("%s", summary(*report).c_str());
  if (!jsonPath.empty()) {
    OrderedJson json = {{"date", today()}, {"commit", commit}, {"command", command}};
    json.update(toJson(*report));
    if (Status s = writeJson(jsonPath, json); !s)
      return s.error();
  }
  return report->ok() ? 0 : 1;
}

void declareSlice(CLI::App &slice, SliceOptions &o, Options &shared) {
  slice.option_defaults()->always_capture_default();
  slice.add_option("ARTIFACT", o.artifact, "Folder that compile-model --load-format=dummy --op-list wrote")->required();
  slice.add_option("--device", o.device, "cuda or cpu")->check(CLI::IsMember({"cuda", "cpu"}));
  slice.add_option("--step", o.steps, "prefill:PAST+COUNT[/...], decode:SEQUENCESxTOKENS or decode:SEQUENCES@TOKENS (mixed lengths); may be given several times");
  slice.add_flag("--check", shared.check, "Compare every launch with the reference on sampled rows");
  slice.add_flag("--time", shared.time, "Time the steps as graphs, and each launch; default: both");
  slice.add_option("--samples", o.samples, "Rows compared per output")->check(CLI::PositiveNumber);
  slice.add_option("--runs", o.runs, "Repetitions of a step that is timed")->check(CLI::PositiveNumber);
  slice.add_option("--json", shared.json, "Write the results to this file");
  slice.add_option("--commit", shared.commit, "What the JSON says was measured");
}

Result<int> main(int argc, char **argv) {
  Options o;
  CLI::App app("Measures kernels and steps on a GPU, and servers.", "dsv3-bench");
  app.require_subcommand(1);
  CLI::App *kernel = app.add_subcommand("kernel", "Checks and times the kernels of a pack (compile-model kernels)");
  kernel->option_defaults()->always_capture_default();
  kernel->add_option("PACK", o.pack, "Folder that compile-model kernels wrote")->required();
  kernel->add_flag("--check", o.check, "Compare sampled rows with the reference, look for unwritten elements, compare two runs bit by bit");
  kernel->add_flag("--time", o.time, "Time CUDA graph replays, weights and cache cold; default: both");
  kernel->add_option("--rest", o.run.restMs, "Milliseconds of rest before each timed replay; 0: back to back, at the power limit")
      ->check(CLI::NonNegativeNumber);
  kernel->add_option("--timed", o.run.timedMs, "Milliseconds of timed replays of a case, about")->check(CLI::PositiveNumber);
  kernel->add_flag("--list", o.list, "Print the names of the cases");
  kernel->add_option("--filter", o.filter, "Only cases whose name matches this regular expression");
  kernel->add_option("--anchors", o.anchors, "CSV of what the best public kernels took");
  kernel->add_option("--samples", o.run.samples, "Rows compared per output")->check(CLI::PositiveNumber);
  kernel->add_option("--timeout", o.timeout, "Seconds after which a silent case counts as hanging")->check(CLI::PositiveNumber);
  kernel->add_flag("!--unpoisoned", o.run.poison, "Leave outputs as they are allocated, for a tool that looks for reads of unwritten memory");
  kernel->add_flag("--one-process", o.oneProcess, "Run every case in this process, for tools that watch it; a fault then ends the run");
  kernel->add_option("--json", o.json, "Write the results to this file");
  kernel->add_option("--commit", o.commit, "What the JSON says was measured");
  CLI::App *conflicts = app.add_subcommand("conflicts", "Compares bank conflicts of shared memory accesses with the model");
  SliceOptions slice;
  CLI::App *sliceCommand = app.add_subcommand("slice", "Runs steps of an artifact with drawn weights, and compares each launch with the reference");
  declareSlice(*sliceCommand, slice, o);
  serve::ServeOptions served;
  CLI::App *serveCommand = app.add_subcommand("serve", "Puts load on a server that speaks the OpenAI API; the flags of vllm bench serve");
  serve::declareServe(*serveCommand, served);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &e) {
    if (e.get_exit_code() == 0)
      return app.exit(e); // --help
    return usageError(printable(e.what(), 300));
  }
  if (conflicts->parsed())
    return runConflicts();
  if (serveCommand->parsed())
    return serve::runServe(served);
  o.run.check = o.check || !o.time;
  o.run.time = o.time || !o.check;
  std::string command = "dsv3-bench";
  for (int i = 1; i < argc; ++i)
    command += std::string(" ") + argv[i];
  if (sliceCommand->parsed()) {
    slice.check = o.run.check;
    slice.time = o.run.time;
    return runSliceCommand(slice, o.json, o.commit, command);
  }
  return runKernels(o, command);
}
} // namespace

} // namespace dsv3::bench

int main(int argc, char **argv) {
  dsv3::Result<int> code = dsv3::bench::main(argc, argv);
  if (code)
    return *code;
  std::fprintf(stderr, "dsv3-bench: error: %s\n", code.error().message.c_str());
  return int(code.error().code);
}
