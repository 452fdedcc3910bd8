// The byte-level alphabet of GPT-2 style vocabularies: every byte has one printable
// character, so that tokens can be stored in JSON whatever bytes they hold.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dsv3::text {

/// The bytes a vocabulary entry stands for, or nothing when it holds a character
/// outside the alphabet (as the names of special tokens do). `token` is valid UTF-8.
///
/// The alphabet: bytes 0x21..0x7E, 0xA1..0xAC and 0xAE..0xFF stand for themselves as
/// code points; the 68 others take U+0100 onwards, in increasing order (so that a
/// space is U+0120, "Ġ"). Source: Radford et al., GPT-2, 2019.
std::optional<std::string> bytesOfToken(std::string_view token);

/// As `bytesOfToken`, but text outside the alphabet stands for its own UTF-8 bytes:
/// the rule of HuggingFace's ByteLevel decoder, applied to added tokens too.
std::string bytesOfTokenOrText(std::string_view token);

} // namespace dsv3::text
