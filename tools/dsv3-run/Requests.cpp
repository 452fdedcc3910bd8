#include "Requests.h"

#include "runtime/core/Json.h"
#include "runtime/core/MappedFile.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

namespace dsv3::run {

namespace {

constexpr std::array<const char *, 4> kInputs = {"prompt", "ids", "chat", "messages"};
constexpr std::array<const char *, 9> kParams = {
    "max_tokens", "temperature",        "top_p", "top_k",     "min_p",
    "seed",       "repetition_penalty", "stop",  "ignore_eos"};

/// The user wrote the batch file: what is wrong in it is wrong usage.
Error asUsage(const Error &e) { return e.code == ExitCode::BadCheckpoint ? usageError(e.message) : e; }

/// Reads one line of the batch file.
class LineReader {
public:
  LineReader(const Json &line, const std::string &where, const TextModel &model)
      : line(line), where(where), fields(line, where), model(model) {}

  Result<TextRequest> read(const CompletionParams &defaults, size_t index) {
    if (Status s = checkKeys(); !s)
      return s.error();
    TextRequest request;
    request.params = defaults;
    request.params.sampling.stream = index;
    if (Status s = readParams(request.params); !s)
      return asUsage(s.error());
    Result<std::vector<int32_t>> prompt = readPrompt();
    if (!prompt)
      return asUsage(prompt.error());
    request.prompt = std::move(*prompt);
    return request;
  }

private:
  Status checkKeys() const {
    int inputs = 0;
    for (auto &[key, value] : line.items()) {
      auto is = [&key = key](const char *known) { return key == known; };
      if (std::any_of(kInputs.begin(), kInputs.end(), is))
        ++inputs;
      else if (std::none_of(kParams.begin(), kParams.end(), is))
        return usageError(where + ": unknown key \"" + printable(key) + "\"");
    }
    if (inputs != 1)
      return usageError(where + ": expected exactly one of prompt, ids, chat and messages, got " +
                        std::to_string(inputs));
    return {};
  }

  Status readParams(CompletionParams &p) const {
    SamplingParams &s = p.sampling;
    const int64_t max = std::numeric_limits<int64_t>::max();
    std::optional<Error> error;
    auto take = [&](auto value, auto &out) {
      if (value)
        out = *value;
      else if (!error)
        error = value.error();
    };
    take(fields.integerOr("max_tokens", p.maxTokens, 0, 1 << 30), p.maxTokens);
    take(fields.numberOr("temperature", s.temperature), s.temperature);
    take(fields.numberOr("top_p", s.topP), s.topP);
    take(fields.integerOr("top_k", s.topK, 0, max), s.topK);
    take(fields.numberOr("min_p", s.minP), s.minP);
    take(fields.numberOr("repetition_penalty", s.repetitionPenalty), s.repetitionPenalty);
    take(fields.booleanOr("ignore_eos", p.ignoreEos), p.ignoreEos);
    if (const Json *seed = fields.find("seed")) {
      if (!seed->is_number_unsigned()) // larger ones have become floating point
        return fields.wrong("seed", "an integer from 0 to 18446744073709551615");
      s.seed = seed->get<uint64_t>();
      s.stream = 0; // a request with its own seed repeats wherever it stands
    }
    if (error)
      return *error;
    if (Status valid = s.validate(); !valid)
      return usageError(where + ": " + valid.error().message);
    return readStops(p.stops);
  }

  Status readStops(std::vector<std::string> &stops) const {
    const Json *value = fields.find("stop");
    if (!value)
      return {};
    Json list = value->is_array() ? *value : Json::array({*value});
    stops.clear();
    for (const Json &stop : list) {
      if (!stop.is_string() || stop.get_ref<const std::string &>().empty())
        return fields.wrong("stop", "a nonempty string or a list of them");
      stops.push_back(stop.get<std::string>());
    }
    return {};
  }

  Result<std::vector<int32_t>> readPrompt() const {
    if (line.contains("ids"))
      return readIds();
    if (line.contains("messages"))
      return readMessages();
    const char *key = line.contains("chat") ? "chat" : "prompt";
    Result<std::string> content = fields.string(key);
    if (!content)
      return content.error();
    std::string what = where + ": " + key;
    return line.contains("chat") ? model.encodeChat({{"user", *content}}, what)
                                 : model.encodePrompt(*content, what);
  }

  Result<std::vector<int32_t>> readIds() const {
    const Json &list = line["ids"];
    std::vector<int32_t> ids;
    if (!list.is_array())
      return fields.wrong("ids", "a list of token ids");
    for (const Json &id : list) {
      if (!id.is_number_integer() || id < std::numeric_limits<int32_t>::min() ||
          id > std::numeric_limits<int32_t>::max())
        return usageError(where + ": ids: expected token ids, got " + describe(id));
      ids.push_back(id.get<int32_t>());
    }
    return ids;
  }

  Result<std::vector<int32_t>> readMessages() const {
    const Json &list = line["messages"];
    std::vector<text::ChatMessage> messages;
    if (!list.is_array())
      return fields.wrong("messages", "a list of {role, content}");
    for (const Json &m : list) {
      if (!m.is_object() || !m.contains("role") || !m["role"].is_string() || !m.contains("content") ||
          !m["content"].is_string())
        return usageError(where + ": messages: expected {\"role\": text, \"content\": text}, got " +
                          describe(m));
      messages.push_back({m["role"].get<std::string>(), m["content"].get<std::string>()});
    }
    return model.encodeChat(messages, where + ": messages");
  }

  const Json &line;
  const std::string &where;
  JsonFields fields;
  const TextModel &model;
};

Result<std::vector<TextRequest>> readBatch(const std::string &path, const Options &options,
                                           const TextModel &model) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file)
    return usageError("--batch " + file.error().message);
  std::vector<TextRequest> requests;
  Result<int64_t> lines = eachJsonLine(file->bytes(), path, 0, [&](const Json &line, const std::string &where) -> Status {
    Result<TextRequest> request = LineReader(line, where, model).read(options.completion, requests.size());
    if (!request)
      return request.error();
    requests.push_back(std::move(*request));
    return {};
  });
  if (!lines)
    return asUsage(lines.error());
  if (requests.empty())
    return usageError("--batch " + path + ": expected at least one request, got none");
  return requests;
}

Result<std::vector<int32_t>> onePrompt(const Options &o, const TextModel &model) {
  if (o.ids)
    return parseIds(*o.ids, "--ids");
  if (o.chat)
    return model.encodeChat({{"user", *o.chat}}, "--chat");
  return model.encodePrompt(*o.prompt, "--prompt");
}

} // namespace

Result<std::vector<int32_t>> parseIds(const std::string &text, const std::string &what) {
  std::vector<int32_t> ids;
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = std::min(text.find(',', begin), text.size());
    int32_t id = 0;
    auto [stop, error] = std::from_chars(text.data() + begin, text.data() + end, id);
    if (error != std::errc() || stop != text.data() + end)
      return usageError(what + ": expected numbers with commas between, got \"" +
                        printable(std::string_view(text).substr(begin, end - begin)) + "\"");
    ids.push_back(id);
    begin = end + 1;
  }
  return ids;
}

Result<std::vector<TextRequest>> makeRequests(const Options &options, const TextModel &model) {
  if (options.batch)
    return readBatch(*options.batch, options, model);
  Result<std::vector<int32_t>> prompt = onePrompt(options, model);
  if (!prompt)
    return prompt.error();
  return std::vector<TextRequest>{{std::move(*prompt), options.completion}};
}

} // namespace dsv3::run
