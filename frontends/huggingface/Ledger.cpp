#include "frontends/huggingface/Ledger.h"

#include <algorithm>

namespace dsv3::hf {

std::string_view keyword(Ignored reason) {
  switch (reason) {
  case Ignored::RotaryInvFreq: return "rotary_inv_freq";
  case Ignored::CopyOf: return "copy_of";
  case Ignored::BeyondLayers: return "beyond_layers";
  case Ignored::SymmetricZero: return "symmetric_zero_points";
  case Ignored::GroupsInOrder: return "groups_in_order";
  case Ignored::ShapeAsNumbers: return "shape_as_numbers";
  case Ignored::ActivationScale: return "activation_scale";
  case Ignored::Unknown: return "unknown";
  }
  return "unknown";
}

Ledger::Ledger(const Checkpoint &checkpoint) {
  table.reserve(checkpoint.tensors().size());
  for (const CheckpointTensor &tensor : checkpoint.tensors())
    table.emplace_back().tensor = &tensor;
}

/// The rows are in the order of the checkpoint's tensors, which lie in one array.
static size_t rowOf(const std::vector<LedgerRow> &table, const CheckpointTensor &tensor) {
  return size_t(&tensor - table.front().tensor);
}

bool Ledger::isOpen(const CheckpointTensor &tensor) const {
  return table[rowOf(table, tensor)].use == LedgerRow::Use::None;
}

Result<LedgerRow *> Ledger::claim(const CheckpointTensor &tensor) {
  LedgerRow &row = table[rowOf(table, tensor)];
  if (row.use != LedgerRow::Use::None)
    return internalError("tensor " + tensor.name() + " is used twice" +
                         (row.site.empty() ? "" : ", before by " + row.site));
  return &row;
}

Status Ledger::use(const CheckpointTensor &tensor, LedgerRow::Use how, const std::string &site,
                   int64_t member) {
  Result<LedgerRow *> row = claim(tensor);
  if (!row)
    return row.error();
  (*row)->use = how;
  (*row)->site = site;
  (*row)->member = member;
  return {};
}

Status Ledger::ignore(const CheckpointTensor &tensor, Ignored reason, const std::string &other) {
  Result<LedgerRow *> row = claim(tensor);
  if (!row)
    return row.error();
  (*row)->use = LedgerRow::Use::Ignored;
  (*row)->reason = reason;
  (*row)->other = other;
  return {};
}

Status Ledger::verifyComplete() const {
  for (const LedgerRow &row : table)
    if (row.use == LedgerRow::Use::None)
      return internalError("tensor " + row.tensor->name() + " is neither used nor ignored");
  return {};
}

} // namespace dsv3::hf
