#include "Fault.h"

#include "runtime/core/Json.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace dsv3::serve {

Result<std::function<void()>> faultOfEnvironment() {
  const char *fault = std::getenv("DSV3_FAULT");
  if (!fault)
    return std::function<void()>();
#ifdef DSV3_TEST_FAULTS
  const char prefix[] = "stall_step:";
  char *end = nullptr;
  bool known = std::strncmp(fault, prefix, std::strlen(prefix)) == 0;
  double seconds = known ? std::strtod(fault + std::strlen(prefix), &end) : 0;
  if (!known || *end || !(seconds > 0 && seconds < 1e6))
    return usageError("DSV3_FAULT: expected stall_step:SECONDS, got \"" + printable(fault) + "\"");
  return std::function<void()>([seconds, stalled = false]() mutable {
    if (!std::exchange(stalled, true))
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  });
#else
  return usageError("DSV3_FAULT: expected a build with the CMake option DSV3_TEST_FAULTS, got \"" + printable(fault) + "\"");
#endif
}

} // namespace dsv3::serve
