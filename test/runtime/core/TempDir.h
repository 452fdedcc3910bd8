// A folder that lives as long as one test.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace dsv3::test {

class TempDir {
public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "dsv3-test-XXXXXX").string();
    if (!::mkdtemp(pattern.data()))
      std::abort();
    path = pattern;
  }
  ~TempDir() {
    std::error_code ec;
    std::filesystem::remove_all(path, ec);
  }
  TempDir(const TempDir &) = delete;
  TempDir &operator=(const TempDir &) = delete;

  std::string operator/(const std::string &name) const { return (path / name).string(); }
  std::string str() const { return path.string(); }

  std::string write(const std::string &name, const std::string &content) const {
    std::ofstream(path / name, std::ios::binary) << content;
    return *this / name;
  }
  bool empty() const { return std::filesystem::is_empty(path); }

private:
  std::filesystem::path path;
};

inline std::string readAll(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream out;
  out << in.rdbuf();
  return out.str();
}

} // namespace dsv3::test
