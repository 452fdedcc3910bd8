#include "codegen/emit/Ptxas.h"

#include "runtime/core/Json.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

namespace dsv3::codegen {

static std::string readFile(const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  return buffer ? (*buffer)->getBuffer().str() : std::string();
}

/// A fresh file name; the file exists until `remove`.
static Result<std::string> temporaryFile(llvm::StringRef suffix) {
  llvm::SmallString<128> path;
  if (std::error_code error = llvm::sys::fs::createTemporaryFile("dsv3", suffix, path))
    return doesNotFitError("cannot make a temporary file: " + error.message());
  return std::string(path.str());
}

/// The release in "Cuda compilation tools, release 13.0, V13.0.88", or nothing.
static std::string askVersion(const std::string &path) {
  Result<std::string> log = temporaryFile("version");
  if (!log)
    return "";
  llvm::scope_exit clean([&] { llvm::sys::fs::remove(*log); });
  std::optional<llvm::StringRef> redirects[] = {llvm::StringRef(""), llvm::StringRef(*log), llvm::StringRef(*log)};
  if (llvm::sys::ExecuteAndWait(path, {path, "--version"}, std::nullopt, redirects) != 0)
    return "";
  std::string text = readFile(*log);
  llvm::SmallVector<llvm::StringRef, 2> match;
  if (!llvm::Regex("release [0-9.]+, V([0-9.]+)").match(text, &match))
    return "";
  return "ptxas " + match[1].str();
}

Result<std::optional<Assembler>> findAssembler(const std::string &wanted) {
  if (!wanted.empty()) {
    std::string version = askVersion(wanted);
    if (version.empty())
      return unsupportedError("expected '" + wanted + "' to be ptxas, but it does not answer --version as ptxas does");
    return std::optional<Assembler>(Assembler{wanted, version});
  }
  std::vector<std::string> candidates;
  if (auto inPath = llvm::sys::findProgramByName("ptxas"))
    candidates.push_back(*inPath);
  if (const char *home = std::getenv("CUDA_HOME"))
    candidates.push_back(std::string(home) + "/bin/ptxas");
  candidates.push_back("/usr/local/cuda/bin/ptxas");
  for (const std::string &path : candidates)
    if (llvm::sys::fs::can_execute(path))
      if (std::string version = askVersion(path); !version.empty())
        return std::optional<Assembler>(Assembler{path, version});
  return std::optional<Assembler>();
}

/// The number before `unit` in `text`; 0 when it does not occur.
static int64_t numberBefore(llvm::StringRef text, llvm::StringRef unit) {
  llvm::SmallVector<llvm::StringRef, 2> match;
  int64_t number = 0;
  if (llvm::Regex(("([0-9]+) " + unit).str()).match(text, &match))
    match[1].getAsInteger(10, number);
  return number;
}

Result<AssemblerLog> parseAssemblerLog(llvm::StringRef log, llvm::StringRef symbol) {
  AssemblerLog result;
  // C7501..C7599 say that wgmma was serialised; C7001..C7099, and the words, that setmaxnreg was ignored.
  llvm::Regex complaint("\\(C7[05][0-9][0-9]\\)|setmaxnreg.*ignored|wgmma.*serialized");
  bool mine = false, found = false;
  for (llvm::StringRef line : llvm::split(log, '\n')) {
    if (result.complaint.empty() && complaint.match(line))
      result.complaint = printable(line.trim().str(), 300);
    if (line.contains("Function properties for "))
      mine = line.ends_with(("Function properties for " + symbol).str());
    else if (line.contains("Compiling entry function '"))
      mine = line.contains(("Compiling entry function '" + symbol + "'").str());
    if (!mine)
      continue;
    KernelResources &r = result.resources;
    if (line.contains("bytes stack frame")) {
      r.stack = numberBefore(line, "bytes stack frame");
      r.spillStores = numberBefore(line, "bytes spill stores");
      r.spillLoads = numberBefore(line, "bytes spill loads");
    } else if (line.contains("Used ") && line.contains(" registers")) {
      found = true;
      r.registers = numberBefore(line, "registers");
      r.barriers = numberBefore(line, "barriers");
      r.staticShared = numberBefore(line, "bytes smem");
    }
  }
  if (!found)
    return internalError("expected ptxas to name the registers of kernel " + symbol.str() + ", got '" + printable(log.str(), 200) + "'");
  return result;
}

static Status checkHot(const DeviceKernel &kernel, const AssemblerLog &log) {
  const KernelResources &r = log.resources;
  if (!log.complaint.empty())
    return internalError("kernel " + kernel.symbol + ": " + log.complaint);
  if (r.spillStores || r.spillLoads)
    return internalError("kernel " + kernel.symbol + ": expected no spills, ptxas says " + std::to_string(r.spillStores) + " bytes spill stores, " +
                         std::to_string(r.spillLoads) + " bytes spill loads at " + std::to_string(r.registers) + " registers");
  if (r.stack)
    return internalError("kernel " + kernel.symbol + ": expected no local memory, ptxas says " + std::to_string(r.stack) + " bytes stack frame");
  return {};
}

Status assemble(const Assembler &assembler, DeviceKernel &kernel) {
  Result<std::string> input = temporaryFile("ptx"), output = temporaryFile("cubin"), log = temporaryFile("log");
  llvm::scope_exit clean([&] {
    for (Result<std::string> *file : {&input, &output, &log})
      if (*file)
        llvm::sys::fs::remove(**file);
  });
  for (Result<std::string> *file : {&input, &output, &log})
    if (!*file)
      return file->error();
  std::error_code error;
  llvm::raw_fd_ostream os(*input, error);
  if (!error) {
    os << kernel.ptx;
    os.close();
    error = os.error();
    os.clear_error();
  }
  if (error)
    return doesNotFitError("cannot write '" + *input + "': " + error.message());
  llvm::StringRef arguments[] = {assembler.path, "-arch=sm_90a", "-O3", "-v", "-o", *output, *input};
  std::optional<llvm::StringRef> redirects[] = {llvm::StringRef(""), llvm::StringRef(*log), llvm::StringRef(*log)};
  std::string message;
  int rc = llvm::sys::ExecuteAndWait(assembler.path, arguments, std::nullopt, redirects, 0, 0, &message);
  std::string text = readFile(*log);
  if (rc != 0)
    return internalError("kernel " + kernel.symbol + ": ptxas failed: " + printable(message.empty() ? text : message, 300));
  Result<AssemblerLog> parsed = parseAssemblerLog(text, kernel.symbol);
  if (!parsed)
    return parsed.error();
  if (Status s = checkHot(kernel, *parsed); !s)
    return s;
  kernel.resources = parsed->resources;
  kernel.cubin = readFile(*output);
  if (kernel.cubin.empty())
    return internalError("kernel " + kernel.symbol + ": ptxas wrote no code");
  return {};
}

} // namespace dsv3::codegen
