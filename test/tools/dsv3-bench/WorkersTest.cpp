// A kernel that takes its process along must not take the run along.
#include "tools/dsv3-bench/Workers.h"

#include <csignal>
#include <gtest/gtest.h>
#include <map>
#include <unistd.h>

using namespace dsv3;
using namespace dsv3::bench;

TEST(WorkersTest, ContinuesBehindACrashAHangAndAWorkerThatGivesUp) {
  std::map<int64_t, std::string> lines, losses;
  Status s = runWorkers(
      7, 0.5,
      [](int64_t first, const std::function<void(const std::string &)> &report) {
        for (int64_t i = first; i < 7; ++i) {
          if (i == 1)
            raise(SIGKILL);
          if (i == 3)
            sleep(30);
          if (i == 5)
            _exit(9);
          report("item " + std::to_string(i));
          if (i == 4)
            return; // the device is broken, its result was told
        }
      },
      [&](int64_t i, const std::string &line) { lines[i] = line; }, [&](int64_t i, const std::string &why) { losses[i] = why; });
  ASSERT_TRUE(s) << s.error().message;
  EXPECT_EQ(lines.size(), 4u);
  for (int64_t i : {0, 2, 4, 6})
    EXPECT_EQ(lines[i], "item " + std::to_string(i));
  EXPECT_NE(losses[1].find("signal"), std::string::npos);
  EXPECT_NE(losses[3].find("the kernel hangs"), std::string::npos);
  EXPECT_NE(losses[5].find("code 9"), std::string::npos);
}
