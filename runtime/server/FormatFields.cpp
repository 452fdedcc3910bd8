#include "runtime/server/Prepared.h"

#include <algorithm>

namespace dsv3::server {

namespace {

/// What an answer must be, and the field that says so.
struct Format {
  enum class Kind { Object, Schema, Choice };
  Kind kind;
  std::string field;
  std::string schema;
  std::vector<std::string> choices;
};

/// A schema, or in vLLM's fields its text.
Outcome<Format> schemaFormat(const OrderedJson *schema, std::string field, bool mayBeText) {
  const bool isText = schema && mayBeText && schema->is_string();
  if (!schema || !(schema->is_object() || schema->is_boolean() || isText))
    return badField(field, "expected a schema, got " + (schema ? describe(*schema) : std::string("nothing")));
  return Format{Format::Kind::Schema, std::move(field), isText ? schema->get<std::string>() : schema->dump(), {}};
}

Outcome<Format> choiceFormat(const OrderedJson &list, std::string field) {
  Format format{Format::Kind::Choice, std::move(field), "", {}};
  const std::string expected = "a list of up to 1024 texts without control characters";
  if (!list.is_array() || list.empty() || list.size() > 1024)
    return badField(format.field, "expected " + expected + ", got " + describe(list));
  for (const OrderedJson &one : list) {
    // A guide can ask for the bytes of JSON text only: others may have no token.
    auto bad = [](unsigned char c) { return (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f; };
    if (!one.is_string() || one.get_ref<const std::string &>().empty() ||
        std::any_of(one.get_ref<const std::string &>().begin(), one.get_ref<const std::string &>().end(), bad))
      return badField(format.field, "expected " + expected + ", got " + describe(one));
    format.choices.push_back(one.get<std::string>());
  }
  return format;
}

/// OpenAI's {"type": "json_schema", "json_schema": {"name", "schema"}}. Nothing for text.
Outcome<std::optional<Format>> responseFormat(const OrderedJson &format) {
  const OrderedJson type = format.value("type", OrderedJson(nullptr));
  if (type == "text")
    return std::optional<Format>();
  if (type == "json_object")
    return std::optional<Format>({Format::Kind::Object, "response_format", "", {}});
  if (type != "json_schema")
    return badField("response_format.type", "expected \"text\", \"json_object\" or \"json_schema\", got " + describe(type));
  auto outer = format.find("json_schema");
  if (outer == format.end() || !outer->is_object())
    return badField("response_format.json_schema", "expected an object, got " + (outer == format.end() ? std::string("nothing") : describe(*outer)));
  Outcome<Format> read = schemaFormat(Fields(*outer).find("schema"), "response_format.json_schema.schema", false);
  return read ? Outcome<std::optional<Format>>(std::move(*read)) : read.error();
}

/// vLLM's {"json"}, {"json_object"} or {"choice"}; other ways to constrain are not supported.
Outcome<std::optional<Format>> structuredOutputs(const OrderedJson &outputs) {
  std::optional<Format> found;
  for (const auto &[key, value] : outputs.items()) {
    const std::string field = "structured_outputs." + key;
    if (value.is_null() || value == false)
      continue;
    if (found)
      return badField(field, "expected one way to constrain the answer, got two");
    if (key != "json" && key != "json_object" && key != "choice")
      return badField(field, "is not supported");
    if (key == "json_object") {
      found = {Format::Kind::Object, field, "", {}};
      continue;
    }
    Outcome<Format> read = key == "json" ? schemaFormat(&value, field, true) : choiceFormat(value, field);
    if (!read)
      return read.error();
    found = std::move(*read);
  }
  return found;
}

/// Whichever field there is; 400 when there are two.
Outcome<std::optional<Format>> readFormat(Fields &fields) {
  std::optional<Format> found;
  for (const char *key : {"response_format", "structured_outputs", "guided_json", "guided_choice"}) {
    const OrderedJson *value = fields.find(key);
    if (!value || (value->is_structured() && value->empty()))
      continue;
    const bool isObject = key[0] != 'g';
    if (isObject && !value->is_object())
      return badField(key, "expected an object, got " + describe(*value));
    Outcome<std::optional<Format>> read = std::optional<Format>();
    if (isObject) {
      read = std::string(key) == "response_format" ? responseFormat(*value) : structuredOutputs(*value);
    } else {
      Outcome<Format> one = std::string(key) == "guided_json" ? schemaFormat(value, key, true) : choiceFormat(*value, key);
      read = one ? Outcome<std::optional<Format>>(std::move(*one)) : one.error();
    }
    if (!read)
      return read.error();
    if (found && *read)
      return badField(key, "expected one way to constrain the answer, got " + found->field + " as well");
    if (*read)
      found = std::move(*read);
  }
  return found;
}

} // namespace

std::optional<ApiError> checkGuided(const Params &params, const ServedModel &model, const std::string &field) {
  if (!model.tokenizer() || model.eosIds().empty())
    return badField(field, "is not supported: the model has no tokenizer or no end token");
  if (params.completion.ignoreEos)
    return badField("ignore_eos", "expected false with " + field + ": a guided answer ends when it is complete");
  if (!params.completion.stops.empty())
    return badField("stop", "expected none with " + field + ": a stop string could cut the JSON");
  if (params.completion.minTokens > 0)
    return badField("min_tokens", "expected 0 with " + field + ": a guided answer ends when it is complete");
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
  Outcome<std::optional<Format>> format = readFormat(fields);
  if (!format)
    return format.error();
  if (!*format)
    return {};
  const Format &f = **format;
  const std::string outer = f.field.substr(0, f.field.find('.'));
  if (prepared.makeConstraint)
    return badField(outer, "expected none with a tool_choice that forces a call");
  if (auto error = checkGuided(prepared.params, model, outer))
    return error;
  Result<guided::Guides *> guides = model.guides();
  if (!guides)
    return badField(outer, guides.error().message);
  Result<std::shared_ptr<guided::Guide>> guide = f.kind == Format::Kind::Object   ? (*guides)->jsonObject()
                                                 : f.kind == Format::Kind::Schema ? (*guides)->schema(f.schema)
                                                                                  : (*guides)->choice(f.choices);
  if (!guide)
    return badField(f.field, guide.error().message);
  guideBy(*guide, model, prepared);
  return {};
}

} // namespace dsv3::server
