// Guided output: answers that are JSON, or JSON of a schema.
//
//   auto vocabulary = Vocabulary::create(tokenizer, endIds);             // once per model
//   Guides guides(*vocabulary);                                          // once; used by any thread
//   auto guide = guides.schema(text);                                    // per request: compiled, or one made before
//   request.constraint = std::make_shared<GuidedConstraint>(*guide, endIds, reasoning);
//
// A request that is guided must have end ids: ignore_eos and a guide contradict each other.
#pragma once

#include "runtime/engine/TokenConstraint.h"
#include "runtime/guided/CallGrammar.h"
#include "runtime/guided/Vocabulary.h"

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace dsv3::guided {

/// A compiled grammar over a vocabulary, with the masks that were made so far. Shared by requests of one schema; all methods
/// of it and of its constraints lock it, so threads may differ.
class Guide {
public:
  Guide(Grammar grammar, std::shared_ptr<const Vocabulary> vocabulary);

  /// Where a request stands. Survives the guide starting anew when its tables have grown too large.
  class Position {
    friend class Guide;
    std::shared_ptr<Matcher> matcher;
    SetId set = 0;
  };

  Position start();
  /// Reads the bytes; false when they cannot be read, and `p` stays.
  bool advance(Position &p, std::string_view bytes);
  /// The tokens that may come next. Valid until the next call.
  const Mask &allowed(Position &p);
  bool complete(const Position &p) const;

  const Vocabulary &vocabulary() const { return *tokens; }
  std::mutex &lock() { return mutex; }

private:
  void refresh(Position &p);

  Grammar grammar;
  std::shared_ptr<const Vocabulary> tokens;
  std::shared_ptr<Matcher> matcher;
  std::unordered_map<SetId, Mask> masks;
  std::mutex mutex;
};

/// The mask for one answer. `endIds` are allowed when, and only when, the text is complete; also those that have text.
class GuidedConstraint : public TokenConstraint {
public:
  /// With `reasoning` the answer begins behind "</think>": until then only end ids are forbidden.
  GuidedConstraint(std::shared_ptr<Guide> guide, std::vector<int32_t> endIds, bool reasoning = false);

  void mask(float *logits, int64_t vocab) override;
  void accept(int32_t id) override;

  /// The text so far is a whole value.
  bool complete() const;

private:
  size_t thinkAfter(std::string_view bytes, size_t state, size_t &rest) const;
  void maskThinking(float *logits, int64_t vocab);

  std::shared_ptr<Guide> guide;
  Guide::Position position;
  std::vector<int32_t> endIds;
  bool thinking;
  size_t matched = 0; ///< of "</think>"
  bool ended = false;
};

/// Compiles and keeps the guides used last. Thread-safe.
class Guides {
public:
  explicit Guides(std::shared_ptr<const Vocabulary> vocabulary, size_t most = 32) : tokens(std::move(vocabulary)), most(most) {}

  /// Any JSON object: response_format json_object.
  Result<std::shared_ptr<Guide>> jsonObject();

  /// response_format json_schema; `schema` is its JSON text. Usage errors as `compileSchema`.
  Result<std::shared_ptr<Guide>> schema(const std::string &schema);

  /// One of some texts, which are not empty and have no control characters but line ends and tabs.
  Result<std::shared_ptr<Guide>> choice(const std::vector<std::string> &texts);

  /// Calls of tools, in the format of the model's template. Usage errors as `callGrammar`.
  Result<std::shared_ptr<Guide>> calls(const CallRules &rules, text::ToolFormat format, size_t &failed);

private:
  std::shared_ptr<Guide> find(const std::string &key);
  std::shared_ptr<Guide> keep(const std::string &key, Grammar grammar);

  std::shared_ptr<const Vocabulary> tokens;
  size_t most;
  std::mutex mutex;
  std::list<std::pair<std::string, std::shared_ptr<Guide>>> kept; ///< the one used last first
};

} // namespace dsv3::guided
