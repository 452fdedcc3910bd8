#include "tools/dsv3-bench/serve/Plot.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace dsv3::bench::serve {

namespace {
constexpr double kWidth = 420, kHeight = 300, kLeft = 64, kRight = 16, kTop = 36, kBottom = 48;
const char *const kColours[] = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b"};

std::string number(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", v);
  return text;
}

std::string escaped(const std::string &text) {
  std::string out;
  for (char c : text)
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return out;
}

std::string label(double x, double y, const std::string &text, const char *anchor, const std::string &more = "") {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" + anchor + "\"" + more + ">" + escaped(text) + "</text>\n";
}

std::string stroke(double x1, double y1, double x2, double y2, const char *colour) {
  return "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) + "\" y2=\"" + number(y2) + "\" stroke=\"" + colour + "\"/>\n";
}

/// 1, 2 or 5 times a power of ten: about five of them reach `most`.
double tickStep(double most) {
  double power = std::pow(10, std::floor(std::log10(most / 5)));
  for (double factor : {1.0, 2.0, 5.0})
    if (factor * power * 5 >= most)
      return factor * power;
  return 10 * power;
}

class Drawing {
public:
  Drawing(const Panel &panel, double offset) : panel(panel), left(offset + kLeft) {
    for (const Series &s : panel.series)
      for (const auto &[x, y] : s.points) {
        xMost = std::max(xMost, x);
        yMost = std::max(yMost, y);
      }
    if (!panel.labels.empty())
      xMost = std::max<double>(1, double(panel.labels.size()) - 1);
    if (xMost <= 0)
      xMost = 1;
    if (yMost <= 0)
      yMost = 1;
  }

  std::string text() const {
    std::string out = label(left + kPlotWidth / 2, 20, panel.title, "middle", " font-weight=\"bold\"");
    out += label(left + kPlotWidth / 2, kHeight - 8, panel.xName, "middle");
    out += label(left - 52, kTop - 8, panel.yName, "start");
    return out + axes() + lines();
  }

private:
  static constexpr double kPlotWidth = kWidth - kLeft - kRight, kPlotHeight = kHeight - kTop - kBottom;
  double atX(double x) const { return left + x / xMost * kPlotWidth; }
  double atY(double y) const { return kTop + (1 - y / yMost) * kPlotHeight; }

  std::string axes() const {
    std::string out;
    double step = tickStep(yMost);
    for (double y = 0; y <= yMost * 1.0001; y += step)
      out += stroke(left, atY(y), left + kPlotWidth, atY(y), "#dddddd") + label(left - 6, atY(y) + 4, number(y), "end");
    double base = kHeight - kBottom + 16;
    for (size_t i = 0; i < panel.labels.size(); ++i)
      out += label(atX(double(i)), base, panel.labels[i], "middle");
    if (panel.labels.empty())
      for (double x = 0, xStep = tickStep(xMost); x <= xMost * 1.0001; x += xStep)
        out += label(atX(x), base, number(x), "middle");
    return out + stroke(left, kTop, left, kTop + kPlotHeight, "black") + stroke(left, atY(0), left + kPlotWidth, atY(0), "black");
  }

  std::string lines() const {
    std::string out;
    for (size_t i = 0; i < panel.series.size(); ++i) {
      const char *colour = kColours[i % (sizeof kColours / sizeof *kColours)];
      out += "<polyline fill=\"none\" stroke-width=\"2\" stroke=\"" + std::string(colour) + "\" points=\"";
      for (const auto &[x, y] : panel.series[i].points)
        out += number(atX(x)) + "," + number(atY(y)) + " ";
      out += "\"/>\n";
      out += label(left + 10, kTop + 14 + 15 * double(i), panel.series[i].name, "start", " fill=\"" + std::string(colour) + "\"");
    }
    return out;
  }

  const Panel &panel;
  double left, xMost = 0, yMost = 0;
};
} // namespace

std::string svg(const std::vector<Panel> &panels) {
  std::string size = "width=\"" + number(kWidth * double(panels.size())) + "\" height=\"" + number(kHeight) + "\"";
  std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" " + size + " font-family=\"sans-serif\" font-size=\"12\">\n<rect " + size + " fill=\"white\"/>\n";
  for (size_t i = 0; i < panels.size(); ++i)
    out += Drawing(panels[i], kWidth * double(i)).text();
  return out + "</svg>\n";
}

} // namespace dsv3::bench::serve
