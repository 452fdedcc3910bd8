// What import delivers, for a model of one dense, one routed and one MTP layer with FP8 block weights.
#fp8b = #dsv3.blocked<f8E4M3FN, 128x128, f32>
#rope = #dsv3.rope<dims = 64, theta = 10000.0, interleaved = true>
!kv = !dsv3.kv<layers = 3, page = 64, latent = 128, rope = 64, bf16>

dsv3.weight @embed : tensor<512x256xbf16> from #dsv3.file<"embed.weight">
dsv3.weight @l0.input_norm : tensor<256xbf16> from #dsv3.file<"l0.input_norm.weight">
dsv3.weight @l0.q_a : tensor<128x256xbf16, #fp8b> from #dsv3.file<"l0.q_a.weight", scale "l0.q_a.weight_scale_inv">
dsv3.weight @l0.q_a_norm : tensor<128xbf16> from #dsv3.file<"l0.q_a_norm.weight">
dsv3.weight @l0.q_b : tensor<384x128xbf16, #fp8b> from #dsv3.file<"l0.q_b.weight", scale "l0.q_b.weight_scale_inv">
dsv3.weight @l0.kv_a : tensor<192x256xbf16, #fp8b> from #dsv3.file<"l0.kv_a.weight", scale "l0.kv_a.weight_scale_inv">
dsv3.weight @l0.kv_a_norm : tensor<128xbf16> from #dsv3.file<"l0.kv_a_norm.weight">
dsv3.weight @l0.kv_b : tensor<512x128xbf16, #fp8b> from #dsv3.file<"l0.kv_b.weight", scale "l0.kv_b.weight_scale_inv">
dsv3.weight @l0.o : tensor<256x256xbf16, #fp8b> from #dsv3.file<"l0.o.weight", scale "l0.o.weight_scale_inv">
dsv3.weight @l0.post_norm : tensor<256xbf16> from #dsv3.file<"l0.post_norm.weight">
dsv3.weight @l0.gate : tensor<256x256xbf16, #fp8b> from #dsv3.file<"l0.gate.weight", scale "l0.gate.weight_scale_inv">
dsv3.weight @l0.up : tensor<256x256xbf16, #fp8b> from #dsv3.file<"l0.up.weight", scale "l0.up.weight_scale_inv">
dsv3.weight @l0.down : tensor<256x256xbf16, #fp8b> from #dsv3.file<"l0.down.weight", scale "l0.down.weight_scale_inv">
dsv3.weight @l1.input_norm : tensor<256xbf16> from #dsv3.file<"l1.input_norm.weight">
dsv3.weight @l1.q_a : tensor<128x256xbf16, #fp8b> from #dsv3.file<"l1.q_a.weight", scale "l1.q_a.weight_scale_inv">
dsv3.weight @l1.q_a_norm : tensor<128xbf16> from #dsv3.file<"l1.q_a_norm.weight">
dsv3.weight @l1.q_b : tensor<384x128xbf16, #fp8b> from #dsv3.file<"l1.q_b.weight", scale "l1.q_b.weight_scale_inv">
dsv3.weight @l1.kv_a : tensor<192x256xbf16, #fp8b> from #dsv3.file<"l1.kv_a.weight", scale "l1.kv_a.weight_scale_inv">
dsv3.weight @l1.kv_a_norm : tensor<128xbf16> from #dsv3.file<"l1.kv_a_norm.weight">
dsv3.weight @l1.kv_b : tensor<512x128xbf16, #fp8b> from #dsv3.file<"l1.kv_b.weight", scale "l1.kv_b.weight_scale_inv">
dsv3.weight @l1.o : tensor<256x256xbf16, #fp8b> from #dsv3.file<"l1.o.weight", scale "l1.o.weight_scale_inv">
dsv3.weight @l1.post_norm : tensor<256xbf16> from #dsv3.file<"l1.post_norm.weight">
dsv3.weight @l1.router : tensor<8x256xbf16> from #dsv3.file<"l1.router.weight">
dsv3.weight @l1.bias : tensor<8xf32> from #dsv3.file<"l1.bias.weight">
dsv3.weight @l1.gate : tensor<8x128x256xbf16, #fp8b> from #dsv3.stack<0 to 8, #dsv3.file<"l1.experts.{}.gate.weight", scale "l1.experts.{}.gate.weight_scale_inv">>
dsv3.weight @l1.up : tensor<8x128x256xbf16, #fp8b> from #dsv3.stack<0 to 8, #dsv3.file<"l1.experts.{}.up.weight", scale "l1.experts.{}.up.weight_scale_inv">>
dsv3.weight @l1.down : tensor<8x256x128xbf16, #fp8b> from #dsv3.stack<0 to 8, #dsv3.file<"l1.experts.{}.down.weight", scale "l1.experts.{}.down.weight_scale_inv">>
dsv3.weight @l1.shared.gate : tensor<256x256xbf16, #fp8b> from #dsv3.file<"l1.shared.gate.weight", scale "l1.shared.gate.weight_scale_inv">
dsv3.weight @l1.shared.up : tensor<256x256xbf16, #fp8b> from #dsv3.file<"l1.shared.up.weight", scale "l1.shared.up.weight_scale_inv">
dsv3.weight @l1.shared.down : tensor<256x256xbf16, #fp8b> from #dsv3.file<"l1.shared.down.weight", scale "l1.shared.down.weight_scale_inv">
dsv3.weight @final_norm : tensor<256xbf16> from #dsv3.file<"final_norm.weight">
dsv3.weight @lm_head : tensor<512x256xbf16> from #dsv3.file<"lm_head.weight">
dsv3.weight @mtp.enorm : tensor<256xbf16> from #dsv3.file<"mtp.enorm.weight">
dsv3.weight @mtp.hnorm : tensor<256xbf16> from #dsv3.file<"mtp.hnorm.weight">
dsv3.weight @mtp.eh_proj : tensor<256x512xbf16> from #dsv3.file<"mtp.eh_proj.weight">
dsv3.weight @l2.input_norm : tensor<256xbf16> from #dsv3.file<"l2.input_norm.weight">
dsv3.weight @l2.q_a : tensor<128x256xbf16, #fp8b> from #dsv3.file<"l2.q_a.weight", scale "l2.q_a.weight_scale_inv">
dsv3.weight @l2.q_a_norm : tensor<128xbf16> from #dsv3.file<"l2.q_a_norm.weight">
dsv3.weight @l2.q_b : tensor<384x128xbf16, #fp8b> from #dsv3.file<"l2.q_b.weight", scale "l2.q_b.weight_scale_inv">
dsv3.weight @l2.kv_a : tensor<192x256xbf16, #fp8b> from #dsv3.file<"l2.kv_a.weight", scale "l2.kv_a.weight_scale_inv">
dsv3.weight @l2.kv_a_norm : tensor<128xbf16> from #dsv3.file<"l2.kv_a_norm.weight">
dsv3.weight @l2.kv_b : tensor<512x128xbf16, #fp8b> from #dsv3.file<"l2.kv_b.weight", scale "l2.kv_b.weight_scale_inv">
dsv3.weight @l2.o : tensor<256x256xbf16, #fp8b> from #dsv3.file<"l2.o.weight", scale "l2.o.weight_scale_inv">
dsv3.weight @l2.post_norm : tensor<256xbf16> from #dsv3.file<"l2.post_norm.weight">
dsv3.weight @l2.gate : tensor<256x256xbf16, #fp8b> from #dsv3.file<"l2.gate.weight", scale "l2.gate.weight_scale_inv">
dsv3.weight @l2.up : tensor<256x256xbf16, #fp8b> from #dsv3.file<"l2.up.weight", scale "l2.up.weight_scale_inv">
dsv3.weight @l2.mlp : tensor<256x256xbf16, #fp8b> from #dsv3.file<"l2.mlp.weight", scale "l2.mlp.weight_scale_inv">
dsv3.weight @mtp.final_norm : tensor<256xbf16> from #dsv3.file<"mtp.final_norm.weight">

dsv3.program @trunk(%ids: tensor<?xi32> {dsv3.name = "ids"}, %seq: !dsv3.seq, %kv: !kv) -> (tensor<?x256xbf16>, !kv) {
  %w_embed = dsv3.use @embed : tensor<512x256xbf16>
  %x = dsv3.embed %ids, %w_embed site "embed" : tensor<?xi32>, tensor<512x256xbf16> -> tensor<?x256xbf16>
  %w_l0_input_norm = dsv3.use @l0.input_norm : tensor<256xbf16>
  %l0_n = dsv3.rms_norm %x, %w_l0_input_norm eps 1.0e-06 site "l0.input_norm" : tensor<?x256xbf16>, tensor<256xbf16> -> tensor<?x256xbf16>
  %w_l0_q_a = dsv3.use @l0.q_a : tensor<128x256xbf16, #fp8b>
  %l0_qa = dsv3.linear %l0_n, %w_l0_q_a site "l0.q_a" : tensor<?x256xbf16>, tensor<128x256xbf16, #fp8b> -> tensor<?x128xbf16>
  %w_l0_q_a_norm = dsv3.use @l0.q_a_norm : tensor<128xbf16>
  %l0_qn = dsv3.rms_norm %l0_qa, %w_l0_q_a_norm eps 1.0e-06 site "l0.q_a_norm" : tensor<?x128xbf16>, tensor<128xbf16> -> tensor<?x128xbf16>
  %w_l0_q_b = dsv3.use @l0.q_b : tensor<384x128xbf16, #fp8b>
  %l0_q0 = dsv3.linear %l0_qn, %w_l0_q_b site "l0.q_b" : tensor<?x128xbf16>, tensor<384x128xbf16, #fp8b> -> tensor<?x2x192xbf16>
  %l0_q = dsv3.rope %l0_q0, %seq at 128 #rope site "l0.q_rope" : tensor<?x2x192xbf16> -> tensor<?x2x192xbf16>
  %w_l0_kv_a = dsv3.use @l0.kv_a : tensor<192x256xbf16, #fp8b>
  %l0_ka = dsv3.linear %l0_n, %w_l0_kv_a site "l0.kv_a" : tensor<?x256xbf16>, tensor<192x256xbf16, #fp8b> -> tensor<?x192xbf16>
  %l0_c0, %l0_r0 = dsv3.split %l0_ka : tensor<?x192xbf16> -> tensor<?x128xbf16>, tensor<?x64xbf16>
  %w_l0_kv_a_norm = dsv3.use @l0.kv_a_norm : tensor<128xbf16>
  %l0_c = dsv3.rms_norm %l0_c0, %w_l0_kv_a_norm eps 1.0e-06 site "l0.kv_a_norm" : tensor<?x128xbf16>, tensor<128xbf16> -> tensor<?x128xbf16>
  %l0_r = dsv3.rope %l0_r0, %seq at 0 #rope site "l0.k_rope" : tensor<?x64xbf16> -> tensor<?x64xbf16>
  %l0_kv = dsv3.kv_append %kv[0] latent(%l0_c) rope(%l0_r), %seq site "l0.append" : tensor<?x128xbf16>, tensor<?x64xbf16>, !kv
  %w_l0_kv_b = dsv3.use @l0.kv_b : tensor<512x128xbf16, #fp8b>
  %l0_y = dsv3.mla_attention %l0_q, %l0_kv[0], %w_l0_kv_b, %seq scale 0.072168784 site "l0.attn" : tensor<?x2x192xbf16>, !kv, tensor<512x128xbf16, #fp8b> -> tensor<?x2x128xbf16>
  %w_l0_o = dsv3.use @l0.o : tensor<256x256xbf16, #fp8b>
  %l0_ao = dsv3.linear %l0_y, %w_l0_o site "l0.o" : tensor<?x2x128xbf16>, tensor<256x256xbf16, #fp8b> -> tensor<?x256xbf16>
  %l0_x1 = dsv3.add %x, %l0_ao site "l0.mid" : tensor<?x256xbf16>, tensor<?x256xbf16> -> tensor<?x256xbf16>
  %w_l0_post_norm = dsv3.use @l0.post_norm : tensor<256xbf16>
  %l0_n1 = dsv3.rms_norm %l0_x1, %w_l0_post_norm eps 1.0e-06 site "l0.post_norm" : tensor<?x256xbf16>, tensor<256xbf16> -> tensor<?x256xbf16>
  %w_l0_gate = dsv3.use @l0.gate : tensor<256x256xbf16, #fp8b>
  %l0_gm = dsv3.linear %l0_n1, %w_l0_gate site "l0.gate" : tensor<?x256xbf16>, tensor<256x256xbf16, #fp8b> -> tensor<?x256xf32>
  %w_l0_up = dsv3.use @l0.up : tensor<256x256xbf16, #fp8b>
  %l0_um = dsv3.linear %l0_n1, %w_l0_up site "l0.up" : tensor<?x256xbf16>, tensor<256x256xbf16, #fp8b> -> tensor<?x256xf32>
  %l0_am = dsv3.swiglu %l0_gm, %l0_um site "l0.act" : tensor<?x256xf32>, tensor<?x256xf32> -> tensor<?x256xbf16>
  %w_l0_mlp = dsv3.use @l0.down : tensor<256x256xbf16, #fp8b>
  %l0_m = dsv3.linear %l0_am, %w_l0_mlp site "l0.mlp" : tensor<?x256xbf16>, tensor<256x256xbf16, #fp8b> -> tensor<?x256xbf16>
  %l0_x2 = dsv3.add %l0_x1, %l0_m site "l0.out" : tensor<?x256xbf16>, tensor<?x256xbf16> -> tensor<?x256xbf16>
  %w_l1_input_norm = dsv3.use @l1.input_norm : tensor<256xbf16>
  %l1_n = dsv3.rms_norm %l0_x2, %w_l1_input_norm eps 1.0e-06 site "l1.input_norm" : tensor<?x256xbf16>, tensor<256xbf16> -> tensor<?x256xbf16>
  %w_l1_q_a = dsv3.use @l1.q_a : tensor<128x256xbf16, #fp8b>
  %l1_qa = dsv3.linear %l1_n, %w_l1_q_a site "l1.q_a" : tensor<?x256xbf16>, tensor<128x256xbf16, #fp8b> -> tensor<?x128xbf16>
  %w_l1_q_a_norm = dsv3.use @l1.q_a_norm : tensor<128xbf16>
  %l1_qn = dsv3.rms_norm %l1_qa, %w_l1_q_a_norm eps 1.0e-06 site "l1.q_a_norm" : tensor<?x128xbf16>, tensor<128xbf16> -> tensor<?x128xbf16>
  %w_l1_q_b = dsv3.use @l1.q_b : tensor<384x128xbf16, #fp8b>
  %l1_q0 = dsv3.linear %l1_qn, %w_l1_q_b site "l1.q_b" : tensor<?x128xbf16>, tensor<384x128xbf16, #fp8b> -> tensor<?x2x192xbf16>
  %l1_q = dsv3.rope %l1_q0, %seq at 128 #rope site "l1.q_rope" : tensor<?x2x192xbf16> -> tensor<?x2x192xbf16>
  %w_l1_kv_a = dsv3.use @l1.kv_a : tensor<192x256xbf16, #fp8b>
  %l1_ka = dsv3.linear %l1_n, %w_l1_kv_a site "l1.kv_a" : tensor<?x256xbf16>, tensor<192x256xbf16, #fp8b> -> tensor<?x192xbf16>
  %l1_c0, %l1_r0 = dsv3.split %l1_ka : tensor<?x192xbf16> -> tensor<?x128xbf16>, tensor<?x64xbf16>
  %w_l1_kv_a_norm = dsv3.use @l1.kv_a_norm : tensor<128xbf16>
  %l1_c = dsv3.rms_norm %l1_c0, %w_l1_kv_a_norm eps 1.0e-06 site "l1.kv_a_norm" : tensor<?x128xbf16>, tensor<128xbf16> -> tensor<?x128xbf16>
  %l1_r = dsv3.rope %l1_r0, %seq at 0 #rope site "l1.k_rope" : tensor<?x64xbf16> -> tensor<?x64xbf16>
  %l1_kv = dsv3.kv_append %l0_kv[1] latent(%l1_c) rope(%l1_r), %seq site "l1.append" : tensor<?x128xbf16>, tensor<?x64xbf16>, !kv
  %w_l1_kv_b = dsv3.use @l1.kv_b : tensor<512x128xbf16, #fp8b>
  %l1_y = dsv3.mla_attention %l1_q, %l1_kv[1], %w_l1_kv_b, %seq scale 0.072168784 site "l1.attn" : tensor<?x2x192xbf16>, !kv, tensor<512x128xbf16, #fp8b> -> tensor<?x2x128xbf16>
  %w_l1_o = dsv3.use @l1.o : tensor<256x256xbf16, #fp8b>
  %l1_ao = dsv3.linear %l1_y, %w_l1_o site "l1.o" : tensor<?x2x128xbf16>, tensor<256x256xbf16, #fp8b> -> tensor<?x256xbf16>
  %l1_x1 = dsv3.add %l0_x2, %l1_ao site "l1.mid" : tensor<?x256xbf16>, tensor<?x256xbf16> -> tensor<?x256xbf16>
  %w_l1_post_norm = dsv3.use @l1.post_norm : tensor<256xbf16>
  %l1_n1 = dsv3.rms_norm %l1_x1, %w_l1_post_norm eps 1.0e-06 site "l1.post_norm" : tensor<?x256xbf16>, tensor<256xbf16> -> tensor<?x256xbf16>
  %w_l1_router = dsv3.use @l1.router : tensor<8x256xbf16>
  %l1_lg = dsv3.linear %l1_n1, %w_l1_router site "l1.router" : tensor<?x256xbf16>, tensor<8x256xbf16> -> tensor<?x8xf32>
  %w_l1_bias = dsv3.use @l1.bias : tensor<8xf32>
  %l1_id, %l1_wt = dsv3.route %l1_lg, %w_l1_bias groups 2 keep 1 top 2 norm true scale 2.5 site "l1.route" : tensor<?x8xf32>, tensor<8xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
  %l1_xr, %l1_off, %l1_row = dsv3.dispatch %l1_n1, %l1_id experts 8 site "l1.dispatch" : tensor<?x256xbf16>, tensor<?x2xi32> -> tensor<?x256xbf16>, tensor<9xi32>, tensor<?x2xi32>
  %w_l1_gate = dsv3.use @l1.gate : tensor<8x128x256xbf16, #fp8b>
  %l1_g = dsv3.grouped_linear %l1_xr, %w_l1_gate, %l1_off site "l1.gate" : tensor<?x256xbf16>, tensor<8x128x256xbf16, #fp8b>, tensor<9xi32> -> tensor<?x128xf32>
  %w_l1_up = dsv3.use @l1.up : tensor<8x128x256xbf16, #fp8b>
  %l1_u = dsv3.grouped_linear %l1_xr, %w_l1_up, %l1_off site "l1.up" : tensor<?x256xbf16>, tensor<8x128x256xbf16, #fp8b>, tensor<9xi32> -> tensor<?x128xf32>
  %l1_hh = dsv3.swiglu %l1_g, %l1_u site "l1.act" : tensor<?x128xf32>, tensor<?x128xf32> -> tensor<?x128xbf16>
  %w_l1_down = dsv3.use @l1.down : tensor<8x256x128xbf16, #fp8b>
  %l1_d = dsv3.grouped_linear %l1_hh, %w_l1_down, %l1_off site "l1.down" : tensor<?x128xbf16>, tensor<8x256x128xbf16, #fp8b>, tensor<9xi32> -> tensor<?x256xbf16>
  %w_l1_shared_gate = dsv3.use @l1.shared.gate : tensor<256x256xbf16, #fp8b>
  %l1_gsh = dsv3.linear %l1_n1, %w_l1_shared_gate site "l1.shared.gate" : tensor<?x256xbf16>, tensor<256x256xbf16, #fp8b> -> tensor<?x256xf32>
  %w_l1_shared_up = dsv3.use @l1.shared.up : tensor<256x256xbf16, #fp8b>
  %l1_ush = dsv3.linear %l1_n1, %w_l1_shared_up site "l1.shared.up" : tensor<?x256xbf16>, tensor<256x256xbf16, #fp8b> -> tensor<?x256xf32>
  %l1_ash = dsv3.swiglu %l1_gsh, %l1_ush site "l1.shared.act" : tensor<?x256xf32>, tensor<?x256xf32> -> tensor<?x256xbf16>
  %w_l1_shared_down = dsv3.use @l1.shared.down : tensor<256x256xbf16, #fp8b>
  %l1_sh = dsv3.linear %l1_ash, %w_l1_shared_down site "l1.shared.down" : tensor<?x256xbf16>, tensor<256x256xbf16, #fp8b> -> tensor<?x256xbf16>
  %l1_m = dsv3.combine %l1_d, %l1_row, %l1_wt plus(%l1_sh : tensor<?x256xbf16>) site "l1.mlp" : tensor<?x256xbf16>, tensor<?x2xi32>, tensor<?x2xf32> -> tensor<?x256xbf16>
  %l1_x2 = dsv3.add %l1_x1, %l1_m site "l1.out" : tensor<?x256xbf16>, tensor<?x256xbf16> -> tensor<?x256xbf16>
  %w_final_norm = dsv3.use @final_norm : tensor<256xbf16>
  %hidden = dsv3.rms_norm %l1_x2, %w_final_norm eps 1.0e-06 site "final_norm" : tensor<?x256xbf16>, tensor<256xbf16> -> tensor<?x256xbf16>
  dsv3.return %hidden, %l1_kv : tensor<?x256xbf16>, !kv
}

dsv3.program @head(%hidden: tensor<?x256xbf16>) -> tensor<?x512xf32> {
  %w_lm_head = dsv3.use @lm_head : tensor<512x256xbf16>
  %logits = dsv3.linear %hidden, %w_lm_head site "head" : tensor<?x256xbf16>, tensor<512x256xbf16> -> tensor<?x512xf32>
  dsv3.return %logits : tensor<?x512xf32>
}

dsv3.program @mtp(%next_ids: tensor<?xi32> {dsv3.name = "next_ids"}, %hidden: tensor<?x256xbf16> {dsv3.name = "hidden"}, %seq: !dsv3.seq, %kv: !kv) -> (tensor<?x512xf32>, !kv) {
  %w_embed = dsv3.use @embed : tensor<512x256xbf16>
  %e = dsv3.embed %next_ids, %w_embed site "mtp.embed" : tensor<?xi32>, tensor<512x256xbf16> -> tensor<?x256xbf16>
  %w_mtp_enorm = dsv3.use @mtp.enorm : tensor<256xbf16>
  %en = dsv3.rms_norm %e, %w_mtp_enorm eps 1.0e-06 site "mtp.enorm" : tensor<?x256xbf16>, tensor<256xbf16> -> tensor<?x256xbf16>
  %w_mtp_hnorm = dsv3.use @mtp.hnorm : tensor<256xbf16>
  %hn = dsv3.rms_norm %hidden, %w_mtp_hnorm eps 1.0e-06 site "mtp.hnorm" : tensor<?x256xbf16>, tensor<256xbf16> -> tensor<?x256xbf16>
  %eh = dsv3.concat %en, %hn site "mtp.concat" : tensor<?x256xbf16>, tensor<?x256xbf16> -> tensor<?x512xbf16>
  %w_mtp_eh_proj = dsv3.use @mtp.eh_proj : tensor<256x512xbf16>
  %x = dsv3.linear %eh, %w_mtp_eh_proj site "mtp.eh_proj" : tensor<?x512xbf16>, tensor<256x512xbf16> -> tensor<?x256xbf16>
  %w_l2_input_norm = dsv3.use @l2.input_norm : tensor<256xbf16>
  %l2_n = dsv3.rms_norm %x, %w_l2_input_norm eps 1.0e-06 site "l2.input_norm" : tensor<?x256xbf16>, tensor<256xbf16> -> tensor<?x256xbf16>
  %w_l2_q_a = dsv3.use @l2.q_a : tensor<128x256xbf16, #fp8b>
  %l2_qa = dsv3.linear %l2_n, %w_l2_q_a site "l2.q_a" : tensor<?x256xbf16>, tensor<128x256xbf16, #fp8b> -> tensor<?x128xbf16>
  %w_l2_q_a_norm = dsv3.use @l2.q_a_norm : tensor<128xbf16>
  %l2_qn = dsv3.rms_norm %l2_qa, %w_l2_q_a_norm eps 1.0e-06 site "l2.q_a_norm" : tensor<?x128xbf16>, tensor<128xbf16> -> tensor<?x128xbf16>
  %w_l2_q_b = dsv3.use @l2.q_b : tensor<384x128xbf16, #fp8b>
  %l2_q0 = dsv3.linear %l2_qn, %w_l2_q_b site "l2.q_b" : tensor<?x128xbf16>, tensor<384x128xbf16, #fp8b> -> tensor<?x2x192xbf16>
  %l2_q = dsv3.rope %l2_q0, %seq at 128 #rope site "l2.q_rope" : tensor<?x2x192xbf16> -> tensor<?x2x192xbf16>
  %w_l2_kv_a = dsv3.use @l2.kv_a : tensor<192x256xbf16, #fp8b>
  %l2_ka = dsv3.linear %l2_n, %w_l2_kv_a site "l2.kv_a" : tensor<?x256xbf16>, tensor<192x256xbf16, #fp8b> -> tensor<?x192xbf16>
  %l2_c0, %l2_r0 = dsv3.split %l2_ka : tensor<?x192xbf16> -> tensor<?x128xbf16>, tensor<?x64xbf16>
  %w_l2_kv_a_norm = dsv3.use @l2.kv_a_norm : tensor<128xbf16>
  %l2_c = dsv3.rms_norm %l2_c0, %w_l2_kv_a_norm eps 1.0e-06 site "l2.kv_a_norm" : tensor<?x128xbf16>, tensor<128xbf16> -> tensor<?x128xbf16>
  %l2_r = dsv3.rope %l2_r0, %seq at 0 #rope site "l2.k_rope" : tensor<?x64xbf16> -> tensor<?x64xbf16>
  %l2_kv = dsv3.kv_append %kv[2] latent(%l2_c) rope(%l2_r), %seq site "l2.append" : tensor<?x128xbf16>, tensor<?x64xbf16>, !kv
  %w_l2_kv_b = dsv3.use @l2.kv_b : tensor<512x128xbf16, #fp8b>
  %l2_y = dsv3.mla_attention %l2_q, %l2_kv[2], %w_l2_kv_b, %seq scale 0.072168784 site "l2.attn" : tensor<?x2x192xbf16>, !kv, tensor<512x128xbf16, #fp8b> -> tensor<?x2x128xbf16>
  %w_l2_o = dsv3.use @l2.o : tensor<256x256xbf16, #fp8b>
  %l2_ao = dsv3.linear %l2_y, %w_l2_o site "l2.o" : tensor<?x2x128xbf16>, tensor<256x256xbf16, #fp8b> -> tensor<?x256xbf16>
  %l2_x1 = dsv3.add %x, %l2_ao site "l2.mid" : tensor<?x256xbf16>, tensor<?x256xbf16> -> tensor<?x256xbf16>
  %w_l2_post_norm = dsv3.use @l2.post_norm : tensor<256xbf16>
  %l2_n1 = dsv3.rms_norm %l2_x1, %w_l2_post_norm eps 1.0e-06 site "l2.post_norm" : tensor<?x256xbf16>, tensor<256xbf16> -> tensor<?x256xbf16>
  %w_l2_gate = dsv3.use @l2.gate : tensor<256x256xbf16, #fp8b>
  %l2_gm = dsv3.linear %l2_n1, %w_l2_gate site "l2.gate" : tensor<?x256xbf16>, tensor<256x256xbf16, #fp8b> -> tensor<?x256xf32>
  %w_l2_up = dsv3.use @l2.up : tensor<256x256xbf16, #fp8b>
  %l2_um = dsv3.linear %l2_n1, %w_l2_up site "l2.up" : tensor<?x256xbf16>, tensor<256x256xbf16, #fp8b> -> tensor<?x256xf32>
  %l2_am = dsv3.swiglu %l2_gm, %l2_um site "l2.act" : tensor<?x256xf32>, tensor<?x256xf32> -> tensor<?x256xbf16>
  %w_l2_mlp = dsv3.use @l2.mlp : tensor<256x256xbf16, #fp8b>
  %l2_m = dsv3.linear %l2_am, %w_l2_mlp site "l2.mlp" : tensor<?x256xbf16>, tensor<256x256xbf16, #fp8b> -> tensor<?x256xbf16>
  %l2_x2 = dsv3.add %l2_x1, %l2_m site "l2.out" : tensor<?x256xbf16>, tensor<?x256xbf16> -> tensor<?x256xbf16>
  %w_mtp_final_norm = dsv3.use @mtp.final_norm : tensor<256xbf16>
  %normed = dsv3.rms_norm %l2_x2, %w_mtp_final_norm eps 1.0e-06 site "mtp.final_norm" : tensor<?x256xbf16>, tensor<256xbf16> -> tensor<?x256xbf16>
  %w_lm_head = dsv3.use @lm_head : tensor<512x256xbf16>
  %logits = dsv3.linear %normed, %w_lm_head site "mtp.head" : tensor<?x256xbf16>, tensor<512x256xbf16> -> tensor<?x512xf32>
  dsv3.return %logits, %l2_kv : tensor<?x512xf32>, !kv
}

