// dsv3-bench serve: load on a server that speaks the OpenAI API, and what it made of it.
#pragma once

#include "tools/dsv3-bench/serve/Options.h"

namespace dsv3::bench::serve {

/// Runs what `o` asks for: results to stdout and files, progress to stderr. The value is the exit code: 1 when no
/// request of a run succeeded.
Result<int> runServe(ServeOptions o);

} // namespace dsv3::bench::serve
