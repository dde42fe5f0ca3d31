#pragma once

#include <cstdint>

#include "tessera/ops/cpu/bfloat16.h"
#include "tessera/ops/cpu/isa.h"

/// Rows that go to several places and come back: tokens and their experts. Pair p says that a row of [rows, width] is row place[p] of [count, width];
/// the pairs of row r are those from starts[r] to starts[r + 1].
namespace tessera::ops::cpu {

/// output[r, :] = sum over the pairs p of row r of weights[p] · input[places[p], :], in fp32 and in the order of p, rounded to T once. Pairs with
/// places[p] < 0 count nothing. Without weights each counts once.
template <class T>
struct SumOfPlaces {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  const std::int64_t* starts = nullptr;  ///< [rows + 1]
  const std::int64_t* places = nullptr;  ///< [starts[rows]]
  const float* weights = nullptr;        ///< likewise, or null
  const T* input = nullptr;
  T* output = nullptr;  ///< [rows, width]
};
template <class T>
void sum_of_places(const SumOfPlaces<T>& args, Isa isa = best_isa());

/// output[i, :] = weights[pairs[i]] · input[rows[i], :], rounded once; without weights a copy. With `partner`, also
/// dots[pairs[i]] = Σ_c input[rows[i], c] · partner[i, c] in fp32, whose order does not depend on the number of threads.
template <class T>
struct RowsToPlaces {
  std::int64_t count = 0;
  std::int64_t width = 0;
  const std::int64_t* rows = nullptr;   ///< [count]
  const std::int64_t* pairs = nullptr;  ///< [count]; only read with weights or a partner
  const float* weights = nullptr;       ///< or null
  const T* input = nullptr;
  T* output = nullptr;         ///< [count, width]
  const T* partner = nullptr;  ///< [count, width], or null
  float* dots = nullptr;       ///< by pair; only with a partner
};
template <class T>
void rows_to_places(const RowsToPlaces<T>& args, Isa isa = best_isa());

}  // namespace tessera::ops::cpu
