// Training a language model on any number of ranks, from C++ and without a recipe.
//
//   build/tests/training_loop                 one process
//   mpirun -n 2 build/tests/training_loop     two ranks: the same losses, half the work, and half the state, for each
//
// The model is a small llama, and what it learns is to count: every row of a batch starts somewhere and goes on in steps of its own, so that two
// numbers tell all that follow.
#include <fmt/format.h>

#include <exception>
#include <string>
#include <vector>

#include "tessera/comm/initialize.h"
#include "tessera/core/json.h"
#include "tessera/data/collate.h"
#include "tessera/model/config.h"
#include "tessera/parallel/causal_lm.h"
#include "tessera/parallel/setup.h"
#include "tessera/train/step.h"

namespace {

using namespace tessera;

constexpr std::int64_t kVocabulary = 32, kRowLength = 16, kRowsPerStep = 16;
constexpr std::uint64_t kSteps = 30;

/// A model is described as Hugging Face does it. CausalLM::from_pretrained would take the directory of a real one, weights and all.
const std::string kConfig = R"({"model_type": "llama", "vocab_size": 32, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
                               "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 16})";

/// Row `number` of an endless dataset. A label is the token that comes next.
data::Sample counting(std::int64_t number) {
  const std::int64_t start = number * 7, stride = 1 + number % 5;
  data::Sample sample{.input_ids = {}, .labels = {}, .number = number};
  for (std::int64_t position = 0; position < kRowLength; ++position) {
    sample.input_ids.push_back((start + position * stride) % kVocabulary);
    sample.labels.push_back((start + (position + 1) * stride) % kVocabulary);
  }
  return sample;
}

/// What this rank takes of a step's rows: each row goes to one rank, and together they see what a single process would.
data::Batch batch_of(std::uint64_t step, const mesh::MeshContext& mesh) {
  std::vector<data::Sample> samples;
  for (std::int64_t row = mesh.dp_rank(); row < kRowsPerStep; row += mesh.dp_size())
    samples.push_back(counting(static_cast<std::int64_t>(step) * kRowsPerStep + row));
  return data::collate(samples, {});
}

void learn_to_count() {
  // Joins the run that mpirun has started; a process started by hand is a run of one rank.
  const auto backend = comm::initialize_distributed();

  // How ranks share the work. With fsdp2 each keeps a share of weights, gradients and optimizer state and gathers a layer's weights when it needs
  // them; Strategy::Ddp would keep everything everywhere. The code below stays the same.
  const auto setup = parallel::DistributedSetup::build(*backend, {.strategy = config::Strategy::Fsdp2});

  // Weights are functions of the seed and their names, so any number of ranks starts from the same ones, and no rank ever holds them all.
  const model::ModelSpec spec = model::model_spec_from_json(parse_json(kConfig, "the model's config"), "the model's config");
  auto model = parallel::CausalLM::from_config(spec, 1, setup, {.dtype = DType::F32, .trainable = true});
  optim::Optimizer optimizer(*model.model.store, {.betas = {0.9, 0.95}, .epsilon = 1e-6});

  for (std::uint64_t step = 0; step < kSteps; ++step) {
    // Several batches would be several microbatches of one step. Forward, backward, gradients summed over ranks, clipped by their norm, and the
    // update: the loss that comes back is the mean over all labels of all ranks, the same number everywhere.
    const std::vector microbatches{batch_of(step, *setup.mesh)};
    const train::StepResult result = train::training_step(model, optimizer, microbatches, step, {.learning_rate = 4e-3, .weight_decay = 0.01}, 1.0);
    fmt::print("rank {} step {} loss {:.7f} norm {:.6f}\n", setup.rank(), step + 1, result.gradients.loss, result.gradient_norm);
  }
}

}  // namespace

// An error must end the process: a rank that is gone is how the others learn of it.
int main() try {
  learn_to_count();
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
