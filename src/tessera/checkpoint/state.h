#pragma once

#include <string>
#include <vector>

#include "tessera/checkpoint/box.h"
#include "tessera/model/parameter_store.h"
#include "tessera/optim/optimizer.h"

/// The memory of a model and its optimizer as boxes of named tensors: of the pieces a rank owns (to save them) or holds (to read them). The boxes
/// point into the store and the optimizer; both live on the CPU.
namespace tessera::checkpoint {

using Pieces = std::vector<model::PlacedPiece>;

inline constexpr const char* kMaster = "master.";
inline constexpr const char* kFirstMoment = "exp_avg.";
inline constexpr const char* kSecondMoment = "exp_avg_sq.";

/// The weights the model computes with, in its dtype, under their Hugging Face names.
std::vector<TensorBox> compute_boxes(const model::ParameterStore& store, const Pieces& pieces);
/// The weights that training goes on from: the masters, or the compute weights of parameters that have none. Names as above.
std::vector<TensorBox> master_boxes(const model::ParameterStore& store, const Pieces& pieces);
/// exp_avg.NAME and exp_avg_sq.NAME of every trainable parameter.
std::vector<TensorBox> moment_boxes(const model::ParameterStore& store, const optim::Optimizer& optimizer, const Pieces& pieces);
/// What optim/ keeps: the moments, and master.NAME where the compute weight is a rounded copy. (Where it is the master itself, model/ has it
/// already.)
std::vector<TensorBox> optimizer_boxes(const model::ParameterStore& store, const optim::Optimizer& optimizer, const Pieces& pieces);

}  // namespace tessera::checkpoint
