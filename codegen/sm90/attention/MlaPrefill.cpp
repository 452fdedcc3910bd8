#include "codegen/sm90/attention/MlaPrefill.h"

#include "runtime/core/Abi.h"

using namespace mlir;

namespace dsv3::codegen {

namespace {

using tile::Form;
using Shape = MlaPrefillShape;

constexpr int64_t kProducerRegs = 40, kConsumerRegs = 232;
constexpr int64_t kWarpgroupRows = Shape::kRows / Shape::kWarpgroups;
/// Bytes of keys and values that a group of heads may have, of the 50 MB of L2.
constexpr int64_t kL2Bytes = 32 << 20;

class MlaPrefill {
public:
  MlaPrefill(TileBuilder &t, const Shape &shape) : t(t), shape(shape), softmax(t, shape.scale) {}

  tile::KernelOp build(StringRef symbol) {
    return t.kernel(symbol, arguments(), 1, [&](Values args) {
      setup(args);
      t.producer("load", kProducerRegs, [&] { produce(); });
      t.consumers("mma", Shape::kWarpgroups, kConsumerRegs, [&](Value warpgroup) { consume(warpgroup); });
    });
  }

private:
  TileBuilder &t;
  const Shape &shape;
  OnlineSoftmax softmax;

  tile::BufType queries, queryPart, keys, values, block, sums;
  Type scores, scoresAcc, part;

  Value qMap, keyMap, valueMap, qStart, context, firstBlock, out;             // arguments
  Value seqs, tiles, group, work, qRing, keyRing, valueRing, marks;           // made in front of the roles

  /// A tile of query rows of one sequence and head.
  struct Item {
    Value head, seq;
    Value row, rows;  ///< first row of the step, rows from there to the sequence's last: none or fewer if the tile is one too many
    Value position;   ///< of the first row
    Value pairs;      ///< of key blocks
  };

  SmallVector<Type> arguments() {
    queryPart = t.buf({kWarpgroupRows, shape.lanes}, t.bf16);
    queries = t.buf({Shape::kWarpgroups, kWarpgroupRows, shape.lanes}, t.bf16);
    keys = t.buf({Shape::kKeys, shape.lanes}, t.bf16), values = t.buf({Shape::kKeys, shape.values}, t.bf16);
    block = t.buf({Shape::kBlock, 64}, t.bf16), sums = t.buf({64, 4}, t.f32, tile::SmemKind::Linear);
    scores = t.frag(Shape::kKeys, t.f32), scoresAcc = t.acc(Shape::kKeys, t.f32), part = t.frag(shape.values, t.f32);
    tile::TmaType map = t.tma(t.bf16, {64, 64});
    tile::GmemType numbers = t.gmem({ShapedType::kDynamic}, t.i32);
    return {t.scalars, map, map, map, numbers, numbers, numbers, t.gmem({ShapedType::kDynamic, shape.heads * shape.values}, t.bf16)};
  }

  void setup(const Values &args) {
    qMap = args[1], keyMap = args[2], valueMap = args[3], qStart = args[4], context = args[5], firstBlock = args[6], out = args[7];
    seqs = t.count(args[0], DSV3_SCALAR_SEQS);
    tiles = t.add(t.div(t.count(args[0], DSV3_SCALAR_TOKENS), Shape::kRows), seqs);
    group = headGroup(t.count(args[0], DSV3_SCALAR_KBLOCKS));
    Value groups = arith::DivUIOp::create(t.b, t.ci(shape.heads), group);
    work = t.raster({groups, tiles, group}, {1, 1, 1}, 1, {"group", "tile", "head"});
    qRing = t.ring("q", 1, {queries}, {"mma"}, tile::Arrive::Warpgroup);
    keyRing = t.ring("keys", Shape::kStages, {keys}, {"mma"}, tile::Arrive::Warpgroup);
    valueRing = t.ring("values", Shape::kStages, {values}, {"mma"}, tile::Arrive::Warpgroup);
    marks = t.alloc(t.buf({Shape::kWarpgroups, 64, 4}, t.f32, tile::SmemKind::Linear));
  }

  /// Heads whose keys and values of this step fit L2 together: a power of two that divides the heads.
  Value headGroup(Value blocks) {
    Value group = t.ci(1);
    int64_t blockBytes = Shape::kBlock * (shape.lanes + shape.values) * 2;
    for (int64_t heads = 2; heads <= Shape::kMaxGroup && shape.heads % heads == 0; heads *= 2)
      group = t.select(t.lt(t.mul(blocks, heads), kL2Bytes / blockBytes), t.ci(heads), group);
    return group;
  }

  //===-- Work ------------------------------------------------------------===//

  /// The last sequence s of the step with q_start[s]/128 + s <= tile.
  Value sequenceOf(Value tile) {
    Value seq = t.ci(0);
    int64_t step = 1;
    while (step < shape.seqs)
      step *= 2;
    for (step /= 2; step > 0; step /= 2) {
      Value next = t.add(seq, step), known = t.min(next, t.sub(seqs, 1));
      Value first = t.add(t.div(t.read(qStart, {known}, t.i32), Shape::kRows), next);
      // Beyond the last sequence `next` is larger than any tile that is left.
      Value taken = t.select(t.lt(next, seqs), t.ge(tile, first), t.constant(t.i1, 0));
      seq = t.select(taken, next, seq);
    }
    return seq;
  }

  Item item(const Values &fields) {
    Item it;
    it.head = t.add(t.mul(fields[0], group), fields[2]);
    Value tile = t.sub(t.sub(tiles, 1), fields[1]); // the latest first
    it.seq = sequenceOf(tile);
    Value begin = t.read(qStart, {it.seq}, t.i32), end = t.read(qStart, {t.add(it.seq, 1)}, t.i32);
    Value own = t.sub(tile, t.add(t.div(begin, Shape::kRows), it.seq));
    it.row = t.add(begin, t.mul(own, Shape::kRows));
    it.rows = t.sub(end, it.row);
    Value length = t.read(context, {it.seq}, t.i32);
    it.position = t.sub(length, it.rows);
    Value last = t.sub(t.add(it.position, t.min(it.rows, Shape::kRows)), 1);
    it.pairs = t.add(t.div(last, Shape::kKeys), 1);
    return it;
  }

  /// Runs `body` for every tile that has rows; slots stay where they are for one that has none.
  void forTiles(llvm::function_ref<Values(const Item &, Values slots)> body) {
    t.foreach(work, {t.next(qRing), t.next(keyRing), t.next(valueRing)}, [&](Values fields, Values slots) {
      Item it = item(fields);
      SmallVector<Type> types = llvm::map_to_vector(slots, [](Value v) { return v.getType(); });
      return t.choose(t.lt(t.ci(0), it.rows), types, [&] { return body(it, slots); }, [&] { return slots; });
    });
  }

  //===-- The copying thread ----------------------------------------------===//

  void produce() {
    forTiles([&](const Item &it, Values slots) {
      t.fill(slots[0], [&](Values buf) {
        for (int64_t w = 0; w < Shape::kWarpgroups; ++w)
          t.copy(qMap, {t.add(it.row, w * kWarpgroupRows), t.mul(it.head, shape.lanes)}, t.view(queryPart, buf[0], {w}));
      });
      Value first = t.read(firstBlock, {it.seq}, t.i32), last = t.sub(t.read(firstBlock, {t.add(it.seq, 1)}, t.i32), 1);
      Values after = t.loop(0, it.pairs, 1, {slots[1], slots[2]}, [&](Value j, Values v) {
        Value even = t.add(first, t.mul(j, 2)), odd = t.min(t.add(even, 1), last);
        std::array<Value, 2> rows = {blockRow(even, it.head), blockRow(odd, it.head)};
        t.fill(v[0], [&](Values buf) { copyPair(keyMap, rows, buf[0], shape.lanes); });
        t.fill(v[1], [&](Values buf) { copyPair(valueMap, rows, buf[0], shape.values); });
        return Values{t.next(v[0]), t.next(v[1])};
      });
      return Values{t.next(slots[0]), after[0], after[1]};
    });
  }

  Value blockRow(Value block, Value head) { return t.mul(t.add(t.mul(block, shape.heads), head), Shape::kBlock); }

  /// Two blocks, one above the other.
  void copyPair(Value map, ArrayRef<Value> rows, Value dest, int64_t lanes) {
    for (int64_t lane = 0; lane < lanes; lane += 64)
      for (auto [i, row] : llvm::enumerate(rows))
        t.copy(map, {row, lane}, t.view(block, dest, {int64_t(i) * Shape::kBlock, lane}));
  }

  //===-- The consumers ---------------------------------------------------===//

  /// What a warpgroup carries from step to step.
  struct State {
    Value keys, values; ///< slots: of the next scores; of the probabilities `p`
    Value maximum, sums, o, p;

    Values pack() const { return {keys, values, maximum, sums, o, p}; }
    static State unpack(const Values &v) { return {v[0], v[1], v[2], v[3], v[4], v[5]}; }
  };

  /// A warpgroup's queries.
  struct Rows {
    Value q, position; ///< position of the first row
    Value none, mark;
  };

  void consume(Value warpgroup) {
    Value none = t.none(scoresAcc), mark = t.view(sums, marks, {warpgroup, 0, 0}), row = t.mul(warpgroup, kWarpgroupRows);
    forTiles([&](const Item &it, Values slots) {
      Rows rows{t.view(queryPart, t.wait(slots[0])[0], {warpgroup, 0, 0}), t.add(it.position, row), none, mark};
      State state = start(rows, slots);
      Values last = t.loop(1, it.pairs, 1, state.pack(), [&](Value j, Values v) { return step(rows, State::unpack(v), j).pack(); });
      state = State::unpack(last);
      t.release(slots[0]);
      Value o = t.await(product(state));
      t.release(state.values);
      Value result = t.cast(softmax.normalised(o, softmax.total(state.sums)), t.bf16);
      t.write(result, out, {t.add(it.row, row), t.mul(it.head, shape.values)}, t.sub(it.rows, row));
      return Values{t.next(slots[0]), state.keys, t.next(state.values)};
    });
  }

  /// Scores and probabilities of the first pair.
  State start(const Rows &rows, const Values &slots) {
    Value s = t.await(t.mma(Form::Nt, rows.q, t.wait(slots[1])[0], rows.none).acc);
    t.release(slots[1]);
    s = causal(s, rows.position, t.ci(0));
    Value maximum = softmax.moved(softmax.startMaximum(), softmax.rowMaximum(s));
    auto [p, total] = softmax.probabilities(s, maximum);
    return {t.next(slots[1]), slots[2], maximum, total, t.constant(part, 0), softmax.rounded(p)};
  }

  /// Scores of pair j, and the product of the pair before under their softmax.
  State step(const Rows &rows, const State &in, Value j) {
    Value flying = t.mma(Form::Nt, rows.q, t.wait(in.keys)[0], rows.none).acc;
    Value product = this->product(in);
    Value s = t.await(flying);
    t.release(in.keys);
    s = causal(s, rows.position, t.mul(j, Shape::kKeys));
    Value maximum = softmax.moved(in.maximum, softmax.rowMaximum(s));
    auto [p, more] = softmax.probabilities(s, maximum);
    Value factor = softmax.factor(in.maximum, maximum), total = softmax.carry(in.sums, factor, more);
    // ptxas moves a wait up to the one before it, where no memory is touched between the two, and nothing would fly under
    // the softmax. A store of sums that nobody reads holds it back until they are known.
    t.store(more, rows.mark);
    Value o = t.await(product);
    t.release(in.values);
    // Rounded only now: the registers of the last probabilities are operands until their product is over, and the new ones
    // take their place. Written earlier, ptxas would serialise the products (C7513).
    return {t.next(in.keys), t.next(in.values), maximum, total, softmax.rescaled({o}, factor)[0], softmax.rounded(p)};
  }

  /// O += P V of the pair whose probabilities are at hand; in flight.
  Value product(const State &state) { return t.mma(Form::Nn, state.p, t.wait(state.values)[0], state.o).acc; }

  /// Scores without keys after the row's own position; nothing to do where all keys come before the first row.
  Value causal(Value s, Value position, Value firstKey) {
    Value beyond = t.sub(position, firstKey); // of the first row: its last key, counted from the block's first
    return t.choose(
        t.lt(beyond, Shape::kKeys - 1), {scores},
        [&] {
          Type row = t.row(t.i32), index = t.frag(Shape::kKeys, t.i32);
          Value lastKey = t.add(t.iota(0, row), t.bcast(beyond, row));
          return Values{softmax.masked(t.ge(t.bcast(lastKey, index), t.iota(1, index)), s)};
        },
        [&] { return Values{s}; })[0];
  }
};

} // namespace

tile::KernelOp buildMlaPrefill(TileBuilder &t, StringRef symbol, const MlaPrefillShape &shape) { return MlaPrefill(t, shape).build(symbol); }

} // namespace dsv3::codegen
