// Errors as values, shared by every part of the project.
//
// A user's mistake never throws, asserts or exits from library code: it travels as
// an `Error` to the tool, which prints one line and returns `code`.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace dsv3 {

/// Exit codes of all command line tools. A contract: scripts rely on them.
enum class ExitCode : int {
  Ok = 0,
  Usage = 2,         ///< wrong flags, ids out of range, prompt longer than the plan
  BadCheckpoint = 3, ///< the input folder or artifact is damaged or contradicts itself
  Unsupported = 4,   ///< well-formed, but something we do not implement
  DoesNotFit = 5,    ///< memory, disk or plan capacity
  Internal = 6,      ///< our fault
  Busy = 7,          ///< well-formed, but too much work waits already: try again later
  Unavailable = 8,   ///< no work is taken any more: draining, or failed
};

/// One line for a person: lower case, "expected X, got Y", names the thing.
struct Error {
  ExitCode code = ExitCode::Internal;
  std::string message;
};

/// A value or an `Error`. `if (!r) return r.error();` passes an error on.
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : storage(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : storage(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const { return storage.index() == 0; }
  T &operator*() { return std::get<0>(storage); }
  const T &operator*() const { return std::get<0>(storage); }
  T *operator->() { return &std::get<0>(storage); }
  const T *operator->() const { return &std::get<0>(storage); }
  const Error &error() const { return std::get<1>(storage); }

private:
  std::variant<T, Error> storage;
};

/// Success or an `Error`.
template <> class [[nodiscard]] Result<void> {
public:
  Result() = default;
  Result(Error error) : failed(true), err(std::move(error)) {}

  explicit operator bool() const { return !failed; }
  const Error &error() const { return err; }

private:
  bool failed = false;
  Error err;
};

using Status = Result<void>;

inline Error usageError(std::string m) { return {ExitCode::Usage, std::move(m)}; }
inline Error checkpointError(std::string m) { return {ExitCode::BadCheckpoint, std::move(m)}; }
inline Error unsupportedError(std::string m) { return {ExitCode::Unsupported, std::move(m)}; }
inline Error doesNotFitError(std::string m) { return {ExitCode::DoesNotFit, std::move(m)}; }
inline Error internalError(std::string m) { return {ExitCode::Internal, std::move(m)}; }
inline Error busyError(std::string m) { return {ExitCode::Busy, std::move(m)}; }
inline Error unavailableError(std::string m) { return {ExitCode::Unavailable, std::move(m)}; }

} // namespace dsv3
