#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/model/parameter_store.h"

namespace tessera::optim {

/// Sum of the squares of every gradient this rank owns: elements squared and added in fp64, in a fixed order. Ranks that own different elements add
/// theirs; the square root of all is the norm over all parameters as one vector.
double sum_of_squared_gradients(const model::ParameterStore& store);

/// What torch.nn.utils.clip_grad_norm_ multiplies gradients by: min(1, max_norm / (norm + 1e-6)); 1 without a max_norm.
double clip_coefficient(double norm, std::optional<double> max_norm);

/// A gradient element that is not a finite number.
struct NonFiniteGradient {
  std::string parameter;     ///< in the parameter table
  std::string tensor;        ///< Hugging Face name
  std::int64_t element = 0;  ///< in the local parameter, row-major
  double value = 0.0;        ///< NaN or an infinity
};
/// "the gradient of model.norm.weight is NaN (element 3)".
std::string to_string(const NonFiniteGradient& found);
/// The first one this rank owns, in the order of the buffers; nullopt when all are finite. Costs a pass over the gradients: ask when the norm is not
/// finite.
std::optional<NonFiniteGradient> find_nonfinite_gradient(const model::ParameterStore& store);

}  // namespace tessera::optim
