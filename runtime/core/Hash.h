// 128-bit XXH3: fast content hashes for weights and files (not cryptographic).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace dsv3 {

/// Streaming hasher; any split of the same bytes gives the same hash.
class Hasher {
public:
  Hasher();
  Hasher(Hasher &&) noexcept;
  Hasher &operator=(Hasher &&) noexcept;
  ~Hasher();

  void update(const void *data, size_t bytes);
  void update(std::string_view data) { update(data.data(), data.size()); }

  /// 32 hex digits, most significant first (what `xxhsum -H2` prints).
  std::string hex() const;

private:
  struct State;
  std::unique_ptr<State> state;
};

/// Hash of one piece of memory.
std::string hashHex(std::string_view data);

} // namespace dsv3
