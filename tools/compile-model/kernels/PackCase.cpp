#include "tools/compile-model/kernels/PackCase.h"

#include "passes/schedule/SchedulePasses.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace dsv3 {

Result<DType> packType(Type type) {
  if (type.isF32())
    return DType::F32;
  if (type.isBF16())
    return DType::BF16;
  if (isa<Float8E4M3FNType>(type))
    return DType::F8E4M3;
  if (type.isInteger(32))
    return DType::I32;
  if (type.isInteger(64))
    return DType::I64;
  if (type.isInteger(8) || type.isInteger(4)) // a part says whether two lie in a byte
    return DType::I8;
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return internalError("expected f32, bf16, f8E4M3FN, i4, i8, i32 or i64 in a pack, got " + text);
}

namespace {
DType packType(codegen::TensorMap::Elem elem) {
  switch (elem) {
  case codegen::TensorMap::Elem::U8: return DType::U8;
  case codegen::TensorMap::Elem::BF16: return DType::BF16;
  case codegen::TensorMap::Elem::F32: return DType::F32;
  case codegen::TensorMap::Elem::I32: return DType::I32;
  }
  llvm_unreachable("every element type is listed");
}

/// The buffer an operand lies in, and where.
struct Place {
  int64_t buffer = 0, offset = 0;
};

class Packer {
public:
  Packer(ir::ProgramOp program, const codegen::KernelRegistry &registry, const std::vector<StepField> &fields)
      : program(program), module(program->getParentOfType<ModuleOp>()), registry(registry), fields(fields) {}

  Result<bench::Case> run() {
    Operation *end = program.getBody().front().getTerminator();
    for (OpOperand &result : end->getOpOperands())
      if (isa<RankedTensorType>(result.get().getType()))
        outputs[root(result.get())] = program.getResultName(result.getOperandNumber());
    for (BlockArgument arg : program.getBody().getArguments())
      if (Status s = addArgument(arg); !s)
        return s.error();
    for (Operation &op : program.getBody().front())
      if (auto launch = dyn_cast<kernel::KernelOp>(op))
        if (Status s = addLaunch(launch); !s)
          return s.error();
    return std::move(out);
  }

private:
  /// The value whose buffer holds `v`: an argument, an empty destination, or a use of a weight.
  static Value root(Value v) {
    while (true) {
      if (isa<RankedTensorType>(v.getType()))
        v = kernel::getRowAccess(v).base;
      auto launch = dyn_cast_or_null<kernel::KernelOp>(v.getDefiningOp());
      if (!launch)
        return v;
      v = launch.getOuts()[cast<OpResult>(v).getResultNumber()];
    }
  }

  int64_t add(bench::Buffer buffer) {
    out.buffers.push_back(std::move(buffer));
    return int64_t(out.buffers.size()) - 1;
  }

  Result<bench::Buffer> tensorBuffer(StringRef name, bench::Role role, RankedTensorType type) {
    bench::Buffer b;
    b.name = name.str();
    b.role = role;
    Result<DType> elem = dsv3::packType(type.getElementType());
    if (!elem)
      return elem.error();
    b.elem = *elem;
    b.shape.assign(type.getShape().begin(), type.getShape().end());
    b.lanes = type.getShape().empty() ? 1 : type.getShape().back();
    b.bytes = kernel::getValueBytes(type);
    if (Status s = addParts(b, type); !s)
      return s.error();
    return b;
  }

  /// Rows of quantised numbers: codes, then scales, both row-major. Leading dims (heads of a token's query) are more rows.
  static Status addParts(bench::Buffer &b, RankedTensorType type) {
    auto blocked = dyn_cast_or_null<ir::BlockedAttr>(type.getEncoding());
    if (!blocked)
      return {};
    if (type.getRank() < 2 || blocked.getBlock().size() != 2)
      return internalError("expected quantised rows [..., N, K] with blocks of two dims in a pack, got " + b.name);
    for (auto [block, dim] : llvm::zip(blocked.getBlock(), type.getShape().take_back(2)))
      b.block.push_back(ShapedType::isDynamic(block) ? dim : block);
    for (const kernel::PackedPart &part : kernel::getValueParts(type)) {
      Result<DType> elem = dsv3::packType(part.elem);
      if (!elem)
        return elem.error();
      std::string rows = b.block[0] == 1 ? "n" : "n/" + std::to_string(b.block[0]);
      std::string scales = "(n, k) -> [" + rows + ", k/" + std::to_string(b.block[1]) + "]";
      b.parts.push_back({part.name.str(), *elem, part.offset, part.bytes, 0, part.name == "scale" ? scales : "(n, k) -> [n, k]"});
    }
    return {};
  }

  Status addArgument(BlockArgument arg) {
    StringRef name = program.getArgName(arg.getArgNumber());
    if (isa<ir::SeqType>(arg.getType())) {
      bench::Buffer step;
      step.name = "step";
      step.role = bench::Role::Step;
      step.elem = DType::U8;
      step.bytes = stepBytes(fields);
      step.shape = {step.bytes};
      places[arg] = add(std::move(step));
      return {};
    }
    if (auto kv = dyn_cast<ir::KvType>(arg.getType())) {
      bench::Buffer cache;
      cache.name = name.str();
      cache.role = bench::Role::Cache;
      Result<DType> elem = dsv3::packType(kv.getElem());
      if (!elem)
        return elem.error();
      cache.elem = *elem;
      cache.shape = {kv.getLayers(), 0, kv.getPage(), kv.getLatent() + kv.getRope()};
      if (kv.getScheme()) {
        cache.latent = kv.getLatent();
        cache.codes = isa<Float8E5M2Type>(kv.getCodes()) ? DType::F8E5M2 : DType::F8E4M3;
      }
      places[arg] = add(std::move(cache));
      return {};
    }
    // An argument that is also returned is rotated in place: an input that is compared.
    Result<bench::Buffer> b = tensorBuffer(name, bench::Role::Input, cast<RankedTensorType>(arg.getType()));
    if (!b)
      return b.error();
    for (Operation *user : arg.getUsers())
      if (auto view = dyn_cast<kernel::ViewOp>(user)) {
        b->at = int64_t(view.getOffset());
        b->lanes = cast<RankedTensorType>(view.getType()).getShape().back();
      }
    if (std::distance(arg.user_begin(), arg.user_end()) > 1) // two views: the whole rows
      b->at = 0, b->lanes = b->shape.back();
    places[arg] = add(std::move(*b));
    return {};
  }

  Result<int64_t> addWeight(kernel::UseOp use) {
    auto weight = SymbolTable::lookupNearestSymbolFrom<kernel::WeightOp>(module, use.getWeightAttr());
    if (!weight)
      return internalError("expected a kernel.weight named @" + use.getWeight().str());
    RankedTensorType type = weight.getTensorType();
    auto packed = cast<kernel::PackedAttr>(type.getEncoding());
    Result<bench::Buffer> b = tensorBuffer(weight.getSource().rsplit('.').second, bench::Role::Weight, type.cloneWithEncoding({}));
    if (!b)
      return b.error();
    b->bytes = kernel::getPackedBytes(type);
    for (const kernel::PackedPart &part : kernel::getPackedParts(type)) {
      Result<DType> elem = dsv3::packType(part.elem);
      if (!elem)
        return elem.error();
      kernel::LayoutAttr layout = part.name == "scale" ? packed.getScale() : packed.getLayout();
      b->parts.push_back({part.name.str(), *elem, part.offset, part.bytes, part.outerStride, layout.getMap().str(), part.elem.isInteger(4)});
    }
    if (auto blocked = dyn_cast_or_null<ir::BlockedAttr>(packed.getScheme())) {
      ArrayRef<int64_t> block = blocked.getBlock();
      for (size_t d = 0; d < 2; ++d) {
        int64_t size = block.size() + d < 2 ? 1 : block[block.size() - 2 + d];
        b->block.push_back(ShapedType::isDynamic(size) ? type.getDimSize(type.getRank() - 2 + int64_t(d)) : size);
      }
    }
    return add(std::move(*b));
  }

  Result<int64_t> place(Value value) {
    Value at = root(value);
    if (auto known = places.find(at); known != places.end())
      return known->second;
    Result<int64_t> index = internalError("an operand of " + out.name + " has no place in memory");
    if (auto use = at.getDefiningOp<kernel::UseOp>()) {
      index = addWeight(use);
    } else if (at.getDefiningOp<kernel::EmptyOp>()) {
      auto output = outputs.find(at);
      bool named = output != outputs.end();
      std::string name = named ? output->second.str() : "scratch" + std::to_string(out.buffers.size());
      Result<bench::Buffer> b = tensorBuffer(name, named ? bench::Role::Output : bench::Role::Scratch, cast<RankedTensorType>(at.getType()));
      if (!b)
        return b.error();
      index = add(std::move(*b));
    }
    if (index)
      places[at] = *index;
    return index;
  }

  /// The references of a launch, in the order that KernelEmitter.h gives them.
  Status references(kernel::KernelOp launch, ArrayRef<unsigned> stepFields, SmallVectorImpl<Place> &refs) {
    for (Value operand : launch->getOperands()) {
      Result<int64_t> buffer = place(operand);
      if (!buffer)
        return buffer.error();
      if (isa<ir::SeqType>(operand.getType())) {
        for (unsigned f : stepFields)
          refs.push_back({*buffer, fields[f].offset});
      } else if (out.buffers[size_t(*buffer)].role == bench::Role::Weight) {
        for (const bench::Part &part : out.buffers[size_t(*buffer)].parts)
          refs.push_back({*buffer, part.offset});
      } else {
        refs.push_back({*buffer, 0});
      }
    }
    return {};
  }

  Status addLaunch(kernel::KernelOp launch) {
    std::string site = launch.getSiteName().str();
    const codegen::KernelEmitter *emitter = registry.lookup(launch);
    const codegen::DeviceEmitter *device = emitter ? emitter->asDevice() : nullptr;
    auto symbol = launch->getAttrOfType<FlatSymbolRefAttr>(kKernelSymbolAttr);
    if (!device || !symbol)
      return internalError(site + ": a launch was left without a device kernel");
    SmallVector<Place> refs;
    if (Status s = references(launch, device->signature(launch).stepFields, refs); !s)
      return s;
    codegen::DeviceLaunch from = device->launch(launch);
    bench::Launch to;
    to.kernel = symbol.getValue().str();
    to.op = launch->getName().getStringRef().str();
    to.perProgram = isa<kernel::AttnPlanOp>(launch);
    to.grid = from.grid;
    to.threads = from.threads;
    to.smem = from.smem;
    to.cluster = from.cluster;
    for (const codegen::DeviceParam &p : from.params) {
      Result<bench::Param> param = packParam(p, refs, site);
      if (!param)
        return param.error();
      to.params.push_back(*param);
    }
    out.launches.push_back(std::move(to));
    return {};
  }

  static Result<bench::Param> packParam(const codegen::DeviceParam &from, ArrayRef<Place> refs, const std::string &site) {
    bench::Param p;
    if (const auto *number = std::get_if<codegen::DeviceParam::Const>(&from.value)) {
      p.value = number->value;
      return p;
    }
    const auto *map = std::get_if<codegen::DeviceParam::Map>(&from.value);
    const auto *pointer = std::get_if<codegen::DeviceParam::Pointer>(&from.value);
    unsigned ref = map ? map->ref : pointer->ref;
    if (ref >= refs.size())
      return internalError(site + ": a parameter names reference " + std::to_string(ref) + " of " + std::to_string(refs.size()));
    p.kind = map ? bench::Param::Kind::Map : bench::Param::Kind::Pointer;
    p.buffer = refs[ref].buffer;
    p.offset = refs[ref].offset + (map ? map->offset : pointer->offset);
    if (map) {
      p.map.elem = packType(map->map.elem);
      p.map.dims.assign(map->map.dims.begin(), map->map.dims.end());
      p.map.strides.assign(map->map.strides.begin(), map->map.strides.end());
      p.map.box.assign(map->map.box.begin(), map->map.box.end());
      p.map.swizzle = map->map.swizzle;
    }
    return p;
  }

  ir::ProgramOp program;
  ModuleOp module;
  const codegen::KernelRegistry &registry;
  const std::vector<StepField> &fields;
  bench::Case out;
  llvm::DenseMap<Value, StringRef> outputs;
  llvm::DenseMap<Value, int64_t> places;
};
} // namespace

Result<bench::Case> packCase(ir::ProgramOp program, const codegen::KernelRegistry &registry, const std::vector<StepField> &fields) {
  return Packer(program, registry, fields).run();
}

} // namespace dsv3
