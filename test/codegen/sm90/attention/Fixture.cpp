#include "test/codegen/sm90/attention/Fixture.h"

#include "codegen/sm90/lower/TilePasses.h"
#include "passes/tile/OpAccess.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"

#include <random>

using namespace mlir;

namespace dsv3::codegen {

KernelModule::KernelModule(const std::function<void(TileBuilder &)> &build) : context(MLIRContext::Threading::DISABLED) {
  context.loadDialect<tile::TileDialect, func::FuncDialect, arith::ArithDialect, math::MathDialect, scf::SCFDialect, LLVM::LLVMDialect>();
  OpBuilder b(&context);
  module = ModuleOp::create(b.getUnknownLoc());
  b.setInsertionPointToEnd(module->getBody());
  TileBuilder t(b, b.getUnknownLoc());
  build(t);
}

tile::KernelOp KernelModule::kernel() { return *module->getOps<tile::KernelOp>().begin(); }
bool KernelModule::valid() { return succeeded(verify(*module)); }

int64_t KernelModule::allocate() {
  PassManager pm(&context);
  pm.addPass(createTileAllocatePass());
  if (failed(pm.run(*module)))
    return -1;
  return kernel()->getAttrOfType<IntegerAttr>("tile.smem").getInt();
}

std::string findings(tile::KernelOp kernel, MutableArrayRef<tile::SimArgument> args, int64_t ctas, uint64_t seed) {
  tile::SimOptions options;
  options.fp8SumsAreCut = true; // held to 5e-3 all the same
  options.seed = seed;
  options.ctas = ctas;
  Result<tile::SimReport> report = tile::simulate(kernel, args, options);
  if (!report)
    return report.error().message;
  std::string text;
  for (const tile::AccessEntry &a : tile::accessesOf(kernel))
    if (a.degree > 1)
      text += std::to_string(a.degree) + "-way bank conflict of " + a.instruction + "; ";
  for (const tile::sim::Finding &f : report->findings)
    text += "C" + std::to_string(int(f.check)) + " " + f.message + "; ";
  return text;
}

Bf16::Bf16(std::vector<int64_t> shape, unsigned seed, float amplitude) : shape(std::move(shape)) {
  int64_t n = 1;
  for (int64_t d : this->shape)
    n *= d;
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, amplitude);
  data.resize(n);
  for (uint16_t &x : data)
    x = floatToBf16(normal(random));
}

uint16_t *Bf16::row(std::initializer_list<int64_t> index) {
  int64_t at = 0, dim = 0;
  for (int64_t i : index)
    at = at * shape[dim++] + i;
  for (; dim < int64_t(shape.size()); ++dim)
    at *= shape[dim];
  return data.data() + at;
}

std::vector<double> widened(const uint16_t *row, int64_t n) {
  std::vector<double> out(n);
  for (int64_t i = 0; i < n; ++i)
    out[i] = bf16ToFloat(row[i]);
  return out;
}

Attended attend(const std::vector<double> &q, int64_t n, int64_t values, const std::function<const uint16_t *(int64_t)> &key,
                const std::function<const uint16_t *(int64_t)> &value) {
  std::vector<double> score(n);
  double best = -INFINITY, sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const uint16_t *k = key(i);
    for (size_t d = 0; d < q.size(); ++d)
      score[i] += q[d] * bf16ToFloat(k[d]);
    score[i] *= kScale;
    best = std::max(best, score[i]);
  }
  Attended result;
  result.out.assign(values, 0);
  for (int64_t i = 0; i < n; ++i) {
    double p = std::exp(score[i] - best);
    sum += p;
    const uint16_t *v = value(i);
    for (int64_t d = 0; d < values; ++d)
      result.out[d] += p * bf16ToFloat(v[d]);
  }
  for (double &x : result.out)
    x /= sum;
  result.logSum = (best + std::log(sum)) * std::log2(std::exp(1.0));
  return result;
}

double relativeError(const std::vector<double> &x, const std::vector<double> &want) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += (x[i] - want[i]) * (x[i] - want[i]);
    norm += want[i] * want[i];
  }
  return std::sqrt(error / norm);
}

} // namespace dsv3::codegen
