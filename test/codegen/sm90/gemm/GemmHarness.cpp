#include "test/codegen/sm90/gemm/GemmHarness.h"

#include "codegen/sm90/lower/TilePasses.h"
#include "dialects/kernel/Layout.h"
#include "passes/tile/TilePasses.h"
#include "passes/tile/OpAccess.h"
#include "runtime/core/DType.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

#include <cstring>
#include <random>

using namespace mlir;

namespace dsv3::codegen::test {

static MLIRContext &context() {
  static MLIRContext *ctx = [] {
    DialectRegistry registry;
    registerDeviceDialects(registry);
    auto *c = new MLIRContext(registry, MLIRContext::Threading::DISABLED); // lives as long as the process
    c->loadDialect<ir::Dsv3Dialect, kernel::KernelDialect, tile::TileDialect, arith::ArithDialect, math::MathDialect, scf::SCFDialect,
                   LLVM::LLVMDialect>();
    return c;
  }();
  return *ctx;
}

Numbers randomBf16(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Numbers n;
  for (int64_t i = 0; i < count; ++i) {
    uint16_t bits = floatToBf16(normal(random));
    n.values.push_back(bf16ToFloat(bits));
    n.bytes.push_back(uint8_t(bits)), n.bytes.push_back(uint8_t(bits >> 8));
  }
  return n;
}

Numbers randomE4m3(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  Numbers n;
  for (int64_t i = 0; i < count; ++i) {
    uint8_t code = uint8_t(random());
    if ((code & 0x7f) == 0x7f)
      code ^= 1;
    n.values.push_back(e4m3ToFloat(code));
    n.bytes.push_back(code);
  }
  return n;
}

Numbers randomI8(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  Numbers n;
  for (int64_t i = 0; i < count; ++i) {
    n.bytes.push_back(uint8_t(random()));
    n.values.push_back(float(int8_t(n.bytes.back())));
  }
  return n;
}

std::unique_ptr<LaunchKernel> LaunchKernel::parse(const std::string &args, const std::string &body, const std::string &attributes) {
  std::string text = "dsv3.program @p(" + args + ") attributes {" + attributes + "} {\n" + body + "\ndsv3.return\n}";
  auto k = std::make_unique<LaunchKernel>();
  k->source = parseSourceString<ModuleOp>(text, &context());
  if (k->source) {
    (*k->source)->setAttr(kCapacitiesAttr, Capacities::derive(160, 8, 512).toAttr(&context()));
    k->source->walk([&](kernel::KernelOp op) { k->launchOp = op; });
  }
  if (!k->launchOp) {
    ADD_FAILURE() << "cannot read\n" << text;
    return nullptr;
  }
  const KernelEmitter *found = sm90Registry().lookup(k->launchOp);
  k->emitter = found ? found->asDevice() : nullptr;
  return k;
}

std::string LaunchKernel::whyIllegal(const std::string &args, const std::string &body, const std::string &attributes) {
  auto k = parse(args, body, attributes);
  // The last candidate is the general one, whose reason matters.
  std::string why = "no emitter";
  for (const auto &emitter : sm90Registry().all())
    if (k && emitter->opName() == k->launchOp->getName().getStringRef())
      if (why = emitter->whyIllegal(k->launchOp); why.empty())
        break;
  return why;
}

std::unique_ptr<LaunchKernel> LaunchKernel::compile(const std::string &args, const std::string &body, const std::string &attributes,
                                                    ArrayRef<std::pair<StringRef, int64_t>> force, StringRef emitter) {
  auto k = parse(args, body, attributes);
  for (const auto &e : sm90Registry().all())
    if (k && e->name() == emitter)
      k->emitter = e->asDevice();
  if (!k || !k->emitter)
    return nullptr;
  if (std::string why = emitter.empty() ? k->emitter->whyIllegal(k->launchOp) : std::string(); !why.empty()) {
    ADD_FAILURE() << why;
    return nullptr;
  }
  k->launchOp->setAttr("numerics", k->emitter->numerics(k->launchOp));
  OpBuilder b(&context());
  kernel::ScheduleAttr schedule = k->emitter->schedule(k->launchOp);
  NamedAttrList config(schedule.getConfig());
  for (auto [name, number] : force)
    config.set(name, b.getI64IntegerAttr(number));
  k->launchOp->setAttr("schedule", kernel::ScheduleAttr::get(&context(), schedule.getEmitter(), config.getDictionary(&context())));
  for (OpOperand &operand : k->launchOp->getOpOperands())
    if (auto type = dyn_cast<RankedTensorType>(operand.get().getType()))
      if (kernel::PackedAttr encoding = k->emitter->weightEncoding(k->launchOp, operand.getOperandNumber(), type))
        operand.get().setType(RankedTensorType::get(type.getShape(), type.getElementType(), encoding));
  k->emitted = ModuleOp::create(b.getUnknownLoc());
  b.setInsertionPointToEnd(k->emitted->getBody());
  if (failed(k->emitter->emit(k->launchOp, "k", b)) || failed(verify(*k->emitted))) {
    k->emitted->dump();
    ADD_FAILURE() << "not emitted";
    return nullptr;
  }
  return k;
}

tile::KernelOp LaunchKernel::kernel() const { return *emitted.get().getOps<tile::KernelOp>().begin(); }

std::string LaunchKernel::schedule() const {
  std::string text;
  llvm::raw_string_ostream(text) << launchOp->getAttr("schedule");
  return text;
}

int64_t LaunchKernel::param(StringRef name) const {
  return cast<kernel::ScheduleAttr>(launchOp->getAttr("schedule")).getConfig().getAs<IntegerAttr>(name).getInt();
}

Bytes LaunchKernel::pack(unsigned operand, unsigned part, llvm::function_ref<const uint8_t *(ArrayRef<int64_t>)> element) const {
  RankedTensorType type = operandType(operand);
  auto packed = cast<kernel::PackedAttr>(type.getEncoding());
  kernel::PackedPart p = kernel::getPackedParts(type)[part];
  StringRef map = (part ? packed.getScale() : packed.getLayout()).getMap();
  Layout layout = *Layout::parse(std::string_view(map.data(), map.size()));
  size_t width = p.elem.getIntOrFloatBitWidth() / 8, outerDims = type.getRank() - layout.rank();
  std::vector<int64_t> inner(type.getShape().begin() + outerDims, type.getShape().end());
  Bytes bytes(size_t(p.bytes), 0);
  SmallVector<int64_t> index(type.getRank());
  for (int64_t i = 0; i < type.getNumElements(); ++i) {
    int64_t rest = i;
    for (size_t d = index.size(); d-- > 0; rest /= type.getDimSize(d))
      index[d] = rest % type.getDimSize(d);
    std::vector<int64_t> in(index.begin() + outerDims, index.end());
    int64_t outer = outerDims ? index[0] * p.outerStride : 0;
    int64_t place = layout.offset(in, inner);
    if (!width) // half a byte
      bytes[size_t(outer + place / 2)] |= uint8_t((*element(index) & 15) << (place % 2 * 4));
    else
      std::memcpy(&bytes[size_t(outer) + size_t(place) * width], element(index), width);
  }
  return bytes;
}

/// What a tensor map sees, packed: the simulator knows no pitches.
static Bytes gather(const TensorMap &map, const uint8_t *data) {
  Bytes packed;
  SmallVector<int64_t> at(map.dims.size(), 0);
  int64_t width = map.elem == TensorMap::Elem::U8 ? 1 : map.elem == TensorMap::Elem::F32 ? 4 : 2;
  for (bool more = true; more;) {
    int64_t byte = 0;
    for (size_t d = 1; d < at.size(); ++d)
      byte += at[d] * map.strides[d - 1];
    packed.insert(packed.end(), data + byte, data + byte + map.dims[0] * width);
    more = false;
    for (size_t d = 1; d < at.size() && !more; ++d)
      if (++at[d] < map.dims[d])
        more = true;
      else
        at[d] = 0;
  }
  return packed;
}

Result<tile::SimReport> LaunchKernel::simulate(tile::KernelOp kernel, ArrayRef<Bytes *> refs, std::vector<int64_t> scalars, uint64_t seed, int64_t ctas) const {
  DeviceLaunch launch = emitter->launch(launchOp);
  EXPECT_EQ(kernel.getArgumentTypes().size(), launch.params.size() + 1);
  scalars.resize(DSV3_SCALAR_COUNT);
  std::vector<tile::SimArgument> args{tile::SimArgument::memory(scalars.data(), {DSV3_SCALAR_COUNT})};
  std::vector<Bytes> gathered;
  gathered.reserve(launch.params.size());
  for (auto [param, type] : llvm::zip(launch.params, kernel.getArgumentTypes().drop_front())) {
    if (auto *map = std::get_if<DeviceParam::Map>(&param.value)) {
      auto tma = cast<tile::TmaType>(type);
      EXPECT_EQ(SmallVector<int64_t>(llvm::reverse(map->map.box)), SmallVector<int64_t>(tma.getBox()));
      TensorMap whole = map->map;
      if (!whole.dims.back()) // as many as the pool holds
        whole.dims.back() = (int64_t(refs[map->ref]->size()) - map->offset) / whole.strides.back();
      gathered.push_back(gather(whole, refs[map->ref]->data() + map->offset));
      args.push_back(tile::SimArgument::memory(gathered.back().data(), std::vector<int64_t>(whole.dims.rbegin(), whole.dims.rend())));
      continue;
    }
    if (auto *number = std::get_if<DeviceParam::Const>(&param.value)) {
      args.push_back(tile::SimArgument::scalar(double(number->value)));
      continue;
    }
    auto pointer = std::get<DeviceParam::Pointer>(param.value);
    auto gmem = cast<tile::GmemType>(type);
    std::vector<int64_t> shape(gmem.getShape());
    int64_t row = gmem.getElement().getIntOrFloatBitWidth() / 8;
    for (size_t d = 1; d < shape.size(); ++d)
      row *= shape[d];
    shape[0] = (int64_t(refs[pointer.ref]->size()) - pointer.offset) / row;
    args.push_back(tile::SimArgument::memory(refs[pointer.ref]->data() + pointer.offset, shape));
  }
  tile::SimOptions options;
  options.seed = seed;
  options.ctas = ctas ? ctas : launch.grid[0];
  return tile::simulate(kernel, args, options);
}

void LaunchKernel::run(ArrayRef<Bytes *> refs, std::vector<int64_t> scalars, uint64_t seed, int64_t ctas) const {
  Result<tile::SimReport> report = simulate(kernel(), refs, std::move(scalars), seed, ctas);
  ASSERT_TRUE(bool(report)) << report.error().message;
  for (const tile::AccessEntry &a : tile::accessesOf(kernel()))
    EXPECT_EQ(a.degree, 1u) << "bank conflict of " << a.instruction << " of '" << a.op->getName().getStringRef().str() << "'";
  for (const tile::sim::Finding &f : report->findings)
    ADD_FAILURE() << "C" << int(f.check) << " " << f.message;
}

std::string LaunchKernel::findings(ArrayRef<Bytes *> refs, std::vector<int64_t> scalars, const tile::Mutant &mutant, int64_t ctas) const {
  OwningOpRef<ModuleOp> module(emitted.get().clone());
  tile::KernelOp changed = *module->getOps<tile::KernelOp>().begin();
  mutant.apply(changed);
  std::string found;
  for (uint64_t seed = 1; seed <= 4 && found.empty(); ++seed) {
    Result<tile::SimReport> report = simulate(changed, refs, scalars, seed, ctas);
    if (!report)
      return report.error().message;
    for (const tile::sim::Finding &f : report->findings)
      found += f.message + "\n";
  }
  return found;
}

Result<DeviceCode> LaunchKernel::assemble() const {
  OwningOpRef<ModuleOp> module(emitted.get().clone());
  PassManager pm(&context());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  pm.addPass(createTilePeelPass());
  pm.addPass(createTileAllocatePass());
  pm.addPass(createTileToNvvmPass());
  if (failed(pm.run(*module)))
    return internalError("the kernel was not lowered");
  return emitDevice(*module, {});
}

void expectAssembles(const LaunchKernel *kernel) {
  ASSERT_TRUE(kernel);
  SCOPED_TRACE(kernel->schedule());
  Result<DeviceCode> code = kernel->assemble();
  ASSERT_TRUE(bool(code)) << code.error().message;
  ASSERT_EQ(code->kernels.size(), 1u);
  EXPECT_EQ(code->kernels[0].dynamicShared, kernel->launch().smem);
  EXPECT_EQ(code->kernels[0].threads, kernel->launch().threads);
}

} // namespace dsv3::codegen::test
