#include "runtime/text/TokenizerJson.h"

#include "runtime/core/Json.h"
#include "runtime/text/ByteLevel.h"

#include <nlohmann/json.hpp>

#include <unordered_set>

namespace dsv3::text {
namespace {

using Json = nlohmann::json;

/// A short rendering of a JSON value for a message.
std::string show(const Json &value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() > 60 ? std::string(value.type_name()) : text;
}

/// The value under `key`, null when absent or when `object` is no object.
const Json &get(const Json &object, const char *key) {
  static const Json null;
  if (!object.is_object())
    return null;
  auto it = object.find(key);
  return it == object.end() ? null : *it;
}

std::string typeOf(const Json &component) {
  const Json &type = get(component, "type");
  return type.is_string() ? printable(type.get_ref<const std::string &>()) : show(component);
}

/// Absent, null, false, 0 and "" all say that a feature is off.
bool isOff(const Json &value) {
  return value.is_null() || value == false || value == "" || (value.is_number() && value == 0);
}

/// Fills a TokenizerSpec section by section.
class Loader {
public:
  Loader(const Json &root, const std::string &source) : root(root), source(source) {}

  Status run() {
    for (auto section : {&Loader::checkPipeline, &Loader::readPreTokenizer, &Loader::readVocab,
                         &Loader::readMerges, &Loader::readBytes, &Loader::readAddedTokens,
                         &Loader::checkMergesAvoidAdded})
      if (Status s = (this->*section)(); !s)
        return s;
    return {};
  }

  TokenizerSpec spec;

private:
  Error bad(const std::string &what) const { return checkpointError(source + ": " + what); }
  Error unsupported(const std::string &component, const std::string &expected,
                    const std::string &got) const {
    return unsupportedError(source + ": unsupported " + component + ": expected " + expected +
                            ", got " + got);
  }

  Status checkPipeline();
  Status readPreTokenizer();
  Status readSplit(const Json &step, const std::string &name);
  Status readVocab();
  Status readMerges();
  Status readMerge(const Json &entry, size_t rank);
  Status readBytes();
  Status readAddedTokens();
  Status readAddedToken(const Json &entry, const std::string &name);
  Status checkMergesAvoidAdded();
  Result<int32_t> readId(const Json &value, const std::string &name) const;

  const Json &root;
  const std::string &source;
  std::unordered_map<int32_t, const std::string *> names; ///< id -> token, finds doubles
};

Status Loader::checkPipeline() {
  const Json &normalizer = get(root, "normalizer");
  bool emptySequence = get(normalizer, "type") == "Sequence" &&
                       get(normalizer, "normalizers").is_array() &&
                       get(normalizer, "normalizers").empty();
  if (!normalizer.is_null() && !emptySequence)
    return unsupported("normalizer", "null or an empty Sequence", show(normalizer));
  for (const char *name : {"truncation", "padding"})
    if (!get(root, name).is_null())
      return unsupported(name, "null", show(get(root, name)));
  const Json &post = get(root, "post_processor");
  if (!post.is_null() && get(post, "type") != "ByteLevel")
    return unsupported("post_processor", "null or ByteLevel", typeOf(post));
  const Json &decoder = get(root, "decoder");
  if (get(decoder, "type") != "ByteLevel")
    return unsupported("decoder", "ByteLevel", typeOf(decoder));
  const Json &model = get(root, "model");
  if (!model.is_object())
    return bad("model: expected an object, got " + show(model));
  if (get(model, "type") != "BPE")
    return unsupported("model", "BPE", typeOf(model));
  for (const char *key : {"dropout", "unk_token", "continuing_subword_prefix",
                          "end_of_word_suffix", "byte_fallback", "ignore_merges"})
    if (!isOff(get(model, key)))
      return unsupported(std::string("model.") + key, "none", show(get(model, key)));
  return {};
}

Status Loader::readPreTokenizer() {
  const Json &sequence = get(root, "pre_tokenizer");
  const Json &steps = get(sequence, "pretokenizers");
  if (get(sequence, "type") != "Sequence" || !steps.is_array() || steps.empty())
    return unsupported("pre_tokenizer", "a Sequence of Split steps ended by ByteLevel",
                       typeOf(sequence));
  for (size_t i = 0; i + 1 < steps.size(); ++i)
    if (Status s = readSplit(steps[i], "pre_tokenizer step " + std::to_string(i)); !s)
      return s;
  const Json &last = steps.back();
  std::string name = "pre_tokenizer step " + std::to_string(steps.size() - 1);
  if (get(last, "type") != "ByteLevel")
    return unsupported(name, "ByteLevel", typeOf(last));
  // Absent means true in this format, so both must be written.
  for (const char *key : {"add_prefix_space", "use_regex"})
    if (get(last, key) != false)
      return unsupported(name + " (ByteLevel) " + key, "false", show(get(last, key)));
  return {};
}

Status Loader::readSplit(const Json &step, const std::string &name) {
  if (get(step, "type") != "Split")
    return unsupported(name, "Split", typeOf(step));
  const Json &regex = get(get(step, "pattern"), "Regex");
  if (!regex.is_string())
    return unsupported(name + " (Split) pattern", "a Regex", show(get(step, "pattern")));
  if (get(step, "behavior") != "Isolated")
    return unsupported(name + " (Split) behavior", "\"Isolated\"", show(get(step, "behavior")));
  if (!isOff(get(step, "invert")))
    return unsupported(name + " (Split) invert", "false", show(get(step, "invert")));
  spec.regexes.push_back(regex.get<std::string>());
  return {};
}

Result<int32_t> Loader::readId(const Json &value, const std::string &name) const {
  if (!value.is_number_integer() || value < 0 || value >= TokenizerSpec::kMaxTokenId)
    return bad(name + ": expected an id in 0.." + std::to_string(TokenizerSpec::kMaxTokenId - 1) +
               ", got " + show(value));
  return value.get<int32_t>();
}

Status Loader::readVocab() {
  const Json &vocab = get(get(root, "model"), "vocab");
  if (!vocab.is_object() || vocab.empty())
    return bad("model.vocab: expected a non-empty object, got " + show(vocab));
  spec.ids.reserve(vocab.size());
  for (auto it = vocab.begin(); it != vocab.end(); ++it) {
    Result<int32_t> id = readId(it.value(), "model.vocab token " + show(it.key()));
    if (!id)
      return id.error();
    auto [slot, isNew] = names.emplace(*id, &it.key());
    if (!isNew)
      return bad("model.vocab: expected one token for id " + std::to_string(*id) + ", got " +
                 show(*slot->second) + " and " + show(it.key()));
    spec.ids.emplace(it.key(), *id);
  }
  return {};
}

Status Loader::readMerges() {
  const Json &merges = get(get(root, "model"), "merges");
  if (!merges.is_array())
    return bad("model.merges: expected an array, got " + show(merges));
  spec.merges.reserve(merges.size());
  for (size_t rank = 0; rank < merges.size(); ++rank)
    if (Status s = readMerge(merges[rank], rank); !s)
      return s;
  return {};
}

/// Both spellings: `["a", "b"]`, and `"a b"` of files written before 2024.
Status Loader::readMerge(const Json &entry, size_t rank) {
  std::string name = "model.merges[" + std::to_string(rank) + "]";
  std::string left, right;
  if (entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_string()) {
    left = entry[0].get<std::string>();
    right = entry[1].get<std::string>();
  } else if (entry.is_string()) {
    std::string both = entry.get<std::string>();
    size_t space = both.find(' ');
    if (space == std::string::npos || both.find(' ', space + 1) != std::string::npos)
      return bad(name + ": expected two tokens and one space, got " + show(entry));
    left = both.substr(0, space);
    right = both.substr(space + 1);
  } else {
    return bad(name + ": expected a pair of tokens, got " + show(entry));
  }
  int32_t ids[3];
  const std::string parts[3] = {left, right, left + right};
  for (int i = 0; i < 3; ++i) {
    auto it = spec.ids.find(parts[i]);
    if (it == spec.ids.end())
      return bad(name + ": expected a token of the vocabulary, got " + show(parts[i]));
    ids[i] = it->second;
  }
  spec.merges.push_back({ids[0], ids[1], ids[2]});
  return {};
}

Status Loader::readBytes() {
  spec.byteIds.fill(-1);
  for (const auto &[token, id] : spec.ids)
    if (std::optional<std::string> bytes = bytesOfToken(token); bytes && bytes->size() == 1)
      spec.byteIds[static_cast<unsigned char>((*bytes)[0])] = id;
  for (int byte = 0; byte < 256; ++byte) {
    bool inUtf8 = byte != 0xC0 && byte != 0xC1 && byte < 0xF5;
    if (inUtf8 && spec.byteIds[byte] < 0)
      return bad("model.vocab: expected a token for each byte of UTF-8 text, got none for byte " +
                 std::to_string(byte));
  }
  return {};
}

Status Loader::readAddedTokens() {
  const Json &added = get(root, "added_tokens");
  if (added.is_null())
    return {};
  if (!added.is_array())
    return bad("added_tokens: expected an array, got " + show(added));
  for (size_t i = 0; i < added.size(); ++i)
    if (Status s = readAddedToken(added[i], "added_tokens[" + std::to_string(i) + "]"); !s)
      return s;
  return {};
}

Status Loader::readAddedToken(const Json &entry, const std::string &name) {
  const Json &content = get(entry, "content");
  if (!content.is_string() || content == "")
    return bad(name + ": expected a non-empty string as content, got " + show(content));
  Result<int32_t> id = readId(get(entry, "id"), name);
  if (!id)
    return id.error();
  for (const char *key : {"single_word", "lstrip", "rstrip"})
    if (!isOff(get(entry, key)))
      return unsupported(name + " " + show(content) + " " + key, "false", show(get(entry, key)));
  AddedToken token{*id, content.get<std::string>(), get(entry, "special") == true,
                   get(entry, "normalized") == true};
  auto known = spec.ids.find(token.content);
  if (known != spec.ids.end() && known->second != *id)
    return bad(name + " " + show(content) + ": expected id " + std::to_string(known->second) +
               " as before, got " + std::to_string(*id));
  auto owner = names.find(*id);
  if (owner != names.end() && *owner->second != token.content)
    return bad(name + " " + show(content) + ": expected an id of its own, got " +
               std::to_string(*id) + ", the id of " + show(*owner->second));
  names.emplace(*id, content.get_ptr<const std::string *>());
  spec.ids.emplace(token.content, *id);
  spec.added.push_back(std::move(token));
  return {};
}

/// Untrusted text is encoded by BPE alone. That it can then never yield an added token
/// is a property of the vocabulary, and a safety promise: so it is checked.
Status Loader::checkMergesAvoidAdded() {
  std::unordered_set<int32_t> added;
  for (const AddedToken &token : spec.added)
    added.insert(token.id);
  for (size_t rank = 0; rank < spec.merges.size(); ++rank)
    if (added.count(spec.merges[rank].result))
      return unsupported("model.merges[" + std::to_string(rank) + "]",
                         "a result that is no added token",
                         "added token " + std::to_string(spec.merges[rank].result));
  return {};
}

} // namespace

Result<TokenizerSpec> parseTokenizerJson(std::string_view json, const std::string &source) {
  Json root = Json::parse(json.begin(), json.end(), nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded())
    return checkpointError(source + ": expected JSON, got a text that does not parse");
  if (!root.is_object())
    return checkpointError(source + ": expected a JSON object, got " + show(root));
  Loader loader(root, source);
  if (Status s = loader.run(); !s)
    return s.error();
  return std::move(loader.spec);
}

} // namespace dsv3::text
