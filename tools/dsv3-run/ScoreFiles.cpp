#include "ScoreFiles.h"

#include "runtime/core/Abi.h"
#include "runtime/core/SafetensorsWriter.h"

#include <filesystem>
#include <memory>

namespace dsv3::run {

namespace {

/// Tensors of one file whose rows arrive in turns, while the file wants one tensor after
/// another: rows of the next tensor go straight to the file, others wait in memory.
class TensorStream {
public:
  size_t add(std::string name, int64_t rows, int64_t cols) {
    tensors.push_back({std::move(name), DType::F32, {rows, cols}});
    missing.push_back(uint64_t(rows) * cols * sizeof(float));
    waiting.emplace_back();
    return tensors.size() - 1;
  }

  Status open(const std::string &path) {
    Result<SafetensorsWriter> created = SafetensorsWriter::create(path, tensors);
    if (!created)
      return created.error();
    writer = std::make_unique<SafetensorsWriter>(std::move(*created));
    return {};
  }

  Status append(size_t tensor, const float *data, uint64_t bytes) {
    if (tensor != head) {
      waiting[tensor].append(reinterpret_cast<const char *>(data), bytes);
      return {};
    }
    missing[head] -= bytes;
    if (Status s = writer->append(data, bytes); !s)
      return s;
    return advance();
  }

  Status finish() {
    if (Status s = advance(); !s) // tensors without rows at the end
      return s;
    return writer->finish();
  }

private:
  Status advance() {
    while (head < tensors.size() && missing[head] == 0) {
      if (++head == tensors.size())
        break;
      std::string rows = std::move(waiting[head]);
      missing[head] -= rows.size();
      if (Status s = writer->append(rows.data(), rows.size()); !s)
        return s;
    }
    return {};
  }

  std::vector<SafetensorsWriter::Tensor> tensors;
  std::vector<uint64_t> missing;
  std::vector<std::string> waiting;
  size_t head = 0;
  std::unique_ptr<SafetensorsWriter> writer;
};

/// The logits' file.
class LogitsFile {
public:
  LogitsFile(Engine &engine, const Options &options, const std::vector<TextRequest> &requests)
      : vocab(engine.artifact().model.vocabSize), mtp(engine.hasMtp()) {
    for (size_t i = 0; i < requests.size(); ++i) {
      std::string suffix = options.batch ? "." + std::to_string(i) : "";
      int64_t tokens = requests[i].prompt.size();
      logits.push_back(stream.add("logits" + suffix, tokens, vocab));
      if (mtp)
        mtpLogits.push_back(stream.add("mtp_logits" + suffix, std::max<int64_t>(tokens - 1, 0), vocab));
    }
  }

  Status open(const std::string &path) { return stream.open(path); }
  Status finish() { return stream.finish(); }

  void connect(ScoreSink &sink) {
    sink.logits = [this](size_t i, int64_t, int64_t rows, const float *data) {
      return stream.append(logits[i], data, uint64_t(rows) * vocab * sizeof(float));
    };
    if (mtp)
      sink.mtpLogits = [this](size_t i, int64_t, int64_t rows, const float *data) {
        return stream.append(mtpLogits[i], data, uint64_t(rows) * vocab * sizeof(float));
      };
  }

private:
  int64_t vocab;
  bool mtp;
  TensorStream stream;
  std::vector<size_t> logits, mtpLogits; // by request
};

/// The taps' file. Only running the program shows which taps it has and how many rows, so
/// the states stay in memory until then: taps are for small prompts.
class TapsFile {
public:
  TapsFile(const Manifest &manifest, size_t requests) : taps(manifest.taps), data(requests) {
    for (auto &perRequest : data)
      perRequest.resize(taps.size());
  }

  void connect(ScoreSink &sink) {
    sink.taps = [this](size_t request, uint32_t tap, int64_t rows, const void *values) {
      append(data[request][tap], taps[tap], rows, static_cast<const char *>(values));
      return Status();
    };
  }

  Status write(const std::string &path, bool batch) const {
    std::vector<SafetensorsWriter::Tensor> tensors;
    std::vector<const Rows *> contents;
    for (size_t i = 0; i < data.size(); ++i)
      for (size_t t = 0; t < taps.size(); ++t) {
        if (!data[i][t].count)
          continue; // not in the programs that score
        std::string suffix = batch ? "." + std::to_string(i) : "";
        tensors.push_back(
            {taps[t].name + suffix, typeOf(taps[t].elem), {data[i][t].count, int64_t(taps[t].cols)}});
        contents.push_back(&data[i][t]);
      }
    Result<SafetensorsWriter> writer = SafetensorsWriter::create(path, tensors);
    if (!writer)
      return writer.error();
    for (const Rows *rows : contents)
      if (Status s = writer->append(rows->bytes.data(), rows->bytes.size()); !s)
        return s;
    return writer->finish();
  }

private:
  struct Rows {
    int64_t count = 0;
    std::string bytes;
  };

  static DType typeOf(uint32_t elem) {
    return elem == DSV3_ELEM_I32 ? DType::I32 : elem == DSV3_ELEM_I64 ? DType::I64 : DType::F32;
  }

  static void append(Rows &to, const Manifest::Matrix &tap, int64_t rows, const char *values) {
    uint64_t count = uint64_t(rows) * tap.cols;
    to.count += rows;
    if (tap.elem != DSV3_ELEM_BF16) {
      to.bytes.append(values, count * elemBytes(tap.elem));
      return;
    }
    std::vector<float> wide(count);
    convertToFloat(DType::BF16, values, count, wide.data());
    to.bytes.append(reinterpret_cast<const char *>(wide.data()), count * sizeof(float));
  }

  const std::vector<Manifest::Matrix> &taps;
  std::vector<std::vector<Rows>> data; // [request][tap]
};

namespace fs = std::filesystem;

/// Whether `file`, a writer's target, lies somewhere below `folder`.
bool isInside(const std::string &file, const std::string &folder) {
  std::error_code error;
  fs::path root = fs::canonical(folder, error);
  if (error)
    return false; // opening the artifact says what is wrong with it
  for (fs::path at = fs::path(file).parent_path(); !at.empty(); at = at.parent_path()) {
    if (at == root)
      return true;
    if (at == at.parent_path())
      break;
  }
  return false;
}

} // namespace

Status checkScoreFiles(const Options &options) {
  std::string targets[2];
  const std::pair<const char *, const std::string &> files[] = {{"--logits-out", options.logitsOut},
                                                                {"--taps-out", options.tapsOut}};
  for (size_t i = 0; i < 2; ++i) {
    auto [flag, path] = files[i];
    if (path.empty())
      continue;
    Result<std::string> target = SafetensorsWriter::target(path);
    if (!target)
      return usageError(std::string(flag) + " " + target.error().message);
    if (isInside(*target, options.artifact))
      return usageError(std::string(flag) + " " + path + ": expected a file outside the artifact " +
                        options.artifact);
    targets[i] = std::move(*target);
  }
  if (!targets[0].empty() && targets[0] == targets[1])
    return usageError("--logits-out and --taps-out: expected two files, got " + options.logitsOut +
                      " for both");
  return {};
}

Status writeScoreFiles(Engine &engine, const Options &options, const std::vector<TextRequest> &requests) {
  if (options.logitsOut.empty() && options.tapsOut.empty())
    return {};
  if (!options.tapsOut.empty() && engine.artifact().taps.empty())
    return usageError("--taps-out: the artifact keeps no states: compile it with --taps");
  std::vector<std::vector<int32_t>> prompts;
  for (const TextRequest &r : requests)
    prompts.push_back(r.prompt);
  ScoreSink sink;
  LogitsFile logits(engine, options, requests);
  TapsFile taps(engine.artifact(), requests.size());
  if (!options.logitsOut.empty()) {
    if (Status s = logits.open(options.logitsOut); !s)
      return Error{s.error().code, "--logits-out " + s.error().message};
    logits.connect(sink);
  }
  if (!options.tapsOut.empty())
    taps.connect(sink);
  if (Status s = engine.score(prompts, sink); !s)
    return s;
  if (!options.logitsOut.empty())
    if (Status s = logits.finish(); !s)
      return s;
  return options.tapsOut.empty() ? Status() : taps.write(options.tapsOut, options.batch.has_value());
}

} // namespace dsv3::run
