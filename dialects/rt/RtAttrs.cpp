// What the hardware accepts of a tensor map.
#include "dialects/rt/RtDialect.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

#define GET_ATTRDEF_CLASSES
#include "dialects/rt/RtAttrs.cpp.inc"

using namespace mlir;

namespace dsv3::rt {

void RtDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/rt/RtAttrs.cpp.inc"
      >();
}

LogicalResult PtrAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, int64_t ref, int64_t offset) {
  if (ref < 0 || offset < 0)
    return emitError() << "expected a reference and an offset of 0 or more, got " << ref << " and " << offset;
  return success();
}

static LogicalResult verifyBox(llvm::function_ref<InFlightDiagnostic()> emitError, int64_t elemBytes, ArrayRef<int64_t> box,
                               int64_t swizzle) {
  for (int64_t b : box)
    if (b < 1 || b > 256)
      return emitError() << "expected a box of 1 to 256 elements in each dim, got " << b;
  if (box[0] * elemBytes % 16)
    return emitError() << "expected rows of a box of a multiple of 16 bytes, got " << box[0] * elemBytes;
  if (swizzle != 0 && swizzle != 32 && swizzle != 64 && swizzle != 128)
    return emitError() << "expected a swizzle of 0, 32, 64 or 128 bytes, got " << swizzle;
  if (swizzle && box[0] * elemBytes > swizzle)
    return emitError() << "expected rows of a box of at most " << swizzle << " bytes (the swizzle), got " << box[0] * elemBytes;
  return success();
}

LogicalResult TensorMapAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, int64_t ref, int64_t offset, MapElem elem,
                                    ArrayRef<int64_t> dims, ArrayRef<int64_t> strides, ArrayRef<int64_t> box, int64_t swizzle) {
  constexpr int64_t mostElements = int64_t(1) << 32, mostStride = int64_t(1) << 40;
  int64_t elemBytes = elem == MapElem::U8 ? 1 : elem == MapElem::BF16 ? 2 : 4;
  if (ref < 0 || offset < 0 || offset % 16)
    return emitError() << "expected a reference of 0 or more and an offset that is a multiple of 16, got " << ref << " and " << offset;
  if (dims.empty() || dims.size() > 5 || strides.size() + 1 != dims.size() || box.size() != dims.size())
    return emitError() << "expected 1 to 5 dims, one stride fewer and as many box sizes, got " << dims.size() << ", " << strides.size()
                       << " and " << box.size();
  for (auto [i, d] : llvm::enumerate(dims))
    if (d < 0 || d > mostElements || (d == 0 && (i == 0 || i + 1 < dims.size())))
      return emitError() << "expected dim " << i << " of 1 to " << mostElements << " elements (0 outermost: all there are), got " << d;
  for (auto [i, s] : llvm::enumerate(strides))
    if (s < 0 || s % 16 || s >= mostStride)
      return emitError() << "expected stride " << i << " to be a multiple of 16 bytes below " << mostStride << ", got " << s;
  return verifyBox(emitError, elemBytes, box, swizzle);
}

int64_t TensorMapAttr::getExtent() const {
  if (getDims().back() == 0)
    return 0;
  int64_t last = (getDims()[0] - 1) * getElemBytes();
  for (auto [dim, stride] : llvm::zip_equal(getDims().drop_front(), getStrides()))
    last += (dim - 1) * stride;
  return last + getElemBytes();
}

} // namespace dsv3::rt
