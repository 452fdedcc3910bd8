#include "test/codegen/x86/Buffers.h"

#include "runtime/core/DType.h"

#include <algorithm>
#include <random>

#include <sys/mman.h>

namespace dsv3::codegen::test {

static constexpr int64_t kPage = 4096;
static constexpr uint8_t kGuard = 0xa5;

const char *name(Elem e) {
  switch (e) {
  case Elem::F32: return "f32";
  case Elem::BF16: return "bf16";
  case Elem::I32: return "i32";
  case Elem::I64: return "i64";
  }
  return "?";
}

int64_t bytesOf(Elem e) { return e == Elem::BF16 ? 2 : e == Elem::I64 ? 8 : 4; }

Buffer::Buffer(int64_t bytes, uint8_t fill, int64_t align) : bytes(bytes) {
  int64_t data = (bytes + kPage - 1) / kPage * kPage + kPage, whole = data + kPage;
  void *base = mmap(nullptr, size_t(whole), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED || mprotect(static_cast<uint8_t *>(base) + data, kPage, PROT_NONE))
    std::abort(); // no memory: no test
  mapping = std::shared_ptr<void>(base, [whole](void *p) { munmap(p, size_t(whole)); });
  front = (data - bytes) / align * align;
  back = data - front - bytes;
  std::fill_n(static_cast<uint8_t *>(base), data, kGuard);
  begin = static_cast<uint8_t *>(base) + front;
  std::fill_n(begin, bytes, fill);
}

bool Buffer::intact() const {
  auto guard = [](uint8_t b) { return b == kGuard; };
  return std::all_of(begin - front, begin, guard) && std::all_of(begin + bytes, begin + bytes + back, guard);
}

Buffer Buffer::of(const Array<double> &values, Elem elem) {
  Buffer b(values.size() * bytesOf(elem));
  std::vector<float> f(values.data.begin(), values.data.end());
  if (elem == Elem::F32)
    std::memcpy(b.begin, f.data(), f.size() * 4);
  else
    convertFromFloat(DType::BF16, f.data(), f.size(), b.begin);
  return b;
}
template <typename T> static Buffer copyOf(const std::vector<T> &values) {
  Buffer b(int64_t(values.size() * sizeof(T)));
  std::memcpy(b.data(), values.data(), values.size() * sizeof(T));
  return b;
}
Buffer Buffer::of(const std::vector<int32_t> &values) { return copyOf(values); }
Buffer Buffer::of(const std::vector<int64_t> &values) { return copyOf(values); }

Array<double> Buffer::values(Shape shape, Elem elem) const {
  Array<double> a(shape);
  DType type = elem == Elem::F32 ? DType::F32 : elem == Elem::BF16 ? DType::BF16 : DType::I32;
  for (int64_t i = 0; i < a.size(); ++i)
    a.data[i] = loadAsFloat(type, begin, size_t(i));
  return a;
}

Array<double> rounded(Array<double> values, Elem elem) {
  for (double &v : values.data)
    v = roundTo(elem == Elem::F32 ? DType::F32 : DType::BF16, float(v));
  return values;
}

Array<double> randomValues(Shape shape, Elem elem, uint32_t seed, double scale) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> draw(-scale, scale);
  Array<double> a(std::move(shape));
  for (double &v : a.data)
    v = draw(engine);
  return rounded(std::move(a), elem);
}

Array<double> lanes(const Array<double> &a, int64_t at, int64_t n) {
  Shape shape = a.shape;
  shape.back() = n;
  Array<double> out(shape);
  for (int64_t r = 0; r < a.rows(); ++r)
    std::copy_n(a.row(r) + at, n, out.row(r));
  return out;
}

double rowError(const Array<double> &out, const Array<double> &ref) {
  double worst = out.shape == ref.shape ? 0 : HUGE_VAL;
  for (int64_t r = 0; r < ref.rows() && worst < HUGE_VAL; ++r) {
    double diff = 0, norm = 0;
    for (int64_t i = 0; i < ref.cols(); ++i) {
      double d = out.row(r)[i] - ref.row(r)[i];
      diff += d * d;
      norm += ref.row(r)[i] * ref.row(r)[i];
    }
    double error = diff == 0 ? 0 : std::sqrt(diff) / std::sqrt(norm);
    worst = std::isnan(error) ? HUGE_VAL : std::max(worst, error);
  }
  return worst;
}

} // namespace dsv3::codegen::test
