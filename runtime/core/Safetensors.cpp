#include "runtime/core/Safetensors.h"

#include "runtime/core/Json.h"

#include <algorithm>

namespace dsv3 {

/// What the reference implementation accepts; a larger header is damage or an attack.
static constexpr uint64_t maxHeaderBytes = 100'000'000;

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

std::optional<uint64_t> tensorBytes(DType dtype, const std::vector<int64_t> &shape) {
  int64_t total = int64_t(byteSize(dtype));
  for (int64_t dim : shape)
    if (dim < 0 || __builtin_mul_overflow(total, dim, &total))
      return std::nullopt;
  return uint64_t(total);
}

static bool startsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

/// Files that are something else altogether deserve to be called by their name.
static std::optional<std::string> recognise(std::string_view bytes) {
  if (bytes.empty())
    return "the file is empty";
  if (startsWith(bytes, "version https://git-lfs"))
    return "this is a git-lfs pointer, not the weights: run \"git lfs pull\"";
  size_t first = bytes.find_first_not_of(" \t\r\n");
  if (first != bytes.npos && (startsWith(bytes.substr(first), "<!") ||
                              startsWith(bytes.substr(first), "<html")))
    return "this is a web page, not a safetensors file: download it again";
  return std::nullopt;
}

/// Splits the file into header text and data.
static Result<std::pair<std::string_view, std::string_view>> split(std::string_view bytes,
                                                                   const std::string &label) {
  if (std::optional<std::string> other = recognise(bytes))
    return checkpointError(label + ": " + *other);
  if (bytes.size() < 8)
    return checkpointError(label + ": truncated: expected a header length of 8 bytes, got " +
                           std::to_string(bytes.size()) + " bytes in all");
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i)
    length = length << 8 | uint8_t(bytes[size_t(i)]);
  if (length > maxHeaderBytes)
    return checkpointError(label + ": header length is " + std::to_string(length) +
                           ", expected at most " + std::to_string(maxHeaderBytes));
  if (length > bytes.size() - 8)
    return checkpointError(label + ": truncated: the header needs " + std::to_string(length) +
                           " bytes, the file has " + std::to_string(bytes.size() - 8));
  return std::pair(bytes.substr(8, length), bytes.substr(8 + length));
}

namespace {

/// Reads one entry of the header.
class EntryReader {
public:
  EntryReader(const std::string &label, const std::string &name, const Json &entry)
      : name(name), entry(entry), where(label + ": tensor " + printable(name, 200)) {}

  /// `data` is everything after the header; sets the tensor's view into it.
  Result<StoredTensor> read(std::string_view data) const {
    if (!entry.is_object())
      return fail("expected an object, got " + describe(entry));
    StoredTensor tensor;
    tensor.name = name;
    JsonFields fields(entry, where);
    Result<std::string> dtype = fields.string("dtype");
    if (!dtype)
      return dtype.error();
    std::optional<DType> known = dtypeFromSafetensors(*dtype);
    if (!known)
      return fail("unknown dtype " + printable(*dtype));
    tensor.dtype = *known;

    Result<std::vector<int64_t>> shape = integers("shape");
    if (!shape)
      return shape.error();
    tensor.shape = std::move(*shape);
    Result<std::vector<int64_t>> offsets = integers("data_offsets");
    if (!offsets)
      return offsets.error();
    if (offsets->size() != 2)
      return fail("data_offsets: expected 2 numbers, got " + std::to_string(offsets->size()));
    if (Status ok = locate(tensor, (*offsets)[0], (*offsets)[1], data); !ok)
      return ok.error();
    return tensor;
  }

private:
  Error fail(const std::string &message) const { return checkpointError(where + ": " + message); }

  Result<std::vector<int64_t>> integers(const char *key) const {
    auto it = entry.find(key);
    if (it == entry.end() || !it->is_array())
      return fail(std::string(key) + ": expected a list of integers");
    std::vector<int64_t> out;
    for (const Json &item : *it) {
      bool fits = item.is_number_integer() &&
                  !(item.is_number_unsigned() && item.get<uint64_t>() > uint64_t(INT64_MAX));
      if (!fits || item.get<int64_t>() < 0)
        return fail(std::string(key) + ": expected integers from 0 to 2^63-1, got " +
                    describe(item));
      out.push_back(item.get<int64_t>());
    }
    return out;
  }

  Status locate(StoredTensor &tensor, int64_t begin, int64_t end, std::string_view data) const {
    std::string range = "[" + std::to_string(begin) + ", " + std::to_string(end) + ")";
    if (begin > end)
      return fail("data_offsets " + range + " end before they begin");
    std::optional<uint64_t> bytes = tensorBytes(tensor.dtype, tensor.shape);
    if (!bytes)
      return fail("shape " + shapeText(tensor.shape) + " overflows 64 bits");
    if (*bytes != uint64_t(end - begin))
      return fail("shape " + shapeText(tensor.shape) + " of " +
                  std::string(safetensorsName(tensor.dtype)) + " needs " +
                  std::to_string(*bytes) + " bytes, data_offsets " + range + " give " +
                  std::to_string(end - begin));
    if (uint64_t(end) > data.size())
      return fail("data_offsets " + range + " reach beyond the " + std::to_string(data.size()) +
                  " bytes of data: the file is truncated or its header is wrong");
    tensor.data = data.substr(size_t(begin), size_t(end - begin));
    return {};
  }

  const std::string &name;
  const Json &entry;
  std::string where;
};

} // namespace

static Result<std::map<std::string, std::string>> readMetadata(const Json &value,
                                                               const std::string &label) {
  std::map<std::string, std::string> out;
  if (!value.is_object())
    return checkpointError(label + ": header: __metadata__: expected an object");
  for (const auto &[key, text] : value.items()) {
    if (!text.is_string())
      return checkpointError(label + ": header: __metadata__: expected strings, got " +
                             describe(text));
    out[key] = text.get<std::string>();
  }
  return out;
}

/// The tensors, sorted by position, must tile the data from its first byte to its last.
static Status checkCover(const std::vector<StoredTensor> &tensors, std::string_view data,
                         const std::string &label) {
  const char *expected = data.data();
  const StoredTensor *previous = nullptr;
  for (const StoredTensor &t : tensors) {
    if (t.data.data() < expected)
      return checkpointError(label + ": tensors " + printable(previous->name, 200) + " and " +
                             printable(t.name, 200) + " overlap");
    if (t.data.data() > expected)
      return checkpointError(label + ": " + std::to_string(t.data.data() - expected) +
                             " bytes before tensor " + printable(t.name, 200) +
                             " belong to no tensor");
    expected = t.data.data() + t.data.size();
    previous = &t;
  }
  if (size_t rest = size_t(data.data() + data.size() - expected))
    return checkpointError(label + ": the last " + std::to_string(rest) +
                           " bytes belong to no tensor");
  return {};
}

Result<SafetensorsContent> parseSafetensors(std::string_view bytes, const std::string &label) {
  auto parts = split(bytes, label);
  if (!parts)
    return parts.error();
  auto [headerText, data] = *parts;
  Result<Json> header = parseJson(headerText, label + ": header");
  if (!header)
    return header.error();
  if (!header->is_object())
    return checkpointError(label + ": header: expected an object, got " + describe(*header));

  SafetensorsContent content;
  content.tensors.reserve(header->size());
  for (const auto &[name, entry] : header->items()) {
    if (name == "__metadata__") {
      auto metadata = readMetadata(entry, label);
      if (!metadata)
        return metadata.error();
      content.metadata = std::move(*metadata);
      continue;
    }
    Result<StoredTensor> tensor = EntryReader(label, name, entry).read(data);
    if (!tensor)
      return tensor.error();
    content.tensors.push_back(std::move(*tensor));
  }
  // An empty tensor sorts before the one that begins at the same byte.
  std::sort(content.tensors.begin(), content.tensors.end(), [](const auto &a, const auto &b) {
    return std::tuple(a.data.data(), a.data.size()) < std::tuple(b.data.data(), b.data.size());
  });
  if (Status ok = checkCover(content.tensors, data, label); !ok)
    return ok.error();
  return content;
}

SafetensorsFile::SafetensorsFile(MappedFile file, SafetensorsContent content)
    : file(std::move(file)), content(std::move(content)) {
  byName.reserve(this->content.tensors.size());
  for (size_t i = 0; i < this->content.tensors.size(); ++i)
    byName.emplace(this->content.tensors[i].name, i);
}

Result<SafetensorsFile> SafetensorsFile::open(const std::string &path) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file)
    return file.error();
  Result<SafetensorsContent> content = parseSafetensors(file->bytes(), path);
  if (!content)
    return content.error();
  return SafetensorsFile(std::move(*file), std::move(*content));
}

const StoredTensor *SafetensorsFile::find(std::string_view name) const {
  auto it = byName.find(name);
  return it == byName.end() ? nullptr : &content.tensors[it->second];
}

} // namespace dsv3
