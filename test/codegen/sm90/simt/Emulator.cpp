#include "test/codegen/sm90/simt/Emulator.h"

#include "codegen/emit/Cubin.h"
#include "runtime/core/DType.h"

#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/ReplaceConstant.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/TargetSelect.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>

#include <sys/mman.h>
#include <ucontext.h>

using namespace mlir;

namespace dsv3::codegen::test {

namespace {

constexpr int kWarp = 32;
constexpr size_t kStack = 64 * 1024;

/// Where a thread waits for others, and what it brought.
enum class Meet { None, Cluster, Block, Warp, ShuffleXor, ShuffleUp, Match, Ballot, Max, Min, Sum };

struct Thread {
  ucontext_t context;
  Meet at = Meet::None;
  bool done = false;
  uint32_t value = 0, argument = 0, result = 0;
};

/// The cluster of blocks that runs. Coroutines are not threads: one at a time, so plain globals do.
struct Cluster {
  std::vector<Thread> threads; ///< of all its blocks
  size_t perBlock = 0;         ///< threads
  std::vector<char> shared;    ///< memory of all its blocks
  size_t sharedBytes = 0;      ///< of one
  ucontext_t scheduler;
  uint32_t current = 0, firstBlock = 0;
  void (*entry)(const int64_t *) = nullptr;
  const int64_t *params = nullptr;

  uint32_t rank() const { return uint32_t(current / perBlock); }
};
Cluster *cluster = nullptr;

uint32_t meet(Meet at, uint32_t value = 0, uint32_t argument = 0) {
  Thread &me = cluster->threads[cluster->current];
  me.at = at, me.value = value, me.argument = argument;
  swapcontext(&me.context, &cluster->scheduler);
  return me.result;
}

uint32_t bitsOf(float f) {
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  return bits;
}
float floatOf(uint32_t bits) {
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}
float flushed(float f) { return std::fpclassify(f) == FP_SUBNORMAL ? std::copysign(0.0f, f) : f; }

//===-- Instructions ------------------------------------------------------===//

int32_t tid() { return int32_t(cluster->current % cluster->perBlock); }
int32_t ctaid() { return int32_t(cluster->firstBlock + cluster->rank()); }
int32_t clusterRank() { return int32_t(cluster->rank()); }
int32_t lanesBelow() { return int32_t((1u << (cluster->current % kWarp)) - 1); }
/// Where this block has the shared variable at `offset`, and where block `rank` has what this one has at `address`.
char *shared(int64_t offset) { return cluster->shared.data() + cluster->rank() * cluster->sharedBytes + size_t(offset); }
char *remote(char *address, int32_t rank) {
  return address + (int64_t(rank) - int64_t(cluster->rank())) * int64_t(cluster->sharedBytes);
}
int32_t shuffleXor(int32_t, int32_t v, int32_t mask, int32_t) { return int32_t(meet(Meet::ShuffleXor, uint32_t(v), uint32_t(mask))); }
float shuffleXorF(int32_t, float v, int32_t mask, int32_t) { return floatOf(meet(Meet::ShuffleXor, bitsOf(v), uint32_t(mask))); }
int32_t shuffleUp(int32_t, int32_t v, int32_t distance, int32_t) { return int32_t(meet(Meet::ShuffleUp, uint32_t(v), uint32_t(distance))); }
int32_t match(int32_t, int32_t v) { return int32_t(meet(Meet::Match, uint32_t(v))); }
int32_t ballot(int32_t, bool v) { return int32_t(meet(Meet::Ballot, v)); }
int32_t maxWarp(int32_t v, int32_t) { return int32_t(meet(Meet::Max, uint32_t(v))); }
int32_t minWarp(int32_t v, int32_t) { return int32_t(meet(Meet::Min, uint32_t(v))); }
int32_t sumWarp(int32_t v, int32_t) { return int32_t(meet(Meet::Sum, uint32_t(v))); }
void syncWarp(int32_t) { meet(Meet::Warp); }
void syncBlock(int32_t) { meet(Meet::Block); }
void arriveCluster() {} // all that a thread does before it waits is done by then
void waitCluster() { meet(Meet::Cluster); }
float exp2Fast(float x) { return flushed(std::exp2(flushed(x))); }
float log2Fast(float x) { return std::log2(flushed(x)); }
float rsqrt(float x) { return std::sqrt(1.0f / flushed(x)); }
uint16_t toE4M3Pair(float high, float low) { return uint16_t(floatToE4m3(high) << 8 | floatToE4m3(low)); }
uint16_t toE5M2Pair(float high, float low) { // saturates, unlike floatToE5m2
  auto code = [](float x) { return floatToE5m2(std::isnan(x) ? x : std::clamp(x, -57344.0f, 57344.0f)); };
  return uint16_t(code(high) << 8 | code(low));
}
float reciprocal(float x) { return flushed(1.0f / flushed(x)); }

const std::map<std::string, void *> &instructions() {
  static const std::map<std::string, void *> table = {
      {"llvm.nvvm.read.ptx.sreg.tid.x", (void *)tid},
      {"llvm.nvvm.read.ptx.sreg.ctaid.x", (void *)ctaid},
      {"llvm.nvvm.read.ptx.sreg.cluster.ctarank", (void *)clusterRank},
      {"llvm.nvvm.mapa.shared.cluster", (void *)remote},
      {"llvm.nvvm.barrier.cluster.arrive.aligned", (void *)arriveCluster},
      {"llvm.nvvm.barrier.cluster.wait.aligned", (void *)waitCluster},
      {"shared", (void *)shared},
      {"llvm.nvvm.read.ptx.sreg.lanemask.lt", (void *)lanesBelow},
      {"llvm.nvvm.shfl.sync.bfly.i32", (void *)shuffleXor},
      {"llvm.nvvm.shfl.sync.bfly.f32", (void *)shuffleXorF},
      {"llvm.nvvm.shfl.sync.up.i32", (void *)shuffleUp},
      {"llvm.nvvm.match.any.sync.i32", (void *)match},
      {"llvm.nvvm.vote.ballot.sync", (void *)ballot},
      {"llvm.nvvm.redux.sync.umax", (void *)maxWarp},
      {"llvm.nvvm.redux.sync.umin", (void *)minWarp},
      {"llvm.nvvm.redux.sync.add", (void *)sumWarp},
      {"llvm.nvvm.bar.warp.sync", (void *)syncWarp},
      {"llvm.nvvm.barrier.cta.sync.aligned.all", (void *)syncBlock},
      {"llvm.nvvm.ex2.approx.ftz.f32", (void *)exp2Fast},
      {"llvm.nvvm.lg2.approx.ftz.f", (void *)log2Fast},
      {"llvm.nvvm.rsqrt.approx.ftz.f", (void *)rsqrt},
      {"llvm.nvvm.ff.to.e4m3x2.rn", (void *)toE4M3Pair},
      {"llvm.nvvm.ff.to.e5m2x2.rn", (void *)toE5M2Pair},
      {"llvm.nvvm.rcp.approx.ftz.f", (void *)reciprocal},
  };
  return table;
}

//===-- Meeting points ----------------------------------------------------===//

/// Gives each of the 32 lanes, all waiting at the same place, its result.
void resolveWarp(Thread *lanes) {
  uint32_t most = 0, least = ~0u, votes = 0, sum = 0;
  for (int i = 0; i < kWarp; ++i) {
    most = std::max(most, lanes[i].value), least = std::min(least, lanes[i].value);
    votes |= (lanes[i].value ? 1u : 0u) << i, sum += lanes[i].value;
  }
  for (int i = 0; i < kWarp; ++i) {
    Thread &me = lanes[i];
    uint32_t peers = 0;
    for (int j = 0; j < kWarp; ++j)
      peers |= (lanes[j].value == me.value ? 1u : 0u) << j;
    switch (me.at) {
    case Meet::ShuffleXor: me.result = lanes[i ^ int(me.argument)].value; break;
    case Meet::ShuffleUp: me.result = i < int(me.argument) ? me.value : lanes[i - int(me.argument)].value; break;
    case Meet::Match: me.result = peers; break;
    case Meet::Ballot: me.result = votes; break;
    case Meet::Max: me.result = most; break;
    case Meet::Min: me.result = least; break;
    case Meet::Sum: me.result = sum; break;
    default: break;
    }
  }
  for (int i = 0; i < kWarp; ++i)
    lanes[i].at = Meet::None;
}

/// Lets go whoever has all partners; false when nobody can go on.
bool resolve(std::vector<Thread> &threads, size_t perBlock) {
  bool any = false;
  auto all = [&](size_t from, size_t n, Meet at) {
    return std::all_of(threads.begin() + long(from), threads.begin() + long(from + n), [&](const Thread &t) { return !t.done && t.at == at; });
  };
  for (size_t w = 0; w < threads.size(); w += kWarp)
    if (Meet at = threads[w].at; at != Meet::None && at != Meet::Block && at != Meet::Cluster && all(w, kWarp, at)) {
      resolveWarp(&threads[w]);
      any = true;
    }
  auto release = [&](size_t from, size_t n, Meet at) {
    if (!all(from, n, at))
      return;
    for (size_t i = from; i < from + n; ++i)
      threads[i].at = Meet::None;
    any = true;
  };
  for (size_t b = 0; b < threads.size(); b += perBlock)
    release(b, perBlock, Meet::Block);
  release(0, threads.size(), Meet::Cluster);
  return any;
}

void threadMain() {
  cluster->entry(cluster->params);
  cluster->threads[cluster->current].done = true;
  setcontext(&cluster->scheduler);
}

/// One cluster to its end; false when threads wait for each other at different places.
bool runCluster(Cluster &state, char *stacks, bool backwards) {
  size_t n = state.threads.size();
  for (size_t i = 0; i < n; ++i) {
    Thread &t = state.threads[i];
    t.at = Meet::None, t.done = false;
    getcontext(&t.context);
    t.context.uc_stack.ss_sp = stacks + i * kStack;
    t.context.uc_stack.ss_size = kStack;
    t.context.uc_link = nullptr;
    makecontext(&t.context, threadMain, 0);
  }
  for (;;) {
    bool left = false;
    for (size_t i = 0; i < n; ++i) {
      state.current = uint32_t(backwards ? n - 1 - i : i);
      Thread &t = state.threads[state.current];
      if (!t.done && t.at == Meet::None)
        swapcontext(&state.scheduler, &t.context);
      left |= !t.done;
    }
    if (!left)
      return true;
    if (!resolve(state.threads, state.perBlock))
      return false;
  }
}

//===-- Compilation -------------------------------------------------------===//

/// Shared variables are found by a call on entry, since each block has its own. Returns the bytes of all.
size_t moveShared(llvm::Module &module, llvm::Function &kernel) {
  llvm::SmallVector<llvm::Constant *> globals;
  for (llvm::GlobalVariable &g : module.globals())
    globals.push_back(&g);
  llvm::convertUsersOfConstantsToInstructions(globals);
  size_t bytes = 0;
  llvm::IRBuilder<> b(&*kernel.getEntryBlock().getFirstInsertionPt());
  for (llvm::GlobalVariable &g : llvm::make_early_inc_range(module.globals())) {
    llvm::FunctionCallee find = module.getOrInsertFunction("emulated.shared", llvm::FunctionType::get(g.getType(), {b.getInt64Ty()}, false));
    bytes = llvm::alignTo(bytes, 16);
    g.replaceAllUsesWith(b.CreateCall(find, b.getInt64(bytes)));
    bytes += module.getDataLayout().getTypeAllocSize(g.getValueType());
    g.eraseFromParent();
  }
  return llvm::alignTo(bytes, 16);
}

/// NVVM intrinsics become functions of this process; a new function @entry takes the parameters as an array. Returns the
/// bytes of shared memory, or nothing when that fails.
std::optional<size_t> adapt(llvm::Module &module, llvm::StringRef symbol) {
  for (llvm::Function &f : llvm::make_early_inc_range(module)) {
    if (f.getName().starts_with("llvm.nvvm.")) {
      if (!instructions().count(f.getName().str())) {
        ADD_FAILURE() << "not emulated: " << f.getName().str();
        return std::nullopt;
      }
      auto *plain = llvm::Function::Create(f.getFunctionType(), llvm::GlobalValue::ExternalLinkage, "emulated." + f.getName(), &module);
      for (llvm::User *user : f.users())
        llvm::cast<llvm::CallInst>(user)->setAttributes({});
      f.replaceAllUsesWith(plain);
      f.eraseFromParent();
    } else if (!f.isDeclaration()) {
      f.setCallingConv(llvm::CallingConv::C);
    }
  }
  llvm::Function *kernel = module.getFunction(symbol);
  if (!kernel)
    return std::nullopt;
  size_t shared = moveShared(module, *kernel);
  llvm::LLVMContext &c = module.getContext();
  llvm::Type *i64 = llvm::Type::getInt64Ty(c);
  auto *type = llvm::FunctionType::get(llvm::Type::getVoidTy(c), {llvm::PointerType::get(c, 0)}, false);
  auto *entry = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, "entry", &module);
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(c, "", entry));
  llvm::SmallVector<llvm::Value *> args;
  for (llvm::Argument &a : kernel->args()) {
    llvm::Value *word = b.CreateLoad(i64, b.CreateConstGEP1_32(i64, entry->getArg(0), a.getArgNo()));
    args.push_back(a.getType()->isPointerTy() ? b.CreateIntToPtr(word, a.getType()) : word);
  }
  b.CreateCall(kernel, args);
  b.CreateRetVoid();
  std::string why;
  llvm::raw_string_ostream os(why);
  if (llvm::verifyModule(module, &os)) {
    ADD_FAILURE() << why;
    return std::nullopt;
  }
  return shared;
}

template <typename T> bool check(llvm::Expected<T> &value) {
  if (value)
    return true;
  ADD_FAILURE() << llvm::toString(value.takeError());
  return false;
}

} // namespace

struct Emulator::Impl {
  std::unique_ptr<llvm::orc::LLJIT> jit;
  void (*entry)(const int64_t *) = nullptr;
  size_t shared = 0; ///< bytes of a block
};

Emulator::Emulator(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Emulator::~Emulator() = default;

std::unique_ptr<Emulator> Emulator::create(Operation *module, StringRef symbol) {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
  Result<OwningOpRef<ModuleOp>> lowered = lowerDevice(module);
  if (!lowered) {
    ADD_FAILURE() << lowered.error().message;
    return nullptr;
  }
  auto context = std::make_unique<llvm::LLVMContext>();
  std::unique_ptr<llvm::Module> code = translateModuleToLLVMIR(**lowered, *context, "emulated");
  auto jit = llvm::orc::LLJITBuilder().create();
  if (!code || !check(jit))
    return nullptr;
  code->setTargetTriple((*jit)->getTargetTriple());
  code->setDataLayout((*jit)->getDataLayout());
  std::optional<size_t> shared = adapt(*code, symbol);
  if (!shared)
    return nullptr;
  auto impl = std::make_unique<Impl>();
  impl->shared = *shared;
  llvm::orc::SymbolMap symbols;
  for (auto &[name, address] : instructions())
    symbols[(*jit)->mangleAndIntern("emulated." + name)] = {llvm::orc::ExecutorAddr::fromPtr(address), llvm::JITSymbolFlags::Exported};
  llvm::cantFail((*jit)->getMainJITDylib().define(llvm::orc::absoluteSymbols(symbols)));
  llvm::cantFail((*jit)->addIRModule(llvm::orc::ThreadSafeModule(std::move(code), std::move(context))));
  auto entry = (*jit)->lookup("entry");
  if (!check(entry))
    return nullptr;
  impl->entry = entry->toPtr<void (*)(const int64_t *)>();
  impl->jit = std::move(*jit);
  return std::unique_ptr<Emulator>(new Emulator(std::move(impl)));
}

void Emulator::run(int64_t blocks, int64_t threads, int64_t blocksOfCluster, const std::vector<int64_t> &params, bool backwards) const {
  size_t all = size_t(threads * blocksOfCluster), bytes = all * kStack;
  void *stacks = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(stacks, MAP_FAILED);
  ASSERT_EQ(threads % kWarp, 0);
  ASSERT_EQ(blocks % blocksOfCluster, 0);
  Cluster state;
  state.threads.resize(all);
  state.perBlock = size_t(threads);
  state.sharedBytes = impl->shared;
  state.entry = impl->entry, state.params = params.data();
  cluster = &state;
  bool met = true;
  for (int64_t i = 0; i < blocks && met; i += blocksOfCluster) {
    state.firstBlock = uint32_t(backwards ? blocks - blocksOfCluster - i : i);
    state.shared.assign(state.sharedBytes * size_t(blocksOfCluster), char(0xff));
    met = runCluster(state, static_cast<char *>(stacks), backwards);
  }
  cluster = nullptr;
  munmap(stacks, bytes);
  EXPECT_TRUE(met) << "threads wait for each other at different places";
}

} // namespace dsv3::codegen::test
