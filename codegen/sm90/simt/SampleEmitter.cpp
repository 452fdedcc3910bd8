// kernel.sample.
#include "codegen/sm90/simt/Sampling.h"
#include "runtime/core/TokenChoice.h"

using namespace mlir;

namespace dsv3::codegen {

namespace {

/// kernel.sample: logits, seq, out.
class SampleEmitter : public SimtEmitter {
public:
  SampleEmitter() : SimtEmitter("kernel.sample", "sm90.sample") {}
  LaunchSignature signature(Operation *) const override { return {{DSV3_FIELD_SAMPLING}, {}}; }
  std::string whyIllegal(Operation *op) const override {
    if (lastDim(op->getOperand(0)) > kMostTokens)
      return "a vocabulary of more than " + std::to_string(kMostTokens);
    return floatsOnly(op);
  }

protected:
  static constexpr int64_t kMostBlocks = 128; ///< at a time: a block fills a multiprocessor, and clusters do not fit all of them

  /// As many blocks as keep all multiprocessors busy when few rows are full, and have 8192 tokens each. So programs of few
  /// sequences have another body than those of many; bits do not depend on it.
  int64_t cluster(Operation *op) const override {
    int64_t blocks = 8;
    while (blocks > 1 && (blocks * 8192 > lastDim(op->getOperand(0)) || blocks * rowCapacity(op->getOperand(0)) > kMostBlocks))
      blocks /= 2;
    return blocks;
  }
  /// Sixteen tokens a thread or more.
  int64_t threads(Operation *op) const override {
    int64_t threads = SimtBuilder::kWarp;
    while (threads < 1024 && threads * cluster(op) * 16 < lastDim(op->getOperand(0)))
      threads *= 2;
    return threads;
  }
  int64_t blocks(Operation *op) const override { return rowCapacity(op->getOperand(0)) * cluster(op); }

  void body(Operation *op, SimtBuilder &k, const RefMap &refs) const override {
    int64_t vocab = lastDim(op->getOperand(0)), width = std::min<int64_t>(4, vectorWidth(op, {0}, {vocab}));
    Rows logits = rows(k, refs, op, 0);
    k.takeRegisters(); // few blocks run at a time
    Value row = k.div(k.block(), k.cluster);
    k.when(k.lt(row, k.scalarI32(DSV3_SCALAR_SEQS)), [&] {
      Value how = k.element(k.param(refs.of(1)), row, sizeof(dsv3_sampling)), out = k.element(k.param(refs.of(2)), row, sizeof(dsv3_sampled));
      buildSampling(k, logits, logits.at(k, row), how, out, vocab, width);
    });
  }
};

} // namespace

void addSampleEmitters90(KernelRegistry &r) { r.add(std::make_unique<SampleEmitter>()); }

} // namespace dsv3::codegen
