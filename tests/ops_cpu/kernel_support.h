#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "tessera/core/dtype.h"
#include "tessera/ops/cpu/bfloat16.h"
#include "tessera/ops/cpu/isa.h"

/// What the kernel tests share: arrays at odd addresses, conversions, and comparison with fp64 references.
namespace tessera::ops::cpu::test {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

inline double to_double(float value) { return value; }
inline double to_double(bfloat16 value) { return bfloat16_to_float(value.bits); }
inline double to_double(double value) { return value; }
inline void assign(float& target, double value) { target = static_cast<float>(value); }
inline void assign(bfloat16& target, double value) { target.bits = float_to_bfloat16(static_cast<float>(value)); }

/// Numbers of type T that start one element past whatever alignment the allocator gave.
template <class T>
class Array {
 public:
  explicit Array(std::int64_t size, double value = 0.0) : storage_(static_cast<std::size_t>(size) + 1) {
    for (std::int64_t i = 0; i < size; ++i) assign(data()[i], value);
  }
  explicit Array(const std::vector<double>& values) : Array(static_cast<std::int64_t>(values.size())) {
    for (std::int64_t i = 0; i < size(); ++i) assign(data()[i], values[static_cast<std::size_t>(i)]);
  }
  T* data() { return storage_.data() + 1; }
  const T* data() const { return storage_.data() + 1; }
  std::int64_t size() const { return static_cast<std::int64_t>(storage_.size()) - 1; }
  T& operator[](std::int64_t i) { return data()[i]; }
  const T& operator[](std::int64_t i) const { return data()[i]; }
  double at(std::int64_t i) const { return to_double(data()[i]); }
  /// The values as stored: what a reference must start from.
  std::vector<double> values() const {
    std::vector<double> result;
    for (std::int64_t i = 0; i < size(); ++i) result.push_back(at(i));
    return result;
  }

 private:
  std::vector<T> storage_;
};

inline std::vector<double> random_values(std::int64_t size, int seed, double spread = 1.0) {
  std::mt19937 generator(static_cast<unsigned>(seed));
  std::normal_distribution<double> normal(0.0, spread);
  std::vector<double> values(static_cast<std::size_t>(size));
  for (double& value : values) value = normal(generator);
  return values;
}
template <class T>
Array<T> random_array(std::int64_t size, int seed, double spread = 1.0) {
  return Array<T>(random_values(size, seed, spread));
}

/// |actual - expected| <= tolerance * (largest |expected| for fp32; |expected| plus that for bf16, whose own rounding is 2^-9 of each element).
template <class T>
void expect_close(const Array<T>& actual, const std::vector<double>& expected, double tolerance, const std::string& what) {
  ASSERT_EQ(actual.size(), static_cast<std::int64_t>(expected.size())) << what;
  double largest = 1e-30;
  for (double value : expected) {
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  }
  for (std::int64_t i = 0; i < actual.size(); ++i) {
    const double value = expected[static_cast<std::size_t>(i)];
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(actual.at(i))) << what << " [" << i << "] is " << actual.at(i);
      continue;
    }
    if (std::isinf(value)) {
      ASSERT_EQ(actual.at(i), value) << what << " [" << i << "]";
      continue;
    }
    const double rounding = std::is_same_v<T, bfloat16> ? std::fabs(value) / 256.0 : 0.0;
    ASSERT_NEAR(actual.at(i), value, rounding + tolerance * largest) << what << " [" << i << "]";
  }
}

/// Runs body(isa) for every instruction set of this machine.
inline void on_each_isa(const std::function<void(Isa)>& body) {
  for (Isa isa : available_isas()) {
    SCOPED_TRACE(std::string(to_string(isa)));
    body(isa);
  }
}

/// d f / d x[i] by central differences.
inline std::vector<double> numeric_gradient(std::vector<double> x, const std::function<double(const std::vector<double>&)>& f) {
  std::vector<double> gradient;
  for (double& value : x) {
    const double kept = value;
    const double step = 1e-5 * std::max(1.0, std::fabs(kept));
    value = kept + step;
    const double above = f(x);
    value = kept - step;
    const double below = f(x);
    value = kept;
    gradient.push_back((above - below) / (2 * step));
  }
  return gradient;
}

using ElementTypes = ::testing::Types<float, bfloat16>;

}  // namespace tessera::ops::cpu::test
