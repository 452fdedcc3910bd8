// --dsv3-make-programs
#include "codegen/targets/KernelEmitter.h"
#include "passes/Options.h"
#include "passes/Passes.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace dsv3 {
#define GEN_PASS_DEF_MAKEPROGRAMSPASS
#include "passes/Passes.h.inc"

namespace {
struct Capacity {
  StringRef phase;
  int64_t tokens, seqs;
};

RankedTensorType withRows(RankedTensorType type, int64_t rows) {
  SmallVector<int64_t> shape(type.getShape());
  shape[0] = rows;
  return RankedTensorType::get(shape, type.getElementType(), type.getEncoding());
}

bool hasDynamicRows(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && !tensor.hasStaticShape();
}

int64_t rowsOf(Value value) { return cast<RankedTensorType>(value.getType()).getDimSize(0); }

/// Copies the bodies of imported programs into one program, giving every `?` its capacity.
class Specializer {
public:
  Specializer(OpBuilder &builder, Capacity capacity) : builder(builder), capacity(capacity) {}

  /// Clones the body of `source` on these arguments and returns what it returns.
  SmallVector<Value> inlineBody(ir::ProgramOp source, ValueRange arguments) {
    IRMapping map;
    map.map(source.getBody().getArguments(), arguments);
    for (Operation &op : source.getBody().front().without_terminator())
      if (!isa<ir::TapOp>(op) || capacity.phase != "decode")
        clone(op, map);
    SmallVector<Value> results;
    for (Value v : source.getBody().front().getTerminator()->getOperands())
      results.push_back(map.lookup(v));
    return results;
  }

private:
  void clone(Operation &op, IRMapping &map) {
    // A linear that only fed a tap (keys and values) goes with it.
    if (capacity.phase == "decode" && !op.use_empty() && llvm::all_of(op.getUsers(), llvm::IsaPred<ir::TapOp>) &&
        llvm::all_of(op.getResults(), [](Value r) { return isa<RankedTensorType>(r.getType()); }))
      return;
    Operation *copy = builder.clone(op, map);
    for (auto [original, result] : llvm::zip_equal(op.getResults(), copy->getResults()))
      if (hasDynamicRows(original.getType()))
        result.setType(withRows(cast<RankedTensorType>(original.getType()), rows(op, *copy, original.getResultNumber())));
  }

  /// Rows of a result: tokens, sequences or routed rows. Only three ops change the class of rows.
  int64_t rows(Operation &op, Operation &copy, unsigned result) {
    if (isa<ir::SelectRowsOp>(op))
      return capacity.seqs;
    if (auto dispatch = dyn_cast<ir::DispatchOp>(copy); dispatch && result == 0)
      return rowsOf(dispatch.getIds()) * cast<RankedTensorType>(dispatch.getIds().getType()).getDimSize(1);
    if (auto combine = dyn_cast<ir::CombineOp>(copy))
      return rowsOf(combine.getWeights());
    for (auto [before, after] : llvm::zip_equal(op.getOperands(), copy.getOperands()))
      if (hasDynamicRows(before.getType()))
        return rowsOf(after);
    return capacity.tokens;
  }

  OpBuilder &builder;
  Capacity capacity;
};

/// A result of a new program and the name of the output it becomes.
using Named = std::pair<StringRef, Value>;

class ProgramBuilder {
public:
  ProgramBuilder(ModuleOp module, Operation *before) : builder(module.getContext()) { builder.setInsertionPoint(before); }

  /// Makes `@name` with the arguments of `source`; `body` fills it and names its results.
  void make(const Twine &name, ir::ProgramOp source, Capacity capacity,
            llvm::function_ref<SmallVector<Named>(OpBuilder &, Specializer &, Block &)> body) {
    SmallVector<Type> inputs;
    for (Type t : source.getArgumentTypes())
      inputs.push_back(hasDynamicRows(t) ? withRows(cast<RankedTensorType>(t), capacity.tokens) : t);
    auto program = ir::ProgramOp::create(
        builder, source.getLoc(), builder.getStringAttr(name), TypeAttr::get(builder.getFunctionType(inputs, {})),
        builder.getStringAttr(capacity.phase), builder.getI64IntegerAttr(capacity.tokens),
        builder.getI64IntegerAttr(capacity.seqs), source.getArgAttrsAttr(), ArrayAttr());
    Block &block = program.getBody().emplaceBlock();
    for (BlockArgument arg : source.getBody().getArguments())
      block.addArgument(inputs[arg.getArgNumber()], arg.getLoc());
    OpBuilder inner = OpBuilder::atBlockEnd(&block);
    Specializer specializer(inner, capacity);
    SmallVector<Named> results = body(inner, specializer, block);
    SmallVector<Value> values;
    SmallVector<Type> types;
    SmallVector<Attribute> names;
    for (auto [resultName, value] : results) {
      values.push_back(value);
      types.push_back(value.getType());
      names.push_back(builder.getDictionaryAttr(builder.getNamedAttr("dsv3.name", builder.getStringAttr(resultName))));
    }
    ir::ReturnOp::create(inner, source.getLoc(), values);
    program.setFunctionType(builder.getFunctionType(inputs, types));
    program.setResAttrsAttr(builder.getArrayAttr(names));
  }

private:
  OpBuilder builder;
};

LogicalResult expectSignature(ir::ProgramOp program, ArrayRef<StringRef> arguments, ArrayRef<StringRef> results) {
  auto matches = [](ArrayRef<Type> types, ArrayRef<StringRef> kinds) {
    return types.size() == kinds.size() && llvm::all_of(llvm::zip(types, kinds), [](auto pair) {
             auto [type, kind] = pair;
             return kind == "seq" ? isa<ir::SeqType>(type) : kind == "kv" ? isa<ir::KvType>(type) : isa<RankedTensorType>(type);
           });
  };
  if (matches(program.getArgumentTypes(), arguments) && matches(program.getResultTypes(), results))
    return success();
  return program.emitOpError() << "expected signature (" << llvm::join(arguments, ", ") << ") -> (" << llvm::join(results, ", ")
                               << "), got " << program.getFunctionType();
}

/// `?` counts rows, so it stands first or nowhere.
LogicalResult expectDynamicRowsOnly(ir::ProgramOp program) {
  auto bad = [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && llvm::is_contained(tensor.getShape().drop_front(tensor.getRank() ? 1 : 0), ShapedType::kDynamic);
  };
  for (Type type : program.getArgumentTypes())
    if (bad(type))
      return program.emitOpError() << "expected ? in the first dimension only, got argument " << type;
  for (Operation &op : program.getBody().front())
    for (Type type : op.getResultTypes())
      if (bad(type))
        return op.emitOpError() << "expected ? in the first dimension only, got " << type;
  return success();
}

struct MakeProgramsPass : impl::MakeProgramsPassBase<MakeProgramsPass> {
  using MakeProgramsPassBase::MakeProgramsPassBase;

  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    trunk = symbols.lookup<ir::ProgramOp>("trunk");
    head = symbols.lookup<ir::ProgramOp>("head");
    mtp = symbols.lookup<ir::ProgramOp>("mtp");
    if (failed(check()))
      return signalPassFailure();
    Operation *end = trunk;
    for (ir::ProgramOp program : {head, mtp})
      if (program && end->isBeforeInBlock(program))
        end = program;
    ProgramBuilder programs(getOperation(), end);
    makeServing(programs);
    makeScoring(programs);
    for (ir::ProgramOp program : {trunk, head, mtp})
      if (program)
        program->erase();
    auto capacities = codegen::Capacities::derive(std::max<int64_t>(prefillChunk, maxBatch), maxBatch, maxModelLen);
    getOperation()->setAttr(codegen::kCapacitiesAttr, capacities.toAttr(&getContext()));
  }

private:
  LogicalResult check() {
    if (maxBatch <= 0 || prefillChunk <= 0 || maxModelLen <= 0)
      return getOperation().emitError() << "expected positive max-batch, prefill-chunk and max-model-len, got " << maxBatch << ", "
                                        << prefillChunk << " and " << maxModelLen;
    for (auto [name, program] : {std::pair<StringRef, ir::ProgramOp>{"trunk", trunk}, {"head", head}})
      if (!program)
        return getOperation().emitError() << "expected a program @" << name << ", got none";
    if (failed(expectSignature(trunk, {"ids", "seq", "kv"}, {"hidden", "kv"})) ||
        failed(expectSignature(head, {"hidden"}, {"logits"})) ||
        (mtp && failed(expectSignature(mtp, {"ids", "hidden", "seq", "kv"}, {"logits", "kv"}))))
      return failure();
    for (ir::ProgramOp program : {trunk, head, mtp})
      if (program && failed(expectDynamicRowsOnly(program)))
        return failure();
    return success();
  }

  /// Programs that yield the logits a sampler needs: one row a sequence.
  void makeServing(ProgramBuilder &programs) {
    programs.make("prefill_t" + Twine(prefillChunk), trunk, {"prefill", prefillChunk, maxBatch},
                  [&](OpBuilder &b, Specializer &s, Block &block) {
                    SmallVector<Value> out = s.inlineBody(trunk, block.getArguments());
                    auto type = withRows(cast<RankedTensorType>(out[0].getType()), maxBatch);
                    Value rows = ir::SelectRowsOp::create(b, trunk.getLoc(), type, out[0], block.getArgument(1), "select");
                    return SmallVector<Named>{{"logits", s.inlineBody(head, rows)[0]}, {"kv", out[1]}};
                  });
    for (int64_t bucket : decodeBuckets(maxBatch))
      programs.make("decode_b" + Twine(bucket), trunk, {"decode", bucket, bucket},
                    [&](OpBuilder &, Specializer &s, Block &block) {
                      SmallVector<Value> out = s.inlineBody(trunk, block.getArguments());
                      return SmallVector<Named>{{"logits", s.inlineBody(head, out[0])[0]}, {"kv", out[1]}};
                    });
  }

  /// Programs that yield the logits of every row.
  void makeScoring(ProgramBuilder &programs) {
    programs.make("score_t" + Twine(prefillChunk), trunk, {"score", prefillChunk, maxBatch},
                  [&](OpBuilder &, Specializer &s, Block &block) {
                    SmallVector<Value> out = s.inlineBody(trunk, block.getArguments());
                    SmallVector<Named> results{{"logits", s.inlineBody(head, out[0])[0]}};
                    if (mtp)
                      results.push_back({"hidden", out[0]});
                    results.push_back({"kv", out[1]});
                    return results;
                  });
    if (mtp)
      programs.make("mtp_t" + Twine(prefillChunk), mtp, {"mtp", prefillChunk, maxBatch},
                    [&](OpBuilder &, Specializer &s, Block &block) {
                      SmallVector<Value> out = s.inlineBody(mtp, block.getArguments());
                      return SmallVector<Named>{{"logits", out[0]}, {"kv", out[1]}};
                    });
  }

  ir::ProgramOp trunk, head, mtp;
};
} // namespace
} // namespace dsv3
