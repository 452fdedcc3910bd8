#include "codegen/sm90/lower/Ptx.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace dsv3::codegen {

namespace {

/// The constraint letter of an operand.
char letter(Type type) {
  if (type.isF32())
    return 'f';
  if (type.isInteger(64) || isa<LLVM::LLVMPointerType>(type))
    return 'l';
  if (type.isInteger(16))
    return 'h';
  return type.isInteger(1) ? 'b' : 'r';
}

/// "r,l,f" for operands.
std::string letters(ValueRange values) {
  std::string out;
  for (Value v : values)
    out += std::string(out.empty() ? "" : ",") + letter(v.getType());
  return out;
}

/// "$3, $4, $5": operands `first` and on.
std::string operandList(size_t first, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i)
    out += (i ? ", $" : "$") + std::to_string(first + i);
  return out;
}

std::string at(size_t operand, int64_t offset) {
  return "[$" + std::to_string(operand) + (offset ? "+" + std::to_string(offset) : "") + "]";
}

std::string vectorSuffix(size_t words) { return words == 1 ? "" : ".v" + std::to_string(words); }

std::string braced(size_t first, size_t count) {
  return count == 1 ? "$" + std::to_string(first) : "{" + operandList(first, count) + "}";
}

std::string repeated(llvm::StringRef constraint, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i)
    out += (i ? "," : "") + constraint.str();
  return out;
}

std::string joined(std::initializer_list<std::string> parts) {
  std::string out;
  for (const std::string &part : parts)
    if (!part.empty())
      out += (out.empty() ? "" : ",") + part;
  return out;
}

std::optional<int64_t> constantOf(Value v) {
  APInt value;
  if (v && matchPattern(v, m_ConstantInt(&value)))
    return value.getSExtValue();
  return std::nullopt;
}

} // namespace

// Plumbing

Regs Ptx::ptx(llvm::StringRef text, llvm::StringRef constraints, TypeRange results, ValueRange operands, bool effects, bool memory) {
  std::string all = joined({constraints.str(), memory ? "~{memory}" : ""});
  Type type = results.empty()     ? Type()
              : results.size() == 1 ? results.front()
                                    : Type(LLVM::LLVMStructType::getLiteral(b.getContext(), llvm::to_vector(results)));
  auto dialect = LLVM::AsmDialectAttr::get(b.getContext(), LLVM::AsmDialect::AD_ATT);
  auto op = LLVM::InlineAsmOp::create(b, loc, type ? TypeRange(type) : TypeRange(), operands, text, all, effects, /*is_align_stack=*/false,
                                      LLVM::TailCallKind::None, dialect, /*operand_attrs=*/ArrayAttr());
  Regs out;
  if (results.size() == 1)
    out.push_back(op.getResult(0));
  for (size_t i = 0; results.size() > 1 && i < results.size(); ++i)
    out.push_back(LLVM::ExtractValueOp::create(b, loc, op.getResult(0), static_cast<int64_t>(i)));
  return out;
}

Value Ptx::intrinsic(llvm::StringRef name, Type type, ValueRange args) {
  return LLVM::CallIntrinsicOp::create(b, loc, type, b.getStringAttr(("llvm.nvvm." + name).str()), args).getResult(0);
}

void Ptx::intrinsic(llvm::StringRef name, ValueRange args) {
  LLVM::CallIntrinsicOp::create(b, loc, b.getStringAttr(("llvm.nvvm." + name).str()), args);
}

// Constants and arithmetic

Value Ptx::i1(bool v) { return arith::ConstantOp::create(b, loc, b.getBoolAttr(v)); }
Value Ptx::i32(int64_t v) { return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(static_cast<int32_t>(v))); }
Value Ptx::i64(int64_t v) { return arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(v)); }
Value Ptx::f32(double v) { return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(static_cast<float>(v))); }
Value Ptx::add(Value x, Value y) {
  if (auto cy = constantOf(y))
    return add(x, *cy);
  if (auto cx = constantOf(x); cx && *cx == 0)
    return y;
  return arith::AddIOp::create(b, loc, x, y);
}
Value Ptx::add(Value x, int64_t y) {
  if (y == 0)
    return x;
  bool wide = x.getType().isInteger(64);
  if (auto c = constantOf(x))
    return wide ? i64(*c + y) : i32(*c + y);
  return arith::AddIOp::create(b, loc, x, wide ? i64(y) : i32(y));
}
Value Ptx::mul(Value x, int64_t y) {
  if (auto c = constantOf(x))
    return i32(*c * y);
  return y == 1 ? x : Value(arith::MulIOp::create(b, loc, x, i32(y)));
}
Value Ptx::bitAnd(Value x, int64_t y) {
  if (auto c = constantOf(x))
    return i32(*c & y);
  return arith::AndIOp::create(b, loc, x, i32(y));
}
Value Ptx::bitXor(Value x, Value y) { return arith::XOrIOp::create(b, loc, x, y); }
Value Ptx::shl(Value x, int64_t y) {
  if (auto c = constantOf(x))
    return i32(*c << y);
  return y == 0 ? x : Value(arith::ShLIOp::create(b, loc, x, i32(y)));
}
Value Ptx::shr(Value x, int64_t y) {
  if (auto c = constantOf(x))
    return i32(static_cast<uint32_t>(*c) >> y);
  return y == 0 ? x : Value(arith::ShRUIOp::create(b, loc, x, i32(y)));
}
Value Ptx::equal(Value x, int64_t y) { return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, x, i32(y)); }
Value Ptx::bitcast(Value x, Type type) { return x.getType() == type ? x : Value(LLVM::BitcastOp::create(b, loc, type, x)); }

// Threads

Value Ptx::special(llvm::StringRef name) { return intrinsic(("read.ptx.sreg." + name).str(), b.getI32Type(), {}); }
Value Ptx::uniform(Value x) { return intrinsic("shfl.sync.idx.i32", b.getI32Type(), {i32(-1), x, i32(0), i32(31)}); }
Value Ptx::elect() {
  Type pair = LLVM::LLVMStructType::getLiteral(b.getContext(), {b.getI32Type(), b.getI1Type()});
  return LLVM::ExtractValueOp::create(b, loc, intrinsic("elect.sync", pair, {i32(-1)}), int64_t(1));
}
Value Ptx::any(Value x) { return intrinsic("vote.any.sync", b.getI1Type(), {i32(-1), x}); }
Value Ptx::shuffleXor(Value x, int64_t mask) {
  bool isFloat = x.getType().isF32();
  return intrinsic(isFloat ? "shfl.sync.bfly.f32" : "shfl.sync.bfly.i32", x.getType(), {i32(-1), x, i32(mask), i32(31)});
}
Value Ptx::shuffleUp(Value x, int64_t lanes) { return intrinsic("shfl.sync.up.i32", b.getI32Type(), {i32(-1), x, i32(lanes), i32(0)}); }
Value Ptx::lastLane(Value x) { return intrinsic("shfl.sync.idx.i32", b.getI32Type(), {i32(-1), x, i32(31), i32(31)}); }
void Ptx::setMaxRegisters(int64_t registers, bool increase) {
  ptx(std::string("setmaxnreg.") + (increase ? "inc" : "dec") + ".sync.aligned.u32 " + std::to_string(registers) + ";", "", {}, {});
}
void Ptx::barrierAll() { intrinsic("barrier.cta.sync.aligned.all", {i32(0)}); }
void Ptx::barrierSync(Value id, int64_t threads) { intrinsic("barrier.cta.sync.aligned.count", {id, i32(threads)}); }
void Ptx::barrierArrive(Value id, int64_t threads) { intrinsic("barrier.cta.arrive.aligned.count", {id, i32(threads)}); }
void Ptx::warpSync() { intrinsic("bar.warp.sync", {i32(-1)}); }
void Ptx::clusterSync() {
  intrinsic("barrier.cluster.arrive.aligned", {});
  intrinsic("barrier.cluster.wait.aligned", {});
}
void Ptx::clusterSyncRelaxed() {
  intrinsic("barrier.cluster.arrive.relaxed.aligned", {});
  intrinsic("barrier.cluster.wait.aligned", {});
}
void Ptx::launchDependents() { ptx("griddepcontrol.launch_dependents;", "", {}, {}); }
void Ptx::waitForDependencies() { ptx("griddepcontrol.wait;", "", {}, {}); }

// mbarriers

void Ptx::mbarrierInit(Value bar, int64_t arrivals) { ptx("mbarrier.init.shared.b64 [$0], " + std::to_string(arrivals) + ";", "r", {}, bar); }
void Ptx::mbarrierInitFence() { ptx("fence.mbarrier_init.release.cluster;", "", {}, {}); }
void Ptx::mbarrierWait(Value bar, Value parity) {
  // The time is a hint for how long the hardware may suspend the thread, in ns.
  ptx("{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared.b64 p, [$0], $1, 10000000; @p bra.uni DONE; bra.uni AGAIN; DONE: }", "r,r", {},
      {bar, parity});
}
void Ptx::mbarrierArrive(Value bar, Value predicate) { ptx("{ .reg .b64 t; @$1 mbarrier.arrive.shared.b64 t, [$0]; }", "r,b", {}, {bar, predicate}); }
void Ptx::mbarrierArriveRemote(Value bar, Value rank, Value predicate) {
  ptx("{ .reg .b32 a; mapa.shared::cluster.u32 a, $0, $1; @$2 mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [a]; }", "r,r,b", {},
      {bar, rank, predicate});
}
void Ptx::mbarrierWaitCluster(Value bar, Value parity) {
  ptx("{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [$0], $1, 10000000; @p bra.uni DONE; bra.uni AGAIN; DONE: }",
      "r,r", {}, {bar, parity});
}
void Ptx::mbarrierExpect(Value bar, Value bytes, Value predicate) {
  Regs operands = {bar, bytes};
  if (predicate)
    operands.push_back(predicate);
  ptx(std::string("{ .reg .b64 t; ") + (predicate ? "@$2 " : "") + "mbarrier.arrive.expect_tx.shared.b64 t, [$0], $1; }", predicate ? "r,r,b" : "r,r", {}, operands);
}
void Ptx::mbarrierAddBytes(Value bar, Value bytes) { ptx("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [$0], $1;", "r,r", {}, {bar, bytes}); }

// Bulk copies

void Ptx::prefetchMap(Value map) { ptx("prefetch.tensormap [$0];", "l", {}, map); }

void Ptx::tmaLoad(Value smem, Value map, ValueRange coords, Value bar, L2Policy policy, Value multicast) {
  bool hint = policy != L2Policy::Normal;
  std::string text = "cp.async.bulk.tensor." + std::to_string(coords.size()) + "d.shared::" + (multicast ? "cluster" : "cta") +
                     ".global.mbarrier::complete_tx::bytes" + (multicast ? ".multicast::cluster" : "") + (hint ? ".L2::cache_hint" : "") +
                     " [$0], [$1, {" + operandList(3, coords.size()) + "}], [$2]";
  Regs operands = {smem, map, bar};
  operands.append(coords.begin(), coords.end());
  for (Value extra : {multicast, hint ? i64(static_cast<int64_t>(policy)) : Value()})
    if (extra) {
      text += ", $" + std::to_string(operands.size());
      operands.push_back(extra);
    }
  ptx(text + ";", letters(operands), {}, operands);
}

void Ptx::bulkLoad(Value smem, Value global, Value bytes, Value bar, L2Policy policy) {
  bool hint = policy != L2Policy::Normal;
  Regs operands = {smem, global, bytes, bar};
  if (hint)
    operands.push_back(i64(static_cast<int64_t>(policy)));
  ptx(std::string("cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes") + (hint ? ".L2::cache_hint" : "") + " [$0], [$1], $2, [$3]" +
          (hint ? ", $4;" : ";"),
      letters(operands), {}, operands);
}

void Ptx::copyAsync(Value smem, int64_t offset, Value global, int64_t globalOffset, Value bytes, Value predicate) {
  Regs operands = {smem, global, bytes};
  if (predicate)
    operands.push_back(predicate);
  ptx(std::string(predicate ? "@$3 " : "") + "cp.async.cg.shared.global.L2::128B " + at(0, offset) + ", " + at(1, globalOffset) + ", 16, $2;",
      letters(operands), {}, operands);
}
void Ptx::copyAsyncArrive(Value bar) { ptx("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [$0];", "r", {}, bar); }

void Ptx::tmaStore(Value map, ValueRange coords, Value smem, Value predicate) {
  Regs operands = {map, smem, predicate};
  operands.append(coords.begin(), coords.end());
  ptx("@$2 cp.async.bulk.tensor." + std::to_string(coords.size()) + "d.global.shared::cta.bulk_group [$0, {" + operandList(3, coords.size()) +
          "}], [$1];",
      letters(operands), {}, operands);
}
void Ptx::bulkCommit(Value predicate) { ptx("@$0 cp.async.bulk.commit_group;", "b", {}, predicate); }
void Ptx::bulkWait(int64_t pending, bool readsOnly, Value predicate) {
  ptx(std::string("@$0 cp.async.bulk.wait_group") + (readsOnly ? ".read " : " ") + std::to_string(pending) + ";", "b", {}, predicate);
}

// Fences

void Ptx::fenceProxyAsync() { ptx("fence.proxy.async.shared::cta;", "", {}, {}); }
void Ptx::wgmmaFence() { ptx("wgmma.fence.sync.aligned;", "", {}, {}); }
void Ptx::wgmmaCommit() { ptx("wgmma.commit_group.sync.aligned;", "", {}, {}); }
void Ptx::passThrough(llvm::StringRef text, MutableArrayRef<Value> values, bool memory) {
  SmallVector<Type> types;
  std::string outputs, inputs;
  for (auto [i, v] : llvm::enumerate(values)) {
    types.push_back(v.getType());
    outputs += std::string(i ? ",=" : "=") + letter(v.getType());
    inputs += (i ? "," : "") + std::to_string(i);
  }
  Regs out = ptx(text, joined({outputs, inputs}), types, ValueRange(values), /*effects=*/true, memory);
  llvm::copy(out, values.begin());
}
void Ptx::wgmmaWait(int64_t pending, MutableArrayRef<Value> values) {
  passThrough("wgmma.wait_group.sync.aligned " + std::to_string(pending) + ";", values, /*memory=*/true);
}
void Ptx::pin(MutableArrayRef<Value> values) {
  if (!values.empty())
    passThrough("", values, /*memory=*/false);
}
void Ptx::marker(llvm::StringRef text) { ptx(("// " + text).str(), "", {}, {}, /*effects=*/true, /*memory=*/false); }

// wgmma

Value Ptx::descriptor(Value smem, uint64_t bits) {
  Value field = shr(bitAnd(smem, 0x3ffff), 4);
  Value wide = arith::ExtUIOp::create(b, loc, b.getI64Type(), field);
  return arith::OrIOp::create(b, loc, wide, i64(static_cast<int64_t>(bits)));
}
Value Ptx::opaque(Value x) { return ptx("mov.b64 $0, $1;", "=l,l", x.getType(), x, /*effects=*/true, /*memory=*/false)[0]; }

Regs Ptx::wgmma(const Wgmma &w, ValueRange a, Value bDesc, ValueRange acc, Value scaleD) {
  const size_t n = w.registers();
  const bool integer = w.type == Wgmma::Type::S8, fresh = acc.empty();
  const llvm::StringRef types = integer ? "s32.s8.s8" : w.type == Wgmma::Type::BF16 ? "f32.bf16.bf16" : w.type == Wgmma::Type::F16 ? "f32.f16.f16" : w.e5m2B ? "f32.e4m3.e5m2" : "f32.e4m3.e4m3";
  const std::string reg = integer ? "r" : "f";
  const size_t firstA = fresh ? n : 2 * n, descriptor = firstA + a.size(), predicate = descriptor + 1;
  std::string text = "wgmma.mma_async.sync.aligned.m64n" + std::to_string(w.n) + "k" + std::to_string(w.k()) + "." + types.str() + " {" +
                     operandList(0, n) + "}, " + (a.size() == 1 ? operandList(firstA, 1) : braced(firstA, 4)) + ", $" + std::to_string(descriptor);
  Regs operands(acc.begin(), acc.end());
  operands.append(a.begin(), a.end());
  operands.push_back(bDesc);
  if (scaleD && !fresh) {
    text += ", $" + std::to_string(predicate);
    operands.push_back(scaleD);
  } else {
    text = "{ .reg .pred p; setp.ne.b32 p, " + std::string(fresh ? "0" : "1") + ", 0; " + text + ", p";
  }
  text += integer ? "" : ", 1, 1";
  if (w.is16()) // A in shared memory has a transpose bit too, which no kernel needs
    text += std::string(a.size() == 1 ? ", 0" : "") + (w.transposeB ? ", 1" : ", 0");
  text += scaleD && !fresh ? ";" : "; }";
  std::string tied;
  for (size_t i = 0; !fresh && i < n; ++i)
    tied += (i ? "," : "") + std::to_string(i);
  // A fresh accumulator is written while A is still being read.
  std::string constraints = joined({repeated((fresh ? "=&" : "=") + reg, n), tied, letters(ValueRange(operands).drop_front(fresh ? 0 : n))});
  SmallVector<Type> results(n, integer ? Type(b.getI32Type()) : Type(b.getF32Type()));
  return ptx(text, constraints, results, operands);
}

Regs Ptx::wgmmaSS(const Wgmma &w, Value a, Value bDesc, ValueRange acc, Value scaleD) { return wgmma(w, a, bDesc, acc, scaleD); }
Regs Ptx::wgmmaRS(const Wgmma &w, ValueRange a, Value bDesc, ValueRange acc, Value scaleD) { return wgmma(w, a, bDesc, acc, scaleD); }

// Shared memory

Regs Ptx::ldShared(Value smem, int64_t offset, int64_t words) {
  SmallVector<Type> types(words, b.getI32Type());
  return ptx("ld.shared" + vectorSuffix(words) + ".b32 " + braced(0, words) + ", " + at(words, offset) + ";", repeated("=r", words) + ",r", types, smem);
}
Value Ptx::mapRemote(Value smem, int64_t rank) {
  return ptx("mapa.shared::cluster.u32 $0, $1, " + std::to_string(rank) + ";", "=r,r", {b.getI32Type()}, smem)[0];
}
void Ptx::stAsync(Value remote, int64_t offset, ValueRange words, Value remoteBar) {
  Regs operands = {remote};
  operands.append(words.begin(), words.end());
  operands.push_back(remoteBar);
  ptx("st.async.shared::cluster.mbarrier::complete_tx::bytes" + vectorSuffix(words.size()) + ".b32 " + at(0, offset) + ", " + braced(1, words.size()) +
          ", [$" + std::to_string(operands.size() - 1) + "];",
      letters(operands), {}, operands);
}
void Ptx::stShared(Value smem, int64_t offset, ValueRange words, Value predicate) {
  Regs operands = {smem};
  operands.append(words.begin(), words.end());
  std::string guard = predicate ? "@$" + std::to_string(operands.size()) + " " : "";
  if (predicate)
    operands.push_back(predicate);
  ptx(guard + "st.shared" + vectorSuffix(words.size()) + ".b32 " + at(0, offset) + ", " + braced(1, words.size()) + ";", letters(operands), {}, operands);
}
Value Ptx::ldShared16(Value smem, int64_t offset) {
  return ptx("{ .reg .b16 h; ld.shared.b16 h, " + at(1, offset) + "; cvt.u32.u16 $0, h; }", "=r,r", b.getI32Type(), smem)[0];
}
Value Ptx::ldShared8(Value smem, int64_t offset) { return ptx("ld.shared.u8 $0, " + at(1, offset) + ";", "=r,r", b.getI32Type(), smem)[0]; }
void Ptx::stShared16(Value smem, int64_t offset, Value word) {
  ptx("{ .reg .b16 h; cvt.u16.u32 h, $1; st.shared.b16 " + at(0, offset) + ", h; }", "r,r", {}, {smem, word});
}
void Ptx::stShared8(Value smem, int64_t offset, Value word) { ptx("st.shared.u8 " + at(0, offset) + ", $1;", "r,r", {}, {smem, word}); }

Regs Ptx::ldMatrix(Value smem, int64_t offset, int64_t count, bool transpose) {
  SmallVector<Type> types(count, b.getI32Type());
  return ptx("ldmatrix.sync.aligned.m8n8.x" + std::to_string(count) + (transpose ? ".trans" : "") + ".shared.b16 {" + operandList(0, count) + "}, " +
                 at(count, offset) + ";",
             repeated("=r", count) + ",r", types, smem);
}
void Ptx::stMatrix(Value smem, int64_t offset, ValueRange words, bool transpose) {
  Regs operands = {smem};
  operands.append(words.begin(), words.end());
  ptx("stmatrix.sync.aligned.m8n8.x" + std::to_string(words.size()) + (transpose ? ".trans" : "") + ".shared.b16 " + at(0, offset) + ", {" +
          operandList(1, words.size()) + "};",
      letters(operands), {}, operands);
}

// Global memory

Regs Ptx::ldGlobal(Value address, int64_t offset, int64_t words, Value predicate) {
  SmallVector<Type> types(words, b.getI32Type());
  std::string load = "ld.global.nc" + vectorSuffix(words) + ".b32 " + braced(0, words) + ", " + at(words, offset) + ";";
  if (!predicate)
    return ptx(load, repeated("=r", words) + ",l", types, address, /*effects=*/true, /*memory=*/false);
  std::string zeros;
  for (int64_t i = 0; i < words; ++i)
    zeros += "mov.b32 $" + std::to_string(i) + ", 0; ";
  // The results are written before the address is read.
  return ptx(zeros + "@$" + std::to_string(words + 1) + " " + load, repeated("=&r", words) + ",l,b", types, {address, predicate}, /*effects=*/true,
             /*memory=*/false);
}
void Ptx::prefetchGlobal(Value address) { ptx("prefetch.global.L1 [$0];", "l", {}, address, /*effects=*/true, /*memory=*/false); }
Value Ptx::ldGlobalNarrow(Value address, int64_t offset, int64_t bytes, Value predicate) {
  std::string load = "ld.global.nc." + std::string(bytes == 1 ? "u8" : "u16") + " h, " + at(1, offset) + "; cvt.u32.u16 $0, h; }";
  if (!predicate)
    return ptx("{ .reg .b16 h; " + load, "=r,l", b.getI32Type(), address, true, false)[0];
  return ptx("{ .reg .b16 h; mov.b16 h, 0; @$2 " + load, "=r,l,b", b.getI32Type(), {address, predicate}, true, false)[0];
}
void Ptx::stGlobal(Value address, int64_t offset, ValueRange words, Value predicate) {
  Regs operands = {address};
  operands.append(words.begin(), words.end());
  std::string guard = predicate ? "@$" + std::to_string(operands.size()) + " " : "";
  if (predicate)
    operands.push_back(predicate);
  ptx(guard + "st.global" + vectorSuffix(words.size()) + ".b32 " + at(0, offset) + ", " + braced(1, words.size()) + ";", letters(operands), {}, operands);
}
void Ptx::stGlobalNarrow(Value address, int64_t offset, Value word, int64_t bytes, Value predicate) {
  Regs operands = {address, word};
  if (predicate)
    operands.push_back(predicate);
  ptx("{ .reg .b16 h; cvt.u16.u32 h, $1; " + std::string(predicate ? "@$2 " : "") + "st.global." + (bytes == 1 ? "u8" : "u16") + " " + at(0, offset) + ", h; }",
      letters(operands), {}, operands);
}

} // namespace dsv3::codegen
