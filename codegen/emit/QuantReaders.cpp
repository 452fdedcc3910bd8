#include "codegen/emit/QuantReaders.h"

#include "frontends/huggingface/QuantTensors.h"

#include <cmath>
#include <cstring>

using namespace mlir;

namespace dsv3 {

namespace {

/// Place of row n % 8 among the nibbles of an AWQ word, whose nibble i holds row 0 2 4 6 1 3 5 7.
constexpr int kAwqNibble[8] = {0, 4, 1, 5, 2, 6, 3, 7};

Error elementError(const hf::CheckpointTensor &tensor, int64_t index, const std::string &expected, const std::string &got) {
  return checkpointError(tensor.name() + ": expected " + expected + ", got " + got + " at element " + std::to_string(index));
}

uint32_t wordAt(const hf::CheckpointTensor &tensor, int64_t index) {
  uint32_t word;
  std::memcpy(&word, tensor.data().data() + size_t(index) * sizeof word, sizeof word);
  return word;
}

class Matrix : public WeightReader {
public:
  Matrix(const hf::LinearTensors &tensors, const hf::StoredScheme &scheme, bool indexed)
      : WeightReader({tensors.n, tensors.k}), t(tensors), scheme(scheme), indexed(indexed), bits(scheme.bits()),
        offset(1 << (bits - 1)), perWord(32 / bits), blockRows(scheme.blockRows ? scheme.blockRows : t.n),
        blockCols(scheme.blockCols ? scheme.blockCols : t.k), groups((t.k + blockCols - 1) / blockCols) {}

  bool encoded() const override { return true; }
  bool hasZeros() const override { return scheme.zeroPoints; }

  Status codes(int64_t row, int64_t col, int64_t n, uint8_t *out) const override {
    if (scheme.packing == hf::Packing::Plain)
      std::memcpy(out, t.data->data().data() + row * t.k + col, size_t(n));
    for (int64_t i = 0; scheme.packing != hf::Packing::Plain && i < n; ++i)
      out[i] = uint8_t(code(row, col + i));
    for (int64_t i = 0; i < n; ++i) {
      if (scheme.isFp8() && (out[i] & 0x7f) == 0x7f)
        return elementError(*t.data, row * t.k + col + i, "finite values", "the FP8 code of NaN");
      if (bits == 4 && (int8_t(out[i]) < -8 || int8_t(out[i]) > 7)) // only a byte can hold more
        return elementError(*t.data, row * t.k + col + i, "int4 codes from -8 to 7", std::to_string(int8_t(out[i])));
    }
    return {};
  }

  Status scales(int64_t row, int64_t col, int64_t n, float *out) const override {
    return perGroup(col, n, out, [&](int64_t group, float &scale) { return scaleAt(row, group, scale); });
  }

  Status zeros(int64_t row, int64_t col, int64_t n, int8_t *out) const override {
    if (!scheme.zeroPoints)
      return internalError(t.module + " has no zero points");
    return perGroup(col, n, out, [&](int64_t group, int8_t &zero) { return zeroAt(row, group, zero); });
  }

  Status values(int64_t row, int64_t col, int64_t n, float *out) const override {
    std::vector<uint8_t> code(static_cast<size_t>(n));
    std::vector<int8_t> zero(static_cast<size_t>(n), 0);
    if (Status s = codes(row, col, n, code.data()); !s)
      return s;
    if (Status s = scales(row, col, n, out); !s)
      return s;
    if (Status s = scheme.zeroPoints ? zeros(row, col, n, zero.data()) : Status(); !s)
      return s;
    for (int64_t i = 0; i < n; ++i) {
      float stored = scheme.isFp8() ? e4m3ToFloat(code[size_t(i)]) : float(int8_t(code[size_t(i)]) - zero[size_t(i)]);
      if (out[i] == 0 && stored != 0)
        return elementError(*t.scale, scaleIndex(row, groupOf(col + i)), "a scale above 0 where codes are not 0", "0");
      out[i] *= stored;
    }
    return {};
  }

private:
  /// A packed code.
  int code(int64_t n, int64_t k) const {
    switch (scheme.packing) {
    case hf::Packing::Plain:
      break;
    case hf::Packing::Words:
      return field(*t.data, n * ((t.k + perWord - 1) / perWord) + k / perWord, k % perWord) - offset;
    case hf::Packing::Gptq:
    case hf::Packing::GptqV2:
      return field(*t.data, k / perWord * t.n + n, k % perWord) - offset;
    case hf::Packing::Awq:
      return field(*t.data, k * (t.n / 8) + n / 8, kAwqNibble[n % 8]) - offset;
    case hf::Packing::HighFirst: {
      int byte = uint8_t(t.data->data()[size_t(n * (t.k / 2) + k / 2)]), nibble = k % 2 ? byte & 15 : byte >> 4;
      return nibble < 8 ? nibble : nibble - 16;
    }
    }
    return 0;
  }

  /// Bit field `place` of a word of 4 or 8 fields, lowest first.
  int field(const hf::CheckpointTensor &tensor, int64_t word, int64_t place) const {
    return int(wordAt(tensor, word) >> (bits * place) & ((1u << bits) - 1));
  }

  int64_t groupOf(int64_t k) const {
    if (!indexed)
      return k / blockCols;
    return int64_t(loadAsFloat(t.index->dtype(), t.index->data().data(), size_t(k))); // few groups: exact in a float
  }

  int64_t scaleIndex(int64_t row, int64_t group) const {
    return scheme.transposedGrid() ? group * t.n + row : row / blockRows * groups + group;
  }

  Status scaleAt(int64_t row, int64_t group, float &scale) const {
    int64_t index = scaleIndex(row, group);
    scale = loadAsFloat(t.scale->dtype(), t.scale->data().data(), size_t(index));
    if (!std::isfinite(scale)) // below 0 is well: the largest number of a group may be made the code -8 whatever its sign
      return elementError(*t.scale, index, "finite scales", std::to_string(scale));
    if (scheme.packing == hf::Packing::HighFirst)
      scale *= 16; // the 1/16 of codes that kernels leave in the high half of a byte
    return {};
  }

  Status zeroAt(int64_t row, int64_t group, int8_t &zero) const {
    int64_t word = 0, place = 0;
    switch (scheme.packing) {
    case hf::Packing::Words:
      word = row / perWord * groups + group, place = row % perWord;
      break;
    case hf::Packing::Awq:
      word = group * (t.n / 8) + row / 8, place = kAwqNibble[row % 8];
      break;
    case hf::Packing::Gptq:
    case hf::Packing::GptqV2:
      word = group * (t.n / perWord) + row / perWord, place = row % perWord;
      break;
    default:
      zero = int8_t(t.zero->data()[size_t(row / blockRows * groups + group)]);
      return {};
    }
    int stored = field(*t.zero, word, place);
    if (scheme.packing == hf::Packing::Gptq && ++stored == 1 << bits) // its readers disagree: 2^b, 0, or a carry into the next
      return elementError(*t.zero, word, "zero points up to " + std::to_string((1 << bits) - 2) + " in checkpoint_format gptq",
                          std::to_string((1 << bits) - 1));
    zero = int8_t(stored - offset);
    return {};
  }

  /// Asks `at` once per run of columns of one group.
  template <typename T, typename At> Status perGroup(int64_t col, int64_t n, T *out, At at) const {
    for (int64_t i = 0, last = -1; i < n; ++i) {
      int64_t group = groupOf(col + i);
      if (group == last) {
        out[i] = out[i - 1];
      } else if (Status s = at(group, out[i]); !s) {
        return s;
      }
      last = group;
    }
    return {};
  }

  hf::LinearTensors t;
  hf::StoredScheme scheme;
  bool indexed;
  int bits, offset;
  int64_t perWord, blockRows, blockCols, groups;
};

hf::Packing packingOf(ir::Packing packing) {
  switch (packing) {
  case ir::Packing::Plain: return hf::Packing::Plain;
  case ir::Packing::Words: return hf::Packing::Words;
  case ir::Packing::Gptq: return hf::Packing::Gptq;
  case ir::Packing::GptqV2: return hf::Packing::GptqV2;
  case ir::Packing::Awq: return hf::Packing::Awq;
  case ir::Packing::HighFirst: return hf::Packing::HighFirst;
  }
  llvm_unreachable("all packings are listed");
}

} // namespace

/// The front end's words for a type's scheme and a source's packing.
static Result<hf::StoredScheme> storedScheme(const std::string &name, const QuantLayout &layout) {
  ArrayRef<int64_t> block = layout.scheme.getBlock();
  Type storage = layout.scheme.getStorage();
  if (block.size() < 2)
    return internalError(name + ": expected scale blocks of two dims");
  auto size = [](int64_t b) { return ShapedType::isDynamic(b) ? 0 : b; };
  hf::StoredScheme out;
  if (isa<Float8E5M2Type>(storage))
    return unsupportedError(name + ": weights stored as f8E5M2 are not read, only f8E4M3FN, i8 and i4");
  out.code = isa<Float8E4M3FNType>(storage) ? hf::StoredScheme::Code::F8E4M3
             : storage.isInteger(8)         ? hf::StoredScheme::Code::I8
                                            : hf::StoredScheme::Code::I4;
  out.blockRows = size(block[block.size() - 2]);
  out.blockCols = size(block.back());
  out.zeroPoints = bool(layout.scheme.getZero());
  out.packing = packingOf(layout.packing);
  if (out.packing != hf::Packing::Plain && (out.isFp8() || out.blockRows > 1 || !out.blockRows))
    return internalError(name + ": expected integers with scales per row for packed codes");
  if (out.packing == hf::Packing::Awq && out.bits() != 4)
    return internalError(name + ": expected int4 for AWQ's packing");
  return out;
}

Result<ReaderPtr> readQuantised(const hf::Checkpoint *checkpoint, const QuantNames &names, const QuantLayout &layout) {
  Result<hf::StoredScheme> scheme = storedScheme(names.data, layout);
  if (!scheme)
    return scheme.error();
  hf::LinearTensors linear{names.data.substr(0, names.data.rfind('.')), layout.rows, layout.cols};
  struct Part {
    const std::string &name;
    bool expected;
    const hf::CheckpointTensor *&place;
  } parts[] = {{names.data, true, linear.data},
               {names.scale, true, linear.scale},
               {names.zero, scheme->zeroPoints, linear.zero},
               {names.index, layout.scheme.getIndexed(), linear.index}};
  for (const Part &part : parts) {
    if (part.name.empty() == part.expected)
      return internalError(names.data + ": the source and the scheme disagree about zero points or an index");
    part.place = checkpoint && part.expected ? checkpoint->find(part.name) : nullptr;
    if (part.expected && !part.place)
      return checkpointError(part.name + " is missing from the checkpoint");
  }
  if (Status s = hf::checkParts(linear, *scheme); !s)
    return s.error();
  if (linear.index) {
    Result<bool> legal = hf::permutesGroups(linear, *scheme);
    if (!legal)
      return legal.error();
  }
  return ReaderPtr(std::make_unique<Matrix>(linear, *scheme, layout.scheme.getIndexed()));
}

} // namespace dsv3
