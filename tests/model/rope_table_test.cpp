#include "tessera/model/rope_table.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/rows.h"
#include "support/support.h"
#include "tessera/model/config.h"
#include "tessera/model/rope.h"

namespace tessera::model::test {
namespace {

void expect_angles(const ops::RopeTable& table, std::int64_t token, const RopeSpec& spec, std::int64_t position, std::int64_t document_length) {
  const RopeFrequencies frequencies = rope_frequencies(spec, document_length);
  for (std::size_t pair = 0; pair < frequencies.inverse_frequencies.size(); ++pair) {
    const double angle = static_cast<double>(position) * frequencies.inverse_frequencies[pair];
    const auto element = [&](const at::Tensor& tensor) { return tensor[token][static_cast<std::int64_t>(pair)].item<double>(); };
    EXPECT_NEAR(element(table.cosines_NR), std::cos(angle) * frequencies.attention_factor, 1e-7) << "token " << token;
    EXPECT_NEAR(element(table.sines_NR), std::sin(angle) * frequencies.attention_factor, 1e-7) << "token " << token;
  }
}

RopeSpec longrope() { return read_model_spec(tessera::test::test_data("goldens/phi3_longrope")).ropes.at(0); }

TEST(RopeTable, EachRowsOwnLengthDecides) {
  // Original context 16: the first row is past it, the second is not, whatever the batch is padded to.
  const Batch batch = make_batch({document(17, 1), document(16, 2)}, 20);
  const ops::RopeTable table = rope_table(longrope(), batch.inputs, at::kDouble);
  EXPECT_EQ(table.cosines_NR.size(0), 40);
  EXPECT_EQ(table.cosines_NR.scalar_type(), at::kDouble);
  for (const std::int64_t position : {0, 3, 15}) {
    expect_angles(table, position, longrope(), position, 17);
    expect_angles(table, 20 + position, longrope(), position, 16);
  }
}

TEST(RopeTable, EachDocumentsOwnLengthDecides) {
  const Batch batch = make_batch({pack({document(3, 1), document(19, 2), document(16, 3)})}, 45, 0, true);
  const ops::RopeTable table = rope_table(longrope(), batch.inputs, at::kFloat);
  EXPECT_EQ(table.sines_NR.scalar_type(), at::kFloat);
  expect_angles(table, 2, longrope(), 2, 3);
  expect_angles(table, 3, longrope(), 0, 19);
  expect_angles(table, 21, longrope(), 18, 19);
  expect_angles(table, 22 + 15, longrope(), 15, 16);  // the padding behind the last document is not part of its length
}

TEST(RopeTable, PlainAnglesNeedNoLengths) {
  const RopeSpec spec = read_model_spec(tessera::test::test_data("goldens/qwen3")).ropes.at(0);
  const ops::RopeTable table = rope_table(spec, make_batch({document(300, 1)}).inputs, at::kFloat);
  for (const std::int64_t position : {0, 1, 299}) expect_angles(table, position, spec, position, 300);
}

}  // namespace
}  // namespace tessera::model::test
