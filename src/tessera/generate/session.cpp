#include "tessera/generate/session.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <vector>

#include "tessera/core/error.h"
#include "tessera/model/rope.h"
#include "tessera/parallel/whole_tensors.h"

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

/// Where every rank gets the logits of all tokens, at most this many tokens run at once.
constexpr std::int64_t kMostOverRanks = 256;

at::Tensor last_row(const at::Tensor& logits_NV) { return logits_NV.narrow(0, logits_NV.size(0) - 1, 1).to(at::kFloat).contiguous(); }

}  // namespace

Session::Session(const model::CausalLM& model, std::int64_t capacity) : spec_(model.spec), most_at_once_(std::max<std::int64_t>(capacity, 1)) {
  auto cache = std::make_unique<KeyValueCache>(model.spec, capacity, model.store->parameter("embedding.weight").compute_type());
  cache_ = cache.get();
  decoder_ = std::make_unique<model::Decoder>(model.spec, *model.store, model::DecoderOptions(), model::DecoderSeams{.attention = std::move(cache)});
  run_ = [decoder = decoder_.get()](const model::Inputs& added) {
    ops::Tape tape(ops::Tape::Mode::Inference);
    const at::Tensor hidden = decoder->hidden(tape, added).states.value;
    return last_row(decoder->logits(hidden.narrow(0, hidden.size(0) - 1, 1), 1));
  };
}

Session::Session(const CachedModel& model)
    : cache_(model.cache),
      spec_(model.model.model.spec),
      most_at_once_(kMostOverRanks),
      run_([&model](const model::Inputs& added) { return last_row(parallel::whole_logits(model.model, added)); }) {
  cache_->truncate(0);
}

at::Tensor Session::advance(std::span<const data::TokenId> ids) {
  const auto total = static_cast<std::int64_t>(ids.size());
  TESSERA_ASSERT(total > cache_->length(), "the text must have grown");
  if (angles_change(spec_, cache_->length(), total)) cache_->truncate(0);
  at::Tensor logits;
  while (cache_->length() < total) {
    const std::int64_t begin = cache_->length(), end = std::min(total, begin + most_at_once_);
    const std::vector<std::int64_t> added(ids.begin() + begin, ids.begin() + end);
    // Angles are those of the whole text, however much of it is run at once.
    logits = run_({at::tensor(added, at::kLong).view({1, -1}), at::arange(begin, end, at::kLong).view({1, -1}), {total}, {0}, {}});
    cache_->advance(end - begin);
  }
  return logits;
}

}  // namespace tessera::generate
