#include "tessera/formats/llama2c.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "tessera/core/error.h"
#include "tessera/core/file.h"
#include "tessera/formats/byte_reader.h"
#include "tessera/formats/tensor_spec.h"

namespace tessera::formats {
namespace {

constexpr std::int32_t kMagicOfLaterVersions = 0x616B3432;  // "ak42"
constexpr std::int32_t kMaxSize = 1 << 24;  // of any one dimension: far above real models, and small enough that products of two never overflow
constexpr std::int32_t kMaxLayers = 10'000;
constexpr std::int32_t kMaxTokenLength = 1 << 16;

Llama2cConfig read_config(ByteReader& reader) {
  std::array<std::int32_t, 7> sizes{};
  for (std::int32_t& size : sizes) size = reader.read<std::int32_t>();
  if (sizes[0] == kMagicOfLaterVersions) reader.refuse("llama2.c's versioned exports are not supported", "export with --version 0");
  // A negative vocabulary says that the classifier has its own weights.
  const bool tied = sizes[5] > 0;
  if (!tied && sizes[5] > -kMaxSize) sizes[5] = -sizes[5];
  for (const std::int32_t size : sizes) {
    if (size <= 0 || size > kMaxSize) reader.refuse(fmt::format("not a llama2.c checkpoint: its header holds the size {}", size));
  }
  Llama2cConfig config{sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], sizes[6], tied};
  if (config.num_hidden_layers > kMaxLayers) reader.refuse(fmt::format("not a llama2.c checkpoint: it claims {} layers", config.num_hidden_layers));
  if (config.hidden_size % config.num_attention_heads != 0 || config.num_attention_heads % config.num_key_value_heads != 0 ||
      config.head_dim() % 2 != 0)
    reader.refuse(fmt::format("not a llama2.c checkpoint: {} heads and {} key/value heads do not fit a hidden size of {}", config.num_attention_heads,
                              config.num_key_value_heads, config.hidden_size));
  return config;
}

/// Appends tensors one after another and refuses what the file cannot hold.
class TensorList {
 public:
  TensorList(ByteReader& reader, std::vector<Llama2cTensor>& tensors) : reader_(reader), tensors_(tensors) {}

  void add(std::string name, std::vector<std::int64_t> shape, std::int64_t interleaved_heads = 0) {
    const std::uint64_t begin = reader_.position();
    reader_.take(num_elements(shape) * sizeof(float));  // sizes are at most 2^24, so the product fits
    tensors_.push_back({std::move(name), std::move(shape), begin, interleaved_heads});
  }

  /// The file keeps one kind of weight of all layers together.
  void add_layers(std::int64_t num_layers, std::string_view name, const std::vector<std::int64_t>& shape, std::int64_t interleaved_heads = 0) {
    for (std::int64_t layer = 0; layer < num_layers; ++layer) add(fmt::format("model.layers.{}.{}.weight", layer, name), shape, interleaved_heads);
  }

 private:
  ByteReader& reader_;
  std::vector<Llama2cTensor>& tensors_;
};

}  // namespace

Llama2cHeader parse_llama2c_header(std::span<const std::byte> file, const std::string& where) {
  ByteReader reader(file, where);
  Llama2cHeader header;
  header.config = read_config(reader);
  const Llama2cConfig& config = header.config;
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t feed_forward = config.intermediate_size;
  const std::int64_t key_value = config.num_key_value_heads * config.head_dim();
  const std::int64_t layers = config.num_hidden_layers;
  TensorList list(reader, header.tensors);
  list.add("model.embed_tokens.weight", {config.vocab_size, hidden});
  list.add_layers(layers, "input_layernorm", {hidden});
  list.add_layers(layers, "self_attn.q_proj", {hidden, hidden}, config.num_attention_heads);
  list.add_layers(layers, "self_attn.k_proj", {key_value, hidden}, config.num_key_value_heads);
  list.add_layers(layers, "self_attn.v_proj", {key_value, hidden});
  list.add_layers(layers, "self_attn.o_proj", {hidden, hidden});
  list.add_layers(layers, "post_attention_layernorm", {hidden});
  list.add_layers(layers, "mlp.gate_proj", {feed_forward, hidden});
  list.add_layers(layers, "mlp.down_proj", {hidden, feed_forward});
  list.add_layers(layers, "mlp.up_proj", {feed_forward, hidden});
  list.add("model.norm.weight", {hidden});
  // Tables of cosines and sines that run.c no longer reads.
  reader.take(static_cast<std::uint64_t>(config.max_position_embeddings * config.head_dim()) * sizeof(float));
  if (!config.tie_word_embeddings) list.add("lm_head.weight", {config.vocab_size, hidden});
  if (reader.remaining() != 0)
    reader.refuse(fmt::format("{} bytes follow the last tensor", reader.remaining()), "check that this is a llama2.c checkpoint");
  return header;
}

Llama2cHeader read_llama2c_header(const std::filesystem::path& path) { return parse_llama2c_header(MappedFile(path).bytes(), path.string()); }

Llama2cTokenizer parse_llama2c_tokenizer(std::span<const std::byte> file, const std::string& where) {
  ByteReader reader(file, where);
  Llama2cTokenizer tokenizer;
  tokenizer.max_token_length = reader.read<std::int32_t>();
  if (tokenizer.max_token_length <= 0 || tokenizer.max_token_length > kMaxTokenLength)
    reader.refuse(fmt::format("not a llama2.c tokenizer: it claims tokens of {} bytes", tokenizer.max_token_length));
  while (reader.remaining() != 0) {
    const auto score = reader.read<float>();
    const auto length = reader.read<std::int32_t>();
    if (length < 0 || length > tokenizer.max_token_length)
      reader.refuse(fmt::format("token {} claims {} bytes, the longest should have {}", tokenizer.tokens.size(), length, tokenizer.max_token_length));
    tokenizer.tokens.push_back({std::string(reader.read_text(static_cast<std::uint64_t>(length))), score});
  }
  return tokenizer;
}

Llama2cTokenizer read_llama2c_tokenizer(const std::filesystem::path& path) {
  return parse_llama2c_tokenizer(MappedFile(path).bytes(), path.string());
}

}  // namespace tessera::formats
