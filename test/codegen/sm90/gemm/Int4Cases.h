// Products with int4 weights to test: what they are, real numbers for them, and the reference's results.
#pragma once

#include "test/codegen/sm90/gemm/GemmHarness.h"

#include "runtime/core/DType.h"

#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <set>

namespace dsv3::codegen::test {

inline std::string tensor(std::vector<int64_t> shape, const std::string &elem, const std::string &scheme = "") {
  std::string text = "tensor<";
  for (int64_t d : shape)
    text += std::to_string(d) + "x";
  return text + elem + (scheme.empty() ? "" : ", #dsv3.blocked<" + scheme + ">") + ">";
}

struct Int4Case {
  std::vector<int64_t> rows; ///< of each expert; one number: of a dense product
  int64_t capacity = 0, n = 0, k = 0;
  bool experts = true, gated = false;
  std::string w = "1x?", x = "1x?"; ///< blocks of i4 weights and of rows of codes; x "": bf16
  std::string out = "f32", via = "f32";
  bool zeros = false; ///< of the weights
  bool codes = false; ///< y as codes of `elem`, a scale per row and 128 columns
  std::string elem = "i8"; ///< of codes, or "f8E4M3FN"
  int64_t tokens = 0;      ///< rows of x, of which token_of picks those of experts; 0: x has them in order

  int64_t stack() const { return int64_t(rows.size()); }
  int64_t weights() const { return gated ? 2 : 1; }
  bool wide() const { return x.empty(); }
  bool e4m3() const { return elem != "i8"; }
  bool wGrouped() const { return w != "1x?"; }
  bool xGrouped() const { return x == "1x128"; }
  int64_t xRows() const { return tokens ? tokens : capacity; }
  std::string xType() const { return tensor({xRows(), k}, "bf16", wide() ? "" : elem + ", " + x + ", f32"); }
  std::string wType() const { return tensor(experts ? std::vector<int64_t>{stack(), n, k} : std::vector<int64_t>{n, k}, "bf16", "i4, " + w + ", f32" + (zeros ? ", zero i8" : "")); }
  std::string args() const {
    return "%x: " + xType() + ", %w0: " + wType() + (gated ? ", %w1: " + wType() : "") + (experts ? ", %o: " + tensor({stack() + 1}, "i32") : "") +
           (tokens ? ", %t: " + tensor({capacity}, "i32") : "");
  }
  std::string body() const {
    std::string y = tensor({capacity, n}, out, codes ? elem + ", 1x128, f32" : "");
    return "%d = kernel.empty : " + y + "\n%y = kernel." + (experts ? "grouped_" : "") + (gated ? "gated_" : "") + "gemm ins(%x, %w0" + (gated ? ", %w1" : "") +
           (experts ? ", %o" : "") + (tokens ? ", %t" : "") + " : " + xType() + ", " + wType() + (gated ? ", " + wType() : "") +
           (experts ? ", " + tensor({stack() + 1}, "i32") : "") + (tokens ? ", " + tensor({capacity}, "i32") : "") + ") outs(%d : " + y + ")" + (gated ? " via " + via : "") + " site \"s\"";
  }
  std::string attributes() const {
    return std::string("phase = \"") + (capacity > 256 ? "prefill" : "decode") + "\", tokens = " + std::to_string(capacity) + " : i64, seqs = " +
           std::to_string(capacity) + " : i64";
  }
  std::unique_ptr<LaunchKernel> compile(llvm::ArrayRef<std::pair<llvm::StringRef, int64_t>> force = {}) const {
    return LaunchKernel::compile(args(), body(), attributes(), force);
  }
};

inline float rounded(const std::string &elem, float x) { return elem == "bf16" ? bf16ToFloat(floatToBf16(x)) : x; }

class Int4Product {
public:
  explicit Int4Product(const Int4Case &c, llvm::ArrayRef<std::pair<llvm::StringRef, int64_t>> force = {})
      : c(c), kernel(c.compile(force)), total(std::accumulate(c.rows.begin(), c.rows.end(), int64_t(0))), across((c.k + 127) / 128) {
    std::mt19937 random(7);
    auto integer = [&](int low, int high) { return int8_t(low + int(random() % unsigned(high - low + 1))); };
    for (int64_t i = 0; i < c.xRows() * c.k; ++i)
      x.push_back(c.wide()   ? bf16ToFloat(floatToBf16(float(integer(-127, 127)) / 32))
                  : c.e4m3() ? e4m3ToFloat(uint8_t(integer(0, 0x7e) | (random() & 0x80)))
                             : float(integer(-127, 127)));
    for (int64_t i = 0; i < c.xRows() * across; ++i)
      xScales.push_back(0.01f * float(1 + i * 31 % 17));
    for (int64_t i = 0; i < c.weights(); ++i) {
      codes.emplace_back(), scales.emplace_back();
      for (int64_t j = 0; j < c.stack() * c.n * c.k; ++j)
        codes.back().push_back(uint8_t(integer(-8, 7)));
      for (int64_t j = 0; j < c.stack() * c.n * across; ++j)
        scales.back().push_back(0.001f * float(1 + (j * 37 + i) % 29));
    }
  }

  /// Runs it on weights packed as the kernel asks; `change` may spoil the packed codes.
  void run(uint64_t seed = 1, int64_t ctas = 0, llvm::function_ref<void(Bytes &)> change = nullptr) {
    ASSERT_TRUE(kernel);
    SCOPED_TRACE(kernel->schedule());
    Bytes xBytes = rowBytes(), offsets;
    std::vector<Bytes> parts;
    for (int64_t i = 0; i < c.weights(); ++i) {
      parts.push_back(kernel->pack(unsigned(1 + i), 0, [&](llvm::ArrayRef<int64_t> at) { return &codes[size_t(i)][size_t(rowOf(at) * c.k + at.back())]; }));
      if (change)
        change(parts.back());
      parts.push_back(kernel->pack(unsigned(1 + i), 1, [&](llvm::ArrayRef<int64_t> at) { return reinterpret_cast<const uint8_t *>(&scale(i, rowOf(at), at.back())); }));
      if (c.zeros)
        parts.push_back(kernel->pack(unsigned(1 + i), 2, [&](llvm::ArrayRef<int64_t> at) { return reinterpret_cast<const uint8_t *>(&zero(i, rowOf(at), at.back())); }));
    }
    int32_t first = 0;
    for (int64_t e = 0; e <= c.stack(); first += e < c.stack() ? int32_t(c.rows[size_t(e)]) : 0, ++e)
      offsets.insert(offsets.end(), reinterpret_cast<uint8_t *>(&first), reinterpret_cast<uint8_t *>(&first) + 4);
    y.assign(size_t(c.codes ? scalesAt() + c.capacity * (c.n / 128) * 4 : c.capacity * c.n * width()), 0x7f);
    std::vector<Bytes *> refs{&xBytes};
    for (Bytes &part : parts)
      refs.push_back(&part);
    if (c.experts)
      refs.push_back(&offsets);
    Bytes tokenOf(size_t(c.capacity) * 4, uint8_t(0x7f)); // behind the rows of experts: no token
    for (int32_t r = 0; r < int32_t(total); ++r) {
      const int32_t token = int32_t(tokenOfRow(r));
      std::memcpy(&tokenOf[size_t(r) * 4], &token, 4);
    }
    if (c.tokens)
      refs.push_back(&tokenOf);
    refs.push_back(&y);
    if (!mutant)
      return kernel->run(refs, {total}, seed, ctas);
    found = kernel->findings(refs, {total}, *mutant, ctas);
  }

  /// Every wait and release is needed: without one, or out of place, the simulator sees a race or a deadlock.
  void expectMutantsReported(size_t least, const std::set<std::string> &harmless = {}) {
    ASSERT_TRUE(kernel);
    std::vector<tile::Mutant> mutants = tile::mutantsOf(kernel->kernel());
    EXPECT_GE(mutants.size(), least);
    for (const tile::Mutant &m : mutants) {
      mutant = &m;
      run(1, 2);
      EXPECT_EQ(found.empty(), harmless.count(m.name) != 0) << m.name << ": " << found;
    }
  }

  /// Elements that differ from the reference: to the bit where `exact`.
  int64_t wrong(bool exact) const {
    int64_t bad = 0, row = 0;
    for (int64_t e = 0; e < c.stack(); ++e)
      for (int64_t r = 0; r < c.rows[size_t(e)]; ++r, ++row)
        for (int64_t n = 0; n < c.n; ++n) {
          double size = 0;
          float want = expected(e * c.n + n, row, size), got = at(row, n);
          double rounding = c.out == "bf16" || c.via == "bf16" ? 1.0 / 128 : 1e-5;
          bad += exact ? got != rounded(c.out, want) : !(std::fabs(double(got) - double(want)) <= size * 1e-6 + std::fabs(double(want)) * rounding);
        }
    EXPECT_EQ(std::count_if(y.begin() + row * c.n * width(), y.end(), [](uint8_t b) { return b != 0x7f; }), 0) << "rows past the last";
    return bad;
  }

  /// Codes and scales that are not those of what `plain` stored.
  int64_t wrongCodes(const Int4Product &plain) const {
    int64_t bad = 0;
    for (int64_t row = 0; row < total; ++row)
      for (int64_t first = 0; first < c.n; first += 128) {
        float most = 0;
        for (int64_t n = first; n < first + 128; ++n)
          most = std::max(most, std::fabs(plain.at(row, n)));
        float scale = most > 0 ? most / (c.e4m3() ? 448 : 127) : 1, got;
        std::memcpy(&got, &y[size_t(scalesAt() + (row * (c.n / 128) + first / 128) * 4)], 4);
        bad += got != scale;
        for (int64_t n = first; n < first + 128; ++n)
          bad += codeAt(row, n) != (c.e4m3() ? e4m3ToFloat(floatToE4m3(plain.at(row, n) / scale)) : std::nearbyint(plain.at(row, n) / scale));
      }
    for (int64_t i = total * c.n; i < c.capacity * c.n; ++i)
      bad += y[size_t(i)] != 0x7f;
    return bad;
  }

  bool sameBits(const Int4Product &other) const { return y == other.y; }

  Int4Case c;
  std::unique_ptr<LaunchKernel> kernel;

private:
  int64_t tokenOfRow(int64_t row) const { return c.tokens ? (row * 37 + 5) % c.tokens : row; }
  int64_t scalesAt() const { return int64_t(llvm::alignTo(uint64_t(c.capacity * c.n), 256)); }
  int64_t width() const { return c.out == "bf16" ? 2 : 4; }
  int64_t rowOf(llvm::ArrayRef<int64_t> at) const { return at.size() == 3 ? at[0] * c.n + at[1] : at[0]; }
  const float &scale(int64_t i, int64_t row, int64_t k) const { return scales[size_t(i)][size_t(row * across + (c.wGrouped() ? k / 128 : 0))]; }
  const int8_t &zero(int64_t i, int64_t row, int64_t k) const {
    static const int8_t values[16] = {-8, 7, 0, 3, -1, 5, -7, 2, 6, -3, 1, -5, 4, -2, -6, -4};
    static const int8_t none = 0;
    return c.zeros ? values[(row * 5 + (c.wGrouped() ? k / 128 : 0) + i) % 16] : none;
  }
  float xScale(int64_t row, int64_t k) const { return c.wide() ? 1 : xScales[size_t(row * (c.xGrouped() ? across : 1) + (c.xGrouped() ? k / 128 : 0))]; }

  /// Rows of nobody hold what no sum may meet.
  Bytes rowBytes() const {
    Bytes bytes;
    for (size_t i = 0; i < x.size(); ++i) {
      bool nobody = int64_t(i) >= (c.tokens ? c.tokens : total) * c.k;
      uint16_t wide = nobody ? 0xffff : floatToBf16(x[i]);
      bytes.push_back(c.wide() ? uint8_t(wide) : nobody ? (c.e4m3() ? 0x7f : 0x80) : c.e4m3() ? floatToE4m3(x[i]) : uint8_t(int8_t(x[i])));
      if (c.wide())
        bytes.push_back(uint8_t(wide >> 8));
    }
    if (c.wide())
      return bytes;
    bytes.resize(llvm::alignTo(bytes.size(), 256)); // parts of a value
    auto *raw = reinterpret_cast<const uint8_t *>(xScales.data());
    bytes.insert(bytes.end(), raw, raw + size_t(c.xRows() * (c.xGrouped() ? across : 1)) * 4);
    return bytes;
  }

  /// quantizedLinear of the reference, in f32; `size` bounds the error of another order of roundings.
  float expected(int64_t w, int64_t row, double &size) const {
    float product[2] = {0, 0};
    row = tokenOfRow(row);
    for (int64_t i = 0; i < c.weights(); ++i)
      for (int64_t from = 0, to; from < c.k; from = to) {
        to = c.wGrouped() || c.xGrouped() ? std::min(c.k, from + 128) : c.k;
        double sum = 0;
        for (int64_t k = from; k < to; ++k) {
          double term = double(x[size_t(row * c.k + k)]) * (int8_t(codes[size_t(i)][size_t(w * c.k + k)]) - zero(i, w, from));
          sum += term, size += std::fabs(term * double(xScale(row, from)) * double(scale(i, w, from)));
        }
        product[i] += float(sum) * (xScale(row, from) * scale(i, w, from));
      }
    if (!c.gated)
      return product[0];
    float gate = rounded(c.via, product[0]), up = rounded(c.via, product[1]);
    size *= 1 + std::fabs(gate) + std::fabs(up);
    return float(double(gate) / (1 + std::exp(-double(gate))) * double(up));
  }

  float codeAt(int64_t row, int64_t n) const {
    uint8_t code = y[size_t(row * c.n + n)];
    return c.e4m3() ? e4m3ToFloat(code) : float(int8_t(code));
  }
  float at(int64_t row, int64_t n) const {
    uint32_t bits = 0;
    std::memcpy(&bits, &y[size_t((row * c.n + n) * width())], size_t(width()));
    return width() == 2 ? bf16ToFloat(uint16_t(bits)) : floatFromBits(bits);
  }

  const tile::Mutant *mutant = nullptr; ///< that `run` applies
  std::string found;                    ///< in it
  int64_t total, across;
  std::vector<float> x, xScales;
  std::vector<std::vector<uint8_t>> codes;
  std::vector<std::vector<float>> scales;
  Bytes y;
};

inline void check(const Int4Case &c, bool exact, llvm::ArrayRef<std::pair<llvm::StringRef, int64_t>> force = {}, uint64_t seed = 1, int64_t ctas = 0) {
  Int4Product p(c, force);
  p.run(seed, ctas);
  EXPECT_EQ(p.wrong(exact), 0) << p.kernel->schedule();
}

/// Products of DeepSeek-V3 through ptxas.
inline void assemble(const Int4Case &c) { expectAssembles(c.compile().get()); }

} // namespace dsv3::codegen::test
