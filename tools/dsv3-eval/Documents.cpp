#include "Documents.h"

#include "runtime/core/Json.h"
#include "runtime/core/MappedFile.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace dsv3::eval {

namespace {

/// Calls `read` for each nonempty line until `limit`.
Status forEachLine(const std::string &path, int64_t limit, const std::function<Status(const JsonFields &)> &read) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file)
    return file.error();
  Result<int64_t> lines = eachJsonLine(file->bytes(), path, limit, [&](const Json &line, const std::string &where) { return read(JsonFields(line, where)); });
  if (!lines)
    return lines.error();
  return *lines ? Status() : checkpointError(path + ": expected at least one line, got none");
}

/// The files are named by flags: what is wrong with them is wrong usage.
Error asUsage(const Error &e) { return usageError(e.message); }

} // namespace

Result<std::vector<std::string>> readTexts(const std::string &path, int64_t limit) {
  std::vector<std::string> texts;
  Status s = forEachLine(path, limit, [&](const JsonFields &line) -> Status {
    Result<std::string> text = line.string("text");
    if (!text)
      return text.error();
    texts.push_back(std::move(*text));
    return {};
  });
  if (!s)
    return asUsage(s.error());
  return texts;
}

Result<std::vector<Problem>> readProblems(const std::string &path, int64_t limit) {
  std::vector<Problem> problems;
  Status s = forEachLine(path, limit, [&](const JsonFields &line) -> Status {
    Result<std::string> question = line.string("question");
    if (!question)
      return question.error();
    const int64_t far = std::numeric_limits<int64_t>::max();
    Result<int64_t> final = line.integer("final", -far, far);
    if (!final)
      return final.error();
    problems.push_back({std::move(*question), *final});
    return {};
  });
  if (!s)
    return asUsage(s.error());
  return problems;
}

} // namespace dsv3::eval
