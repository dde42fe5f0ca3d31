#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "tessera/formats/huggingface.h"
#include "tessera/formats/tensor_spec.h"
#include "tessera/model/parameter_store.h"

namespace tessera::model {

/// A store seen as a Hugging Face checkpoint: every tensor under its own name, unfused and in the checkpoint's orientation. A tied head does not
/// appear. Holds a pointer to the store, which must outlive it.
class CheckpointView {
 public:
  explicit CheckpointView(const ParameterStore& store);

  /// Name and shape of every tensor, in the order of the parameter table; all in `dtype`.
  std::vector<formats::TensorSpec> tensors(DType dtype) const;
  bool contains(const std::string& name) const { return places_.contains(name); }
  /// Views in the checkpoint's orientation (perhaps strided), fp32 or fp64. The name must be a tensor of the view.
  at::Tensor weight(const std::string& name) const;    ///< masters; compute weights where there are none
  at::Tensor gradient(const std::string& name) const;  ///< undefined when frozen

  /// Hands over a weight's bytes in the tensor's dtype, row-major, rounded to nearest even; a few MiB at a time.
  void write(const formats::TensorSpec& tensor, const formats::ByteSink& sink) const;
  /// `write` for formats::write_shards.
  formats::TensorProducer producer() const;

 private:
  struct Place {
    std::size_t parameter;
    std::size_t piece;
  };
  const Piece& piece(const Place& place) const;
  const Place& place(const std::string& name) const;

  const ParameterStore* store_;
  std::vector<std::string> names_;
  std::map<std::string, Place> places_;
};

}  // namespace tessera::model
