#include "TempDir.h"

#include "runtime/core/Hash.h"
#include "runtime/core/MappedFile.h"
#include "runtime/core/OutputDir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

using namespace dsv3;
using dsv3::test::readAll;
using dsv3::test::TempDir;
using testing::HasSubstr;
namespace fs = std::filesystem;

TEST(MappedFile, MapsTheWholeFileAndSurvivesAMove) {
  TempDir dir;
  auto file = MappedFile::open(dir.write("a", std::string(10000, 'x') + "end"));
  ASSERT_TRUE(bool(file)) << file.error().message;
  std::string_view bytes = file->bytes();
  MappedFile moved = std::move(*file);
  EXPECT_EQ(moved.bytes().data(), bytes.data());
  EXPECT_EQ(bytes.substr(10000), "end");
  EXPECT_TRUE(file->bytes().empty());
}

TEST(MappedFile, AnEmptyFileIsEmpty) {
  TempDir dir;
  auto file = MappedFile::open(dir.write("empty", ""));
  ASSERT_TRUE(bool(file));
  EXPECT_TRUE(file->bytes().empty());
}

TEST(MappedFile, ErrorsNameFileAndReason) {
  TempDir dir;
  auto missing = MappedFile::open(dir / "missing");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ExitCode::BadCheckpoint);
  EXPECT_EQ(missing.error().message, dir / "missing: cannot open: No such file or directory");
  auto folder = MappedFile::open(dir.str());
  ASSERT_FALSE(folder);
  EXPECT_THAT(folder.error().message, HasSubstr("expected a regular file"));
  std::string pipe = dir / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  auto fifo = MappedFile::open(pipe); // nobody writes to it
  ASSERT_FALSE(fifo);
  EXPECT_THAT(fifo.error().message, HasSubstr("expected a regular file"));
}

TEST(Hash, KnownValuesAndStreaming) {
  // The published XXH3-128 of the empty string, seed 0.
  EXPECT_EQ(hashHex(""), "99aa06d3014798d86001c324468d497f");
  std::string data(100000, 'q');
  for (size_t i = 0; i < data.size(); ++i)
    data[i] = char(i * 7);
  Hasher pieces;
  for (size_t at = 0, step = 1; at < data.size(); at += step, step = step * 3 + 1)
    pieces.update(std::string_view(data).substr(at, step));
  EXPECT_EQ(pieces.hex(), hashHex(data));
  data[50000] ^= 1;
  EXPECT_NE(pieces.hex(), hashHex(data));
}

TEST(OutputDir, AppearsOnlyOnCommit) {
  TempDir dir;
  std::string out = dir / "out.dsv3";
  {
    auto output = OutputDir::create(out + "/", {});
    ASSERT_TRUE(bool(output)) << output.error().message;
    EXPECT_EQ(output->path(), out + ".tmp-" + std::to_string(::getpid()));
    std::ofstream(output->path() + "/manifest.json") << "{}";
    EXPECT_FALSE(fs::exists(out));
    ASSERT_TRUE(bool(output->commit()));
  }
  EXPECT_EQ(readAll(out + "/manifest.json"), "{}");
  EXPECT_EQ(std::distance(fs::directory_iterator(dir.str()), {}), 1);
}

TEST(OutputDir, LeavesNothingWithoutCommit) {
  TempDir dir;
  {
    auto output = OutputDir::create(dir / "out", {});
    ASSERT_TRUE(bool(output));
    std::ofstream(output->path() + "/half") << "x";
    OutputDir moved = std::move(*output);
  }
  EXPECT_TRUE(dir.empty());
}

TEST(OutputDir, RefusesAnExistingOutputUnlessForced) {
  TempDir dir;
  std::string out = dir / "out";
  fs::create_directory(out);
  std::ofstream(out + "/manifest.json") << "old";
  auto refused = OutputDir::create(out, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ExitCode::Usage);
  EXPECT_EQ(refused.error().message, out + " exists: use --force to replace it");

  OutputDir::Options force;
  force.force = true;
  auto output = OutputDir::create(out, force);
  ASSERT_TRUE(bool(output));
  EXPECT_EQ(readAll(out + "/manifest.json"), "old") << "the old one stays until commit";
  std::ofstream(output->path() + "/manifest.json") << "new";
  ASSERT_TRUE(bool(output->commit()));
  EXPECT_EQ(readAll(out + "/manifest.json"), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(dir.str()), {}), 1) << "the old one is gone";
}

TEST(OutputDir, ForceSparesWhatIsNotAnOutput) {
  TempDir dir;
  OutputDir::Options force;
  force.force = true;
  fs::create_directory(dir / "home");
  dir.write("home/thesis.tex", "years of work");
  auto folder = OutputDir::create(dir / "home", force);
  ASSERT_FALSE(folder);
  EXPECT_THAT(folder.error().message, HasSubstr("has no manifest.json"));
  auto file = OutputDir::create(dir.write("file", "x"), force);
  ASSERT_FALSE(file);
  fs::create_directory(dir / "empty");
  EXPECT_TRUE(bool(OutputDir::create(dir / "empty", force)));
}

TEST(OutputDir, NamesAnUnusableParent) {
  TempDir dir;
  auto missing = OutputDir::create(dir / "no/such/out", {});
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr(dir / "no/such is not an existing directory"));
  dir.write("file", "");
  auto file = OutputDir::create(dir / "file/out", {});
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().message, HasSubstr(dir / "file is not"));
  // /proc is a directory in which nobody, not even root, can create one.
  auto unwritable = OutputDir::create("/proc/out", {});
  ASSERT_FALSE(unwritable);
  EXPECT_EQ(unwritable.error().code, ExitCode::Usage);
  EXPECT_THAT(unwritable.error().message, HasSubstr("cannot write into /proc: "));
}

TEST(OutputDir, CommitDoesNotReplaceWhatAppearedMeanwhile) {
  TempDir dir;
  auto output = OutputDir::create(dir / "out", {});
  ASSERT_TRUE(bool(output));
  fs::create_directory(dir / "out");
  Status committed = output->commit();
  ASSERT_FALSE(committed);
  EXPECT_THAT(committed.error().message, HasSubstr("exists"));
}
