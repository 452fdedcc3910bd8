// Line charts as SVG: no plotting program is needed where a benchmark runs.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace dsv3::bench::serve {

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;
};

/// Both axes start at 0. With `labels`, x is an index into them.
struct Panel {
  std::string title, xName, yName;
  std::vector<Series> series;
  std::vector<std::string> labels;
};

/// The panels side by side, as one SVG document.
std::string svg(const std::vector<Panel> &panels);

} // namespace dsv3::bench::serve
