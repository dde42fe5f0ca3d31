#include "tessera/train/step.h"

#include <ATen/ops/equal.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/support.h"
#include "tessera/model/config.h"
#include "tessera/optim/gradient_norm.h"
#include "train/one_process.h"

namespace tessera::train {
namespace {

using testing::AllOf;
using testing::HasSubstr;

parallel::CausalLM golden_model(const std::string& name = "qwen3") {
  const std::filesystem::path directory = test::test_data("goldens/" + name);
  return parallel::CausalLM::from_pretrained(directory, model::read_model_spec(directory), test::one_process(), {.trainable = true});
}

/// Rows of 16 tokens of which the first `labels[row]` are trained on.
data::Batch batch_with_labels(const std::vector<std::int64_t>& labels, std::int64_t first_number = 0) {
  constexpr std::int64_t kLength = 16;
  data::Batch batch{.rows = static_cast<std::int64_t>(labels.size()), .length = kLength};
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    for (std::int64_t position = 0; position < kLength; ++position) {
      batch.input_ids.push_back((31 * (first_number + row) + 7 * position) % 300);
      batch.labels.push_back(position < labels[static_cast<std::size_t>(row)] ? (position * 13 + row) % 300 : kIgnoredLabel);
      batch.position_ids.push_back(position);
    }
    batch.lengths.push_back(kLength);
    batch.numbers.push_back(first_number + row);
  }
  return batch;
}

std::vector<at::Tensor> copies(const model::ParameterStore& store, at::Tensor model::FlatBuffer::* which) {
  std::vector<at::Tensor> result;
  for (const model::FlatBuffer& buffer : store.buffers()) result.push_back((buffer.*which).clone());
  return result;
}

double largest_difference(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, (a[i] - b[i]).abs().max().item<double>() / b[i].abs().max().item<double>());
  return largest;
}

bool same(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) { return largest_difference(a, b) == 0.0; }

TEST(AccumulateGradients, IsTheMeanOverAllLabelsHoweverTheyAreSpread) {
  parallel::CausalLM model = golden_model();
  const GradientResult whole = accumulate_gradients(model, std::vector{batch_with_labels({15, 1, 0, 7})}, 0);
  const auto expected = copies(*model.model.store, &model::FlatBuffer::gradient);
  EXPECT_EQ(whole.num_label_tokens, 23);
  EXPECT_EQ(whole.num_tokens, 64);
  data::Batch rest = batch_with_labels({1, 0, 7}, 1);
  const data::Batch all = batch_with_labels({15, 1, 0, 7});
  rest.labels.assign(all.labels.begin() + 16, all.labels.end());
  const GradientResult parts = accumulate_gradients(model, std::vector{batch_with_labels({15}), rest}, 0);
  EXPECT_EQ(parts.num_label_tokens, 23);
  EXPECT_NEAR(parts.loss, whole.loss, 1e-6 * whole.loss);
  EXPECT_LE(largest_difference(copies(*model.model.store, &model::FlatBuffer::gradient), expected), 1e-5);
}

TEST(AccumulateGradients, AMicrobatchWithoutLabelsChangesNothing) {
  parallel::CausalLM model = golden_model();
  const GradientResult alone = accumulate_gradients(model, std::vector{batch_with_labels({5, 9})}, 0);
  const auto expected = copies(*model.model.store, &model::FlatBuffer::gradient);
  for (const auto& parts :
       {std::vector{batch_with_labels({0, 0}, 5), batch_with_labels({5, 9})}, std::vector{batch_with_labels({5, 9}), batch_with_labels({0, 0}, 5)}}) {
    EXPECT_EQ(accumulate_gradients(model, parts, 0).loss, alone.loss);
    EXPECT_TRUE(same(copies(*model.model.store, &model::FlatBuffer::gradient), expected));
  }
}

TEST(TrainingStep, WithoutAnyLabelOnlyDecays) {
  parallel::CausalLM model = golden_model();
  optim::Optimizer optimizer(*model.model.store, {});
  const auto before = copies(*model.model.store, &model::FlatBuffer::master);
  const StepResult result =
      training_step(model, optimizer, std::vector{batch_with_labels({0, 0})}, 0, {.learning_rate = 0.1, .weight_decay = 0.5}, 1.0);
  EXPECT_EQ(result.gradients.loss, 0.0);
  EXPECT_EQ(result.gradients.num_label_tokens, 0);
  EXPECT_EQ(result.gradient_norm, 0.0);
  std::vector<at::Tensor> decayed;
  for (const at::Tensor& weights : before) decayed.push_back(weights * 0.95);
  EXPECT_LE(largest_difference(copies(*model.model.store, &model::FlatBuffer::master), decayed), 1e-6);
}

TEST(TrainingStep, ClipsToTheNormAndReportsTheOneBefore) {
  const std::vector<data::Batch> batches = {batch_with_labels({15, 3})};
  const auto trained = [&](std::optional<double> max_norm, double gradient_scale) {
    parallel::CausalLM model = golden_model();
    // An epsilon far above the gradients makes AdamW's step proportional to them, so that clipping shows.
    optim::Optimizer optimizer(*model.model.store, {.epsilon = 1e3});
    const StepResult result =
        training_step(model, optimizer, batches, 0, {.learning_rate = 1e3, .weight_decay = 0.0, .gradient_scale = gradient_scale}, max_norm);
    return std::pair{result.gradient_norm, copies(*model.model.store, &model::FlatBuffer::master)};
  };
  const auto [norm, plain] = trained(std::nullopt, 1.0);
  const auto [norm_when_clipped, clipped] = trained(norm / 4.0, 1.0);
  const auto [norm_by_hand, by_hand] = trained(std::nullopt, 0.25);
  EXPECT_EQ(norm, norm_when_clipped);
  EXPECT_FALSE(same(plain, clipped));
  EXPECT_LE(largest_difference(clipped, by_hand), 1e-6);
  EXPECT_TRUE(same(plain, trained(2.0 * norm, 1.0).second)) << "a larger limit changes no bit";
}

TEST(TrainingStep, StopsAtANumberThatIsNoneAndNamesIt) {
  for (const double poison : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    parallel::CausalLM model = golden_model();
    optim::Optimizer optimizer(*model.model.store, {});
    const std::vector<data::Batch> batches = {batch_with_labels({15, 3})};
    training_step(model, optimizer, batches, 0, {.learning_rate = 1e-3}, 1.0);
    model.model.store->parameter("layers.2.down.weight").weight[0][0].fill_(poison);
    const auto before = copies(*model.model.store, &model::FlatBuffer::compute);
    const std::string error = test::error_of([&] { training_step(model, optimizer, batches, 41, {.learning_rate = 1e-3}, 1.0); });
    EXPECT_THAT(error, AllOf(HasSubstr("step 42"), HasSubstr("loss nan"), HasSubstr("the weight model.layers.2.mlp.down_proj.weight is not finite"),
                             HasSubstr("resume from the last checkpoint")))
        << error;
    EXPECT_EQ(optimizer.num_steps(), 1);
    const auto after = copies(*model.model.store, &model::FlatBuffer::compute);
    for (std::size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(at::allclose(before[i], after[i], 0.0, 0.0, true));
  }
}

TEST(TrainingStep, NamesAGradientWhenTheWeightsAreFine) {
  parallel::CausalLM model = golden_model();
  optim::Optimizer optimizer(*model.model.store, {});
  // Weights of this size overflow in the products of the last block, and only there.
  model.model.store->parameter("layers.3.down.weight").weight.fill_(1e38);
  const std::string error =
      test::error_of([&] { training_step(model, optimizer, std::vector{batch_with_labels({15})}, 0, {.learning_rate = 1e-3}, 1.0); });
  EXPECT_THAT(error, AllOf(HasSubstr("step 1"), HasSubstr("the gradient of model."))) << error;
}

TEST(TrainingStep, LowersTheLoss) {
  for (const char* const name : {"gpt2", "gemma2"}) {
    parallel::CausalLM model = golden_model(name);
    optim::Optimizer optimizer(*model.model.store, {});
    const std::vector<data::Batch> batches = {batch_with_labels({15, 15, 15})};
    double first = 0.0, last = 0.0;
    for (std::uint64_t step = 0; step < 12; ++step) {
      last = training_step(model, optimizer, batches, step, {.learning_rate = 3e-3}, 1.0).gradients.loss;
      if (step == 0) first = last;
    }
    EXPECT_LT(last, 0.8 * first) << name;
  }
}

}  // namespace
}  // namespace tessera::train
