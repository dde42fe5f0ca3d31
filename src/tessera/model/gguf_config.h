#pragma once

#include "tessera/core/json.h"
#include "tessera/formats/gguf.h"

namespace tessera::model {

/// config.json from a GGUF file's metadata: architectures llama (mistral included), qwen2, qwen3, gemma2, gemma3, gpt2, phi3, olmo2 and granite, as
/// llama.cpp's converter writes them. What it does not write is taken from how llama.cpp runs the model: attention scales of gemma, layer patterns.
/// UserError naming the architecture, or every key whose value is not supported. tie_word_embeddings and torch_dtype are left to the caller.
Json gguf_config(const formats::GgufFile& file);

}  // namespace tessera::model
