#include "runtime/server/Routes.h"

#include "runtime/server/Reply.h"
#include "runtime/server/Server.h"

#include <algorithm>
#include <iterator>

namespace dsv3::server {

namespace {

constexpr std::string_view kModelPrefix = "/v1/models/";

ApiError unavailable(const char *message) {
  ApiError error;
  error.status = 503;
  error.type = "service_unavailable_error";
  error.message = message;
  error.code = "unavailable";
  return error;
}

/// Alive: what an orchestrator restarts by. A server that drains is alive.
Response health(Server &server, const RequestHead &) {
  if (server.engine().failure())
    return errorResponse(unavailable("the engine has failed"));
  if (server.engine().stuck())
    return errorResponse(unavailable("the engine is stuck: a step runs longer than --watchdog-timeout"));
  Response response;
  response.contentType = "text/plain";
  return response;
}

/// Takes requests: what a load balancer asks.
Response ready(Server &server, const RequestHead &) {
  if (std::optional<ApiError> error = server.refusal())
    return errorResponse(*error);
  if (server.engine().stuck())
    return errorResponse(unavailable("the engine is stuck: a step runs longer than --watchdog-timeout"));
  Response response;
  response.contentType = "text/plain";
  return response;
}

Response version(Server &server, const RequestHead &) { return jsonResponse(dump(OrderedJson{{"version", server.settings().version}})); }

OrderedJson modelJson(const ServedModel &model, const std::string &name) {
  return {{"id", name},          {"object", "model"}, {"created", model.created()},
          {"owned_by", "dsv3"},  {"root", model.names().front()}, {"parent", nullptr},
          {"max_model_len", model.limits().maxModelLen}};
}

Response models(Server &server, const RequestHead &) {
  const ServedModel &model = server.servedModel();
  OrderedJson list = {{"object", "list"}, {"data", OrderedJson::array()}};
  for (const std::string &name : model.names())
    list["data"].push_back(modelJson(model, name));
  return jsonResponse(dump(list));
}

Response oneModel(Server &server, const RequestHead &head) {
  const std::string name = head.path.substr(kModelPrefix.size());
  if (std::optional<ApiError> error = server.servedModel().checkName(name))
    return errorResponse(*error);
  return jsonResponse(dump(modelJson(server.servedModel(), name)));
}

Response metricsText(Server &server, const RequestHead &) {
  Response response;
  response.contentType = "text/plain; version=0.0.4; charset=utf-8";
  response.body = server.numbers().text(server.engine().snapshot(), server.engine().stuck(), server.draining());
  return response;
}

constexpr Route kRoutes[] = {
    {"/health", "GET", true, false, health},
    {"/ready", "GET", true, false, ready},
    {"/version", "GET", true, false, version},
    {"/metrics", "GET", true, false, metricsText},
    {"/v1/models", "GET", false, false, models},
    {"/v1/models/", "GET", false, false, oneModel},
    {"/v1/completions", "POST", false, true, nullptr},
    {"/v1/chat/completions", "POST", false, true, nullptr},
    {"/tokenize", "POST", false, true, nullptr},
    {"/detokenize", "POST", false, true, nullptr},
};

} // namespace

bool Route::allows(std::string_view given) const { return given == method || (given == "HEAD" && std::string_view(method) == "GET"); }

const Route *findRoute(std::string_view path) {
  bool isModel = path.size() > kModelPrefix.size() && path.substr(0, kModelPrefix.size()) == kModelPrefix;
  if (path == kModelPrefix)
    return nullptr;
  if (isModel)
    path = kModelPrefix;
  auto it = std::find_if(std::begin(kRoutes), std::end(kRoutes), [&](const Route &r) { return path == r.path; });
  return it == std::end(kRoutes) ? nullptr : it;
}

} // namespace dsv3::server
