// Checks the tables of a loaded module, so that nothing later needs to doubt them.
#pragma once

#include "runtime/core/Abi.h"
#include "runtime/core/Result.h"
#include "runtime/engine/Manifest.h"

#include <string>

namespace dsv3 {

/// Compares the module with its manifest, checks that fields, outputs and taps lie inside
/// their pools, and walks every program once (without running a kernel) to check the
/// kernel index and every address of each launch. BadCheckpoint errors.
Status checkModule(const dsv3_module_desc &module, const Manifest &manifest, const Manifest::Target &target,
                   const std::string &variant);

/// The variant of a module whose kernels are device code: it launches grids only, any other ranges only.
constexpr const char *kHostVariant = "host";

/// What is wrong with a launch, or nullptr. `kvBytes` is the size of the KV pool. Of a grid, every pointer and the whole
/// extent of every tensor map lies inside its pool.
const char *launchFault(const dsv3_module_desc &module, const dsv3_launch &launch, uint64_t kvBytes);
const char *gridFault(const dsv3_module_desc &module, const dsv3_grid_launch &launch, uint64_t kvBytes);

/// Rows a program may leave in output `name`: a row per sequence for logits and chosen tokens of
/// prefill and decode, else a row per token.
uint64_t outputRows(const dsv3_program_desc &program, const std::string &name);

/// The output called `name`, or nullptr; the field of `kind`, or nullptr.
const dsv3_output_desc *findOutput(const dsv3_program_desc &program, const std::string &name);
const dsv3_field_desc *findField(const dsv3_module_desc &module, uint32_t kind);

} // namespace dsv3
