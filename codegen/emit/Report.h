// What device kernels cost in the resources of a multiprocessor.
#pragma once

#include "codegen/emit/Cubin.h"

#include <nlohmann/json_fwd.hpp>

namespace dsv3::codegen {

/// Resources of a multiprocessor that a block is given in units (compute capability 9.0).
struct Multiprocessor {
  int64_t registers = 65536, registerUnit = 256; ///< per warp, in units of 256
  int64_t shared = 233472, sharedUnit = 128;     ///< bytes, 1024 of which every block loses to the system
  int64_t sharedReserved = 1024;
  int64_t threads = 2048, blocks = 32;
};

/// One kernel of the report. `assembled` is false where no ptxas was found: registers and occupancy are then unknown (0).
struct KernelReport {
  std::string kernel;
  bool assembled = false;
  int64_t threads = 0;     ///< per block
  int64_t registers = 0;   ///< per thread, at launch
  int64_t spillBytes = 0;  ///< per thread, stores and loads
  int64_t sharedBytes = 0; ///< per block, static and dynamic
  int64_t stages = 0;      ///< of the deepest ring; 0: none
  int64_t blocks = 0;      ///< that fit a multiprocessor at once
  double occupancy = 0;    ///< warps of these blocks of all that fit
  std::optional<std::vector<SharedAccess>> accesses; ///< of shared memory, with their bank conflicts; nothing when not analysed
  std::string limit;       ///< what keeps one more block out: "registers", "shared memory", "threads" or "blocks"
};

KernelReport reportOf(const DeviceKernel &kernel, const Multiprocessor &sm = {});
std::vector<KernelReport> reportOf(const DeviceCode &code);

/// A table for people, one line per kernel, widest kernel name first column; ends with a newline. `conflicts` is the worst
/// bank conflict degree; a line below names each access that has one.
std::string toText(const std::vector<KernelReport> &reports);
/// [{"kernel": ..., "assembled": ..., "threads": ..., "registers": ..., "spill_bytes": ..., "shared_bytes": ..., "stages": ...,
///   "blocks_per_sm": ..., "occupancy": ..., "limit": ..., "accesses": [{"op": ..., "instruction": ..., "count": ..., "degree": ...,
///   "lost": ...}]}]; what is unknown is null.
nlohmann::json toJson(const std::vector<KernelReport> &reports);

} // namespace dsv3::codegen
