#include "tessera/parallel/tensor/projections.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>

#include "tessera/comm/values.h"
#include "tessera/ops/embedding.h"
#include "tessera/ops/linear.h"
#include "tessera/parallel/tensor/query_key_norm.h"
#include "tessera/parallel/tensor/residual_stream.h"

namespace tessera::parallel {
namespace {

at::Tensor bias_of(const ops::Parameter* bias) { return bias != nullptr ? bias->weight : at::Tensor(); }

class TensorProjections : public model::Projections {
 public:
  TensorProjections(comm::Communicator& group, const TensorProjectionsOptions& options)
      : group_(group),
        stream_(group, options.sequence_parallel),
        own_(group, true),
        options_(options),
        ids_(vocabulary_range(options.vocab_size, {.size = group.size(), .rank = group.rank()})) {}

  model::TokenRange residual_tokens(std::int64_t num_tokens) const override { return stream_.tokens(num_tokens); }

  model::TokenRange own_tokens(std::int64_t num_tokens) const override { return own_.tokens(num_tokens); }

  ops::Variable take_own(ops::Tape& tape, const ops::Variable& residual_RD, std::int64_t) override {
    return stream_.cut() ? residual_RD : own_.take(tape, residual_RD);
  }

  ops::Variable join_own(ops::Tape& tape, const ops::Variable& own_WD, std::int64_t num_tokens) override {
    return stream_.cut() ? own_WD : own_.spread(tape, own_WD, num_tokens);
  }

  ops::Variable embedding(ops::Tape& tape, const at::Tensor& ids_N, ops::Parameter& table, double scale) override {
    if (!options_.plan.embedding) return stream_.take(tape, ops::embedding(tape, ids_N, table, scale));
    const std::int64_t num_tokens = ids_N.size(0);
    const at::Tensor local = ids_N - ids_.first;
    const at::Tensor here = at::nonzero(local.ge(0).logical_and(local.lt(ids_.count))).squeeze(1);
    const ops::Variable rows = ops::embedding(tape, at::index_select(local, 0, here), table, scale);
    ops::Variable share = tape.variable(at::zeros({num_tokens, rows.value.size(1)}, rows.value.options()).index_copy_(0, here, rows.value));
    tape.record([here, slot = rows.gradient, out = share.gradient] {
      if (!out->empty()) slot->add_owned(at::index_select(out->take(), 0, here));
    });
    return stream_.leave(tape, share);
  }

  ops::Variable column_linear(ops::Tape& tape, const ops::Variable& input_RI, std::int64_t num_tokens, ops::Parameter& weight,
                              ops::Parameter* bias) override {
    if (!splits(weight)) return ops::linear(tape, stream_.spread(tape, input_RI, num_tokens), weight, bias);
    ops::Variable output = tape.variable(into_region(input_RI.value, num_tokens, weight.weight, bias_of(bias)));
    if (!tape.recording()) return output;
    tape.record([this, num_tokens, &weight, bias, slot = input_RI.gradient, out = output.gradient,
                 saved = weight.trainable ? input_RI.save() : ops::Saved()] {
      if (out->empty()) return;
      const at::Tensor gradient_NO = out->take();
      Arriving input = weight.trainable && stream_.cut() ? stream_.gather(saved.get(), num_tokens) : Arriving();
      Arriving input_gradient =
          overlaps()
              ? Arriving{stream_.sum_in_parts(num_tokens,
                                              [&](const model::TokenRange& part) { return ops::matmul_nn(rows(gradient_NO, part), weight.weight); }),
                         {}}
              : stream_.sum(ops::matmul_nn(gradient_NO, weight.weight));
      ops::deliver_linear_gradients(weight, bias, gradient_NO, input.tensor.defined() ? ops::Saved(input.wait()) : saved);
      slot->add_owned(input_gradient.wait());
    });
    return output;
  }

  ops::Variable row_linear(ops::Tape& tape, const ops::Variable& input_NI, ops::Parameter& weight, ops::Parameter* bias) override {
    if (!splits(weight)) return stream_.take(tape, ops::linear(tape, input_NI, weight, bias));
    const ops::Variable sum = overlaps() ? out_of_region(tape, input_NI, weight) : stream_.leave(tape, ops::linear(tape, input_NI, weight));
    if (bias == nullptr) return sum;
    ops::Variable output = tape.variable(sum.value.add_(bias->weight));
    tape.record([bias, slot = sum.gradient, out = output.gradient] {
      if (out->empty()) return;
      const at::Tensor gradient = out->take();
      ops::deliver_bias_gradient(*bias, gradient);
      slot->add_shared(gradient);
    });
    return output;
  }

  ops::Variable query_key_norm(ops::Tape& tape, const ops::Variable& query_key_value, ops::Parameter& query_weight, ops::Parameter& key_weight,
                               const ops::QueryKeyNormOptions& options) override {
    if (options.per_head || !options_.plan.attention) return ops::query_key_norm(tape, query_key_value, query_weight, key_weight, options);
    const SplitNormWidths widths{options_.query_width, options_.key_width, options_.key_value_holders};
    return split_query_key_norm(group_, widths, tape, query_key_value, query_weight, key_weight, options);
  }

  ops::LossSum loss(ops::Tape& tape, const ops::Variable& hidden_RD, ops::Parameter& weight, const ops::LogitsOptions& options,
                    const at::Tensor& labels_N, double gradient_scale) override {
    const std::int64_t num_tokens = labels_N.size(0);
    if (!options_.plan.head)
      return ops::linear_cross_entropy(tape, stream_.spread(tape, hidden_RD, num_tokens), weight, options, labels_N, gradient_scale);
    const ops::VocabularySlice slice{ids_.first, ids_.count, [this](const at::Tensor& parts_2N) { return combine(parts_2N); }};
    return ops::linear_cross_entropy(tape, stream_.enter(tape, hidden_RD, num_tokens), weight, options, labels_N, gradient_scale, &slice);
  }

  at::Tensor logits(const at::Tensor& hidden_RD, std::int64_t num_tokens, const ops::Parameter& weight, const ops::LogitsOptions& options) override {
    const at::Tensor hidden_ND = stream_.gather(hidden_RD, num_tokens).wait();
    const at::Tensor own = ops::logits(hidden_ND, weight, options);
    if (!options_.plan.head) return own;
    at::Tensor all = at::empty({group_.size(), own.size(0), own.size(1)}, own.options());
    group_.all_gather(own.contiguous(), comm::equal_counts(group_, own.numel()), all).wait();
    return at::cat(all.unbind(0), 1).narrow(1, 0, options_.vocab_size);
  }

 private:
  /// Attention's and the feed-forward's weights are told apart by their names in the parameter table. Latent attention's are one region from the
  /// latent vectors on, which every rank makes for its own heads' gradients.
  bool splits(const ops::Parameter& weight) const {
    const bool feed_forward = std::ranges::any_of(std::array{".gate_up.weight", ".up.weight", ".down.weight"},
                                                  [&](const char* ending) { return weight.name.ends_with(ending); });
    return feed_forward ? options_.plan.feed_forward : options_.plan.attention;
  }
  bool overlaps() const { return options_.overlap_chunks && stream_.cut(); }
  static at::Tensor rows(const at::Tensor& tensor_NW, const model::TokenRange& part) { return tensor_NW.narrow(0, part.first, part.count); }

  /// The product of all tokens [N, O]; when overlapping, of each rank's while the next ones arrive.
  at::Tensor into_region(const at::Tensor& input_RI, std::int64_t num_tokens, const at::Tensor& weight_OI, const at::Tensor& bias_O) const {
    if (!overlaps()) return ops::linear_forward(stream_.gather(input_RI, num_tokens).wait(), weight_OI, bias_O);
    at::Tensor output = at::empty({num_tokens, weight_OI.size(0)}, input_RI.options());
    stream_.gather_in_parts(input_RI, num_tokens, [&](const model::TokenRange& part, const at::Tensor& tokens) {
      rows(output, part).copy_(ops::linear_forward(tokens, weight_OI, bias_O));
    });
    return output;
  }

  /// row_linear without its bias, part by part.
  ops::Variable out_of_region(ops::Tape& tape, const ops::Variable& input_NI, ops::Parameter& weight) const {
    const std::int64_t num_tokens = input_NI.value.size(0);
    ops::Variable output = tape.variable(stream_.sum_in_parts(
        num_tokens, [&](const model::TokenRange& part) { return ops::linear_forward(rows(input_NI.value, part), weight.weight); }));
    if (!tape.recording()) return output;
    tape.record([this, num_tokens, &weight, slot = input_NI.gradient, out = output.gradient,
                 saved = weight.trainable ? input_NI.save() : ops::Saved()] {
      if (out->empty()) return;
      at::Tensor input_gradient = at::empty({num_tokens, weight.weight.size(1)}, weight.weight.options());
      const at::Tensor gradient_NO = stream_.gather_in_parts(out->take(), num_tokens, [&](const model::TokenRange& part, const at::Tensor& gradient) {
        rows(input_gradient, part).copy_(ops::matmul_nn(gradient, weight.weight));
      });
      ops::deliver_linear_gradients(weight, nullptr, gradient_NO, saved);
      slot->add_owned(input_gradient);
    });
    return output;
  }

  /// The log-sum-exp and target logit of the whole vocabulary from those of each rank's slice.
  at::Tensor combine(const at::Tensor& parts_2N) const {
    at::Tensor all = at::empty({group_.size(), 2, parts_2N.size(1)}, parts_2N.options());
    group_.all_gather(parts_2N, comm::equal_counts(group_, parts_2N.numel()), all).wait();
    return at::stack({at::logsumexp(all.select(1, 0), {0}), at::sum(all.select(1, 1), {0})});
  }

  comm::Communicator& group_;
  ResidualStream stream_;
  ResidualStream own_;  ///< the stream cut by tokens, whether or not it is
  TensorProjectionsOptions options_;
  VocabularyRange ids_;
};

}  // namespace

std::unique_ptr<model::Projections> tensor_parallel_projections(comm::Communicator& group, const TensorProjectionsOptions& options) {
  return std::make_unique<TensorProjections>(group, options);
}

}  // namespace tessera::parallel
