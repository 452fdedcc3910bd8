// dsv3-bench slice: steps of an artifact with drawn weights, each launch compared with the reference on what it read.
#pragma once

#include "runtime/core/Json.h"
#include "tools/dsv3-bench/slice/Steps.h"

namespace dsv3::bench {

struct SliceOptions {
  std::string artifact, device = "cuda";
  std::vector<std::string> steps; ///< parseStep; empty: `defaultSteps`
  int64_t samples = 6;            ///< rows compared per output, the first and the last among them
  bool check = true, time = true;
  int runs = 20;                  ///< of a step that is timed
};

/// What a full-width slice is held to: prefill of 4096 tokens, without and with a past; decode of 1, 8, 64 and 128
/// sequences with up to 32,768 tokens.
std::vector<std::string> defaultSteps();

/// One launch of one step.
struct SliceRow {
  std::string step, site, op, kernel;
  bool compared = false;
  std::string problem; ///< empty: right, or not compared
  double worst = 0;    ///< relative error of a row
  int64_t rows = 0;
  double us = 0;       ///< 0: not timed
};

struct SliceReport {
  std::string device;
  std::vector<SliceRow> rows;
  struct Total {
    std::string step;
    double us = 0;     ///< of its launches as a graph
    double steady = 0; ///< from step to step of a decode that goes on, tokens passed on the device; 0: not a decode step
  };
  std::vector<Total> totals; ///< of each timed step
  int64_t weightBytesCompared = 0;
  double loadSeconds = 0, checkSeconds = 0;
  std::vector<std::string> problems; ///< of weights and of steps
  bool ok() const;
};

OrderedJson toJson(const SliceReport &report);
std::string summary(const SliceReport &report);

/// Loads, draws the cache, and does every step. A launch that is wrong stands in the report; errors are the artifact's and
/// the machine's.
Result<SliceReport> runSlice(const SliceOptions &options);

} // namespace dsv3::bench
