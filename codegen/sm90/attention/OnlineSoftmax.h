// The online softmax of Milakov and Gimelshein (2018) on fragments, shared by the attention kernels.
#pragma once

#include "codegen/sm90/TileBuilder.h"

namespace dsv3::codegen {

/// Probabilities are 2^(s c - m c), with s a raw score, c = scale log2(e) and m the row's reference, which follows the row's
/// maximum lazily: it moves only when a score exceeds it by more than 8 / c, so that no probability exceeds 2^8 and the
/// accumulator is hardly ever rescaled. The decision is a row's own: rows that share a tile cannot change its bits.
class OnlineSoftmax {
public:
  using Value = mlir::Value;

  /// `scale`: what the op multiplies scores with.
  OnlineSoftmax(TileBuilder &t, double scale);
  /// Of scores that are exponents of 2 already: c = 1.
  static OnlineSoftmax ofExponents(TileBuilder &t);

  /// Reference and sums of a row that has seen no key. The reference is finite, so that subtracting it from -inf is defined.
  Value startMaximum() const { return t.constant(t.row(t.f32), -1.0e30); }
  Value startSums() const { return t.constant(t.quad(t.f32), 0); }

  /// The reference after scores whose row maxima are `blockMax`.
  Value moved(Value maximum, Value blockMax) const;
  Value rowMaximum(Value scores) const { return t.reduce(tile::Combine::Max, scores, t.row(t.f32)); }
  /// What everything summed so far must be multiplied with; exactly 1 where the reference stayed.
  Value factor(Value before, Value after) const;

  struct Probabilities {
    Value p;    ///< f32
    Value sums; ///< four partial sums a row
  };
  Probabilities probabilities(Value scores, Value maximum) const;
  /// As operand A of the product with V.
  Value rounded(Value p) const { return t.cast(p, t.bf16); }
  /// sums * factor + more.
  Value carry(Value sums, Value factor, Value more) const { return t.fma(sums, t.bcast(factor, t.quad(t.f32)), more); }
  Value total(Value sums) const { return t.reduce(tile::Combine::Add, sums, t.row(t.f32)); }

  /// Every part times its row's factor; a warp none of whose rows moved skips it.
  Values rescaled(llvm::ArrayRef<Value> parts, Value factor) const;
  /// A part divided by its row's total. A row without keys (it does not exist) gives whatever.
  Value normalised(Value part, Value total) const;
  /// log2 of a row's sum of 2^(s c).
  Value logSum(Value maximum, Value total) const;
  /// Scores where `mask` holds, else -inf.
  Value masked(Value mask, Value scores) const;

private:
  TileBuilder &t;
  double c;
};

} // namespace dsv3::codegen
