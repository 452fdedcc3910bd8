// The algorithms behind --quant-algo: how codes of a scheme are found. A scheme never knows one, and a kernel neither.
#pragma once

#include "frontends/quantize/RoundToNearest.h"

#include <string>
#include <string_view>

namespace dsv3::quantize {

/// `Default` is round to nearest: with clipping for int4, where it is worth points of perplexity, without for 8 bits.
enum class Algorithm { Default, Rtn, Mse, SmoothQuant, Awq, Gptq, Auto };

struct AlgorithmInfo {
  Algorithm id;
  std::string_view name; ///< on the command line
  bool calibrated;       ///< needs activations of the model, over some text
  std::string_view what;
};

inline constexpr AlgorithmInfo algorithms[] = {
    {Algorithm::Default, "default", false, "mse for int4, rtn for 8 bits"},
    {Algorithm::Rtn, "rtn", false, "round to nearest, scales from the largest number"},
    {Algorithm::Mse, "mse", false, "round to nearest, scales with the least squared error"},
    {Algorithm::SmoothQuant, "smoothquant", true, "the range of activations is moved into weights, then default"},
    {Algorithm::Awq, "awq", true, "channels with large activations are rounded finer: factors per channel, then clipping by importance"},
    {Algorithm::Gptq, "gptq", true, "columns make up for the rounding of those before them"},
    {Algorithm::Auto, "auto", true, "for each linear default, gptq, or clipping by importance: what loses least on rows held out"},
};

/// "default, rtn, mse"
std::string algorithmNames();
/// Usage error that lists the names.
Result<Algorithm> parseAlgorithm(std::string_view name);
std::string_view name(Algorithm algorithm);
bool isCalibrated(Algorithm algorithm);

/// How a data-free algorithm chooses scales of codes of this kind.
Clip clipOf(Algorithm algorithm, Code code);

} // namespace dsv3::quantize
