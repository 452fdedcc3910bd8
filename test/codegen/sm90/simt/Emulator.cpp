#include "test/codegen/sm90/simt/Emulator.h"

#include "codegen/emit/Cubin.h"
#include "runtime/core/DType.h"

#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/TargetSelect.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <mutex>

#include <sys/mman.h>
#include <ucontext.h>

using namespace mlir;

namespace dsv3::codegen::test {

namespace {

constexpr int kWarp = 32;
constexpr size_t kStack = 64 * 1024;

/// Where a thread waits for others, and what it brought.
enum class Meet { None, Block, Warp, ShuffleXor, ShuffleUp, Match, Ballot, Max, Min, Sum };

struct Thread {
  ucontext_t context;
  Meet at = Meet::None;
  bool done = false;
  uint32_t value = 0, argument = 0, result = 0;
};

/// The block that runs. Coroutines are not threads: one at a time, so plain globals do.
struct Block {
  std::vector<Thread> threads;
  ucontext_t scheduler;
  uint32_t current = 0, index = 0;
  void (*entry)(const int64_t *) = nullptr;
  const int64_t *params = nullptr;
};
Block *block = nullptr;

uint32_t meet(Meet at, uint32_t value = 0, uint32_t argument = 0) {
  Thread &me = block->threads[block->current];
  me.at = at, me.value = value, me.argument = argument;
  swapcontext(&me.context, &block->scheduler);
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

int32_t tid() { return int32_t(block->current); }
int32_t ctaid() { return int32_t(block->index); }
int32_t lanesBelow() { return int32_t((1u << (block->current % kWarp)) - 1); }
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
float exp2Fast(float x) { return flushed(std::exp2(flushed(x))); }
float log2Fast(float x) { return std::log2(flushed(x)); }
float rsqrt(float x) { return std::sqrt(1.0f / flushed(x)); }
uint16_t toE4M3Pair(float high, float low) { return uint16_t(floatToE4m3(high) << 8 | floatToE4m3(low)); }
float reciprocal(float x) { return flushed(1.0f / flushed(x)); }

const std::map<std::string, void *> &instructions() {
  static const std::map<std::string, void *> table = {
      {"llvm.nvvm.read.ptx.sreg.tid.x", (void *)tid},
      {"llvm.nvvm.read.ptx.sreg.ctaid.x", (void *)ctaid},
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
bool resolve(std::vector<Thread> &threads) {
  bool any = false;
  auto all = [&](size_t from, size_t n, Meet at) {
    return std::all_of(threads.begin() + long(from), threads.begin() + long(from + n), [&](const Thread &t) { return !t.done && t.at == at; });
  };
  for (size_t w = 0; w < threads.size(); w += kWarp)
    if (Meet at = threads[w].at; at != Meet::None && at != Meet::Block && all(w, kWarp, at)) {
      resolveWarp(&threads[w]);
      any = true;
    }
  if (all(0, threads.size(), Meet::Block)) {
    for (Thread &t : threads)
      t.at = Meet::None;
    any = true;
  }
  return any;
}

void threadMain() {
  block->entry(block->params);
  block->threads[block->current].done = true;
  setcontext(&block->scheduler);
}

/// One block to its end; false when threads wait for each other at different places.
bool runBlock(Block &state, char *stacks, bool backwards) {
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
    if (!resolve(state.threads))
      return false;
  }
}

//===-- Compilation -------------------------------------------------------===//

/// NVVM intrinsics become functions of this process; a new function @entry takes the parameters as an array.
bool adapt(llvm::Module &module, llvm::StringRef symbol) {
  for (llvm::Function &f : llvm::make_early_inc_range(module)) {
    if (f.getName().starts_with("llvm.nvvm.")) {
      if (!instructions().count(f.getName().str())) {
        ADD_FAILURE() << "not emulated: " << f.getName().str();
        return false;
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
  for (llvm::GlobalVariable &g : module.globals())
    g.setLinkage(llvm::GlobalValue::ExternalLinkage);
  llvm::Function *kernel = module.getFunction(symbol);
  if (!kernel)
    return false;
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
    return false;
  }
  return true;
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
  std::vector<std::pair<char *, size_t>> shared; // memory of a block
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
  if (!adapt(*code, symbol))
    return nullptr;
  auto impl = std::make_unique<Impl>();
  std::vector<std::pair<std::string, size_t>> globals;
  for (llvm::GlobalVariable &g : code->globals())
    globals.push_back({g.getName().str(), code->getDataLayout().getTypeAllocSize(g.getValueType())});
  llvm::orc::SymbolMap symbols;
  for (auto &[name, address] : instructions())
    symbols[(*jit)->mangleAndIntern("emulated." + name)] = {llvm::orc::ExecutorAddr::fromPtr(address), llvm::JITSymbolFlags::Exported};
  llvm::cantFail((*jit)->getMainJITDylib().define(llvm::orc::absoluteSymbols(symbols)));
  llvm::cantFail((*jit)->addIRModule(llvm::orc::ThreadSafeModule(std::move(code), std::move(context))));
  auto entry = (*jit)->lookup("entry");
  if (!check(entry))
    return nullptr;
  impl->entry = entry->toPtr<void (*)(const int64_t *)>();
  for (auto &[name, bytes] : globals)
    if (auto address = (*jit)->lookup(name); check(address))
      impl->shared.push_back({address->toPtr<char *>(), bytes});
  impl->jit = std::move(*jit);
  return std::unique_ptr<Emulator>(new Emulator(std::move(impl)));
}

void Emulator::run(int64_t blocks, int64_t threads, const std::vector<int64_t> &params, bool backwards) const {
  size_t bytes = size_t(threads) * kStack;
  void *stacks = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(stacks, MAP_FAILED);
  ASSERT_EQ(threads % kWarp, 0);
  Block state;
  state.threads.resize(size_t(threads));
  state.entry = impl->entry, state.params = params.data();
  block = &state;
  bool met = true;
  for (int64_t i = 0; i < blocks && met; ++i) {
    state.index = uint32_t(backwards ? blocks - 1 - i : i);
    for (auto [memory, size] : impl->shared)
      std::memset(memory, 0xff, size);
    met = runBlock(state, static_cast<char *>(stacks), backwards);
  }
  block = nullptr;
  munmap(stacks, bytes);
  EXPECT_TRUE(met) << "threads wait for each other at different places";
}

} // namespace dsv3::codegen::test
