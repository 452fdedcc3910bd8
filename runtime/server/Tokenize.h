// /tokenize and /detokenize, as vLLM has them.
#pragma once

#include "runtime/server/Prepared.h"

namespace dsv3::server {

/// {"prompt", "add_special_tokens", "return_token_strs"} or a conversation as in a chat -> {"count", "max_model_len", "tokens",
/// "token_strs"}.
Outcome<std::string> tokenize(std::string_view body, const ServedModel &model);

/// {"tokens": [...]} -> {"prompt": "..."}
Outcome<std::string> detokenize(std::string_view body, const ServedModel &model);

} // namespace dsv3::server
