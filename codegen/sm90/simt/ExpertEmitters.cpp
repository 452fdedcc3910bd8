// The router and the work list of the experts.
#include "codegen/sm90/simt/SimtEmitter.h"

using namespace mlir;

namespace dsv3::codegen {

void addExpertEmitters90(KernelRegistry &r) {}

} // namespace dsv3::codegen
