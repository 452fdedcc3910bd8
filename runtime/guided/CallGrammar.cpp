#include "runtime/guided/CallGrammar.h"

#include "runtime/guided/JsonGrammar.h"
#include "runtime/guided/SchemaCompiler.h"

namespace dsv3::guided {

Result<Grammar> callGrammar(const CallRules &rules, const text::ToolSyntax &syntax, size_t &failed, const Limits &limits) {
  Grammar g(limits);
  JsonGrammar json(g);
  RuleId root = g.addRule();
  StateId begin = g.addState(), call = g.addState(), called = g.addState(), end = g.addState();
  g.accept(end);
  g.addCall(g.startOf(root), json.leading(), begin); // R1 writes line ends behind its reasoning
  g.addLiteral(begin, syntax.begin, call);
  for (failed = 0; failed < rules.tools.size(); ++failed) {
    const CallRules::Tool &tool = rules.tools[failed];
    Result<RuleId> arguments = addSchema(tool.schema, g, json, limits);
    if (!arguments)
      return arguments.error();
    StateId before = g.addState(), after = g.addState();
    g.addLiteral(call, syntax.beforeName + tool.name + syntax.beforeArguments, before);
    g.addCall(before, *arguments, after);
    g.addLiteral(after, syntax.afterArguments, called);
  }
  if (rules.several)
    g.addLiteral(called, syntax.between, call);
  g.addLiteral(called, syntax.end, end);
  failed = 0;
  if (Status s = g.finish(root); !s)
    return Error{s.error().code, "schema: " + s.error().message};
  return std::move(g);
}

} // namespace dsv3::guided
