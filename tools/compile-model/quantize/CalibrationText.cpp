#include "tools/compile-model/quantize/CalibrationText.h"

#include "runtime/core/Json.h"
#include "runtime/core/MappedFile.h"
#include "runtime/text/Tokenizer.h"
#include "runtime/text/TokenizerConfig.h"

#include <algorithm>

namespace dsv3 {

using Sequences = std::vector<std::vector<int32_t>>;

namespace {
class Reader {
public:
  Reader(const text::Tokenizer &tokenizer, std::optional<int32_t> bos, int64_t length) : tokenizer(tokenizer), bos(bos), length(length) {}

  Status lines(std::string_view bytes, const std::string &path) {
    Result<int64_t> read = eachJsonLine(bytes, path, 0, [&](const Json &line, const std::string &where) -> Status {
      if (!line.contains("text") || !line["text"].is_string())
        return usageError(where + ": expected an object with a string \"text\"");
      take(line["text"].get<std::string>(), /*all=*/false);
      return {};
    });
    return read ? Status() : usageError(read.error().message);
  }

  /// One sequence of the text's beginning, or as many as it fills.
  void take(std::string_view content, bool all) {
    std::vector<int32_t> ids = tokenizer.encode(content, text::SpecialTokens::Parse);
    if (bos && !ids.empty() && ids.front() == *bos)
      ids.erase(ids.begin());
    const size_t room = size_t(length - bos.has_value());
    for (size_t at = 0; at < ids.size() && (all || at == 0); at += room) {
      std::vector<int32_t> one;
      if (bos)
        one.push_back(*bos);
      one.insert(one.end(), ids.begin() + int64_t(at), ids.begin() + int64_t(std::min(at + room, ids.size())));
      out.push_back(std::move(one));
    }
  }

  Sequences out;

private:
  const text::Tokenizer &tokenizer;
  const std::optional<int32_t> bos;
  const int64_t length;
};
} // namespace

/// At most `tokens`, from all over the text.
static Sequences spread(Sequences all, int64_t tokens) {
  int64_t total = 0, taken = 0;
  for (const std::vector<int32_t> &s : all)
    total += int64_t(s.size());
  Sequences out;
  double due = 0;
  for (std::vector<int32_t> &s : all) {
    due += double(s.size()) * std::min(1.0, double(tokens) / double(total));
    int64_t size = std::min<int64_t>(int64_t(s.size()), tokens - taken);
    if (size < 2 || double(taken) + double(size) / 2 > due)
      continue;
    s.resize(size_t(size));
    taken += size;
    out.push_back(std::move(s));
  }
  return out;
}

Result<Sequences> readCalibrationText(const std::string &modelFolder, const std::string &path, int64_t tokens, int64_t length) {
  Result<text::Tokenizer> tokenizer = text::Tokenizer::load(modelFolder + "/tokenizer.json");
  if (!tokenizer)
    return usageError("--calibration needs the checkpoint's tokenizer: " + tokenizer.error().message);
  Result<text::TokenizerConfig> config = text::TokenizerConfig::load(modelFolder);
  if (!config)
    return config.error();
  std::optional<std::string> name = config->bosToken();
  Result<MappedFile> file = MappedFile::open(path);
  if (!file)
    return usageError("--calibration: " + file.error().message);
  Reader reader(*tokenizer, name ? tokenizer->tokenToId(*name) : std::nullopt, length);
  const std::string jsonl = ".jsonl";
  if (path.size() > jsonl.size() && path.compare(path.size() - jsonl.size(), jsonl.size(), jsonl) == 0) {
    if (Status s = reader.lines(file->bytes(), path); !s)
      return s.error();
  } else {
    reader.take(file->bytes(), /*all=*/true);
  }
  Sequences out = spread(std::move(reader.out), tokens);
  if (out.empty())
    return usageError("--calibration: expected a text of at least 2 tokens, got none in " + path);
  return out;
}

} // namespace dsv3
