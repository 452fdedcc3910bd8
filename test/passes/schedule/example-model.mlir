// The plan of the example model: every program within 5% of its live set (else there is a warning).
// RUN: rm -rf %t && compile-model %source/examples/dsv3-tiny -o %t/none --cpu-features=avx2 --max-model-len=2048 --stop-after=tile --dump-after=tile --dump-dir=%t
// RUN: dsv3-opt %t/tile.mlir --dsv3-lower-to-rt --dsv3-verify-rt -o %t/schedule.mlir 2> %t/remarks
// RUN: FileCheck %s --input-file=%t/remarks --implicit-check-not=warning:
// CHECK: remark: arena of @prefill_t512: {{[1-9][0-9]*}} bytes, live set {{[1-9][0-9]*}} bytes
// CHECK: remark: arena of @decode_b1:
// CHECK: remark: arena of @decode_b8:
// CHECK: remark: arena of @score_t512:
// CHECK: remark: arena of @mtp_t512:
