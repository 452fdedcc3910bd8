// T9 and T10: what the verifier of `view` admits is a restriction on every element, and it refuses nothing else.
#include "dialects/tile/TileDialect.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"

#include <gtest/gtest.h>

namespace dsv3::tile {
namespace {

using namespace mlir;

/// The part's elements lie where its type says, relative to its first one, for an address-exchanged base too.
bool isRestriction(BufType source, BufType part, ArrayRef<int64_t> offset) {
  SmemLayout from = source.getSmem(), to = part.getSmem();
  int64_t drop = source.getRank() - part.getRank();
  std::vector<int64_t> base(offset.begin(), offset.end()), c(part.getRank(), 0);
  while (true) {
    std::vector<int64_t> at = base;
    for (int64_t d = 0; d < part.getRank(); ++d)
      at[drop + d] += c[d];
    if (from.bit(at) - from.bit(base) != to.bit(c))
      return false;
    int64_t d = part.getRank() - 1;
    while (d >= 0 && ++c[d] == part.getShape()[d])
      c[d--] = 0;
    if (d < 0)
      return true;
  }
}

struct ViewTest : ::testing::Test {
  ViewTest() { context.loadDialect<TileDialect>(); }

  bool verifies(BufType source, BufType part, ArrayRef<int64_t> offset) {
    ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
    OpBuilder b(&context);
    Block block;
    Value value = block.addArgument(source, b.getUnknownLoc());
    SmallVector<OpFoldResult> coords;
    for (int64_t c : offset)
      coords.push_back(b.getI64IntegerAttr(c));
    OwningOpRef<ViewOp> view(ViewOp::create(b, b.getUnknownLoc(), part, value, coords));
    return succeeded(view->verify());
  }

  /// All parts of these sizes at these offsets.
  void compare(BufType source, ArrayRef<BufType> parts, ArrayRef<int64_t> rows, ArrayRef<int64_t> cols) {
    int admitted = 0;
    for (BufType part : parts)
      for (int64_t row : rows)
        for (int64_t col : cols) {
          SmallVector<int64_t> offset(source.getRank(), 0);
          offset[source.getRank() - 2] = row;
          offset.back() = col;
          if (row + (part.getRank() > 1 ? part.getShape()[part.getRank() - 2] : 1) > source.getShape()[source.getRank() - 2] ||
              col + part.getShape().back() > source.getShape().back())
            continue;
          bool legal = verifies(source, part, offset);
          admitted += legal;
          std::string text;
          llvm::raw_string_ostream(text) << source << " at " << row << ", " << col << " -> " << part;
          EXPECT_EQ(legal, isRestriction(source, part, offset)) << text;
        }
    EXPECT_GT(admitted, 0);
  }

  BufType buf(ArrayRef<int64_t> shape, SmemKind kind, int64_t a = 0, int64_t b = 0, int64_t c = 0) {
    return BufType::get(&context, shape, BFloat16Type::get(&context), LayoutAttr::get(&context, kind, a, b, c));
  }
  MLIRContext context;
};

TEST_F(ViewTest, Atoms) {
  auto sw = [&](ArrayRef<int64_t> shape) { return buf(shape, SmemKind::Sw128); };
  compare(sw({64, 256}), {sw({64, 64}), sw({64, 128}), sw({64, 256}), sw({32, 64}), sw({32, 128}), sw({8, 64})}, {0, 4, 8, 32}, {0, 64, 128});
  compare(sw({2, 64, 128}), {sw({64, 64}), sw({64, 128}), sw({32, 64}), sw({1, 64, 64})}, {0, 8, 32}, {0, 64});
}

TEST_F(ViewTest, Rows) {
  compare(buf({16, 64}, SmemKind::Linear), {buf({4, 64}, SmemKind::Linear), buf({1, 16}, SmemKind::Linear), buf({16}, SmemKind::Linear), buf({4, 16}, SmemKind::Linear), buf({4, 16}, SmemKind::Pad, 96)},
          {0, 3, 8}, {0, 16, 40});
  compare(buf({16, 64}, SmemKind::Pad, 16), {buf({4, 64}, SmemKind::Pad, 16), buf({4, 64}, SmemKind::Linear), buf({4, 56}, SmemKind::Pad, 32)}, {0, 3}, {0, 8});
  compare(buf({16, 16, 16}, SmemKind::Swizzle, 1, 4, 3), {buf({16, 16}, SmemKind::Swizzle, 1, 4, 3), buf({8, 16}, SmemKind::Swizzle, 1, 4, 3), buf({4, 16}, SmemKind::Swizzle, 1, 4, 3)}, {0, 4, 8}, {0});
}

} // namespace
} // namespace dsv3::tile
