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
  /// In the checkpoint's orientation, fp32 or fp64: a view (perhaps strided), or a copy of a tensor of several pieces (stacked experts). The name
  /// must be a tensor of the view.
  at::Tensor weight(const std::string& name) const;    ///< masters; compute weights where there are none
  at::Tensor gradient(const std::string& name) const;  ///< undefined when frozen

  /// Hands over a weight's bytes in the tensor's dtype, row-major, rounded to nearest even; a few MiB at a time.
  void write(const formats::TensorSpec& tensor, const formats::ByteSink& sink) const;
  /// `write` for formats::write_shards.
  formats::TensorProducer producer() const;

 private:
  /// Pieces [first_piece, last_piece) of a parameter, which lie one after another along the tensor's first dim.
  struct Place {
    std::size_t parameter;
    std::size_t first_piece, last_piece;
  };
  const Place& place(const std::string& name) const;
  const Piece& piece(const Place& place, std::size_t number) const { return store_->table().parameters[place.parameter].pieces[number]; }
  at::Tensor tensor_of(const at::Tensor& parameter, const Place& place) const;

  const ParameterStore* store_;
  std::vector<std::string> names_;
  std::map<std::string, Place> places_;
};

}  // namespace tessera::model
