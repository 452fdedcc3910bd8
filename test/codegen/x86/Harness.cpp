#include "test/codegen/x86/Harness.h"
#include "test/codegen/x86/TileEmulator.h"

#include "codegen/emit/Cubin.h"
#include "codegen/emit/Object.h"
#include "dialects/kernel/Layout.h"
#include "runtime/core/DType.h"
#include "runtime/engine/CpuFeatures.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

#include <gtest/gtest.h>

#include <dlfcn.h>
#include <random>

using namespace mlir;

namespace dsv3::codegen::test {

static MLIRContext &context() {
  static MLIRContext *ctx = [] {
    DialectRegistry registry;
    registry.insert<ir::Dsv3Dialect, kernel::KernelDialect, rt::RtDialect, arith::ArithDialect, func::FuncDialect, scf::SCFDialect,
                    cf::ControlFlowDialect, vector::VectorDialect, LLVM::LLVMDialect>();
    registerBuiltinDialectTranslation(registry);
    registerLLVMDialectTranslation(registry);
    registerDeviceDialects(registry);
    auto *c = new MLIRContext(registry); // lives as long as the process
    c->loadAllAvailableDialects();
    return c;
  }();
  return *ctx;
}

std::vector<const CpuVariant *> usableVariants() {
  static const std::vector<std::string> features = [] {
    std::vector<std::string> has = cpuFeatures();
    if (!llvm::is_contained(has, "amx-tile")) {
      emulateTiles();
      has.insert(has.end(), {"amx-tile", "amx-bf16", "amx-int8"});
    }
    return has;
  }();
  std::vector<const CpuVariant *> usable;
  for (const CpuVariant &v : cpuVariants())
    if (chooseVariant({v.name.str()}, features, v.name.str()))
      usable.push_back(&v);
  return usable;
}

Capacities capacities() { return Capacities::derive(160, 8, 512); }

std::string tensorText(const Shape &shape, Elem elem) {
  std::string text = "tensor<";
  for (int64_t d : shape)
    text += std::to_string(d) + "x";
  return text + name(elem) + ">";
}

//===-- Weights -----------------------------------------------------------===//

Weight plainWeight(Shape shape, Elem elem, uint32_t seed) {
  return {randomValues(shape, elem, seed), tensorText(shape, elem)};
}

Weight fp8Weight(Shape shape, Elem expressed, int64_t blockN, int64_t blockK, uint32_t seed) {
  Weight w{Array<double>(shape), {}, {}, Array<double>(shape)};
  auto dim = [](int64_t b) { return b ? std::to_string(b) : "?"; };
  std::string text = tensorText(shape, expressed);
  w.type = text.substr(0, text.size() - 1) + ", #dsv3.blocked<f8E4M3FN, " + dim(blockN) + "x" + dim(blockK) + ", f32>>";
  std::mt19937 engine(seed);
  int64_t n = shape[shape.size() - 2], k = shape.back();
  std::vector<float> scale;
  int64_t bn = blockN ? blockN : n, bk = blockK ? blockK : k, across = (k + bk - 1) / bk, down = (n + bn - 1) / bn;
  for (int64_t i = 0; i < w.values.size() / (n * k) * across * down; ++i)
    scale.push_back(float(0.001 + 0.01 * double(engine() % 1000) / 1000));
  for (int64_t i = 0; i < w.values.size(); ++i) {
    uint8_t code = uint8_t(engine());
    if ((code & 0x7f) == 0x7f)
      code ^= 1;
    int64_t matrix = i / (n * k), row = i / k % n;
    float s = scale[size_t((matrix * down + row / bn) * across + i % k / bk)];
    w.codes.push_back(code);
    w.scales.data[size_t(i)] = s;
    w.values.data[size_t(i)] = roundTo(expressed == Elem::F32 ? DType::F32 : DType::BF16, e4m3ToFloat(code) * s);
  }
  return w;
}

Weight intWeight(Shape shape, Elem expressed, int bits, int64_t blockK, uint32_t seed, bool zeros) {
  Weight w{Array<double>(shape), {}, {}, Array<double>(shape), zeros ? Array<double>(shape) : Array<double>()};
  std::string text = tensorText(shape, expressed), type = "i" + std::to_string(bits);
  w.type = text.substr(0, text.size() - 1) + ", #dsv3.blocked<" + type + ", 1x" + (blockK ? std::to_string(blockK) : "?") +
           (zeros ? ", f16, zero i8>>" : ", f32>>");
  std::mt19937 engine(seed);
  int64_t k = shape.back(), half = 1 << (bits - 1);
  float scale = 0;
  int zero = 0;
  for (int64_t i = 0; i < w.values.size(); ++i) {
    if (i % k % (blockK ? blockK : k) == 0) {
      scale = roundTo(zeros ? DType::F16 : DType::F32, float(0.001 + 0.01 * double(engine() % 1000) / 1000));
      zero = zeros ? int(int64_t(engine() % uint32_t(2 * half)) - half) : 0;
    }
    int code = int(int64_t(engine() % uint32_t(2 * half)) - half);
    w.codes.push_back(uint8_t(code));
    w.scales.data[size_t(i)] = scale;
    if (zeros)
      w.zeros.data[size_t(i)] = zero;
    w.values.data[size_t(i)] = roundTo(expressed == Elem::F32 ? DType::F32 : DType::BF16, float(code - zero) * scale);
  }
  return w;
}

std::vector<Buffer> packWeight(const Weight &weight, RankedTensorType type) {
  auto packed = cast<kernel::PackedAttr>(type.getEncoding());
  std::vector<Buffer> buffers;
  for (const kernel::PackedPart &part : kernel::getPackedParts(type)) {
    bool isScale = part.name == "scale", isZero = part.name == "zero";
    StringRef map = (isScale || isZero ? packed.getScale() : packed.getLayout()).getMap();
    Layout layout = *Layout::parse(std::string_view(map.data(), map.size()));
    Buffer buffer(part.bytes, 0);
    auto *base = static_cast<uint8_t *>(buffer.data());
    const Shape &shape = weight.values.shape;
    std::vector<int64_t> inner(shape.end() - layout.rank(), shape.end()), index(layout.rank());
    int64_t matrix = reference::numElements(inner);
    for (int64_t i = 0; i < weight.values.size(); ++i) {
      int64_t rest = i % matrix;
      for (size_t d = inner.size(); d-- > 0; rest /= inner[d])
        index[d] = rest % inner[d];
      uint8_t *place = base + i / matrix * part.outerStride;
      int64_t at = layout.offset(index, inner);
      float value = float(isScale ? weight.scales.data[size_t(i)] : weight.values.data[size_t(i)]);
      if (isScale || part.elem.isF32())
        std::memcpy(place + at * 4, &value, 4);
      else if (part.elem.isBF16())
        convertFromFloat(DType::BF16, &value, 1, place + at * 2);
      else if (isZero)
        place[at] = uint8_t(int8_t(weight.zeros.data[size_t(i)]));
      else if (part.elem.isInteger(4))
        place[at / 2] = uint8_t(place[at / 2] | (weight.codes[size_t(i)] & 15) << (at % 2 * 4));
      else
        place[at] = weight.codes[size_t(i)];
    }
    buffers.push_back(std::move(buffer));
  }
  return buffers;
}

//===-- Compilation -------------------------------------------------------===//

namespace {
/// A folder that goes with the object. Loaded code outlives it.
struct TempFolder {
  llvm::SmallString<128> path;
  TempFolder() { EXPECT_FALSE(llvm::sys::fs::createUniqueDirectory("x86-kernels", path)); }
  ~TempFolder() { llvm::sys::fs::remove_directories(path); }
};

using EmitFn = llvm::function_ref<LogicalResult(Operation *fn, const CpuVariant &)>;

/// The modules that `emitVariants` takes, with the one kernel @k.
OwningOpRef<ModuleOp> variantModules(ArrayRef<const CpuVariant *> variants, EmitFn emit) {
  OpBuilder b(&context());
  OwningOpRef<ModuleOp> outer = ModuleOp::create(b.getUnknownLoc());
  Type ptr = LLVM::LLVMPointerType::get(&context()), i64 = b.getI64Type();
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(&context()), {ptr, ptr, i64, i64, ptr});
  for (const CpuVariant *variant : variants) {
    b.setInsertionPointToEnd(outer->getBody());
    auto module = ModuleOp::create(b, b.getUnknownLoc(), variant->name);
    b.setInsertionPointToEnd(module.getBody());
    if (failed(emit(LLVM::LLVMFuncOp::create(b, b.getUnknownLoc(), "k", type), *variant)))
      return nullptr;
  }
  if (failed(verify(*outer)))
    return nullptr;
  return outer;
}

/// Objects in `folder`, one per variant.
std::vector<SharedObject> emitObjects(ModuleOp modules, int64_t scratch, const TempFolder &folder) {
  std::string host = "rt.module @host target \"x86-64\" abi 4 step(tokens 1, seqs 1, pages 1) "
                     "kv(layers 1, page 64, row 1, f32) {\n  rt.kernel @k key \"k\" refs 1 consts 0 scratch " +
                     std::to_string(scratch) + "\n}";
  OwningOpRef<ModuleOp> hostModule = parseSourceString<ModuleOp>(host, &context());
  if (!hostModule)
    return {};
  auto objects = emitVariants(modules, *hostModule->getOps<rt::ModuleOp>().begin(), folder.path.str().str(), 2);
  if (!objects) {
    ADD_FAILURE() << objects.error().message;
    return {};
  }
  if (const char *keep = std::getenv("DSV3_KEEP_KERNELS")) // for a look at the assembly
    for (const SharedObject &object : *objects)
      llvm::sys::fs::copy_file(object.path, std::string(keep) + "/" + object.variant + ".so");
  return *objects;
}

std::vector<Code> load(ModuleOp modules, int64_t scratch) {
  TempFolder folder;
  std::vector<Code> codes;
  for (const SharedObject &object : emitObjects(modules, scratch, folder)) {
    void *handle = dlopen(object.path.c_str(), RTLD_NOW | RTLD_LOCAL);
    auto entry = handle ? reinterpret_cast<dsv3_module_fn>(dlsym(handle, "dsv3_module")) : nullptr;
    if (!entry) {
      ADD_FAILURE() << dlerror();
      return {};
    }
    codes.push_back({object.variant, entry()->kernels[0].fn, int64_t(entry()->kernels[0].scratch_bytes)});
  }
  return codes;
}

/// Every operand that the emitter wants packed becomes the use of a packed weight.
void packOperands(ModuleOp module, Operation *op, const KernelEmitter &emitter) {
  OpBuilder b(op);
  int64_t offset = 0;
  for (OpOperand &operand : op->getOpOperands()) {
    auto type = dyn_cast<RankedTensorType>(operand.get().getType());
    kernel::PackedAttr encoding = type ? emitter.weightEncoding(op, operand.getOperandNumber(), type) : kernel::PackedAttr();
    if (!encoding)
      continue;
    auto packed = RankedTensorType::get(type.getShape(), type.getElementType(), encoding);
    std::string symbol = "w" + std::to_string(operand.getOperandNumber());
    int64_t bytes = kernel::getPackedBytes(packed);
    OpBuilder top = OpBuilder::atBlockBegin(module.getBody());
    kernel::WeightOp::create(top, op->getLoc(), symbol, packed, "source", offset, bytes);
    operand.set(kernel::UseOp::create(b, op->getLoc(), packed, symbol));
    offset = llvm::alignTo(offset + bytes, 4096);
  }
}
} // namespace

std::unique_ptr<Kernel> Kernel::bind(const std::string &args, const std::string &body) {
  auto kernel = std::make_unique<Kernel>();
  kernel->module = parseSourceString<ModuleOp>("func.func @f(" + args + ") {\n" + body + "\n  return\n}", &context());
  if (!kernel->module) {
    ADD_FAILURE() << "does not parse: " << body;
    return nullptr;
  }
  kernel->module->getOperation()->setAttr(kCapacitiesAttr, capacities().toAttr(&context()));
  kernel->module->walk([&](kernel::KernelOp op) { kernel->launch = op; });
  Operation *op = kernel->launch;
  kernel->unbound = OpBuilder(op).clone(*op);
  const KernelEmitter *found = x86Registry().lookup(op);
  kernel->emitter = found ? found->asCpu() : nullptr;
  if (!kernel->emitter || !kernel->emitter->whyIllegal(op).empty()) {
    ADD_FAILURE() << "not legal: " << (kernel->emitter ? kernel->emitter->whyIllegal(op) : "no emitter");
    return nullptr;
  }
  op->setAttr("numerics", kernel->emitter->numerics(op));
  op->setAttr("schedule", kernel->emitter->schedule(op));
  packOperands(*kernel->module, op, *kernel->emitter);
  return kernel;
}

OwningOpRef<ModuleOp> Kernel::emitFor(ArrayRef<const CpuVariant *> variants) const {
  OwningOpRef<ModuleOp> modules;
  if (succeeded(verify(*module)))
    modules = variantModules(variants, [&](Operation *fn, const CpuVariant &v) { return emitter->emit(launch, fn, v); });
  if (!modules)
    ADD_FAILURE() << "not emitted: " << kernelKey(launch);
  return modules;
}

std::unique_ptr<Kernel> Kernel::compile(const std::string &args, const std::string &body, bool emulate) {
  std::unique_ptr<Kernel> kernel = bind(args, body);
  OwningOpRef<ModuleOp> modules = kernel ? kernel->emitFor(usableVariants()) : OwningOpRef<ModuleOp>();
  if (!modules)
    return nullptr;
  kernel->variants = load(*modules, kernel->emitter->scratchBytes(kernel->launch));
  return kernel->variants.empty() || (emulate && !kernel->addEmulated(kernel->unbound)) ? nullptr : std::move(kernel);
}

bool Kernel::addEmulated(Operation *op) {
  if (!Grid::canRun(op))
    return true; // done on tensor cores
  std::shared_ptr<const Grid> grid = Grid::create(op);
  variants.push_back({"sm_90a", nullptr, 0, grid});
  return bool(grid);
}

std::string Kernel::build(const std::string &args, const std::string &body, const CpuVariant &variant) {
  std::unique_ptr<Kernel> kernel = bind(args, body);
  OwningOpRef<ModuleOp> modules = kernel ? kernel->emitFor(&variant) : OwningOpRef<ModuleOp>();
  if (!modules)
    return {};
  TempFolder folder;
  for (const SharedObject &object : emitObjects(*modules, kernel->emitter->scratchBytes(kernel->launch), folder))
    if (auto bytes = llvm::MemoryBuffer::getFile(object.path))
      return (*bytes)->getBuffer().str();
  return {};
}

std::vector<Code> Kernel::compile(const std::function<void(KernelBuilder &)> &body, int64_t scratchBytes) {
  OwningOpRef<ModuleOp> modules = variantModules(usableVariants(), [&](Operation *fn, const CpuVariant &v) {
    KernelBuilder k(cast<LLVM::LLVMFuncOp>(fn), v);
    body(k);
    k.finish();
    return success();
  });
  return modules ? load(*modules, scratchBytes) : std::vector<Code>();
}

void forEachRun(const Kernel &kernel, llvm::function_ref<void(const Code &, Split)> run) {
  for (const Code &code : kernel.codes())
    for (Split split : {Split::Whole, Split::EachBackwards, Split::Threes})
      run(code, split);
}

void expectClose(const Buffer &out, Elem elem, const Array<double> &ref, const std::string &what, double narrow) {
  double error = rowError(out.values(ref.shape, elem), ref), limit = elem == Elem::F32 ? 1e-5 : narrow;
  EXPECT_LE(error, limit) << what;
}

void expectSameBits(const Buffer &a, const Buffer &b, const std::string &what) {
  int64_t n = std::min(a.size(), b.size());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), size_t(n)), 0) << what;
}

//===-- Calls -------------------------------------------------------------===//

int64_t Kernel::tiles(const Step &step) const {
  TileCount count = emitter->tiles(launch);
  int64_t scalars[] = {step.tokens, step.seqs, step.qblocks, step.kblocks};
  return count.scalar < 0 ? count.mul : (scalars[count.scalar] + count.div - 1) / count.div * count.mul;
}

void Kernel::run(const Code &code, const std::vector<const Buffer *> &buffers, const Step &step, Split split) const {
  std::vector<const void *> bufs;
  for (const Buffer *b : buffers)
    bufs.push_back(b->data());
  std::vector<int64_t> scalars(DSV3_SCALAR_COUNT, 0);
  scalars[DSV3_SCALAR_TOKENS] = step.tokens, scalars[DSV3_SCALAR_SEQS] = step.seqs;
  scalars[DSV3_SCALAR_QBLOCKS] = step.qblocks, scalars[DSV3_SCALAR_KBLOCKS] = step.kblocks;
  scalars[DSV3_SCALAR_KV_LAYER_STRIDE] = step.layerStride;
  if (code.device)
    code.device->run(bufs, scalars, split != Split::Whole);
  else
    runTiles(code, bufs, scalars, step, split);
  for (const Buffer *b : buffers)
    ASSERT_TRUE(b->intact()) << code.variant << ": wrote beyond a buffer of " << b->size() << " bytes";
}

void Kernel::runTiles(const Code &code, const std::vector<const void *> &bufs, std::vector<int64_t> scalars, const Step &step,
                      Split split) const {
  LaunchSignature sig = signature();
  scalars.insert(scalars.end(), sig.consts.begin(), sig.consts.end());
  Buffer scratch(code.scratch, 0xff, 64);
  auto call = [&](int64_t begin, int64_t end) {
    std::memset(scratch.data(), 0xff, size_t(code.scratch)); // what another kernel left: NaN
    code.fn(bufs.data(), scalars.data(), begin, end, scratch.data());
    ASSERT_TRUE(scratch.intact()) << code.variant << ": wrote beyond scratch, tiles " << begin << " to " << end;
  };
  int64_t n = tiles(step);
  if (split == Split::Whole)
    call(0, n);
  else if (split == Split::EachBackwards)
    for (int64_t t = n; t-- > 0;)
      call(t, t + 1);
  else
    for (int64_t t = 0; t < n; t += 3)
      call(t, std::min(t + 3, n));
}

} // namespace dsv3::codegen::test
