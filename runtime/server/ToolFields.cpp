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

} // namespace

Outcome<ToolUse> readTools(Fields &fields, const ServedModel &model) {
  ToolUse use;
  const OrderedJson *tools = fields.find("tools"), *choice = fields.find("tool_choice");
  if (choice && *choice != "none" && *choice != "auto") {
    bool known = *choice == "required" || choice->is_object();
    return badField("tool_choice", known ? "expected \"auto\" or \"none\": calls cannot be forced"
                                         : "expected \"auto\" or \"none\", got " + describe(*choice));
  }
  if (!tools) {
    if (choice && *choice == "auto")
      return badField("tool_choice", "expected only with tools");
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
  return use;
}

} // namespace dsv3::server
