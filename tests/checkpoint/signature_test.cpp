#include "tessera/checkpoint/signature.h"

#include <gmock/gmock.h>

#include "optim/small_table.h"

namespace tessera::checkpoint {
namespace {

model::ModelSpec small_spec() {
  model::ModelSpec spec;
  spec.model_type = "llama";
  spec.hidden_size = 5;
  return spec;
}

TEST(SignatureTest, TellsModelsApart) {
  const ModelSignature signature = model_signature(small_spec(), test::small_table());
  EXPECT_THAT(signature.description, testing::AllOf(testing::StartsWith("llama: 0 layers, hidden 5"), testing::HasSubstr("parameters")));
  model::ModelSpec wider = small_spec();
  wider.hidden_size = 6;
  EXPECT_NE(model_signature(wider, test::small_table()).hash, signature.hash);
  model::ParameterTable table = test::small_table();
  table.parameters[0].pieces[0].tensor_shape = {8, 5};
  EXPECT_NE(model_signature(small_spec(), table).hash, signature.hash);
}

TEST(SignatureTest, DoesNotDependOnPrecisionOrOnHowTensorsAreFused) {
  model::ModelSpec spec = small_spec();
  model::ParameterTable table = test::small_table();
  const ModelSignature signature = model_signature(spec, table);
  spec.dtype = DType::BF16;
  std::swap(table.parameters[0], table.parameters[2]);
  EXPECT_EQ(model_signature(spec, table), signature);
  EXPECT_EQ(signature_from_json(to_json(signature), "manifest.json"), signature);
}

}  // namespace
}  // namespace tessera::checkpoint
