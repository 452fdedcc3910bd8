// Ctrl-C leaves no half-written artifact.
#pragma once

#include <string>

namespace dsv3 {

/// Blocks SIGINT, SIGTERM and SIGHUP in the calling thread and all threads it starts later, and waits for them in a
/// thread of its own. Call once, before any other thread exists.
void watchInterrupts();

/// One more folder to remove when a signal comes (one command may use another, whose output is inside its own); empty: the last
/// one named stays. The process then ends with 128 + the signal's number.
void removeOnInterrupt(const std::string &folder);

} // namespace dsv3
