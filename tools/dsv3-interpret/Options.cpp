#include "Options.h"

#include <CLI/CLI.hpp>

#include <charconv>

namespace dsv3::interpret {

namespace {

/// "0,2037;5" -> {{0, 2037}, {5}}.
template <typename I> Result<std::vector<std::vector<I>>> parseLists(const char *flag, const std::string &text) {
  std::vector<std::vector<I>> lists(1);
  const char *at = text.data(), *end = at + text.size();
  while (true) {
    I value;
    auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc() || (next != end && *next != ',' && *next != ';'))
      return usageError(std::string(flag) + ": expected integers like 0,17 or 0,17;5, got '" + text + "'");
    lists.back().push_back(value);
    if (next == end)
      return lists;
    if (*next == ';')
      lists.emplace_back();
    at = next + 1;
  }
}

/// "2=1,0.5".
Status parseArgument(const std::string &text, Request &request) {
  unsigned index;
  const char *end = text.data() + text.size();
  auto [next, error] = std::from_chars(text.data(), end, index);
  if (error != std::errc() || next == end || *next != '=')
    return usageError("--arg: expected NUMBER=VALUES, got '" + text + "'");
  if (!request.arguments.emplace(index, std::string(next + 1, end)).second)
    return usageError("--arg: expected argument " + std::to_string(index) + " once, got it twice");
  return {};
}

struct Texts {
  std::string ids, lengths, precision = "f32";
  std::vector<std::string> arguments;
};

void addFlags(CLI::App &app, Options &o, Texts &t) {
  Request &r = o.request;
  app.add_option("MODULE", o.module, "dsv3 or kernel IR of any stage; - for standard input")->required();
  app.add_option("--program", r.program, "symbol to run, or trunk_head for the whole model (default: the only one)");
  app.add_option("--precision", t.precision, "of the arithmetic")->check(CLI::IsMember({"f32", "f64"}))->capture_default_str();
  const char *inputs = "Inputs";
  app.add_option("--checkpoint", o.checkpoint, "folder of the weights")->group(inputs);
  app.add_flag("--dummy-weights", o.dummyWeights, "draw the checkpoint's tensors by their names")->group(inputs);
  app.add_option("--ids", t.ids, "ids of one sequence or several: 0,2037 or 1,2,3;4,5")->group(inputs);
  app.add_option("--lengths", t.lengths, "tokens of each sequence, their ids drawn: 5,3 (default: 4)")->group(inputs);
  app.add_option("--past", r.past, "tokens each sequence has in the cache, their rows drawn")->check(CLI::Range(0, 1 << 20))->group(inputs);
  app.add_option("--arg", t.arguments, "values of one tensor argument: 2=1,0.5 (others are drawn)")->allow_extra_args(false)->group(inputs);
  const char *steps = "Steps";
  app.add_option("--chunk", r.chunk, "most tokens of a sequence in a step")->check(CLI::Range(1, 1 << 20))->group(steps);
  app.add_flag("--decode", r.decode, "a token at a time, through a decode program if there is one")->group(steps);
  app.add_flag("--mtp", r.mtp, "run the MTP program too (mtp_logits)")->group(steps);
  const char *output = "Output";
  app.add_flag("--taps", o.taps, "print or compare the taps too")->group(output);
  app.add_flag("--hash-only", o.print.hashOnly, "print NAME: HASH")->group(output);
  app.add_option("--values", o.print.values, "values printed of each tensor")->check(CLI::Range(0, 1 << 20))->capture_default_str()->group(output);
  app.add_option("--logits-out", o.logitsOut, "safetensors file for logits [T, V] and mtp_logits, float32")->group(output);
  app.add_option("--taps-out", o.tapsOut, "safetensors file for the taps, float32")->group(output);
  const char *comparison = "Comparison";
  app.add_option("--against", o.against, "second module: run both on the same inputs, exit with 1 if they differ; every program if none is named")->group(comparison);
  app.add_option("--against-program", o.againstProgram, "its program, if another than --program")->group(comparison);
  app.add_option("--tolerance", o.tolerance, "largest |b - a| / |a| of a row; 0: equal bits")->check(CLI::Range(0.0, 1e9))->capture_default_str()->group(comparison);
}

Status finish(const Texts &t, Options &o) {
  o.doublePrecision = t.precision == "f64";
  if (!t.ids.empty() && !t.lengths.empty())
    return usageError("expected one of --ids and --lengths, got both");
  if (!o.checkpoint.empty() && o.dummyWeights)
    return usageError("expected one of --checkpoint and --dummy-weights, got both");
  if (o.against.empty() && (!o.againstProgram.empty() || o.tolerance != 0))
    return usageError("--against-program, --tolerance: expected --against");
  if (o.request.decode && o.request.chunk)
    return usageError("expected one of --decode and --chunk, got both");
  if (!t.ids.empty()) {
    auto ids = parseLists<int32_t>("--ids", t.ids);
    if (!ids)
      return ids.error();
    o.request.ids = std::move(*ids);
  }
  if (!t.lengths.empty()) {
    auto lengths = parseLists<int64_t>("--lengths", t.lengths);
    if (!lengths)
      return lengths.error();
    for (int64_t n : lengths->front())
      if (lengths->size() > 1 || n < 1 || n > 1 << 20)
        return usageError("--lengths: expected positive numbers like 5,3, got '" + t.lengths + "'");
    o.request.lengths = std::move(lengths->front());
  }
  for (const std::string &text : t.arguments)
    if (Status s = parseArgument(text, o.request); !s)
      return s;
  return {};
}

} // namespace

Result<std::optional<Options>> parseOptions(int argc, char **argv) {
  Options options;
  Texts texts;
  CLI::App app("Runs dsv3 and kernel IR on the reference implementation.", "dsv3-interpret");
  addFlags(app, options, texts);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp &) {
    std::fputs(app.help().c_str(), stdout);
    return std::optional<Options>();
  } catch (const CLI::ParseError &e) {
    std::string line = e.what();
    std::replace(line.begin(), line.end(), '\n', ' ');
    return usageError(line);
  }
  if (Status s = finish(texts, options); !s)
    return s.error();
  return std::optional<Options>(std::move(options));
}

} // namespace dsv3::interpret
