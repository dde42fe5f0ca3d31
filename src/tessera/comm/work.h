#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

namespace tessera::comm {

/// When an operation was complete, whenever that was noticed; absent when it was as soon as it was issued.
using CompletionTime = std::optional<std::chrono::steady_clock::time_point>;

/// What a backend keeps of an operation under way.
class PendingOperation {
 public:
  virtual ~PendingOperation() = default;
  /// Returns when the operation is complete at this rank; throws what it failed with.
  virtual void wait() = 0;
  virtual bool done() const = 0;
  /// Only when it is done.
  virtual CompletionTime completed() const = 0;
};

/// An operation under way. Its tensors must live and stay untouched until `wait` has returned (the operation holds references to them, so letting go
/// of a tensor is safe). Destroying a Work does not wait. Waiting twice is allowed; so is waiting on a default-constructed one.
class Work {
 public:
  Work() = default;
  explicit Work(std::shared_ptr<PendingOperation> operation) : operation_(std::move(operation)) {}
  void wait() {
    if (!operation_) return;
    operation_->wait();
    completed_ = operation_->completed();
    operation_.reset();
  }
  bool done() const { return !operation_ || operation_->done(); }
  /// Only when it is done; before and after `wait`.
  CompletionTime completed() const { return operation_ ? operation_->completed() : completed_; }

 private:
  std::shared_ptr<PendingOperation> operation_;
  CompletionTime completed_;
};

}  // namespace tessera::comm
