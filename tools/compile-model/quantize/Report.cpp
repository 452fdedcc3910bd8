#include "tools/compile-model/quantize/Report.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

namespace dsv3 {

namespace {
std::string format(const char *pattern, ...) {
  char line[512];
  va_list args;
  va_start(args, pattern);
  std::vsnprintf(line, sizeof line, pattern, args);
  va_end(args);
  return line;
}

std::string activationText(const LinearReport &l) { return l.activation ? l.activation->text() : "plain"; }

std::string percent(const LinearReport &l, double value) { return l.tokens ? format("%.2f%%", 100 * value) : "-"; }

/// One line for `n` linears of one stack, their numbers averaged.
std::string tableLine(const LinearReport *first, size_t n) {
  LinearReport mean = *first;
  const LinearReport *worst = first;
  int64_t fewest = first->tokens, calibrated = 0;
  mean.error = mean.saturation = 0;
  for (const LinearReport *l = first; l != first + n; ++l) {
    mean.error += l->tokens ? l->error : 0;
    mean.saturation += l->saturation / double(n);
    calibrated += l->tokens > 0;
    fewest = std::min(fewest, l->tokens);
    worst = l->error > worst->error ? l : worst;
  }
  bool alike = std::all_of(first, first + n, [&](const LinearReport &l) { return l.algorithm == first->algorithm; });
  mean.error /= double(std::max<int64_t>(1, calibrated));
  mean.tokens = calibrated;
  std::string line = format("%-16s %-26s %-30s %-12s %10s %10.2f%% %9lld", first->stack.c_str(), first->scheme.text().c_str(), activationText(*first).c_str(),
                            alike ? std::string(name(first->algorithm)).c_str() : "several", percent(mean, mean.error).c_str(), 100 * mean.saturation, static_cast<long long>(fewest));
  if (n > 1 && worst->tokens)
    line += "  worst " + worst->site + " " + percent(*worst, worst->error);
  return line + "\n";
}
} // namespace

std::string reportText(const std::vector<LinearReport> &linears) {
  std::string out = "What quantisation did. error: |y - y'| / |y| of a linear's output on the calibration rows; saturated: codes at either end\n"
                    "of the range; tokens: rows that the linear saw, of experts the fewest.\n\n" +
                    format("%-16s %-26s %-30s %-12s %10s %11s %9s\n", "linear", "weight", "activation", "algorithm", "error", "saturated", "tokens");
  for (size_t i = 0; i < linears.size();) {
    size_t n = 1;
    while (i + n < linears.size() && linears[i + n].stack == linears[i].stack)
      ++n;
    out += tableLine(&linears[i], n);
    i += n;
  }
  std::vector<const LinearReport *> worst;
  std::string fallbacks;
  for (const LinearReport &l : linears) {
    if (l.tokens)
      worst.push_back(&l);
    if (l.fellBack)
      fallbacks += format("  %-16s %lld tokens\n", l.site.c_str(), static_cast<long long>(l.tokens));
  }
  size_t shown = std::min<size_t>(10, worst.size());
  std::partial_sort(worst.begin(), worst.begin() + int64_t(shown), worst.end(), [](auto *a, auto *b) { return a->error > b->error; });
  if (shown)
    out += "\nLargest errors, candidates for more bits:\n";
  for (size_t i = 0; i < shown; ++i)
    out += format("  %-16s %s\n", worst[i]->site.c_str(), percent(*worst[i], worst[i]->error).c_str());
  if (!fallbacks.empty())
    out += "\nRounded to nearest, because calibration showed them too few tokens:\n" + fallbacks;
  return out;
}

} // namespace dsv3
