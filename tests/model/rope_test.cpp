#include "tessera/model/rope.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/support.h"
#include "tessera/core/json.h"
#include "tessera/model/config.h"

namespace tessera::model {
namespace {

/// tests/data/model/make_rope.py: fp32 results of transformers.
TEST(Rope, EqualsTransformers) {
  const Json cases = read_json_file(test::test_data("model/rope.json"));
  ASSERT_GE(cases.size(), 11u);
  for (const Json& entry : cases) {
    const RopeSpec spec = model_spec_from_json(entry["config"], entry["name"]).ropes.at(0);
    for (const Json& expected : entry["results"]) {
      SCOPED_TRACE(entry["name"].get<std::string>() + " at length " + expected["length"].dump());
      const RopeFrequencies got = rope_frequencies(spec, expected["length"]);
      EXPECT_NEAR(got.attention_factor, expected["attention_factor"].get<double>(), 1e-12);
      ASSERT_EQ(got.inverse_frequencies.size(), expected["inverse_frequencies"].size());
      for (std::size_t i = 0; i < got.inverse_frequencies.size(); ++i) {
        const double reference = expected["inverse_frequencies"][i];
        EXPECT_NEAR(got.inverse_frequencies[i], reference, 2e-6 * reference) << "pair " << i;
      }
    }
  }
}

TEST(Rope, DependsOnLengthOnlyForDynamicAndLongrope) {
  RopeSpec spec;
  spec.rotary_dim = 8;
  for (const RopeKind kind : {RopeKind::Default, RopeKind::Linear, RopeKind::Yarn, RopeKind::Llama3}) {
    spec.kind = kind;
    EXPECT_FALSE(depends_on_length(spec));
  }
  for (const RopeKind kind : {RopeKind::Dynamic, RopeKind::Longrope}) {
    spec.kind = kind;
    EXPECT_TRUE(depends_on_length(spec));
  }
}

TEST(Rope, DynamicIsPlainWithinTheContextAndStretchesBeyond) {
  RopeSpec spec;
  spec.kind = RopeKind::Dynamic;
  spec.rotary_dim = 16;
  spec.factor = 4.0;
  spec.max_position_embeddings = 100;
  const auto within = rope_frequencies(spec, 100), shorter = rope_frequencies(spec, 3), beyond = rope_frequencies(spec, 200);
  spec.kind = RopeKind::Default;
  EXPECT_EQ(within.inverse_frequencies, rope_frequencies(spec, 1).inverse_frequencies);
  EXPECT_EQ(shorter.inverse_frequencies, within.inverse_frequencies);
  EXPECT_DOUBLE_EQ(beyond.inverse_frequencies.front(), 1.0);
  // The exponent is chosen so that the lowest frequency is divided by factor · length / context − (factor − 1).
  EXPECT_NEAR(within.inverse_frequencies.back() / beyond.inverse_frequencies.back(), 5.0, 1e-12);
}

}  // namespace
}  // namespace tessera::model
