#include "codegen/x86/EmitterBase.h"
namespace dsv3::codegen {
void addAttentionEmitters(KernelRegistry &) {}
}
