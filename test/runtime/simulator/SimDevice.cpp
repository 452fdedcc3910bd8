#include "SimDevice.h"

#include <algorithm>
#include <cmath>

namespace dsv3::sim {

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 29);
}

uint64_t slotValue(uint64_t before, int32_t id, int64_t position, uint32_t phase) {
  return mix(mix(mix(before, uint64_t(id)), uint64_t(position)), phase);
}

void logitsOf(uint64_t folded, uint64_t overflows, float *row) {
  for (int64_t v = 0; v < kVocab; ++v)
    row[v] = float(mix(folded, uint64_t(v)) >> 44) / 65536.0f - 8.0f;
  if (overflows && folded % overflows == 0)
    row[folded / overflows % kVocab] = folded & 64 ? INFINITY : NAN;
}

static constexpr uint64_t kLogitsBytes = uint64_t(kTokens) * kVocab * 4;

SimDevice::SimDevice(int64_t pages, bool overlaps, uint64_t overflows)
    : pages(pages), overlaps(overlaps), overflows(overflows), persist(kLogitsBytes + kSeqs * sizeof(dsv3_sampled)), slots(pages * kPageTokens) {
  addField(DSV3_FIELD_IDS, DSV3_ELEM_I32, kTokens);
  addField(DSV3_FIELD_NEXT_IDS, DSV3_ELEM_I32, kTokens);
  addField(DSV3_FIELD_TOKEN_SEQ, DSV3_ELEM_I32, kTokens);
  addField(DSV3_FIELD_TOKEN_POS, DSV3_ELEM_I32, kTokens);
  addField(DSV3_FIELD_TOKEN_SLOT, DSV3_ELEM_I64, kTokens);
  addField(DSV3_FIELD_Q_START, DSV3_ELEM_I32, kSeqs + 1);
  addField(DSV3_FIELD_CTX_LEN, DSV3_ELEM_I32, kSeqs);
  addField(DSV3_FIELD_BLOCK_TABLE, DSV3_ELEM_I32, kSeqs * kMaxPages);
  addField(DSV3_FIELD_LOGIT_ROW, DSV3_ELEM_I32, kSeqs);
  addField(DSV3_FIELD_QBLOCK, DSV3_ELEM_I32, 4);
  addField(DSV3_FIELD_KBLOCK, DSV3_ELEM_I32, 2);
  addField(DSV3_FIELD_KBLOCK_START, DSV3_ELEM_I32, kSeqs + 1);
  addField(DSV3_FIELD_SAMPLING, DSV3_ELEM_I32, kSeqs * DSV3_SAMPLING_WORDS);
  for (Flight &flight : flights)
    flight.step.resize(fields.back().offset + fields.back().count * 4);
  outputs[0] = {"logits", {DSV3_POOL_PERSIST, 0, 0}, DSV3_ELEM_F32, 0, uint64_t(kVocab)};
  outputs[1] = {"sampled", {DSV3_POOL_PERSIST, 0, kLogitsBytes}, DSV3_ELEM_I32, 0, DSV3_SAMPLED_WORDS};
  addProgram("prefill_t8", DSV3_PHASE_PREFILL, 8, 2);
  addProgram("prefill_t48", DSV3_PHASE_PREFILL, kTokens, kSeqs);
  addProgram("decode_b4", DSV3_PHASE_DECODE, 4, 4);
  addProgram("decode_b20", DSV3_PHASE_DECODE, kSeqs, kSeqs);
  addProgram("score_t48", DSV3_PHASE_SCORE, kTokens, kSeqs);
  desc.n_programs = uint32_t(programs.size());
  desc.programs = programs.data();
  desc.n_fields = uint32_t(fields.size());
  desc.fields = fields.data();
  desc.max_tokens = kTokens;
  desc.max_seqs = kSeqs;
  desc.max_pages = kMaxPages;
  desc.kv_page_tokens = kPageTokens;
}

void SimDevice::addField(uint32_t kind, uint32_t elem, uint64_t count) {
  uint64_t at = fields.empty() ? 0 : fields.back().offset + fields.back().count * (fields.back().elem == DSV3_ELEM_I64 ? 8 : 4);
  fields.push_back({"", kind, elem, (at + 63) / 64 * 64, count});
}

void SimDevice::addProgram(const char *name, uint32_t phase, uint32_t tokens, uint32_t seqs) {
  dsv3_program_desc p{};
  p.name = name;
  p.phase = phase;
  p.tokens = tokens;
  p.seqs = seqs;
  p.n_outputs = overlaps && phase != DSV3_PHASE_SCORE ? 2 : 1;
  p.outputs = outputs;
  programs.push_back(p);
}

int64_t SimDevice::slotOf(int64_t seq, int64_t position) const {
  return int64_t(field<int32_t>(DSV3_FIELD_BLOCK_TABLE)[seq * kMaxPages + position / kPageTokens]) * kPageTokens +
         position % kPageTokens;
}

void SimDevice::checkRows(int64_t count, bool rubbish) {
  for (int64_t row = 0; row < count; ++row) {
    const int64_t slot = field<int64_t>(DSV3_FIELD_TOKEN_SLOT)[row], position = field<int32_t>(DSV3_FIELD_TOKEN_POS)[row];
    const int32_t seq = field<int32_t>(DSV3_FIELD_TOKEN_SEQ)[row], id = field<int32_t>(DSV3_FIELD_IDS)[row];
    if (slot < 0 || slot >= int64_t(slots.size()) || slot != slotOf(seq, position) || id < 0 || id >= kVocab) {
      wrong = "row " + std::to_string(row) + ": slot " + std::to_string(slot) + ", id " + std::to_string(id);
      return;
    }
    if (rubbish)
      slots[slot] = mix(slots[slot], 99);
  }
}

void SimDevice::computeRows(uint32_t phase, int64_t seqs) {
  auto *logits = reinterpret_cast<float *>(persist.data());
  const int32_t *first = field<int32_t>(DSV3_FIELD_Q_START), *context = field<int32_t>(DSV3_FIELD_CTX_LEN);
  for (int64_t seq = 0; seq < seqs; ++seq) {
    const int64_t rowsHere = first[seq + 1] - first[seq], start = context[seq] - rowsHere;
    uint64_t folded = 1;
    for (int64_t position = 0; position < context[seq]; ++position) {
      uint64_t &slot = slots[slotOf(seq, position)];
      if (position >= start)
        slot = slotValue(folded, field<int32_t>(DSV3_FIELD_IDS)[first[seq] + position - start], position, phase);
      folded = mix(folded, slot);
      if (phase == DSV3_PHASE_SCORE && position >= start)
        logitsOf(folded, overflows, logits + (first[seq] + position - start) * kVocab);
    }
    if (phase != DSV3_PHASE_SCORE)
      logitsOf(folded, overflows, logits + seq * kVocab);
  }
}

void SimDevice::choose(int64_t seqs) {
  auto *sampled = reinterpret_cast<dsv3_sampled *>(persist.data() + kLogitsBytes);
  for (int64_t seq = 0; seq < seqs; ++seq)
    if (const dsv3_sampling &how = reinterpret_cast<const dsv3_sampling *>(field<int32_t>(DSV3_FIELD_SAMPLING))[seq]; how.flags & DSV3_SAMPLE_ROW)
      sampled[seq] = chooser.choose(reinterpret_cast<const float *>(persist.data()) + seq * kVocab, kVocab, how);
}

void SimDevice::takeTokens(Flight &flight) {
  auto *ids = reinterpret_cast<int32_t *>(flight.step.data() + fields[DSV3_FIELD_IDS].offset);
  auto *sampled = reinterpret_cast<const dsv3_sampled *>(persist.data() + kLogitsBytes);
  for (int64_t row = 0; row < flight.host.scalars[DSV3_SCALAR_TOKENS]; ++row)
    if (ids[row] < 0)
      ids[row] = sampled[-1 - ids[row]].id;
}

Status SimDevice::execute(Flight &flight) {
  running = &flight;
  takeTokens(flight);
  const dsv3_program_desc &p = programs[flight.program];
  const int64_t count = flight.host.scalars[DSV3_SCALAR_TOKENS], seqs = flight.host.scalars[DSV3_SCALAR_SEQS];
  if (count < 1 || count > p.tokens || seqs < 1 || seqs > p.seqs || (p.phase == DSV3_PHASE_DECODE && count != seqs))
    wrong = std::string(p.name) + ": " + std::to_string(count) + " rows of " + std::to_string(seqs) + " sequences";
  const bool fault = faults && faults();
  checkRows(count, fault);
  freeAt = std::max(freeAt, flight.launched) + cost(count);
  ++(p.phase == DSV3_PHASE_SCORE ? ran.score : p.phase == DSV3_PHASE_DECODE ? ran.decode : ran.prefill);
  ran.lastRows = count;
  if (!wrong.empty())
    return internalError("simulated: " + wrong);
  if (fault)
    return internalError("simulated fault");
  computeRows(p.phase, seqs);
  if (p.n_outputs > 1)
    choose(seqs);
  flight.results.clear();
  for (const HostCopy &copy : flight.copies)
    flight.results.insert(flight.results.end(), persist.data() + copy.ref.offset, persist.data() + copy.ref.offset + copy.bytes);
  return {};
}

Status SimDevice::launch(uint32_t program, dsv3_step_host host, const std::vector<HostCopy> &copies) {
  if (flying == stepsAtOnce())
    return internalError("simulated: too many steps in flight");
  if (!failed)
    return failed.error();
  Flight &flight = flights[filling];
  auto *ids = reinterpret_cast<const int32_t *>(flight.step.data() + fields[DSV3_FIELD_IDS].offset);
  if (Result<bool> takes = takesTokens(ids, host.scalars[DSV3_SCALAR_TOKENS], chosen); !takes)
    return takes.error();
  chosen.clear();
  auto *how = reinterpret_cast<const dsv3_sampling *>(flight.step.data() + fields[DSV3_FIELD_SAMPLING].offset);
  for (int64_t seq = 0; seq < host.scalars[DSV3_SCALAR_SEQS]; ++seq)
    chosen.push_back(programs[program].n_outputs > 1 && (how[seq].flags & DSV3_SAMPLE_ROW));
  flight.program = program;
  flight.host = host;
  flight.copies = copies;
  flight.launched = clock;
  fetched = nullptr;
  ++flying;
  if (overlaps)
    filling = 1 - filling;
  return {};
}

Status SimDevice::wait() {
  if (!flying)
    return internalError("simulated: no step in flight");
  Flight &flight = flights[overlaps && flying == 1 ? 1 - filling : filling];
  --flying;
  Status s = execute(flight);
  clock = std::max(clock, freeAt);
  if (!s && overlaps)
    failed = s;
  fetched = &flight;
  return s;
}

Status SimDevice::run(uint32_t program, dsv3_step_host host, const std::vector<HostCopy> &copies, const TapSink &) {
  Status s = launch(program, host, copies);
  return s ? wait() : s;
}

Result<const void *> SimDevice::fetch(const dsv3_ref &ref, uint64_t bytes) {
  uint64_t at = 0;
  for (const HostCopy &copy : fetched ? fetched->copies : std::vector<HostCopy>()) {
    if (ref.offset >= copy.ref.offset && ref.offset + bytes <= copy.ref.offset + copy.bytes)
      return static_cast<const void *>(fetched->results.data() + at + ref.offset - copy.ref.offset);
    at += copy.bytes;
  }
  return internalError("simulated: fetched what was not copied");
}

} // namespace dsv3::sim
