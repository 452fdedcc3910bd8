#include "runtime/core/DummyFill.h"

#include "runtime/core/DummyRow.h"

#include <algorithm>
#include <array>

namespace dsv3 {

namespace {
uint64_t bitsOf(double x) {
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

std::string memberName(std::string name, int64_t member) {
  if (size_t at = name.find("{}"); at != name.npos)
    name.replace(at, 2, std::to_string(member));
  return name;
}

/// Draws the elements of one tensor.
class Source {
public:
  Source(const DummyFill &fill, int64_t member)
      : fill(fill), data(memberName(fill.tensor, member)), scales(memberName(fill.scale, member)),
        gridCols((fill.cols + fill.blockCols - 1) / fill.blockCols) {}

  /// The element as a number of type `elem`, or the code.
  void write(int64_t row, int64_t col, uint8_t *to) const {
    uint64_t i = uint64_t(row * fill.cols + col), block = uint64_t(row / fill.blockRows * gridCols + col / fill.blockCols);
    float value = 0;
    switch (fill.kind) {
    case DummyFill::Kind::Codes:
      *to = DummyTensor::code(data, i);
      return;
    case DummyFill::Kind::Plain: value = fill.spread.plain(data, i, fill.stored); break;
    case DummyFill::Kind::Dequantised:
      value = roundTo(fill.stored, e4m3ToFloat(DummyTensor::code(data, i)) * fill.spread.scale(scales, block));
      break;
    case DummyFill::Kind::Scales: value = fill.spread.scale(scales, block); break;
    }
    convertFromFloat(fill.elem, &value, 1, to);
  }

  /// What the elements of columns [col, col + n) mean.
  void numbers(int64_t row, int64_t col, int64_t n, double *out) const {
    uint64_t first = uint64_t(row * fill.cols + col);
    std::vector<float> values(static_cast<size_t>(n));
    if (fill.kind == DummyFill::Kind::Plain) {
      drawNormals(data, first, n, values.data());
      for (int64_t i = 0; i < n; ++i) {
        float x = fill.spread.deviation * values[size_t(i)];
        float stored = roundTo(fill.stored, fill.spread.mean + x);
        out[i] = double(roundTo(fill.elem, stored));
      }
      return;
    }
    drawCodeValues(data, first, n, values.data());
    for (int64_t i = 0; i < n;) {
      int64_t end = std::min(n, ((col + i) / fill.blockCols + 1) * fill.blockCols - col);
      float scale = fill.spread.scale(scales, uint64_t(row / fill.blockRows * gridCols + (col + i) / fill.blockCols));
      for (; i < end; ++i)
        out[i] = fill.kind == DummyFill::Kind::Codes ? double(values[size_t(i)]) * double(scale)
                                                     : double(roundTo(fill.elem, roundTo(fill.stored, values[size_t(i)] * scale)));
    }
  }

  /// What the element means.
  double number(int64_t row, int64_t col) const {
    if (fill.kind != DummyFill::Kind::Codes) {
      uint8_t bytes[4];
      write(row, col, bytes);
      return loadAsFloat(fill.elem, bytes, 0);
    }
    uint64_t block = uint64_t(row / fill.blockRows * gridCols + col / fill.blockCols);
    return double(e4m3ToFloat(DummyTensor::code(data, uint64_t(row * fill.cols + col)))) * double(fill.spread.scale(scales, block));
  }

private:
  const DummyFill &fill;
  Dummy data, scales;
  int64_t gridCols;
};
} // namespace

int64_t DummyFill::rows() const {
  int64_t n = 1;
  for (size_t d = 0; d + 1 < dims.size(); ++d)
    n *= dims[d].count;
  return n;
}

uint64_t DummyFill::elements() const { return uint64_t(rows()) * uint64_t(dims.back().count); }

uint64_t DummyFill::end() const {
  unsigned __int128 last = 0; // a damaged manifest may name any stride
  for (const Term &t : terms) {
    const Dim &d = dims[size_t(t.dim)];
    last += static_cast<unsigned __int128>(std::min(d.last() / t.div, t.mod - 1)) * uint64_t(t.stride);
  }
  unsigned __int128 end = offset + (last + 1) * byteSize(elem);
  return end > std::numeric_limits<uint64_t>::max() ? std::numeric_limits<uint64_t>::max() : uint64_t(end);
}

/// One run: what its elements have in common.
struct DummyFill::Run {
  const DummyFill &fill;
  Source source;
  int64_t row, col, place;

  int64_t index(int64_t j) const { return fill.dims.back().first + fill.dims.back().step * j; }
  int64_t rowOf(int64_t j) const { return row + fill.dims.back().rowStride * index(j); }
  int64_t colOf(int64_t j) const { return col + fill.dims.back().colStride * index(j); }
  uint64_t placeOf(int64_t j) const {
    int64_t at = place, last = int64_t(fill.dims.size()) - 1;
    for (const Term &t : fill.terms)
      if (t.dim == last)
        at += index(j) / t.div % t.mod * t.stride;
    return fill.offset + uint64_t(at) * byteSize(fill.elem);
  }
};

DummyFill::Run DummyFill::at(int64_t run) const {
  size_t last = dims.size() - 1;
  std::array<int64_t, kMaxDims> index{};
  int64_t r = row, c = col, place = 0;
  for (size_t d = last; d-- > 0; run /= dims[d].count) {
    index[d] = dims[d].first + dims[d].step * (run % dims[d].count);
    r += dims[d].rowStride * index[d];
    c += dims[d].colStride * index[d];
  }
  for (const Term &t : terms)
    if (size_t(t.dim) != last)
      place += index[size_t(t.dim)] / t.div % t.mod * t.stride;
  return {*this, Source(*this, memberDim < 0 ? 0 : memberFirst + index[size_t(memberDim)]), r, c, place};
}

void DummyFill::run(int64_t from, int64_t to, uint8_t *pool) const {
  for (int64_t i = from; i < to; ++i) {
    Run run = at(i);
    for (int64_t j = 0; j < dims.back().count; ++j)
      run.source.write(run.rowOf(j), run.colOf(j), pool + run.placeOf(j));
  }
}

uint64_t DummyFill::element(int64_t run, int64_t j, uint8_t *bytes) const {
  Run one = at(run);
  one.source.write(one.rowOf(j), one.colOf(j), bytes);
  return one.placeOf(j);
}

int64_t DummyFill::runAt(const std::vector<int64_t> &index) const {
  int64_t run = 0;
  for (size_t d = 0; d + 1 < dims.size(); ++d) {
    int64_t j = index[d] - dims[d].first;
    if (j < 0 || j % dims[d].step != 0 || j / dims[d].step >= dims[d].count)
      return -1;
    run = run * dims[d].count + j / dims[d].step;
  }
  return run;
}

void DummyFill::numbers(int64_t run, double *out) const {
  Run one = at(run);
  const Dim &inner = dims.back();
  if (kind != Kind::Scales && inner.rowStride == 0 && inner.colStride == 1 && inner.step == 1)
    return one.source.numbers(one.row, one.colOf(0), inner.count, out);
  for (int64_t j = 0; j < inner.count; ++j)
    out[j] = one.source.number(one.rowOf(j), one.colOf(j));
}

std::vector<int64_t> DummyFill::words() const {
  std::vector<int64_t> w(size_t(kFillKeys), 0);
  int64_t shift = int64_t(kMaxDims - dims.size()), last = int64_t(dims.size()) - 1;
  auto typeCode = [](DType t) { return t == DType::F32 ? 0 : t == DType::BF16 ? 1 : 2; };
  w[kFillKind] = int64_t(kind), w[kFillStored] = typeCode(stored), w[kFillElem] = typeCode(elem);
  w[kFillMean] = floatBits(spread.mean), w[kFillDeviation] = floatBits(spread.deviation);
  w[kFillScaleBase] = int64_t(bitsOf(spread.scaleBase)), w[kFillPowers] = spread.powersOfTwo;
  w[kFillMemberDim] = memberDim < 0 ? -1 : memberDim + shift;
  w[kFillRow] = row, w[kFillCol] = col, w[kFillCols] = cols;
  w[kFillBlockRows] = blockRows, w[kFillBlockCols] = blockCols, w[kFillGridCols] = (cols + blockCols - 1) / blockCols;
  w[kFillOffset] = int64_t(offset);
  for (int64_t d = 0; d < int64_t(kMaxDims); ++d) {
    Dim dim = d < shift ? Dim() : dims[size_t(d - shift)];
    int64_t fields[] = {dim.first, dim.step, dim.count, dim.rowStride, dim.colStride};
    std::copy(std::begin(fields), std::end(fields), w.begin() + kFillDims + 5 * d);
  }
  auto at = w.begin() + kFillTerms;
  for (bool inner : {false, true})
    for (const Term &t : terms)
      if ((t.dim == last) == inner) {
        int64_t fields[] = {t.dim + shift, t.div, t.mod, t.stride};
        at = std::copy(std::begin(fields), std::end(fields), at);
        ++w[inner ? kFillInnerTerms : kFillOuterTerms];
      }
  int64_t members = memberDim < 0 ? 1 : dims[size_t(memberDim)].last() + 1;
  for (const std::string *name : {&tensor, &scale}) {
    if (name == &scale)
      w[kFillScaleKeys] = int64_t(w.size());
    for (int64_t m = 0; m < members; ++m)
      w.push_back(int64_t(Dummy(memberName(*name, memberFirst + m)).key()));
  }
  return w;
}

//===-- JSON --------------------------------------------------------------===//

static constexpr const char *kKinds[] = {"plain", "codes", "dequantised", "scales"};

OrderedJson toJson(const DummyFill &f) {
  OrderedJson json = {{"kind", kKinds[size_t(f.kind)]}, {"tensor", f.tensor}};
  if (!f.scale.empty())
    json["scale"] = f.scale;
  if (f.memberDim >= 0)
    json["members"] = {f.memberDim, f.memberFirst};
  json["stored"] = safetensorsName(f.stored);
  json["elem"] = safetensorsName(f.elem);
  json["spread"] = {double(f.spread.mean), double(f.spread.deviation), f.spread.scaleBase, f.spread.powersOfTwo ? 1 : 0};
  json["tensor_cols"] = f.cols;
  json["block"] = {f.blockRows, f.blockCols};
  json["start"] = {f.row, f.col};
  json["dims"] = OrderedJson::array();
  for (const DummyFill::Dim &d : f.dims)
    json["dims"].push_back({d.first, d.step, d.count, d.rowStride, d.colStride});
  json["offset"] = f.offset;
  json["terms"] = OrderedJson::array();
  for (const DummyFill::Term &t : f.terms)
    json["terms"].push_back({t.dim, t.div, t.mod, t.stride});
  return json;
}

namespace {
constexpr int64_t kMost = int64_t(1) << 48;

/// Reads lists of numbers and keeps the first error.
struct Lists {
  const JsonFields &fields;
  std::optional<Error> error;

  void fail(Error e) {
    if (!error)
      error = std::move(e);
  }
  template <typename T> void take(Result<T> value, T &out) {
    if (value)
      out = std::move(*value);
    else
      fail(value.error());
  }
  bool integers(const Json &list, size_t n, int64_t *out) {
    if (!list.is_array() || list.size() != n)
      return false;
    for (size_t i = 0; i < n; ++i) {
      if (!list[i].is_number_integer() || list[i] < -kMost || list[i] > kMost)
        return false;
      out[i] = list[i].get<int64_t>();
    }
    return true;
  }
  void row(const char *key, size_t n, int64_t *out) {
    const Json *list = fields.find(key);
    if (!list || !integers(*list, n, out))
      fail(fields.wrong(key, std::to_string(n) + " integers"));
  }
  template <typename T> void rows(const char *key, size_t n, size_t most, std::vector<T> &out) {
    static_assert(sizeof(T) % sizeof(int64_t) == 0);
    const Json *list = fields.find(key);
    if (!list || !list->is_array() || list->empty() || list->size() > most)
      return fail(fields.wrong(key, "1 to " + std::to_string(most) + " lists"));
    for (const Json &one : *list)
      if (out.emplace_back(); !integers(one, n, reinterpret_cast<int64_t *>(&out.back())))
        return fail(fields.wrong(key, "lists of " + std::to_string(n) + " integers"));
  }
};

/// What `run` relies on.
const char *faultOf(const DummyFill &f) {
  int64_t rank = int64_t(f.dims.size());
  for (const DummyFill::Dim &d : f.dims)
    if (d.first < 0 || d.step < 1 || d.count < 1 || d.first > DummyFill::kMostIndex || d.count > DummyFill::kMostIndex || d.step > DummyFill::kMostIndex ||
        d.last() > DummyFill::kMostIndex)
      return "dims";
  int64_t elements = 1; // a pool has no more of them, and `rows` must not overflow
  for (const DummyFill::Dim &d : f.dims)
    if ((elements = d.count > kMost / elements ? kMost + 1 : elements * d.count) > kMost)
      return "dims";
  for (const DummyFill::Term &t : f.terms)
    if (t.dim < 0 || t.dim >= rank || t.div < 1 || t.mod < 1 || t.div > DummyFill::kMostIndex || t.mod > DummyFill::kMostIndex || t.stride < 0)
      return "terms";
  if (f.blockRows < 1 || f.blockCols < 1)
    return "block";
  if (f.memberDim < -1 || f.memberDim >= rank - 1 || f.memberFirst < 0 || f.memberFirst > DummyFill::kMostMembers)
    return "members";
  if (f.memberDim >= 0 && f.dims[size_t(f.memberDim)].last() >= DummyFill::kMostMembers) // `words` has a key for each
    return "members";
  if ((f.kind == DummyFill::Kind::Codes) != (f.elem == DType::F8E4M3) || (f.elem != DType::F8E4M3 && f.elem != DType::F32 && f.elem != DType::BF16))
    return "elem";
  return f.stored == DType::F32 || f.stored == DType::BF16 ? nullptr : "stored";
}
} // namespace

Result<DummyFill> dummyFillFromJson(const JsonFields &fields) {
  DummyFill f;
  Lists r{fields, {}};
  std::string kind, stored, elem;
  int64_t member[2] = {-1, 0}, start[2] = {}, block[2] = {1, 1}, offset = 0;
  r.take(fields.string("kind"), kind);
  r.take(fields.string("tensor"), f.tensor);
  r.take(fields.stringOr("scale", ""), f.scale);
  r.take(fields.string("stored"), stored);
  r.take(fields.string("elem"), elem);
  if (fields.has("members"))
    r.row("members", 2, member);
  r.take(fields.integer("tensor_cols", 1, kMost), f.cols);
  r.take(fields.integer("offset", 0, kMost), offset);
  r.row("block", 2, block);
  r.row("start", 2, start);
  r.rows("dims", 5, DummyFill::kMaxDims, f.dims);
  r.rows("terms", 4, DummyFill::kMaxTerms, f.terms);
  const Json *spread = fields.find("spread");
  if (!spread || !spread->is_array() || spread->size() != 4 || !std::all_of(spread->begin(), spread->end(), [](const Json &x) { return x.is_number(); }))
    r.fail(fields.wrong("spread", "4 numbers"));
  else
    f.spread = {(*spread)[0].get<float>(), (*spread)[1].get<float>(), (*spread)[2].get<double>(), (*spread)[3].get<double>() != 0};
  auto named = std::find(std::begin(kKinds), std::end(kKinds), kind);
  if (named == std::end(kKinds))
    r.fail(fields.wrong("kind", "plain, codes, dequantised or scales"));
  f.kind = DummyFill::Kind(named - std::begin(kKinds));
  f.stored = dtypeFromSafetensors(stored).value_or(DType::BOOL);
  f.elem = dtypeFromSafetensors(elem).value_or(DType::BOOL);
  f.memberDim = member[0], f.memberFirst = member[1];
  f.row = start[0], f.col = start[1], f.blockRows = block[0], f.blockCols = block[1], f.offset = uint64_t(offset);
  if (r.error)
    return *r.error;
  if (const char *fault = faultOf(f))
    return fields.wrong(fault, "what can be drawn");
  return f;
}

} // namespace dsv3
