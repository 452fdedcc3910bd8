#include "codegen/emit/PackWeights.h"

#include "codegen/emit/Parallel.h"
#include "dialects/kernel/Layout.h"
#include "runtime/core/Hash.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

using namespace mlir;

namespace dsv3 {

namespace {
using Shape = std::vector<int64_t>;

Layout parse(kernel::LayoutAttr attr) {
  return *Layout::parse(std::string_view(attr.getMap().data(), attr.getMap().size())); // verified with the attribute
}

/// Offsets of the elements of one row. A term reads one dim, so without xor an offset is a sum of one summand per
/// dim, and the last dim's summands are the same in every row.
class RowOffsets {
public:
  RowOffsets(const Layout &layout, Shape shape, bool separable) : layout(layout), shape(std::move(shape)), separable(separable) {
    Shape index(this->shape.size(), 0);
    for (int64_t k = 0; k < this->shape.back(); ++k) {
      index.back() = k;
      columns.push_back(layout.offset(index, this->shape));
    }
    int64_t origin = columns[0];
    for (int64_t &c : columns)
      c -= origin;
    offsets = columns;
  }

  const std::vector<int64_t> &of(int64_t row) {
    Shape index(shape.size(), 0);
    for (size_t d = shape.size() - 1; d-- > 0;) {
      index[d] = row % shape[d];
      row /= shape[d];
    }
    int64_t first = layout.offset(index, shape);
    for (size_t k = 0; k < offsets.size(); ++k) {
      index.back() = int64_t(k);
      offsets[k] = separable ? first + columns[k] : layout.offset(index, shape);
    }
    return offsets;
  }

private:
  const Layout &layout;
  Shape shape;
  bool separable;
  std::vector<int64_t> columns, offsets;
};

template <typename T> void scatter(const std::vector<int64_t> &offsets, const void *row, char *out) {
  const char *from = static_cast<const char *>(row);
  for (size_t k = 0; k < offsets.size(); ++k)
    std::memcpy(out + size_t(offsets[k]) * sizeof(T), from + k * sizeof(T), sizeof(T));
}

/// Elements of half a byte, the even ones in the low half. `out` is zero before.
void scatterNibbles(const std::vector<int64_t> &offsets, const char *row, char *out) {
  for (size_t k = 0; k < offsets.size(); ++k)
    out[offsets[k] / 2] = char(out[offsets[k] / 2] | (row[k] & 15) << (offsets[k] % 2 * 4));
}

/// How a row's elements are held before they go to their places: codes, of nibbles too, are bytes.
DType storedType(Type type) { return type.isF32() ? DType::F32 : type.isBF16() ? DType::BF16 : type.isF16() ? DType::F16 : DType::F8E4M3; }

/// Writes one part, a leading entry after another.
class PartWriter {
public:
  PartWriter(const WeightReader &reader, const kernel::PackedPart &part, kernel::LayoutAttr attr, char *weight)
      : reader(reader), part(part), layout(parse(attr)), inner(reader.shape().end() - layout.rank(), reader.shape().end()),
        offsets(layout, inner, !attr.getMap().contains('^')), out(weight + part.offset) {
    innerRows = 1;
    for (size_t d = 0; d + 1 < inner.size(); ++d)
      innerRows *= inner[d];
  }

  Status write() {
    for (int64_t row = 0; row < reader.rows(); ++row) {
      char *entry = out + row / innerRows * part.outerStride;
      const std::vector<int64_t> &at = offsets.of(row % innerRows);
      Status s = part.name == "scale"  ? writeGroups(row, at, reinterpret_cast<float *>(entry))
                 : part.name == "zero" ? writeGroups(row, at, reinterpret_cast<int8_t *>(entry))
                                       : writeData(row, at, entry);
      if (!s)
        return s;
    }
    return {};
  }

private:
  Status writeData(int64_t row, const std::vector<int64_t> &at, char *entry) {
    DType type = storedType(part.elem);
    size_t n = size_t(reader.cols());
    raw.resize(n * byteSize(type));
    if (reader.encoded()) {
      if (Status s = reader.codes(row, 0, reader.cols(), reinterpret_cast<uint8_t *>(raw.data())); !s)
        return s;
    } else {
      values.resize(n);
      if (Status s = reader.values(row, 0, reader.cols(), values.data()); !s)
        return s;
      convertFromFloat(type, values.data(), n, raw.data());
    }
    if (part.elem.isInteger(4)) {
      scatterNibbles(at, raw.data(), entry);
      return {};
    }
    switch (byteSize(type)) {
    case 1: scatter<uint8_t>(at, raw.data(), entry); break;
    case 2: scatter<uint16_t>(at, raw.data(), entry); break;
    default: scatter<uint32_t>(at, raw.data(), entry); break;
    }
    return {};
  }

  Status read(int64_t row, float *to) const { return reader.scales(row, 0, reader.cols(), to); }
  Status read(int64_t row, int8_t *to) const { return reader.zeros(row, 0, reader.cols(), to); }

  /// Scales or zero points: one place for all elements of a group.
  template <typename T> Status writeGroups(int64_t row, const std::vector<int64_t> &at, T *places) {
    std::vector<T> groups(size_t(reader.cols()));
    if (Status s = read(row, groups.data()); !s)
      return s;
    for (size_t k = 0; k < at.size(); ++k) {
      T &place = places[at[k]];
      if (place != 0 && place != groups[k]) // 0 means not written yet, or a zero point or the scale of zeros
        return internalError("the scale layout joins elements with different " + part.name.str() + "s at row " + std::to_string(row) +
                             ", column " + std::to_string(k));
      place = groups[k];
    }
    return {};
  }

  const WeightReader &reader;
  const kernel::PackedPart &part;
  Layout layout;
  Shape inner; // the dims that the layout names
  RowOffsets offsets;
  int64_t innerRows;
  char *out;
  std::vector<char> raw;
  std::vector<float> values;
};

/// A file of known size, mapped for writing.
class OutputFile {
public:
  static Result<std::unique_ptr<OutputFile>> create(const std::string &path, int64_t bytes) {
    std::unique_ptr<OutputFile> file(new OutputFile);
    file->bytes = size_t(bytes);
    file->descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file->descriptor < 0)
      return usageError("cannot write '" + path + "': " + std::strerror(errno));
    // A full disk has to show here: a write to a mapping without space behind it kills the process.
    if (int error = bytes ? posix_fallocate(file->descriptor, 0, bytes) : 0)
      return doesNotFitError("cannot reserve " + std::to_string(bytes) + " bytes for '" + path + "': " + std::strerror(error));
    if (bytes)
      file->memory = mmap(nullptr, file->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file->descriptor, 0);
    if (file->memory == MAP_FAILED)
      return doesNotFitError("cannot map '" + path + "': " + std::strerror(errno));
    return file;
  }
  ~OutputFile() {
    if (memory != MAP_FAILED && memory)
      munmap(memory, bytes);
    if (descriptor >= 0)
      close(descriptor);
  }
  char *data() { return static_cast<char *>(memory); }

private:
  OutputFile() = default;
  int descriptor = -1;
  void *memory = nullptr;
  size_t bytes = 0;
};
} // namespace

Status packWeight(const WeightReader &reader, RankedTensorType type, char *out) {
  auto packed = cast<kernel::PackedAttr>(type.getEncoding());
  if (bool(packed.getScheme()) != reader.encoded())
    return internalError("expected a source that is stored as the packed type says");
  for (const kernel::PackedPart &part : kernel::getPackedParts(type)) {
    kernel::LayoutAttr layout = part.name == "data" ? packed.getLayout() : packed.getScale();
    if (Status s = PartWriter(reader, part, layout, out).write(); !s)
      return s;
  }
  return {};
}

Result<PackedFile> packWeights(ModuleOp module, const WeightData &data, const std::string &path, int64_t bytes, int jobs,
                               const std::function<void(int64_t)> &progress) {
  PackedFile result;
  result.bytes = bytes;
  std::vector<std::unique_ptr<WeightReader>> readers;
  for (auto op : module.getOps<kernel::WeightOp>()) {
    Result<std::unique_ptr<WeightReader>> reader = data.open(op.getSource());
    if (!reader)
      return reader.error();
    if (int64_t(op.getOffset() + op.getBytes()) > bytes)
      return internalError("weight @" + op.getSymName().str() + " ends behind the weights file");
    readers.push_back(std::move(*reader));
    result.weights.push_back({op, "", {}, -1});
  }
  Result<std::unique_ptr<OutputFile>> file = OutputFile::create(path, bytes);
  if (!file)
    return file.error();

  std::mutex mutex; // of `progress`
  auto pack = [&](size_t i) -> Status {
    kernel::WeightOp op = result.weights[i].op;
    char *place = (*file)->data() + op.getOffset();
    if (Status s = packWeight(*readers[i], op.getTensorType(), place); !s) {
      bool named = s.error().code != ExitCode::Internal; // other errors name the tensor and its file
      return named ? s : internalError("weight @" + op.getSymName().str() + ": " + s.error().message);
    }
    result.weights[i].hash = hashHex({place, size_t(op.getBytes())});
    std::lock_guard<std::mutex> lock(mutex);
    if (progress)
      progress(int64_t(op.getBytes()));
    return {};
  };
  if (Status s = codegen::runAll(readers.size(), jobs, pack); !s)
    return s.error();
  result.hash = hashHex({(*file)->data(), size_t(bytes)});
  return result;
}

Result<PackedFile> writeDrawn(ModuleOp module, const WeightData &data, const hf::Checkpoint &checkpoint, const std::string &path) {
  PackedFile result;
  result.drawn = true;
  std::string bytes;
  for (auto op : module.getOps<kernel::WeightOp>()) {
    PackedWeight weight{op, "", {}, -1};
    Result<std::vector<DummyFill>> fills = planFills(module, op, checkpoint);
    if (!fills)
      return fills.error();
    weight.fills = std::move(*fills);
    if (weight.fills.empty()) {
      Result<std::unique_ptr<WeightReader>> reader = data.open(op.getSource());
      if (!reader)
        return reader.error();
      weight.storedAt = int64_t(bytes.size() + 63) / 64 * 64;
      bytes.resize(size_t(weight.storedAt) + size_t(op.getBytes()), '\0');
      if (Status s = packWeight(**reader, op.getTensorType(), bytes.data() + weight.storedAt); !s)
        return s.error();
      weight.hash = hashHex({bytes.data() + weight.storedAt, size_t(op.getBytes())});
    }
    result.weights.push_back(std::move(weight));
  }
  result.bytes = int64_t(bytes.size());
  result.hash = hashHex(bytes);
  Result<std::unique_ptr<OutputFile>> file = OutputFile::create(path, result.bytes);
  if (!file)
    return file.error();
  std::copy(bytes.begin(), bytes.end(), (*file)->data());
  return result;
}

} // namespace dsv3
