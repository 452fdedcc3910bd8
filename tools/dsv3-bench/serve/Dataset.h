// Prompts to send.
#pragma once

#include "tools/dsv3-bench/serve/Options.h"
#include "tools/dsv3-bench/serve/Server.h"

#include <random>

namespace dsv3::bench::serve {

struct Sample {
  Json prompt;           ///< token ids or text
  int64_t inputLen = 0;  ///< tokens; 0: not known, the server's usage says it
  int64_t outputLen = 0; ///< tokens asked for
};

/// The requests in the order they are sent, the same for the same options and the same server's tokenizer.
///
/// Drawn prompts are token ids of the server's own tokenizer, so that lengths are exact; with chat completions they are
/// the text of these ids.
Result<std::vector<Sample>> makeSamples(const ServeOptions &o, const std::string &model, Server &server);

/// Lengths in [floor(mean (1 - ratio)), ceil(mean (1 + ratio))], at least `low`.
int64_t drawLength(std::mt19937_64 &random, int64_t mean, double ratio, int64_t low);

} // namespace dsv3::bench::serve
