// RUN: dsv3-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{expected an architecture, got an empty string}}
module attributes {dsv3.target = #target.cpu<"", variants = ["avx2"]>} {
}

// -----

// expected-error @+2 {{expected attribute value}}
// expected-error @+1 {{failed to parse Target_CpuAttr parameter 'variants'}}
module attributes {dsv3.target = #target.cpu<"x86-64", variants = []>} {
}
