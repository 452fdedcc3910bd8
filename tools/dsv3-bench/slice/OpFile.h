// The list of an artifact's launches (codegen/emit/OpList.h): what each computes, and where its operands lie.
#pragma once

#include "runtime/core/Abi.h"
#include "tools/dsv3-bench/Pack.h"

namespace dsv3::bench {

/// Beside a Buffer of `LaunchOp::c`.
struct OperandPlace {
  dsv3_ref ref{};           ///< of inputs, outputs and the cache
  std::string weight;       ///< of weights: the name in the manifest
  int64_t scales = -1;      ///< of a quantised value: bytes from `ref` to its scales
  int64_t scaleColumns = 0; ///< and numbers that share one
};

struct LaunchOp {
  Case c;                    ///< name: the site; shape: the op's attributes; no launches
  std::string kernel;
  std::vector<OperandPlace> places; ///< of `c.buffers`
  bool perSequence = false;  ///< rows are sequences, not tokens
  /// Nothing of it can be compared: see OpList.h.
  bool opaque() const { return c.buffers.empty(); }
};

struct ProgramOps {
  std::string name;
  std::vector<LaunchOp> ops; ///< one per launch, in order
};

/// BadCheckpoint errors that name program and op.
Result<std::vector<ProgramOps>> readOpFile(const std::string &path);

} // namespace dsv3::bench
