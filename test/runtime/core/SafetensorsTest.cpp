#include "TempDir.h"

#include "runtime/core/Safetensors.h"
#include "runtime/core/SafetensorsWriter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <random>
#include <sys/stat.h>
#include <unistd.h>

using namespace dsv3;
using dsv3::test::readAll;
using dsv3::test::TempDir;
using testing::HasSubstr;

namespace {

std::string fileOf(const std::string &header, const std::string &data) {
  std::string out(8, '\0');
  for (int i = 0; i < 8; ++i)
    out[size_t(i)] = char(header.size() >> (8 * i));
  return out + header + data;
}

/// The error of a file with this header and `n` bytes of data.
std::string errorOf(const std::string &header, size_t n = 16) {
  std::string bytes = fileOf(header, std::string(n, '\1'));
  auto content = parseSafetensors(bytes, "m.safetensors");
  if (content)
    return "";
  EXPECT_EQ(content.error().code, ExitCode::BadCheckpoint);
  EXPECT_EQ(content.error().message.find('\n'), std::string::npos);
  return content.error().message;
}

const char *good = R"({"__metadata__": {"format": "pt"},
  "b": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [8, 16]},
  "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
  "none": {"dtype": "F32", "shape": [0, 5], "data_offsets": [8, 8]}})";

} // namespace

TEST(Safetensors, ReadsInDataOrderWithoutCopying) {
  std::string bytes = fileOf(good, "aaaaaaaabbbbbbbb");
  auto content = parseSafetensors(bytes, "m");
  ASSERT_TRUE(bool(content)) << content.error().message;
  ASSERT_EQ(content->tensors.size(), 3u);
  EXPECT_EQ(content->tensors[0].name, "a");
  EXPECT_EQ(content->tensors[1].name, "none");
  EXPECT_EQ(content->tensors[2].data, "bbbbbbbb");
  EXPECT_EQ(content->tensors[2].dtype, DType::BF16);
  EXPECT_EQ(content->tensors[2].shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(content->tensors[0].data.data(), bytes.data() + 8 + std::string(good).size());
  EXPECT_EQ(content->metadata.at("format"), "pt");
}

TEST(Safetensors, ScalarsHaveOneElement) {
  EXPECT_EQ(errorOf(R"({"s": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]}})", 4), "");
}

TEST(Safetensors, RecognisesFilesOfAnotherKind) {
  auto message = [](const std::string &bytes) { return parseSafetensors(bytes, "m").error().message; };
  EXPECT_EQ(message(""), "m: the file is empty");
  EXPECT_THAT(message("version https://git-lfs.github.com/spec/v1\noid"), HasSubstr("git-lfs"));
  EXPECT_THAT(message("\n<!DOCTYPE html><html>"), HasSubstr("web page"));
  EXPECT_THAT(message("<html><body>"), HasSubstr("web page"));
  EXPECT_THAT(message("abc"), HasSubstr("truncated"));
}

TEST(Safetensors, ChecksTheHeader) {
  std::string huge = fileOf("{}", "");
  huge[7] = char(0x80);
  EXPECT_THAT(parseSafetensors(huge, "m").error().message,
              HasSubstr("m: header length is 9223372036854775810, expected at most 100000000"));
  std::string cut = fileOf(good, "").substr(0, 60);
  EXPECT_THAT(parseSafetensors(cut, "m").error().message, HasSubstr("truncated: the header needs"));
  EXPECT_THAT(errorOf("\xff\xff"), HasSubstr("header: not valid JSON"));
  EXPECT_THAT(errorOf("[]"), HasSubstr("header: expected an object"));
  EXPECT_THAT(errorOf(R"({"__metadata__": {"a": 1}})"), HasSubstr("expected strings, got 1"));
  EXPECT_THAT(errorOf(R"({"x": {}, "x": {}})"), HasSubstr("duplicate key \"x\""));
}

TEST(Safetensors, ChecksEveryTensor) {
  auto one = [](const std::string &dtype, const std::string &shape, const std::string &offsets) {
    return errorOf(R"({"x": {"dtype": )" + dtype + R"(, "shape": )" + shape +
                   R"(, "data_offsets": )" + offsets + "}}");
  };
  EXPECT_EQ(one("\"F32\"", "[4]", "[0, 16]"), "");
  EXPECT_EQ(one("\"F4\"", "[4]", "[0, 16]"), "m.safetensors: tensor x: unknown dtype F4");
  EXPECT_THAT(one("3", "[4]", "[0, 16]"), HasSubstr("tensor x: dtype: expected a string, got 3"));
  EXPECT_THAT(one("\"F32\"", "4", "[0, 16]"), HasSubstr("shape: expected a list"));
  EXPECT_THAT(one("\"F32\"", "[-4]", "[0, 16]"), HasSubstr("got -4"));
  EXPECT_THAT(one("\"F32\"", "[4.0]", "[0, 16]"), HasSubstr("got 4.0"));
  EXPECT_THAT(one("\"F32\"", "[18446744073709551615]", "[0, 16]"), HasSubstr("got 18446744073709551615"));
  EXPECT_THAT(one("\"F32\"", "[4294967296, 4294967296, 1]", "[0, 16]"), HasSubstr("overflows"));
  EXPECT_THAT(one("\"F32\"", "[5]", "[0, 16]"), HasSubstr("needs 20 bytes, data_offsets [0, 16) give 16"));
  EXPECT_THAT(one("\"F32\"", "[4]", "[16, 0]"), HasSubstr("end before they begin"));
  EXPECT_THAT(one("\"F32\"", "[4]", "[16, 32]"), HasSubstr("reach beyond the 16 bytes of data"));
  EXPECT_THAT(one("\"F32\"", "[4]", "[0]"), HasSubstr("expected 2 numbers, got 1"));
  EXPECT_THAT(errorOf(R"({"x": 1})"), HasSubstr("tensor x: expected an object, got 1"));
}

TEST(Safetensors, DataMustBeCoveredExactly) {
  EXPECT_THAT(errorOf(R"({"x": {"dtype": "U8", "shape": [10], "data_offsets": [0, 10]},
                          "y": {"dtype": "U8", "shape": [7], "data_offsets": [9, 16]}})"),
              HasSubstr("tensors x and y overlap"));
  EXPECT_THAT(errorOf(R"({"x": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]},
                          "y": {"dtype": "U8", "shape": [8], "data_offsets": [8, 16]}})"),
              HasSubstr("4 bytes before tensor y belong to no tensor"));
  EXPECT_THAT(errorOf(R"({"x": {"dtype": "U8", "shape": [13], "data_offsets": [0, 13]}})"),
              HasSubstr("the last 3 bytes belong to no tensor"));
  EXPECT_THAT(errorOf("{}"), HasSubstr("the last 16 bytes"));
}

TEST(Safetensors, WriterAndReaderAgree) {
  TempDir dir;
  std::string path = dir / "out.safetensors";
  std::vector<SafetensorsWriter::Tensor> tensors = {
      {"z", DType::F32, {2}}, {"a", DType::F8E4M3, {3, 1}}, {"empty", DType::I64, {0}}};
  auto writer = SafetensorsWriter::create(path, tensors, {{"made", "here"}});
  ASSERT_TRUE(bool(writer)) << writer.error().message;
  ASSERT_TRUE(bool(writer->append("12345678", 8)));
  ASSERT_TRUE(bool(writer->append("a", 1)));
  EXPECT_FALSE(std::filesystem::exists(path)) << "the name appears with the whole content";
  EXPECT_EQ(writer->finish().error().code, ExitCode::Internal) << "two bytes are missing";
  ASSERT_TRUE(bool(writer->append("bc", 2)));
  EXPECT_FALSE(writer->append("d", 1)) << "more than declared";
  ASSERT_TRUE(bool(writer->finish()));

  auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(bool(file)) << file.error().message;
  SafetensorsFile moved = std::move(*file);
  ASSERT_NE(moved.find("z"), nullptr);
  EXPECT_EQ(moved.find("z")->data, "12345678");
  EXPECT_EQ(moved.find("a")->data, "abc");
  EXPECT_EQ(moved.find("a")->shape, (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(moved.find("missing"), nullptr);
  EXPECT_EQ(moved.metadata().at("made"), "here");
  EXPECT_EQ((uintptr_t)moved.find("z")->data.data() % 8, 0u);
}

TEST(Safetensors, WriterLeavesNothingBehindAndRefusesNonsense) {
  TempDir dir;
  { auto dropped = SafetensorsWriter::create(dir / "x", {{"t", DType::F32, {4}}}); }
  EXPECT_TRUE(dir.empty());
  EXPECT_FALSE(SafetensorsWriter::create(dir / "x", {{"t", DType::U8, {1}}, {"t", DType::U8, {1}}}));
  EXPECT_FALSE(SafetensorsWriter::create(dir / "x", {{"t", DType::F32, {INT64_MAX, 8}}}));
  auto nowhere = SafetensorsWriter::create(dir / "no/x", {});
  ASSERT_FALSE(nowhere);
  EXPECT_THAT(nowhere.error().message, HasSubstr("cannot create " + (dir / "no/x")));
  EXPECT_TRUE(dir.empty());
}

TEST(Safetensors, WriterHasNoNameUntilItsEnd) {
  TempDir dir;
  int unnamed = ::open(dir.str().c_str(), O_TMPFILE | O_WRONLY, 0600);
  if (unnamed < 0)
    GTEST_SKIP() << "the file system has no unnamed files";
  ::close(unnamed);
  auto writer = SafetensorsWriter::create(dir / "x", {{"t", DType::U8, {1}}});
  ASSERT_TRUE(bool(writer)) << writer.error().message;
  EXPECT_TRUE(dir.empty()) << "a killed process would leave this behind";
  dir.write("x.tmp-" + std::to_string(::getpid()), "left by another process of this number");
  ASSERT_TRUE(bool(writer->append("a", 1)));
  Status done = writer->finish();
  ASSERT_TRUE(bool(done)) << done.error().message;
  EXPECT_TRUE(bool(SafetensorsFile::open(dir / "x")));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.str()), {}), 1);
}

TEST(Safetensors, WriterFollowsLinksAndKeepsWhatIsNoFile) {
  TempDir dir;
  auto writeTo = [](const std::string &path) -> Status {
    auto writer = SafetensorsWriter::create(path, {{"t", DType::U8, {1}}});
    if (!writer)
      return writer.error();
    if (Status ok = writer->append("a", 1); !ok)
      return ok;
    return writer->finish();
  };
  std::filesystem::create_directory(dir / "sub");
  dir.write("sub/old", "replace me");
  for (const char *name : {"old", "new"}) { // a link to a file, and one that dangles
    std::string link = dir / (std::string("link-") + name), file = dir / (std::string("sub/") + name);
    std::filesystem::create_symlink(std::string("sub/") + name, link);
    Status done = writeTo(link);
    ASSERT_TRUE(bool(done)) << done.error().message;
    EXPECT_TRUE(std::filesystem::is_symlink(link));
    EXPECT_TRUE(bool(SafetensorsFile::open(file))) << file;
  }
  std::filesystem::create_symlink("loop", dir / "loop");
  ASSERT_EQ(::mkfifo((dir / "fifo").c_str(), 0600), 0);
  std::filesystem::create_symlink("fifo", dir / "to-fifo");
  const std::pair<std::string, std::string> refused[] = {{dir / "fifo", "got a fifo"},
                                                         {dir / "to-fifo", "got a fifo"},
                                                         {dir / "sub", "got a folder"},
                                                         {"/dev/null", "got a device"},
                                                         {dir / "loop", "leads nowhere"}};
  for (const auto &[path, reason] : refused) {
    Status status = writeTo(path);
    ASSERT_FALSE(bool(status)) << path;
    EXPECT_EQ(status.error().code, ExitCode::Usage);
    EXPECT_THAT(status.error().message, testing::AllOf(HasSubstr(path), HasSubstr(reason)));
  }
  EXPECT_TRUE(std::filesystem::is_fifo(dir / "fifo"));
}

// Whatever the bytes: a value or a one-line error, and every view inside the buffer.
TEST(Safetensors, MutatedFilesNeverCrash) {
  const std::string original = fileOf(good, "aaaaaaaabbbbbbbb");
  const std::string tokens[] = {"-1", "1e99", "18446744073709551616", "[", "]", "{", "}", "\"", ",",
                                "\\u0000", "null", "\"shape\"", "\"a\"", "F64", "8", "0"};
  std::mt19937 random(20240607);
  auto pick = [&](size_t n) { return size_t(random() % n); };
  int accepted = 0;
  for (int round = 0; round < 6000; ++round) {
    std::string bytes = original;
    for (size_t edits = 1 + pick(4); edits--;) {
      size_t at = pick(bytes.size());
      switch (pick(6)) {
      case 0: bytes[at] = char(random()); break;
      case 1: bytes[at] ^= char(1 << pick(8)); break;
      case 2: bytes.erase(at, pick(9)); break;
      case 3: bytes.insert(at, tokens[pick(std::size(tokens))]); break;
      case 4: bytes.insert(at, bytes.substr(pick(bytes.size()), pick(40))); break;
      case 5: bytes.resize(at); break;
      }
      if (bytes.empty())
        bytes = original;
    }
    // Half of the time repair the length, so that the mutation reaches the JSON.
    if (bytes.size() > 24 && pick(2)) {
      size_t length = bytes.size() - 24;
      for (int i = 0; i < 8; ++i)
        bytes[size_t(i)] = char(length >> (8 * i));
    }
    auto content = parseSafetensors(bytes, "m");
    if (!content) {
      ASSERT_EQ(content.error().message.find('\n'), std::string::npos);
      continue;
    }
    ++accepted;
    for (const StoredTensor &t : content->tensors) {
      ASSERT_GE(t.data.data(), bytes.data());
      ASSERT_LE(t.data.data() + t.data.size(), bytes.data() + bytes.size());
      ASSERT_EQ(t.data.size(), *tensorBytes(t.dtype, t.shape));
    }
  }
  // Renamed tensors and changed data are still valid files; if none were accepted the
  // mutations would only ever exercise the first check.
  EXPECT_GT(accepted, 50);
}
