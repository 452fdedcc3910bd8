#include "runtime/server/Reply.h"

namespace dsv3::server {

OrderedJson Reply::usageJson(const Generation::Usage &usage) {
  return {{"prompt_tokens", usage.prompt},
          {"total_tokens", usage.prompt + usage.completion},
          {"completion_tokens", usage.completion},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached}}}};
}

OrderedJson Reply::head(const char *of) const {
  return {{"id", headFields.id}, {"object", of}, {"created", headFields.created}, {"model", headFields.model}};
}

OrderedJson Reply::chunk(OrderedJson choice) const {
  OrderedJson out = head(chunkObject);
  out["choices"] = OrderedJson::array({std::move(choice)});
  return out;
}

OrderedJson Reply::usageChunk(const Generation::Usage &usage) const {
  OrderedJson out = head(chunkObject);
  out["choices"] = OrderedJson::array();
  out["usage"] = usageJson(usage);
  return out;
}

OrderedJson finishReasonJson(FinishReason reason) { return reasonLabel(reason); }

std::string dump(const OrderedJson &json) { return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace); }

} // namespace dsv3::server
