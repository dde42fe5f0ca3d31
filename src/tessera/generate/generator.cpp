#include "tessera/generate/generator.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "tessera/core/error.h"

namespace tessera::generate {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

void check_prompt(std::span<const data::TokenId> prompt, const model::ModelSpec& spec, std::int64_t max_new_tokens) {
  if (prompt.empty()) throw UserError({"", "the prompt has no tokens", "a generation needs at least one token to continue", "give a prompt"});
  for (const data::TokenId id : prompt)
    if (id < 0 || id >= spec.vocab_size)
      throw UserError({"", fmt::format("token {} is outside the model's vocabulary of {}", id, spec.vocab_size), "the tokenizer must be the model's own", ""});
  const auto total = static_cast<std::int64_t>(prompt.size()) + max_new_tokens;
  if (total > spec.max_position_embeddings)
    throw UserError({"", fmt::format("{} prompt tokens and {} new ones are more than the model's {} positions", prompt.size(), max_new_tokens,
                                     spec.max_position_embeddings),
                     "", "shorten the prompt or lower --max-new-tokens"});
}

/// A decoder over the model's weights whose attention is a cache of its own.
struct Session {
  KeyValueCache* cache;
  model::Decoder decoder;

  Session(const model::CausalLM& model, std::unique_ptr<KeyValueCache> made)
      : cache(made.get()), decoder(model.spec, *model.store, {}, std::move(made)) {}

  /// Runs `ids` after what the cache holds; logits of the last one.
  at::Tensor advance(std::span<const data::TokenId> ids) {
    const auto tokens = static_cast<std::int64_t>(ids.size());
    const std::int64_t begin = cache->length();
    const std::vector<std::int64_t> wide(ids.begin(), ids.end());
    const model::Inputs inputs{at::tensor(wide, at::kLong).view({1, tokens}), at::arange(begin, begin + tokens, at::kLong).view({1, tokens}),
                               {begin + tokens}, {0}, {}};
    ops::Tape tape(ops::Tape::Mode::Inference);
    const at::Tensor hidden = decoder.hidden(tape, inputs).value;
    cache->advance(tokens);
    return decoder.logits(hidden.narrow(0, tokens - 1, 1)).to(at::kFloat).contiguous();
  }
};

}  // namespace

Generator::Generator(const model::CausalLM& model) : model_(model) {}

Generation Generator::generate(std::span<const data::TokenId> prompt, const GenerationOptions& options,
                               const std::function<bool(data::TokenId)>& told) const {
  check(options.sampling);
  check_prompt(prompt, model_.spec, options.max_new_tokens);
  const auto capacity = static_cast<std::int64_t>(prompt.size()) + options.max_new_tokens;
  Session session(model_, std::make_unique<KeyValueCache>(model_.spec, capacity, model_.store->parameter("embedding.weight").weight.scalar_type()));
  Generation result;
  if (options.max_new_tokens <= 0) return result;
  std::vector<data::TokenId> all(prompt.begin(), prompt.end());
  const Clock::time_point start = Clock::now();
  at::Tensor logits = session.advance(prompt);
  result.prompt_seconds = seconds_since(start);
  const Clock::time_point decode_start = Clock::now();
  while (true) {
    const data::TokenId next = choose_token({logits.data_ptr<float>(), static_cast<std::size_t>(logits.numel())}, all, options.sampling);
    all.push_back(next);
    result.ids.push_back(next);
    result.stopped = std::ranges::count(options.stop, next) > 0;
    const bool goes_on = !told || told(next);
    if (result.stopped || !goes_on || static_cast<std::int64_t>(result.ids.size()) >= options.max_new_tokens) break;
    logits = session.advance({&next, 1});
  }
  result.decode_seconds = seconds_since(decode_start);
  return result;
}

}  // namespace tessera::generate
