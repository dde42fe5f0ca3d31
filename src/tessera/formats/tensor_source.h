#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/core/dtype.h"
#include "tessera/formats/tensor_spec.h"

namespace tessera::formats {

/// Where weights are read from, whatever the file format: named tensors, converted on the way into the caller's memory.
///
/// F64, F32, F16 and BF16 convert to F32, BF16 and F16 (and any dtype to itself), rounding to nearest even; F64 narrows through F32, as torch does.
/// Quantised tensors appear as F32. A read streams: file pages that have been read are released, so peak memory is the caller's buffer and a few MiB.
/// All members are const without shared state and may be called from several threads.
class TensorSource {
 public:
  virtual ~TensorSource() = default;

  /// In the order of their bytes: reading in this order is fastest.
  const std::vector<TensorSpec>& tensors() const { return tensors_; }
  /// nullptr when there is none of that name.
  const TensorSpec* find(std::string_view name) const;

  /// Fills `out`, which holds exactly num_elements × size_of(destination) bytes. UserError when there is no such tensor (with near names) or
  /// its dtype does not convert.
  void read(std::string_view name, DType destination, std::span<std::byte> out) const;
  /// The same for rows [first_row, first_row + num_rows) of dim 0. The tensor must not be a scalar.
  void read_rows(std::string_view name, std::int64_t first_row, std::int64_t num_rows, DType destination, std::span<std::byte> out) const;

  /// The file or directory, for messages.
  virtual std::string where() const = 0;

 protected:
  explicit TensorSource(std::vector<TensorSpec> tensors);
  TensorSource(const TensorSource&) = delete;
  TensorSource& operator=(const TensorSource&) = delete;

 private:
  /// Elements [first, first + count) in row-major order of tensors()[tensor]: whole rows, or the whole tensor. Everything has been checked.
  virtual void read_elements(std::size_t tensor, std::uint64_t first, std::uint64_t count, DType destination, std::span<std::byte> out) const = 0;

  std::size_t index_of(std::string_view name, DType destination) const;

  std::vector<TensorSpec> tensors_;
  std::map<std::string, std::size_t, std::less<>> index_by_name_;
};

/// A Hugging Face directory, with its own names; quantised weights as dequantized_source.h shows them.
std::unique_ptr<TensorSource> open_huggingface_source(const std::filesystem::path& directory);
/// A GGUF file, dequantised, with GGUF names ("blk.0.attn_q.weight") and row-major shapes ([out, in] for a linear's weight). Every tensor of
/// a type that cannot be dequantised is named in one UserError. llama's q and k rows are interleaved for rope: see MappedTensor.
std::unique_ptr<TensorSource> open_gguf_source(const std::filesystem::path& file);
/// A llama2.c checkpoint under the Hugging Face names of a llama, q and k rows in Hugging Face order. "lm_head.weight" is there only when it is not
/// shared.
std::unique_ptr<TensorSource> open_llama2c_source(const std::filesystem::path& file);

/// One tensor of a renamed source.
struct MappedTensor {
  std::string name;         ///< the new name
  std::string source_name;  ///< what the underlying source calls it
  /// 0: rows as they are. Otherwise the rows are this many heads whose rotary pairs are adjacent (Meta's order: 2i with 2i+1), and are read
  /// in Hugging Face order (i with i + head_dim / 2).
  std::int64_t interleaved_heads = 0;
};
/// Shows tensors of `source` under other names, in the order given. UserError naming every source tensor that is missing.
std::unique_ptr<TensorSource> rename_tensors(std::unique_ptr<TensorSource> source, std::vector<MappedTensor> tensors);

}  // namespace tessera::formats
