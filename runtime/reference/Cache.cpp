#include "runtime/reference/Cache.h"

#include <algorithm>
#include <map>

namespace dsv3::reference {

void SeqMeta::addSequence(int64_t past, int64_t count, std::vector<int32_t> pages) {
  int32_t s = int32_t(seqs());
  if (qStart.empty())
    qStart.push_back(0);
  for (int64_t i = 0; i < count; ++i) {
    tokenSeq.push_back(s);
    tokenPos.push_back(int32_t(past + i));
  }
  qStart.push_back(int32_t(tokens()));
  ctxLen.push_back(int32_t(past + count));
  blockTable.push_back(std::move(pages));
}

static std::string ofSequence(const char *what, int64_t s) {
  return std::string("seq: expected ") + what + " of sequence " + std::to_string(s);
}

/// The rows qStart[s] .. qStart[s+1]-1 belong to s and end at its context length.
static Status verifyRows(const SeqMeta &m, int64_t s) {
  int64_t from = m.qStart[s], to = m.qStart[s + 1];
  if (from > to || from < 0 || to > m.tokens() || to - from > m.ctxLen[s])
    return usageError(ofSequence("rows", s) + " inside " + std::to_string(m.tokens()) +
                      " tokens and within its context length " + std::to_string(m.ctxLen[s]) +
                      ", got " + std::to_string(from) + " to " + std::to_string(to));
  for (int64_t t = from; t < to; ++t)
    if (m.tokenSeq[t] != s || m.tokenPos[t] != m.ctxLen[s] - (to - t))
      return usageError(ofSequence("row", s) + " at position " +
                        std::to_string(m.ctxLen[s] - (to - t)) + ", got sequence " +
                        std::to_string(m.tokenSeq[t]) + " position " +
                        std::to_string(m.tokenPos[t]));
  return {};
}

static Status verifyPages(const SeqMeta &m, int64_t s, int64_t pagesInPool) {
  int64_t need = (m.ctxLen[s] + kPageTokens - 1) / kPageTokens;
  if (int64_t(m.blockTable[s].size()) < need)
    return usageError(ofSequence("block table", s) + " to hold " + std::to_string(need) +
                      " pages, got " + std::to_string(m.blockTable[s].size()));
  for (int64_t p = 0; p < need; ++p)
    if (m.blockTable[s][p] < 0 || m.blockTable[s][p] >= pagesInPool)
      return usageError(ofSequence("pages", s) + " below " + std::to_string(pagesInPool) +
                        ", got " + std::to_string(m.blockTable[s][p]));
  return {};
}

Status SeqMeta::verify(int64_t pagesInPool) const {
  if (tokenPos.size() != tokenSeq.size() || blockTable.size() != ctxLen.size() ||
      qStart.size() != ctxLen.size() + 1)
    return usageError("seq: expected token_pos[T], block_table[S] and q_start[S+1], got T " +
                      std::to_string(tokenSeq.size()) + ", S " + std::to_string(ctxLen.size()) +
                      " and sizes " + std::to_string(tokenPos.size()) + ", " +
                      std::to_string(blockTable.size()) + ", " + std::to_string(qStart.size()));
  std::map<int32_t, int64_t> writer; // page -> sequence that writes to it
  for (int64_t s = 0; s < seqs(); ++s) {
    if (Status st = verifyRows(*this, s); !st)
      return st;
    if (Status st = verifyPages(*this, s, pagesInPool); !st)
      return st;
    for (int64_t t = qStart[s]; t < qStart[s + 1]; ++t) {
      int32_t page = blockTable[s][tokenPos[t] / kPageTokens];
      if (writer.emplace(page, s).first->second != s)
        return usageError(ofSequence("its own page", s) + " to write to, got page " +
                          std::to_string(page) + " of sequence " + std::to_string(writer[page]));
    }
  }
  for (int64_t t = qStart.back(); t < tokens(); ++t)
    if (tokenSeq[t] != -1 || tokenPos[t] != -1)
      return usageError("seq: expected sequence and position -1 in padded row " +
                        std::to_string(t) + ", got " + std::to_string(tokenSeq[t]) + " and " +
                        std::to_string(tokenPos[t]));
  return {};
}

template <typename T>
Cache<T>::Cache(int64_t layers, int64_t pages, std::vector<int64_t> fields, CacheStorage storage)
    : numLayers(layers), numPages(pages),
      rowWidth(std::accumulate(fields.begin(), fields.end(), int64_t{0})),
      fieldWidths(std::move(fields)), rowStorage(storage),
      data(layers * pages * kPageTokens * rowWidth) {}

template <typename T> const T *Cache<T>::row(int64_t layer, int64_t page, int64_t slot) const {
  return data.data() + ((layer * numPages + page) * kPageTokens + slot) * rowWidth;
}

template <typename T> T *Cache<T>::row(int64_t layer, int64_t page, int64_t slot) {
  return data.data() + ((layer * numPages + page) * kPageTokens + slot) * rowWidth;
}

static Status verifyLayer(const char *op, int64_t layer, int64_t layers) {
  if (layer >= 0 && layer < layers)
    return {};
  return usageError(std::string(op) + ": expected a layer below " + std::to_string(layers) +
                    ", got " + std::to_string(layer));
}

/// What the cache holds of a row's field; the first is quantised where the storage says so.
template <typename T>
static Result<Array<T>> stored(Array<T> field, bool first, const CacheStorage &storage) {
  roundTo(storage.element, field);
  if (!first || !storage.scheme)
    return field;
  Result<Quantized<T>> q = quantize(field, *storage.scheme);
  if (!q)
    return q.error();
  return dequantize(*q);
}

template <typename T>
Status kvAppend(Cache<T> &cache, int64_t layer, const std::vector<Array<T>> &fields,
                const SeqMeta &seq) {
  if (Status s = verifyLayer("kv_append", layer, cache.layers()); !s)
    return s;
  if (Status s = seq.verify(cache.pages()); !s)
    return s;
  if (fields.size() != cache.fields().size())
    return usageError("kv_append: expected " + std::to_string(cache.fields().size()) +
                      " fields, got " + std::to_string(fields.size()));
  for (size_t f = 0; f < fields.size(); ++f)
    if (Status s = expectShape("kv_append", "field", {seq.tokens(), cache.fields()[f]},
                               fields[f].shape);
        !s)
      return s;
  for (int64_t t = 0; t < seq.qStart.back(); ++t) {
    int64_t pos = seq.tokenPos[t];
    int64_t page = seq.blockTable[seq.tokenSeq[t]][pos / kPageTokens];
    T *to = cache.row(layer, page, pos % kPageTokens);
    for (size_t f = 0; f < fields.size(); ++f) {
      Array<T> row({1, fields[f].cols()});
      std::copy_n(fields[f].row(t), row.cols(), row.data.data());
      Result<Array<T>> kept = stored(std::move(row), f == 0, cache.storage());
      if (!kept)
        return kept.error();
      to = std::copy_n(kept->data.data(), kept->cols(), to);
    }
  }
  return {};
}

template <typename T>
Result<Array<T>> gatherRows(const Cache<T> &cache, int64_t layer, const SeqMeta &seq, int64_t s,
                            CacheReader reader) {
  if (Status st = verifyLayer("gather_rows", layer, cache.layers()); !st)
    return st.error();
  if (s < 0 || s >= seq.seqs())
    return usageError("gather_rows: expected a sequence below " + std::to_string(seq.seqs()) +
                      ", got " + std::to_string(s));
  if (Status st = verifyPages(seq, s, cache.pages()); !st)
    return st.error();
  Array<T> rows({seq.ctxLen[s], cache.width()});
  for (int64_t j = 0; j < rows.dim(0); ++j)
    std::copy_n(cache.row(layer, seq.blockTable[s][j / kPageTokens], j % kPageTokens),
                cache.width(), rows.row(j));
  if (cache.storage().scheme && reader == CacheReader::Numbers)
    for (int64_t j = 0; j < rows.dim(0); ++j)
      for (int64_t i = 0; i < cache.fields()[0]; ++i)
        rows.row(j)[i] = roundTo(cache.storage().element, rows.row(j)[i]);
  return rows;
}

#define DSV3_INSTANTIATE(T)                                                                        \
  template class Cache<T>;                                                                         \
  template Status kvAppend(Cache<T> &, int64_t, const std::vector<Array<T>> &, const SeqMeta &);   \
  template Result<Array<T>> gatherRows(const Cache<T> &, int64_t, const SeqMeta &, int64_t,        \
                                       CacheReader);
DSV3_INSTANTIATE(float)
DSV3_INSTANTIATE(double)
#undef DSV3_INSTANTIATE

} // namespace dsv3::reference
