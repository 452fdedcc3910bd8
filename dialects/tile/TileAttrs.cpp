// Layouts, fragments and rings: text and checks.
#include "dialects/tile/TileDialect.h"

#include "mlir/IR/DialectImplementation.h"

#define GET_ATTRDEF_CLASSES
#include "dialects/tile/TileAttrs.cpp.inc"

using namespace mlir;

namespace dsv3::tile {

void TileDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/tile/TileAttrs.cpp.inc"
      >();
}

static std::vector<int64_t> toVector(ArrayRef<int64_t> v) { return std::vector<int64_t>(v.begin(), v.end()); }

static std::optional<FragKind> fragKind(StringRef name) {
  for (int k = 0; k <= int(FragKind::Lin); ++k)
    if (name == fragName(FragKind(k)))
      return FragKind(k);
  return std::nullopt;
}

static ParseResult parseFragKind(AsmParser &parser, FragKind &kind) {
  StringRef name;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&name))
    return failure();
  std::optional<FragKind> known = fragKind(name);
  if (!known)
    return parser.emitError(loc) << "expected acc, opA, opA4, opA4t, acc4, row, col, quad or lin, got '" << name << "'";
  kind = *known;
  return success();
}

//===-- layout ------------------------------------------------------------===//

static constexpr std::pair<StringLiteral, SmemKind> kLayouts[] = {
    {"auto", SmemKind::Auto}, {"linear", SmemKind::Linear}, {"pad", SmemKind::Pad},         {"sw32", SmemKind::Sw32},
    {"sw64", SmemKind::Sw64}, {"sw128", SmemKind::Sw128},   {"swizzle", SmemKind::Swizzle}, {"frag", SmemKind::Frag}};

/// `sw128`, `pad<16>`, `swizzle<1, 4, 3>`, `frag<acc>`: inside `!tile.buf` there is no prefix.
static LayoutAttr parseLayout(AsmParser &parser) {
  StringRef name;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&name))
    return {};
  auto *known = llvm::find_if(kLayouts, [&](auto &l) { return l.first == name; });
  if (known == std::end(kLayouts)) {
    parser.emitError(loc) << "expected auto, linear, pad, sw32, sw64, sw128, swizzle or frag, got '" << name << "'";
    return {};
  }
  SmemKind kind = known->second;
  int64_t args[3] = {0, 0, 0};
  FragKind frag = FragKind::Acc;
  if (kind == SmemKind::Frag) {
    if (parser.parseLess() || parseFragKind(parser, frag) || parser.parseGreater())
      return {};
    args[0] = int64_t(frag);
  } else if (kind == SmemKind::Pad) {
    if (parser.parseLess() || parser.parseInteger(args[0]) || parser.parseGreater())
      return {};
  } else if (kind == SmemKind::Swizzle) {
    if (parser.parseLess() || parser.parseInteger(args[0]) || parser.parseComma() || parser.parseInteger(args[1]) ||
        parser.parseComma() || parser.parseInteger(args[2]) || parser.parseGreater())
      return {};
  }
  return parser.getChecked<LayoutAttr>(loc, parser.getContext(), kind, args[0], args[1], args[2]);
}

static void printLayout(AsmPrinter &p, LayoutAttr layout) {
  p << llvm::find_if(kLayouts, [&](auto &l) { return l.second == layout.getKind(); })->first;
  if (layout.getKind() == SmemKind::Frag)
    p << "<" << fragName(FragKind(layout.getA())) << ">";
  else if (layout.getKind() == SmemKind::Pad)
    p << "<" << layout.getA() << ">";
  else if (layout.getKind() == SmemKind::Swizzle)
    p << "<" << layout.getA() << ", " << layout.getB() << ", " << layout.getC() << ">";
}

Attribute LayoutAttr::parse(AsmParser &parser, Type) {
  if (parser.parseLess())
    return {};
  LayoutAttr layout = parseLayout(parser);
  return !layout || parser.parseGreater() ? Attribute() : layout;
}

void LayoutAttr::print(AsmPrinter &p) const {
  p << "<";
  printLayout(p, *this);
  p << ">";
}

LayoutAttr parseBareLayout(AsmParser &parser) { return parseLayout(parser); }
void printBareLayout(AsmPrinter &p, LayoutAttr layout) { printLayout(p, layout); }

LogicalResult LayoutAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, SmemKind kind, int64_t a, int64_t b, int64_t c) {
  // What depends on a buffer's shape is the buffer type's business; a shape that suits everything finds the rest.
  if (kind == SmemKind::Frag || kind == SmemKind::Auto)
    return success();
  if (std::string why = SmemLayout::whyIllegal(kind, {64, 128}, 8, a, b, c); !why.empty())
    return emitError() << why;
  return success();
}

SmemLayout LayoutAttr::layoutOf(ArrayRef<int64_t> shape, unsigned elementBits) const {
  return SmemLayout(getKind(), toVector(shape), elementBits, getA(), getB(), getC());
}

//===-- frag --------------------------------------------------------------===//

Attribute FragAttr::parse(AsmParser &parser, Type) {
  FragKind kind;
  int64_t vec = 0, threads = 0;
  if (parser.parseLess() || parseFragKind(parser, kind))
    return {};
  if (kind == FragKind::Lin && (parser.parseLess() || parser.parseInteger(vec) || parser.parseComma() || parser.parseInteger(threads) || parser.parseGreater()))
    return {};
  if (parser.parseGreater())
    return {};
  return get(parser.getContext(), kind, vec, threads);
}

void FragAttr::print(AsmPrinter &p) const {
  p << "<" << fragName(getKind());
  if (getKind() == FragKind::Lin)
    p << "<" << getVec() << ", " << getThreads() << ">";
  p << ">";
}

LogicalResult FragAttr::verifyEncoding(ArrayRef<int64_t> shape, Type element, llvm::function_ref<InFlightDiagnostic()> emitError) const {
  if (ShapedType::isDynamicShape(shape))
    return emitError() << "expected a static shape for a fragment";
  if (!element.isIntOrFloat())
    return emitError() << "expected integers or floats in a fragment, got " << element;
  std::string why = Fragment::whyIllegal(getKind(), toVector(shape), element.getIntOrFloatBitWidth(), getVec(), getThreads());
  if (!why.empty())
    return emitError() << why;
  return success();
}

Fragment FragAttr::fragmentOf(ArrayRef<int64_t> shape) const { return Fragment(getKind(), toVector(shape), getVec(), getThreads()); }

FragAttr getFrag(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? dyn_cast_or_null<FragAttr>(tensor.getEncoding()) : FragAttr();
}
bool isFragment(Type type) { return bool(getFrag(type)); }

RankedTensorType fragType(ArrayRef<int64_t> shape, Type element, FragKind kind) {
  return RankedTensorType::get(shape, element, FragAttr::get(element.getContext(), kind));
}

//===-- ring --------------------------------------------------------------===//

FreeAttr FreeAttr::get(MLIRContext *context, ArrayRef<StringRef> roles, ArrayRef<int64_t> cols, int64_t count) {
  SmallVector<FlatSymbolRefAttr> refs;
  for (StringRef role : roles)
    refs.push_back(FlatSymbolRefAttr::get(context, role));
  return get(context, cols, refs, count);
}

/// `all by @a, @b count 8`, `0:256 + 512:576 by @a`.
static FreeAttr parseGroup(AsmParser &parser) {
  SmallVector<int64_t> cols;
  if (failed(parser.parseOptionalKeyword("all"))) {
    do {
      int64_t from, to;
      if (parser.parseInteger(from) || parser.parseColon() || parser.parseInteger(to))
        return {};
      cols.append({from, to});
    } while (succeeded(parser.parseOptionalPlus()));
  }
  if (parser.parseKeyword("by"))
    return {};
  SmallVector<FlatSymbolRefAttr> roles;
  int64_t count = 0;
  StringAttr role;
  if (parser.parseSymbolName(role))
    return {};
  roles.push_back(FlatSymbolRefAttr::get(role));
  // More roles are joined by `and`: a comma would begin the next group.
  while (succeeded(parser.parseOptionalKeyword("and"))) {
    if (parser.parseSymbolName(role))
      return {};
    roles.push_back(FlatSymbolRefAttr::get(role));
  }
  if (succeeded(parser.parseOptionalKeyword("count")) && parser.parseInteger(count))
    return {};
  return FreeAttr::get(parser.getContext(), cols, roles, count);
}

static void printGroup(AsmPrinter &p, FreeAttr group) {
  if (group.getCols().empty())
    p << "all";
  for (size_t i = 0; i < group.getCols().size(); i += 2)
    p << (i ? " + " : "") << group.getCols()[i] << ":" << group.getCols()[i + 1];
  p << " by ";
  llvm::interleave(group.getRoles(), p.getStream(), [&](FlatSymbolRefAttr r) { p.printSymbolName(r.getValue()); }, " and ");
  if (group.getCount())
    p << " count " << group.getCount();
}

Attribute FreeAttr::parse(AsmParser &parser, Type) {
  if (parser.parseLess())
    return {};
  FreeAttr group = parseGroup(parser);
  return !group || parser.parseGreater() ? Attribute() : group;
}

void FreeAttr::print(AsmPrinter &p) const {
  p << "<";
  printGroup(p, *this);
  p << ">";
}

namespace {
struct RingFields {
  std::string name;
  int64_t stages = 1, lanes = 1, landedCols = 0, fillWarps = 0;
  SmallVector<Type> bufs;
  Landed landed = Landed::All;
  SmallVector<FreeAttr> free;
  Arrive arrive = Arrive::Warp;
};
} // namespace

template <typename Enum, typename Symbolize>
static ParseResult parseEnum(AsmParser &parser, Enum &value, Symbolize symbolize, StringRef choices) {
  StringRef name;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&name))
    return failure();
  std::optional<Enum> known = symbolize(name);
  if (!known)
    return parser.emitError(loc) << "expected " << choices << ", got '" << name << "'";
  value = *known;
  return success();
}

static ParseResult parseRingField(AsmParser &parser, RingFields &f) {
  StringRef key;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&key) || parser.parseEqual())
    return failure();
  auto number = [&](int64_t &n) { return failure(parser.parseLParen() || parser.parseInteger(n) || parser.parseRParen()); };
  if (key == "stages")
    return parser.parseInteger(f.stages);
  if (key == "lanes")
    return parser.parseInteger(f.lanes);
  if (key == "bufs")
    return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] { return parser.parseType(f.bufs.emplace_back()); });
  if (key == "free")
    return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] { return success(bool(f.free.emplace_back(parseGroup(parser)))); });
  if (key == "landed") {
    if (parseEnum(parser, f.landed, [](StringRef s) { return symbolizeLanded(s); }, "all, cols or other"))
      return failure();
    return f.landed == Landed::Cols ? number(f.landedCols) : success();
  }
  if (key == "fill") {
    if (succeeded(parser.parseOptionalKeyword("tx")))
      return success();
    return failure(parser.parseKeyword("arrive") || failed(number(f.fillWarps)));
  }
  if (key == "arrive")
    return parseEnum(parser, f.arrive, [](StringRef s) { return symbolizeArrive(s); }, "warp or warpgroup");
  return parser.emitError(loc) << "expected stages, lanes, bufs, landed, free, fill or arrive, got '" << key << "'";
}

Attribute RingAttr::parse(AsmParser &parser, Type) {
  SMLoc loc = parser.getCurrentLocation();
  RingFields f;
  if (parser.parseLess())
    return {};
  bool named = succeeded(parser.parseOptionalString(&f.name));
  if (!named || succeeded(parser.parseOptionalComma()))
    if (parser.parseCommaSeparatedList([&] { return parseRingField(parser, f); }))
      return {};
  if (parser.parseGreater())
    return {};
  return parser.getChecked<RingAttr>(loc, parser.getContext(), f.name, f.stages, f.lanes, f.bufs, f.landed, f.landedCols, f.free, f.fillWarps, f.arrive);
}

void RingAttr::print(AsmPrinter &p) const {
  p << "<";
  if (!getName().empty())
    p << '"' << getName() << "\", ";
  p << "stages = " << getStages();
  if (getLanes() != 1)
    p << ", lanes = " << getLanes();
  p << ", bufs = [";
  llvm::interleaveComma(getBufs(), p.getStream(), [&](Type t) { p << t; });
  p << "]";
  if (getLanded() != Landed::All)
    p << ", landed = " << stringifyLanded(getLanded());
  if (getLanded() == Landed::Cols)
    p << "(" << getLandedCols() << ")";
  p << ", free = [";
  llvm::interleaveComma(getFree(), p.getStream(), [&](FreeAttr g) { printGroup(p, g); });
  p << "]";
  if (getFillWarps())
    p << ", fill = arrive(" << getFillWarps() << ")";
  if (getArrive() != Arrive::Warp)
    p << ", arrive = " << stringifyArrive(getArrive());
  p << ">";
}

BufType RingAttr::getBuf(unsigned i) const { return cast<BufType>(getBufs()[i]); }

SmallVector<std::pair<int64_t, int64_t>> RingAttr::getGroupCols(int64_t group) const {
  SmallVector<std::pair<int64_t, int64_t>> ranges;
  ArrayRef<int64_t> cols = group < 0 ? ArrayRef<int64_t>() : getFree()[group].getCols();
  for (size_t i = 0; i < cols.size(); i += 2)
    ranges.push_back({cols[i], cols[i + 1]});
  if (ranges.empty())
    ranges.push_back({0, getBuf(0).getShape().back()});
  return ranges;
}

SmallVector<Type> RingAttr::getGroupBufs(int64_t group) const {
  if (group < 0 || getFree()[group].getCols().empty())
    return SmallVector<Type>(getBufs());
  int64_t width = 0;
  for (auto [from, to] : getGroupCols(group))
    width += to - from;
  BufType all = getBuf(0);
  SmallVector<int64_t> shape(all.getShape());
  shape.back() = width;
  return {BufType::get(getContext(), shape, all.getElement(), all.getLayout())};
}

int64_t RingAttr::getParts() const {
  if (getLanded() == Landed::Other)
    return 0;
  return getLanded() == Landed::All ? 1 : getBuf(0).getShape().back() / getLandedCols();
}

/// T12: groups of columns cover the only buffer once, on boundaries of parts.
static LogicalResult verifyGroups(llvm::function_ref<InFlightDiagnostic()> emitError, ArrayRef<Type> bufs, ArrayRef<FreeAttr> free, Landed landed, int64_t landedCols) {
  bool whole = llvm::any_of(free, [](FreeAttr g) { return g.getCols().empty(); });
  if (whole)
    return free.size() == 1 ? success() : emitError() << "T12: expected one group for all columns, got " << free.size() << " groups";
  if (bufs.size() != 1)
    return emitError() << "T12: expected one buffer in a ring whose columns are freed in groups, got " << bufs.size();
  SmallVector<std::pair<int64_t, int64_t>> ranges;
  for (FreeAttr g : free)
    for (size_t i = 0; i < g.getCols().size(); i += 2)
      ranges.push_back({g.getCols()[i], g.getCols()[i + 1]});
  llvm::sort(ranges);
  int64_t at = 0, cols = cast<BufType>(bufs[0]).getShape().back();
  for (auto [from, to] : ranges) {
    if (from != at || to <= from)
      return emitError() << "T12: expected groups that cover columns 0:" << cols << " once, got " << from << ":" << to << " behind column " << at;
    if (landed == Landed::Cols && (from % landedCols || to % landedCols))
      return emitError() << "T12: expected groups on multiples of " << landedCols << " columns, got " << from << ":" << to;
    at = to;
  }
  if (at != cols)
    return emitError() << "T12: expected groups that cover columns 0:" << cols << ", got 0:" << at;
  return success();
}

LogicalResult RingAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, StringRef name, int64_t stages, int64_t lanes, ArrayRef<Type> bufs,
                               Landed landed, int64_t landedCols, ArrayRef<FreeAttr> free, int64_t fillWarps, Arrive arrive) {
  if (stages < 1 || lanes < 1)
    return emitError() << "T11: expected 1 or more stages and lanes, got " << stages << " and " << lanes;
  if (bufs.empty() || !llvm::all_of(bufs, [](Type t) { return isa<BufType>(t); }))
    return emitError() << "T11: expected one or more buffers of type !tile.buf";
  if (free.empty())
    return emitError() << "T12: expected one or more free groups";
  if (landed == Landed::Cols && (bufs.size() != 1 || landedCols < 1 || cast<BufType>(bufs[0]).getShape().back() % landedCols))
    return emitError() << "T11: expected one buffer of a multiple of " << landedCols << " columns for landed = cols(" << landedCols << ")";
  if (landed != Landed::All && fillWarps)
    return emitError() << "T11: expected landed = all with fill = arrive(" << fillWarps << ")";
  return verifyGroups(emitError, bufs, free, landed, landedCols);
}

} // namespace dsv3::tile
