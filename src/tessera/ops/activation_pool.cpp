#include "tessera/ops/activation_pool.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <future>

namespace tessera::ops {

struct ActivationPool::Entry {
  at::Tensor host;            // flat bytes of the pool
  at::TensorOptions options;  // of the tensor
  std::vector<std::int64_t> sizes;
  std::future<at::Tensor> coming;
};

ActivationPool::ActivationPool(std::int64_t most_bytes) : most_bytes_(most_bytes) {}
ActivationPool::~ActivationPool() = default;

std::int64_t ActivationPool::bytes() const {
  std::int64_t bytes = 0;
  for (const at::Tensor& buffer : free_) bytes += buffer.numel();
  for (const std::weak_ptr<Entry>& kept : kept_)
    if (const std::shared_ptr<Entry> entry = kept.lock()) bytes += entry->host.numel();
  return bytes;
}

std::function<at::Tensor()> ActivationPool::keep(const at::Tensor& tensor) {
  const std::int64_t size = tensor.numel() * tensor.element_size();
  auto buffer = std::ranges::find_if(free_, [&](const at::Tensor& free) { return free.numel() >= size; });
  if (buffer == free_.end() && bytes() + size > most_bytes_) return [tensor] { return tensor; };
  auto entry = std::make_shared<Entry>();
  if (buffer == free_.end()) {
    entry->host = at::empty({size}, at::TensorOptions().dtype(at::kByte).pinned_memory(!tensor.is_cpu()));
  } else {
    entry->host = *buffer;
    free_.erase(buffer);
  }
  entry->options = tensor.options();
  entry->sizes = tensor.sizes().vec();
  at::from_blob(entry->host.data_ptr(), entry->sizes, tensor.options().device(at::kCPU)).copy_(tensor);
  std::erase_if(kept_, [](const std::weak_ptr<Entry>& other) { return other.expired(); });
  kept_.push_back(entry);
  return [this, entry] { return take(entry); };
}

void ActivationPool::start(Entry& entry) {
  if (entry.coming.valid()) return;
  entry.coming = std::async(std::launch::async, [&entry] {
    at::Tensor tensor = at::empty(entry.sizes, entry.options);
    tensor.copy_(at::from_blob(entry.host.data_ptr(), entry.sizes, entry.options.device(at::kCPU)));
    return tensor;
  });
}

at::Tensor ActivationPool::take(const std::shared_ptr<Entry>& entry) {
  start(*entry);
  at::Tensor tensor = entry->coming.get();
  free_.push_back(entry->host);
  const auto place = std::ranges::find_if(kept_, [&](const std::weak_ptr<Entry>& other) { return other.lock() == entry; });
  const auto before = kept_.erase(place);
  if (before != kept_.begin())
    if (const std::shared_ptr<Entry> previous = std::prev(before)->lock()) start(*previous);
  return tensor;
}

}  // namespace tessera::ops
