// Writes an artifact around a fake module into a temporary folder.
#pragma once

#include "runtime/core/Json.h"

#include <cstdint>
#include <string>

namespace fake {

/// Removed with the object.
class FakeArtifact {
public:
  /// `module`: path of a shared object built from FakeModule.cpp. `withTokenizer` adds the
  /// example model's. `device`: the path of another, built as the host program of a device: a second
  /// target sm_90a, with files of code that the fake driver takes.
  explicit FakeArtifact(const std::string &module, bool withTokenizer = false, const std::string &device = "");
  ~FakeArtifact();

  const std::string &path() const { return folder; }
  std::string file(const std::string &name) const { return folder + "/" + name; }

  /// The manifest; call writeManifest after a change.
  dsv3::Json manifest;
  void writeManifest() const;

private:
  dsv3::Json addDevice(const std::string &module);
  std::string folder;
};

/// The good module and those with a planted fault, by the names in CMakeLists.txt.
std::string modulePath(const std::string &name = "dsv3_fake_good");

} // namespace fake
