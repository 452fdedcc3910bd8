// The engines that finish late: copies, tensor cores, bulk stores.
#include "passes/tile/sim/Machine.h"
#include "passes/tile/sim/Numbers.h"

#include <functional>
#include <numeric>

using namespace mlir;

namespace dsv3::tile::sim {
namespace {

/// [rows][k] of an operand that is given as pieces along k; pieces of B in form `nn` are [k][rows].
std::vector<float> gather(Machine &m, llvm::ArrayRef<Buffer> pieces, bool kFirst, int64_t &rows, int64_t &depth) {
  rows = pieces.front().type.getShape()[kFirst ? 1 : 0];
  depth = 0;
  for (const Buffer &b : pieces)
    depth += b.type.getShape()[kFirst ? 0 : 1];
  std::vector<float> out(rows * depth);
  int64_t k0 = 0;
  for (const Buffer &b : pieces) {
    const std::vector<double> data = readNumbers(m, b);
    const int64_t d = b.type.getShape()[kFirst ? 0 : 1];
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t k = 0; k < d; ++k)
        out[r * depth + k0 + k] = float(kFirst ? data[k * rows + r] : data[r * d + k]);
    k0 += d;
  }
  return out;
}

/// Of two factors, exactly.
struct Product {
  double operator()(float x, float y) const { return double(x) * y; }
};

} // namespace

std::vector<double> readNumbers(Machine &m, const Buffer &buffer) {
  const std::vector<int64_t> &bits = m.tables.bits(buffer.type);
  std::vector<double> out;
  out.reserve(bits.size());
  for (int64_t bit : bits)
    out.push_back(decode(buffer.type.getElement(), m.memory.data() + buffer.byte, bit));
  return out;
}

void Machine::land(size_t index) {
  CopyJob job = std::move(copies[index]);
  copies.erase(copies.begin() + int64_t(index));
  for (auto [bit, value] : job.elements)
    encode(job.element, value, memory.data(), bit);
  job.barrier->land(job.bytes, job.done);
}

void Machine::multiply(Agent &agent) {
  std::shared_ptr<MmaJob> job = mmas[agent.index].front();
  mmas[agent.index].pop_front();
  int64_t rows = 64, depth = 0, cols = 0;
  std::vector<float> a;
  if (job->registersA) {
    depth = job->registersA->shape[1];
    a.assign(job->registersA->data->begin(), job->registersA->data->end());
  } else {
    a = gather(*this, job->a, false, rows, depth);
  }
  const std::vector<float> b = gather(*this, job->b, job->op.getForm() == Form::Nn, cols, depth);
  Type element = cast<AccType>(job->op.getResult().getType()).getElement();
  std::vector<double> d(rows * cols);
  if (job->before)
    d = *job->before->result.data;
  else if (job->initial)
    d = *job->initial->data;
  // One instruction multiplies 32 bytes of K and rounds once: how many of them an op stands for changes no bits.
  const int64_t step = 256 / job->b.front().type.getElementBits();
  const bool cut = options.fp8SumsAreCut && step == 32 && isa<FloatType>(job->b.front().type.getElement());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) {
      double sum = d[r * cols + c];
      for (int64_t k = 0; k < depth; k += step) {
        const float *x = &a[r * depth + k], *y = &b[c * depth + k];
        const int64_t count = std::min(step, depth - k);
        sum = rounded(element, cut ? addFp8Products(sum, x, y, count) : std::inner_product(x, x + count, y, sum, std::plus<>(), Product()));
      }
      d[r * cols + c] = sum;
    }
  job->result = {{rows, cols}, std::make_shared<const std::vector<double>>(std::move(d))};
  job->before = nullptr; // keeps no chain of results alive
  job->done = true;
}

void Machine::drain(Agent &agent) {
  std::shared_ptr<PutJob> job = puts[agent.index].front();
  puts[agent.index].pop_front();
  const std::vector<double> data = readNumbers(*this, job->source);
  SimArgument &target = args[job->target];
  // Leading dims that the buffer lacks have extent 1; what lies beyond the edges is not written.
  std::vector<int64_t> shape(target.shape.size() - job->source.type.getShape().size(), 1);
  llvm::append_range(shape, job->source.type.getShape());
  std::vector<int64_t> coord(shape.size());
  const int64_t width = job->source.type.getElementBits();
  int64_t i = 0;
  do {
    int64_t index = 0;
    bool inside = true;
    for (size_t d = 0; d < shape.size(); ++d) {
      const int64_t at = job->at[d] + coord[d];
      inside &= at >= 0 && at < target.shape[d];
      index = index * target.shape[d] + at;
    }
    if (inside)
      encode(job->source.type.getElement(), data[i], target.data, index * width);
    ++i;
  } while (step(coord, shape));
  job->done = true;
}

} // namespace dsv3::tile::sim
