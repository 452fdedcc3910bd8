// A kernel pack: compiled kernels, and for each case what to allocate, fill, launch and compare.
//
// `compile-model kernels` writes the folder, `dsv3-bench kernel` runs it. It holds no weight data: the bench draws
// numbers and packs them by the layout texts. `cases.json` is the index; beside it lie a cubin and a PTX text per kernel.
#pragma once

#include "runtime/core/DType.h"
#include "runtime/core/Json.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace dsv3::bench {

enum class Role {
  Input,   ///< activations, ids, offsets: filled before a run, the same memory in every launch
  Weight,  ///< packed by `parts`
  Cache,   ///< the KV pool: [layer][page][64][width]; `bytes` is 0, the bench decides the page count
  Step,    ///< the step buffer: `Pack::fields`
  Output,  ///< poisoned before a run, compared after it
  Scratch, ///< written and read by the case's own launches; poisoned before a run
};

/// One stored part of a weight: its data or its scales.
struct Part {
  std::string name; ///< "data", "scale"
  DType elem = DType::BF16;
  int64_t offset = 0, bytes = 0; ///< in the weight
  int64_t outerStride = 0;       ///< bytes between entries of the leading dims that the layout does not name; 0: none
  std::string layout;            ///< "(n, k) -> [n, k]": indices of the data, also for scales
  bool nibbles = false;          ///< elements are I8 of 4 bits, two a byte, that of an even place in its low half
};

struct Buffer {
  std::string name; ///< as the op's operand: "x", "w", "out"
  Role role = Role::Input;
  DType elem = DType::BF16;   ///< of the numbers the op computes with; stored types of weights are in `parts`
  std::vector<int64_t> shape; ///< logical; of the whole rows where the op reads a view
  int64_t at = 0, lanes = 0;  ///< lanes [at, at + lanes) of every row are the operand
  int64_t bytes = 0;
  std::vector<Part> parts;    ///< of weights, and of quantised rows
  std::vector<int64_t> block; ///< numbers per scale in the last two dims; empty: plain
  /// Of a cache: the first `latent` lanes of a row stand as codes, E4M3 or E5M2, with a f32 scale (ir::KvType); 0: plain rows.
  int64_t latent = 0;
  DType codes = DType::F8E4M3;

  bool isQuantised() const { return !block.empty(); }
  /// Bytes of a page of 64 cached rows in one layer.
  int64_t pageBytes() const {
    return 64 * (latent ? latent + (shape[3] - latent) * int64_t(byteSize(elem)) + 4 : shape[3] * int64_t(byteSize(elem)));
  }
};

/// As codegen's tensor maps: innermost dim first; 0 in the outermost dim means as many as the buffer holds.
struct TensorMap {
  DType elem = DType::BF16;
  std::vector<int64_t> dims, strides, box;
  int64_t swizzle = 0;
};

struct Param {
  enum class Kind { Pointer, Map, Const } kind = Kind::Const;
  int64_t buffer = 0; ///< index in `Case::buffers`
  int64_t offset = 0; ///< bytes
  int64_t value = 0;  ///< Const
  TensorMap map;
};

/// Parameter 0 of every kernel, the address of the step's scalars, is not listed.
struct Launch {
  std::string kernel, op; ///< symbol in the cubin; "kernel.gemm"
  bool perProgram = false; ///< once per program, not per layer: outside the timed part
  std::array<int64_t, 3> grid = {1, 1, 1};
  int64_t threads = 0, smem = 0, cluster = 1;
  std::vector<Param> params;
};

struct Case {
  std::string name, op; ///< "gemm"
  Json shape;           ///< the entry of the shape list
  std::vector<Buffer> buffers;
  std::vector<Launch> launches;

  /// The buffer of this name, or null.
  const Buffer *find(std::string_view name) const;
};

/// A field of the step buffer (runtime/core/Abi.h).
struct StepField {
  int64_t kind = 0; ///< DSV3_FIELD_*
  DType elem = DType::I32;
  int64_t offset = 0, count = 0; ///< bytes, elements
};

/// A kernel's files are SYMBOL.cubin and SYMBOL.ptx; registers and spills are those ptxas printed.
struct Kernel {
  std::string symbol;
  int64_t registers = 0, spills = 0; ///< a thread; bytes a thread
  int64_t degree = 0;                ///< of its worst access of shared memory, predicted; 0: not analysed (thread-level kernels)
};

struct Pack {
  std::string target;              ///< "sm_90a"
  int64_t tokens = 0, seqs = 0, pages = 0; ///< capacities T, S, P of the step buffer
  int64_t stepBytes = 0;
  std::vector<StepField> fields;
  std::vector<Kernel> kernels;
  std::vector<Case> cases;
};

/// The document, and back. Errors name the file and the field; a case whose numbers contradict each other (a parameter of
/// a buffer that is not there, an extent outside its buffer) is refused.
OrderedJson toJson(const Pack &pack);
Result<Pack> packFromJson(const Json &json, const std::string &what);

inline constexpr const char *kCasesFile = "cases.json";
Result<Pack> readPack(const std::string &folder);

} // namespace dsv3::bench
