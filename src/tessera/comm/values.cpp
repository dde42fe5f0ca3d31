#include "tessera/comm/values.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <fmt/format.h>

#include <exception>
#include <numeric>

#include "tessera/core/error.h"

namespace tessera::comm {
namespace {

template <class T>
std::vector<T> sum_in_place(Communicator& group, std::vector<T> values, at::ScalarType type) {
  if (group.size() == 1) return values;
  const at::Tensor view = at::from_blob(values.data(), {static_cast<std::int64_t>(values.size())}, type);
  group.all_reduce(view).wait();
  return values;
}

}  // namespace

std::vector<double> sum(Communicator& group, std::vector<double> values) { return sum_in_place(group, std::move(values), at::kDouble); }

std::vector<std::int64_t> sum(Communicator& group, std::vector<std::int64_t> values) { return sum_in_place(group, std::move(values), at::kLong); }

std::vector<std::int64_t> equal_counts(const Communicator& group, std::int64_t elements) {
  return std::vector<std::int64_t>(static_cast<std::size_t>(group.size()), elements);
}

std::vector<std::string> gather(Communicator& group, const std::string& text) {
  const auto ranks = static_cast<std::size_t>(group.size());
  std::vector<std::int64_t> sizes(ranks, 0);
  sizes[static_cast<std::size_t>(group.rank())] = static_cast<std::int64_t>(text.size());
  sizes = sum(group, sizes);
  const at::Tensor own = at::from_blob(const_cast<char*>(text.data()), {static_cast<std::int64_t>(text.size())}, at::kByte);
  const at::Tensor all = at::empty({std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0})}, at::kByte);
  group.all_gather(own, sizes, all).wait();
  std::vector<std::string> texts;
  const auto* next = static_cast<const char*>(all.data_ptr());
  for (const std::int64_t size : sizes) {
    texts.emplace_back(next, static_cast<std::size_t>(size));
    next += size;
  }
  return texts;
}

/// How an error's text begins (core/error.h).
constexpr std::string_view kError = "error: ";

void together(Communicator& group, const std::function<void()>& work) {
  std::exception_ptr own;
  std::string message;
  try {
    work();
  } catch (const std::exception& error) {
    own = std::current_exception();
    message = error.what();
    if (message.empty()) message = "it failed";
  }
  const std::vector<std::string> messages = gather(group, message);
  if (own) std::rethrow_exception(own);
  for (std::size_t rank = 0; rank < messages.size(); ++rank)
    if (!messages[rank].empty())
      throw Failure(
          {fmt::format("rank {}", group.members()[rank]), messages[rank].substr(messages[rank].starts_with(kError) ? kError.size() : 0), "", ""});
}

}  // namespace tessera::comm
