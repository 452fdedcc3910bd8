// Boost.Asio and Boost.Beast as this folder uses them: C++20 coroutines on one thread.
#pragma once

#include <utility> // Asio 1.74 forgets it

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <memory>
#include <optional>
#include <type_traits>

namespace dsv3::server {

namespace asio = boost::asio;
using asio::awaitable;
using tcp = asio::ip::tcp;
using SystemError = boost::system::error_code;

/// `co_await socket.async_x(..., into(error))`: errors as values.
inline auto into(SystemError &error) { return asio::redirect_error(asio::use_awaitable, error); }

/// Lets coroutines of one thread wait for something that handlers on the same thread do.
class Signal {
public:
  explicit Signal(const asio::any_io_executor &executor) : timer(executor, asio::steady_timer::time_point::max()) {}

  /// Wakes whoever waits; forgotten when nobody does. So: check the condition, then wait, in a loop.
  void notify() { timer.cancel(); }

  awaitable<void> wait() {
    SystemError ignored;
    co_await timer.async_wait(into(ignored));
  }

private:
  asio::steady_timer timer;
};

/// Runs `work` on the pool; the coroutine goes on where it was with the result.
template <typename Work> awaitable<std::invoke_result_t<Work>> offload(asio::thread_pool &pool, Work work) {
  auto executor = co_await asio::this_coro::executor;
  using T = std::invoke_result_t<Work>;
  struct Shared {
    explicit Shared(const asio::any_io_executor &e) : done(e) {}
    std::optional<T> result;
    Signal done;
  };
  auto shared = std::make_shared<Shared>(executor);
  asio::post(pool, [shared, executor, work = std::move(work)]() mutable {
    auto result = std::make_shared<T>(work());
    asio::post(executor, [shared, result] {
      shared->result.emplace(std::move(*result));
      shared->done.notify();
    });
  });
  while (!shared->result)
    co_await shared->done.wait();
  co_return std::move(*shared->result);
}

} // namespace dsv3::server
