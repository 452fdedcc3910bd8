// What must not exist after the stages bind and pack.
// RUN: dsv3-opt %s --dsv3-verify-stage=stage=pack -split-input-file -verify-diagnostics

dsv3.program @p(%x: tensor<1x16xbf16>) {
  // expected-error @+1 {{'kernel.add' op expected numerics and a schedule after bind at "s"}}
  %n = kernel.add ins(%x, %x : tensor<1x16xbf16>, tensor<1x16xbf16>) outs(%x : tensor<1x16xbf16>) site "s"
  dsv3.return
}

// -----

dsv3.program @p(%x: tensor<1x16xbf16>) {
  // expected-error @+1 {{'dsv3.add' op expected kernel ops only after bind}}
  %n = dsv3.add %x, %x site "s" : tensor<1x16xbf16>, tensor<1x16xbf16> -> tensor<1x16xbf16>
  dsv3.return
}

// -----

dsv3.weight @w : tensor<16xbf16> from #dsv3.file<"w">
dsv3.program @p() {
  // expected-error @+1 {{'dsv3.use' op expected packed weights only after pack, got @w}}
  %w = dsv3.use @w : tensor<16xbf16>
  dsv3.return
}

// -----

#packed = #kernel.packed<none, #kernel.layout<"(n) -> [n]">>
dsv3.weight @w : tensor<16xbf16> from #dsv3.file<"w">
// expected-error @+1 {{'kernel.weight' op expected a reader of @w.packed, got none}}
kernel.weight @w.packed at 0 bytes 32 : tensor<16xbf16, #packed> from @w

// -----

#packed = #kernel.packed<none, #kernel.layout<"(n) -> [n]">>
// expected-error @+1 {{expected a dsv3.weight named @w}}
kernel.weight @w.packed at 0 bytes 32 : tensor<16xbf16, #packed> from @w
dsv3.program @p() {
  %w = kernel.use @w.packed : tensor<16xbf16, #packed>
  dsv3.return
}

// -----

#packed = #kernel.packed<none, #kernel.layout<"(n) -> [n]">>
dsv3.weight @w : tensor<8xbf16> from #dsv3.file<"w">
// expected-error @+1 {{expected the numbers of its source, 'tensor<8xbf16>', got 'tensor<16xbf16}}
kernel.weight @w.packed at 0 bytes 32 : tensor<16xbf16, #packed> from @w
dsv3.program @p() {
  %w = kernel.use @w.packed : tensor<16xbf16, #packed>
  dsv3.return
}

// -----

#packed = #kernel.packed<none, #kernel.layout<"(n) -> [n]">>
dsv3.weight @v : tensor<4096xbf16> from #dsv3.file<"v">
dsv3.weight @w : tensor<16xbf16> from #dsv3.file<"w">
kernel.weight @v.packed at 0 bytes 8192 : tensor<4096xbf16, #packed> from @v
// expected-error @+1 {{expected a place behind @v.packed, which ends at 8192, got 4096}}
kernel.weight @w.packed at 4096 bytes 32 : tensor<16xbf16, #packed> from @w
dsv3.program @p() {
  %v = kernel.use @v.packed : tensor<4096xbf16, #packed>
  %w = kernel.use @w.packed : tensor<16xbf16, #packed>
  dsv3.return
}

// -----

// Without a pad the last panel has holes.
#packed = #kernel.packed<none, #kernel.layout<"(n, k) -> [n/16, k, n%16]">>
dsv3.weight @w : tensor<20x16xbf16> from #dsv3.file<"w">
// expected-error @+1 {{expected 320 places for 'tensor<20x16xbf16}}
kernel.weight @w.packed at 0 bytes 1024 : tensor<20x16xbf16, #packed> from @w
dsv3.program @p() {
  %w = kernel.use @w.packed : tensor<20x16xbf16, #packed>
  dsv3.return
}

// -----

// The right number of places, but two indices share one.
#packed = #kernel.packed<none, #kernel.layout<"(n, k) -> [n, n]">>
dsv3.weight @w : tensor<16x16xbf16> from #dsv3.file<"w">
// expected-error @+1 {{expected a layout that fills memory without overlap, got '(n, k) -> [n, n]'}}
kernel.weight @w.packed at 0 bytes 512 : tensor<16x16xbf16, #packed> from @w
dsv3.program @p() {
  %w = kernel.use @w.packed : tensor<16x16xbf16, #packed>
  dsv3.return
}

// -----

// Scales may serve many numbers, but none may be missing.
#packed = #kernel.packed<#dsv3.blocked<f8E4M3FN, 128x128, f32>, #kernel.layout<"(n, k) -> [n, k]">, scale = #kernel.layout<"(n, k) -> [n/128, n]">>
dsv3.weight @w : tensor<16x16xbf16, #dsv3.blocked<f8E4M3FN, 128x128, f32>> from #dsv3.file<"w", scale "s">
dsv3.weight @v : tensor<256x16xbf16, #dsv3.blocked<f8E4M3FN, 128x128, f32>> from #dsv3.file<"v", scale "t">
// expected-error @+1 {{expected a layout that fills memory without overlap, got '(n, k) -> [n/128, n]'}}
kernel.weight @v.packed at 0 bytes 6144 : tensor<256x16xbf16, #packed> from @v
dsv3.program @p() {
  %v = kernel.use @v.packed : tensor<256x16xbf16, #packed>
  dsv3.return
}
