#include "Quantised.h"

namespace dsv3::interpret {

using reference::Array;

namespace {

/// A tensor of the checkpoint, read number by number.
struct Source {
  const hf::CheckpointTensor *tensor = nullptr;

  float number(int64_t i) const { return loadAsFloat(tensor->dtype(), tensor->data().data(), size_t(i)); }
  /// `bits` bits from bit `from` on of word `i`, the lowest being bit 0.
  int64_t bitsOf(int64_t i, int64_t from, int64_t bits) const {
    uint32_t word = 0;
    for (int64_t byte = 0; byte < 4; ++byte) // little-endian, as safetensors is
      word |= uint32_t(uint8_t(tensor->data()[size_t(4 * i + byte)])) << (8 * byte);
    return word >> from & ((uint64_t(1) << bits) - 1);
  }
};

/// AutoAWQ packs 8 numbers of a row into a word in this order, from the lowest bits.
constexpr int64_t kAwqOrder[8] = {0, 2, 4, 6, 1, 3, 5, 7};

int64_t awqPlace(int64_t n) {
  int64_t place = 0;
  while (kAwqOrder[place] != n % 8)
    ++place;
  return 4 * place;
}

struct Reader {
  Source data, scale, zero, index;
  ir::Packing packing;
  ir::BlockedAttr scheme;
  int64_t n, k;

  int64_t bits() const { return scheme.getStorage().getIntOrFloatBitWidth(); }
  int64_t perWord() const { return 32 / bits(); }
  int64_t half() const { return int64_t(1) << (bits() - 1); }
  int64_t block(size_t dim, int64_t whole) const {
    int64_t b = scheme.getBlock().take_back(2)[dim];
    return mlir::ShapedType::isDynamic(b) ? whole : b;
  }
  int64_t groups() const { return (k + block(1, k) - 1) / block(1, k); }
  bool transposed() const { return packing == ir::Packing::Gptq || packing == ir::Packing::GptqV2 || packing == ir::Packing::Awq; }

  float code(int64_t row, int64_t col) const {
    switch (packing) {
    case ir::Packing::Plain:
      return data.number(row * k + col);
    case ir::Packing::Words:
      return float(data.bitsOf(row * ((k * bits() + 31) / 32) + col / perWord(), col % perWord() * bits(), bits()) - half());
    case ir::Packing::Gptq:
    case ir::Packing::GptqV2:
      return float(data.bitsOf(col / perWord() * n + row, col % perWord() * bits(), bits()) - half());
    case ir::Packing::Awq:
      return float(data.bitsOf((col * n + row) / 8, awqPlace(row), 4) - 8);
    case ir::Packing::HighFirst: {
      auto byte = int8_t(data.tensor->data()[size_t((row * k + col) / 2)]);
      return float(col % 2 ? int8_t(byte << 4) / 16 : byte >> 4);
    }
    }
    return 0;
  }

  float zeroPoint(int64_t row, int64_t group) const {
    if (!zero.tensor)
      return 0;
    switch (packing) {
    case ir::Packing::Words:
      return float(zero.bitsOf(row / perWord() * groups() + group, row % perWord() * bits(), bits()) - half());
    case ir::Packing::Gptq:
    case ir::Packing::GptqV2:
      return float(zero.bitsOf((group * n + row) / perWord(), row % perWord() * bits(), bits()) + (packing == ir::Packing::Gptq) - half());
    case ir::Packing::Awq:
      return float(zero.bitsOf((group * n + row) / 8, awqPlace(row), 4) - 8);
    default:
      return zero.number(row / block(0, n) * groups() + group);
    }
  }

  float value(int64_t row, int64_t col) const {
    int64_t group = index.tensor ? int64_t(index.number(col)) : col / block(1, k);
    float s = scale.number(transposed() ? group * n + row : row / block(0, n) * groups() + group);
    // SlimQuant's stored scale is of codes 16 times as large.
    return (code(row, col) - zeroPoint(row, group)) * (packing == ir::Packing::HighFirst ? s * 16 : s);
  }
};

} // namespace

Result<Array<float>> readQuantised(const hf::Checkpoint &checkpoint, const QuantisedNames &names, ir::Packing packing,
                                   ir::BlockedAttr scheme, int64_t n, int64_t k) {
  Reader reader{{}, {}, {}, {}, packing, scheme, n, k};
  int64_t grid = reader.groups() * ((n + reader.block(0, n) - 1) / reader.block(0, n));
  const bool packed = packing != ir::Packing::Plain;
  struct Part {
    const std::string &name;
    Source &source;
    int64_t bytes; ///< at least
  } parts[] = {{names.data, reader.data, n * k * (packed ? reader.bits() : 8) / 8},
               {names.scale, reader.scale, grid * 2},
               {names.zero, reader.zero, grid * (packed ? reader.bits() : 8) / 8},
               {names.index, reader.index, k * 4}};
  for (const Part &part : parts) {
    if (part.name.empty())
      continue;
    part.source.tensor = checkpoint.find(part.name);
    if (!part.source.tensor)
      return checkpointError("expected a tensor '" + part.name + "' in " + checkpoint.dir() + ", got none");
    if (int64_t(part.source.tensor->data().size()) < part.bytes)
      return checkpointError(part.name + ": expected " + std::to_string(part.bytes) + " bytes or more for a matrix " +
                             shapeText({n, k}) + ", got shape " + shapeText(part.source.tensor->shape()));
  }
  Array<float> out({n, k});
  for (int64_t row = 0; row < n; ++row)
    for (int64_t col = 0; col < k; ++col)
      out.row(row)[col] = reader.value(row, col);
  return out;
}

} // namespace dsv3::interpret
