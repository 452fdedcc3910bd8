#include "tools/dsv3-bench/Report.h"

#include <cstdio>
#include <map>

namespace dsv3::bench {

namespace {
template <typename... Args> std::string format(const char *pattern, Args... args) {
  char text[512];
  std::snprintf(text, sizeof text, pattern, args...);
  return text;
}
} // namespace

std::string tableHeader() {
  return format("%-34s %9s %7s %7s %8s %7s %9s %6s  %s", "case", "us", "TB/s", "TFLOP/s", "floor us", "% floor", "anchor us", "ratio", "check");
}

std::string tableLine(const RunRow &r) {
  std::string line = format("%-34s", r.name.c_str());
  if (r.us > 0)
    line += format(" %9.2f %7.2f %7.1f %8.2f %7.0f", r.us, r.bytes / r.us / 1e6, r.flops / r.us / 1e6, r.floorUs, 100 * r.floorUs / r.us);
  else
    line += format(" %9s %7s %7s %8s %7s", "-", "-", "-", "-", "-");
  line += r.us > 0 && r.anchorUs > 0 ? format(" %9.2f %6.2f", r.anchorUs, r.us / r.anchorUs) : format(" %9s %6s", "-", "-");
  if (!r.problem.empty())
    line += "  FAILED: " + r.problem;
  else if (r.checked)
    line += format("  ok, %.1e in %lld rows", r.worst, static_cast<long long>(r.rows));
  if (r.spills)
    line += format(", %lld bytes spilled", static_cast<long long>(r.spills));
  return line;
}

std::string summaryText(const std::vector<RunRow> &rows) {
  std::map<std::string, std::vector<double>> byOp;
  std::vector<double> all;
  int64_t failed = 0, checked = 0, timed = 0;
  std::string worst;
  double worstRatio = 0;
  for (const RunRow &r : rows) {
    failed += !r.problem.empty();
    checked += r.checked && r.problem.empty();
    timed += r.us > 0;
    if (r.us <= 0 || r.anchorUs <= 0)
      continue;
    double ratio = r.us / r.anchorUs;
    byOp[r.op].push_back(ratio);
    all.push_back(ratio);
    if (ratio > worstRatio) {
      worstRatio = ratio;
      worst = r.name;
    }
  }
  std::string text;
  auto line = [&](const std::string &name, const std::vector<double> &ratios) {
    Summary s = summarize(ratios);
    text += format("%-20s %4lld rows, ratio to anchor: geometric mean %.3f, worst %.3f\n", name.c_str(), static_cast<long long>(s.count), s.geomean, s.worst);
  };
  for (const auto &[op, ratios] : byOp)
    line(op, ratios);
  if (byOp.size() > 1)
    line("all", all);
  if (!worst.empty())
    text += "worst: " + worst + "\n";
  text += format("%lld cases: %lld right, %lld failed, %lld timed\n", static_cast<long long>(rows.size()), static_cast<long long>(checked),
                 static_cast<long long>(failed), static_cast<long long>(timed));
  for (const RunRow &r : rows)
    if (!r.problem.empty())
      text += "FAILED " + r.name + ": " + r.problem + "\n";
  return text;
}

OrderedJson reportJson(const RunInfo &info, const std::vector<RunRow> &rows) {
  OrderedJson json = {{"date", info.date}, {"commit", info.commit}, {"command", info.command}, {"gpu", info.gpu}, {"driver", info.driver},
                      {"cases", info.cases}, {"rows", OrderedJson::array()}};
  std::map<std::string, std::vector<double>> byOp;
  for (const RunRow &r : rows) {
    json["rows"].push_back(toJson(r));
    if (r.us > 0 && r.anchorUs > 0)
      byOp[r.op].push_back(r.us / r.anchorUs);
  }
  for (const auto &[op, ratios] : byOp) {
    Summary s = summarize(ratios);
    json["summary"][op] = {{"rows", s.count}, {"geomean", s.geomean}, {"worst", s.worst}};
  }
  return json;
}

} // namespace dsv3::bench
