// Misbehaviour on demand, to test what watches over the engine.
#pragma once

#include "runtime/core/Result.h"

#include <functional>

namespace dsv3::serve {

/// DSV3_FAULT=stall_step:SECONDS: the first step of the engine takes that much longer. Only in builds with the CMake option
/// DSV3_TEST_FAULTS; others refuse the variable, so that nobody believes to test something. Empty when it is not set.
Result<std::function<void()>> faultOfEnvironment();

} // namespace dsv3::serve
