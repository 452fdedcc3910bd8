// Sums and extremes over all threads of a block, or of a cluster of blocks.
#pragma once

#include "codegen/sm90/simt/SimtBuilder.h"

namespace dsv3::codegen {

class ClusterReduce {
public:
  enum class Kind { Sum, Count, Most, Least }; ///< sums of i64 and of i32, extremes of unsigned i32: all without an order
  struct Term {
    Value value;
    Kind kind;
  };
  static constexpr int64_t kMostTerms = 3; ///< at a time

  /// Declares its shared memory here; every use lies in the same region or inside it.
  explicit ClusterReduce(SimtBuilder &k);

  /// Over the block's threads, in all of them, who all must come here. Two barriers.
  SmallVector<Value> ofBlock(ArrayRef<Term> terms);

  struct Combined {
    SmallVector<Value> all;     ///< the same in every thread
    SmallVector<Value> byBlock; ///< in lane c of every warp: what block c has; of sums 0 in lanes without a block
  };
  /// Over the cluster's threads, in all of them, who all must come here. Two barriers more.
  Combined ofCluster(ArrayRef<Term> terms);

private:
  static bool adds(Kind kind) { return kind == Kind::Sum || kind == Kind::Count; }
  Value ofWarp(const Term &t);
  Value slot(int64_t term, Value warp);
  Value onlyIf(Value condition, Value v);

  SimtBuilder &k;
  int64_t warps;
  Value scratch, board; ///< a word per term and warp; a word per term for the other blocks
};

} // namespace dsv3::codegen
