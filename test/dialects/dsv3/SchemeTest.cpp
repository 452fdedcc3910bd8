// What a scheme says about parts, cuts, joins and transposition. The passes ask nothing else.
#include "dialects/dsv3/Dsv3Dialect.h"

#include "mlir/AsmParser/AsmParser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace mlir;
using dsv3::ir::QuantScheme;
using testing::ElementsAre;

namespace {

class Schemes : public ::testing::Test {
protected:
  Schemes() { context.loadDialect<dsv3::ir::Dsv3Dialect>(); }

  RankedTensorType type(const std::string &text) { return cast<RankedTensorType>(parseType("tensor<" + text + ">", &context)); }
  QuantScheme scheme(const std::string &text) { return cast<QuantScheme>(parseAttribute("#dsv3.blocked<" + text + ">", &context)); }

  static std::string text(Type type) {
    std::string out;
    llvm::raw_string_ostream(out) << type;
    return out;
  }
  static std::string text(FailureOr<RankedTensorType> type) { return failed(type) ? "failure" : text(Type(*type)); }

  /// "data i4 [6, 20]; scale f16 [6, 3]".
  std::string parts(const std::string &schemeText, ArrayRef<int64_t> shape) {
    std::string out;
    llvm::raw_string_ostream os(out);
    for (const dsv3::ir::Part &part : scheme(schemeText).getParts(shape)) {
      os << (out.empty() ? "" : "; ") << part.name << " " << part.elem << " [";
      llvm::interleaveComma(part.shape, os);
      os << "]";
    }
    return out;
  }

  MLIRContext context;
};

const std::string awq = "i4, 1x8, f16, zero i8", actOrder = "i4, 1x8, f16, zero i8, indexed";

} // namespace

TEST_F(Schemes, PartsFollowTheGrid) {
  EXPECT_EQ(parts("i8, 1x?, f32", {6, 20}), "data i8 [6, 20]; scale f32 [6, 1]");
  EXPECT_EQ(parts("f8E4M3FN, ?x?, bf16", {6, 20}), "data f8E4M3FN [6, 20]; scale bf16 [1, 1]");
  EXPECT_EQ(parts(awq, {6, 20}), "data i4 [6, 20]; scale f16 [6, 3]; zero i8 [6, 3]") << "8 does not divide 20";
  EXPECT_EQ(parts(actOrder, {4, 6, 20}), "data i4 [4, 6, 20]; scale f16 [4, 6, 3]; zero i8 [4, 6, 3]; index i32 [4, 20]");
}

TEST_F(Schemes, CutsAreOnTheGrid) {
  RankedTensorType w = type("6x24xbf16, #dsv3.blocked<" + awq + ">");
  EXPECT_EQ(text(Type(dsv3::ir::sliceType(w, 1, 8, 16))), text(Type(type("6x16xbf16, #dsv3.blocked<" + awq + ">"))));
  EXPECT_EQ(text(Type(dsv3::ir::sliceType(w, 0, 1, 3))), text(Type(type("3x24xbf16, #dsv3.blocked<" + awq + ">"))));
  EXPECT_EQ(text(Type(dsv3::ir::sliceType(w, 1, 4, 8))), "tensor<6x8xbf16>") << "a cut through groups is dequantised";
}

TEST_F(Schemes, JoinsContinueTheGrid) {
  RankedTensorType w = type("6x24xbf16, #dsv3.blocked<" + awq + ">"), ragged = type("6x20xbf16, #dsv3.blocked<" + awq + ">");
  EXPECT_EQ(text(dsv3::ir::concatType({w, w}, 0)), text(Type(type("12x24xbf16, #dsv3.blocked<" + awq + ">"))));
  EXPECT_EQ(text(dsv3::ir::concatType({w, ragged}, 1)), text(Type(type("6x44xbf16, #dsv3.blocked<" + awq + ">"))));
  EXPECT_EQ(text(dsv3::ir::concatType({ragged, w}, 1)), "failure") << "a partial group ends the grid";
  RankedTensorType symmetric = type("6x24xbf16, #dsv3.blocked<i4, 1x8, f16>");
  EXPECT_EQ(text(dsv3::ir::concatType({w, symmetric}, 0)), "failure") << "one has zero points, the other none";
  EXPECT_EQ(text(dsv3::ir::concatType({w, type("6x24xbf16")}, 0)), "failure");
}

TEST_F(Schemes, TranspositionTurnsTheBlock) {
  EXPECT_EQ(text(Type(dsv3::ir::transposeType(type("6x24xbf16, #dsv3.blocked<" + awq + ">")))),
            text(Type(type("24x6xbf16, #dsv3.blocked<i4, 8x1, f16, zero i8>"))));
}

TEST_F(Schemes, AnIndexForbidsWhatMovesColumns) {
  RankedTensorType w = type("6x24xbf16, #dsv3.blocked<" + actOrder + ">");
  EXPECT_EQ(text(Type(dsv3::ir::sliceType(w, 0, 1, 3))), text(Type(type("3x24xbf16, #dsv3.blocked<" + actOrder + ">"))));
  EXPECT_EQ(text(Type(dsv3::ir::sliceType(w, 1, 8, 16))), "tensor<6x16xbf16>");
  EXPECT_EQ(text(Type(dsv3::ir::transposeType(w))), "tensor<24x6xbf16>");
  EXPECT_EQ(text(Type(dsv3::ir::reshapeType(w, {2, 3, 24}))), "tensor<2x3x24xbf16>");
  EXPECT_EQ(text(dsv3::ir::concatType({w, w}, 0)), "failure") << "two weights have two indices";
}

TEST_F(Schemes, ScaleExtentAlongK) {
  EXPECT_EQ(scheme(awq).getScaleExtentK(), 8);
  EXPECT_EQ(scheme("i8, 1x?, f32").getScaleExtentK(), 0);
}
