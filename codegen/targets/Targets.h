// Targets by name, so that passes need not link every family of emitters.
#pragma once

#include "codegen/targets/KernelEmitter.h"

namespace dsv3::codegen {

using RegistryFn = const KernelRegistry &(*)();

/// The target that passes bind to unless told otherwise.
inline constexpr llvm::StringLiteral kDefaultTarget = "x86-64";

/// Makes a target known to the passes of stages bind and pack. Called by tools once, before passes run:
/// `registerTarget("x86-64", x86Registry)`.
void registerTarget(llvm::StringRef name, RegistryFn registry);

/// The emitters of a registered target, or null.
const KernelRegistry *findTarget(llvm::StringRef name);

/// Registered names in order, for messages.
std::string targetNames();

} // namespace dsv3::codegen
