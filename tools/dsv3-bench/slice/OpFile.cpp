#include "tools/dsv3-bench/slice/OpFile.h"

#include <algorithm>

namespace dsv3::bench {

namespace {
Result<Buffer> bufferOf(const Json &json, const std::string &where, OperandPlace &place) {
  JsonFields f(json, where, "buffer.");
  Result<std::string> name = f.string("name"), role = f.string("role"), elem = f.string("elem");
  if (!name || !role || !elem)
    return !name ? name.error() : !role ? role.error() : elem.error();
  Buffer b;
  b.name = *name;
  static const std::pair<const char *, Role> roles[] = {{"input", Role::Input}, {"output", Role::Output}, {"weight", Role::Weight}, {"cache", Role::Cache}};
  const auto *known = std::find_if(std::begin(roles), std::end(roles), [&](auto &r) { return *role == r.first; });
  std::optional<DType> type = dtypeFromSafetensors(*elem);
  const Json *shape = f.find("shape");
  if (known == std::end(roles) || !type || !shape || !shape->is_array() || shape->empty())
    return checkpointError(where + ": buffer " + printable(b.name) + ": expected a role, a type and a shape");
  b.role = known->second;
  b.elem = *type;
  for (const Json &size : *shape)
    b.shape.push_back(size.is_number_integer() ? size.get<int64_t>() : 0);
  b.at = json.value("at", int64_t(0));
  b.lanes = json.value("lanes", b.shape.back());
  place.weight = json.value("weight", std::string());
  place.ref.pool = json.value("pool", uint32_t(DSV3_POOL_COUNT));
  place.ref.offset = json.value("offset", uint64_t(0));
  place.scales = json.value("scales", int64_t(-1));
  if (place.scales >= 0 && json.contains("block") && json["block"].is_array() && !json["block"].empty())
    place.scaleColumns = json["block"].back().get<int64_t>();
  if (b.role == Role::Weight ? place.weight.empty() : place.ref.pool >= DSV3_POOL_COUNT)
    return checkpointError(where + ": buffer " + printable(b.name) + ": expected a place");
  return b;
}

Result<LaunchOp> opOf(const Json &json, const std::string &where) {
  JsonFields f(json, where);
  Result<std::string> op = f.string("op"), site = f.string("site"), kernel = f.stringOr("kernel", ""), rows = f.stringOr("rows", "tokens");
  const Json *buffers = f.find("buffers"), *attributes = f.find("attributes");
  if (!op || !site || !buffers || !buffers->is_array() || !attributes || !attributes->is_object())
    return checkpointError(where + ": expected op, site, attributes and buffers");
  LaunchOp out;
  out.c.op = *op;
  out.c.name = *site;
  out.c.shape = *attributes;
  out.kernel = kernel ? *kernel : "";
  out.perSequence = rows && *rows == "seqs";
  for (const Json &b : *buffers) {
    OperandPlace place;
    Result<Buffer> buffer = bufferOf(b, where + " " + *site, place);
    if (!buffer)
      return buffer.error();
    out.c.buffers.push_back(std::move(*buffer));
    out.places.push_back(std::move(place));
  }
  return out;
}
} // namespace

Result<std::vector<ProgramOps>> readOpFile(const std::string &path) {
  Result<Json> json = parseJsonFile(path);
  if (!json)
    return Error{json.error().code, json.error().message + ": compile the model with --op-list"};
  const Json *programs = JsonFields(*json, path).find("programs");
  if (!programs || !programs->is_array())
    return checkpointError(path + ": programs: expected a list");
  std::vector<ProgramOps> out;
  for (const Json &p : *programs) {
    ProgramOps program;
    program.name = p.value("name", std::string());
    for (const Json &op : p.value("ops", Json::array())) {
      Result<LaunchOp> read = opOf(op, path + ": " + program.name);
      if (!read)
        return read.error();
      program.ops.push_back(std::move(*read));
    }
    out.push_back(std::move(program));
  }
  return out;
}

} // namespace dsv3::bench
