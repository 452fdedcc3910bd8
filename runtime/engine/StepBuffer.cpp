#include "runtime/engine/StepBuffer.h"

#include "runtime/engine/ModuleCheck.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace dsv3 {

StepBuffer::StepBuffer(const dsv3_module_desc &module, uint8_t *memory) : module(module), memory(memory) {
  for (uint32_t kind = 0; kind < DSV3_FIELD_COUNT; ++kind)
    offsets[kind] = findField(module, kind)->offset;
}

template <typename T> T *StepBuffer::field(uint32_t kind) const {
  return reinterpret_cast<T *>(memory + offsets[kind]);
}

void StepBuffer::fillRows(const StepItem &item, int32_t index, int64_t row) {
  const Sequence &s = *item.sequence;
  int64_t page = module.kv_page_tokens;
  for (int64_t i = 0; i < item.rows; ++i) {
    int64_t position = item.start + i;
    field<int32_t>(DSV3_FIELD_IDS)[row + i] = s.tokens[position];
    field<int32_t>(DSV3_FIELD_TOKEN_SEQ)[row + i] = index;
    field<int32_t>(DSV3_FIELD_TOKEN_POS)[row + i] = static_cast<int32_t>(position);
    field<int64_t>(DSV3_FIELD_TOKEN_SLOT)[row + i] = s.pages[position / page] * page + position % page;
  }
}

void StepBuffer::fillSequence(const StepItem &item, int32_t index, int64_t row) {
  field<int32_t>(DSV3_FIELD_Q_START)[index] = static_cast<int32_t>(row);
  field<int32_t>(DSV3_FIELD_CTX_LEN)[index] = static_cast<int32_t>(item.start + item.rows);
  field<int32_t>(DSV3_FIELD_LOGIT_ROW)[index] = static_cast<int32_t>(row + item.rows - 1);
  setSampling(index, {});
  int32_t *table = field<int32_t>(DSV3_FIELD_BLOCK_TABLE) + int64_t(index) * module.max_pages;
  const std::vector<int32_t> &pages = item.sequence->pages;
  std::fill(std::copy(pages.begin(), pages.end(), table), table + module.max_pages, 0);
}

int64_t StepBuffer::fillQueryTiles(const StepItem &item, int32_t index, int64_t row, int64_t at) {
  int32_t *tiles = field<int32_t>(DSV3_FIELD_QBLOCK);
  for (int64_t done = 0; done < item.rows; ++at) {
    int64_t rows = std::min(item.rows - done, kQueryTile - (item.start + done) % kQueryTile);
    int32_t entry[4] = {index, static_cast<int32_t>(row + done), static_cast<int32_t>(rows), 0};
    std::copy(entry, entry + 4, tiles + at * 4);
    done += rows;
  }
  return at;
}

int64_t StepBuffer::fillKeyBlocks(const StepItem &item, int32_t index, int64_t at) {
  int32_t *blocks = field<int32_t>(DSV3_FIELD_KBLOCK);
  field<int32_t>(DSV3_FIELD_KBLOCK_START)[index] = static_cast<int32_t>(at);
  for (int64_t block = 0; block < keyBlocks(item.start + item.rows); ++block, ++at) {
    blocks[at * 2] = index;
    blocks[at * 2 + 1] = static_cast<int32_t>(block);
  }
  return at;
}

void StepBuffer::pad(const dsv3_program_desc &program, int64_t rows, int64_t seqs, int64_t kblocks) {
  // Kernels stop at the true counts. Rows of the padding must be harmless all the same:
  // a kernel may compute them in a full tile, and it must not store them.
  for (int64_t row = rows; row < program.tokens; ++row) {
    field<int32_t>(DSV3_FIELD_IDS)[row] = 0;
    field<int32_t>(DSV3_FIELD_NEXT_IDS)[row] = 0;
    field<int32_t>(DSV3_FIELD_TOKEN_SEQ)[row] = 0;
    field<int32_t>(DSV3_FIELD_TOKEN_POS)[row] = 0;
    field<int64_t>(DSV3_FIELD_TOKEN_SLOT)[row] = -1;
  }
  for (int64_t s = seqs; s < program.seqs; ++s) {
    field<int32_t>(DSV3_FIELD_CTX_LEN)[s] = 0;
    field<int32_t>(DSV3_FIELD_LOGIT_ROW)[s] = 0;
  }
  for (int64_t s = seqs; s <= program.seqs; ++s) {
    field<int32_t>(DSV3_FIELD_Q_START)[s] = static_cast<int32_t>(rows);
    field<int32_t>(DSV3_FIELD_KBLOCK_START)[s] = static_cast<int32_t>(kblocks);
  }
}

void StepBuffer::setSampling(int64_t index, const dsv3_sampling &how) {
  static_assert(sizeof how == DSV3_SAMPLING_WORDS * 4 && sizeof(dsv3_sampled) == DSV3_SAMPLED_WORDS * 4);
  std::memcpy(field<int32_t>(DSV3_FIELD_SAMPLING) + index * DSV3_SAMPLING_WORDS, &how, sizeof how);
}

dsv3_step_host StepBuffer::fill(const dsv3_program_desc &program, const std::vector<StepItem> &items) {
  assert(fitsStep(program, items) && "the plan respects the capacities");
  int64_t row = 0, qblocks = 0, kblocks = 0;
  int32_t index = 0;
  for (const StepItem &item : items) {
    fillRows(item, index, row);
    fillSequence(item, index, row);
    if (program.qblocks)
      qblocks = fillQueryTiles(item, index, row, qblocks);
    if (program.kblocks)
      kblocks = fillKeyBlocks(item, index, kblocks);
    row += item.rows;
    ++index;
  }
  pad(program, row, index, kblocks);
  dsv3_step_host step{};
  step.scalars[DSV3_SCALAR_TOKENS] = row;
  step.scalars[DSV3_SCALAR_SEQS] = index;
  step.scalars[DSV3_SCALAR_QBLOCKS] = qblocks;
  step.scalars[DSV3_SCALAR_KBLOCKS] = kblocks;
  return step;
}

dsv3_step_host StepBuffer::fillMtp(const dsv3_program_desc &program, const std::vector<StepItem> &items) {
  dsv3_step_host step = fill(program, items);
  int64_t row = 0;
  for (const StepItem &item : items) {
    const std::vector<int32_t> &tokens = item.sequence->tokens;
    for (int64_t i = item.start; i < item.start + item.rows; ++i, ++row) {
      bool last = i + 1 == static_cast<int64_t>(tokens.size());
      field<int32_t>(DSV3_FIELD_NEXT_IDS)[row] = last ? 0 : tokens[i + 1];
      if (last)
        field<int64_t>(DSV3_FIELD_TOKEN_SLOT)[row] = -1;
    }
  }
  return step;
}

} // namespace dsv3
