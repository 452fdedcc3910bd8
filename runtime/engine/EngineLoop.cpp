#include "runtime/engine/EngineLoop.h"

#include <utility>

namespace dsv3 {

EngineLoop::EngineLoop(Engine &engine, Options given)
    : engine(engine), options(std::move(given)), inbox(engine, options.maxQueued), thread([this] { run(); }) {}

EngineLoop::~EngineLoop() {
  inbox.close();
  thread.join();
}

bool EngineLoop::stuck() const {
  Clock::rep start = stepStart.load();
  return start != 0 && Clock::now().time_since_epoch() - Clock::duration(start) > options.watchdog;
}

Status EngineLoop::runStep() {
  stepStart = Clock::now().time_since_epoch().count();
  if (options.beforeStep)
    options.beforeStep();
  Status s = engine.step();
  stepStart = 0;
  return s;
}

void EngineLoop::run() {
  for (bool goOn = true; goOn;) {
    goOn = inbox.wait();
    inbox.deliver();
    if (!goOn) {
      engine.finishAll(FinishReason::Cancelled);
    } else if (inbox.failure()) { // what came while the engine failed
      engine.finishAll(FinishReason::Error);
    } else if (engine.hasWork()) {
      if (Status s = runStep(); !s) {
        inbox.fail(s.error()); // first, so that a callback that submits again is told
        engine.finishAll(FinishReason::Error);
      }
    }
    inbox.publish();
  }
}

} // namespace dsv3
