#include "runtime/server/Prepared.h"

namespace dsv3::server {

namespace {

/// The schema inside {"type": "json_schema", "json_schema": {"name", "schema"}}, as text.
Outcome<std::string> schemaText(const OrderedJson &format) {
  auto outer = format.find("json_schema");
  if (outer == format.end() || !outer->is_object())
    return badField("response_format.json_schema", "expected an object, got " + (outer == format.end() ? std::string("nothing") : describe(*outer)));
  auto schema = outer->find("schema");
  if (schema == outer->end() || !(schema->is_object() || schema->is_boolean()))
    return badField("response_format.json_schema.schema",
                    "expected a schema, got " + (schema == outer->end() ? std::string("nothing") : describe(*schema)));
  return schema->dump();
}

} // namespace

std::optional<ApiError> checkGuided(const Params &params, const ServedModel &model, const std::string &field) {
  if (!model.tokenizer() || model.eosIds().empty())
    return badField(field, "is not supported: the model has no tokenizer or no end token");
  if (params.completion.ignoreEos)
    return badField("ignore_eos", "expected false with " + field + ": a guided answer ends when it is complete");
  if (!params.completion.stops.empty())
    return badField("stop", "expected none with " + field + ": a stop string could cut the JSON");
  return {};
}

void guideBy(std::shared_ptr<guided::Guide> guide, const ServedModel &model, Prepared &prepared) {
  std::vector<int32_t> ends = model.eosIds();
  ends.insert(ends.end(), prepared.params.completion.stopIds.begin(), prepared.params.completion.stopIds.end());
  // Where the model may think or not, it is made to answer at once: thinking that never begins would never end.
  bool thinks = prepared.chat.reasoning == text::ReasoningStart::Inside;
  if (prepared.chat.reasoning == text::ReasoningStart::Opens)
    prepared.chat.reasoning = text::ReasoningStart::None;
  prepared.makeConstraint = [guide, ends, thinks] { return std::make_shared<guided::GuidedConstraint>(guide, ends, thinks); };
}

std::optional<ApiError> readResponseFormat(Fields &fields, const ServedModel &model, Prepared &prepared) {
  const OrderedJson *format = fields.child("response_format");
  if (fields.error() || !format)
    return fields.error();
  const std::string type = format->value("type", OrderedJson(nullptr)).is_string() ? (*format)["type"].get<std::string>() : "";
  if (type == "text")
    return {};
  if (type != "json_object" && type != "json_schema")
    return badField("response_format.type", "expected \"text\", \"json_object\" or \"json_schema\", got " +
                                                describe(format->value("type", OrderedJson(nullptr))));
  if (auto error = checkGuided(prepared.params, model, "response_format"))
    return error;
  Result<guided::Guides *> guides = model.guides();
  if (!guides)
    return badField("response_format", guides.error().message);
  std::string schema;
  if (type == "json_schema") {
    Outcome<std::string> text = schemaText(*format);
    if (!text)
      return text.error();
    schema = std::move(*text);
  }
  Result<std::shared_ptr<guided::Guide>> guide = type == "json_schema" ? (*guides)->schema(schema) : (*guides)->jsonObject();
  if (!guide)
    return badField("response_format.json_schema.schema", guide.error().message);
  guideBy(*guide, model, prepared);
  return {};
}

} // namespace dsv3::server
