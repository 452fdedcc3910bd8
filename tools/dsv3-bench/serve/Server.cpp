#include "tools/dsv3-bench/serve/Server.h"

#include <thread>

namespace dsv3::bench::serve {

std::string replyError(int status, const std::string &body) {
  Result<Json> json = parseJson(body, "reply");
  std::string text = body;
  // {"error": {"message": ...}}, or the error itself, as some servers have it.
  if (json && json->is_object()) {
    const Json &error = json->contains("error") && (*json)["error"].is_object() ? (*json)["error"] : *json;
    if (error.contains("message") && error["message"].is_string())
      text = error["message"].get<std::string>();
  }
  return "HTTP " + std::to_string(status) + (text.empty() ? "" : ": " + printable(text, 200));
}

Result<Json> Server::ask(const std::string &method, const std::string &target, const Json &body) {
  Result<HttpReply> reply = http.call({method, target, body.is_null() ? "" : body.dump(-1, ' ', false, Json::error_handler_t::replace), headers});
  if (!reply)
    return reply.error();
  if (reply->status != 200)
    return usageError(target + ": expected HTTP 200, got " + replyError(reply->status, reply->body));
  Result<Json> json = parseJson(reply->body, target);
  if (!json)
    return usageError(json.error().message);
  return json;
}

Result<std::string> Server::firstModel() {
  Result<Json> json = ask("GET", "/v1/models", Json());
  if (!json)
    return json.error();
  const Json *data = json->is_object() && json->contains("data") ? &(*json)["data"] : nullptr;
  if (!data || !data->is_array() || data->empty() || !(*data)[0].is_object() || !(*data)[0].contains("id") || !(*data)[0]["id"].is_string())
    return usageError("/v1/models: expected a model, got none");
  return (*data)[0]["id"].get<std::string>();
}

Result<std::vector<int32_t>> Server::tokenize(const std::string &model, const std::string &text) {
  Result<Json> json = ask("POST", "/tokenize", {{"model", model}, {"prompt", text}, {"add_special_tokens", false}});
  if (!json)
    return json.error();
  std::vector<int32_t> ids;
  if (json->is_object() && json->contains("tokens") && (*json)["tokens"].is_array())
    for (const Json &id : (*json)["tokens"])
      if (id.is_number_integer())
        ids.push_back(id.get<int32_t>());
  if (ids.empty())
    return usageError("/tokenize: expected tokens, got none");
  return ids;
}

Result<std::string> Server::detokenize(const std::string &model, const std::vector<int32_t> &ids) {
  Result<Json> json = ask("POST", "/detokenize", {{"model", model}, {"tokens", ids}});
  if (!json)
    return json.error();
  if (!json->is_object() || !json->contains("prompt") || !(*json)["prompt"].is_string())
    return usageError("/detokenize: expected a prompt, got none");
  return (*json)["prompt"].get<std::string>();
}

Status Server::waitReady(double seconds) {
  auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  while (true) {
    Result<HttpReply> reply = http.call({"GET", "/health", "", headers});
    if (reply && reply->status == 200)
      return {};
    if (Clock::now() >= end)
      return reply ? Status(usageError("/health: expected HTTP 200, got " + replyError(reply->status, reply->body))) : Status(reply.error());
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

} // namespace dsv3::bench::serve
