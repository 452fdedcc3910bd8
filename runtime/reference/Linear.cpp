#include "runtime/reference/Linear.h"

#include <algorithm>

namespace dsv3::reference {

namespace {

template <typename T> T dot(const T *a, const T *b, int64_t k) {
  T sum = 0;
  for (int64_t i = 0; i < k; ++i)
    sum += a[i] * b[i];
  return sum;
}

/// y[n] = sum_k w[n, k] x[k].
template <typename T> void matVec(const T *w, const T *x, T *y, int64_t n, int64_t k) {
  for (int64_t i = 0; i < n; ++i)
    y[i] = dot(w + i * k, x, k);
}

Shape withLast(Shape shape, int64_t last) {
  shape.back() = last;
  return shape;
}

} // namespace

template <typename T>
Result<Array<T>> embed(const Ids &ids, const Array<T> &table, int64_t from, int64_t vocab) {
  if (Status s = expectShape("embed", "ids", {-1}, ids.shape); !s)
    return s.error();
  if (Status s = expectShape("embed", "table", {-1, -1}, table.shape); !s)
    return s.error();
  int64_t shard = table.dim(0), dim = table.dim(1);
  int64_t limit = vocab ? vocab : shard;
  Array<T> y({ids.size(), dim});
  for (int64_t t = 0; t < ids.size(); ++t) {
    int64_t id = ids.data[t];
    if (id < 0 || id >= limit)
      return usageError("embed: expected ids below " + std::to_string(limit) + ", got " +
                        std::to_string(id) + " at position " + std::to_string(t));
    if (id >= from && id < from + shard)
      std::copy_n(table.row(id - from), dim, y.row(t));
  }
  return y;
}

template <typename T>
Result<Array<T>> linear(const Array<T> &x, const Array<T> &w, const Array<T> &bias) {
  if (Status s = expectShape("linear", "w", {-1, -1}, w.shape); !s)
    return s.error();
  int64_t n = w.dim(0), k = w.dim(1);
  if (Status s = expectCols("linear", "x", k, x.shape); !s)
    return s.error();
  if (bias.present())
    if (Status s = expectShape("linear", "bias", {n}, bias.shape); !s)
      return s.error();
  Array<T> y(withLast(x.shape, n));
  for (int64_t r = 0; r < x.rows(); ++r) {
    matVec(w.data.data(), x.row(r), y.row(r), n, k);
    for (int64_t i = 0; bias.present() && i < n; ++i)
      y.row(r)[i] += bias.data[i];
  }
  return y;
}

template <typename T> Result<Array<T>> batchedLinear(const Array<T> &x, const Array<T> &w) {
  if (Status s = expectShape("batched_linear", "w", {-1, -1, -1}, w.shape); !s)
    return s.error();
  int64_t heads = w.dim(0), n = w.dim(1), k = w.dim(2);
  if (Status s = expectShape("batched_linear", "x", {-1, heads, k}, x.shape); !s)
    return s.error();
  Array<T> y({x.dim(0), heads, n});
  for (int64_t r = 0; r < x.rows(); ++r)
    matVec(w.data.data() + (r % heads) * n * k, x.row(r), y.row(r), n, k);
  return y;
}

template <typename T>
Result<Array<T>> groupedLinear(const Array<T> &x, const Array<T> &w, const Ids &offsets) {
  if (Status s = expectShape("grouped_linear", "w", {-1, -1, -1}, w.shape); !s)
    return s.error();
  int64_t experts = w.dim(0), n = w.dim(1), k = w.dim(2);
  if (Status s = expectShape("grouped_linear", "x", {-1, k}, x.shape); !s)
    return s.error();
  if (Status s = expectShape("grouped_linear", "offsets", {experts + 1}, offsets.shape); !s)
    return s.error();
  const std::vector<int32_t> &off = offsets.data;
  if (off.front() != 0 || off.back() > x.dim(0) || !std::is_sorted(off.begin(), off.end()))
    return usageError("grouped_linear: expected offsets ascending from 0 to at most " +
                      std::to_string(x.dim(0)) + " rows, got " + std::to_string(off.front()) +
                      " to " + std::to_string(off.back()));
  Array<T> y({x.dim(0), n});
  for (int64_t e = 0; e < experts; ++e)
    for (int64_t r = off[e]; r < off[e + 1]; ++r)
      matVec(w.data.data() + e * n * k, x.row(r), y.row(r), n, k);
  return y;
}

template <typename T> Result<Array<T>> add(const Array<T> &a, const Array<T> &b) {
  if (Status s = expectShape("add", "b", a.shape, b.shape); !s)
    return s.error();
  if (!a.present())
    return usageError("add: expected an array, got none");
  Array<T> y = a;
  for (int64_t i = 0; i < y.size(); ++i)
    y.data[i] += b.data[i];
  return y;
}

template <typename T>
Result<std::vector<Array<T>>> split(const Array<T> &x, const std::vector<int64_t> &sizes) {
  int64_t total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  if (Status s = expectCols("split", "x", total, x.shape); !s)
    return s.error();
  std::vector<Array<T>> parts;
  int64_t from = 0;
  for (int64_t size : sizes) {
    Array<T> part(withLast(x.shape, size));
    for (int64_t r = 0; r < x.rows(); ++r)
      std::copy_n(x.row(r) + from, size, part.row(r));
    parts.push_back(std::move(part));
    from += size;
  }
  return parts;
}

template <typename T> Result<Array<T>> concat(const std::vector<Array<T>> &parts) {
  if (parts.empty() || !parts[0].present())
    return usageError("concat: expected at least one array, got none");
  int64_t total = 0;
  for (const Array<T> &part : parts) {
    Shape want = withLast(parts[0].shape, -1);
    if (Status s = expectShape("concat", "part", want, part.shape); !s)
      return s.error();
    total += part.cols();
  }
  Array<T> y(withLast(parts[0].shape, total));
  int64_t from = 0;
  for (const Array<T> &part : parts) {
    for (int64_t r = 0; r < part.rows(); ++r)
      std::copy_n(part.row(r), part.cols(), y.row(r) + from);
    from += part.cols();
  }
  return y;
}

template <typename T> Result<Array<T>> selectRows(const Array<T> &x, const Ids &rows) {
  if (!x.present())
    return usageError("select_rows: expected an array, got none");
  if (Status s = expectShape("select_rows", "rows", {-1}, rows.shape); !s)
    return s.error();
  Shape shape = x.shape;
  shape[0] = rows.size();
  int64_t stride = x.dim(0) ? x.size() / x.dim(0) : 0;
  Array<T> y(shape);
  for (int64_t s = 0; s < rows.size(); ++s) {
    int64_t r = rows.data[s];
    if (r < -1 || r >= x.dim(0))
      return usageError("select_rows: expected rows below " + std::to_string(x.dim(0)) + ", got " +
                        std::to_string(r));
    if (r >= 0)
      std::copy_n(x.data.data() + r * stride, stride, y.data.data() + s * stride);
  }
  return y;
}

#define DSV3_INSTANTIATE(T)                                                                        \
  template Result<Array<T>> embed(const Ids &, const Array<T> &, int64_t, int64_t);                \
  template Result<Array<T>> linear(const Array<T> &, const Array<T> &, const Array<T> &);          \
  template Result<Array<T>> batchedLinear(const Array<T> &, const Array<T> &);                     \
  template Result<Array<T>> groupedLinear(const Array<T> &, const Array<T> &, const Ids &);        \
  template Result<Array<T>> add(const Array<T> &, const Array<T> &);                               \
  template Result<std::vector<Array<T>>> split(const Array<T> &, const std::vector<int64_t> &);    \
  template Result<Array<T>> concat(const std::vector<Array<T>> &);                                 \
  template Result<Array<T>> selectRows(const Array<T> &, const Ids &);
DSV3_INSTANTIATE(float)
DSV3_INSTANTIATE(double)
#undef DSV3_INSTANTIATE

} // namespace dsv3::reference
