#pragma once

#include <filesystem>
#include <optional>

#include "tessera/data/tokenizer/tokenizer.h"

namespace tessera::data {

/// What stands around a text, where it is not as the tokenizer's own files say: whether `encode` with special tokens begins with BOS and ends with
/// EOS.
struct FrameChoice {
  std::optional<bool> bos = {};
  std::optional<bool> eos = {};
};

/// `load_tokenizer` with another frame. A token that the choice is about and the tokenizer does not name is warned about.
Tokenizer load_tokenizer(const std::filesystem::path& path, const FrameChoice& choice);

}  // namespace tessera::data
