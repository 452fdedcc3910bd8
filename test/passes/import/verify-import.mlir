// What the front end must deliver: programs, sites of their own, a threaded cache, a ledger without contradictions.
// RUN: dsv3-opt %s --dsv3-verify-stage="stage=import" -split-input-file -verify-diagnostics
// RUN: dsv3-opt %inputs/model.mlir --dsv3-stage-import | FileCheck %s
// RUN: not dsv3-opt %inputs/model.mlir --dsv3-verify-stage="stage=boil" 2>&1 | FileCheck %s --check-prefix=STAGE

// CHECK: dsv3.program @trunk
// STAGE: error: expected the name of a stage, got 'boil'

// expected-error @+1 {{expected a program @trunk after import, got none}}
module {
}

// -----

dsv3.program @trunk() {
  dsv3.return
}
// expected-error @+1 {{'dsv3.program' op expected no phase before specialize, got 'decode'}}
dsv3.program @head() attributes {phase = "decode", tokens = 1 : i64, seqs = 1 : i64} {
  dsv3.return
}

// -----

dsv3.program @trunk(%x: tensor<?x8xbf16>) {
  %a = dsv3.add %x, %x site "l0.out" : tensor<?x8xbf16>, tensor<?x8xbf16> -> tensor<?x8xbf16>
  dsv3.return
}
dsv3.program @head(%x: tensor<?x8xbf16>) {
  // expected-error @+1 {{'dsv3.add' op expected a site of its own, got 'l0.out' a second time}}
  %a = dsv3.add %x, %x site "l0.out" : tensor<?x8xbf16>, tensor<?x8xbf16> -> tensor<?x8xbf16>
  dsv3.return
}

// -----

// expected-error @+1 {{expected tensor 'a' to be read or ignored, got both: weight @w reads it and it is ignored (unknown)}}
module {
  dsv3.weight @w : tensor<8xbf16> from #dsv3.file<"a">
  dsv3.ignored "a" reason "unknown"
  dsv3.program @trunk() {
    dsv3.return
  }
  dsv3.program @head() {
    dsv3.return
  }
}

// -----

//===-- The cache handle --------------------------------------------------===//

!kv = !dsv3.kv<layers = 2, page = 64, latent = 8, rope = 8, bf16>
dsv3.program @head() {
  dsv3.return
}
dsv3.program @trunk(%c: tensor<?x8xbf16>, %seq: !dsv3.seq, %kv: !kv) -> !kv {
  %kv1 = dsv3.kv_append %kv[0] latent(%c) rope(%c), %seq site "l0.append" : tensor<?x8xbf16>, tensor<?x8xbf16>, !kv
  // expected-error @+1 {{'dsv3.kv_append' op expected the newest cache handle, got an older one}}
  %kv2 = dsv3.kv_append %kv[1] latent(%c) rope(%c), %seq site "l1.append" : tensor<?x8xbf16>, tensor<?x8xbf16>, !kv
  dsv3.return %kv2 : !kv
}

// -----

!kv = !dsv3.kv<layers = 2, page = 64, latent = 8, rope = 8, bf16>
dsv3.program @head() {
  dsv3.return
}
dsv3.program @trunk(%c: tensor<?x8xbf16>, %seq: !dsv3.seq, %kv: !kv) -> !kv {
  %kv1 = dsv3.kv_append %kv[0] latent(%c) rope(%c), %seq site "l0.append" : tensor<?x8xbf16>, tensor<?x8xbf16>, !kv
  // expected-error @+1 {{'dsv3.kv_append' op expected one kv_append to layer 0, got a second one}}
  %kv2 = dsv3.kv_append %kv1[0] latent(%c) rope(%c), %seq site "l1.append" : tensor<?x8xbf16>, tensor<?x8xbf16>, !kv
  dsv3.return %kv2 : !kv
}

// -----

!kv = !dsv3.kv<layers = 2, page = 64, latent = 8, rope = 8, bf16>
dsv3.program @head() {
  dsv3.return
}
dsv3.program @trunk(%q: tensor<?x2x16xbf16>, %w: tensor<32x8xbf16>, %seq: !dsv3.seq, %kv: !kv) -> !kv {
  // expected-error @+1 {{'dsv3.mla_attention' op expected a kv_append to layer 1 before its readers}}
  %y = dsv3.mla_attention %q, %kv[1], %w, %seq scale 0.25 site "l1.attn" : tensor<?x2x16xbf16>, !kv, tensor<32x8xbf16> -> tensor<?x2x8xbf16>
  dsv3.return %kv : !kv
}

// -----

!kv = !dsv3.kv<layers = 2, page = 64, latent = 8, rope = 8, bf16>
dsv3.program @head() {
  dsv3.return
}
// expected-error @+1 {{'dsv3.program' op expected the newest cache handle to be returned, got an older one}}
dsv3.program @trunk(%c: tensor<?x8xbf16>, %seq: !dsv3.seq, %kv: !kv) -> !kv {
  %kv1 = dsv3.kv_append %kv[0] latent(%c) rope(%c), %seq site "l0.append" : tensor<?x8xbf16>, tensor<?x8xbf16>, !kv
  dsv3.return %kv : !kv
}

// -----

!kv = !dsv3.kv<layers = 2, page = 64, latent = 8, rope = 8, bf16>
dsv3.program @head() {
  dsv3.return
}
// expected-error @+1 {{'dsv3.program' op expected one cache handle among the arguments, got two}}
dsv3.program @trunk(%a: !kv, %b: !kv) -> !kv {
  dsv3.return %a : !kv
}
