#include "frontends/huggingface/QuantTensors.h"

#include <cmath>
#include <cstring>
#include <initializer_list>

namespace dsv3::hf {

using Shape = std::vector<int64_t>;

static int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

bool isStored(const Checkpoint &checkpoint, const std::string &module, const StoredScheme &scheme) {
  const CheckpointTensor *data = checkpoint.find(module + "." + scheme.names.data);
  if (scheme.names.data != "weight")
    return data != nullptr;
  DType type = data ? data->dtype() : DType::F32;
  return type != DType::F32 && type != DType::BF16 && type != DType::F16;
}

//===-- Shapes ------------------------------------------------------------===//

Result<PartShapes> partShapes(const std::string &module, int64_t n, int64_t k, const StoredScheme &scheme) {
  const int64_t bits = scheme.bits(), perWord = 32 / bits;
  int64_t rows = ceilDiv(n, scheme.blockRows ? scheme.blockRows : n), groups = ceilDiv(k, scheme.blockCols ? scheme.blockCols : k);
  auto unfit = [&](const char *dim, int64_t size, int64_t multiple, const char *format) {
    return unsupportedError(module + ": " + format + " needs a multiple of " + std::to_string(multiple) + " " + dim + ", got " +
                            std::to_string(size));
  };
  PartShapes out;
  out.scale = out.zero = scheme.transposedGrid() ? Shape{groups, n} : Shape{rows, groups};
  switch (scheme.packing) {
  case Packing::Plain:
    out.data = {n, k};
    break;
  case Packing::Words:
    out.data = {n, ceilDiv(k, perWord)};
    out.zero = {ceilDiv(n, perWord), groups};
    break;
  case Packing::Gptq:
  case Packing::GptqV2:
    if (k % perWord || n % perWord)
      return k % perWord ? unfit("columns", k, perWord, "GPTQ") : unfit("rows", n, perWord, "GPTQ");
    out.data = {k / perWord, n};
    out.zero = {groups, n / perWord};
    break;
  case Packing::Awq:
    if (n % perWord)
      return unfit("rows", n, perWord, "AWQ");
    out.data = {k, n / perWord};
    out.zero = {groups, n / perWord};
    break;
  case Packing::HighFirst:
    if (k % 2)
      return unfit("columns", k, 2, "int4 in bytes");
    out.data = {n, k / 2};
    break;
  }
  return out;
}

static Error wrongShape(const CheckpointTensor &tensor, const Shape &want, const std::string &why) {
  return checkpointError(tensor.name() + ": expected shape " + shapeText(want) + " (" + why + "), got " + shapeText(tensor.shape()));
}

static Status expectType(const CheckpointTensor &tensor, std::initializer_list<DType> types) {
  std::string known;
  for (auto it = types.begin(); it != types.end(); ++it) {
    if (tensor.dtype() == *it)
      return {};
    known += (known.empty() ? "" : it + 1 == types.end() ? " or " : ", ") + std::string(safetensorsName(*it));
  }
  return checkpointError(tensor.name() + ": expected dtype " + known + ", got " + std::string(safetensorsName(tensor.dtype())));
}

/// "8 codes of 4 bits a word of [48, 20]"
static std::string dataReason(const LinearTensors &linear, const StoredScheme &scheme) {
  std::string of = " of " + shapeText({linear.n, linear.k});
  if (scheme.packing == Packing::Plain)
    return "a code per element" + of;
  if (scheme.packing == Packing::HighFirst)
    return "2 codes a byte" + of;
  return std::to_string(32 / scheme.bits()) + " codes of " + std::to_string(scheme.bits()) + " bits a word" + of;
}

static std::string scaleReason(const LinearTensors &linear, const StoredScheme &scheme) {
  std::string of = " of " + shapeText({linear.n, linear.k});
  if (!scheme.blockRows && !scheme.blockCols)
    return "one scale" + of;
  if (!scheme.blockCols)
    return "one scale per row" + of;
  return "one scale per " + std::to_string(scheme.blockRows ? scheme.blockRows : linear.n) + "x" + std::to_string(scheme.blockCols) +
         " block" + of;
}

/// A grid of one column may be stored without its last dim, that of one scale as a scalar.
static bool isGrid(const Shape &got, const Shape &want) {
  if (got == want)
    return true;
  bool column = want.size() == 2 && want[1] == 1;
  return column && (got == Shape{want[0]} || (want[0] == 1 && got.empty()));
}

Status checkParts(const LinearTensors &linear, const StoredScheme &scheme) {
  Result<PartShapes> shapes = partShapes(linear.module, linear.n, linear.k, scheme);
  if (!shapes)
    return shapes.error();
  const bool words = scheme.packing != Packing::Plain && scheme.packing != Packing::HighFirst;
  if (Status ok = expectType(*linear.data, {words ? DType::I32 : scheme.isFp8() ? DType::F8E4M3 : DType::I8}); !ok)
    return ok;
  if (linear.data->shape() != shapes->data)
    return wrongShape(*linear.data, shapes->data, dataReason(linear, scheme));
  Status type = scheme.f16Scales ? expectType(*linear.scale, {DType::F32, DType::BF16, DType::F16})
                                 : expectType(*linear.scale, {DType::F32, DType::BF16});
  if (!type)
    return type;
  if (!isGrid(linear.scale->shape(), shapes->scale))
    return wrongShape(*linear.scale, shapes->scale, scaleReason(linear, scheme));
  if (linear.zero) {
    if (Status ok = expectType(*linear.zero, {words ? DType::I32 : DType::I8}); !ok)
      return ok;
    if (!(words ? linear.zero->shape() == shapes->zero : isGrid(linear.zero->shape(), shapes->zero)))
      return wrongShape(*linear.zero, shapes->zero, "one zero point per scale");
  }
  if (linear.index) {
    if (Status ok = expectType(*linear.index, {DType::I32, DType::I64}); !ok)
      return ok;
    if (linear.index->shape() != Shape{linear.k})
      return wrongShape(*linear.index, {linear.k}, "a group per column");
  }
  return {};
}

//===-- Values ------------------------------------------------------------===//

static size_t count(const CheckpointTensor &tensor) { return tensor.data().size() / byteSize(tensor.dtype()); }

static int64_t integerAt(const CheckpointTensor &tensor, size_t i) {
  const char *at = tensor.data().data() + i * byteSize(tensor.dtype());
  auto as = [at](auto value) {
    std::memcpy(&value, at, sizeof value);
    return int64_t(value);
  };
  switch (tensor.dtype()) {
  case DType::I64: return as(int64_t());
  case DType::I32: return as(int32_t());
  default: return as(int8_t());
  }
}

Result<bool> permutesGroups(const LinearTensors &linear, const StoredScheme &scheme) {
  if (!linear.index)
    return false;
  int64_t group = scheme.blockCols ? scheme.blockCols : linear.k, groups = ceilDiv(linear.k, group);
  bool permutes = false;
  for (int64_t k = 0; k < linear.k; ++k) {
    int64_t g = integerAt(*linear.index, size_t(k));
    if (g < 0 || g >= groups)
      return checkpointError(linear.index->name() + ": element " + std::to_string(k) + " is " + std::to_string(g) +
                             ", expected a group from 0 to " + std::to_string(groups - 1));
    permutes |= g != k / group;
  }
  return permutes;
}

/// Every stored zero point is the code of 0.
static Status checkSymmetric(const LinearTensors &linear, const StoredScheme &scheme) {
  const bool plain = scheme.packing == Packing::Plain;
  const int bits = plain ? 8 : scheme.bits(), perTensorElement = plain ? 1 : 32 / bits;
  const int64_t mask = (int64_t(1) << bits) - 1;
  // Unsigned codes have their 0 in the middle; GPTQ's first format stores one less.
  const int64_t want = plain ? 0 : (int64_t(1) << (bits - 1)) - (scheme.packing == Packing::Gptq ? 1 : 0);
  for (size_t i = 0; i < count(*linear.zero); ++i)
    for (int j = 0; j < perTensorElement; ++j) {
      int64_t code = (integerAt(*linear.zero, i) >> (bits * j)) & mask;
      bool padding = scheme.packing == Packing::Words && int64_t(i) / linear.zero->shape()[1] * perTensorElement + j >= linear.n;
      if (code != want && !padding)
        return checkpointError(linear.zero->name() + ": element " + std::to_string(i) + " holds zero point " + std::to_string(code) +
                               ", expected " + std::to_string(want) + " throughout, since config.json says symmetric");
    }
  return {};
}

static Status checkScales(const CheckpointTensor &scale, const StoredScheme &scheme) {
  const char *expected = scheme.ue8m0 ? "a power of two (scale_fmt ue8m0)" : scheme.isFp8() ? "a finite scale above 0" : "a finite scale";
  for (size_t i = 0; i < count(scale); ++i) {
    float value = loadAsFloat(scale.dtype(), scale.data().data(), i);
    bool ok = std::isfinite(value) && (value > 0 || !scheme.isFp8()); // integers: below 0 is well, see QuantTensors.h
    int exponent;
    if (ok && scheme.ue8m0)
      ok = std::frexp(value, &exponent) == 0.5f;
    if (!ok)
      return checkpointError(scale.name() + ": element " + std::to_string(i) + " is " + std::to_string(value) + ", expected " + expected);
  }
  return {};
}

Status checkPartValues(const LinearTensors &linear, const StoredScheme &scheme) {
  if (linear.shape) {
    if (Status ok = expectType(*linear.shape, {DType::I64, DType::I32}); !ok)
      return ok;
    bool same = count(*linear.shape) == 2 && integerAt(*linear.shape, 0) == linear.n && integerAt(*linear.shape, 1) == linear.k;
    if (!same)
      return checkpointError(linear.shape->name() + ": expected the numbers " + shapeText({linear.n, linear.k}) + " that config.json gives");
  }
  if (linear.zero && !scheme.zeroPoints)
    if (Status ok = checkSymmetric(linear, scheme); !ok)
      return ok;
  return scheme.packing == Packing::Plain || scheme.packing == Packing::HighFirst ? checkScales(*linear.scale, scheme) : Status();
}

} // namespace dsv3::hf
