#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "distributed/ranks.h"
#include "tessera/config/sections/distributed.h"
#include "tessera/core/json.h"
#include "tessera/model/decoder.h"

/// Training runs of the golden models, to compare one way of sharing the work with another.
namespace tessera::test {

using Tensors = std::map<std::string, at::Tensor>;

/// What is trained, and how. Rows are ragged: some have no label at all, so that some ranks and microbatches have none.
struct TrainingCase {
  std::string model;   ///< a directory of goldens
  std::string layout;  ///< a name for `distributed`
  config::Distributed distributed = {};
  std::int64_t accumulation = 1;
  model::ActivationCheckpointing checkpointing = model::ActivationCheckpointing::None;
  DType dtype = DType::F32;
  bool packed = false;          ///< rows of several documents
  bool dropout = false;         ///< of embeddings, attention weights and branches
  std::int64_t vocab_size = 0;  ///< random weights of another vocabulary; 0: the golden's own weights
  std::int64_t rows = 24;       ///< of a step
  std::int64_t length = 20;     ///< of a row; packed ones need 18
  std::int64_t steps = 10;
  bool indifferent_routers = false;  ///< their weights begin at zero
  model::RoutingOptions routing = {};
  double bias_update = 0.0;              ///< of correction biases
  Json config = {};                      ///< random weights of this model, which `model` only names; null: the golden
  std::vector<std::string> frozen = {};  ///< parameters whose names contain one of these are not trained
  /// Of weights after ten steps in fp32. Rounding grows on the way: Adam divides by what is nearly zero, and one process itself ends 4e-6 to 2.5e-5
  /// away from fp64. What a wrong sum would do shows in the gradients of the first step, and in fp64.
  double weight_tolerance = 2e-5;
  double norm_tolerance = 1e-5;  ///< likewise of the gradient norms on the way

  std::string name() const;
};

/// What a run leaves behind, in fp64.
struct Trajectory {
  Tensors gradients;  ///< of the first step
  std::vector<double> losses, norms;
  Tensors weights;  ///< after the last
};

/// AdamW with eps 1e-6: with less, Adam turns the rounding noise of gradients near zero into steps. Every rank of the backend calls it.
Trajectory run(const TrainingCase& c, comm::Backend& backend);

/// Expects of the case over the ranks of this test what one process gives: gradients of the first step, losses and norms of all, weights after them.
/// fp64: to 1e-9, far below what any mistake leaves and above all rounding. fp32: to 1e-5. bf16: no further from fp64 than one process is.
void expect_parity(const TrainingCase& c);
void expect_parity(const std::vector<TrainingCase>& cases);

/// Where a golden lies: committed, or beside the checkout. May not exist.
std::filesystem::path golden_directory(const std::string& model);
/// Those that exist of the dense goldens that differ in their parameters.
std::vector<std::string> golden_models();
/// A sample of `count` that differs between numbers of ranks and not between runs.
std::vector<TrainingCase> sample(std::vector<TrainingCase> cases, std::size_t count);
/// Of these cases so many that any two settings (this model with that recomputation, tp 2 with cp 4) which occur together in one of them do so in one
/// of those chosen.
std::vector<TrainingCase> covering_pairs(const std::vector<TrainingCase>& cases);

}  // namespace tessera::test
