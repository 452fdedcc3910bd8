// Targets round trip, and say what they refuse.
// RUN: dsv3-opt %s -split-input-file | FileCheck %s

// CHECK: module attributes {dsv3.target = #target.cpu<"x86-64", variants = ["avx2", "avx512"]>}
module attributes {dsv3.target = #target.cpu<"x86-64", variants = ["avx2", "avx512"]>} {
}
