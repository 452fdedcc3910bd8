#include "passes/schedule/StepLayout.h"

namespace dsv3 {

std::vector<StepField> stepLayout(const codegen::Capacities &c) {
  using rt::Elem;
  std::vector<StepField> fields = {
      {"ids", DSV3_FIELD_IDS, Elem::I32, c.tokens, 0},
      {"next_ids", DSV3_FIELD_NEXT_IDS, Elem::I32, c.tokens, 0},
      {"token_seq", DSV3_FIELD_TOKEN_SEQ, Elem::I32, c.tokens, 0},
      {"token_pos", DSV3_FIELD_TOKEN_POS, Elem::I32, c.tokens, 0},
      {"token_slot", DSV3_FIELD_TOKEN_SLOT, Elem::I64, c.tokens, 0},
      {"q_start", DSV3_FIELD_Q_START, Elem::I32, c.seqs + 1, 0},
      {"ctx_len", DSV3_FIELD_CTX_LEN, Elem::I32, c.seqs, 0},
      {"block_table", DSV3_FIELD_BLOCK_TABLE, Elem::I32, c.seqs * c.pages, 0},
      {"logit_row", DSV3_FIELD_LOGIT_ROW, Elem::I32, c.seqs, 0},
      {"qblock", DSV3_FIELD_QBLOCK, Elem::I32, c.qblocks * 4, 0},
      {"kblock", DSV3_FIELD_KBLOCK, Elem::I32, c.kblocks * 2, 0},
      {"kblock_start", DSV3_FIELD_KBLOCK_START, Elem::I32, c.seqs + 1, 0},
      {"sampling", DSV3_FIELD_SAMPLING, Elem::I32, c.seqs * DSV3_SAMPLING_WORDS, 0},
  };
  static_assert(DSV3_FIELD_COUNT == 13, "a field was added: give it a row above");
  int64_t at = 0;
  for (StepField &f : fields) {
    f.offset = at;
    at = int64_t(llvm::alignTo(uint64_t(at + f.bytes()), 64));
  }
  return fields;
}

int64_t stepBytes(const std::vector<StepField> &fields) {
  return int64_t(llvm::alignTo(uint64_t(fields.back().offset + fields.back().bytes()), 64));
}

} // namespace dsv3
