#include "runtime/server/Connection.h"
#include "runtime/server/Log.h"
#include "runtime/server/Server.h"
#include "runtime/server/Tokenize.h"

namespace dsv3::server {

namespace {

int64_t now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

ApiError failureOf(const Event &event) {
  if (event.error) {
    log(LogLevel::Error, "a request failed", {{"error", event.error->message}});
    return fromEngine(*event.error, "");
  }
  ApiError error;
  error.status = 500;
  error.type = "internal_error";
  error.message = "the engine failed while it worked on this request";
  return error;
}

ApiError wasCutOff() {
  ApiError error;
  error.status = 503;
  error.type = "service_unavailable_error";
  error.message = "the server shut down before the request was finished";
  error.code = "unavailable";
  return error;
}

/// `work`, which reads what strangers wrote: should a library throw, the request fails and not the server.
template <typename Work> std::invoke_result_t<Work> guarded(Work work) {
  try {
    return work();
  } catch (const std::exception &e) {
    log(LogLevel::Error, "a request could not be read", {{"error", e.what()}});
    ApiError error;
    error.status = 500;
    error.type = "internal_error";
    error.message = "the request could not be read";
    return error;
  }
}

} // namespace

awaitable<void> Connection::answer(const RequestHead &head, std::string body) {
  if (head.path == "/v1/completions" || head.path == "/v1/chat/completions") {
    co_await generate(head, std::move(body), head.path == "/v1/chat/completions");
    co_return;
  }
  const ServedModel &model = server.servedModel();
  bool encode = head.path == "/tokenize";
  Outcome<std::string> made = co_await offload(server.slowPool(), [&model, encode, body = std::move(body)] {
    return guarded([&] { return encode ? tokenize(body, model) : detokenize(body, model); });
  });
  if (!gone)
    co_await respond(head, made ? jsonResponse(std::move(*made)) : errorResponse(made.error()));
}

awaitable<void> Connection::generate(const RequestHead &head, std::string body, bool chat) {
  const ServedModel &model = server.servedModel();
  Outcome<Prepared> prepared = co_await offload(server.pool(), [&model, chat, body = std::move(body)] {
    return guarded([&] { return chat ? prepareChat(body, model) : prepareCompletion(body, model); });
  });
  if (gone)
    co_return;
  if (!prepared) {
    co_await respond(head, errorResponse(prepared.error()));
    co_return;
  }
  const std::string id = (chat ? "chatcmpl-" : "cmpl-") + head.requestId;
  const Params &params = prepared->params;
  ReplyHead replyHead{id, params.model.empty() ? model.names().front() : params.model, now()};
  std::unique_ptr<Reply> reply = chat ? makeChatReply(replyHead, *prepared, model) : makeCompletionReply(replyHead, *prepared, model);
  generation = std::make_shared<Generation>(server.engine(), server.numbers(), socket.get_executor(),
                                            params.stream ? size_t(server.settings().streamBufferBytes) : 0);
  if (auto error = generation->start(*prepared, model, id, server.nextSeed()))
    co_await respond(head, errorResponse(*error));
  else if (params.stream)
    co_await streamAnswer(head, *prepared, *reply);
  else
    co_await wholeAnswer(head, *reply);
  generation->cancel(); // nothing unless we stopped before the end
  generation->onOverflow = nullptr;
  generation.reset();
}

awaitable<void> Connection::wholeAnswer(const RequestHead &head, Reply &reply) {
  std::optional<ApiError> failed;
  while (!generation->ended() && !gone && !failed)
    for (const Event &event : co_await generation->events()) {
      if (event.end == FinishReason::Error)
        failed.emplace(failureOf(event));
      else if (event.end == FinishReason::Cancelled)
        failed.emplace(wasCutOff());
      reply.add(event);
    }
  if (gone) {
    logRequest(head, 499);
    co_return;
  }
  if (failed) {
    co_await respond(head, errorResponse(*failed));
    co_return;
  }
  OrderedJson whole = reply.whole();
  whole["usage"] = Reply::usageJson(generation->usage());
  co_await respond(head, jsonResponse(dump(whole)));
}

awaitable<void> Connection::streamAnswer(const RequestHead &head, const Prepared &prepared, Reply &reply) {
  generation->onOverflow = [this] {
    ++server.numbers().slowReaders;
    log(LogLevel::Warning, "slow reader", {{"pending_limit", server.settings().streamBufferBytes}});
    abort();
  };
  keepAlive = keepAlive && head.http11; // without chunks the end of the connection is the end of the stream
  server.numbers().responded(200);
  bool good = co_await write(responseHead(head, 200, "text/event-stream; charset=utf-8", std::nullopt, keepAlive, {{"Cache-Control", "no-cache"}}));
  while (good && !gone && !generation->ended()) {
    std::string out;
    for (const Event &event : co_await generation->events()) {
      if (event.end == FinishReason::Error) {
        out += sseEvent(failureOf(event).json());
        continue;
      }
      std::vector<OrderedJson> chunks;
      reply.chunks(event, chunks);
      for (OrderedJson &chunk : chunks) {
        if (prepared.params.includeUsage)
          chunk["usage"] = prepared.params.continuousUsage ? Reply::usageJson(generation->usage()) : OrderedJson(nullptr);
        out += sseEvent(dump(chunk));
      }
    }
    if (generation->ended()) {
      if (prepared.params.includeUsage)
        out += sseEvent(dump(reply.usageChunk(generation->usage())));
      out += sseEvent("[DONE]");
    }
    std::string framed;
    if (!out.empty() && head.http11)
      appendChunk(framed, out);
    if (generation->ended() && head.http11)
      framed += kLastChunk;
    good = co_await write(head.http11 ? std::move(framed) : std::move(out));
  }
  if (!good)
    clientGone();
  logRequest(head, gone ? 499 : 200);
}

} // namespace dsv3::server
