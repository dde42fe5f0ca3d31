#pragma once

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <ostream>
#include <string>
#include <vector>

#include "support/support.h"
#include "tessera/ops/parameter.h"
#include "tessera/ops/tape.h"

/// What the operator tests share: an operator runs on a tape in some precision and is held against a plain formula of ATen operators in fp64,
/// differentiated by libtorch's autograd.
namespace tessera::ops::test {
using namespace tessera::test;

/// In what an operator runs, and how far it may be from fp64, relative to the largest expected element (or to 0.1, when all are smaller).
struct Precision {
  at::ScalarType type = at::kFloat;
  double tolerance = 0.0;
  bool shares_gradient = false;  ///< the output's gradient is also read by others, so that nobody may change it
};

inline constexpr Precision kSingle{at::kFloat, 1e-5};
inline constexpr Precision kDouble{at::kDouble, 1e-10};
inline constexpr Precision kHalf{at::kBFloat16, 1.5e-2};

/// fp32 and bf16 take the CPU kernels, fp64 the composites.
inline auto every_precision() {
  return testing::Values(kSingle, Precision{at::kFloat, 1e-5, true}, kDouble, Precision{at::kDouble, 1e-10, true}, kHalf,
                         Precision{at::kBFloat16, 1.5e-2, true});
}
std::string to_string(const Precision& precision);
inline std::string precision_name(const testing::TestParamInfo<Precision>& info) { return to_string(info.param); }
inline void PrintTo(const Precision& precision, std::ostream* stream) { *stream << to_string(precision); }

/// Standard normal numbers, the same in every run, rounded to `type`.
at::Tensor random_tensor(at::IntArrayRef sizes, unsigned seed, at::ScalarType type = at::kDouble);

at::Tensor index_tensor(const std::vector<std::int64_t>& values);

/// Largest difference relative to the largest expected element (at least 0.1); infinite when shapes differ or something is not a number.
double relative_error(const at::Tensor& actual, const at::Tensor& expected);
bool bitwise_equal(const at::Tensor& a, const at::Tensor& b);

/// A parameter with its own gradient buffer, filled with NaN: whatever reads it before writing shows.
Parameter make_parameter(const at::Tensor& weight, bool trainable = true);

/// One operator's comparison: leaves in the precision under test, each with an fp64 twin that requires a gradient.
class Trial {
 public:
  explicit Trial(const Precision& precision) : precision_(precision) {}

  struct Leaf {
    std::string name;
    Variable variable;    ///< activations
    Parameter parameter;  ///< weights
    at::Tensor twin;      ///< fp64
    bool checked = true;
  };
  /// spread · normal + center.
  Leaf& activation(const std::string& name, at::IntArrayRef sizes, double spread = 1.0, double center = 0.0);
  Leaf& weight(const std::string& name, at::IntArrayRef sizes, double spread = 1.0, double center = 0.0, bool trainable = true);

  Tape& tape() { return tape_; }
  /// Compares the operator's output with the formula's, sends the same random gradient back through both, and compares the gradients of every leaf.
  void expect(const Variable& output, const at::Tensor& expected);
  /// For operators that end the tape (losses): the twins already have their gradients.
  void expect_gradients();

 private:
  at::Tensor next_values(at::IntArrayRef sizes, double spread, double center);

  Precision precision_;
  Tape tape_;
  std::deque<Leaf> leaves_;
  unsigned seed_ = 1;
};

}  // namespace tessera::ops::test
