// The kernels of the dialect's tests have no conflicts.
// RUN: dsv3-opt %S/../../dialects/tile/gemm.mlir --dsv3-tile-analyze-conflicts | FileCheck %s --check-prefix=GEMM --implicit-check-not="tile.degree = {{[2-9]}}"
// RUN: dsv3-opt %S/../../dialects/tile/mla-decode.mlir --inline --dsv3-tile-analyze-conflicts | FileCheck %s --check-prefix=MLA --implicit-check-not="tile.degree = {{[2-9]}}"
// RUN: dsv3-opt %S/../../dialects/tile/w4a8.mlir --inline --dsv3-tile-analyze-conflicts | FileCheck %s --check-prefix=W4A8 --implicit-check-not="tile.degree = {{[2-9]}}"

// GEMM: copy {{.*}} {tile.degree = 1 : i32}
// GEMM: mma nt {{.*}} {tile.degree = 1 : i32}
// GEMM: store {{.*}} {tile.access = "stmatrix.x4", tile.degree = 1 : i32}
// GEMM: put {{.*}} {tile.degree = 1 : i32}

// MLA: tile.accesses = [{count = 2 : i64, degree = 1 : i64, instruction = "st.shared.v4", lost = 0 : i64, op = "zero"}
// MLA: zero {{.*}} {tile.access = "st.shared.v4", tile.degree = 1 : i32}
// MLA: store {{.*}} {tile.access = "stmatrix.x4", tile.degree = 1 : i32}
// MLA: store {{.*}} {tile.access = "st.shared", tile.degree = 1 : i32}
// MLA: mma nn {{.*}} {tile.degree = 1 : i32}

// W4A8: load {{.*}} {tile.access = "ld.shared.v4", tile.degree = 1 : i32}
