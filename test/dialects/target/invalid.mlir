// RUN: dsv3-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{expected an architecture, got an empty string}}
module attributes {dsv3.target = #target.cpu<"", variants = ["avx2"]>} {
}

// -----

// expected-error @+2 {{expected attribute value}}
// expected-error @+1 {{failed to parse Target_CpuAttr parameter 'variants'}}
module attributes {dsv3.target = #target.cpu<"x86-64", variants = []>} {
}

// -----

// expected-error @+1 {{expected sm_count and smem of 1 or more, got 0 and 232448}}
module attributes {dsv3.target = #target.gpu<"sm_90a", sm_count = 0, smem = 232448, has = ["tma"]>} {
}

// -----

// expected-error @+1 {{expected capabilities out of tma, wgmma, setmaxnreg, cluster, fp8, got 'tensor'}}
module attributes {dsv3.target = #target.gpu<"sm_90a", sm_count = 132, smem = 232448, has = ["tensor"]>} {
}
