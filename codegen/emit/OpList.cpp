#include "codegen/emit/OpList.h"

#include "codegen/targets/Targets.h"
#include "dialects/kernel/KernelDialect.h"
#include "runtime/core/Abi.h"
#include "runtime/core/DType.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace dsv3 {

namespace {
/// How an operand is seen: as it is, or as rows with all dims but the first joined.
enum class See { AsIs, Rows };

std::string elemText(Type type) {
  std::optional<DType> elem = type.isF32() ? std::optional(DType::F32) : type.isBF16() ? std::optional(DType::BF16) : type.isInteger(32) ? std::optional(DType::I32) : std::nullopt;
  return elem ? std::string(safetensorsName(*elem)) : "?";
}

/// Writes the description of one launch.
class Describe {
public:
  Describe(kernel::KernelOp launch, ArrayRef<unsigned> stepFields, ModuleOp module) : launch(launch), module(module) {
    int64_t ref = 0;
    for (OpOperand &operand : launch->getOpOperands()) {
      refs.push_back(ref);
      if (isa<ir::SeqType>(operand.get().getType()))
        ref += int64_t(stepFields.size());
      else if (auto use = operand.get().getDefiningOp<kernel::UseOp>())
        ref += int64_t(kernel::getPackedParts(cast<RankedTensorType>(use.getType())).size());
      else
        ++ref;
    }
  }

  OrderedJson run() {
    json["op"] = launch->getName().stripDialect().str();
    json["site"] = launch.getSiteName().str();
    if (auto symbol = launch->getAttrOfType<FlatSymbolRefAttr>("kernel.symbol"))
      json["kernel"] = symbol.getValue().str();
    json["attributes"] = OrderedJson::object();
    json["buffers"] = OrderedJson::array();
    llvm::TypeSwitch<Operation *>(launch.getOperation())
        .Case([&](kernel::EmbedOp op) { io({"ids", "table", "out"}); })
        .Case([&](kernel::NormOp op) { set("eps", op.getEps()), scheme(op.getOut()), io({"x", "gamma", "out"}, See::Rows); })
        .Case([&](kernel::AddNormOp op) { set("eps", op.getEps()), scheme(op.getOut()), io({"x", "residual", "gamma", "sum", "out"}, See::Rows); })
        .Case([&](kernel::AddNormQuantizeOp op) {
          set("eps", op.getEps()), scheme(op.getCodesOut()), io({"x", "residual", "gamma", "sum", "out", "codes"}, See::Rows);
        })
        .Case([&](kernel::QuantizeOp op) { scheme(op.getOut()), io({"x", "out"}, See::Rows); })
        .Case([&](kernel::GemmOp op) { io({"x", "w", "out"}, See::Rows); })
        .Case([&](kernel::GatedGemmOp op) { via(op.getVia()), io({"x", "w_gate", "w_up", "out"}, See::Rows); })
        .Case([&](kernel::BatchedGemmOp op) { io({"x", "w", "out"}); })
        .Case([&](kernel::AddOp op) { io({"x", "y", "out"}, See::Rows); })
        .Case([&](kernel::SwigluOp op) { scheme(op.getOut()), io({"gate", "up", "out"}, See::Rows); })
        .Case([&](kernel::ConcatOp op) { io({"x", "y", "out"}); })
        .Case([&](kernel::SelectRowsOp op) { io({"x", "", "out"}); })
        .Case([&](kernel::RopeOp op) { rope(op.getRope()), set("at", op.getAt()), io({"x", "", "", "out"}); })
        .Case([&](kernel::KvAppendOp op) { rope(op.getRope()), set("eps", op.getEps()), cache(op.getKv(), op.getLayer()), io({"kv_a", "gamma", "", "", "kv"}); })
        .Case([&](kernel::KvExpandOp op) { set("key_rows", op.getKeyRows()), cache(op.getKv(), op.getLayer()), io({"kv", "w_k", "w_v", "", "keys", "values"}); })
        .Case([&](kernel::AttnPrefillOp op) { set("key_rows", op.getKeyRows()), set("scale", op.getScale()), io({"q", "keys", "values", "", "out"}); })
        .Case([&](kernel::AttnDecodeOp op) { set("scale", op.getScale()), cache(op.getKv(), op.getLayer()), io({"q_latent", "q", "kv", "", "out"}); })
        .Case([&](kernel::RouteOp op) {
          set("groups", op.getGroups()), set("keep", op.getKeep()), set("top", op.getTop()), set("norm", op.getNorm()), set("scale", op.getScale());
          io({"logits", "bias", "ids", "weights"});
        })
        .Case([&](kernel::DispatchOp op) { io({"ids", "offsets", "token_of", "row_of"}); })
        .Case([&](kernel::GatherOp op) { io({"x", "token_of", "out"}); })
        .Case([&](kernel::GroupedGatedGemmOp op) {
          via(op.getVia());
          op.getTokenOf() ? io({"x", "w_gate", "w_up", "offsets", "token_of", "out"}) : io({"x", "w_gate", "w_up", "offsets", "out"});
        })
        .Case([&](kernel::GroupedGemmOp op) { io({"x", "w", "offsets", "out"}); })
        .Case([&](kernel::CombineOp op) { op.getPlus() ? io({"rows", "row_of", "weights", "plus", "out"}) : io({"rows", "row_of", "weights", "out"}); });
    return std::move(json);
  }

  /// A split launch and its combination as one attn_decode.
  OrderedJson asDecode(kernel::AttnSplitOp split) {
    json = {{"op", "attn_decode"}, {"attributes", OrderedJson::object()}, {"buffers", OrderedJson::array()}};
    set("scale", split.getScale());
    cache(split.getKv(), split.getLayer());
    io({"q_latent", "q", "kv", "", "", "", "out"});
    return std::move(json);
  }

private:
  void set(const char *key, const llvm::APFloat &v) { json["attributes"][key] = v.convertToDouble(); }
  void set(const char *key, uint64_t v) { json["attributes"][key] = v; }
  void set(const char *key, bool v) { json["attributes"][key] = v; }
  void via(Type type) { json["attributes"]["via"] = type.isF32() ? "f32" : "bf16"; }

  void rope(ir::RopeAttr r) {
    OrderedJson &a = json["attributes"];
    a["dims"] = r.getDims();
    a["theta"] = double(r.getTheta());
    a["interleaved"] = r.getInterleaved();
    a["attention_factor"] = double(r.getScale());
    if (double(r.getFactor()) > 0)
      a["yarn"] = {{"factor", double(r.getFactor())}, {"original", r.getOriginal()}, {"beta_fast", double(r.getBetaFast())}, {"beta_slow", double(r.getBetaSlow())}};
  }

  void scheme(Value quantised) {
    if (auto blocked = dyn_cast_or_null<ir::BlockedAttr>(cast<RankedTensorType>(quantised.getType()).getEncoding())) {
      set("block", uint64_t(blocked.getBlock().back()));
      set("powers_of_two", blocked.getPow2Scale());
    }
  }

  void cache(Value kv, uint64_t layer) {
    set("layer", layer);
    set("latent", uint64_t(cast<ir::KvType>(kv.getType()).getLatent()));
  }

  /// Operands by name, in order; "" for one that the reference does not look at.
  void io(ArrayRef<StringRef> names, See see = See::AsIs) {
    unsigned firstOut = launch->getNumOperands() - launch.getNumOuts();
    for (auto [i, name] : llvm::enumerate(names))
      if (!name.empty())
        json["buffers"].push_back(buffer(unsigned(i), name, i >= firstOut, see));
  }

  OrderedJson buffer(unsigned operand, StringRef name, bool out, See see) {
    Value v = launch->getOperand(operand);
    OrderedJson b = {{"name", name.str()}};
    if (auto kv = dyn_cast<ir::KvType>(v.getType())) {
      b["role"] = "cache";
      b["elem"] = elemText(kv.getElem());
      b["shape"] = {kv.getLayers(), 0, kv.getPage(), kv.getLatent() + kv.getRope()};
      b["ref"] = refs[operand];
      return b;
    }
    auto type = cast<RankedTensorType>(v.getType());
    if (auto use = v.getDefiningOp<kernel::UseOp>()) {
      auto weight = module.lookupSymbol<kernel::WeightOp>(use.getWeight());
      b["role"] = "weight";
      b["elem"] = elemText(type.getElementType());
      b["shape"] = type.getShape().vec();
      b["weight"] = weight ? weight.getSource().str() : "?";
      return b;
    }
    kernel::RowAccess access = kernel::getRowAccess(v);
    auto base = cast<RankedTensorType>(access.base.getType());
    std::vector<int64_t> shape = base.getShape().vec();
    bool joined = base.getRank() > type.getRank(); // a view of all heads
    bool whole = base == type || joined;
    if ((see == See::Rows || joined) && whole && shape.size() > 2)
      shape = {shape[0], base.getNumElements() / shape[0]};
    b["role"] = out ? "output" : "input";
    b["elem"] = elemText(type.getElementType());
    b["shape"] = shape;
    b["at"] = access.offset;
    b["lanes"] = whole ? shape.back() : type.getShape().back();
    b["ref"] = refs[operand];
    if (auto blocked = dyn_cast_or_null<ir::BlockedAttr>(base.getEncoding())) {
      b["scales"] = kernel::getValueParts(base)[1].offset;
      b["block"] = blocked.getBlock().vec();
    }
    return b;
  }

  kernel::KernelOp launch;
  ModuleOp module;
  SmallVector<int64_t> refs; // first reference of each operand
  OrderedJson json;
};
} // namespace

Status OpList::collect(ModuleOp module) {
  FailureOr<codegen::TargetChoice> choice = codegen::chooseTarget(module, "");
  if (failed(choice))
    return internalError("expected a module with a target");
  list = {{"programs", OrderedJson::array()}};
  for (auto program : module.getOps<ir::ProgramOp>()) {
    OrderedJson ops = OrderedJson::array();
    llvm::DenseMap<Operation *, size_t> numbers;
    program.walk([&](kernel::KernelOp launch) {
      const codegen::KernelEmitter *emitter = choice->registry->lookup(launch);
      OrderedJson op = Describe(launch, emitter ? ArrayRef<unsigned>(emitter->signature(launch).stepFields) : ArrayRef<unsigned>(), module).run();
      if (auto type = dyn_cast<RankedTensorType>(launch->getResult(0).getType()))
        op["rows"] = codegen::rowScalar(launch->getResult(0)) == DSV3_SCALAR_SEQS ? "seqs" : "tokens";
      numbers[launch] = ops.size();
      ops.push_back(std::move(op));
    });
    // attn_split and attn_combine compute together what attn_decode does: the combination is where its result is whole.
    program.walk([&](kernel::AttnCombineOp combine) {
      auto split = combine.getPartial().getDefiningOp<kernel::AttnSplitOp>();
      if (!split)
        return;
      OrderedJson decode = Describe(split, choice->registry->lookup(split)->signature(split).stepFields, module).asDecode(split);
      for (OrderedJson &b : decode["buffers"])
        b["launch"] = numbers.lookup(split);
      ops[numbers.lookup(combine)].update(decode);
    });
    list["programs"].push_back({{"name", program.getSymName().str()}, {"ops", std::move(ops)}});
  }
  return {};
}

/// Pool and offset of every reference of a launch, or null: another op.
static std::optional<std::vector<std::pair<int64_t, int64_t>>> placesOf(Operation &op) {
  ValueRange bufs;
  if (auto grid = dyn_cast<rt::LaunchGridOp>(op))
    bufs = grid.getBufs();
  else if (auto range = dyn_cast<rt::LaunchRangeOp>(op))
    bufs = range.getBufs();
  else
    return std::nullopt;
  std::vector<std::pair<int64_t, int64_t>> places;
  for (Value buf : bufs) {
    auto view = buf.getDefiningOp<rt::ViewOp>();
    places.push_back({int64_t(view.getPool()), int64_t(view.getOffset())});
  }
  return places;
}

Status OpList::place(rt::ModuleOp host) {
  size_t number = 0;
  for (auto program : host.getBody().front().getOps<rt::ProgramOp>()) {
    std::vector<std::vector<std::pair<int64_t, int64_t>>> launches;
    for (Operation &op : program.getBody().front())
      if (auto places = placesOf(op))
        launches.push_back(std::move(*places));
    if (number >= list["programs"].size() || list["programs"][number]["ops"].size() != launches.size())
      return internalError("program @" + program.getSymName().str() + ": expected the launches that were described");
    OrderedJson &ops = list["programs"][number++]["ops"];
    for (size_t i = 0; i < ops.size(); ++i)
      for (OrderedJson &b : ops[i]["buffers"]) {
        if (!b.contains("ref"))
          continue;
        const auto &places = launches[b.value("launch", i)];
        auto ref = b["ref"].get<size_t>();
        if (ref >= places.size())
          return internalError("launch " + ops[i]["site"].get<std::string>() + ": expected more than " + std::to_string(ref) + " references");
        b["pool"] = places[ref].first;
        b["offset"] = places[ref].second;
        b.erase("ref");
        b.erase("launch");
      }
  }
  return {};
}

} // namespace dsv3
