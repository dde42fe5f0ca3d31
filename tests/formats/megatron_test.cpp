#include "tessera/formats/megatron.h"

#include <gmock/gmock.h>

#include "support/support.h"

namespace tessera::formats {
namespace {

using test::error_of;
using test::read_file;
using testing::ElementsAre;
using testing::HasSubstr;

class MegatronFileTest : public testing::Test {
 protected:
  /// Two documents and an empty one between them.
  std::filesystem::path write(MegatronType type) const {
    const auto operations = posix_file_operations();
    MegatronWriter writer(*operations, directory_ / "x", type);
    writer.add_document(std::vector<std::int32_t>{1, 2, 40000});
    writer.add_document({});
    writer.add_document(std::vector<std::int32_t>{7});
    writer.finish();
    return directory_ / "x";
  }
  std::string error_with(const std::string& index, const std::string& tokens) const {
    test::write_file(directory_ / "y.idx", index);
    test::write_file(directory_ / "y.bin", tokens);
    return error_of([&] { MegatronFile(directory_ / "y"); });
  }
  test::TemporaryDirectory directory_;
};

TEST_F(MegatronFileTest, ReadsWhatItWrote) {
  for (const MegatronType type : {MegatronType::U16, MegatronType::I32}) {
    const MegatronFile file(write(type));
    ASSERT_EQ(file.num_sequences(), 2);
    EXPECT_EQ(file.num_documents(), 3);
    EXPECT_EQ(file.num_tokens(), 4);
    std::vector<std::int64_t> tokens;
    file.append(0, 0, 3, tokens);
    EXPECT_THAT(tokens, ElementsAre(1, 2, 40000));
    file.append(0, 2, 3, tokens);
    file.append(1, 0, 1, tokens);
    file.append(1, 1, 1, tokens);
    EXPECT_THAT(tokens, ElementsAre(1, 2, 40000, 40000, 7));
  }
}

/// a.* and b.* were made by Megatron's own IndexedDatasetBuilder (make_megatron_golden.py).
TEST_F(MegatronFileTest, WritesMegatronsBytes) {
  for (const char* const name : {"a", "b"}) {
    const MegatronFile file(test::test_data("data/megatron") / name);
    const auto operations = posix_file_operations();
    MegatronWriter writer(*operations, directory_ / name, file.type());
    const std::string index = read_file(test::test_data("data/megatron") / (std::string(name) + ".idx"));
    for (std::int64_t sequence = 0; sequence < file.num_sequences(); ++sequence) {
      std::vector<std::int64_t> tokens;
      file.append(sequence, 0, file.length(sequence), tokens);
      if (sequence == 60) {  // where the generator put two empty documents
        writer.add_document({});
        writer.add_document({});
      }
      writer.add_document(std::vector<std::int32_t>(tokens.begin(), tokens.end()));
    }
    writer.finish();
    EXPECT_EQ(read_file(directory_ / (std::string(name) + ".bin")), read_file(test::test_data("data/megatron") / (std::string(name) + ".bin")));
    EXPECT_EQ(read_file(directory_ / (std::string(name) + ".idx")), index);
  }
}

TEST_F(MegatronFileTest, ReadsAPublishedFile) {
  const auto path = test::shared_data("data/megatron/meg-gpt2-openwebtext_text_document.idx");
  TESSERA_SKIP_WITHOUT(path);
  const MegatronFile file(path);
  EXPECT_EQ(file.num_documents(), 1000);
  EXPECT_EQ(file.type(), MegatronType::U16);
  std::vector<std::int64_t> tokens;
  file.append(999, 0, file.length(999), tokens);
  EXPECT_EQ(file.num_tokens() * 2, std::filesystem::file_size(path.parent_path() / "meg-gpt2-openwebtext_text_document.bin"));
}

TEST_F(MegatronFileTest, RefusesWhatDoesNotFitTogether) {
  write(MegatronType::I32);
  const std::string index = read_file(directory_ / "x.idx"), tokens = read_file(directory_ / "x.bin");
  EXPECT_THAT(error_with(index, tokens.substr(4)), HasSubstr("y.bin: the file has 12 bytes, its index describes 16"));
  EXPECT_THAT(error_with(index, tokens + "more"), HasSubstr("the file has 20 bytes, its index describes 16"));
  EXPECT_THAT(error_with("nonsense", tokens), HasSubstr("not a Megatron index"));
  for (std::size_t size = 9; size < index.size(); ++size) EXPECT_THAT(error_with(index.substr(0, size), tokens), HasSubstr("y.idx")) << size;
  std::string broken = index;
  broken[17] = 7;
  EXPECT_THAT(error_with(broken, tokens), HasSubstr("tokens of type 7"));
  broken = index;
  broken[34 + 3] = '\x80';  // the first length, negative
  EXPECT_THAT(error_with(broken, tokens), HasSubstr("sequence 0 has length -"));
  broken = index;
  broken[index.size() - 8] = 9;  // the last bound of documents
  EXPECT_THAT(error_with(broken, tokens), HasSubstr("bound 3 of the documents is 9"));
  EXPECT_THAT(error_of([&] { MegatronFile(directory_ / "absent"); }), HasSubstr("absent.idx"));
}

TEST_F(MegatronFileTest, AFileThatShrinksIsAnErrorNotACrash) {
  const MegatronFile file(write(MegatronType::I32));
  std::filesystem::resize_file(directory_ / "x.bin", 0);
  EXPECT_THAT(error_of([&] { file.refuse_shortened(); }), HasSubstr("x.bin: the file has become shorter while it is in use"));
}

TEST(MegatronType, TwoBytesWhereTheyDo) {
  EXPECT_EQ(megatron_type_for(65499), MegatronType::U16);
  EXPECT_EQ(megatron_type_for(65500), MegatronType::I32);
}

}  // namespace
}  // namespace tessera::formats
