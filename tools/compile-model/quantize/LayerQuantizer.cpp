#include "tools/compile-model/quantize/LayerQuantizer.h"

#include "frontends/quantize/Policy.h"

namespace dsv3 {

using quantize::Matrix;

/// The scheme of a weight in the checkpoint, where it is one of ours.
static std::optional<quantize::Scheme> storedScheme(const hf::Weight &weight) {
  if (!weight.scheme || weight.scheme->code != hf::StoredScheme::Code::F8E4M3)
    return std::nullopt;
  return quantize::Scheme{quantize::Code::F8E4M3, weight.scheme->blockRows, weight.scheme->blockCols, *weight.scale, weight.scheme->ue8m0};
}

class LayerQuantizer::Run {
public:
  Run(LayerQuantizer &owner, int64_t layer, const LayerStates &states)
      : owner(owner), layer(layer), data(owner.module, owner.data, layer, states) {}

  Result<QuantizedLayer> run() {
    if (Status s = factors.choose(owner.model, owner.decisions, owner.algorithm, data); !s)
      return s.error();
    for (const hf::Weight &weight : owner.model.tensors.weights)
      if (weight.spec.layer == layer && weight.spec.role < hf::Role::MtpEmbedding) {
        auto it = owner.decisions.find(weight.spec.site);
        const LinearDecision decision = it == owner.decisions.end() ? LinearDecision() : it->second;
        Status s = decision.weight ? quantised(weight, decision) : asStored(weight, decision.activation);
        if (!s)
          return s.error();
      }
    return std::move(out);
  }

private:
  static int64_t membersOf(const hf::Weight &weight) { return std::max<int64_t>(1, weight.spec.members); }

  /// Copies of the tensors. compressed-tensors calls the scales of FP8 blocks as all others.
  Status asStored(const hf::Weight &weight, const std::optional<quantize::Scheme> &activation) {
    auto add = [&](const std::string &from, const std::string &to) {
      const hf::CheckpointTensor *t = owner.model.checkpoint->find(from);
      out.tensors.push_back({to, t->dtype(), t->shape(), {}, t->data()});
      out.taken.push_back(from);
    };
    for (int64_t e = 0; e < membersOf(weight); ++e) {
      if (weight.spec.dims.size() == 2)
        out.stored[weight.spec.module(e)] = {storedScheme(weight), activation};
      quantize::Vector gamma = factors.gamma(weight.spec.site), columns = factors.columns(weight.spec.site, e);
      if (gamma.size() || columns.size()) {
        if (Status s = scaled(weight, e, gamma, columns); !s)
          return s;
        continue;
      }
      add(weight.tensor(e), weight.tensor(e));
      if (weight.scheme)
        add(weight.scaleTensor(e), weight.spec.module(e) + ".weight_scale");
    }
    return {};
  }

  /// A gamma that is divided by factors, or a plain linear that reads what it makes: in float32, no bit is lost.
  Status scaled(const hf::Weight &weight, int64_t member, const quantize::Vector &gamma, const quantize::Vector &columns) {
    Matrix w;
    if (gamma.size()) {
      Result<quantize::Vector> v = data.vector(weight.spec.site);
      if (!v)
        return v.error();
      w = (v->array() / gamma.array()).matrix().transpose();
    } else {
      Result<Matrix> read = data.matrix(weight.spec.site, member);
      if (!read)
        return read.error();
      w = read->array().rowwise() * columns.transpose().array();
    }
    std::vector<int64_t> shape;
    for (const hf::Dim &dim : weight.spec.dims)
      shape.push_back(dim.value);
    out.tensors.push_back({weight.tensor(member), DType::F32, shape, std::string(reinterpret_cast<const char *>(w.data()), size_t(w.size()) * sizeof(float)), {}});
    out.taken.push_back(weight.tensor(member));
    return {};
  }

  Status quantised(const hf::Weight &weight, const LinearDecision &decision) {
    for (int64_t e = 0; e < membersOf(weight); ++e)
      if (Status s = member(weight, e, decision); !s)
        return s.error().message.find(weight.tensor(e)) == std::string::npos ? Error{s.error().code, weight.tensor(e) + ": " + s.error().message} : s.error();
    return {};
  }

  Status member(const hf::Weight &weight, int64_t e, const LinearDecision &decision) {
    const std::string &site = weight.spec.site;
    Result<Matrix> w = data.matrix(site, e);
    Result<InputsPtr> x = data.inputs(site, e);
    if (!w || !x)
      return w ? x.error() : w.error();
    if (quantize::Vector rows = factors.rows(site, e); rows.size())
      *w = Matrix(w->array().colwise() / rows.array());
    if (quantize::Vector columns = factors.columns(site, e); columns.size()) {
      *w = Matrix(w->array().rowwise() * columns.transpose().array());
      if (*x)
        *x = std::make_shared<quantize::Inputs>((*x)->dividedBy(columns));
    }
    Result<quantize::Outcome> done = quantize::quantizeLinear(*w, *decision.weight, decision.activation, x->get(), owner.algorithm);
    if (!done)
      return done.error();
    const quantize::StoredModule &stored = out.stored[weight.spec.module(e)] = {decision.weight, decision.activation};
    for (quantize::OutTensor &t : quantize::tensorsOf(weight.spec.module(e), stored, done->matrix))
      out.tensors.push_back(std::move(t));
    out.taken.push_back(weight.tensor(e));
    if (weight.scheme)
      out.taken.push_back(weight.scaleTensor(e));
    report(weight, e, decision, *done, x->get());
    return {};
  }

  void report(const hf::Weight &weight, int64_t e, const LinearDecision &decision, const quantize::Outcome &done, const quantize::Inputs *x) {
    LinearReport r;
    r.stack = weight.spec.site;
    r.expert = weight.spec.members ? e : -1;
    r.module = weight.spec.module(e);
    if (auto place = quantize::Linear::place(r.stack, weight.spec.members ? 3 : 2))
      r.component = std::string(quantize::name(place->first)) + "." + place->second;
    r.rows = done.matrix.rows, r.cols = done.matrix.cols;
    r.scheme = *decision.weight, r.activation = decision.activation;
    r.algorithm = done.used;
    r.weightError = done.weightError, r.error = done.error, r.saturation = quantize::saturation(done.matrix);
    r.tokens = x ? x->tokens() : 0;
    r.fellBack = x && r.tokens < quantize::kFewestTokens;
    out.report.push_back(std::move(r));
  }

  LayerQuantizer &owner;
  const int64_t layer;
  LayerData data;
  FactorTable factors;
  QuantizedLayer out;
};

Result<QuantizedLayer> LayerQuantizer::run(int64_t layer, const LayerStates &states) { return Run(*this, layer, states).run(); }

//===-- MTP ---------------------------------------------------------------===//

static Result<quantize::Vector> readVector(const WeightData &data, const std::string &site) {
  auto reader = data.open(site);
  if (!reader)
    return reader.error();
  Result<Matrix> row = readMatrix(**reader, 0, 1);
  return row ? Result<quantize::Vector>(quantize::Vector(row->row(0))) : row.error();
}

static Matrix rmsNorm(const Matrix &x, const quantize::Vector &gamma, double eps) {
  quantize::Vector scale = ((x.array().square().rowwise().mean() + float(eps)).sqrt()).inverse();
  return (x.array().colwise() * scale.array()).rowwise() * gamma.transpose().array();
}

Status enterMtp(const hf::Model &model, const WeightData &data, std::vector<std::vector<int32_t>> &text, Matrix &rows) {
  const std::string at = "l" + std::to_string(model.config.layers) + ".";
  const double eps = model.config.rmsNormEps;
  auto final = readVector(data, "final_norm"), enorm = readVector(data, at + "enorm"), hnorm = readVector(data, at + "hnorm");
  for (auto *gamma : {&final, &enorm, &hnorm})
    if (!*gamma)
      return gamma->error();
  auto table = data.open(model.tensors.mtpEmbedding(model.config.layers)->spec.site), projection = data.open(at + "eh_proj");
  if (!table || !projection)
    return table ? projection.error() : table.error();
  Result<Matrix> w = readMatrix(**projection, 0, (*projection)->rows());
  if (!w)
    return w.error();
  const int64_t hidden = rows.cols();
  int64_t count = 0, from = 0, to = 0;
  for (const std::vector<int32_t> &ids : text)
    count += int64_t(ids.size()) - 1;
  Matrix next(count, hidden), state(count, hidden);
  for (std::vector<int32_t> &ids : text) {
    for (size_t i = 0; i + 1 < ids.size(); ++i, ++to) {
      state.row(to) = rows.row(from + int64_t(i));
      if (Status s = (*table)->values(ids[i + 1], 0, hidden, &next(to, 0)); !s)
        return s;
    }
    from += int64_t(ids.size());
    ids.pop_back();
  }
  Matrix both(count, 2 * hidden);
  both << rmsNorm(next, *enorm, eps), rmsNorm(rmsNorm(state, *final, eps), *hnorm, eps);
  rows = both * w->transpose();
  return {};
}

} // namespace dsv3
