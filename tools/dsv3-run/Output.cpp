#include "Output.h"

#include <cerrno>
#include <cstring>
#include <unistd.h>

namespace dsv3::run {

void Output::write(const std::string &text) {
  // Straight to the descriptor: each piece is whole characters and goes out at once.
  for (size_t done = 0; done < text.size() && !gone && failure;) {
    ssize_t n = ::write(STDOUT_FILENO, text.data() + done, text.size() - done);
    if (n >= 0)
      done += size_t(n);
    else if (errno == EPIPE)
      gone = true;
    else if (errno != EINTR)
      failure = usageError(std::string("cannot write to standard output: ") + std::strerror(errno));
  }
}

std::string jsonLine(const std::vector<int32_t> &prompt, const Completion &completion, double loadMs,
                     std::optional<size_t> index) {
  CompletionTimings t = completion.timings();
  OrderedJson out;
  if (index)
    out["index"] = *index;
  out["prompt_ids"] = prompt;
  out["ids"] = completion.ids();
  out["text"] = completion.text();
  out["finish_reason"] = finishReasonName(completion.finishReason());
  out["logprobs"] = completion.logprobs();
  out["timings"] = {{"load_ms", loadMs},
                    {"ttft_ms", t.ttftMs},
                    {"tpot_ms", t.tpotMs},
                    {"tokens_per_second", t.tokensPerSecond}};
  return out.dump() + "\n";
}

} // namespace dsv3::run
