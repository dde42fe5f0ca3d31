#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <cstdint>
#include <memory>

namespace tessera::test {

/// Counts the bytes that libtorch allocates and frees in this thread while it lives.
class AllocationCounter {
 public:
  AllocationCounter() : reporter_(std::make_shared<Reporter>()), guard_(c10::DebugInfoKind::PROFILER_STATE, reporter_) {}
  /// The most that was held at once beyond what was there at the start.
  std::int64_t peak() const { return reporter_->peak; }
  /// Allocated and not freed.
  std::int64_t current() const { return reporter_->current; }

 private:
  struct Reporter : c10::MemoryReportingInfoBase {
    void reportMemoryUsage(void*, std::int64_t size, std::size_t, std::size_t, c10::Device) override {
      current += size;
      peak = std::max(peak, current);
    }
    bool memoryProfilingEnabled() const override { return true; }
    std::int64_t current = 0;
    std::int64_t peak = 0;
  };
  std::shared_ptr<Reporter> reporter_;
  c10::DebugInfoGuard guard_;
};

}  // namespace tessera::test
