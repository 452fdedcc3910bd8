// arith and math, on scalars and element by element on fragments.
#include "passes/tile/sim/Machine.h"
#include "passes/tile/sim/Numbers.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;

namespace dsv3::tile::sim {
namespace {

/// An op on numbers; arguments are those of the op, already of their types.
using Function = std::function<double(const double *)>;

bool compare(arith::CmpIPredicate p, Type type, double a, double b) {
  using P = arith::CmpIPredicate;
  const uint64_t ua = asUnsigned(type, a), ub = asUnsigned(type, b);
  switch (p) {
  case P::eq: return a == b;
  case P::ne: return a != b;
  case P::slt: return a < b;
  case P::sle: return a <= b;
  case P::sgt: return a > b;
  case P::sge: return a >= b;
  case P::ult: return ua < ub;
  case P::ule: return ua <= ub;
  case P::ugt: return ua > ub;
  case P::uge: return ua >= ub;
  }
  return false;
}

bool compare(arith::CmpFPredicate p, double a, double b) {
  using P = arith::CmpFPredicate;
  const bool unordered = std::isnan(a) || std::isnan(b);
  switch (p) {
  case P::AlwaysFalse: return false;
  case P::AlwaysTrue: return true;
  case P::ORD: return !unordered;
  case P::UNO: return unordered;
  case P::OEQ: return !unordered && a == b;
  case P::ONE: return !unordered && a != b;
  case P::OLT: return !unordered && a < b;
  case P::OLE: return !unordered && a <= b;
  case P::OGT: return !unordered && a > b;
  case P::OGE: return !unordered && a >= b;
  case P::UEQ: return unordered || a == b;
  case P::UNE: return unordered || a != b;
  case P::ULT: return unordered || a < b;
  case P::ULE: return unordered || a <= b;
  case P::UGT: return unordered || a > b;
  case P::UGE: return unordered || a >= b;
  }
  return false;
}

Function integerFunction(Operation *op) {
  const Type type = getElementTypeOrSelf(op->getResult(0).getType());
  const Type from = getElementTypeOrSelf(op->getOperand(0).getType());
  auto bits = [from](double v) { return asUnsigned(from, v); };
  return llvm::TypeSwitch<Operation *, Function>(op)
      .Case([](arith::AddIOp) { return [](const double *x) { return x[0] + x[1]; }; })
      .Case([](arith::SubIOp) { return [](const double *x) { return x[0] - x[1]; }; })
      .Case([](arith::MulIOp) {
        return [](const double *x) { return double(int64_t(uint64_t(int64_t(x[0])) * uint64_t(int64_t(x[1])))); };
      })
      .Case([](arith::DivSIOp) { return [](const double *x) { return std::trunc(x[0] / x[1]); }; })
      .Case([](arith::RemSIOp) { return [](const double *x) { return std::fmod(x[0], x[1]); }; })
      .Case([=](arith::DivUIOp) { return [=](const double *x) { return double(bits(x[0]) / bits(x[1])); }; })
      .Case([=](arith::RemUIOp) { return [=](const double *x) { return double(bits(x[0]) % bits(x[1])); }; })
      .Case([](arith::CeilDivSIOp) { return [](const double *x) { return std::ceil(x[0] / x[1]); }; })
      .Case([=](arith::CeilDivUIOp) {
        return [=](const double *x) { return double((bits(x[0]) + bits(x[1]) - 1) / bits(x[1])); };
      })
      .Case([=](arith::AndIOp) { return [=](const double *x) { return double(bits(x[0]) & bits(x[1])); }; })
      .Case([=](arith::OrIOp) { return [=](const double *x) { return double(bits(x[0]) | bits(x[1])); }; })
      .Case([=](arith::XOrIOp) { return [=](const double *x) { return double(bits(x[0]) ^ bits(x[1])); }; })
      .Case([=](arith::ShLIOp) { return [=](const double *x) { return double(bits(x[0]) << bits(x[1])); }; })
      .Case([=](arith::ShRUIOp) { return [=](const double *x) { return double(bits(x[0]) >> bits(x[1])); }; })
      .Case([](arith::ShRSIOp) { return [](const double *x) { return std::floor(std::ldexp(x[0], -int(x[1]))); }; })
      .Case([](arith::MinSIOp) { return [](const double *x) { return std::min(x[0], x[1]); }; })
      .Case([](arith::MaxSIOp) { return [](const double *x) { return std::max(x[0], x[1]); }; })
      .Case([=](arith::MinUIOp) { return [=](const double *x) { return double(std::min(bits(x[0]), bits(x[1]))); }; })
      .Case([=](arith::MaxUIOp) { return [=](const double *x) { return double(std::max(bits(x[0]), bits(x[1]))); }; })
      .Case([=](arith::ExtUIOp) { return [=](const double *x) { return double(bits(x[0])); }; })
      .Case([](arith::ExtSIOp e) {
        const bool flag = getElementTypeOrSelf(e.getIn().getType()).isInteger(1);
        return [=](const double *x) { return flag ? -x[0] : x[0]; };
      })
      .Case([](arith::TruncIOp) { return [](const double *x) { return x[0]; }; })
      .Case([](arith::IndexCastOp) { return [](const double *x) { return x[0]; }; })
      .Case([=](arith::IndexCastUIOp) { return [=](const double *x) { return double(bits(x[0])); }; })
      .Case([=](arith::CmpIOp c) {
        return [=, p = c.getPredicate()](const double *x) { return double(compare(p, from, x[0], x[1])); };
      })
      .Case([](arith::SIToFPOp) { return [](const double *x) { return x[0]; }; })
      .Case([=](arith::UIToFPOp) { return [=](const double *x) { return double(bits(x[0])); }; })
      .Case([](arith::FPToSIOp) { return [](const double *x) { return std::trunc(x[0]); }; })
      .Case([](arith::FPToUIOp) { return [](const double *x) { return std::trunc(x[0]); }; })
      .Case([=](arith::BitcastOp) {
        return [=](const double *x) {
          uint8_t bytes[8] = {};
          encode(from, x[0], bytes, 0);
          return decode(type, bytes, 0);
        };
      })
      .Default([](Operation *) { return Function(); });
}

Function floatFunction(Operation *op) {
  return llvm::TypeSwitch<Operation *, Function>(op)
      .Case([](arith::AddFOp) { return [](const double *x) { return x[0] + x[1]; }; })
      .Case([](arith::SubFOp) { return [](const double *x) { return x[0] - x[1]; }; })
      .Case([](arith::MulFOp) { return [](const double *x) { return x[0] * x[1]; }; })
      .Case([](arith::DivFOp) { return [](const double *x) { return x[0] / x[1]; }; })
      .Case([](arith::NegFOp) { return [](const double *x) { return -x[0]; }; })
      .Case([](arith::MaximumFOp) {
        return [](const double *x) { return std::isnan(x[0]) || std::isnan(x[1]) ? NAN : std::max(x[0], x[1]); };
      })
      .Case([](arith::MinimumFOp) {
        return [](const double *x) { return std::isnan(x[0]) || std::isnan(x[1]) ? NAN : std::min(x[0], x[1]); };
      })
      .Case([](arith::MaxNumFOp) { return [](const double *x) { return std::fmax(x[0], x[1]); }; })
      .Case([](arith::MinNumFOp) { return [](const double *x) { return std::fmin(x[0], x[1]); }; })
      .Case([](arith::CmpFOp c) {
        return [p = c.getPredicate()](const double *x) { return double(compare(p, x[0], x[1])); };
      })
      .Case([](arith::TruncFOp) { return [](const double *x) { return x[0]; }; })
      .Case([](arith::ExtFOp) { return [](const double *x) { return x[0]; }; })
      .Case([](math::FmaOp) { return [](const double *x) { return std::fma(x[0], x[1], x[2]); }; })
      .Case([](math::ExpOp) { return [](const double *x) { return std::exp(x[0]); }; })
      .Case([](math::Exp2Op) { return [](const double *x) { return std::exp2(x[0]); }; })
      .Case([](math::LogOp) { return [](const double *x) { return std::log(x[0]); }; })
      .Case([](math::Log2Op) { return [](const double *x) { return std::log2(x[0]); }; })
      .Case([](math::RsqrtOp) { return [](const double *x) { return 1 / std::sqrt(x[0]); }; })
      .Case([](math::SqrtOp) { return [](const double *x) { return std::sqrt(x[0]); }; })
      .Case([](math::TanhOp) { return [](const double *x) { return std::tanh(x[0]); }; })
      .Case([](math::AbsFOp) { return [](const double *x) { return std::fabs(x[0]); }; })
      .Case([](math::FloorOp) { return [](const double *x) { return std::floor(x[0]); }; })
      .Default([](Operation *) { return Function(); });
}

Function functionOf(Operation *op) {
  if (Function f = integerFunction(op))
    return f;
  if (Function f = floatFunction(op))
    return f;
  return nullptr;
}

SimValue constant(TypedAttr attr) {
  auto element = [](Attribute a) {
    if (auto i = dyn_cast<IntegerAttr>(a))
      return i.getType().isInteger(1) ? double(i.getValue().getBoolValue()) : double(i.getValue().getSExtValue());
    APFloat f = cast<FloatAttr>(a).getValue();
    bool exact;
    f.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &exact);
    return f.convertToDouble();
  };
  auto dense = dyn_cast<DenseElementsAttr>(attr);
  if (!dense)
    return element(attr);
  std::vector<double> data;
  for (Attribute a : dense.getValues<Attribute>())
    data.push_back(element(a));
  return FragValue{dense.getType().getShape().vec(), std::make_shared<const std::vector<double>>(std::move(data))};
}

/// arith.select of whole values: slots, tokens and accumulators too.
SimValue select(Machine &m, Agent &agent, arith::SelectOp op) {
  SimValue condition = m.get(agent, op.getCondition());
  if (auto *flag = std::get_if<double>(&condition))
    return m.get(agent, *flag != 0 ? op.getTrueValue() : op.getFalseValue());
  FragValue yes = std::get<FragValue>(m.get(agent, op.getTrueValue())), no = std::get<FragValue>(m.get(agent, op.getFalseValue()));
  const std::vector<double> &mask = *std::get<FragValue>(condition).data;
  std::vector<double> data(mask.size());
  for (size_t i = 0; i < data.size(); ++i)
    data[i] = mask[i] != 0 ? (*yes.data)[i] : (*no.data)[i];
  return FragValue{yes.shape, std::make_shared<const std::vector<double>>(std::move(data))};
}

} // namespace

MaybeStep interpretElementwise(Machine &m, Agent &agent, Operation *op) {
  if (op->getNumResults() != 1 || !isa<arith::ArithDialect, math::MathDialect>(op->getDialect()))
    return std::nullopt;
  // Looked up before it is assigned: both may touch the same map.
  auto finish = [&](SimValue value) -> MaybeStep {
    agent.values[op->getResult(0)] = std::move(value);
    return Step::Quiet;
  };
  if (auto c = dyn_cast<arith::ConstantOp>(op))
    return finish(constant(c.getValue()));
  if (auto s = dyn_cast<arith::SelectOp>(op))
    return finish(select(m, agent, s));
  Function f = functionOf(op);
  if (!f)
    return std::nullopt;
  const Type type = getElementTypeOrSelf(op->getResult(0).getType());
  const unsigned n = op->getNumOperands();
  std::vector<SimValue> operands;
  for (Value v : op->getOperands())
    operands.push_back(m.get(agent, v));
  double x[3];
  if (std::holds_alternative<double>(operands[0])) {
    for (unsigned i = 0; i < n; ++i)
      x[i] = std::get<double>(operands[i]);
    return finish(rounded(type, f(x)));
  }
  const size_t size = std::get<FragValue>(operands[0]).data->size();
  std::vector<double> data(size);
  for (size_t e = 0; e < size; ++e) {
    for (unsigned i = 0; i < n; ++i)
      x[i] = (*std::get<FragValue>(operands[i]).data)[e];
    data[e] = rounded(type, f(x));
  }
  return finish(FragValue{std::get<FragValue>(operands[0]).shape, std::make_shared<const std::vector<double>>(std::move(data))});
}

} // namespace dsv3::tile::sim
