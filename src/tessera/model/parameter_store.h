#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tessera/core/dtype.h"
#include "tessera/model/parameter_table.h"
#include "tessera/model/placement.h"
#include "tessera/ops/parameter.h"

namespace tessera::model {

/// The flat memory of one unit's trainable (or frozen) parameters: n elements, of which this rank holds `held`. In one process that is all of them.
///
/// Masters are fp32 (fp64 for reference runs); when that is the compute dtype they are the compute weights, otherwise the compute weights are rounded
/// from them. bf16 weights that are not trained have no masters. Where `compute` is there all the time (Placement::whole_weights), `compute_shard` is
/// a view of it; likewise the gradients. A unit of an fp32 model that is not trained may have a second buffer for the weights that are kept in bf16.
struct FlatBuffer {
  std::int64_t unit = 0;
  bool trainable = true;
  bool widened = false;           ///< bf16 in an fp32 model: ops::Parameter::widened
  bool on_two_stages = false;     ///< ParameterSpec::on_two_stages: it has a buffer of its own, which is then the same at both ranks
  bool experts = false;           ///< stacked experts that lie as Options::expert_placement says, not as Options::placement
  bool exact = false;             ///< the masters are the compute weights, whatever the compute dtype: ParameterSpec::buffer, Options::full_precision
  std::vector<FlatRange> ranges;  ///< ascending, each start 64-byte aligned; the gaps are zero and stay zero
  std::vector<Extent> shards;     ///< what each rank of the shard group holds: a partition of [0, n)
  Extent held;                    ///< shards[placement.shard]
  std::vector<Extent> owned;      ///< the parts of `held` that this rank alone counts in norms and saves

  at::Tensor master;          ///< [held]
  at::Tensor compute_shard;   ///< [held] in the compute dtype; the same tensor as `master` when that is its dtype
  at::Tensor gradient_shard;  ///< [held] like master: what the optimizer reads; undefined when frozen
  at::Tensor compute;         ///< [n]; undefined while the unit is not gathered
  at::Tensor gradient;        ///< [n]: what operators add to; undefined when frozen, and outside backward unless whole gradients are kept

  /// n: the end of the last range, rounded up to the alignment.
  std::int64_t num_elements() const;
};

/// Owns what this rank holds of a model's weights, a flat buffer per unit (two when some of it is frozen), and the handles operators use.
class ParameterStore {
 public:
  struct Options {
    DType compute_dtype = DType::F32;                ///< F32, BF16, or F64 (reference runs)
    bool trainable = true;                           ///< false: no gradients, no masters (inference keeps only the compute weights)
    ParameterPredicate frozen;                       ///< parameters without gradients
    ParameterPredicate full_precision = {};          ///< those whose masters are what is computed with
    Placement placement = {};                        ///< what of it this rank holds
    std::optional<Placement> expert_placement = {};  ///< what of stacked experts, where they lie over other ranks; they then have own buffers
    /// Matrices of an fp32 store without gradients that stay in bf16: half the memory, and the same results where bf16 holds them exactly.
    std::set<std::string> kept_in_bfloat16 = {};
  };
  ParameterStore(ParameterTable table, Options options);
  ParameterStore(const ParameterStore&) = delete;
  ParameterStore& operator=(const ParameterStore&) = delete;

  const ParameterTable& table() const { return table_; }
  const Options& options() const { return options_; }
  /// Whichever of the two the buffer lies by.
  const Placement& placement(const FlatBuffer& buffer) const { return buffer.experts ? *options_.expert_placement : options_.placement; }
  /// The name must be in the table.
  ops::Parameter& parameter(const std::string& name);
  std::size_t index_of(const std::string& name) const;
  bool contains(const std::string& name) const;
  ops::Parameter& parameter(std::size_t index) { return *parameters_[index]; }
  const ops::Parameter& parameter(std::size_t index) const { return *parameters_[index]; }
  std::vector<FlatBuffer>& buffers() { return buffers_; }
  const std::vector<FlatBuffer>& buffers() const { return buffers_; }
  /// A view of the parameter's master weights, shaped; of the compute weights when there are no masters. The parameter must be held whole.
  at::Tensor master(std::size_t index) const;
  /// The boxes of checkpoint tensors this rank holds, or those of them it owns, in the order of the buffers.
  std::vector<PlacedPiece> held_pieces() const;
  std::vector<PlacedPiece> owned_pieces() const;

  /// Puts a whole buffer [n] of compute weights behind the operators' handles, or takes it away (whoever gathered it decides when). Only for stores
  /// whose placement does not keep whole weights.
  void set_compute(FlatBuffer& buffer, at::Tensor compute);
  void release_compute(FlatBuffer& buffer);
  /// The same for gradient accumulators; a new one counts as not yet written, and its gaps are zeroed.
  void set_gradient(FlatBuffer& buffer, at::Tensor gradient);
  void release_gradient(FlatBuffer& buffer);

  /// Forgets the gradients of the last step: the next ones overwrite. (Nothing is cleared unless a parameter stays unused: see finish_gradients.)
  void start_gradients();
  /// Zeroes the gradient of every trainable parameter that no operator wrote in this step.
  void finish_gradients();
  void finish_gradients(FlatBuffer& buffer);
  /// compute_shard = round(master) for every buffer; nothing to do when they are one.
  void refresh_compute();

 private:
  ParameterTable table_;
  Options options_;
  std::vector<FlatBuffer> buffers_;
  std::vector<std::unique_ptr<ops::Parameter>> parameters_;
  std::vector<std::pair<std::size_t, std::size_t>> places_;  // of each parameter: the buffer, and the range in it
  std::map<std::string, std::size_t> index_by_name_;
};

/// The part of a parameter's tensor (weights or gradient, shaped like the parameter) that holds a piece, in the checkpoint's own orientation: a view,
/// strided when the piece is transposed.
at::Tensor checkpoint_view(const at::Tensor& tensor, const Piece& piece);
/// The same for a piece placed in a flat tensor whose first element is number `first` of the buffer: 0 for whole buffers, held.begin for held parts.
at::Tensor checkpoint_view(const at::Tensor& flat, const PlacedPiece& piece, std::int64_t first);
/// The master weights of a held piece, in the checkpoint's orientation; its compute weights where there are no masters.
at::Tensor held_view(const ParameterStore& store, const PlacedPiece& piece);

}  // namespace tessera::model
