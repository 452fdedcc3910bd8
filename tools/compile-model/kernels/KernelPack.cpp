#include "tools/compile-model/kernels/KernelPack.h"

#include "codegen/emit/Cubin.h"
#include "codegen/targets/Targets.h"
#include "passes/Passes.h"
#include "passes/Pipeline.h"
#include "passes/schedule/SchedulePasses.h"
#include "runtime/core/OutputDir.h"
#include "tools/compile-model/kernels/CaseOps.h"
#include "tools/compile-model/kernels/PackCase.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/StringMap.h"

#include <chrono>
#include <fstream>
#include <regex>

using namespace mlir;

namespace dsv3 {

namespace {
Status writeFile(const std::string &path, StringRef text) {
  std::ofstream file(path, std::ios::binary);
  file.write(text.data(), std::streamsize(text.size()));
  file.close();
  return file ? Status() : Status(usageError("cannot write '" + path + "'"));
}

/// Of the kernel's accesses of shared memory, by the analysis; 0: not analysed.
int64_t worstDegree(const codegen::DeviceKernel &kernel) {
  int64_t worst = kernel.accesses ? 1 : 0;
  for (const codegen::SharedAccess &a : kernel.accesses.value_or(std::vector<codegen::SharedAccess>()))
    worst = std::max(worst, a.degree);
  return worst;
}

class PackBuilder {
public:
  explicit PackBuilder(const KernelsCommand &command) : command(command) {}

  Result<std::string> run() {
    auto start = std::chrono::steady_clock::now();
    OutputDir::Options place;
    place.force = command.force;
    place.marker = bench::kCasesFile;
    place.entries.clear(); // one file per kernel: the marker alone says that the folder is a pack
    Result<OutputDir> out = OutputDir::create(command.output, place);
    if (!out)
      return out.error();
    if (Status s = readList(); !s)
      return s.error();
    if (Status s = buildAll(out->path()); !s)
      return s.error();
    if (Status s = out->commit(); !s)
      return s.error();
    std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    char time[32];
    std::snprintf(time, sizeof time, "%.1f s", seconds.count());
    return command.output + ": " + std::to_string(pack.cases.size()) + " cases, " + std::to_string(pack.kernels.size()) + " kernels, " +
           std::to_string(missing) + " cases without a kernel, " + time;
  }

private:
  /// Builds until no case fails: with `keepGoing`, those that do are left out, and the others start anew.
  Status buildAll(const std::string &folder) {
    while (true) {
      culprits.clear();
      message.clear();
      pack = {};
      dynamicShared.clear();
      Status done = buildOnce(folder);
      if (done || !command.keepGoing || culprits.empty())
        return done;
      for (const std::string &name : culprits)
        leaveOut(name, done.error().message);
      if (entries.empty())
        return unsupportedError("no case has a kernel on " + command.target);
    }
  }

  void leaveOut(const std::string &name, const std::string &why) {
    std::fprintf(stderr, "compile-model: warning: left out %s: %s\n", name.c_str(), why.c_str());
    ++missing;
    entries.erase(std::remove_if(entries.begin(), entries.end(), [&](const bench::ShapeEntry &e) { return e.name == name; }), entries.end());
  }

  Status buildOnce(const std::string &folder) {
    DialectRegistry dialects;
    codegen::registerDeviceDialects(dialects);
    MLIRContext context(dialects, MLIRContext::Threading::DISABLED);
    context.loadDialect<ir::Dsv3Dialect, kernel::KernelDialect, target::TargetDialect>();
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &d) {
      if (d.getSeverity() == DiagnosticSeverity::Error && message.empty()) {
        auto name = d.getLocation()->findInstanceOf<NameLoc>(); // of the case
        message = (name ? name.getName().str() + ": " : "") + d.str();
        if (name)
          culprits.push_back(name.getName().str());
      }
      return success();
    });
    return build(context, folder);
  }

  Status readList() {
    Result<Json> list = parseJsonFile(command.shapes);
    if (!list)
      return list.error();
    Result<std::vector<bench::ShapeEntry>> all = bench::parseShapeList(*list, command.shapes);
    if (!all)
      return all.error();
    std::regex wanted(command.filter.empty() ? ".*" : command.filter);
    for (bench::ShapeEntry &e : *all)
      if (std::regex_search(e.name, wanted))
        entries.push_back(std::move(e));
    return entries.empty() ? Status(usageError(command.shapes + ": expected a case that matches '" + command.filter + "', got none")) : Status();
  }

  Error diagnosed(const std::string &where) const { return internalError(where + ": " + (message.empty() ? "failed without a message" : message)); }

  /// All cases are programs of one module, so that they share kernels as the buckets of a model do.
  Status build(MLIRContext &context, const std::string &folder) {
    OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
    (*module)->setAttr(codegen::kTargetAttr, codegen::targetAttr(&context, command.target));
    FailureOr<codegen::TargetChoice> target = codegen::chooseTarget(*module, "");
    if (failed(target))
      return usageError("--target: " + message);
    setCapacities(*module);
    if (Status s = addCases(*module); !s)
      return s;
    if (Status s = runStages(*module, *target->registry); !s)
      return s;
    if (Status s = emitCode(*module, *target, folder); !s)
      return s;
    std::vector<StepField> fields = stepLayout(capacities);
    for (size_t i = 0; i < entries.size(); ++i)
      if (Status s = addToPack(module->lookupSymbol<ir::ProgramOp>(symbolOf(i)), entries[i], *target->registry, fields); !s)
        return s;
    describe(fields);
    return writeFile(folder + "/" + bench::kCasesFile, bench::toJson(pack).dump(1) + "\n");
  }

  static std::string symbolOf(size_t i) { return "case" + std::to_string(i); }

  void setCapacities(ModuleOp module) {
    int64_t tokens = 1, seqs = 1, longest = 1, kblocks = 1;
    for (const bench::ShapeEntry &e : entries) {
      tokens = std::max(tokens, e.tokens);
      seqs = std::max(seqs, e.seqs);
      longest = std::max(longest, e.longest());
      int64_t blocks = 0;
      for (const bench::Sequence &s : e.sequences)
        blocks += llvm::divideCeil(s.past + s.count, codegen::Capacities::kKeyBlock);
      kblocks = std::max(kblocks, blocks);
    }
    capacities = codegen::Capacities::derive(tokens, seqs, longest);
    capacities.kblocks = std::max(capacities.kblocks, kblocks); // a case may hold more cached keys than a step may expand
    module->setAttr(codegen::kCapacitiesAttr, capacities.toAttr(module.getContext()));
  }

  Status addCases(ModuleOp module) {
    for (size_t i = 0; i < entries.size(); ++i)
      if (Status s = addCase(module, entries[i], symbolOf(i)); !s)
        return s;
    return failed(mlir::verify(module)) ? Status(usageError(message)) : Status();
  }

  /// The first case with an op that no emitter accepts, with the reason.
  Status expectKernels(ModuleOp module, const codegen::KernelRegistry &registry) {
    for (size_t i = 0; i < entries.size(); ++i) {
      std::string why;
      module.lookupSymbol<ir::ProgramOp>(symbolOf(i)).walk([&](kernel::KernelOp op) {
        const codegen::KernelEmitter *emitter = registry.lookup(op);
        std::string reason = emitter ? emitter->whyIllegal(op) : "no kernel for " + op->getName().getStringRef().str();
        if (why.empty())
          why = reason;
      });
      if (why.empty())
        continue;
      culprits.push_back(entries[i].name);
      return unsupportedError(entries[i].name + ": " + why);
    }
    return {};
  }

  Status runPass(ModuleOp module, std::unique_ptr<Pass> pass, const char *what) {
    PassManager pm(module.getContext());
    pm.addPass(std::move(pass));
    return failed(pm.run(module)) ? Status(diagnosed(what)) : Status();
  }

  /// The passes of the stages without their verifiers: those compare the programs of a phase, and cases are unlike on purpose.
  Status runStages(ModuleOp module, const codegen::KernelRegistry &registry) {
    Result<Determinism> determinism = parseDeterminism(command.determinism);
    if (!determinism)
      return determinism.error();
    CompileOptions options;
    options.determinism = *determinism;
    options.jobs = command.jobs;
    // Before stage bind, which would stop at the first op without a kernel.
    ExpandAttentionPassOptions attention;
    attention.even = options.determinism == Determinism::Run;
    if (Status s = runPass(module, createExpandAttentionPass(attention), "expand-attention"); !s)
      return s;
    if (Status s = runPass(module, createExpandExpertsPass(), "expand-experts"); !s)
      return s;
    if (Status s = expectKernels(module, registry); !s)
      return s;
    for (const char *name : {"bind", "pack", "tile"}) {
      PassManager pm(module.getContext());
      findStage(name)->build(pm, options);
      if (failed(pm.run(module)))
        return diagnosed(std::string("stage ") + name);
      if (Status s = StringRef(name) == "bind" ? forceSchedules(module, registry) : Status(); !s)
        return s;
    }
    return {};
  }

  /// Binds an op to the emitter of this name, which must be able to.
  static Status forceEmitter(kernel::KernelOp op, const std::string &name, const codegen::KernelRegistry &registry) {
    for (const auto &emitter : registry.all())
      if (emitter->name() == name && emitter->opName() == op->getName().getStringRef()) {
        op->setAttr("numerics", emitter->numerics(op));
        op->setAttr("schedule", emitter->schedule(op));
        return {};
      }
    return usageError(op.getSiteName().str() + ": emitter: expected one of " + op->getName().getStringRef().str() + ", got " + name);
  }

  /// The emitter that an entry's key `emitter` names instead of the one that is chosen, and numbers that its key `schedule` replaces in
  /// the schedule of its op, to compare candidates of a cost model.
  Status forceSchedules(ModuleOp module, const codegen::KernelRegistry &registry) {
    for (size_t i = 0; i < entries.size(); ++i) {
      Json numbers = entries[i].json.value("schedule", Json::object());
      const std::string emitter = entries[i].json.value("emitter", std::string());
      Status status;
      module.lookupSymbol<ir::ProgramOp>(symbolOf(i)).walk([&](kernel::KernelOp op) {
        if (op.getSiteName() == entries[i].name && !emitter.empty())
          status = forceEmitter(op, emitter, registry);
        auto schedule = op->getAttrOfType<kernel::ScheduleAttr>("schedule");
        if (op.getSiteName() != entries[i].name || !schedule)
          return;
        NamedAttrList config(schedule.getConfig());
        for (const auto &[key, value] : numbers.items()) {
          if (!value.is_number_integer() || !config.get(key))
            status = usageError(entries[i].name + ": schedule." + key + ": expected a number that the kernel's schedule has");
          else
            config.set(key, Builder(op->getContext()).getI64IntegerAttr(value.get<int64_t>()));
        }
        op->setAttr("schedule", kernel::ScheduleAttr::get(op->getContext(), schedule.getEmitter(), config.getDictionary(op->getContext())));
      });
      if (!status)
        return status;
    }
    return {};
  }

  /// From what emitters write to functions of one thread.
  Status lowerBodies(gpu::GPUModuleOp device, codegen::LowerFn lower) {
    PassManager pm(device.getContext(), gpu::GPUModuleOp::getOperationName());
    if (lower)
      lower(pm);
    return failed(pm.run(device)) ? Status(diagnosed("lowering")) : Status();
  }

  Status emitCode(ModuleOp module, const codegen::TargetChoice &target, const std::string &folder) {
    codegen::DeviceOptions options;
    options.jobs = command.jobs;
    for (auto device : module.getOps<gpu::GPUModuleOp>()) {
      if (Status s = lowerBodies(device, target.lower); !s)
        return s;
      Result<codegen::DeviceCode> code = codegen::emitDevice(device, options);
      if (!code) {
        nameUsers(module, code.error().message);
        return code.error();
      }
      if (code->assembler.empty())
        return unsupportedError("expected ptxas on this machine, to write kernels that the bench can load; found none");
      for (const codegen::DeviceKernel &k : code->kernels) {
        if (Status s = writeFile(folder + "/" + k.symbol + ".cubin", k.cubin); !s)
          return s;
        if (Status s = writeFile(folder + "/" + k.symbol + ".ptx", k.ptx); !s)
          return s;
        dynamicShared[k.symbol] = k.dynamicShared;
        pack.kernels.push_back({k.symbol, k.resources ? k.resources->registers : 0,
                                k.resources ? k.resources->spillStores + k.resources->spillLoads : 0, worstDegree(k)});
      }
    }
    return {};
  }

  /// The cases that launch the kernel an error names.
  void nameUsers(ModuleOp module, StringRef error) {
    for (size_t i = 0; i < entries.size(); ++i)
      module.lookupSymbol<ir::ProgramOp>(symbolOf(i)).walk([&](kernel::KernelOp op) {
        auto symbol = op->getAttrOfType<FlatSymbolRefAttr>(kKernelSymbolAttr);
        if (symbol && error.contains("kernel " + symbol.getValue().str() + ":") && !llvm::is_contained(culprits, entries[i].name))
          culprits.push_back(entries[i].name);
      });
  }

  Status addToPack(ir::ProgramOp program, const bench::ShapeEntry &entry, const codegen::KernelRegistry &registry,
                   const std::vector<StepField> &fields) {
    Result<bench::Case> c = packCase(program, registry, fields);
    if (!c)
      return c.error();
    c->name = entry.name;
    c->op = entry.op;
    c->shape = entry.json;
    for (bench::Launch &l : c->launches) // kernels in tile say what they use themselves
      l.smem = std::max(l.smem, dynamicShared.lookup(l.kernel));
    pack.cases.push_back(std::move(*c));
    return {};
  }

  void describe(const std::vector<StepField> &fields) {
    pack.target = command.target;
    pack.tokens = capacities.tokens;
    pack.seqs = capacities.seqs;
    pack.pages = capacities.pages;
    pack.stepBytes = stepBytes(fields);
    for (const StepField &f : fields)
      pack.fields.push_back({int64_t(f.kind), f.elem == rt::Elem::I64 ? DType::I64 : DType::I32, f.offset, f.count});
  }

  const KernelsCommand &command;
  std::vector<bench::ShapeEntry> entries;
  codegen::Capacities capacities;
  bench::Pack pack;
  llvm::StringMap<int64_t> dynamicShared; ///< bytes, by symbol
  std::string message; ///< the first error that MLIR reported
  std::vector<std::string> culprits;      ///< cases that the error is about, as far as it says
  int64_t missing = 0;
};
} // namespace

Result<std::string> writeKernelPack(const KernelsCommand &command) {
  if (!codegen::findGpu(command.target))
    return usageError("--target: expected a device target (" + codegen::targetNames() + "), got '" + printable(command.target) + "'");
  return PackBuilder(command).run();
}

} // namespace dsv3
