// What attributes of the kernel dialect refuse.
// RUN: dsv3-opt %s -split-input-file -verify-diagnostics

//===-- numerics ----------------------------------------------------------===//

// expected-error @+1 {{expected acc of float or i32, got 'i8'}}
#num = #kernel.numerics<acc = i8, mul = i8, chain = "k_ascending">

// -----

// expected-error @+1 {{expected chain k_ascending, k_blocksN, k_splitN, k_blocks128_splitN or lanesN with N above 1, got 'any'}}
#num = #kernel.numerics<acc = f32, mul = f32, chain = "any">

// -----

// expected-error @+1 {{expected chain k_ascending, k_blocksN, k_splitN, k_blocks128_splitN or lanesN with N above 1, got 'lanes1'}}
#num = #kernel.numerics<acc = f32, mul = f32, chain = "lanes1">

// -----

// expected-error @+1 {{expected keyBlock of 0 or more, got -1}}
#num = #kernel.numerics<acc = f32, mul = f32, chain = "lanes16", keyBlock = -1>

// -----

//===-- layout: the message names the character ---------------------------===//

// expected-error @+1 {{expected ']' at 13 in layout '(n, k) -> [n '}}
#lay = #kernel.layout<"(n, k) -> [n ">

// -----

// expected-error @+1 {{expected a dimension name at 11 in layout '(n, k) -> [m]'}}
#lay = #kernel.layout<"(n, k) -> [m]">

// -----

//===-- packed ------------------------------------------------------------===//

#lay = #kernel.layout<"(n, k) -> [n, k]">
// expected-error @+1 {{expected a tensor of rank 2 or more for layout '(n, k) -> [n, k]', got rank 1}}
func.func private @f(tensor<16xbf16, #kernel.packed<none, #lay>>)

// -----

#lay = #kernel.layout<"(n, k) -> [n, k]">
// expected-error @+1 {{expected a quantisation scheme, got #kernel.layout<"(n, k) -> [n, k]">}}
func.func private @f(tensor<16x16xbf16, #kernel.packed<#lay, #lay>>)

// -----

#lay = #kernel.layout<"(n, k) -> [n, k]">
// expected-error @+1 {{expected groups of neighbouring columns, which is what kernels read, got #dsv3.blocked<i4, 1x8, f16, zero i8, indexed>}}
func.func private @f(tensor<16x16xbf16, #kernel.packed<#dsv3.blocked<i4, 1x8, f16, zero i8, indexed>, #lay, scale = #lay>>)

// -----

#lay = #kernel.layout<"(n, k) -> [n, k]">
// expected-error @+1 {{expected a scale layout exactly when there is a scheme}}
func.func private @f(tensor<16x16xbf16, #kernel.packed<#dsv3.blocked<f8E4M3FN, 128x128, f32>, #lay>>)

// -----

#lay = #kernel.layout<"(n, k) -> [n, k]">
// expected-error @+1 {{expected a scale layout exactly when there is a scheme}}
func.func private @f(tensor<16x16xbf16, #kernel.packed<none, #lay, scale = #lay>>)

// -----

//===-- split -------------------------------------------------------------===//

// expected-error @+1 {{expected max of 0 or of 2 or more and pages of 1 or more, got 1 and 4}}
#split = #kernel.split<max = 1, pages = 4>

// -----

// expected-error @+1 {{expected max of 0 or of 2 or more and pages of 1 or more, got 8 and 0}}
#split = #kernel.split<max = 8, pages = 0>

// -----

// expected-error @+1 {{expected an even split with pages of at most 14, got 15}}
#split = #kernel.split<max = 0, pages = 15>
