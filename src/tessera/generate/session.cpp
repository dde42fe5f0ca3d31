#include "tessera/generate/session.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "tessera/core/error.h"
#include "tessera/model/rope.h"

namespace tessera::generate {
namespace {

/// Whether a text's rotary angles change as it grows from one length to another.
bool angles_change(const model::ModelSpec& spec, std::int64_t from, std::int64_t to) {
  const auto changes = [&](const model::RopeSpec& rope) {
    return model::depends_on_length(rope) &&
           model::rope_frequencies(rope, from).inverse_frequencies != model::rope_frequencies(rope, to).inverse_frequencies;
  };
  return spec.position == model::PositionKind::Rope && std::ranges::any_of(spec.ropes, changes);
}

std::unique_ptr<KeyValueCache> make_cache(const model::CausalLM& model, std::int64_t capacity) {
  return std::make_unique<KeyValueCache>(model.spec, capacity, model.store->parameter("embedding.weight").compute_type());
}

}  // namespace

Session::Session(const model::CausalLM& model, std::int64_t capacity) : Session(model, make_cache(model, capacity)) {}

Session::Session(const model::CausalLM& model, std::unique_ptr<KeyValueCache> cache)
    : cache_(cache.get()), decoder_(model.spec, *model.store, {}, {.attention = std::move(cache)}) {}

at::Tensor Session::advance(std::span<const data::TokenId> ids) {
  const auto total = static_cast<std::int64_t>(ids.size());
  TESSERA_ASSERT(total > cache_->length(), "the text must have grown");
  if (angles_change(decoder_.spec(), cache_->length(), total)) cache_->truncate(0);
  const std::int64_t begin = cache_->length();
  const std::vector<std::int64_t> added(ids.begin() + begin, ids.end());
  const model::Inputs inputs{at::tensor(added, at::kLong).view({1, -1}), at::arange(begin, total, at::kLong).view({1, -1}), {total}, {0}, {}};
  ops::Tape tape(ops::Tape::Mode::Inference);
  const at::Tensor hidden = decoder_.hidden(tape, inputs).states.value;
  cache_->advance(total - begin);
  return decoder_.logits(hidden.narrow(0, total - begin - 1, 1), 1).to(at::kFloat).contiguous();
}

}  // namespace tessera::generate
