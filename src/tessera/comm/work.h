#pragma once

#include <memory>
#include <utility>

namespace tessera::comm {

/// What a backend keeps of an operation under way.
class PendingOperation {
 public:
  virtual ~PendingOperation() = default;
  /// Returns when the operation is complete at this rank; throws what it failed with.
  virtual void wait() = 0;
  virtual bool done() const = 0;
};

/// An operation under way. Its tensors must live and stay untouched until `wait` has returned (the operation holds references to them, so letting go
/// of a tensor is safe). Destroying a Work does not wait. Waiting twice is allowed; so is waiting on a default-constructed one.
class Work {
 public:
  Work() = default;
  explicit Work(std::shared_ptr<PendingOperation> operation) : operation_(std::move(operation)) {}
  void wait() {
    if (operation_) operation_->wait();
    operation_.reset();
  }
  bool done() const { return !operation_ || operation_->done(); }

 private:
  std::shared_ptr<PendingOperation> operation_;
};

}  // namespace tessera::comm
