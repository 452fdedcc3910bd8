// --dsv3-verify-rt: proves a host program from its own ops, with none of the code that made it.
#include "codegen/targets/Targets.h"
#include "passes/schedule/SchedulePasses.h"
#include "runtime/core/Abi.h"

#include <map>

using namespace mlir;

namespace dsv3 {
#define GEN_PASS_DEF_VERIFYRTPASS
#include "passes/schedule/SchedulePasses.h.inc"

namespace {

int64_t elemBytes(rt::Elem elem) { return elem == rt::Elem::I64 ? 8 : elem == rt::Elem::BF16 ? 2 : 4; }

/// Bytes of a pool that have been written, as disjoint ranges that do not touch.
class Written {
public:
  void add(int64_t begin, int64_t end) {
    auto it = ranges.upper_bound(begin);
    if (it != ranges.begin() && std::prev(it)->second >= begin)
      --it;
    while (it != ranges.end() && it->first <= end) {
      begin = std::min(begin, it->first);
      end = std::max(end, it->second);
      it = ranges.erase(it);
    }
    ranges[begin] = end;
  }
  bool covers(int64_t begin, int64_t end) const {
    auto it = ranges.upper_bound(begin);
    return begin == end || (it != ranges.begin() && std::prev(it)->second >= end);
  }

private:
  std::map<int64_t, int64_t> ranges;
};

class ModuleCheck {
public:
  explicit ModuleCheck(rt::ModuleOp module) : module(module) {
    if (Operation *parent = module->getParentOp())
      gpu = parent->getAttrOfType<target::GpuAttr>(codegen::kTargetAttr);
  }

  LogicalResult run() {
    if (module.getAbi() != DSV3_ABI)
      return module.emitOpError() << "expected abi " << DSV3_ABI << ", got " << module.getAbi();
    if (failed(collect()) || failed(checkFields()))
      return failure();
    for (auto program : module.getBody().front().getOps<rt::ProgramOp>())
      if (failed(checkProgram(program)))
        return failure();
    return success();
  }

private:
  LogicalResult collect() {
    for (auto pool : module.getBody().front().getOps<rt::PoolOp>())
      if (!pools.try_emplace(unsigned(pool.getPool()), pool.getBytes()).second)
        return pool.emitOpError("declares a pool twice");
    for (unsigned p = 0; p < DSV3_POOL_COUNT; ++p)
      if (!pools.count(p))
        return module.emitOpError() << "expected a pool " << rt::stringifyPool(rt::Pool(p)) << ", got none";
    for (auto kernel : module.getBody().front().getOps<rt::KernelOp>())
      kernels[kernel.getSymName()] = kernel;
    for (auto tap : module.getBody().front().getOps<rt::TapPointOp>())
      if (!taps.try_emplace(tap.getName(), tap).second)
        return tap.emitOpError() << "declares tap point '" << tap.getName() << "' twice";
    return success();
  }

  LogicalResult checkFields() {
    std::map<int64_t, rt::FieldOp> byOffset;
    std::array<bool, DSV3_FIELD_COUNT> present{};
    for (auto field : module.getBody().front().getOps<rt::FieldOp>()) {
      if (field.getKind() >= DSV3_FIELD_COUNT || present[field.getKind()])
        return field.emitOpError() << "expected each kind below " << int(DSV3_FIELD_COUNT) << " once, got " << field.getKind();
      present[field.getKind()] = true;
      if (field.getOffset() % 64)
        return field.emitOpError() << "expected an offset that is a multiple of 64, got " << field.getOffset();
      if (!byOffset.emplace(field.getOffset(), field).second)
        return field.emitOpError() << "overlaps another field at " << field.getOffset();
    }
    if (!llvm::all_of(present, [](bool b) { return b; }))
      return module.emitOpError() << "expected all " << int(DSV3_FIELD_COUNT) << " fields of the step buffer, got " << byOffset.size();
    int64_t at = 0;
    for (auto &[offset, field] : byOffset) {
      if (offset < at)
        return field.emitOpError() << "overlaps another field at " << offset;
      at = offset + int64_t(field.getCount()) * elemBytes(field.getElem());
    }
    if (at > pools[DSV3_POOL_STEP])
      return module.emitOpError() << "expected fields inside the step pool of " << pools[DSV3_POOL_STEP] << " bytes, got " << at;
    return success();
  }

  LogicalResult checkProgram(rt::ProgramOp program) {
    arena = Written();
    persist = Written();
    if (program.getTokens() > module.getTokens() || program.getSeqs() > module.getSeqs())
      return program.emitOpError() << "expected at most " << module.getTokens() << " tokens and " << module.getSeqs() << " sequences, got "
                                   << program.getTokens() << " and " << program.getSeqs();
    for (Operation &op : program.getBody().front()) {
      LogicalResult ok = llvm::TypeSwitch<Operation *, LogicalResult>(&op)
                             .Case([&](rt::ViewOp view) { return checkView(view); })
                             .Case([&](rt::LaunchRangeOp launch) { return checkLaunch(program, launch); })
                             .Case([&](rt::LaunchGridOp launch) { return checkGrid(launch); })
                             .Case([&](rt::TapOp tap) { return checkTap(program, tap); })
                             .Case([&](rt::OutputOp output) { return checkOutput(program, output); })
                             .Default([](Operation *other) { return other->emitOpError("does not belong in a host program"); });
      if (failed(ok))
        return failure();
    }
    return success();
  }

  LogicalResult checkView(rt::ViewOp view) {
    int64_t alignment = view.getPool() == rt::Pool::Weights ? 256 : 64;
    if (view.getOffset() % alignment)
      return view.emitOpError() << "expected an offset that is a multiple of " << alignment << ", got " << view.getOffset();
    if (view.getPool() != rt::Pool::Kv && int64_t(view.getOffset() + view.getSize()) > pools[unsigned(view.getPool())])
      return view.emitOpError() << "expected bytes [" << view.getOffset() << ", " << view.getOffset() + view.getSize() << ") inside pool "
                                << rt::stringifyPool(view.getPool()) << " of " << pools[unsigned(view.getPool())] << " bytes";
    return success();
  }

  /// Rows that a number of the step may count in this program.
  std::optional<int64_t> most(rt::ProgramOp program, rt::Scalar scalar) {
    switch (scalar) {
    case rt::Scalar::Tokens: return program.getTokens();
    case rt::Scalar::Seqs: return program.getSeqs();
    case rt::Scalar::QBlocks: return program.getQblocks() ? std::optional<int64_t>(program.getQblocks()) : std::nullopt;
    case rt::Scalar::KBlocks: return program.getKblocks() ? std::optional<int64_t>(program.getKblocks()) : std::nullopt;
    case rt::Scalar::One: return 1;
    }
    return std::nullopt;
  }

  LogicalResult checkRead(Operation *user, StringRef what, Value buf) {
    auto view = buf.getDefiningOp<rt::ViewOp>();
    if (view.getPool() != rt::Pool::Arena || arena.covers(view.getOffset(), view.getOffset() + view.getSize()))
      return success();
    return user->emitOpError() << what << " reads arena bytes [" << view.getOffset() << ", " << view.getOffset() + view.getSize()
                               << "), which were not all written before";
  }

  LogicalResult checkLaunch(rt::ProgramOp program, rt::LaunchRangeOp launch) {
    if (!kernels.count(launch.getKernel()))
      return launch.emitOpError() << "expected an rt.kernel named @" << launch.getKernel();
    if (!most(program, launch.getScalar()))
      return launch.emitOpError() << "counts its tiles by " << rt::stringifyScalar(launch.getScalar()) << ", of which the program has none";
    if (int64_t(launch.getDiv()) <= 0 || int64_t(launch.getMul()) <= 0)
      return launch.emitOpError() << "expected a positive divisor and factor, got " << launch.getDiv() << " and " << launch.getMul();
    return checkMemory(launch, launch.getBufs(), launch.getWrites());
  }

  /// Every reference that is not written must hold a value; what is written must be writable, and holds one afterwards.
  LogicalResult checkMemory(Operation *launch, OperandRange bufs, ArrayRef<int64_t> writes) {
    for (auto [i, buf] : llvm::enumerate(bufs))
      if (!llvm::is_contained(writes, int64_t(i)) && failed(checkRead(launch, "reference " + std::to_string(i), buf)))
        return failure();
    for (int64_t i : writes) {
      auto view = bufs[size_t(i)].getDefiningOp<rt::ViewOp>();
      if (view.getPool() == rt::Pool::Weights || view.getPool() == rt::Pool::Step)
        return launch->emitOpError() << "reference " << i << " would write to pool " << rt::stringifyPool(view.getPool());
      if (view.getPool() != rt::Pool::Kv)
        (view.getPool() == rt::Pool::Arena ? arena : persist).add(view.getOffset(), view.getOffset() + view.getSize());
    }
    return success();
  }

  LogicalResult checkGrid(rt::LaunchGridOp launch) {
    if (!kernels.count(launch.getKernel()))
      return launch.emitOpError() << "expected an rt.kernel named @" << launch.getKernel();
    if (gpu && int64_t(launch.getSmem()) > gpu.getSmem())
      return launch.emitOpError() << "expected at most " << gpu.getSmem() << " bytes of shared memory on " << gpu.getArch() << ", got "
                                  << launch.getSmem();
    for (auto [i, param] : llvm::enumerate(launch.getParams()))
      if (failed(checkParam(launch, i, param)))
        return failure();
    return checkMemory(launch, launch.getBufs(), launch.getWrites());
  }

  /// An address inside its view; a tensor map's whole extent inside it, because a copy goes as far as the map says.
  LogicalResult checkParam(rt::LaunchGridOp launch, size_t i, Attribute param) {
    auto viewOf = [&](int64_t ref) { return launch.getBufs()[size_t(ref)].getDefiningOp<rt::ViewOp>(); };
    if (auto ptr = dyn_cast<rt::PtrAttr>(param)) {
      rt::ViewOp view = viewOf(ptr.getRef());
      if (view.getPool() != rt::Pool::Kv && ptr.getOffset() >= int64_t(view.getSize()))
        return launch.emitOpError() << "expected parameter " << i << " inside its buffer of " << view.getSize() << " bytes, got offset "
                                    << ptr.getOffset();
    }
    auto map = dyn_cast<rt::TensorMapAttr>(param);
    if (!map)
      return success();
    rt::ViewOp view = viewOf(map.getRef());
    bool open = map.getDims().back() == 0;
    if (open != (view.getPool() == rt::Pool::Kv))
      return launch.emitOpError() << "expected tensor map " << i << (open ? " of a stated size outside" : " of an open outermost dim in")
                                  << " pool kv";
    if (!open && map.getOffset() + map.getExtent() > int64_t(view.getSize()))
      return launch.emitOpError() << "expected tensor map " << i << " inside its buffer of " << view.getSize() << " bytes, got bytes ["
                                  << map.getOffset() << ", " << map.getOffset() + map.getExtent() << ")";
    return success();
  }

  LogicalResult checkTap(rt::ProgramOp program, rt::TapOp tap) {
    auto it = taps.find(tap.getName());
    if (it == taps.end())
      return tap.emitOpError() << "expected a tap point '" << tap.getName() << "'";
    auto view = tap.getBuf().getDefiningOp<rt::ViewOp>();
    std::optional<int64_t> rows = most(program, tap.getRows());
    if (!rows || (tap.getRows() != rt::Scalar::Tokens && tap.getRows() != rt::Scalar::Seqs))
      return tap.emitOpError() << "expected rows counted by tokens or seqs, got " << rt::stringifyScalar(tap.getRows());
    int64_t bytes = *rows * int64_t(it->second.getCols()) * elemBytes(it->second.getElem());
    if (bytes > int64_t(view.getSize()))
      return tap.emitOpError() << "expected a buffer of " << bytes << " bytes or more, got " << view.getSize();
    return checkRead(tap, "the tap", tap.getBuf());
  }

  LogicalResult checkOutput(rt::ProgramOp program, rt::OutputOp output) {
    auto view = output.getBuf().getDefiningOp<rt::ViewOp>();
    if (view.getPool() != rt::Pool::Persist)
      return output.emitOpError() << "expected '" << output.getName() << "' in pool persist, got " << rt::stringifyPool(view.getPool());
    if (!persist.covers(view.getOffset(), view.getOffset() + view.getSize()))
      return output.emitOpError() << "'" << output.getName() << "' is not written by the program";
    return success();
  }

  rt::ModuleOp module;
  target::GpuAttr gpu; // null: a CPU, or a host program on its own
  std::map<unsigned, int64_t> pools;
  llvm::StringMap<rt::KernelOp> kernels;
  llvm::StringMap<rt::TapPointOp> taps;
  Written arena, persist;
};

struct VerifyRtPass : impl::VerifyRtPassBase<VerifyRtPass> {
  void runOnOperation() override {
    for (auto module : getOperation().getOps<rt::ModuleOp>())
      if (failed(verifyRt(module)))
        return signalPassFailure();
  }
};
} // namespace

LogicalResult verifyRt(rt::ModuleOp module) { return ModuleCheck(module).run(); }

} // namespace dsv3
