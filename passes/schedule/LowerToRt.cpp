// --dsv3-lower-to-rt
#include "codegen/targets/DeviceEmitter.h"
#include "codegen/targets/Targets.h"
#include "passes/schedule/ProgramBuffers.h"
#include "passes/schedule/SchedulePasses.h"
#include "passes/schedule/StepLayout.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace dsv3 {
#define GEN_PASS_DEF_LOWERTORTPASS
#include "passes/schedule/SchedulePasses.h.inc"

namespace {
constexpr int64_t kAlignment = 64;      // of buffers: a cache line, and the widest vector
constexpr int64_t kPageAlignment = 4096; // of the weights file

int64_t alignUp(int64_t n, int64_t alignment) { return int64_t(llvm::alignTo(uint64_t(n), uint64_t(alignment))); }

std::optional<rt::Elem> elemOf(Type type) {
  if (type.isF32())
    return rt::Elem::F32;
  if (type.isBF16())
    return rt::Elem::BF16;
  if (type.isInteger(32))
    return rt::Elem::I32;
  return type.isInteger(64) ? std::optional(rt::Elem::I64) : std::nullopt;
}

/// An address and its extent.
struct Place {
  rt::Pool pool;
  int64_t offset, size;
};

/// One place per output name, shared by all programs: only one of them runs at a time, and its results are
/// taken before the next starts.
class PersistPool {
public:
  void reserve(StringRef name, int64_t bytes) {
    int64_t &size = sizes[name];
    size = std::max(size, bytes);
  }
  std::optional<int64_t> offset(StringRef name) const {
    int64_t at = 0;
    for (auto &[other, size] : sizes) {
      if (other == name)
        return at;
      at += alignUp(size, kAlignment);
    }
    return std::nullopt;
  }
  int64_t bytes() const {
    int64_t sum = 0;
    for (auto &[name, size] : sizes)
      sum += alignUp(size, kAlignment);
    return sum;
  }

private:
  llvm::MapVector<StringRef, int64_t> sizes;
};

int64_t phaseNumber(StringRef phase) {
  return llvm::StringSwitch<int64_t>(phase)
      .Case("prefill", DSV3_PHASE_PREFILL)
      .Case("decode", DSV3_PHASE_DECODE)
      .Case("score", DSV3_PHASE_SCORE)
      .Case("mtp", DSV3_PHASE_MTP)
      .Default(-1);
}

rt::MapElem mapElem(codegen::TensorMap::Elem elem) {
  using From = codegen::TensorMap::Elem;
  return elem == From::U8 ? rt::MapElem::U8 : elem == From::BF16 ? rt::MapElem::BF16 : elem == From::F32 ? rt::MapElem::F32 : rt::MapElem::I32;
}

/// A parameter as an attribute, or null with a diagnostic on the launch.
Attribute paramAttr(kernel::KernelOp launch, const codegen::DeviceParam &param) {
  MLIRContext *context = launch->getContext();
  auto emitError = [&] { return launch->emitOpError(); };
  if (auto *pointer = std::get_if<codegen::DeviceParam::Pointer>(&param.value))
    return rt::PtrAttr::getChecked(emitError, context, int64_t(pointer->ref), pointer->offset);
  if (auto *number = std::get_if<codegen::DeviceParam::Const>(&param.value))
    return rt::NumberAttr::get(context, number->value);
  const auto &map = std::get<codegen::DeviceParam::Map>(param.value);
  return rt::TensorMapAttr::getChecked(emitError, context, int64_t(map.ref), map.offset, mapElem(map.map.elem), ArrayRef<int64_t>(map.map.dims),
                                       ArrayRef<int64_t>(map.map.strides), ArrayRef<int64_t>(map.map.box), map.map.swizzle);
}

int64_t columns(RankedTensorType type) { return type.getNumElements() / type.getDimSize(0); }

/// What all programs of the module share.
struct Context {
  const codegen::KernelRegistry *registry = nullptr;
  std::string target;
  bool onDevice = false;
  codegen::Capacities capacities;
  std::vector<StepField> fields;
  PersistPool persist;
  llvm::StringMap<kernel::WeightOp> weights;
  rt::ModuleOp module;
  llvm::StringMap<rt::KernelOp> kernels;
  llvm::StringMap<rt::TapPointOp> taps;
};

/// Writes one rt.program.
class ProgramLowering {
public:
  ProgramLowering(Context &context, ir::ProgramOp source, const ProgramBuffers &buffers, const MemoryPlan &plan)
      : context(context), source(source), buffers(buffers), builder(source.getContext()) {
    SmallVector<unsigned> indices;
    buffers.intermediate(indices);
    for (auto [index, offset] : llvm::zip_equal(indices, plan.offsets))
      offsets[index] = offset;
  }

  LogicalResult run() {
    builder.setInsertionPointToEnd(&context.module.getBody().front());
    int64_t phase = phaseNumber(source.getPhase().value_or(""));
    if (phase < 0)
      return source.emitOpError() << "expected a phase (prefill, decode, score, mtp), got '" << source.getPhase().value_or("") << "'";
    program = rt::ProgramOp::create(builder, source.getLoc(), source.getSymName(), phase, *source.getTokens(), *source.getSeqs(),
                                    usesField(DSV3_FIELD_QBLOCK) ? context.capacities.qblocks : 0,
                                    usesField(DSV3_FIELD_KBLOCK) ? context.capacities.kblocks : 0);
    builder.setInsertionPointToEnd(&program.getBody().emplaceBlock());
    for (Operation &op : source.getBody().front())
      if (failed(lower(op)))
        return failure();
    return success();
  }

private:
  bool usesField(unsigned field) {
    for (Operation &op : source.getBody().front())
      if (isa<kernel::KernelOp>(op))
        if (const auto *emitter = context.registry->lookup(&op))
          if (llvm::is_contained(emitter->signature(&op).stepFields, field))
            return true;
    return false;
  }

  LogicalResult lower(Operation &op) {
    if (auto launch = dyn_cast<kernel::KernelOp>(op))
      return lowerLaunch(launch);
    if (auto tap = dyn_cast<kernel::TapOp>(op))
      return lowerTap(tap);
    if (isa<ir::ReturnOp>(op))
      return lowerReturn(op);
    if (isa<kernel::EmptyOp, kernel::ViewOp, kernel::UseOp>(op))
      return success();
    return op.emitOpError("expected kernel ops only in a program to be scheduled");
  }

  //===-- Addresses -------------------------------------------------------===//

  Value view(const Place &p) {
    auto key = std::make_tuple(unsigned(p.pool), p.offset, p.size);
    Value &known = views[key];
    if (!known)
      known = rt::ViewOp::create(builder, source.getLoc(), rt::BufType::get(builder.getContext()), p.pool, p.offset, p.size);
    return known;
  }

  Place fieldPlace(unsigned kind, int64_t bytes = -1) {
    const StepField &f = context.fields[kind];
    return {rt::Pool::Step, f.offset, bytes < 0 ? f.bytes() : bytes};
  }

  Place bufferPlace(unsigned index) {
    const ProgramBuffer &b = buffers.buffers[index];
    if (!b.output.empty())
      return {rt::Pool::Persist, *context.persist.offset(b.output), b.bytes};
    return {rt::Pool::Arena, offsets.lookup(index), b.bytes};
  }

  FailureOr<Place> argumentPlace(Operation *user, BlockArgument arg) {
    StringRef name = source.getArgName(arg.getArgNumber());
    int64_t bytes = tensorBytes(cast<RankedTensorType>(arg.getType()));
    if (name == "ids" || name == "next_ids")
      return fieldPlace(name == "ids" ? DSV3_FIELD_IDS : DSV3_FIELD_NEXT_IDS, bytes);
    if (std::optional<int64_t> offset = context.persist.offset(name))
      return Place{rt::Pool::Persist, *offset, bytes};
    return user->emitOpError() << "reads argument '" << name << "', which is neither a field of the step nor the output of a program";
  }

  /// The references that one operand becomes.
  LogicalResult addReferences(kernel::KernelOp launch, OpOperand &operand, ArrayRef<unsigned> stepFields, SmallVectorImpl<Place> &refs) {
    Value v = operand.get();
    if (auto it = buffers.destinations.find(&operand); it != buffers.destinations.end()) {
      refs.push_back(bufferPlace(it->second));
    } else if (isa<ir::SeqType>(v.getType())) {
      for (unsigned f : stepFields)
        refs.push_back(fieldPlace(f));
    } else if (isa<ir::KvType>(v.getType())) {
      refs.push_back({rt::Pool::Kv, 0, 0});
    } else if (auto use = v.getDefiningOp<kernel::UseOp>()) {
      kernel::WeightOp weight = context.weights.lookup(use.getWeight());
      if (!weight)
        return use.emitOpError() << "expected a kernel.weight named @" << use.getWeight();
      for (const kernel::PackedPart &part : kernel::getPackedParts(weight.getTensorType()))
        refs.push_back({rt::Pool::Weights, int64_t(weight.getOffset()) + part.offset, part.bytes});
    } else if (auto it = buffers.of.find(v); it != buffers.of.end()) {
      refs.push_back(bufferPlace(it->second));
    } else if (auto arg = dyn_cast<BlockArgument>(kernel::getRowAccess(v).base)) {
      FailureOr<Place> place = argumentPlace(launch, arg);
      if (failed(place))
        return failure();
      refs.push_back(*place);
    } else {
      return launch->emitOpError() << "operand " << operand.getOperandNumber() << " has no place in memory";
    }
    return success();
  }

  //===-- Operations ------------------------------------------------------===//

  LogicalResult lowerLaunch(kernel::KernelOp launch) {
    const codegen::KernelEmitter *emitter = context.registry->lookup(launch);
    auto symbol = launch->getAttrOfType<FlatSymbolRefAttr>(kKernelSymbolAttr);
    if (!emitter || !symbol)
      return launch->emitOpError("expected a launch with a kernel (run the stage tile first)");
    codegen::LaunchSignature signature = emitter->signature(launch);
    SmallVector<Place> refs;
    SmallVector<int64_t> writes;
    unsigned firstOut = launch->getNumOperands() - launch.getNumOuts();
    for (OpOperand &operand : launch->getOpOperands()) {
      if (operand.getOperandNumber() >= firstOut)
        writes.push_back(int64_t(refs.size()));
      if (failed(addReferences(launch, operand, signature.stepFields, refs)))
        return failure();
    }
    SmallVector<Value> bufs;
    for (const Place &p : refs)
      bufs.push_back(view(p));
    if (const codegen::DeviceEmitter *device = emitter->asDevice())
      return launchGrid(launch, *device, symbol, bufs, writes);
    return launchRange(launch, *emitter->asCpu(), symbol, bufs, writes, signature.consts);
  }

  LogicalResult launchRange(kernel::KernelOp launch, const codegen::CpuEmitter &emitter, FlatSymbolRefAttr symbol, ArrayRef<Value> bufs,
                            ArrayRef<int64_t> writes, ArrayRef<int64_t> consts) {
    declareKernel(launch, symbol, bufs.size(), consts.size(), emitter.scratchBytes(launch));
    codegen::TileCount tiles = emitter.tiles(launch);
    std::optional<rt::Scalar> scalar = tiles.scalar < 0 ? rt::Scalar::One : rt::symbolizeScalar(uint32_t(tiles.scalar));
    if (!scalar)
      return launch->emitOpError() << "counts its tiles by scalar " << tiles.scalar << ", which counts nothing";
    rt::LaunchRangeOp::create(builder, launch.getLoc(), symbol.getValue(), *scalar, tiles.div, tiles.mul, bufs, writes, consts,
                              launch.getSiteName());
    return success();
  }

  LogicalResult launchGrid(kernel::KernelOp launch, const codegen::DeviceEmitter &emitter, FlatSymbolRefAttr symbol, ArrayRef<Value> bufs,
                           ArrayRef<int64_t> writes) {
    codegen::DeviceLaunch grid = emitter.launch(launch);
    declareKernel(launch, symbol, bufs.size(), 0, 0);
    SmallVector<Attribute> params;
    for (const codegen::DeviceParam &param : grid.params) {
      params.push_back(paramAttr(launch, param));
      if (!params.back())
        return failure();
    }
    rt::LaunchGridOp::create(builder, launch.getLoc(), symbol.getValue(), grid.grid, grid.threads, grid.smem, grid.cluster, bufs,
                             builder.getArrayAttr(params), writes, launch.getSiteName());
    return success();
  }

  void declareKernel(kernel::KernelOp launch, FlatSymbolRefAttr symbol, size_t refs, size_t consts, int64_t scratch) {
    rt::KernelOp &known = context.kernels[symbol.getValue()];
    if (known) {
      known.setScratch(std::max<int64_t>(known.getScratch(), scratch));
      return;
    }
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(program);
    launch->removeAttr(kKernelSymbolAttr); // not part of the key
    known = rt::KernelOp::create(builder, launch.getLoc(), symbol.getValue(), codegen::kernelKey(launch), refs, consts, scratch);
  }

  LogicalResult lowerTap(kernel::TapOp tap) {
    auto type = cast<RankedTensorType>(tap.getValue().getType());
    std::optional<rt::Elem> elem = elemOf(type.getElementType());
    auto it = buffers.of.find(tap.getValue());
    if (!elem || it == buffers.of.end() || columns(type) != columns(buffers.buffers[it->second].type))
      return tap.emitOpError() << "expected whole rows that a launch computed, of f32, bf16, i32 or i64, got " << tap.getValue();
    rt::TapPointOp &point = context.taps[tap.getName()];
    if (!point) {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPoint(program);
      point = rt::TapPointOp::create(builder, tap.getLoc(), tap.getName(), *elem, columns(type));
    } else if (point.getElem() != *elem || int64_t(point.getCols()) != columns(type)) {
      return tap.emitOpError() << "has another type than in another program";
    }
    std::optional<rt::Scalar> rows = rt::symbolizeScalar(uint32_t(codegen::rowScalar(tap.getValue())));
    rt::TapOp::create(builder, tap.getLoc(), tap.getNameAttr(), view(bufferPlace(it->second)), *rows);
    return success();
  }

  LogicalResult lowerReturn(Operation &op) {
    for (auto [i, v] : llvm::enumerate(op.getOperands())) {
      if (isa<ir::KvType>(v.getType()))
        continue;
      auto type = cast<RankedTensorType>(v.getType());
      std::optional<rt::Elem> elem = elemOf(type.getElementType());
      if (!elem)
        return op.emitOpError() << "expected result " << i << " of f32, bf16, i32 or i64, got " << type;
      rt::OutputOp::create(builder, op.getLoc(), builder.getStringAttr(source.getResultName(unsigned(i))),
                           view(bufferPlace(buffers.of.lookup(v))), *elem, columns(type));
    }
    return success();
  }

  Context &context;
  ir::ProgramOp source;
  const ProgramBuffers &buffers;
  OpBuilder builder;
  rt::ProgramOp program;
  DenseMap<unsigned, int64_t> offsets; // of intermediate buffers in the arena
  std::map<std::tuple<unsigned, int64_t, int64_t>, Value> views;
};

struct LowerToRtPass : impl::LowerToRtPassBase<LowerToRtPass> {
  using LowerToRtPassBase::LowerToRtPassBase;

  void runOnOperation() override {
    SmallVector<ir::ProgramOp> programs(getOperation().getOps<ir::ProgramOp>());
    FailureOr<codegen::Capacities> capacities = codegen::Capacities::fromModule(getOperation());
    FailureOr<codegen::TargetChoice> choice = codegen::chooseTarget(getOperation(), target);
    if (failed(capacities) || failed(choice))
      return signalPassFailure();
    context.registry = choice->registry;
    context.target = choice->name;
    context.onDevice = bool(choice->gpu);
    context.capacities = *capacities;
    context.fields = stepLayout(*capacities);
    for (auto weight : getOperation().getOps<kernel::WeightOp>())
      context.weights[weight.getSymName()] = weight;
    if (failed(plan(programs)) || failed(createModule(programs)))
      return signalPassFailure();
    for (auto [program, buffers, plan] : llvm::zip_equal(programs, allBuffers, plans))
      if (failed(ProgramLowering(context, program, buffers, plan).run()))
        return signalPassFailure();
    for (ir::ProgramOp program : programs)
      program->erase();
  }

private:
  LogicalResult plan(ArrayRef<ir::ProgramOp> programs) {
    for (ir::ProgramOp program : programs) {
      FailureOr<ProgramBuffers> buffers = ProgramBuffers::analyse(program);
      if (failed(buffers))
        return failure();
      for (const ProgramBuffer &b : buffers->buffers)
        if (!b.output.empty())
          context.persist.reserve(StringAttr::get(&getContext(), b.output).getValue(), b.bytes);
      SmallVector<unsigned> indices;
      std::vector<Lifetime> lifetimes = buffers->intermediate(indices);
      MemoryPlan plan = planMemory(lifetimes, kAlignment);
      if (Status s = checkPlan(lifetimes, plan, kAlignment); !s)
        return program.emitOpError() << s.error().message;
      int64_t bound = liveSetBound(lifetimes, kAlignment);
      program.emitRemark() << "arena of @" << program.getSymName() << ": " << plan.bytes << " bytes, live set " << bound << " bytes, "
                           << lifetimes.size() << " buffers";
      if (plan.bytes * 100 > bound * 105)
        program.emitWarning() << "arena of @" << program.getSymName() << " is more than 5% above its live set";
      arena = std::max(arena, plan.bytes);
      allBuffers.push_back(std::move(*buffers));
      plans.push_back(std::move(plan));
    }
    return success();
  }

  LogicalResult createModule(ArrayRef<ir::ProgramOp> programs) {
    ir::KvType kv;
    for (ir::ProgramOp program : programs)
      for (Type t : program.getArgumentTypes())
        if (auto type = dyn_cast<ir::KvType>(t))
          kv = type;
    if (!kv)
      return getOperation().emitError("expected a program with a cache, got none");
    std::optional<rt::Elem> elem = elemOf(kv.getElem());
    if (!elem)
      return getOperation().emitError() << "expected a cache of f32 or bf16, got " << kv;
    Location loc = getOperation().getLoc();
    OpBuilder builder(programs.front());
    IntegerAttr latent;
    StringAttr codes;
    if (kv.getScheme()) {
      latent = builder.getI64IntegerAttr(kv.getLatent());
      codes = builder.getStringAttr(isa<Float8E5M2Type>(kv.getCodes()) ? "fp8_e5m2" : "fp8_e4m3");
    }
    const codegen::Capacities &c = context.capacities;
    std::string name = symbolOf(context.target) + (context.onDevice ? "_host" : ""); // kernels have the plain name there
    context.module = rt::ModuleOp::create(builder, loc, name, context.target, DSV3_ABI, c.tokens, c.seqs, c.pages, kv.getLayers(),
                                          kv.getPage(), kv.getLatent() + kv.getRope(), *elem, latent, codes);
    builder.setInsertionPointToEnd(&context.module.getBody().emplaceBlock());
    int64_t weights = 0;
    for (auto &entry : context.weights)
      weights = std::max(weights, int64_t(entry.second.getOffset() + entry.second.getBytes()));
    rt::PoolOp::create(builder, loc, rt::Pool::Weights, alignUp(weights, kPageAlignment));
    rt::PoolOp::create(builder, loc, rt::Pool::Kv, 0);
    rt::PoolOp::create(builder, loc, rt::Pool::Arena, arena);
    rt::PoolOp::create(builder, loc, rt::Pool::Step, stepBytes(context.fields));
    rt::PoolOp::create(builder, loc, rt::Pool::Persist, context.persist.bytes());
    for (const StepField &f : context.fields)
      rt::FieldOp::create(builder, loc, f.name, f.kind, f.elem, f.offset, f.count);
    return success();
  }

  Context context;
  SmallVector<ProgramBuffers> allBuffers;
  SmallVector<MemoryPlan> plans;
  int64_t arena = 0;
};
} // namespace

LogicalResult verifySchedule(ModuleOp module, const CompileOptions &) {
  auto hosts = module.getBody()->getOps<rt::ModuleOp>();
  if (hosts.empty() || std::next(hosts.begin()) != hosts.end())
    return module.emitError("expected one rt.module");
  rt::ModuleOp host = *hosts.begin();
  for (auto kernel : host.getBody().front().getOps<rt::KernelOp>()) {
    for (ModuleOp variant : module.getBody()->getOps<ModuleOp>())
      if (!variant.lookupSymbol(kernel.getSymName()))
        return kernel.emitOpError() << "has no function in module @" << variant.getSymName().value_or("?");
    for (auto device : module.getBody()->getOps<gpu::GPUModuleOp>())
      if (!hasDeviceKernel(device, kernel.getSymNameAttr()))
        return kernel.emitOpError() << "has no kernel in gpu.module @" << device.getName();
  }
  if (auto programs = module.getOps<ir::ProgramOp>(); !programs.empty())
    return (*programs.begin()).emitOpError("was not lowered");
  return verifyRt(host);
}

} // namespace dsv3
