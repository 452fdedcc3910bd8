#include "runtime/core/Hash.h"

#include <cstdio>

// Inlined so that neither the tools nor an artifact needs the library at run time.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace dsv3 {

struct Hasher::State {
  XXH3_state_t xxh;
};

Hasher::Hasher() : state(std::make_unique<State>()) { XXH3_128bits_reset(&state->xxh); }
Hasher::Hasher(Hasher &&) noexcept = default;
Hasher &Hasher::operator=(Hasher &&) noexcept = default;
Hasher::~Hasher() = default;

void Hasher::update(const void *data, size_t bytes) {
  if (bytes)
    XXH3_128bits_update(&state->xxh, data, bytes);
}

std::string Hasher::hex() const {
  XXH128_hash_t hash = XXH3_128bits_digest(&state->xxh);
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", (unsigned long long)hash.high64,
                (unsigned long long)hash.low64);
  return text;
}

std::string hashHex(std::string_view data) {
  Hasher hasher;
  hasher.update(data);
  return hasher.hex();
}

} // namespace dsv3
