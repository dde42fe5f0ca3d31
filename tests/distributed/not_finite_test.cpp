// What is not a number is named by all ranks alike: the tensor, and the rank that has it.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <limits>

#include "distributed/ranks.h"
#include "distributed/trajectory.h"
#include "support/support.h"
#include "tessera/comm/values.h"
#include "tessera/model/config.h"
#include "tessera/train/not_finite.h"
#include "tessera/train/step.h"

namespace tessera::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

data::Batch one_row() {
  data::Batch batch{.rows = 1, .length = 8};
  for (std::int64_t position = 0; position < batch.length; ++position) {
    batch.input_ids.push_back(position * 7);
    batch.labels.push_back(position * 5);
    batch.position_ids.push_back(position);
  }
  batch.lengths = {batch.length};
  batch.numbers = {backend().rank()};
  return batch;
}

struct NotFiniteLayout {
  std::string name;
  config::Distributed distributed;
};

std::vector<NotFiniteLayout> not_finite_layouts() {
  return {{"ddp", {.strategy = config::Strategy::Ddp}}, {"fsdp2", {}}, {"tp", {.sizes = {.tp_size = 2}}}};
}

parallel::CausalLM make_model(const parallel::DistributedSetup& setup) {
  return parallel::CausalLM::from_pretrained(golden_directory("qwen3"), model::read_model_spec(golden_directory("qwen3")), setup,
                                             {.dtype = DType::F32, .trainable = true});
}

/// The last tensor that rank 1 owns a part of, as every rank knows it.
model::PlacedPiece last_of_rank_one(const model::ParameterStore& store) { return store.owned_pieces().back(); }

std::string name_at_rank_one(const std::string& own) { return comm::gather(*world_communicator(), own)[1]; }

RANKS_TEST(NotFinite, AGradientIsNamedWithItsRank, 2) {
  for (const NotFiniteLayout& layout : not_finite_layouts()) {
    SCOPED_TRACE(layout.name);
    const auto setup = parallel::DistributedSetup::build(backend(), layout.distributed);
    parallel::CausalLM model = make_model(setup);
    const model::ParameterStore& store = *model.model.store;
    train::accumulate_gradients(model, std::vector{one_row()}, 0);
    const model::PlacedPiece piece = last_of_rank_one(store);
    const model::FlatBuffer& buffer = store.buffers()[piece.buffer];
    if (backend().rank() == 1) buffer.gradient_shard[piece.begin - buffer.held.begin + 1] = kNotANumber;
    const std::string error = error_of([&] { train::fail_not_finite(model, {.gradients = {.loss = 2.0}, .gradient_norm = kNotANumber}, 6); });
    const std::string expected = fmt::format("the gradient of {} is NaN (element {} of {}) (seen by rank 1)", piece.piece.tensor,
                                             piece.piece.row * piece.row_size + 1, store.table().parameters[piece.parameter].name);
    EXPECT_THAT(error, AllOf(HasSubstr("step 7"), HasSubstr("loss 2 and gradient norm nan"), HasSubstr(name_at_rank_one(expected))));
  }
}

/// A bad weight spoils every gradient at every rank.
RANKS_TEST(NotFinite, AWeightIsNamedWithItsRank, 2) {
  for (const NotFiniteLayout& layout : not_finite_layouts()) {
    SCOPED_TRACE(layout.name);
    const auto setup = parallel::DistributedSetup::build(backend(), layout.distributed);
    parallel::CausalLM model = make_model(setup);
    optim::Optimizer optimizer(*model.model.store, {});
    const model::PlacedPiece piece = last_of_rank_one(*model.model.store);
    if (backend().rank() == 1) model::held_view(*model.model.store, piece).flatten()[0] = kNotANumber;
    model.engine->weights_changed();
    const std::string error = error_of([&] { train::training_step(model, optimizer, std::vector{one_row()}, 0, {.learning_rate = 1e-3}, 1.0); });
    EXPECT_THAT(error, AllOf(HasSubstr("step 1"), HasSubstr("loss nan"),
                             HasSubstr(name_at_rank_one("the weight " + piece.piece.tensor + " is not finite (seen by rank 1)"))));
    EXPECT_EQ(optimizer.num_steps(), 0);
  }
}

}  // namespace
}  // namespace tessera::test
