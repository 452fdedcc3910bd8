// The structs that generated code writes are those of the C header.
#include "codegen/emit/RtToLlvm.h"

#include "runtime/core/Abi.h"

#include "llvm/IR/DataLayout.h"

#include <gtest/gtest.h>

#include <cstddef>

namespace dsv3::codegen {

/// The x86-64 layout, as LLVM's back end has it.
static const llvm::DataLayout kLayout("e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128");

static void expectLayout(llvm::StructType *type, size_t size, std::vector<size_t> offsets) {
  const llvm::StructLayout *layout = kLayout.getStructLayout(type);
  EXPECT_EQ(layout->getSizeInBytes().getFixedValue(), size) << type->getName().str();
  ASSERT_EQ(type->getNumElements(), offsets.size()) << type->getName().str();
  for (unsigned i = 0; i < offsets.size(); ++i)
    EXPECT_EQ(layout->getElementOffset(i).getFixedValue(), offsets[i]) << type->getName().str() << " field " << i;
}

#define AT(type, field) offsetof(type, field)

TEST(AbiTypes, AgreeWithTheHeader) {
  llvm::LLVMContext context;
  AbiTypes t = AbiTypes::get(context);
  expectLayout(t.ref, sizeof(dsv3_ref), {AT(dsv3_ref, pool), AT(dsv3_ref, reserved), AT(dsv3_ref, offset)});
  expectLayout(t.launch, sizeof(dsv3_launch),
               {AT(dsv3_launch, kernel), AT(dsv3_launch, n_refs), AT(dsv3_launch, n_consts), AT(dsv3_launch, reserved),
                AT(dsv3_launch, refs), AT(dsv3_launch, consts), AT(dsv3_launch, site)});
  expectLayout(t.hostApi, sizeof(dsv3_host_api),
               {AT(dsv3_host_api, abi), AT(dsv3_host_api, bytes), AT(dsv3_host_api, range), AT(dsv3_host_api, tap),
                AT(dsv3_host_api, grid)});
  expectLayout(t.tensorMap, sizeof(dsv3_tensor_map),
               {AT(dsv3_tensor_map, elem), AT(dsv3_tensor_map, rank), AT(dsv3_tensor_map, swizzle), AT(dsv3_tensor_map, reserved),
                AT(dsv3_tensor_map, dims), AT(dsv3_tensor_map, strides), AT(dsv3_tensor_map, box), AT(dsv3_tensor_map, reserved2)});
  expectLayout(t.param, sizeof(dsv3_param),
               {AT(dsv3_param, kind), AT(dsv3_param, reserved), AT(dsv3_param, ref), AT(dsv3_param, map), AT(dsv3_param, number)});
  expectLayout(t.gridLaunch, sizeof(dsv3_grid_launch),
               {AT(dsv3_grid_launch, kernel), AT(dsv3_grid_launch, grid), AT(dsv3_grid_launch, block), AT(dsv3_grid_launch, smem),
                AT(dsv3_grid_launch, cluster), AT(dsv3_grid_launch, n_params), AT(dsv3_grid_launch, params), AT(dsv3_grid_launch, site)});
  expectLayout(t.kernelDesc, sizeof(dsv3_kernel_desc),
               {AT(dsv3_kernel_desc, symbol), AT(dsv3_kernel_desc, key), AT(dsv3_kernel_desc, fn), AT(dsv3_kernel_desc, scratch_bytes)});
  expectLayout(t.outputDesc, sizeof(dsv3_output_desc),
               {AT(dsv3_output_desc, name), AT(dsv3_output_desc, ref), AT(dsv3_output_desc, elem), AT(dsv3_output_desc, reserved),
                AT(dsv3_output_desc, cols)});
  expectLayout(t.programDesc, sizeof(dsv3_program_desc),
               {AT(dsv3_program_desc, name), AT(dsv3_program_desc, phase), AT(dsv3_program_desc, tokens), AT(dsv3_program_desc, seqs),
                AT(dsv3_program_desc, qblocks), AT(dsv3_program_desc, kblocks), AT(dsv3_program_desc, n_outputs),
                AT(dsv3_program_desc, outputs), AT(dsv3_program_desc, fn)});
  expectLayout(t.fieldDesc, sizeof(dsv3_field_desc),
               {AT(dsv3_field_desc, name), AT(dsv3_field_desc, kind), AT(dsv3_field_desc, elem), AT(dsv3_field_desc, offset),
                AT(dsv3_field_desc, count)});
  expectLayout(t.tapDesc, sizeof(dsv3_tap_desc),
               {AT(dsv3_tap_desc, name), AT(dsv3_tap_desc, elem), AT(dsv3_tap_desc, reserved), AT(dsv3_tap_desc, cols)});
  expectLayout(t.moduleDesc, sizeof(dsv3_module_desc),
               {AT(dsv3_module_desc, abi), AT(dsv3_module_desc, bytes), AT(dsv3_module_desc, target), AT(dsv3_module_desc, variant),
                AT(dsv3_module_desc, n_programs), AT(dsv3_module_desc, n_kernels), AT(dsv3_module_desc, n_fields),
                AT(dsv3_module_desc, n_taps), AT(dsv3_module_desc, max_tokens), AT(dsv3_module_desc, max_seqs),
                AT(dsv3_module_desc, max_pages), AT(dsv3_module_desc, kv_layers), AT(dsv3_module_desc, kv_page_tokens),
                AT(dsv3_module_desc, kv_row_elems), AT(dsv3_module_desc, kv_elem), AT(dsv3_module_desc, kv_page_bytes),
                AT(dsv3_module_desc, pool_bytes), AT(dsv3_module_desc, programs), AT(dsv3_module_desc, kernels),
                AT(dsv3_module_desc, fields), AT(dsv3_module_desc, taps)});
}

} // namespace dsv3::codegen
