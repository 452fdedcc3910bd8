// What the verifiers of the tile dialect refuse, by label. T13, T22, T23, T28, T29, T31 and T37 take more than one op to see.
// RUN: dsv3-opt %s -split-input-file -verify-diagnostics

//===-- T1, T2: the block -------------------------------------------------===//

// expected-error @+1 {{T1: expected at most 232448 bytes of shared memory, got 262144}}
tile.kernel @k() {
  %b = alloc : !tile.buf<2x256x256xbf16, sw128>
  role @a warpgroups(1) {
  }
}

// -----

// expected-error @+1 {{T2: expected at most 1024 threads, got 1152}}
tile.kernel @k() {
  role @load producer {
  }
  role @a warpgroups(8) {
  }
}

// -----

// expected-error @+1 {{T2: expected one or more roles with at most one producer, got 0 with 0}}
tile.kernel @k() {
}

// -----

tile.kernel @k() {
  // expected-error @+1 {{T2: expected 1 to 8 warpgroups, one for a producer, got 9}}
  role @a warpgroups(9) {
  }
}

// -----

// expected-error @+1 {{expected argument 0 of type !tile.tma, !tile.gmem, !llvm.ptr<1>, i32, i64 or f32, got 'f64'}}
tile.kernel @k(%x: f64) {
  role @a warpgroups(1) {
  }
}

// -----

tile.kernel @k() {
  role @a warpgroups(1) {
  }
  // expected-error @+1 {{expected a name that no other role has, got @a}}
  role @a warpgroups(1) {
  }
}

// -----

#r = #tile.ring<stages = 1, bufs = [!tile.buf<8xf32>], free = [all by @a]>
tile.kernel @k() {
  // expected-note @+1 {{the other one}}
  %r = ring #r
  // expected-error @+1 {{expected one op per ring attribute: name the rings that look alike}}
  %s = ring #r
  role @a warpgroups(1) {
  }
}

// -----

//===-- T3, T4: registers -------------------------------------------------===//

tile.kernel @k() {
  // expected-error @+1 {{T3: expected a multiple of 8 registers from 24 to 256, got 100}}
  role @a warpgroups(1) regs(100) {
  }
}

// -----

// expected-error @+1 {{T3: expected at most the 64512 registers of the launch in all roles, got 66560}}
tile.kernel @k() {
  role @load producer regs(56) {
  }
  role @a warpgroups(2) regs(232) {
  }
}

// -----

tile.kernel @k() {
  // expected-error @+1 {{T4: expected at least 40 registers in this producer, got 32}}
  role @load producer regs(32) {
  }
  role @a warpgroups(2) regs(232) {
  }
}

// -----

tile.kernel @k() cluster(2) {
  // expected-error @+1 {{T4: expected at least 56 registers in this producer, got 40}}
  role @load producer regs(40) {
  }
  role @a warpgroups(2) regs(232) {
  }
}

// -----

//===-- T5: work ----------------------------------------------------------===//

tile.kernel @k(%n: i32) {
  // expected-error @+1 {{T5: expected as many tile sizes and fields as extents (2), got 2 and 1}}
  %w = raster [%n, 8] tile [1, 1] -> (m)
  role @a warpgroups(1) {
  }
}

// -----

tile.kernel @k(%items: !tile.gmem<?x4xi32>, %parts: !tile.gmem<?xi32>, %n: i32) {
  // expected-error @+1 {{T5: expected the lane and a field per column of '!tile.gmem<?x4xi32>', got 4 fields}}
  %w = list %items, %parts lanes(%n) -> (a, b, c, d) : !tile.gmem<?x4xi32>, !tile.gmem<?xi32>
  role @a warpgroups(1) {
  }
}

// -----

tile.kernel @k(%off: !tile.gmem<?xi32>, %n: i32) {
  // expected-error @+1 {{T5: expected 4 fields (group, rows, first row, first column; in a cluster also the rank), got 2}}
  %w = groups %off experts(%n) rows 16 cols(%n, 128) max 512 -> (e, n) : !tile.gmem<?xi32>
  role @a warpgroups(1) {
  }
}

// -----

tile.kernel @k(%n: i32) {
  %w = raster [%n, 8] tile [1, 1] -> (m, n)
  role @a warpgroups(1) {
    // expected-error @+1 {{T5: expected 2 fields, got 1}}
    foreach (%m) in %w {
    }
  }
}

// -----

//===-- T6, T7, T8: loops and none ----------------------------------------===//

func.func @f() {
  // expected-error @+1 {{T6: expected at least one trip of a peeled loop, got none}}
  tile.loop %i = 4 to 4 peel(first) {
  }
  return
}

// -----

func.func @f(%n: i32) {
  // expected-error @+1 {{T7: expected constant bounds and at most 8 trips to unroll}}
  tile.loop %i = 0 to %n unroll {
  }
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{T7: expected constant bounds and at most 8 trips to unroll, got 9}}
  tile.loop %i = 0 to 9 unroll {
  }
  return
}

// -----

func.func @f(%x: i32) {
  // expected-error @+1 {{expected `yield` of what is carried ('i32'), got}}
  %r = tile.loop %i = 0 to 4 iter(%y = %x) : i32 {
    yield
  }
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{T8: expected an accumulator, slot or token, got 'f32'}}
  %x = tile.none : f32
  return
}

// -----

//===-- T9, T10: views ----------------------------------------------------===//

func.func @f(%b: !tile.buf<64x256xbf16, sw128>) {
  // expected-error @+1 {{T9: expected a part that starts at a multiple of 8 rows and 64 columns}}
  %v = tile.view %b[4, 0] : !tile.buf<64x256xbf16, sw128> -> !tile.buf<8x64xbf16, sw128>
  return
}

// -----

func.func @f(%b: !tile.buf<64x256xbf16, sw128>) {
  // expected-error @+1 {{T9: expected a part inside 256 in dim 1, got [128, 320)}}
  %v = tile.view %b[0, 128] : !tile.buf<64x256xbf16, sw128> -> !tile.buf<64x192xbf16, sw128>
  return
}

// -----

func.func @f(%b: !tile.buf<16x16x16xbf16, swizzle<1, 4, 3>>) {
  // expected-error @+1 {{T9: expected a part that starts at a multiple of 256 bytes, got 128}}
  %v = tile.view %b[0, 4] : !tile.buf<16x16x16xbf16, swizzle<1, 4, 3>> -> !tile.buf<4x16xbf16, swizzle<1, 4, 3>>
  return
}

// -----

func.func @f(%b: !tile.buf<64x256xbf16, sw128>) {
  // expected-error @+1 {{T10: expected all 64 rows of the source in a part of several atoms, got 32}}
  %v = tile.view %b[0, 0] : !tile.buf<64x256xbf16, sw128> -> !tile.buf<32x128xbf16, sw128>
  return
}

// -----

func.func @f(%b: !tile.buf<64x64xbf16, sw128>) {
  // expected-error @+1 {{T10: expected the source's element and layout ('!tile.buf<64x64xbf16, sw128>'), got '!tile.buf<64x64xbf16>'}}
  %v = tile.view %b[0, 0] : !tile.buf<64x64xbf16, sw128> -> !tile.buf<64x64xbf16>
  return
}

// -----

func.func @f(%b: !tile.buf<16x64xf32>) {
  // expected-error @+1 {{T10: expected 256 bytes between neighbours in dim 0 of the result, as in the source, got 64}}
  %v = tile.view %b[0, 0] : !tile.buf<16x64xf32> -> !tile.buf<16x16xf32>
  return
}

// -----

func.func @f(%b: !tile.buf<2x64x128xi4, frag<opA4>>) {
  // expected-error @+1 {{T10: expected a whole fragment of}}
  %v = tile.view %b[0, 0, 0] : !tile.buf<2x64x128xi4, frag<opA4>> -> !tile.buf<64x64xi4, frag<opA4>>
  return
}

// -----

//===-- Coordinates -------------------------------------------------------===//

func.func @f(%b: !tile.buf<8xf32>) {
  // expected-error @+1 {{expected at most 1 coordinates, got 2}}
  %v = tile.view %b[0, 0] : !tile.buf<8xf32> -> !tile.buf<4xf32>
  return
}

// -----

func.func @f(%b: !tile.buf<8xf32>) {
  // expected-error @+1 {{expected coordinates of 0 or more, got -4}}
  %v = tile.view %b[-4] : !tile.buf<8xf32> -> !tile.buf<4xf32>
  return
}

// -----

func.func @f(%b: !tile.buf<8xf32>) {
  // expected-error @+1 {{expected '*' only as the last coordinate of a tensor map, got it in place 0}}
  %v = tile.view %b[*] : !tile.buf<8xf32> -> !tile.buf<4xf32>
  return
}

// -----

//===-- T12, T14: rings and gates name roles ------------------------------===//

#r = #tile.ring<stages = 1, bufs = [!tile.buf<8xf32>], free = [all by @b]>
tile.kernel @k() {
  // expected-error @+1 {{T12: expected a consumer role of the kernel that frees, got @b}}
  %r = ring #r
  role @a warpgroups(1) {
  }
}

// -----

tile.kernel @k() {
  // expected-error @+1 {{T14: expected a consumer role of the kernel, got @load}}
  %g = gate from @a to @load
  role @load producer {
  }
  role @a warpgroups(1) {
  }
}

// -----

tile.kernel @k() {
  // expected-note @+1 {{the gate}}
  %g = gate from @a to @b
  role @a warpgroups(1) {
    // expected-error @+1 {{T14: expected a role that meets at this gate, got @a}}
    meet %g
  }
  role @b warpgroups(1) {
  }
}

// -----

tile.kernel @k() {
  // expected-note @+1 {{the gate}}
  %g = gate between @a, @b
  role @a warpgroups(1) {
    // expected-error @+1 {{T14: expected a role that signals at this gate, got @a}}
    signal %g
  }
  role @b warpgroups(1) {
  }
}

// -----

// expected-error @+1 {{T14: expected at most 15 named barriers (gates, and one per consumer warpgroup), got 16}}
tile.kernel @k() {
  %0 = gate from @a to @b
  %1 = gate from @a to @b
  %2 = gate from @a to @b
  %3 = gate from @a to @b
  %4 = gate from @a to @b
  %5 = gate from @a to @b
  %6 = gate from @a to @b
  %7 = gate from @a to @b
  role @a warpgroups(4) {
  }
  role @b warpgroups(4) {
  }
}

// -----

//===-- T15, T16: fill ----------------------------------------------------===//

#r = #tile.ring<stages = 1, bufs = [!tile.buf<64x64xbf16, sw128>], free = [all by @a]>
func.func @f(%s: !tile.slot<#r>) {
  // expected-note @+1 {{the fill}}
  tile.fill %s as (%b) : !tile.slot<#r> {
    // expected-error @+1 {{T15: expected copies, loops, scf.if and scalar operations in a `fill`}}
    sync
  }
  return
}

// -----

//===-- T38, T39: gather, lookup ------------------------------------------===//

func.func @f(%x: !tile.gmem<?x128xbf16>, %i: tensor<64xi32, #tile.frag<line>>, %n: i32, %b: !tile.buf<64x64xbf16, sw128>) {
  // expected-error @+1 {{T38: expected to be inside a `fill`, whose barrier it completes on}}
  tile.gather %x[%i, %n] rows(%n) -> %b : !tile.gmem<?x128xbf16>, tensor<64xi32, #tile.frag<line>> -> !tile.buf<64x64xbf16, sw128>
  return
}

// -----

#r = #tile.ring<stages = 1, bufs = [!tile.buf<64x64xbf16, sw128>], free = [all by @a]>
func.func @f(%s: !tile.slot<#r>, %x: !tile.gmem<?x128xbf16>, %i: tensor<64xi32, #tile.frag<row>>, %n: i32) {
  tile.fill %s as (%b) : !tile.slot<#r> {
    // expected-error @+1 {{T38: expected 64 ids of i32 as `line`, got 'tensor<64xi32, #tile.frag<row>>'}}
    gather %x[%i, %n] rows(%n) -> %b : !tile.gmem<?x128xbf16>, tensor<64xi32, #tile.frag<row>> -> !tile.buf<64x64xbf16, sw128>
  }
  return
}

// -----

#r = #tile.ring<stages = 1, bufs = [!tile.buf<64x64xbf16, sw128>], free = [all by @a]>
func.func @f(%s: !tile.slot<#r>, %x: !tile.gmem<?x100xbf16>, %i: tensor<64xi32, #tile.frag<line>>, %n: i32) {
  tile.fill %s as (%b) : !tile.slot<#r> {
    // expected-error @+1 {{T38: expected a matrix with rows of a multiple of 16 bytes, got '!tile.gmem<?x100xbf16>'}}
    gather %x[%i, %n] rows(%n) -> %b : !tile.gmem<?x100xbf16>, tensor<64xi32, #tile.frag<line>> -> !tile.buf<64x64xbf16, sw128>
  }
  return
}

// -----

#r = #tile.ring<stages = 1, bufs = [!tile.buf<64x64xbf16>], free = [all by @a]>
func.func @f(%s: !tile.slot<#r>, %x: !tile.gmem<?x128xbf16>, %i: tensor<64xi32, #tile.frag<line>>, %n: i32) {
  tile.fill %s as (%b) : !tile.slot<#r> {
    // expected-error @+1 {{T38: expected a buffer in sw128 of rank 2 and of the matrix's element 'bf16', got '!tile.buf<64x64xbf16>'}}
    gather %x[%i, %n] rows(%n) -> %b : !tile.gmem<?x128xbf16>, tensor<64xi32, #tile.frag<line>> -> !tile.buf<64x64xbf16>
  }
  return
}

// -----

func.func @f(%x: !tile.gmem<?x4xf32>, %i: tensor<64xi32, #tile.frag<row>>, %n: i32) {
  // expected-error @+1 {{T39: expected ids of i32 in the places of 'tensor<32xf32, #tile.frag<col>>', got 'tensor<64xi32, #tile.frag<row>>'}}
  %f = tile.lookup %x[%i, %n] : !tile.gmem<?x4xf32>, tensor<64xi32, #tile.frag<row>> -> tensor<32xf32, #tile.frag<col>>
  return
}

// -----

// expected-error @+1 {{expected 8 rows or a multiple of 16 for line, got 24}}
func.func private @f(tensor<24xi32, #tile.frag<line>>)

// -----

func.func @f(%t: !tile.tma<?x?xbf16, box 64x64, sw128>, %b: !tile.buf<64x64xbf16, sw128>) {
  // expected-error @+1 {{T15: expected to be inside a `fill`, which announces its bytes}}
  tile.copy %t[0, 0] -> %b : !tile.tma<?x?xbf16, box 64x64, sw128> -> !tile.buf<64x64xbf16, sw128>
  return
}

// -----

#r = #tile.ring<stages = 1, bufs = [!tile.buf<64x64xbf16, sw128>, !tile.buf<64x64xbf16, sw128>], free = [all by @a]>
func.func @f(%s: !tile.slot<#r>, %t: !tile.tma<?x?xbf16, box 64x64, sw128>) {
  // expected-error @+1 {{T16: expected a copy into buffer 1}}
  tile.fill %s as (%a, %b) : !tile.slot<#r> {
    copy %t[0, 0] -> %a : !tile.tma<?x?xbf16, box 64x64, sw128> -> !tile.buf<64x64xbf16, sw128>
  }
  return
}

// -----

#r = #tile.ring<stages = 1, bufs = [!tile.buf<64x64xbf16, sw128>], free = [all by @a]>
func.func @f(%s: !tile.slot<#r>) {
  // expected-error @+1 {{expected a slot of a ring with group 1, got}}
  tile.fill %s[1] as (%a) : !tile.slot<#r> {
  }
  return
}

// -----

//===-- T17, T18, T19: copies ---------------------------------------------===//

#r = #tile.ring<stages = 1, bufs = [!tile.buf<64x128xbf16, sw128>], free = [all by @a]>
func.func @f(%s: !tile.slot<#r>, %t: !tile.tma<?x?xbf16, box 64x32, sw64>) {
  tile.fill %s as (%a) : !tile.slot<#r> {
    // expected-error @+1 {{T17: expected the layout of the tensor map '!tile.tma<?x?xbf16, box 64x32, sw64>', got '!tile.buf<64x128xbf16, sw128>'}}
    copy %t[0, 0] -> %a : !tile.tma<?x?xbf16, box 64x32, sw64> -> !tile.buf<64x128xbf16, sw128>
  }
  return
}

// -----

#r = #tile.ring<stages = 1, bufs = [!tile.buf<64x128xbf16, sw128>], free = [all by @a]>
func.func @f(%s: !tile.slot<#r>, %t: !tile.tma<?x?xbf16, box 48x64, sw128>) {
  tile.fill %s as (%a) : !tile.slot<#r> {
    // expected-error @+1 {{T17: expected a buffer made of boxes of '!tile.tma<?x?xbf16, box 48x64, sw128>', got '!tile.buf<64x128xbf16, sw128>'}}
    copy %t[0, 0] -> %a : !tile.tma<?x?xbf16, box 48x64, sw128> -> !tile.buf<64x128xbf16, sw128>
  }
  return
}

// -----

// Two rows of boxes with a pitch: TMA would not leave gaps.
#r = #tile.ring<stages = 1, bufs = [!tile.buf<64x64xf32>], free = [all by @a]>
func.func @f(%s: !tile.slot<#r>, %t: !tile.tma<?x?xf32, box 64x32>) {
  tile.fill %s as (%a) : !tile.slot<#r> {
    // expected-error @+1 {{T17: expected a buffer made of boxes of}}
    copy %t[0, 0] -> %a : !tile.tma<?x?xf32, box 64x32> -> !tile.buf<64x64xf32>
  }
  return
}

// -----

#r = #tile.ring<stages = 1, bufs = [!tile.buf<64x64xbf16, sw128>], free = [all by @a]>
func.func @f(%s: !tile.slot<#r>, %t: !tile.tma<?x?xf16, box 64x64, sw128>) {
  tile.fill %s as (%a) : !tile.slot<#r> {
    // expected-error @+1 {{T17: expected a tensor map of the buffer's element 'bf16', got 'f16'}}
    copy %t[0, 0] -> %a : !tile.tma<?x?xf16, box 64x64, sw128> -> !tile.buf<64x64xbf16, sw128>
  }
  return
}

// -----

#r = #tile.ring<stages = 1, bufs = [!tile.buf<64x64xbf16, sw128>], free = [all by @a]>
func.func @f(%s: !tile.slot<#r>, %g: !tile.gmem<?x64xbf16>) {
  tile.fill %s as (%a) : !tile.slot<#r> {
    // expected-error @+1 {{T18: expected a destination of layout linear or frag for contiguous bytes, got}}
    copy %g[0, 0] -> %a : !tile.gmem<?x64xbf16> -> !tile.buf<64x64xbf16, sw128>
  }
  return
}

// -----

#r = #tile.ring<stages = 1, bufs = [!tile.buf<6xbf16>], free = [all by @a]>
func.func @f(%s: !tile.slot<#r>, %g: !tile.gmem<?xbf16>) {
  tile.fill %s as (%a) : !tile.slot<#r> {
    // expected-error @+1 {{T18: expected a multiple of 16 bytes, got 12}}
    copy %g[0] -> %a : !tile.gmem<?xbf16> -> !tile.buf<6xbf16>
  }
  return
}

// -----

#r = #tile.ring<stages = 1, bufs = [!tile.buf<8xbf16>], free = [all by @a]>
func.func @f(%s: !tile.slot<#r>, %g: !tile.gmem<?xbf16>) {
  tile.fill %s as (%a) : !tile.slot<#r> {
    // expected-error @+1 {{T19: expected a source at a multiple of 16 bytes, got a step of 2 bytes in dim 0}}
    copy %g[4] -> %a : !tile.gmem<?xbf16> -> !tile.buf<8xbf16>
  }
  return
}

// -----

#r = #tile.ring<stages = 1, bufs = [!tile.buf<8xbf16>], free = [all by @a]>
func.func @f(%s: !tile.slot<#r>, %g: !tile.gmem<?x20xbf16>, %i: i32) {
  tile.fill %s as (%a) : !tile.slot<#r> {
    // expected-error @+1 {{T19: expected a source at a multiple of 16 bytes, got a step of 40 bytes in dim 0}}
    copy %g[%i, 0] -> %a : !tile.gmem<?x20xbf16> -> !tile.buf<8xbf16>
  }
  return
}

// -----

//===-- T20, T21: wait and release ----------------------------------------===//

#r = #tile.ring<stages = 1, bufs = [!tile.buf<8xf32>], free = [all by @a]>
tile.kernel @k() {
  %r = ring #r
  role @a warpgroups(1) {
    %s = next %r : !tile.ring<#r>
    // expected-error @+1 {{T20: expected a role that fills the ring, got @a}}
    %b = wait free %s : !tile.slot<#r>
  }
}

// -----

#r = #tile.ring<stages = 1, bufs = [!tile.buf<8xf32>], free = [all by @a]>
tile.kernel @k() {
  %r = ring #r
  role @a warpgroups(1) {
  }
  role @b warpgroups(1) {
    %s = next %r : !tile.ring<#r>
    // expected-error @+1 {{T21: expected a role that frees the group, got @b}}
    release %s : !tile.slot<#r>
  }
}

// -----

#r = #tile.ring<stages = 1, bufs = [!tile.buf<8x8xf32>], free = [0:4 by @a, 4:8 by @a]>
func.func @f(%s: !tile.slot<#r>) {
  // expected-error @+1 {{T21: expected a group, as the ring has 2}}
  tile.release %s : !tile.slot<#r>
  return
}

// -----

#r = #tile.ring<stages = 1, bufs = [!tile.buf<8xf32>], free = [all by @a]>
func.func @f(%s: !tile.slot<#r>) {
  // expected-error @+1 {{T21: expected a ring with fill = arrive and no group to release full}}
  tile.release full %s : !tile.slot<#r>
  return
}

// -----

#r = #tile.ring<stages = 1, bufs = [!tile.buf<8xf32>], free = [all by @a]>
func.func @f(%s: !tile.slot<#r>) {
  // expected-error @+1 {{expected a group below 1 of the ring, got 3}}
  %b = tile.wait full %s[3] : !tile.slot<#r>
  return
}

// -----

#r = #tile.ring<stages = 1, bufs = [!tile.buf<8xf32>], landed = other, free = [all by @a]>
func.func @f(%s: !tile.slot<#r>) {
  // expected-error @+1 {{expected a ring with full barriers of its own, got landed = other: `peek`}}
  %b = tile.wait full %s : !tile.slot<#r>
  return
}

// -----

#r = #tile.ring<stages = 1, lanes = 2, bufs = [!tile.buf<8xf32>], free = [all by @a]>
func.func @f(%r: !tile.ring<#r>) {
  // expected-error @+1 {{expected a lane for the first slot of a ring with lanes, and only there}}
  %s = tile.next %r : !tile.ring<#r>
  return
}

// -----

//===-- T24 to T27: mma ---------------------------------------------------===//

!K = !tile.buf<64x64xbf16, sw128>
func.func @f(%a: !K, %b: !tile.buf<128x64xbf16, sw128>, %c: !tile.acc<64x64xf32>) {
  // expected-error @+1 {{T24: expected 64 rows of a and 64 of b's n, got 64 and 128}}
  %d, %t = tile.mma nt %a, %b into %c : !K, !tile.buf<128x64xbf16, sw128>, !tile.acc<64x64xf32>
  return
}

// -----

!K = !tile.buf<64x64xbf16, sw128>
func.func @f(%a: !K, %b: !tile.buf<64x128xbf16, sw128>, %c: !tile.acc<64x64xf32>) {
  // expected-error @+1 {{T24: expected k of a (64) to equal k of b (128)}}
  %d, %t = tile.mma nt %a, %b into %c : !K, !tile.buf<64x128xbf16, sw128>, !tile.acc<64x64xf32>
  return
}

// -----

!K = !tile.buf<64x64xbf16, sw128>
func.func @f(%a: !K, %c: !tile.acc<64x64xi32>) {
  // expected-error @+1 {{T24: expected bf16, f16, f8 or i8 operands with an accumulator of f32 or i32, got 'bf16', 'bf16' into 'i32'}}
  %d, %t = tile.mma nt %a, %a into %c : !K, !K, !tile.acc<64x64xi32>
  return
}

// -----

!K = !tile.buf<64x64xbf16, sw128>
!H = tensor<64x64xbf16, #tile.frag<acc>>
func.func @f(%a: !K, %c: !H) {
  // expected-error @+1 {{T24: expected `into` an accumulator or an acc fragment of f32 or i32, got 'tensor<64x64xbf16, #tile.frag<acc>>'}}
  %d, %t = tile.mma nt %a, %a into %c : !K, !K, !H
  return
}

// -----

func.func @f(%a: !tile.buf<64x128xi8, sw128>, %b: !tile.buf<40x128xi8, sw128>, %c: !tile.acc<64x40xi32>) {
  // expected-error @+1 {{T24: expected n of 8, 24 or a multiple of 16 for i8, got 40}}
  %d, %t = tile.mma nt %a, %b into %c : !tile.buf<64x128xi8, sw128>, !tile.buf<40x128xi8, sw128>, !tile.acc<64x40xi32>
  return
}

// -----

func.func @f(%a: tensor<64x24xbf16, #tile.frag<acc>>, %b: !tile.buf<24x64xbf16, sw128>, %c: !tile.acc<64x64xf32>) {
  // expected-error @+1 {{T24: expected k of a multiple of 16, got 24}}
  %d, %t = tile.mma nn %a, %b into %c : tensor<64x24xbf16, #tile.frag<acc>>, !tile.buf<24x64xbf16, sw128>, !tile.acc<64x64xf32>
  return
}

// -----

func.func @f(%a: !tile.buf<64x128xi8, sw128>, %b: !tile.buf<128x128xi8, sw128>, %c: !tile.acc<64x128xi32>) {
  // expected-error @+1 {{T25: expected 16-bit elements for `nn`, got 'i8'}}
  %d, %t = tile.mma nn %a, %b into %c : !tile.buf<64x128xi8, sw128>, !tile.buf<128x128xi8, sw128>, !tile.acc<64x128xi32>
  return
}

// -----

!K = !tile.buf<64x64xbf16, sw128>
func.func @f(%a: !K, %b: !tile.buf<64x64xbf16, pad<16>>, %c: !tile.acc<64x64xf32>) {
  // expected-error @+1 {{T26: expected b of layout sw32, sw64 or sw128, got '!tile.buf<64x64xbf16, pad<16>>'}}
  %d, %t = tile.mma nt %a, %b into %c : !K, !tile.buf<64x64xbf16, pad<16>>, !tile.acc<64x64xf32>
  return
}

// -----

!Q = tensor<64x128xi8, #tile.frag<acc>>
func.func @f(%a: !Q, %b: !tile.buf<16x128xi8, sw128>, %c: !tile.acc<64x16xi32>) {
  // expected-error @+1 {{T27: expected a register operand of kind opA, got 'tensor<64x128xi8, #tile.frag<acc>>'}}
  %d, %t = tile.mma nt %a, %b into %c : !Q, !tile.buf<16x128xi8, sw128>, !tile.acc<64x16xi32>
  return
}

// -----

!K = !tile.buf<64x64xbf16, sw128>
func.func @f(%a: !K, %c: !tile.acc<64x64xf32>) {
  // expected-error @+1 {{expected a slot as b with a group, got}}
  %d, %t = tile.mma nt %a, %a[0] into %c : !K, !K, !tile.acc<64x64xf32>
  return
}

// -----

func.func @f(%c: !tile.acc<64x64xf32>) {
  // expected-error @+1 {{expected a token with `reads`, got}}
  %d = tile.await %c reads : !tile.acc<64x64xf32>
  return
}

// -----

//===-- T30: load and store -----------------------------------------------===//

func.func @f(%b: !tile.buf<64x128xf8E4M3FN, sw128>) {
  // expected-error @+1 {{T30: expected `paired` columns from a multiple of 16 inside a buffer in sw128 of 32, 64, ... rows of 8 bits, as acc, got 72 of}}
  %f = tile.load %b paired 72 : !tile.buf<64x128xf8E4M3FN, sw128> -> tensor<64x64xf8E4M3FN, #tile.frag<acc>>
  return
}

// -----

func.func @f(%b: !tile.buf<64x32xf32>) {
  // expected-error @+1 {{T30: expected a buffer of 'tensor<64x16xf32, #tile.frag<acc>>', got '!tile.buf<64x32xf32>'}}
  %f = tile.load %b : !tile.buf<64x32xf32> -> tensor<64x16xf32, #tile.frag<acc>>
  return
}

// -----

func.func @f(%b: !tile.buf<64x32xi4>) {
  // expected-error @+1 {{T30: expected a buffer of layout frag<opA4>, got '!tile.buf<64x32xi4>'}}
  %f = tile.load %b : !tile.buf<64x32xi4> -> tensor<64x32xi4, #tile.frag<opA4>>
  return
}

// -----

func.func @f(%b: !tile.buf<2xf32>) {
  // expected-error @+1 {{T30: expected a buffer of one 'f32', got '!tile.buf<2xf32>'}}
  %f = tile.load %b : !tile.buf<2xf32> -> f32
  return
}

// -----

func.func @f(%b: !tile.buf<64x64xbf16, sw128>) {
  // expected-error @+1 {{expected rows inside 64, got 80}}
  tile.zero %b rows [0, 80] : !tile.buf<64x64xbf16, sw128>
  return
}

// -----

//===-- Global memory, T32 ------------------------------------------------===//

func.func @f(%g: !tile.gmem<?x?xf32>) {
  // expected-error @+1 {{expected 2 coordinates and neither masks nor `trans` for a scalar, got 1}}
  %x = tile.read %g[0] : !tile.gmem<?x?xf32> -> f32
  return
}

// -----

func.func @f(%g: !tile.gmem<?xf32>, %f: tensor<64x16xf32, #tile.frag<acc>>) {
  // expected-error @+1 {{expected a fragment whose dims are the last ones of '!tile.gmem<?xf32>', got}}
  tile.write %f, %g[0] : tensor<64x16xf32, #tile.frag<acc>>, !tile.gmem<?xf32>
  return
}

// -----

func.func @f(%g: !tile.gmem<?xbf16>, %f: tensor<64xf32, #tile.frag<row>>) {
  // expected-error @+1 {{expected element 'bf16' of the tensor, got 'f32'}}
  tile.write %f, %g[0] : tensor<64xf32, #tile.frag<row>>, !tile.gmem<?xbf16>
  return
}

// -----

!H = tensor<64x16xbf16, #tile.frag<acc>>
func.func @f(%g: !tile.gmem<?x?xbf16>, %f: !H, %b: !tile.buf<4x16x32xbf16>) {
  // expected-error @+1 {{T32: expected a buffer of a 16x16 piece per warp, got '!tile.buf<4x16x32xbf16>'}}
  tile.write %f, %g[0, 0] trans via %b : !tile.buf<4x16x32xbf16> : !H, !tile.gmem<?x?xbf16>
  return
}

// -----

!H = tensor<64x16xbf16, #tile.frag<acc>>
tile.kernel @k(%g: !tile.gmem<?x?xbf16>) {
  %b = alloc : !tile.buf<4x16x16xbf16>
  role @a warpgroups(2) {
    %f = read %g[0, 0] : !tile.gmem<?x?xbf16> -> !H
    // expected-error @+1 {{T32: expected 8 pieces, one per warp of the role, got 4}}
    write %f, %g[0, 0] via %b : !tile.buf<4x16x16xbf16> : !H, !tile.gmem<?x?xbf16>
  }
}

// -----

func.func @f(%p: !llvm.ptr<1>) {
  // expected-error @+1 {{expected an index below 8, got 8}}
  %n = tile.count %p[8]
  return
}

// -----

//===-- T33 to T36: fragments ---------------------------------------------===//

func.func @f(%f: tensor<64x16xf32, #tile.frag<acc>>) {
  // expected-error @+1 {{T33: expected acc to quad or row, or quad to row, along dim 1 and of one element}}
  %r = tile.reduce add %f dim 0 : tensor<64x16xf32, #tile.frag<acc>> -> tensor<16xf32, #tile.frag<col>>
  return
}

// -----

func.func @f(%f: tensor<8xf32, #tile.frag<col>>) {
  // expected-error @+1 {{T34: expected a scalar, row to acc or quad, or col to acc of the same columns}}
  %r = tile.bcast %f : tensor<8xf32, #tile.frag<col>> -> tensor<64x16xf32, #tile.frag<acc>>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{T34: expected a dim below 1 and element i32, got dim 1 of}}
  %r = tile.iota dim 1 : tensor<64xi32, #tile.frag<row>>
  return
}

// -----

func.func @f(%f: tensor<64x16xf32, #tile.frag<acc>>) {
  // expected-error @+1 {{T34: expected columns from a multiple of 8 inside 16, got [4, 12)}}
  %r = tile.slice %f[4] : tensor<64x16xf32, #tile.frag<acc>> -> tensor<64x8xf32, #tile.frag<acc>>
  return
}

// -----

func.func @f(%f: tensor<64x32xi8, #tile.frag<acc>>) {
  // expected-error @+1 {{T35: expected i4 opA4 to i8 opA, i4 opA4t to f8E4M3FN opA, i4 acc4 to bf16 acc, or f8E4M3FN or f8E5M2 acc to bf16 or f16 acc, of one shape, got}}
  %r = tile.expand %f : tensor<64x32xi8, #tile.frag<acc>> -> tensor<64x32xbf16, #tile.frag<acc>>
  return
}

// -----

func.func @f(%m: tensor<64xi1, #tile.frag<row>>) {
  // expected-note @+1 {{the vote}}
  %any = tile.any %m : tensor<64xi1, #tile.frag<row>>
  scf.if %any {
    // expected-error @+1 {{T36: expected none of its kind where only some warps pass}}
    tile.sync
  }
  return
}

// -----

//===-- T39: reductions over the rows of warpgroups -----------------------===//

!F = tensor<64x16xf32, #tile.frag<acc>>
tile.kernel @k() {
  %b = alloc : !tile.buf<8x16xf32>
  role @mma warpgroups(2) as %g {
    %f = arith.constant dense<0.0> : !F
    // expected-error @+1 {{T39: expected a number that divides the role's 2 warpgroups, got 4}}
    %m = tile.reduce_rows max %f over 4 via %b : !F, !tile.buf<8x16xf32> -> tensor<16xf32, #tile.frag<col>>
  }
}

// -----

!F = tensor<64x16xf32, #tile.frag<acc>>
tile.kernel @k() {
  %b = alloc : !tile.buf<4x16xf32>
  role @mma warpgroups(2) as %g {
    %f = arith.constant dense<0.0> : !F
    // expected-error @+1 {{T39: expected a row-major buffer of 8x16 f32, got '!tile.buf<4x16xf32>'}}
    %m = tile.reduce_rows max %f over 2 via %b : !F, !tile.buf<4x16xf32> -> tensor<16xf32, #tile.frag<col>>
  }
}

// -----

!F = tensor<64x16xf32, #tile.frag<acc>>
tile.kernel @k() {
  %b = alloc : !tile.buf<8x16xf32>
  role @mma warpgroups(2) as %g {
    %f = arith.constant dense<0.0> : !F
    // expected-error @+1 {{T39: expected f32 acc to f32 col of the same columns, got}}
    %m = tile.reduce_rows max %f over 2 via %b : !F, !tile.buf<8x16xf32> -> tensor<8xf32, #tile.frag<col>>
  }
}

// -----

//===-- T38: sums over a cluster ------------------------------------------===//

!Sum = tensor<64x16xf32, #tile.frag<acc>>
!Half = tensor<64x8xf32, #tile.frag<acc>>
tile.kernel @k(%g: !tile.gmem<?x?xf32>) cluster(2) {
  %b = alloc : !tile.buf<64x16xf32>
  role @a warpgroups(1) {
    %f = read %g[0, 0] : !tile.gmem<?x?xf32> -> !Sum
    // expected-error @+1 {{T38: expected a buffer of 64x16 'f32' in the register order of an accumulator, got '!tile.buf<64x16xf32>'}}
    %s = cluster_sum %f via %b : !Sum, !tile.buf<64x16xf32> -> !Half
  }
}

// -----

!Sum = tensor<64x8xf32, #tile.frag<acc>>
tile.kernel @k(%g: !tile.gmem<?x?xf32>) cluster(4) {
  %b = alloc : !tile.buf<64x8xf32, frag<acc>>
  role @a warpgroups(1) {
    %f = read %g[0, 0] : !tile.gmem<?x?xf32> -> !Sum
    // expected-error @+1 {{T38: expected a buffer of 64x32 'f32' in the register order of an accumulator, got '!tile.buf<64x8xf32, frag<acc>>'}}
    %s = cluster_sum %f via %b : !Sum, !tile.buf<64x8xf32, frag<acc>> -> !Sum
  }
}

// -----

!Sum = tensor<64x16xf32, #tile.frag<acc>>
!Half = tensor<64x8xf32, #tile.frag<acc>>
!B = !tile.buf<64x16xf32, frag<acc>>
tile.kernel @k(%g: !tile.gmem<?x?xf32>) cluster(2) {
  %b = alloc : !B
  role @a warpgroups(1) {
    %f = read %g[0, 0] : !tile.gmem<?x?xf32> -> !Sum
    // expected-error @+1 {{T38: expected a buffer of its own: another sum may still be read when this one arrives}}
    %s = cluster_sum %f via %b : !Sum, !B -> !Half
    %t = cluster_sum %f via %b : !Sum, !B -> !Half
  }
}

// -----

!Sum = tensor<64x16xf32, #tile.frag<acc>>
!Half = tensor<64x8xf32, #tile.frag<acc>>
func.func @f(%f: !Sum, %b: !tile.buf<64x16xf32, frag<acc>>) {
  // expected-error @+1 {{T38: expected a kernel with a cluster of 2 or more, got 1}}
  %s = tile.cluster_sum %f via %b : !Sum, !tile.buf<64x16xf32, frag<acc>> -> !Half
  return
}

// -----

!Sum = tensor<64x24xf32, #tile.frag<acc>>
!Half = tensor<64x8xf32, #tile.frag<acc>>
tile.kernel @k(%g: !tile.gmem<?x?xf32>) cluster(2) {
  %b = alloc : !tile.buf<64x24xf32, frag<acc>>
  role @a warpgroups(1) {
    %f = read %g[0, 0] : !tile.gmem<?x?xf32> -> !Sum
    // expected-error @+1 {{T38: expected columns for 2 blocks that cover 24, got 8}}
    %s = cluster_sum %f via %b : !Sum, !tile.buf<64x24xf32, frag<acc>> -> !Half
  }
}

// -----

// Two encodings do not meet in one operation; this check is upstream's.
func.func @f(%a: tensor<64x8xf32, #tile.frag<acc>>) {
  // expected-error @+1 {{cast incompatible}}
  %b = arith.truncf %a : tensor<64x8xf32, #tile.frag<acc>> to tensor<64x8xbf16>
  return
}
