// Weights that no program reads go; a tensor that loses its last reader is accounted for.
// RUN: dsv3-opt %s --dsv3-erase-unused-weights | FileCheck %s

// CHECK: dsv3.weight @part
// CHECK-NEXT: dsv3.weight @other_part
// CHECK-NEXT: dsv3.weight @whole
// CHECK-NEXT: dsv3.ignored "lonely" reason "no_reader"
// CHECK-NEXT: dsv3.ignored "lonely.scale" reason "no_reader"
// CHECK-NEXT: dsv3.ignored "old" reason "unknown"
// CHECK-NEXT: dsv3.program
dsv3.weight @part : tensor<4x8xbf16> from #dsv3.file<"part">
dsv3.weight @other_part : tensor<4x8xbf16> from #dsv3.file<"other_part">
dsv3.weight @whole : tensor<8x8xbf16> from #dsv3.concat<0, [#dsv3.ref<@part>, #dsv3.ref<@other_part>]>
dsv3.weight @lonely : tensor<128x128xbf16, #dsv3.blocked<f8E4M3FN, 128x128, f32>> from #dsv3.file<"lonely", scale "lonely.scale">
dsv3.weight @unread_sum : tensor<12x8xbf16> from #dsv3.concat<0, [#dsv3.ref<@whole>, #dsv3.ref<@part>]>
// Read by another weight as well: no tensor is lost.
dsv3.weight @part_again : tensor<4x8xbf16> from #dsv3.file<"part">
dsv3.ignored "old" reason "unknown"
dsv3.program @p(%x: tensor<1x8xbf16>) -> tensor<1x8xbf16> {
  // A use that nobody reads does not keep a weight.
  // CHECK-NOT: dsv3.use @lonely
  %l = dsv3.use @lonely : tensor<128x128xbf16, #dsv3.blocked<f8E4M3FN, 128x128, f32>>
  %w = dsv3.use @whole : tensor<8x8xbf16>
  %y = dsv3.linear %x, %w site "y" : tensor<1x8xbf16>, tensor<8x8xbf16> -> tensor<1x8xbf16>
  dsv3.return %y : tensor<1x8xbf16>
}
