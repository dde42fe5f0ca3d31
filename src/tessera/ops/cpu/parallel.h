#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace tessera::ops::cpu {

/// Calls fn(first, last) on disjoint contiguous pieces that cover [begin, end), each of at least `grain` elements (the last may be smaller),
/// on up to omp_get_max_threads() threads: at::set_num_threads and OMP_NUM_THREADS decide. Runs inline when there is one piece or when
/// already inside a parallel region. `fn` must not throw. A caller whose result depends on how pieces are cut must cut them itself.
template <class Function>
void parallel_for(std::int64_t begin, std::int64_t end, std::int64_t grain, const Function& fn) {
  const std::int64_t size = end - begin;
  if (size <= 0) return;
  const std::int64_t most = (size + std::max<std::int64_t>(grain, 1) - 1) / std::max<std::int64_t>(grain, 1);
  const auto threads = static_cast<int>(std::min<std::int64_t>(most, omp_in_parallel() ? 1 : omp_get_max_threads()));
  if (threads <= 1) {
    fn(begin, end);
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    const std::int64_t count = omp_get_num_threads();
    const std::int64_t index = omp_get_thread_num();
    const std::int64_t first = begin + size * index / count;
    const std::int64_t last = begin + size * (index + 1) / count;
    if (first < last) fn(first, last);
  }
}

/// How many threads parallel_tasks will use at most for `count` items.
[[gnu::always_inline]] inline int parallel_workers(std::int64_t count) {
  return static_cast<int>(std::max<std::int64_t>(1, std::min<std::int64_t>(count, omp_in_parallel() ? 1 : omp_get_max_threads())));
}

/// Calls fn(index, worker) for every index of [0, count), each on whichever of the `workers` (from parallel_workers) threads is free next:
/// for work items of unequal cost. worker < workers says which thread it is, to pick its scratch memory.
template <class Function>
void parallel_tasks(std::int64_t count, int workers, const Function& fn) {
  if (workers <= 1) {
    for (std::int64_t index = 0; index < count; ++index) fn(index, 0);
    return;
  }
#pragma omp parallel for schedule(dynamic, 1) num_threads(workers)
  for (std::int64_t index = 0; index < count; ++index) fn(index, omp_get_thread_num());
}

}  // namespace tessera::ops::cpu
