#include "tools/dsv3-bench/Workers.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace dsv3::bench {

namespace {
/// A child and the pipe it reports through.
struct Child {
  pid_t pid = -1;
  int fd = -1;
};

Result<Child> start(int64_t first, const WorkerFn &work) {
  int ends[2];
  if (pipe(ends) != 0)
    return internalError(std::string("cannot make a pipe: ") + std::strerror(errno));
  std::fflush(nullptr); // else both processes print what is buffered
  pid_t pid = fork();
  if (pid < 0)
    return internalError(std::string("cannot start a process: ") + std::strerror(errno));
  if (pid == 0) {
    close(ends[0]);
    work(first, [&](const std::string &line) {
      std::string text = line + "\n";
      for (size_t at = 0; at < text.size();) {
        ssize_t n = write(ends[1], text.data() + at, text.size() - at);
        if (n <= 0)
          _exit(1);
        at += size_t(n);
      }
    });
    _exit(0); // no destructors: the driver's may hang in a process whose GPU context is broken
  }
  close(ends[1]);
  return Child{pid, ends[0]};
}

/// The next line of the child; false at its end or when it was silent too long.
bool readLine(const Child &child, double seconds, std::string &pending, std::string &line, bool &silent) {
  while (true) {
    if (size_t end = pending.find('\n'); end != std::string::npos) {
      line = pending.substr(0, end);
      pending.erase(0, end + 1);
      return true;
    }
    pollfd wait{child.fd, POLLIN, 0};
    int ready = poll(&wait, 1, int(seconds * 1000));
    if (ready < 0 && errno == EINTR)
      continue;
    silent = ready == 0;
    if (ready <= 0)
      return false;
    char buffer[4096];
    ssize_t n = read(child.fd, buffer, sizeof buffer);
    if (n <= 0)
      return false;
    pending.append(buffer, size_t(n));
  }
}

std::string ended(int status) {
  if (WIFSIGNALED(status))
    return std::string("the process was ended by signal ") + strsignal(WTERMSIG(status));
  return "the process ended with code " + std::to_string(WEXITSTATUS(status));
}
} // namespace

Status runWorkers(int64_t count, double seconds, const WorkerFn &work, const std::function<void(int64_t, const std::string &)> &onLine,
                  const std::function<void(int64_t, const std::string &)> &onLoss) {
  for (int64_t next = 0; next < count;) {
    Result<Child> child = start(next, work);
    if (!child)
      return child.error();
    int64_t first = next;
    std::string pending, line;
    bool silent = false;
    while (next < count && readLine(*child, seconds, pending, line, silent))
      onLine(next++, line);
    if (silent)
      kill(child->pid, SIGKILL);
    int status = 0;
    waitpid(child->pid, &status, 0);
    close(child->fd);
    bool clean = !silent && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (next < count && (!clean || next == first)) // a clean end behind at least one item asks for a fresh process only
      onLoss(next++, silent ? "no result within " + std::to_string(int64_t(seconds)) + " s: the kernel hangs" : ended(status));
  }
  return {};
}

} // namespace dsv3::bench
