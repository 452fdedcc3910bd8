#include "runtime/server/Prepared.h"

namespace dsv3::server {

namespace {

/// [{"type": "function", "function": {"name", "description", "parameters"}}]
std::optional<ApiError> checkTools(const OrderedJson &tools) {
  if (!tools.is_array() || tools.empty())
    return badField("tools", "expected a list of at least one tool, got " + describe(tools));
  for (size_t i = 0; i < tools.size(); ++i) {
    const OrderedJson &tool = tools[i];
    const std::string field = "tools[" + std::to_string(i) + "]";
    if (!tool.is_object() || tool.value("type", OrderedJson("")) != "function")
      return badField(field + ".type", "expected \"function\"");
    auto function = tool.find("function");
    if (function == tool.end() || !function->is_object() || !function->value("name", OrderedJson(nullptr)).is_string())
      return badField(field + ".function.name", "expected a text");
    if (auto p = function->find("parameters"); p != function->end() && !p->is_object() && !p->is_null())
      return badField(field + ".function.parameters", "expected a schema, got " + describe(*p));
  }
  return {};
}

/// "auto", "required", or {"type": "function", "function": {"name"}} with the name of one of the tools.
std::optional<ApiError> readChoice(const OrderedJson &choice, ToolUse &use) {
  if (choice == "auto")
    return {};
  use.choice = ToolUse::Choice::Required;
  if (choice == "required")
    return {};
  use.choice = ToolUse::Choice::Named;
  if (!choice.is_object() || choice.value("type", OrderedJson(nullptr)) != "function")
    return badField("tool_choice", "expected \"none\", \"auto\", \"required\" or an object of type \"function\", got " + describe(choice));
  auto function = choice.find("function");
  const OrderedJson name = function == choice.end() || !function->is_object() ? OrderedJson(nullptr) : function->value("name", OrderedJson(nullptr));
  for (size_t i = 0; i < use.tools->size(); ++i)
    if ((*use.tools)[i]["function"]["name"] == name) {
      use.named = i;
      return {};
    }
  return badField("tool_choice.function.name", "expected the name of one of the tools, got " + describe(name));
}

/// A tool as a guide needs it. No parameters: an empty object, as in vLLM.
guided::CallRules::Tool callable(const OrderedJson &tool) {
  const OrderedJson &function = tool["function"];
  auto parameters = function.find("parameters");
  const bool none = parameters == function.end() || parameters->is_null() || parameters->empty();
  return {function["name"].get<std::string>(), none ? R"({"type": "object", "properties": {}})" : parameters->dump()};
}

} // namespace

Outcome<ToolUse> readTools(Fields &fields, const ServedModel &model) {
  ToolUse use;
  const OrderedJson *tools = fields.find("tools"), *choice = fields.find("tool_choice");
  fields.boolean("parallel_tool_calls", use.parallel);
  if (fields.error())
    return *fields.error();
  if (!tools) {
    if (choice && *choice != "none")
      return badField("tool_choice", "expected only with tools, got " + describe(*choice));
    return use;
  }
  if (auto error = checkTools(*tools))
    return *error;
  if (choice && *choice == "none")
    return use; // the template is not told of them, so nothing is called
  use.format = text::toolFormatOf(model.text().tokenizerConfig().chatTemplate.value_or(""));
  if (use.format == text::ToolFormat::None)
    return badField("tools", "expected none: the model's chat template knows no tools");
  use.tools = tools;
  if (choice)
    if (auto error = readChoice(*choice, use))
      return *error;
  return use;
}

std::optional<ApiError> forceCalls(const ToolUse &use, const ServedModel &model, Prepared &prepared) {
  if (use.choice == ToolUse::Choice::Auto)
    return {};
  if (auto error = checkGuided(prepared.params, model, "tool_choice"))
    return error;
  Result<guided::Guides *> guides = model.guides();
  if (!guides)
    return badField("tool_choice", guides.error().message);
  const bool named = use.choice == ToolUse::Choice::Named;
  const size_t first = named ? use.named : 0, count = named ? 1 : use.tools->size();
  guided::CallRules rules;
  rules.several = !named && use.parallel;
  for (size_t i = first; i < first + count; ++i) {
    rules.tools.push_back(callable((*use.tools)[i]));
    if (!text::isToolName(rules.tools.back().name))
      return badField("tools[" + std::to_string(i) + "].function.name", "expected up to 256 characters without blanks and \"<\", got " +
                                                                           describe((*use.tools)[i]["function"]["name"]));
  }
  size_t failed = 0;
  Result<std::shared_ptr<guided::Guide>> guide = (*guides)->calls(rules, use.format, failed);
  if (!guide)
    return badField("tools[" + std::to_string(first + failed) + "].function.parameters", guide.error().message);
  guideBy(*guide, model, prepared);
  prepared.chat.forcedCalls = true;
  prepared.namedTool = named;
  return {};
}

} // namespace dsv3::server
