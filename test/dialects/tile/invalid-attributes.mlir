// What types and attributes of the tile dialect refuse.
// RUN: dsv3-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{expected auto, linear, pad, sw32, sw64, sw128, swizzle or frag, got 'sw256'}}
func.func private @f(!tile.buf<64x64xbf16, sw256>)

// -----

// expected-error @+1 {{expected rows of a multiple of 128 bytes for sw128, got 64}}
func.func private @f(!tile.buf<64x32xbf16, sw128>)

// -----

// expected-error @+1 {{expected a multiple of 8 rows for sw64, got 12}}
func.func private @f(!tile.buf<12x64xbf16, sw64>)

// -----

// expected-error @+1 {{expected a pad of a multiple of 4 bytes, got 6}}
func.func private @f(!tile.buf<8x8xf32, pad<6>>)

// -----

// expected-error @+1 {{expected swizzle<B, M, S> with 1 <= B <= S and B + M + S <= 12, got <4, 4, 3>}}
func.func private @f(!tile.buf<8x8xf32, swizzle<4, 4, 3>>)

// -----

// expected-error @+1 {{expected 64 rows for opA4, got 32}}
func.func private @f(!tile.buf<32x64xi4, frag<opA4>>)

// -----

// expected-error @+1 {{expected elements of 4 to 32 bits, got 'f64'}}
func.func private @f(!tile.buf<8x8xf64>)

// -----

// expected-error @+1 {{expected acc, opA, opA4, opA4t, acc4, row, col, quad or lin, got 'opB'}}
func.func private @f(tensor<64x64xf32, #tile.frag<opB>>)

// -----

// expected-error @+1 {{expected a multiple of 8 columns for acc, got 12}}
func.func private @f(tensor<64x12xf32, #tile.frag<acc>>)

// -----

// expected-error @+1 {{expected 8-bit elements for opA, got 16}}
func.func private @f(tensor<64x32xbf16, #tile.frag<opA>>)

// -----

// expected-error @+1 {{expected a static shape for a fragment}}
func.func private @f(tensor<64x?xf32, #tile.frag<acc>>)

// -----

// expected-error @+1 {{T24: expected an accumulator of 64 rows and a multiple of 8 columns up to 256, got 64x264}}
func.func private @f(!tile.acc<64x264xf32>)

// -----

// expected-error @+1 {{T24: expected an accumulator of f32 or i32, got 'bf16'}}
func.func private @f(!tile.acc<64x64xbf16>)

// -----

//===-- tma (T17) ---------------------------------------------------------===//

// expected-error @+1 {{T17: expected a tensor of 1 to 5 dims and a box of as many, got 2 and 1}}
func.func private @f(!tile.tma<?x?xbf16, box 64, sw128>)

// -----

// expected-error @+1 {{T17: expected box dims of 1 to 256}}
func.func private @f(!tile.tma<?x?xbf16, box 512x64, sw128>)

// -----

// expected-error @+1 {{T17: expected a box whose inner dim is a multiple of 16 bytes, got 8}}
func.func private @f(!tile.tma<?xbf16, box 4>)

// -----

// expected-error @+1 {{T17: expected a box whose inner dim is at most the swizzle's 128 bytes, got 256}}
func.func private @f(!tile.tma<?x?xbf16, box 64x128, sw128>)

// -----

// expected-error @+1 {{T17: expected linear, sw32, sw64 or sw128}}
func.func private @f(!tile.tma<?x?xbf16, box 64x64, pad<16>>)

// -----

//===-- ring (T11, T12) ---------------------------------------------------===//

// expected-error @+1 {{T11: expected 1 or more stages and lanes, got 0 and 1}}
#r = #tile.ring<stages = 0, bufs = [!tile.buf<8xf32>], free = [all by @a]>

// -----

// expected-error @+1 {{T11: expected one or more buffers of type !tile.buf}}
#r = #tile.ring<stages = 1, bufs = [f32], free = [all by @a]>

// -----

// expected-error @+1 {{T11: expected one buffer of a multiple of 48 columns for landed = cols(48)}}
#r = #tile.ring<stages = 1, bufs = [!tile.buf<64x64xbf16, sw128>], landed = cols(48), free = [all by @a]>

// -----

// expected-error @+1 {{T11: expected landed = all with fill = arrive(4)}}
#r = #tile.ring<stages = 1, bufs = [!tile.buf<8xf32>], landed = other, free = [all by @a], fill = arrive(4)>

// -----

// expected-error @+1 {{T12: expected one or more free groups}}
#r = #tile.ring<stages = 1, bufs = [!tile.buf<8xf32>]>

// -----

// expected-error @+1 {{T12: expected one group for all columns, got 2 groups}}
#r = #tile.ring<stages = 1, bufs = [!tile.buf<8xf32>], free = [all by @a, all by @b]>

// -----

// expected-error @+1 {{T12: expected one buffer in a ring whose columns are freed in groups, got 2}}
#r = #tile.ring<stages = 1, bufs = [!tile.buf<8xf32>, !tile.buf<8xf32>], free = [0:4 by @a, 4:8 by @b]>

// -----

// expected-error @+1 {{T12: expected groups that cover columns 0:128 once, got 64:128 behind column 96}}
#r = #tile.ring<stages = 1, bufs = [!tile.buf<64x128xbf16, sw128>], free = [0:96 by @a, 64:128 by @b]>

// -----

// expected-error @+1 {{T12: expected groups that cover columns 0:128, got 0:64}}
#r = #tile.ring<stages = 1, bufs = [!tile.buf<64x128xbf16, sw128>], free = [0:64 by @a]>

// -----

// expected-error @+1 {{T12: expected groups on multiples of 64 columns, got 0:32}}
#r = #tile.ring<stages = 1, bufs = [!tile.buf<64x128xbf16, sw128>], landed = cols(64), free = [0:32 by @a, 32:128 by @b]>

// -----

// expected-error @+1 {{expected stages, lanes, bufs, landed, free, fill or arrive, got 'depth'}}
#r = #tile.ring<depth = 1>
