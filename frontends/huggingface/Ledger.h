// The weight ledger: every tensor of a checkpoint is used once, or ignored for a reason.
#pragma once

#include "frontends/huggingface/Checkpoint.h"
#include "runtime/core/Result.h"

#include <string>
#include <string_view>
#include <vector>

namespace dsv3::hf {

/// Why a tensor is not used. A closed list: a new reason is a decision, not a string.
enum class Ignored {
  RotaryInvFreq, ///< rotary frequencies are computed from config.json
  CopyOf,        ///< the same bytes as another tensor, which is used instead
  BeyondLayers,  ///< of a layer that config.json does not have
  SymmetricZero, ///< zero points that all stand for 0
  GroupsInOrder, ///< an index of groups that follow each other
  ShapeAsNumbers, ///< the shape of a packed weight, which config.json gives as well
  ActivationScale, ///< of activations, whose scales are computed from their values
  Unknown,       ///< not part of this architecture
};

/// "rotary_inv_freq", "copy_of", "beyond_layers", ... "unknown".
std::string_view keyword(Ignored reason);

struct LedgerRow {
  enum class Use { None, Data, Scale, Zero, Index, Ignored };

  const CheckpointTensor *tensor = nullptr;
  Use use = Use::None;
  std::string site;                 ///< the weight's, when used
  int64_t member = 0;               ///< which of a stacked weight
  Ignored reason = Ignored::Unknown; ///< when ignored
  std::string other;                ///< for CopyOf: the tensor used instead
};

class Ledger {
public:
  Ledger() = default;
  /// One open row per tensor, sorted by name. The checkpoint must outlive the ledger.
  explicit Ledger(const Checkpoint &checkpoint);

  /// Internal error when the tensor already has a row: our own tables overlap.
  Status use(const CheckpointTensor &tensor, LedgerRow::Use how, const std::string &site,
             int64_t member);
  Status ignore(const CheckpointTensor &tensor, Ignored reason, const std::string &other = "");

  const std::vector<LedgerRow> &rows() const { return table; }
  bool isOpen(const CheckpointTensor &tensor) const;
  /// Internal error that names a tensor without a row.
  Status verifyComplete() const;

private:
  Result<LedgerRow *> claim(const CheckpointTensor &tensor);

  std::vector<LedgerRow> table;
};

} // namespace dsv3::hf
