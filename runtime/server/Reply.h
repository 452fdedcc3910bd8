// The JSON of an answer, whole or in chunks.
#pragma once

#include "runtime/server/Generation.h"

#include <memory>
#include <string>
#include <vector>

namespace dsv3::server {

/// What all objects of one answer share.
struct ReplyHead {
  std::string id;    ///< "cmpl-..." or "chatcmpl-..."
  std::string model; ///< as the client named it, or the first name
  int64_t created;   ///< seconds since 1970
};

class Reply {
public:
  virtual ~Reply() = default;

  /// For a stream: appends the chunks that an event makes, perhaps none.
  virtual void chunks(const Event &event, std::vector<OrderedJson> &out) = 0;
  /// For one answer: collects, and in the end gives it.
  virtual void add(const Event &event) = 0;
  virtual OrderedJson whole() = 0;

  OrderedJson usageChunk(const Generation::Usage &usage) const;
  static OrderedJson usageJson(const Generation::Usage &usage);

protected:
  Reply(ReplyHead head, const char *object, const char *chunkObject, const Prepared &request, const ServedModel &model)
      : headFields(std::move(head)), object(object), chunkObject(chunkObject), request(request), model(model) {}

  /// {"id", "object", "created", "model", "choices": [choice]}
  OrderedJson chunk(OrderedJson choice) const;
  OrderedJson head(const char *object) const;

  ReplyHead headFields;
  const char *object, *chunkObject;
  const Prepared &request;
  const ServedModel &model;
};

/// `request` and `model` must outlive the reply.
std::unique_ptr<Reply> makeCompletionReply(ReplyHead head, const Prepared &request, const ServedModel &model);
std::unique_ptr<Reply> makeChatReply(ReplyHead head, const Prepared &request, const ServedModel &model);

/// As clients know it: "stop", "length", "abort".
OrderedJson finishReasonJson(FinishReason reason);
/// On one line, ill-formed UTF-8 replaced.
std::string dump(const OrderedJson &json);

} // namespace dsv3::server
