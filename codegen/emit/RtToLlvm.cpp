#include "codegen/emit/RtToLlvm.h"

#include "runtime/core/Abi.h"

#include "llvm/IR/IRBuilder.h"

#include <map>

namespace dsv3::codegen {

using llvm::ArrayRef;
using llvm::Constant;
using llvm::SmallVector;
using llvm::StringRef;

AbiTypes AbiTypes::get(llvm::LLVMContext &c) {
  auto *i32 = llvm::Type::getInt32Ty(c), *i64 = llvm::Type::getInt64Ty(c);
  auto *ptr = llvm::PointerType::get(c, 0);
  AbiTypes t;
  t.ref = llvm::StructType::create("dsv3_ref", i32, i32, i64);
  t.launch = llvm::StructType::create("dsv3_launch", i32, i32, i32, i32, ptr, ptr, ptr);
  auto array = [](llvm::Type *type, unsigned count) { return llvm::ArrayType::get(type, count); };
  t.tensorMap = llvm::StructType::create("dsv3_tensor_map", i32, i32, i32, i32, array(i64, DSV3_MAP_MAX_RANK), array(i64, DSV3_MAP_MAX_RANK - 1),
                                         array(i32, DSV3_MAP_MAX_RANK), i32);
  t.param = llvm::StructType::create("dsv3_param", i32, i32, t.ref, ptr, i64);
  t.gridLaunch = llvm::StructType::create("dsv3_grid_launch", i32, array(i32, 3), i32, i32, i32, i32, ptr, ptr);
  t.hostApi = llvm::StructType::create("dsv3_host_api", i32, i32, ptr, ptr, ptr);
  t.kernelDesc = llvm::StructType::create("dsv3_kernel_desc", ptr, ptr, ptr, i64);
  t.outputDesc = llvm::StructType::create("dsv3_output_desc", ptr, t.ref, i32, i32, i64);
  t.programDesc = llvm::StructType::create("dsv3_program_desc", ptr, i32, i32, i32, i32, i32, i32, ptr, ptr);
  t.fieldDesc = llvm::StructType::create("dsv3_field_desc", ptr, i32, i32, i64, i64);
  t.tapDesc = llvm::StructType::create("dsv3_tap_desc", ptr, i32, i32, i64);
  SmallVector<llvm::Type *> module{i32, i32, ptr, ptr};
  module.append(12, i32); // n_programs .. reserved
  module.push_back(llvm::ArrayType::get(i64, DSV3_POOL_COUNT));
  module.append(4, ptr);
  t.moduleDesc = llvm::StructType::create(c, module, "dsv3_module_desc");
  return t;
}

namespace {

class Writer {
public:
  Writer(rt::ModuleOp host, StringRef variant, KernelsIn where, llvm::Module &module)
      : host(host), variant(variant), where(where), module(module), context(module.getContext()), types(AbiTypes::get(context)),
        ptr(llvm::PointerType::get(context, 0)), i32(llvm::Type::getInt32Ty(context)), i64(llvm::Type::getInt64Ty(context)) {}

  Status run() {
    for (llvm::Function &f : module)
      if (!f.isDeclaration())
        f.setLinkage(llvm::GlobalValue::InternalLinkage);
    if (Status s = writeKernels(); !s)
      return s;
    writeFields();
    writeTaps();
    for (auto program : body().getOps<rt::ProgramOp>())
      writeProgram(program);
    writeModule();
    return {};
  }

private:
  mlir::Block &body() { return host.getBody().front(); }

  //===-- Constants -------------------------------------------------------===//

  Constant *n32(uint64_t v) { return llvm::ConstantInt::get(i32, v); }
  Constant *n64(uint64_t v) { return llvm::ConstantInt::get(i64, v); }
  Constant *null() { return llvm::ConstantPointerNull::get(ptr); }

  Constant *global(Constant *value, const llvm::Twine &name) {
    auto *g = new llvm::GlobalVariable(module, value->getType(), /*isConstant=*/true, llvm::GlobalValue::InternalLinkage, value, name);
    return g;
  }
  Constant *text(StringRef s) {
    Constant *&known = strings[s.str()];
    if (!known)
      known = global(llvm::ConstantDataArray::getString(context, s), "str");
    return known;
  }
  Constant *table(llvm::StructType *type, ArrayRef<Constant *> rows, const llvm::Twine &name) {
    if (rows.empty())
      return null();
    return global(llvm::ConstantArray::get(llvm::ArrayType::get(type, rows.size()), rows), name);
  }
  Constant *ref(rt::ViewOp view) {
    return llvm::ConstantStruct::get(types.ref, n32(uint64_t(view.getPool())), n32(0), n64(view.getOffset()));
  }

  //===-- Tables ----------------------------------------------------------===//

  Status writeKernels() {
    for (auto kernel : body().getOps<rt::KernelOp>()) {
      Constant *fn = null();
      if (where == KernelsIn::Module) {
        llvm::Function *body = module.getFunction(kernel.getSymName());
        if (!body || body->isDeclaration())
          return internalError("kernel " + kernel.getSymName().str() + " has no code in variant " + variant.str());
        fn = body;
      }
      kernelIndex[kernel.getSymName()] = unsigned(kernels.size());
      kernels.push_back(llvm::ConstantStruct::get(types.kernelDesc, text(kernel.getSymName()), text(kernel.getKey()), fn, n64(kernel.getScratch())));
    }
    return {};
  }

  void writeFields() {
    for (auto field : body().getOps<rt::FieldOp>())
      fields.push_back(llvm::ConstantStruct::get(types.fieldDesc, text(field.getName()), n32(field.getKind()), n32(uint64_t(field.getElem())),
                                                 n64(field.getOffset()), n64(field.getCount())));
  }

  void writeTaps() {
    for (auto tap : body().getOps<rt::TapPointOp>()) {
      tapIndex[tap.getName()] = unsigned(taps.size());
      taps.push_back(llvm::ConstantStruct::get(types.tapDesc, text(tap.getName()), n32(uint64_t(tap.getElem())), n32(0), n64(tap.getCols())));
    }
  }

  void writeModule() {
    SmallVector<Constant *> poolBytes(DSV3_POOL_COUNT, n64(0));
    for (auto pool : body().getOps<rt::PoolOp>())
      poolBytes[size_t(pool.getPool())] = n64(pool.getBytes());
    const llvm::DataLayout &layout = module.getDataLayout();
    SmallVector<Constant *> values{n32(host.getAbi()), n32(layout.getTypeAllocSize(types.moduleDesc)), text(host.getTarget()), text(variant)};
    for (uint64_t v : {uint64_t(programs.size()), uint64_t(kernels.size()), uint64_t(fields.size()), uint64_t(taps.size()),
                       host.getTokens(), host.getSeqs(), host.getPages(), host.getKvLayers(), host.getKvPage(), host.getKvRow(),
                       uint64_t(host.getKvElem()), uint64_t(host.getKvPageBytes())})
      values.push_back(n32(v));
    values.push_back(llvm::ConstantArray::get(llvm::ArrayType::get(i64, DSV3_POOL_COUNT), poolBytes));
    values.push_back(table(types.programDesc, programs, "programs"));
    values.push_back(table(types.kernelDesc, kernels, "kernels"));
    values.push_back(table(types.fieldDesc, fields, "fields"));
    values.push_back(table(types.tapDesc, taps, "taps"));
    Constant *desc = global(llvm::ConstantStruct::get(types.moduleDesc, values), "module_desc");

    auto *fn = llvm::Function::Create(llvm::FunctionType::get(ptr, false), llvm::GlobalValue::ExternalLinkage, "dsv3_module", module);
    llvm::IRBuilder<> b(llvm::BasicBlock::Create(context, "", fn));
    b.CreateRet(desc);
  }

  //===-- Programs --------------------------------------------------------===//

  void writeProgram(rt::ProgramOp program) {
    std::string name = program.getSymName().str();
    auto *type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), {ptr, ptr, ptr}, false);
    auto *fn = llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage, "program." + name, module);
    llvm::IRBuilder<> b(llvm::BasicBlock::Create(context, "", fn));
    api = fn->getArg(0), ctx = fn->getArg(1), step = fn->getArg(2);
    scalars.clear();
    SmallVector<Constant *> outputs;
    for (mlir::Operation &op : program.getBody().front()) {
      if (auto launch = mlir::dyn_cast<rt::LaunchRangeOp>(op))
        callRange(b, launch);
      else if (auto launch = mlir::dyn_cast<rt::LaunchGridOp>(op))
        callGrid(b, launch);
      else if (auto tap = mlir::dyn_cast<rt::TapOp>(op))
        callTap(b, tap);
      else if (auto output = mlir::dyn_cast<rt::OutputOp>(op))
        outputs.push_back(llvm::ConstantStruct::get(types.outputDesc, text(output.getName()), ref(output.getBuf().getDefiningOp<rt::ViewOp>()),
                                                    n32(uint64_t(output.getElem())), n32(0), n64(output.getCols())));
    }
    b.CreateRetVoid();
    programs.push_back(llvm::ConstantStruct::get(
        types.programDesc, text(name), n32(program.getPhase()), n32(program.getTokens()), n32(program.getSeqs()), n32(program.getQblocks()),
        n32(program.getKblocks()), n32(outputs.size()), table(types.outputDesc, outputs, name + ".outputs"), fn));
  }

  /// step->scalars[scalar], read once per program.
  llvm::Value *scalar(llvm::IRBuilder<> &b, rt::Scalar s) {
    if (s == rt::Scalar::One)
      return n64(1);
    llvm::Value *&known = scalars[unsigned(s)];
    if (!known)
      known = b.CreateLoad(i64, b.CreateConstInBoundsGEP1_64(i64, step, uint64_t(s)), rt::stringifyScalar(s));
    return known;
  }

  /// ceil(scalar / div) * mul
  llvm::Value *tiles(llvm::IRBuilder<> &b, rt::LaunchRangeOp launch) {
    if (launch.getScalar() == rt::Scalar::One)
      return n64(launch.getMul());
    llvm::Value *n = scalar(b, launch.getScalar());
    if (launch.getDiv() != 1)
      n = b.CreateUDiv(b.CreateAdd(n, n64(launch.getDiv() - 1)), n64(launch.getDiv()));
    return b.CreateMul(n, n64(launch.getMul()), "tiles");
  }

  llvm::Value *apiFunction(llvm::IRBuilder<> &b, unsigned field) { return b.CreateLoad(ptr, b.CreateStructGEP(types.hostApi, api, field)); }

  void callRange(llvm::IRBuilder<> &b, rt::LaunchRangeOp launch) {
    SmallVector<Constant *> refs;
    for (mlir::Value buf : launch.getBufs())
      refs.push_back(ref(buf.getDefiningOp<rt::ViewOp>()));
    Constant *consts = null();
    if (!launch.getConsts().empty()) {
      SmallVector<uint64_t> values(launch.getConsts().begin(), launch.getConsts().end());
      consts = global(llvm::ConstantDataArray::get(context, values), "consts");
    }
    Constant *desc = global(llvm::ConstantStruct::get(types.launch, n32(kernelIndex.lookup(launch.getKernel())), n32(refs.size()),
                                                      n32(launch.getConsts().size()), n32(0), table(types.ref, refs, "refs"), consts,
                                                      text(launch.getSite())),
                            "launch");
    auto *type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), {ptr, ptr, i64}, false);
    b.CreateCall(type, apiFunction(b, 2), {ctx, desc, tiles(b, launch)});
  }

  /// `values`, then zeros up to `count`.
  template <typename T> Constant *padded(ArrayRef<int64_t> values, unsigned count) {
    SmallVector<T> all(count, 0);
    llvm::copy(values, all.begin());
    return llvm::ConstantDataArray::get(context, all);
  }

  Constant *tensorMap(rt::TensorMapAttr map) {
    return global(llvm::ConstantStruct::get(types.tensorMap, n32(uint64_t(map.getElem())), n32(map.getDims().size()), n32(map.getSwizzle()),
                                            n32(0), padded<uint64_t>(map.getDims(), DSV3_MAP_MAX_RANK),
                                            padded<uint64_t>(map.getStrides(), DSV3_MAP_MAX_RANK - 1),
                                            padded<uint32_t>(map.getBox(), DSV3_MAP_MAX_RANK), n32(0)),
                  "map");
  }

  Constant *param(rt::LaunchGridOp launch, mlir::Attribute attr) {
    auto address = [&](int64_t index, int64_t offset) {
      auto view = launch.getBufs()[size_t(index)].getDefiningOp<rt::ViewOp>();
      return llvm::ConstantStruct::get(types.ref, n32(uint64_t(view.getPool())), n32(0), n64(view.getOffset() + offset));
    };
    Constant *none = llvm::ConstantAggregateZero::get(types.ref);
    if (auto ptr = mlir::dyn_cast<rt::PtrAttr>(attr))
      return llvm::ConstantStruct::get(types.param, n32(DSV3_PARAM_POINTER), n32(0), address(ptr.getRef(), ptr.getOffset()), null(), n64(0));
    if (auto map = mlir::dyn_cast<rt::TensorMapAttr>(attr))
      return llvm::ConstantStruct::get(types.param, n32(DSV3_PARAM_MAP), n32(0), address(map.getRef(), map.getOffset()), tensorMap(map), n64(0));
    return llvm::ConstantStruct::get(types.param, n32(DSV3_PARAM_NUMBER), n32(0), none, null(),
                                     n64(uint64_t(mlir::cast<rt::NumberAttr>(attr).getValue())));
  }

  void callGrid(llvm::IRBuilder<> &b, rt::LaunchGridOp launch) {
    SmallVector<Constant *> params;
    for (mlir::Attribute attr : launch.getParams())
      params.push_back(param(launch, attr));
    Constant *desc = global(llvm::ConstantStruct::get(types.gridLaunch, n32(kernelIndex.lookup(launch.getKernel())),
                                                      padded<uint32_t>(launch.getGrid(), 3), n32(launch.getBlock()), n32(launch.getSmem()),
                                                      n32(launch.getCluster()), n32(params.size()), table(types.param, params, "params"),
                                                      text(launch.getSite())),
                            "grid");
    auto *type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), {ptr, ptr}, false);
    b.CreateCall(type, apiFunction(b, 4), {ctx, desc});
  }

  /// The ABI passes dsv3_ref, 16 bytes of integers, in two registers.
  void callTap(llvm::IRBuilder<> &b, rt::TapOp tap) {
    auto view = tap.getBuf().getDefiningOp<rt::ViewOp>();
    auto *type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), {ptr, i32, i64, i64, i64}, false);
    b.CreateCall(type, apiFunction(b, 3),
                 {ctx, n32(tapIndex.lookup(tap.getName())), n64(uint64_t(view.getPool())), n64(view.getOffset()), scalar(b, tap.getRows())});
  }

  rt::ModuleOp host;
  StringRef variant;
  KernelsIn where;
  llvm::Module &module;
  llvm::LLVMContext &context;
  AbiTypes types;
  llvm::PointerType *ptr;
  llvm::IntegerType *i32, *i64;
  std::map<std::string, Constant *> strings;
  llvm::StringMap<unsigned> kernelIndex, tapIndex;
  SmallVector<Constant *> programs, kernels, fields, taps;
  llvm::Value *api = nullptr, *ctx = nullptr, *step = nullptr;
  std::map<unsigned, llvm::Value *> scalars;
};
} // namespace

Status addHostProgram(rt::ModuleOp host, StringRef variant, KernelsIn kernels, llvm::Module &module) {
  return Writer(host, variant, kernels, module).run();
}

} // namespace dsv3::codegen
