// The language of answers that must call tools: their calls, in the model's own format, and nothing else.
#pragma once

#include "runtime/guided/Grammar.h"
#include "runtime/text/chat/ToolCalls.h"

#include <string>
#include <vector>

namespace dsv3::guided {

struct CallRules {
  struct Tool {
    std::string name;   ///< text::isToolName
    std::string schema; ///< of the arguments, as JSON text
  };
  std::vector<Tool> tools; ///< those that may be called
  bool several = false;    ///< one call or more; else exactly one
};

/// At least one call of one of the tools, its arguments of the tool's schema. `syntax` is as the vocabulary writes it
/// (Vocabulary::written). Usage errors as compileSchema's; `failed` is then the tool whose schema it is about.
Result<Grammar> callGrammar(const CallRules &rules, const text::ToolSyntax &syntax, size_t &failed, const Limits &limits = {});

} // namespace dsv3::guided
