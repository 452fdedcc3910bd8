// What the operands of a launch hold while a step runs on a device.
#pragma once

#include "runtime/engine/Artifact.h"
#include "runtime/engine/Device.h"
#include "tools/dsv3-bench/Expected.h"
#include "tools/dsv3-bench/slice/OpFile.h"

#include <mutex>
#include <unordered_map>

namespace dsv3::bench {

/// The drawn weights of an artifact by name: any rows, as numbers.
class DrawnWeights {
public:
  explicit DrawnWeights(const Manifest::Target &target);
  /// Rows [from, to) of a weight of `shape`, all dims but the last joined. Error: a weight that is not drawn.
  Result<reference::Array<double>> read(const std::string &name, const std::vector<int64_t> &shape, int64_t from, int64_t to) const;

  /// Whether a weight is stored as codes.
  bool isFp8(const std::string &name) const;

private:
  std::unordered_map<std::string, const Manifest::Weight *> byName;
};

/// A launch between two others: its operands are read from the device when they are asked for.
class StepData : public OpData {
public:
  StepData(Device &device, const LaunchOp &op, const DrawnWeights &weights, const reference::SeqMeta &seq)
      : device(device), op(op), weights(weights), seq(seq) {}

  int64_t rows() const override { return op.perSequence ? seq.seqs() : seq.tokens(); }
  void read(const Buffer &input, int64_t first, int64_t count, double *out) const override;
  std::vector<int32_t> integers(const Buffer &input, int64_t count) const override;
  int64_t weightRows(std::string_view name) const override;
  reference::Array<double> weight(std::string_view name, int64_t from, int64_t to) const override;
  reference::SeqMeta sequences() const override { return seq; }
  void cached(const Buffer &cache, int64_t page, int64_t slot, double *row) const override;
  int64_t layer() const override { return op.c.shape.value("layer", int64_t(0)); }
  int64_t cachePages() const override { return device.kvPages(); }

  /// What the result is held to: float32 results of FP8 weights are as far off as bf16, as whether a dequantised weight is
  /// rounded to bf16 is the kernel's choice.
  DType heldTo(const Buffer &output) const;

  /// The first error of a read, which itself gives zeros.
  Status status() const { return first; }

private:
  const OperandPlace &placeOf(const Buffer &b) const { return op.places[size_t(&b - op.c.buffers.data())]; }
  bool fetch(const dsv3_ref &from, uint64_t bytes, void *to) const;
  void fail(const Error &e) const;

  Device &device;
  const LaunchOp &op;
  const DrawnWeights &weights;
  const reference::SeqMeta &seq;
  mutable std::mutex mutex; ///< of the device and of what follows
  mutable Status first;
  mutable int64_t heldPage = -1;
  mutable std::vector<uint8_t> pageBytes;
};

} // namespace dsv3::bench
