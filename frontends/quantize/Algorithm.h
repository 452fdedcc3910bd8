// The algorithms behind --quant-algo: how codes of a scheme are found. A scheme never knows one, and a kernel neither.
#pragma once

#include "frontends/quantize/RoundToNearest.h"

#include <string>
#include <string_view>

namespace dsv3::quantize {

/// `Default` is round to nearest: with clipping for int4, where it is worth points of perplexity, without for 8 bits.
enum class Algorithm { Default, Rtn, Mse };

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
};

/// "default, rtn, mse"
std::string algorithmNames();
/// Usage error that lists the names.
Result<Algorithm> parseAlgorithm(std::string_view name);
std::string_view name(Algorithm algorithm);

/// How a data-free algorithm chooses scales of codes of this kind.
Clip clipOf(Algorithm algorithm, Code code);

} // namespace dsv3::quantize
