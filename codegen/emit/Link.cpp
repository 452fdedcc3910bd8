// The linker as a child process, and what its output must look like.
#include "codegen/emit/Object.h"

#include "codegen/emit/Parallel.h"

#include "runtime/core/Json.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#ifndef DSV3_LLD
#define DSV3_LLD ""
#endif

using namespace mlir;

namespace dsv3::codegen {

static Result<std::string> findLinker() {
  if (llvm::sys::fs::can_execute(DSV3_LLD))
    return std::string(DSV3_LLD);
  for (const char *name : {"ld.lld-22", "ld.lld"})
    if (auto found = llvm::sys::findProgramByName(name))
      return *found;
  return internalError("expected the linker ld.lld-22 at '" DSV3_LLD "' or in PATH, found none (package lld-22)");
}

static std::string firstLine(const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  return buffer ? printable((*buffer)->getBuffer().split('\n').first.str(), 300) : "no message";
}

Status linkShared(const std::string &object, const std::string &path) {
  Result<std::string> linker = findLinker();
  if (!linker)
    return linker.error();
  std::string input = path + ".o", log = path + ".log";
  llvm::scope_exit clean([&] {
    llvm::sys::fs::remove(input);
    llvm::sys::fs::remove(log);
  });
  std::error_code error;
  llvm::raw_fd_ostream os(input, error);
  if (!error) {
    os << object;
    os.close();
    error = os.error();
    os.clear_error();
  }
  if (error)
    return doesNotFitError("cannot write '" + input + "': " + error.message());
  // Symbols stay in the symbol table, so that profilers and debuggers can name kernels.
  llvm::StringRef arguments[] = {"ld.lld", "-shared", "-nostdlib", "-z", "defs", "-z", "noexecstack", "-z", "now", "--build-id=none",
                                 "--hash-style=gnu", "-o", path, input};
  std::optional<llvm::StringRef> redirects[] = {llvm::StringRef(""), llvm::StringRef(log), llvm::StringRef(log)};
  std::string message;
  int rc = llvm::sys::ExecuteAndWait(*linker, arguments, std::nullopt, redirects, 0, 0, &message);
  if (rc != 0)
    return internalError(*linker + " failed: " + (message.empty() ? firstLine(log) : message));
  return {};
}

Status checkShared(const std::string &path) {
  auto file = llvm::object::ObjectFile::createObjectFile(path);
  if (!file)
    return internalError(path + ": " + llvm::toString(file.takeError()));
  auto *elf = llvm::dyn_cast<llvm::object::ELF64LEObjectFile>(file->getBinary());
  if (!elf)
    return internalError(path + ": expected a 64-bit ELF file");
  std::string undefined, foreign;
  bool entry = false;
  for (const llvm::object::ELFSymbolRef &symbol : elf->getDynamicSymbolIterators()) {
    auto name = symbol.getName();
    auto flags = symbol.getFlags();
    if (!name || !flags)
      return internalError(path + ": " + llvm::toString(name ? flags.takeError() : name.takeError()));
    if (name->empty())
      continue;
    if (*flags & llvm::object::SymbolRef::SF_Undefined)
      undefined += " " + name->str();
    else if (*name == "dsv3_module")
      entry = true;
    else
      foreign += " " + name->str();
  }
  if (!undefined.empty())
    return internalError(path + ": expected no undefined symbols, got" + undefined);
  if (!entry || !foreign.empty())
    return internalError(path + ": expected dsv3_module as the only export, got" + (entry ? " dsv3_module" : "") + foreign);
  auto dynamic = elf->getELFFile().dynamicEntries();
  if (!dynamic)
    return internalError(path + ": " + llvm::toString(dynamic.takeError()));
  for (const auto &tag : *dynamic)
    if (tag.getTag() == llvm::ELF::DT_NEEDED)
      return internalError(path + ": expected no needed libraries");
  return {};
}

static Status emitOne(ModuleOp variantModule, rt::ModuleOp host, const SharedObject &out) {
  const CpuVariant *variant = findCpuVariant(out.variant);
  if (!variant)
    return internalError("expected the name of a code variant, got '" + out.variant + "'");
  Result<std::string> object = compileVariant(variantModule, host, *variant);
  if (!object)
    return object.error();
  if (Status s = linkShared(*object, out.path); !s)
    return s;
  return checkShared(out.path);
}

Result<std::vector<SharedObject>> emitVariants(ModuleOp module, rt::ModuleOp host, const std::string &folder, int jobs) {
  if (Status s = lowerKernels(module); !s)
    return s.error();
  SmallVector<ModuleOp> modules(module.getBody()->getOps<ModuleOp>());
  std::vector<SharedObject> objects;
  for (ModuleOp variant : modules) {
    std::string name = variant.getSymName().value_or("").str();
    objects.push_back({name, folder + "/" + name + ".so"});
  }
  auto emit = [&](size_t i) { return emitOne(modules[i], host, objects[i]); };
  if (Status s = runAll(objects.size(), jobs, emit); !s)
    return s.error();
  return objects;
}

} // namespace dsv3::codegen
