#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tessera/core/dtype.h"
#include "tessera/model/parameter_table.h"
#include "tessera/ops/parameter.h"

namespace tessera::model {

/// The flat memory of one unit's trainable (or frozen) parameters. `master` is fp32 (fp64 for reference runs); in those dtypes the compute
/// views are views of `master`, otherwise of `compute`, which holds the rounded weights. bf16 weights that are not trained have no masters.
/// A unit of an fp32 model that is not trained may have a second buffer for the weights that are kept in bf16.
struct FlatBuffer {
  std::int64_t unit = 0;
  bool trainable = true;
  bool widened = false;  ///< bf16 in an fp32 model: ops::Parameter::widened
  at::Tensor master;     ///< [n]; undefined for untrained bf16 weights
  at::Tensor compute;    ///< [n] in the compute dtype, bf16 when widened; the same tensor as master when that is the compute dtype
  at::Tensor gradient;   ///< [n] like master; undefined when frozen
  struct Range {
    std::size_t parameter;     ///< index into the table
    std::int64_t begin, size;  ///< elements
  };
  std::vector<Range> ranges;  ///< ascending, each start 64-byte aligned; the gaps are zero and stay zero

  /// n: the end of the last range, rounded up to the alignment.
  std::int64_t num_elements() const;
};

/// Owns the weights of a whole model in this process, one pair of flat buffers per unit, and the handles operators use.
class ParameterStore {
 public:
  struct Options {
    DType compute_dtype = DType::F32;                  ///< F32, BF16, or F64 (reference runs)
    bool trainable = true;                             ///< false: no gradients, no masters (inference keeps only the compute weights)
    std::function<bool(const ParameterSpec&)> frozen;  ///< parameters without gradients
    /// Matrices of an fp32 store without gradients that stay in bf16: half the memory, and the same results where bf16 holds them exactly.
    std::set<std::string> kept_in_bfloat16 = {};
  };
  ParameterStore(ParameterTable table, Options options);
  ParameterStore(const ParameterStore&) = delete;
  ParameterStore& operator=(const ParameterStore&) = delete;

  const ParameterTable& table() const { return table_; }
  const Options& options() const { return options_; }
  /// The name must be in the table.
  ops::Parameter& parameter(const std::string& name);
  std::size_t index_of(const std::string& name) const;
  bool contains(const std::string& name) const;
  ops::Parameter& parameter(std::size_t index) { return *parameters_[index]; }
  const ops::Parameter& parameter(std::size_t index) const { return *parameters_[index]; }
  std::vector<FlatBuffer>& buffers() { return buffers_; }
  const std::vector<FlatBuffer>& buffers() const { return buffers_; }
  /// A view of the parameter's master weights, shaped; of the compute weights when there are no masters.
  at::Tensor master(std::size_t index) const;

  /// Forgets the gradients of the last step: the next ones overwrite. (Nothing is cleared unless a parameter stays unused: see finish_gradients.)
  void start_gradients();
  /// Zeroes the gradient of every trainable parameter that no operator wrote in this step.
  void finish_gradients();
  /// compute = round(master) for every buffer; nothing to do when they are one.
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

}  // namespace tessera::model
