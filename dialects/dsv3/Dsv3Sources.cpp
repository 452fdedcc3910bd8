// Weight sources: where a weight's numbers come from.
#include "dialects/dsv3/Dsv3Dialect.h"

#include "mlir/IR/DialectImplementation.h"

using namespace mlir;

namespace dsv3::ir {

using NameFn = llvm::function_ref<void(StringRef)>;

static LogicalResult verifySource(llvm::function_ref<InFlightDiagnostic()> emitError, Attribute source) {
  if (isa_and_nonnull<WeightSource>(source))
    return success();
  return emitError() << "expected a weight source, got " << source;
}

Attribute FileSourceAttr::parse(AsmParser &p, Type) {
  StringAttr tensor, scale, zero, index;
  Packing packing = Packing::Plain;
  if (p.parseLess() || p.parseAttribute(tensor))
    return {};
  while (succeeded(p.parseOptionalComma())) {
    StringRef word;
    SMLoc at = p.getCurrentLocation();
    if (p.parseKeyword(&word))
      return {};
    StringAttr *part = word == "scale" ? &scale : word == "zero" ? &zero : word == "index" ? &index : nullptr;
    if (part && !*part) {
      if (p.parseAttribute(*part))
        return {};
    } else if (word == "packed" && packing == Packing::Plain) {
      if (p.parseKeyword(&word))
        return {};
      std::optional<Packing> named = symbolizePacking(word);
      if (!named) {
        p.emitError(at, "expected a packing plain, words, gptq, gptq_v2, awq or high_first, got '") << word << "'";
        return {};
      }
      packing = *named;
    } else {
      p.emitError(at, "expected 'scale', 'zero', 'index' or 'packed', each once, got '") << word << "'";
      return {};
    }
  }
  if (p.parseGreater())
    return {};
  return p.getChecked<FileSourceAttr>(p.getContext(), tensor, scale, zero, index, packing);
}

void FileSourceAttr::print(AsmPrinter &p) const {
  p << "<" << getTensor();
  for (auto [word, part] : {std::pair<StringRef, StringAttr>{"scale", getScale()}, {"zero", getZero()}, {"index", getIndex()}})
    if (part)
      p << ", " << word << " " << part;
  if (getPacking() != Packing::Plain)
    p << ", packed " << stringifyPacking(getPacking());
  p << ">";
}

LogicalResult FileSourceAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, StringAttr, StringAttr scale,
                                     StringAttr zero, StringAttr index, Packing packing) {
  if (!scale && (zero || index || packing != Packing::Plain))
    return emitError() << "expected scales with " << (zero ? "zero points" : index ? "an index" : "packed codes");
  if (zero && packing == Packing::HighFirst)
    return emitError() << "expected no zero points with codes packed high_first";
  return success();
}

void FileSourceAttr::forEachTensor(NameFn fn) const {
  fn(getTensor().getValue());
  for (StringAttr part : {getScale(), getZero(), getIndex()})
    if (part)
      fn(part.getValue());
}
void FileSourceAttr::forEachSymbol(NameFn) const {}

/// Replaces every `{}` of a name by the index.
static std::string instantiate(StringRef name, int64_t index) {
  std::string out;
  while (!name.empty()) {
    auto [head, tail] = name.split("{}");
    out += head;
    if (head.size() != name.size())
      out += std::to_string(index);
    name = tail;
  }
  return out;
}

LogicalResult StackSourceAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, int64_t begin, int64_t end,
                                      Attribute source) {
  if (begin < 0 || end <= begin)
    return emitError() << "expected a non-empty index range, got " << begin << " to " << end;
  return verifySource(emitError, source);
}
void StackSourceAttr::forEachTensor(NameFn fn) const {
  for (int64_t i = getBegin(); i < getEnd(); ++i)
    cast<WeightSource>(getSource()).forEachTensor([&](StringRef name) { fn(instantiate(name, i)); });
}
void StackSourceAttr::forEachSymbol(NameFn fn) const { cast<WeightSource>(getSource()).forEachSymbol(fn); }

LogicalResult ConcatSourceAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, int64_t dim,
                                       ArrayRef<Attribute> sources) {
  if (dim < 0 || sources.empty())
    return emitError() << "expected a dimension and at least one source";
  for (Attribute s : sources)
    if (failed(verifySource(emitError, s)))
      return failure();
  return success();
}
void ConcatSourceAttr::forEachTensor(NameFn fn) const {
  for (Attribute s : getSources())
    cast<WeightSource>(s).forEachTensor(fn);
}
void ConcatSourceAttr::forEachSymbol(NameFn fn) const {
  for (Attribute s : getSources())
    cast<WeightSource>(s).forEachSymbol(fn);
}

LogicalResult SliceSourceAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, int64_t dim, int64_t offset,
                                      int64_t size, Attribute source) {
  if (dim < 0 || offset < 0 || size <= 0)
    return emitError() << "expected dim and offset of at least 0 and a positive size, got dim " << dim << ", offset "
                       << offset << ", size " << size;
  return verifySource(emitError, source);
}
void SliceSourceAttr::forEachTensor(NameFn fn) const { cast<WeightSource>(getSource()).forEachTensor(fn); }
void SliceSourceAttr::forEachSymbol(NameFn fn) const { cast<WeightSource>(getSource()).forEachSymbol(fn); }

LogicalResult TransposeSourceAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, Attribute source) {
  return verifySource(emitError, source);
}
void TransposeSourceAttr::forEachTensor(NameFn fn) const { cast<WeightSource>(getSource()).forEachTensor(fn); }
void TransposeSourceAttr::forEachSymbol(NameFn fn) const { cast<WeightSource>(getSource()).forEachSymbol(fn); }

LogicalResult ReshapeSourceAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, ArrayRef<int64_t> shape,
                                        Attribute source) {
  if (shape.empty() || llvm::any_of(shape, [](int64_t d) { return d <= 0; }))
    return emitError() << "expected a shape of positive dimensions";
  return verifySource(emitError, source);
}
void ReshapeSourceAttr::forEachTensor(NameFn fn) const { cast<WeightSource>(getSource()).forEachTensor(fn); }
void ReshapeSourceAttr::forEachSymbol(NameFn fn) const { cast<WeightSource>(getSource()).forEachSymbol(fn); }

void RefSourceAttr::forEachTensor(NameFn) const {}
void RefSourceAttr::forEachSymbol(NameFn fn) const { fn(getWeight().getValue()); }

void QuantizedSourceAttr::forEachTensor(NameFn) const {}
void QuantizedSourceAttr::forEachSymbol(NameFn fn) const { fn(getWeight().getValue()); }

void DummySourceAttr::forEachTensor(NameFn) const {}
void DummySourceAttr::forEachSymbol(NameFn) const {}

LogicalResult RopeTableSourceAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, Attribute rope,
                                          int64_t positions) {
  if (!isa_and_nonnull<RopeAttr>(rope) || positions <= 0)
    return emitError() << "expected rotary parameters and a positive number of positions";
  return success();
}
void RopeTableSourceAttr::forEachTensor(NameFn) const {}
void RopeTableSourceAttr::forEachSymbol(NameFn) const {}

} // namespace dsv3::ir
