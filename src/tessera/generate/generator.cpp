#include "tessera/generate/generator.h"

#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <algorithm>

#include "tessera/core/clock.h"
#include "tessera/core/error.h"
#include "tessera/data/vocabulary.h"

namespace tessera::generate {
namespace {

void check_prompt(std::span<const data::TokenId> prompt, const model::ModelSpec& spec, std::int64_t max_new_tokens) {
  if (prompt.empty()) throw UserError({"", "the prompt has no tokens", "a generation needs at least one token to continue", "give a prompt"});
  data::check_vocabulary(prompt, spec.vocab_size, "the prompt");
  if (max_new_tokens > spec.max_position_embeddings - static_cast<std::int64_t>(prompt.size()))  // a sum could overflow
    throw UserError({"",
                     fmt::format("{} prompt tokens and {} new ones are more than the model's {} positions", prompt.size(), max_new_tokens,
                                 spec.max_position_embeddings),
                     "", "shorten the prompt or lower --max-new-tokens"});
}

}  // namespace

Generator::Generator(const model::CausalLM& model)
    : spec_(model.spec), start_([&model](std::int64_t capacity) { return Session(model, capacity); }) {}

Generator::Generator(const CachedModel& model)
    : spec_(model.model.model.spec),
      start_([&model](std::int64_t capacity) {
        TESSERA_ASSERT(capacity <= model.capacity, "the model's cache has room for prompt and new tokens");
        return Session(model);
      }),
      agree_([&model](data::TokenId id) {
        const at::Tensor chosen = at::full({1}, id, at::kLong);
        model.model.group(mesh::kWorld).broadcast(chosen, 0).wait();
        return static_cast<data::TokenId>(chosen.item<std::int64_t>());
      }) {}

Generation Generator::generate(std::span<const data::TokenId> prompt, const GenerationOptions& options,
                               const std::function<bool(data::TokenId)>& told) const {
  check(options.sampling);
  check_prompt(prompt, spec_, options.max_new_tokens);
  const auto capacity = static_cast<std::int64_t>(prompt.size()) + options.max_new_tokens;
  Generation result;
  if (options.max_new_tokens <= 0) return result;
  Session session = start_(capacity);
  std::vector<data::TokenId> all(prompt.begin(), prompt.end());
  const Clock::time_point start = Clock::now();
  at::Tensor logits = session.advance(all);
  result.prompt_seconds = seconds_since(start);
  const Clock::time_point decode_start = Clock::now();
  while (true) {
    const data::TokenId chosen = choose_token({logits.data_ptr<float>(), static_cast<std::size_t>(logits.numel())}, all, options.sampling);
    const data::TokenId next = agree_ ? agree_(chosen) : chosen;
    all.push_back(next);
    result.ids.push_back(next);
    result.stopped = std::ranges::count(options.stop, next) > 0;
    const bool goes_on = !told || told(next);
    if (result.stopped || !goes_on || static_cast<std::int64_t>(result.ids.size()) >= options.max_new_tokens) break;
    logits = session.advance(all);
  }
  result.decode_seconds = seconds_since(decode_start);
  return result;
}

}  // namespace tessera::generate
