#include "Documents.h"

#include "runtime/core/Json.h"
#include "runtime/core/MappedFile.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace dsv3::eval {

namespace {

/// Calls `read` for each nonempty line until `limit`.
Status forEachLine(const std::string &path, int64_t limit,
                   const std::function<Status(const JsonFields &)> &read) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file)
    return file.error();
  std::string_view rest = file->bytes();
  int64_t taken = 0;
  for (int number = 1; !rest.empty() && (limit == 0 || taken < limit); ++number) {
    size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view content = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (content.find_first_not_of(" \t\r") == content.npos)
      continue;
    std::string where = path + ": line " + std::to_string(number);
    Result<Json> line = parseJson(content, where);
    if (!line)
      return line.error();
    if (!line->is_object())
      return checkpointError(where + ": expected an object, got " + describe(*line));
    if (Status s = read(JsonFields(*line, where)); !s)
      return s;
    ++taken;
  }
  return taken ? Status() : checkpointError(path + ": expected at least one line, got none");
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
