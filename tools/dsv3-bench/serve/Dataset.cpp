#include "tools/dsv3-bench/serve/Dataset.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>

namespace dsv3::bench::serve {

namespace {
using Ids = std::vector<int32_t>;

int64_t below(std::mt19937_64 &random, int64_t n) { return int64_t(random() % uint64_t(n)); }

/// Ids that the server's tokenizer really has, and that are no special tokens: those of a text of made-up words.
Result<Ids> idPool(Server &server, const std::string &model) {
  const std::string consonants = "bcdfghjklmnprstvwz", vowels = "aeiou";
  std::mt19937_64 random(1);
  std::string text;
  for (int word = 0; word < 600; ++word) {
    for (int64_t syllable = 0, n = 1 + below(random, 3); syllable < n; ++syllable) {
      text += consonants[size_t(below(random, int64_t(consonants.size())))];
      text += vowels[size_t(below(random, int64_t(vowels.size())))];
    }
    text += ' ';
  }
  Result<Ids> ids = server.tokenize(model, text);
  if (!ids)
    return usageError("drawn prompts need the server's tokenizer: " + ids.error().message);
  std::set<int32_t> distinct(ids->begin(), ids->end());
  return Ids(distinct.begin(), distinct.end());
}

Ids drawIds(std::mt19937_64 &random, const Ids &pool, int64_t count) {
  Ids ids(static_cast<size_t>(count));
  for (int32_t &id : ids)
    id = pool[size_t(below(random, int64_t(pool.size())))];
  return ids;
}

Result<std::vector<Sample>> drawnSamples(const ServeOptions &o, const std::string &model, Server &server) {
  const DatasetOptions &d = o.dataset;
  bool repetition = d.name == "prefix_repetition";
  Result<Ids> pool = idPool(server, model);
  if (!pool)
    return pool.error();
  std::mt19937_64 random(d.seed);
  std::vector<Ids> prefixes;
  for (int64_t i = 0; i < (repetition ? d.prefixes : 1); ++i)
    prefixes.push_back(drawIds(random, *pool, repetition ? d.prefixLen : d.randomPrefixLen));
  std::vector<Sample> samples;
  for (int64_t i = 0; i < d.prompts; ++i) {
    Ids ids = prefixes[size_t(repetition ? below(random, d.prefixes) : 0)];
    int64_t own = repetition ? d.suffixLen : drawLength(random, d.inputLen.value_or(d.randomInputLen), d.randomRangeRatio, ids.empty() ? 1 : 0);
    int64_t output = repetition ? d.outputLen.value_or(d.prefixOutputLen)
                                : drawLength(random, d.outputLen.value_or(d.randomOutputLen), d.randomRangeRatio, 1);
    Ids suffix = drawIds(random, *pool, own);
    ids.insert(ids.end(), suffix.begin(), suffix.end());
    if (ids.empty())
      return usageError("--prefix-repetition-suffix-len: expected prompts of a token or more, got none");
    Sample s{ids, int64_t(ids.size()), output};
    if (o.chat()) {
      Result<std::string> text = server.detokenize(model, ids);
      if (!text)
        return text.error();
      s.prompt = *text;
    }
    samples.push_back(std::move(s));
  }
  return samples;
}

/// Shuffled, and as many as wanted: from the start again when the file has fewer.
std::vector<Sample> choose(std::vector<Sample> all, const DatasetOptions &d) {
  std::mt19937_64 random(d.seed);
  if (!d.disableShuffle)
    for (size_t i = all.size(); i > 1; --i)
      std::swap(all[i - 1], all[size_t(below(random, int64_t(i)))]);
  size_t have = all.size(), wanted = size_t(d.prompts);
  if (have > wanted || d.noOversample)
    wanted = std::min(have, wanted);
  all.resize(wanted);
  for (size_t i = have; i < wanted; ++i)
    all[i] = all[i - have];
  return all;
}

Result<std::vector<Sample>> customSamples(const DatasetOptions &d) {
  std::ifstream file(d.path);
  if (!file)
    return usageError("--dataset-path: cannot read '" + printable(d.path) + "'");
  std::vector<Sample> all;
  int64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.empty())
      continue;
    std::string where = d.path + ":" + std::to_string(number);
    Result<Json> json = parseJson(line, where);
    if (!json)
      return usageError(json.error().message);
    if (!json->is_object() || !json->contains("prompt") || !(*json)["prompt"].is_string())
      return usageError(where + ": expected an object with \"prompt\", a text");
    int64_t output = d.customOutputLen;
    if (json->contains("output_tokens") && (*json)["output_tokens"].is_number_integer())
      output = (*json)["output_tokens"].get<int64_t>();
    output = d.outputLen.value_or(output);
    if (output < 1)
      return usageError(where + ": output_tokens: expected 1 or more, got " + std::to_string(output));
    all.push_back({(*json)["prompt"], 0, output});
  }
  if (all.empty())
    return usageError("--dataset-path: expected prompts in '" + printable(d.path) + "', got none");
  return choose(std::move(all), d);
}

/// Text of turn `i` of a conversation; empty: it has none.
std::string turn(const Json &entry, size_t i) {
  if (!entry.is_object() || !entry.contains("conversations") || !entry["conversations"].is_array() || entry["conversations"].size() <= i)
    return "";
  const Json &said = entry["conversations"][i];
  return said.is_object() && said.contains("value") && said["value"].is_string() ? said["value"].get<std::string>() : "";
}

/// The first turn is the prompt, the second says how long the answer is. Left out, as vLLM does: prompts and answers
/// under 4 tokens, prompts over 1024, both together over 2048.
Result<std::vector<Sample>> sharegptSamples(const DatasetOptions &d, const std::string &model, Server &server) {
  Result<Json> json = parseJsonFile(d.path);
  if (!json)
    return usageError(json.error().message);
  if (!json->is_array())
    return usageError(d.path + ": expected a list of conversations, got " + describe(*json));
  std::vector<Sample> pairs;
  std::vector<std::string> answers;
  DatasetOptions every = d;
  every.prompts = int64_t(json->size());
  for (size_t i = 0; i < json->size(); ++i)
    if (!turn((*json)[i], 0).empty() && !turn((*json)[i], 1).empty())
      pairs.push_back({(*json)[i], 0, 0});
  std::vector<Sample> all;
  every.noOversample = true;
  for (const Sample &pair : choose(std::move(pairs), every)) {
    if (int64_t(all.size()) == d.prompts)
      break;
    std::string prompt = turn(pair.prompt, 0);
    Result<Ids> ids = server.tokenize(model, prompt), answer = server.tokenize(model, turn(pair.prompt, 1));
    if (!ids || !answer)
      return ids ? answer.error() : ids.error();
    std::optional<int64_t> fixed = d.outputLen ? d.outputLen : d.sharegptOutputLen;
    int64_t in = int64_t(ids->size()), out = fixed.value_or(int64_t(answer->size()));
    if (in >= 4 && in <= 1024 && (fixed || out >= 4) && in + out <= 2048)
      all.push_back({prompt, in, out});
  }
  if (all.empty())
    return usageError(d.path + ": expected conversations of 4 to 1024 tokens, got none");
  DatasetOptions inOrder = d;
  inOrder.disableShuffle = true;
  return choose(std::move(all), inOrder);
}
} // namespace

int64_t drawLength(std::mt19937_64 &random, int64_t mean, double ratio, int64_t low) {
  int64_t least = std::max(low, int64_t(std::floor(double(mean) * (1 - ratio))));
  int64_t most = std::max(least, int64_t(std::ceil(double(mean) * (1 + ratio))));
  return least + below(random, most - least + 1);
}

Result<std::vector<Sample>> makeSamples(const ServeOptions &o, const std::string &model, Server &server) {
  if (o.dataset.name == "custom")
    return customSamples(o.dataset);
  if (o.dataset.name == "sharegpt")
    return sharegptSamples(o.dataset, model, server);
  return drawnSamples(o, model, server);
}

} // namespace dsv3::bench::serve
