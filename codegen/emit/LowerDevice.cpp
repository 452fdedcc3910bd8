// Device functions to the LLVM dialect: what upstream would send to a library, or not lower at all, goes first.
#include "codegen/emit/Cubin.h"

#include "codegen/emit/FirstError.h"

#include "mlir/Conversion/NVVMToLLVM/NVVMToLLVM.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace dsv3::codegen {

namespace {

Value callIntrinsic(OpBuilder &b, Location loc, StringRef name, Type type, ValueRange args) {
  return LLVM::CallIntrinsicOp::create(b, loc, type, b.getStringAttr(name), args).getResult(0);
}

/// Applies `each` to a scalar, or to every element of a vector of one dimension.
template <typename Fn> Value elementwise(OpBuilder &b, Location loc, Value x, Type result, Fn each) {
  auto vector = dyn_cast<VectorType>(x.getType());
  if (!vector)
    return each(x);
  SmallVector<Value> out;
  for (int64_t i = 0; i < vector.getNumElements(); ++i)
    out.push_back(each(vector::ExtractOp::create(b, loc, x, i)));
  return vector::FromElementsOp::create(b, loc, cast<VectorType>(result), out);
}

bool isFloat32(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  return getElementTypeOrSelf(type).isF32() && (!vector || (vector.getRank() == 1 && !vector.isScalable()));
}

/// intrinsic(x * before) * after: one approximation of the special function unit. Needs fastmath<afn>.
template <typename Op> struct Approximate : OpRewritePattern<Op> {
  Approximate(MLIRContext *context, StringRef intrinsic, float before = 1, float after = 1)
      : OpRewritePattern<Op>(context), intrinsic(intrinsic), before(before), after(after) {}

  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    if (!arith::bitEnumContainsAll(op.getFastmath(), arith::FastMathFlags::afn) || !isFloat32(op.getType()))
      return failure();
    Type f32 = rewriter.getF32Type();
    auto scale = [&](Value x, float factor) -> Value {
      if (factor == 1)
        return x;
      return arith::MulFOp::create(rewriter, loc, x, arith::ConstantOp::create(rewriter, loc, rewriter.getF32FloatAttr(factor)));
    };
    rewriter.replaceOp(op, elementwise(rewriter, loc, op.getOperand(), op.getType(), [&](Value x) {
                         return scale(callIntrinsic(rewriter, loc, intrinsic, f32, scale(x, before)), after);
                       }));
    return success();
  }

  StringRef intrinsic;
  float before, after;
};

bool isF8(Type type) { return isa<Float8E4M3FNType>(getElementTypeOrSelf(type)); }

/// Pairs of e4m3 codes to pairs of f16, by the hardware's conversion: exact. `codes` is an i16, low byte first.
Value expandPair(OpBuilder &b, Location loc, Value codes) {
  return callIntrinsic(b, loc, "llvm.nvvm.e4m3x2.to.f16x2.rn", VectorType::get({2}, b.getF16Type()), codes);
}

/// f16 to the type asked for; every e4m3 value is exact in f16, bf16 and f32.
Value fromHalf(OpBuilder &b, Location loc, Value x, Type type) {
  if (type.isF16())
    return x;
  Value wide = arith::ExtFOp::create(b, loc, b.getF32Type(), x);
  return type.isF32() ? wide : arith::TruncFOp::create(b, loc, type, wide);
}

struct ExtendF8 : OpRewritePattern<arith::ExtFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::ExtFOp op, PatternRewriter &b) const override {
    Location loc = op.getLoc();
    Type out = getElementTypeOrSelf(op.getType());
    if (!isF8(op.getIn().getType()))
      return failure();
    auto vector = dyn_cast<VectorType>(op.getType());
    if (!vector) {
      Value code = arith::BitcastOp::create(b, loc, b.getI8Type(), op.getIn());
      Value pair = expandPair(b, loc, arith::ExtUIOp::create(b, loc, b.getI16Type(), code));
      b.replaceOp(op, fromHalf(b, loc, vector::ExtractOp::create(b, loc, pair, 0), out));
      return success();
    }
    int64_t n = vector.getNumElements();
    if (vector.getRank() != 1 || n % 2)
      return b.notifyMatchFailure(op, "expected a scalar or a vector of an even number of f8");
    Value codes = arith::BitcastOp::create(b, loc, VectorType::get({n}, b.getI8Type()), op.getIn());
    Value pairs = vector::BitCastOp::create(b, loc, VectorType::get({n / 2}, b.getI16Type()), codes);
    SmallVector<Value> elements;
    for (int64_t i = 0; i < n / 2; ++i) {
      Value pair = expandPair(b, loc, vector::ExtractOp::create(b, loc, pairs, i));
      for (int64_t k = 0; k < 2; ++k)
        elements.push_back(fromHalf(b, loc, vector::ExtractOp::create(b, loc, pair, k), out));
    }
    b.replaceOpWithNewOp<vector::FromElementsOp>(op, vector, elements);
    return success();
  }
};

/// f32 to e4m3: round to nearest even, saturating at 448 as checkpoints of this format do.
struct TruncateF8 : OpRewritePattern<arith::TruncFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::TruncFOp op, PatternRewriter &b) const override {
    Location loc = op.getLoc();
    if (!isF8(op.getType()) || !isFloat32(op.getIn().getType()))
      return failure();
    // The intrinsic's first operand lands in the high byte.
    auto narrow = [&](Value low, Value high) { return callIntrinsic(b, loc, "llvm.nvvm.ff.to.e4m3x2.rn", b.getI16Type(), {high, low}); };
    auto vector = dyn_cast<VectorType>(op.getType());
    if (!vector) {
      Value code = arith::TruncIOp::create(b, loc, b.getI8Type(), narrow(op.getIn(), op.getIn()));
      b.replaceOpWithNewOp<arith::BitcastOp>(op, op.getType(), code);
      return success();
    }
    int64_t n = vector.getNumElements();
    if (n % 2)
      return b.notifyMatchFailure(op, "expected a scalar or a vector of an even number of f8");
    SmallVector<Value> pairs;
    for (int64_t i = 0; i < n; i += 2)
      pairs.push_back(narrow(vector::ExtractOp::create(b, loc, op.getIn(), i), vector::ExtractOp::create(b, loc, op.getIn(), i + 1)));
    Value words = vector::FromElementsOp::create(b, loc, VectorType::get({n / 2}, b.getI16Type()), pairs);
    Value codes = vector::BitCastOp::create(b, loc, VectorType::get({n}, b.getI8Type()), words);
    b.replaceOpWithNewOp<arith::BitcastOp>(op, op.getType(), codes);
    return success();
  }
};

void populateDevicePatterns(RewritePatternSet &patterns) {
  constexpr float kLog2e = 1.44269504f, kLn2 = 0.693147181f;
  MLIRContext *context = patterns.getContext();
  patterns.add<Approximate<math::Exp2Op>>(context, "llvm.nvvm.ex2.approx.ftz.f32");
  patterns.add<Approximate<math::ExpOp>>(context, "llvm.nvvm.ex2.approx.ftz.f32", kLog2e);
  patterns.add<Approximate<math::Log2Op>>(context, "llvm.nvvm.lg2.approx.ftz.f");
  patterns.add<Approximate<math::LogOp>>(context, "llvm.nvvm.lg2.approx.ftz.f", 1.f, kLn2);
  patterns.add<Approximate<math::RsqrtOp>>(context, "llvm.nvvm.rsqrt.approx.ftz.f");
  patterns.add<ExtendF8, TruncateF8>(context);
}

/// Math ops that are instructions or short sequences of them.
bool isInstruction(Operation *op) {
  return isa<math::AbsFOp, math::AbsIOp, math::CeilOp, math::CopySignOp, math::CountLeadingZerosOp, math::CountTrailingZerosOp,
             math::CtPopOp, math::FloorOp, math::FmaOp, math::RoundEvenOp, math::SqrtOp, math::TruncOp>(op);
}

Status checkMath(Operation *module) {
  Operation *bad = nullptr;
  module->walk([&](Operation *op) {
    if (op->getName().getDialectNamespace() == "math" && !isInstruction(op))
      bad = bad ? bad : op;
    if (isa<arith::ExtFOp, arith::TruncFOp>(op) && (isF8(op->getOperand(0).getType()) || isF8(op->getResult(0).getType())))
      bad = bad ? bad : op;
  });
  if (!bad)
    return {};
  auto function = bad->getParentOfType<LLVM::LLVMFuncOp>();
  std::string type;
  llvm::raw_string_ostream(type) << bad->getResult(0).getType();
  return internalError("kernel " + (function ? function.getSymName().str() : "?") + ": " + bad->getName().getStringRef().str() + " to " + type +
                       " is no instruction of the device; approximations need fastmath<afn> and f32");
}

} // namespace

static OwningOpRef<ModuleOp> copy(Operation *module) {
  OwningOpRef<ModuleOp> result = ModuleOp::create(module->getLoc());
  OpBuilder builder = OpBuilder::atBlockBegin(result->getBody());
  for (Operation &op : module->getRegion(0).front())
    if (isa<LLVM::GlobalOp, LLVM::LLVMFuncOp>(op))
      builder.clone(op);
  return result;
}

static void addPasses(PassManager &pm) {
  pm.addPass(createCSEPass());
  pm.addPass(createSCFToControlFlowPass());
  pm.addPass(createConvertVectorToLLVMPass());
  pm.addPass(createConvertNVVMToLLVMPass());
  pm.addPass(createConvertMathToLLVMPass());
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createConvertControlFlowToLLVMPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
}

Result<OwningOpRef<ModuleOp>> lowerDevice(Operation *module) {
  OwningOpRef<ModuleOp> device = copy(module);
  MLIRContext *context = module->getContext();
  FirstError error(context);
  auto failedTo = [&](const char *what) { return internalError(std::string("device code does not ") + what + ": " + error.message()); };
  RewritePatternSet patterns(context);
  populateDevicePatterns(patterns);
  if (failed(applyPatternsGreedily(*device, std::move(patterns))))
    return failedTo("reach its instructions");
  if (Status s = checkMath(*device); !s)
    return s.error();
  PassManager pm(context);
  addPasses(pm);
  if (failed(pm.run(*device)))
    return failedTo("lower to the LLVM dialect");
  return std::move(device);
}

} // namespace dsv3::codegen
