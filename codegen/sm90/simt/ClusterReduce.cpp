#include "codegen/sm90/simt/ClusterReduce.h"

using namespace mlir;

namespace dsv3::codegen {

namespace {
constexpr int64_t kWord = 8; ///< bytes: room for an i64
}

ClusterReduce::ClusterReduce(SimtBuilder &k) : k(k), warps(k.threads / SimtBuilder::kWarp) {
  scratch = k.shared(kMostTerms * kWord * SimtBuilder::kWarp);
  if (k.cluster > 1)
    board = k.shared(kMostTerms * kWord);
}

Value ClusterReduce::ofWarp(const Term &t) {
  switch (t.kind) {
  case Kind::Sum: return k.sumWarp64(t.value);
  case Kind::Count: return k.sumWarp(t.value);
  case Kind::Most: return k.maxWarpU32(t.value);
  case Kind::Least: return k.minWarpU32(t.value);
  }
  llvm_unreachable("every kind is listed");
}

Value ClusterReduce::slot(int64_t term, Value warp) { return k.element(k.at(scratch, term * kWord * SimtBuilder::kWarp), warp, kWord); }

Value ClusterReduce::onlyIf(Value condition, Value v) { return k.select(condition, v, k.cint(v.getType(), 0)); }

SmallVector<Value> ClusterReduce::ofBlock(ArrayRef<Term> terms) {
  k.syncBlock(); // what was there before has been read
  for (auto [i, t] : llvm::enumerate(terms)) {
    Value v = ofWarp(t);
    k.when(k.eq(k.lane(), k.idx(0)), [&, i = i] { k.store(v, slot(int64_t(i), k.warp())); });
  }
  k.syncBlock();
  SmallVector<Value> all;
  Value other = k.minI(k.lane(), k.idx(warps - 1)), exists = k.lt(k.lane(), k.idx(warps));
  for (auto [i, t] : llvm::enumerate(terms)) {
    Value v = k.loadScalar(t.value.getType(), slot(int64_t(i), other));
    all.push_back(ofWarp({adds(t.kind) ? onlyIf(exists, v) : v, t.kind}));
  }
  return all;
}

ClusterReduce::Combined ClusterReduce::ofCluster(ArrayRef<Term> terms) {
  Combined result{ofBlock(terms), {}};
  Value exists = k.lt(k.lane(), k.idx(k.cluster));
  if (k.cluster == 1) {
    for (auto [i, t] : llvm::enumerate(terms))
      result.byBlock.push_back(adds(t.kind) ? onlyIf(exists, result.all[i]) : result.all[i]);
    return result;
  }
  k.syncCluster(); // what was there before has been read
  k.when(k.eq(k.thread(), k.idx(0)), [&] {
    for (auto [i, v] : llvm::enumerate(result.all))
      k.store(v, k.at(board, int64_t(i) * kWord));
  });
  k.syncCluster();
  Value theirs = k.remote(board, k.minI(k.lane(), k.idx(k.cluster - 1)));
  for (auto [i, t] : llvm::enumerate(terms)) {
    Value v = k.loadScalar(t.value.getType(), k.at(theirs, int64_t(i) * kWord));
    result.byBlock.push_back(adds(t.kind) ? onlyIf(exists, v) : v);
    result.all[i] = ofWarp({result.byBlock.back(), t.kind});
  }
  return result;
}

} // namespace dsv3::codegen
