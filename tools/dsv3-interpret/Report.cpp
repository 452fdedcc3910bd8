#include "Report.h"

#include "runtime/core/Hash.h"
#include "runtime/core/SafetensorsWriter.h"

#include <cmath>
#include <cstdio>

namespace dsv3::interpret {

static std::string textOf(mlir::Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

template <typename V> static std::string bytesOf(const std::vector<V> &values) {
  return std::string(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(V));
}

/// The values' bits in their element type.
static std::string bitsOf(const NamedTensor &tensor) {
  if (tensor.elem.isInteger(32))
    return bytesOf(std::vector<int32_t>(tensor.values.begin(), tensor.values.end()));
  if (tensor.elem.isF64())
    return bytesOf(tensor.values);
  DType dtype = tensor.elem.isBF16()  ? DType::BF16
                : tensor.elem.isF16() ? DType::F16
                : tensor.elem.isF32() ? DType::F32
                                      : DType::F8E4M3;
  std::vector<float> floats(tensor.values.begin(), tensor.values.end());
  std::string bytes(floats.size() * byteSize(dtype), '\0');
  convertFromFloat(dtype, floats.data(), floats.size(), bytes.data());
  return bytes;
}

std::string hashOf(const NamedTensor &tensor) { return hashHex(bitsOf(tensor)); }

void print(const NamedTensor &tensor, const char *prefix, const PrintOptions &options) {
  if (options.hashOnly) {
    std::printf("%s%s: %s\n", prefix, tensor.name.c_str(), hashOf(tensor).c_str());
    return;
  }
  std::printf("%s%s: %s %s hash %s values", prefix, tensor.name.c_str(), reference::toString(tensor.shape).c_str(),
              textOf(tensor.elem).c_str(), hashOf(tensor).c_str());
  for (int64_t i = 0; i < std::min<int64_t>(options.values, tensor.values.size()); ++i)
    std::printf(" %.6g", tensor.values[i]);
  std::printf("\n");
}

Status save(const std::string &path, const std::vector<const NamedTensor *> &tensors) {
  std::vector<SafetensorsWriter::Tensor> header;
  for (const NamedTensor *t : tensors)
    header.push_back({t->name, t->elem.isInteger(32) ? DType::I32 : DType::F32, t->shape});
  Result<SafetensorsWriter> writer = SafetensorsWriter::create(path, header);
  if (!writer)
    return writer.error();
  for (const NamedTensor *t : tensors) {
    std::string bytes = t->elem.isInteger(32)
                            ? bytesOf(std::vector<int32_t>(t->values.begin(), t->values.end()))
                            : bytesOf(std::vector<float>(t->values.begin(), t->values.end()));
    if (Status s = writer->append(bytes.data(), bytes.size()); !s)
      return s;
  }
  return writer->finish();
}

//===-- Comparison --------------------------------------------------------===//

/// The row with the largest |b - a| / |a|, and that number. A zero row that is not matched is infinitely far.
static std::pair<int64_t, double> worstRow(const NamedTensor &a, const NamedTensor &b) {
  int64_t width = a.shape.empty() ? 1 : std::max<int64_t>(a.shape.back(), 1);
  std::pair<int64_t, double> worst{0, 0};
  for (int64_t r = 0; r * width < int64_t(a.values.size()); ++r) {
    double difference = 0, size = 0;
    for (int64_t i = r * width; i < (r + 1) * width; ++i) {
      difference += (b.values[i] - a.values[i]) * (b.values[i] - a.values[i]);
      size += a.values[i] * a.values[i];
    }
    double relative = difference == 0 ? 0 : std::sqrt(difference / size);
    if (!(relative <= worst.second)) // also when it is not a number
      worst = {r, relative};
  }
  return worst;
}

static Result<bool> compareOne(const NamedTensor &a, const NamedTensor &b, double tolerance, const char *prefix) {
  if (a.shape != b.shape || (tolerance == 0 && a.elem != b.elem))
    return usageError(a.name + ": expected equal types, got " + reference::toString(a.shape) + " " + textOf(a.elem) + " and " +
                      reference::toString(b.shape) + " " + textOf(b.elem));
  bool equal = a.elem == b.elem && bitsOf(a) == bitsOf(b);
  auto [row, relative] = worstRow(a, b);
  if (equal)
    std::printf("%s%s: equal\n", prefix, a.name.c_str());
  else
    std::printf("%s%s: row %lld differs by %.2g (tolerance %.2g)\n", prefix, a.name.c_str(), (long long)row, relative,
                tolerance);
  bool exact = tolerance == 0 || a.elem.isInteger(32);
  return equal || (!exact && relative <= tolerance);
}

Result<bool> compare(const std::vector<NamedTensor> &a, const std::vector<NamedTensor> &b, double tolerance,
                     const char *prefix) {
  bool close = true, any = a.empty() && b.empty();
  for (const NamedTensor &left : a)
    for (const NamedTensor &right : b)
      if (left.name == right.name) {
        Result<bool> one = compareOne(left, right, tolerance, prefix);
        if (!one)
          return one.error();
        close &= *one;
        any = true;
      }
  if (!any)
    return usageError(std::string("--against: expected a ") + (*prefix ? "tap" : "result") + " that both modules have, got none");
  return close;
}

} // namespace dsv3::interpret
