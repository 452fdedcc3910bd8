#include "tools/compile-model/SizeTable.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace dsv3 {

namespace {

struct Row {
  std::string component, scheme;
  int64_t weights = 0, numbers = 0, storedBits = 0, chosenBits = 0;
};

int64_t bitsOf(ArrayRef<int64_t> shape, Type elem) {
  int64_t bits = elem.getIntOrFloatBitWidth();
  for (int64_t d : shape)
    bits *= d;
  return bits;
}

int64_t bitsOf(RankedTensorType type, ir::BlockedAttr scheme) {
  if (!scheme)
    return bitsOf(type.getShape(), type.getElementType());
  int64_t bits = 0;
  for (const ir::Part &part : cast<ir::QuantScheme>(scheme).getParts(type.getShape()))
    bits += bitsOf(part.shape, part.elem);
  return bits;
}

std::string textOf(Type elem, ir::BlockedAttr scheme, ir::BlockedAttr activation) {
  std::string text;
  llvm::raw_string_ostream os(text);
  auto blocks = [&](ir::BlockedAttr attr) {
    os << attr.getStorage() << " ";
    llvm::interleave(attr.getBlock(), os, [&](int64_t b) { ShapedType::isDynamic(b) ? os << "?" : os << b; }, "x");
  };
  if (!scheme)
    os << elem;
  else
    blocks(scheme);
  if (activation)
    os << ", activations ", blocks(activation);
  return text;
}

std::string gib(int64_t bits) { return llvm::formatv("{0:F3}", double(bits) / 8 / (1 << 30)).str(); }

void line(llvm::raw_ostream &os, ArrayRef<std::string> cells, StringRef last) {
  static const unsigned widths[] = {16, 8, 14, 12, 12, 14};
  for (auto [i, cell] : llvm::enumerate(cells)) {
    if (i)
      os.indent(unsigned(std::max<int>(1, int(widths[i]) - int(cell.size())))) << cell;
    else
      os << llvm::left_justify(cell, widths[i]);
  }
  os << "  " << last << "\n";
}

} // namespace

std::string sizeTable(ModuleOp imported, const std::vector<WeightDecision> &decisions, const std::string &policy) {
  SmallVector<Row> rows;
  Row total{"all", ""};
  for (auto weight : imported.getOps<ir::WeightOp>()) {
    if (isa<ir::RefSourceAttr>(weight.getSource())) // a tied head: the embedding's numbers
      continue;
    auto decided = llvm::find_if(decisions, [&](const WeightDecision &d) { return d.weight == weight; });
    RankedTensorType type = weight.getTensorType();
    auto stored = dyn_cast_or_null<ir::BlockedAttr>(type.getEncoding());
    bool known = decided != decisions.end();
    std::string component = known ? std::string(quantize::name(decided->component)) : "norms, biases";
    std::string scheme = textOf(type.getElementType(), known ? decided->scheme : stored, known ? decided->activation : ir::BlockedAttr());
    Row *row = llvm::find_if(rows, [&](const Row &r) { return r.component == component && r.scheme == scheme; });
    if (row == rows.end())
      row = &rows.emplace_back(Row{component, scheme});
    for (Row *r : {row, &total}) {
      ++r->weights;
      r->numbers += type.getNumElements();
      r->storedBits += bitsOf(type, stored);
      r->chosenBits += bitsOf(type, known ? decided->scheme : stored);
    }
  }
  std::string text;
  llvm::raw_string_ostream os(text);
  auto cells = [&](const Row &r) {
    return SmallVector<std::string>{r.component, std::to_string(r.weights), std::to_string(r.numbers), gib(r.numbers * 16), gib(r.storedBits), gib(r.chosenBits)};
  };
  line(os, {"component", "weights", "numbers", "bf16 GiB", "stored GiB", policy.size() <= 13 ? policy : "config"}, "scheme");
  for (const Row &row : rows)
    line(os, cells(row), row.scheme);
  line(os, cells(total), "");
  auto share = [&](int64_t bits) { return llvm::formatv("{0:F4}", double(bits) / double(total.numbers * 16)).str(); };
  line(os, {"of bf16", "", "", "1.0000", share(total.storedBits), share(total.chosenBits)}, "");
  return text.substr(0, text.size() - 1); // the tool ends the line
}

} // namespace dsv3
