#include "frontends/quantize/Algorithm.h"

#include "runtime/core/Json.h"

namespace dsv3::quantize {

std::string algorithmNames() {
  std::string names;
  for (const AlgorithmInfo &info : algorithms)
    names += (names.empty() ? "" : ", ") + std::string(info.name);
  return names;
}

Result<Algorithm> parseAlgorithm(std::string_view name) {
  for (const AlgorithmInfo &info : algorithms)
    if (info.name == name)
      return info.id;
  return usageError("--quant-algo: expected one of " + algorithmNames() + ", got '" + printable(name) + "'");
}

std::string_view name(Algorithm algorithm) {
  for (const AlgorithmInfo &info : algorithms)
    if (info.id == algorithm)
      return info.name;
  return "?";
}

bool isCalibrated(Algorithm algorithm) {
  for (const AlgorithmInfo &info : algorithms)
    if (info.id == algorithm)
      return info.calibrated;
  return false;
}

Clip clipOf(Algorithm algorithm, Code code) {
  bool searches = algorithm == Algorithm::Mse || (algorithm != Algorithm::Rtn && code == Code::I4);
  return searches ? Clip::Mse : Clip::Absmax;
}

} // namespace dsv3::quantize
