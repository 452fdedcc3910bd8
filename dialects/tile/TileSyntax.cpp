// The text of operations: lists of numbers and values, and ops with regions.
#include "dialects/tile/TileDialect.h"

#include "mlir/Dialect/LLVMIR/LLVMTypes.h"
#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/FunctionImplementation.h"

using namespace mlir;

namespace dsv3::tile {

using Operands = SmallVectorImpl<OpAsmParser::UnresolvedOperand>;

/// One entry of a list: a number, a value, or `*`.
static ParseResult parseEntry(OpAsmParser &parser, Operands &values, SmallVectorImpl<int64_t> &place) {
  if (succeeded(parser.parseOptionalStar())) {
    place.push_back(kStar);
    return success();
  }
  OpAsmParser::UnresolvedOperand value;
  OptionalParseResult isValue = parser.parseOptionalOperand(value);
  if (isValue.has_value()) {
    values.push_back(value);
    place.push_back(ShapedType::kDynamic);
    return *isValue;
  }
  return parser.parseInteger(place.emplace_back());
}

static void printEntry(OpAsmPrinter &p, int64_t place, OperandRange values, unsigned &next) {
  if (place == ShapedType::kDynamic)
    p << values[next++];
  else if (place == kStar)
    p << "*";
  else
    p << place;
}

/// custom<Coords>: `[%row, 0, *]`.
static ParseResult parseCoords(OpAsmParser &parser, Operands &values, DenseI64ArrayAttr &attr) {
  SmallVector<int64_t> place;
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Square, [&] { return parseEntry(parser, values, place); }))
    return failure();
  attr = parser.getBuilder().getDenseI64ArrayAttr(place);
  return success();
}

static void printCoords(OpAsmPrinter &p, Operation *, OperandRange values, DenseI64ArrayAttr place) {
  unsigned next = 0;
  p << "[";
  llvm::interleaveComma(place.asArrayRef(), p, [&](int64_t c) { printEntry(p, c, values, next); });
  p << "]";
}

/// custom<Sizes>: `[128, 256]`.
static ParseResult parseSizes(OpAsmParser &parser, DenseI64ArrayAttr &attr) {
  SmallVector<int64_t> sizes;
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Square, [&] { return parser.parseInteger(sizes.emplace_back()); }))
    return failure();
  attr = parser.getBuilder().getDenseI64ArrayAttr(sizes);
  return success();
}

static void printSizes(OpAsmPrinter &p, Operation *, DenseI64ArrayAttr sizes) { p << "[" << sizes.asArrayRef() << "]"; }

/// custom<Fields>: `(m, n)`.
static ParseResult parseFields(OpAsmParser &parser, ArrayAttr &attr) {
  SmallVector<Attribute> names;
  auto one = [&]() -> ParseResult {
    StringRef name;
    if (parser.parseKeyword(&name))
      return failure();
    names.push_back(parser.getBuilder().getStringAttr(name));
    return success();
  };
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, one))
    return failure();
  attr = parser.getBuilder().getArrayAttr(names);
  return success();
}

static void printFields(OpAsmPrinter &p, Operation *, ArrayAttr names) {
  p << "(";
  llvm::interleaveComma(names.getAsValueRange<StringAttr>(), p, [&](StringRef name) { p << name; });
  p << ")";
}

/// custom<Ends>: `from @a to @b`, `between @a, @b`.
static ParseResult parseEnds(OpAsmParser &parser, FlatSymbolRefAttr &a, FlatSymbolRefAttr &b, UnitAttr &mutual) {
  StringAttr first, second;
  if (succeeded(parser.parseOptionalKeyword("between"))) {
    mutual = parser.getBuilder().getUnitAttr();
    if (parser.parseSymbolName(first) || parser.parseComma() || parser.parseSymbolName(second))
      return failure();
  } else if (parser.parseKeyword("from") || parser.parseSymbolName(first) || parser.parseKeyword("to") || parser.parseSymbolName(second)) {
    return failure();
  }
  a = FlatSymbolRefAttr::get(first);
  b = FlatSymbolRefAttr::get(second);
  return success();
}

static void printEnds(OpAsmPrinter &p, Operation *, FlatSymbolRefAttr a, FlatSymbolRefAttr b, UnitAttr mutual) {
  p << (mutual ? "between " : "from ");
  p.printSymbolName(a.getValue());
  p << (mutual ? ", " : " to ");
  p.printSymbolName(b.getValue());
}

} // namespace dsv3::tile

#define GET_OP_CLASSES
#include "dialects/tile/TileOps.cpp.inc"

namespace dsv3::tile {

//===-- Names of values ---------------------------------------------------===//

StringRef KernelOp::getDefaultDialect() { return "tile"; }
StringRef RoleOp::getDefaultDialect() { return "tile"; }
StringRef ForeachOp::getDefaultDialect() { return "tile"; }
StringRef LoopOp::getDefaultDialect() { return "tile"; }
StringRef FillOp::getDefaultDialect() { return "tile"; }

static StringRef nameOf(Type type) {
  return llvm::TypeSwitch<Type, StringRef>(type)
      .Case<RingType>([](auto) { return "ring"; })
      .Case<SlotType>([](auto) { return "slot"; })
      .Case<TokenType>([](auto) { return "token"; })
      .Case<AccType>([](auto) { return "acc"; })
      .Case<GateType>([](auto) { return "gate"; })
      .Case<WorkType>([](auto) { return "work"; })
      .Case<BufType>([](auto) { return "buf"; })
      .Default([](Type) { return ""; });
}

static void setName(OpAsmSetValueNameFn set, Value value) {
  if (StringRef name = nameOf(value.getType()); !name.empty())
    set(value, name);
}

void KernelOp::getAsmBlockArgumentNames(Region &, OpAsmSetValueNameFn) {} // parameters are numbered
void RoleOp::getAsmBlockArgumentNames(Region &, OpAsmSetValueNameFn set) {
  if (Value index = getIndex())
    set(index, "g");
}
void ForeachOp::getAsmBlockArgumentNames(Region &, OpAsmSetValueNameFn set) {
  SmallVector<StringRef> fields = getFields(getWork());
  for (auto [arg, name] : llvm::zip(getFieldArgs(), fields))
    set(arg, name);
  set(getOrdinal(), "at");
  for (Value arg : getIterArgs())
    setName(set, arg);
}
void LoopOp::getAsmBlockArgumentNames(Region &, OpAsmSetValueNameFn set) {
  set(getIndex(), "i");
  if (Value fin = getFin())
    set(fin, "fin");
  for (Value arg : getIterArgs())
    setName(set, arg);
}
void FillOp::getAsmBlockArgumentNames(Region &, OpAsmSetValueNameFn set) {
  for (Value arg : getBody().getArguments())
    setName(set, arg);
}

void NextOp::getAsmResultNames(OpAsmSetValueNameFn set) { setName(set, getResult()); }
void RingOp::getAsmResultNames(OpAsmSetValueNameFn set) { setName(set, getResult()); }
void NoneOp::getAsmResultNames(OpAsmSetValueNameFn set) { setName(set, getResult()); }
void GateOp::getAsmResultNames(OpAsmSetValueNameFn set) { setName(set, getGate()); }
void PutOp::getAsmResultNames(OpAsmSetValueNameFn set) { setName(set, getToken()); }
void RasterOp::getAsmResultNames(OpAsmSetValueNameFn set) { setName(set, getWork()); }
void ListOp::getAsmResultNames(OpAsmSetValueNameFn set) { setName(set, getWork()); }
void GroupsOp::getAsmResultNames(OpAsmSetValueNameFn set) { setName(set, getWork()); }
void MmaOp::getAsmResultNames(OpAsmSetValueNameFn set) {
  setName(set, getResult());
  setName(set, getToken());
}

//===-- Shared ------------------------------------------------------------===//

static ParseResult parseBody(OpAsmParser &parser, OperationState &result, ArrayRef<OpAsmParser::Argument> args = {}) {
  Region *body = result.addRegion();
  if (parser.parseRegion(*body, args))
    return failure();
  if (body->empty())
    body->emplaceBlock();
  return success();
}

/// `(%iter = %init, ...)` after the keyword `iter`; types follow later.
struct Carried {
  SmallVector<OpAsmParser::Argument> args;
  SmallVector<OpAsmParser::UnresolvedOperand> inits;
  SmallVector<Type> types;
};

static ParseResult parseCarried(OpAsmParser &parser, Carried &c) {
  SMLoc loc = parser.getCurrentLocation();
  if (failed(parser.parseOptionalKeyword("iter")))
    return success();
  if (parser.parseAssignmentList(c.args, c.inits) || parser.parseColonTypeList(c.types))
    return failure();
  if (c.types.size() != c.args.size())
    return parser.emitError(loc) << "expected " << c.args.size() << " types for what is carried, got " << c.types.size();
  for (auto [arg, type] : llvm::zip(c.args, c.types))
    arg.type = type;
  return success();
}

static void printCarried(OpAsmPrinter &p, Block::BlockArgListType args, OperandRange inits) {
  if (inits.empty())
    return;
  p << " iter(";
  llvm::interleaveComma(llvm::zip(args, inits), p, [&](auto pair) { p << std::get<0>(pair) << " = " << std::get<1>(pair); });
  p << ") : ";
  llvm::interleaveComma(inits.getTypes(), p);
}

//===-- kernel, role ------------------------------------------------------===//

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  StringAttr name;
  SmallVector<OpAsmParser::Argument> args;
  SmallVector<Type> results;
  SmallVector<DictionaryAttr> resultAttrs;
  bool variadic = false;
  Builder &b = parser.getBuilder();
  if (parser.parseSymbolName(name, getSymNameAttrName(result.name), result.attributes) ||
      function_interface_impl::parseFunctionSignatureWithArguments(parser, /*allowVariadic=*/false, args, variadic, results, resultAttrs))
    return failure();
  int64_t cluster = 1;
  if (succeeded(parser.parseOptionalKeyword("cluster")) && (parser.parseLParen() || parser.parseInteger(cluster) || parser.parseRParen()))
    return failure();
  result.addAttribute(getClusterAttrName(result.name), b.getI64IntegerAttr(cluster));
  SmallVector<Type> types = llvm::map_to_vector(args, [](auto &a) { return a.type; });
  result.addAttribute(getFunctionTypeAttrName(result.name), TypeAttr::get(b.getFunctionType(types, results)));
  call_interface_impl::addArgAndResultAttrs(b, result, args, resultAttrs, getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
  if (parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  return parseBody(parser, result, args);
}

void KernelOp::print(OpAsmPrinter &p) {
  p << " ";
  p.printSymbolName(getSymName());
  function_interface_impl::printFunctionSignature(p, *this, getArgumentTypes(), false, getResultTypes());
  if (getCluster() != 1)
    p << " cluster(" << getCluster() << ")";
  p.printOptionalAttrDictWithKeyword((*this)->getAttrs(), {getSymNameAttrName(), getFunctionTypeAttrName(), getClusterAttrName(), getArgAttrsAttrName(), getResAttrsAttrName()});
  p << " ";
  p.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

ParseResult RoleOp::parse(OpAsmParser &parser, OperationState &result) {
  Builder &b = parser.getBuilder();
  StringAttr name;
  int64_t warpgroups = 1, regs = 0;
  if (parser.parseSymbolName(name, getNameAttrName(result.name), result.attributes))
    return failure();
  SmallVector<OpAsmParser::Argument> args;
  bool producer = succeeded(parser.parseOptionalKeyword("producer"));
  if (producer) {
    result.addAttribute(getProducerAttrName(result.name), b.getUnitAttr());
  } else {
    if (parser.parseKeyword("warpgroups") || parser.parseLParen() || parser.parseInteger(warpgroups) || parser.parseRParen())
      return failure();
    if (succeeded(parser.parseOptionalKeyword("as"))) {
      if (parser.parseArgument(args.emplace_back()))
        return failure();
      args.back().type = b.getI32Type();
    }
  }
  result.addAttribute(getWarpgroupsAttrName(result.name), b.getI64IntegerAttr(warpgroups));
  if (succeeded(parser.parseOptionalKeyword("regs"))) {
    if (parser.parseLParen() || parser.parseInteger(regs) || parser.parseRParen())
      return failure();
    result.addAttribute(getRegsAttrName(result.name), b.getI64IntegerAttr(regs));
  }
  if (parser.parseOptionalAttrDictWithKeyword(result.attributes) || parseBody(parser, result, args))
    return failure();
  if (!producer && args.empty())
    result.regions[0]->addArgument(b.getI32Type(), result.location);
  return success();
}

void RoleOp::print(OpAsmPrinter &p) {
  p << " ";
  p.printSymbolName(getName());
  if (getProducer())
    p << " producer";
  else
    p << " warpgroups(" << getWarpgroups() << ")";
  if (Value index = getIndex(); index && !index.use_empty())
    p << " as " << index;
  if (getRegs())
    p << " regs(" << *getRegs() << ")";
  p.printOptionalAttrDictWithKeyword((*this)->getAttrs(), {getNameAttrName(), getProducerAttrName(), getWarpgroupsAttrName(), getRegsAttrName()});
  p << " ";
  p.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

//===-- foreach, loop, fill -----------------------------------------------===//

ParseResult ForeachOp::parse(OpAsmParser &parser, OperationState &result) {
  Type i32 = parser.getBuilder().getI32Type();
  SmallVector<OpAsmParser::Argument> args;
  if (parser.parseArgumentList(args, OpAsmParser::Delimiter::Paren))
    return failure();
  unsigned fields = args.size();
  bool ordinal = succeeded(parser.parseOptionalKeyword("at"));
  if (ordinal && parser.parseArgument(args.emplace_back()))
    return failure();
  for (auto &arg : args)
    arg.type = i32;
  OpAsmParser::UnresolvedOperand work;
  Carried carried;
  if (parser.parseKeyword("in") || parser.parseOperand(work) || parser.resolveOperand(work, WorkType::get(parser.getContext()), result.operands) ||
      parseCarried(parser, carried) || parser.resolveOperands(carried.inits, carried.types, parser.getCurrentLocation(), result.operands))
    return failure();
  result.addTypes(carried.types);
  args.append(carried.args);
  if (parser.parseOptionalAttrDictWithKeyword(result.attributes) || parseBody(parser, result, args))
    return failure();
  if (!ordinal)
    result.regions[0]->insertArgument(fields, i32, result.location);
  ForeachOp::ensureTerminator(*result.regions[0], parser.getBuilder(), result.location);
  return success();
}

void ForeachOp::print(OpAsmPrinter &p) {
  p << " (";
  llvm::interleaveComma(getFieldArgs(), p);
  p << ")";
  if (!getOrdinal().use_empty())
    p << " at " << getOrdinal();
  p << " in " << getWork();
  printCarried(p, getIterArgs(), getInits());
  p.printOptionalAttrDictWithKeyword((*this)->getAttrs());
  p << " ";
  p.printRegion(getBody(), /*printEntryBlockArgs=*/false, /*printBlockTerminators=*/!getInits().empty());
}

ParseResult LoopOp::parse(OpAsmParser &parser, OperationState &result) {
  Builder &b = parser.getBuilder();
  Type i32 = b.getI32Type();
  SmallVector<OpAsmParser::Argument> args(1);
  SmallVector<OpAsmParser::UnresolvedOperand> bounds;
  SmallVector<int64_t> place;
  if (parser.parseArgument(args[0]) || parser.parseEqual() || parseEntry(parser, bounds, place) || parser.parseKeyword("to") ||
      parseEntry(parser, bounds, place))
    return failure();
  if (failed(parser.parseOptionalKeyword("step")))
    place.push_back(1);
  else if (parseEntry(parser, bounds, place))
    return failure();
  Peel peel = Peel::None;
  if (succeeded(parser.parseOptionalKeyword("peel"))) {
    StringRef which;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseLParen() || parser.parseKeyword(&which) || parser.parseRParen())
      return failure();
    peel = symbolizePeel(which).value_or(Peel::None);
    if (peel == Peel::None)
      return parser.emitError(loc) << "expected peel(first) or peel(last), got '" << which << "'";
  }
  if (succeeded(parser.parseOptionalKeyword("unroll")))
    result.addAttribute(getUnrollAttrName(result.name), b.getUnitAttr());
  bool fin = succeeded(parser.parseOptionalKeyword("as"));
  if (fin && peel == Peel::None)
    return parser.emitError(parser.getCurrentLocation()) << "expected peel(first) or peel(last) before `as`";
  if (fin && parser.parseArgument(args.emplace_back()))
    return failure();
  args[0].type = i32;
  if (fin)
    args[1].type = b.getI1Type();
  Carried carried;
  if (parseCarried(parser, carried) || parser.resolveOperands(bounds, i32, result.operands) ||
      parser.resolveOperands(carried.inits, carried.types, parser.getCurrentLocation(), result.operands))
    return failure();
  result.addAttribute(getPlaceAttrName(result.name), b.getDenseI64ArrayAttr(place));
  result.addAttribute(getPeelAttrName(result.name), PeelAttr::get(parser.getContext(), peel));
  result.addAttribute(getOperandSegmentSizesAttrName(result.name), b.getDenseI32ArrayAttr({int32_t(bounds.size()), int32_t(carried.inits.size())}));
  result.addTypes(carried.types);
  args.append(carried.args);
  if (parser.parseOptionalAttrDictWithKeyword(result.attributes) || parseBody(parser, result, args))
    return failure();
  if (!fin && peel != Peel::None)
    result.regions[0]->insertArgument(1u, b.getI1Type(), result.location);
  LoopOp::ensureTerminator(*result.regions[0], b, result.location);
  return success();
}

void LoopOp::print(OpAsmPrinter &p) {
  unsigned next = 0;
  p << " " << getIndex() << " = ";
  printEntry(p, getPlace()[0], getBounds(), next);
  p << " to ";
  printEntry(p, getPlace()[1], getBounds(), next);
  if (getPlace()[2] != 1) {
    p << " step ";
    printEntry(p, getPlace()[2], getBounds(), next);
  }
  if (getPeel() != Peel::None)
    p << " peel(" << stringifyPeel(getPeel()) << ")";
  if (getUnroll())
    p << " unroll";
  if (Value fin = getFin(); fin && !fin.use_empty())
    p << " as " << fin;
  printCarried(p, getIterArgs(), getInits());
  p.printOptionalAttrDictWithKeyword((*this)->getAttrs(), {getPlaceAttrName(), getPeelAttrName(), getUnrollAttrName(), getOperandSegmentSizesAttrName()});
  p << " ";
  p.printRegion(getBody(), /*printEntryBlockArgs=*/false, /*printBlockTerminators=*/!getInits().empty());
}

ParseResult FillOp::parse(OpAsmParser &parser, OperationState &result) {
  OpAsmParser::UnresolvedOperand slot;
  int64_t group = -1;
  if (parser.parseOperand(slot))
    return failure();
  if (succeeded(parser.parseOptionalLSquare())) {
    if (parser.parseInteger(group) || parser.parseRSquare())
      return failure();
    result.addAttribute(getGroupAttrName(result.name), parser.getBuilder().getI64IntegerAttr(group));
  }
  SmallVector<OpAsmParser::Argument> args;
  Type type;
  if (parser.parseKeyword("as") || parser.parseArgumentList(args, OpAsmParser::Delimiter::Paren) || parser.parseColon())
    return failure();
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseType(type) || parser.resolveOperand(slot, type, result.operands))
    return failure();
  auto slotType = dyn_cast<SlotType>(type);
  if (!slotType || group >= int64_t(slotType.getRing().getFree().size()))
    return parser.emitError(loc) << "expected a slot of a ring with group " << std::max<int64_t>(group, 0) << ", got " << type;
  SmallVector<Type> bufs = slotType.getRing().getGroupBufs(group);
  if (bufs.size() != args.size())
    return parser.emitError(loc) << "expected " << bufs.size() << " buffers, got " << args.size();
  for (auto [arg, buf] : llvm::zip(args, bufs))
    arg.type = buf;
  if (parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  return parseBody(parser, result, args);
}

void FillOp::print(OpAsmPrinter &p) {
  p << " " << getSlot();
  if (getGroup())
    p << "[" << *getGroup() << "]";
  p << " as (";
  llvm::interleaveComma(getBody().getArguments(), p);
  p << ") : " << getSlot().getType();
  p.printOptionalAttrDictWithKeyword((*this)->getAttrs(), {getGroupAttrName()});
  p << " ";
  p.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

} // namespace dsv3::tile
