// Targets round trip, and say what they refuse.
// RUN: dsv3-opt %s -split-input-file | FileCheck %s

// CHECK: module attributes {dsv3.target = #target.cpu<"x86-64", variants = ["avx2", "avx512"]>}
module attributes {dsv3.target = #target.cpu<"x86-64", variants = ["avx2", "avx512"]>} {
}

// -----

// CHECK: module attributes {dsv3.target = #target.gpu<"sm_90a", sm_count = 132, smem = 232448, has = ["tma", "wgmma"]>}
module attributes {dsv3.target = #target.gpu<"sm_90a", sm_count = 132, smem = 232448, has = ["tma", "wgmma"]>} {
}
