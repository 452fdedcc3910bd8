// Runs a request on a module: which programs, in which steps, over which cache.
#pragma once

#include "Interpreter.h"

#include <map>

namespace dsv3::interpret {

/// What is run. The same request on two modules gives two outputs that can be compared.
struct Request {
  std::string program; ///< a symbol; "trunk_head" for the whole model; empty for the only program
  std::vector<std::vector<int32_t>> ids; ///< of each sequence; empty: drawn
  std::vector<int64_t> lengths{4};       ///< tokens of each sequence when there are no ids
  int64_t past = 0;  ///< tokens each sequence has in the cache already; their rows are drawn
  int64_t chunk = 0; ///< most tokens of a sequence in one step; 0: all
  bool decode = false; ///< one token at a time, through the smallest decode program that fits
  bool mtp = false;    ///< the MTP program after each step, with "trunk_head" only
  std::map<unsigned, std::string> arguments; ///< numbers of a program's tensor argument, in row-major order
};

/// A result or tap: its numbers rounded to `elem`, exact in double.
struct NamedTensor {
  std::string name;
  mlir::Type elem;
  Shape shape;
  std::vector<double> values;
};

/// Rows of the steps are put together: sequence by sequence, in order of position. The cache is the result
/// "kv" of shape [layers, tokens of all sequences, row].
struct Output {
  std::vector<NamedTensor> results, taps;
};

/// Usage errors: no or several programs fit the name, more tokens or sequences than a program's capacity, an argument
/// without a value.
template <typename T> Result<Output> runRequest(mlir::ModuleOp module, const WeightReader &reader, const Request &request);

} // namespace dsv3::interpret
