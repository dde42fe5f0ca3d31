#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "tessera/data/tokenizer/definition.h"
#include "tessera/formats/gguf.h"
#include "tessera/formats/llama2c.h"
#include "tessera/formats/sentencepiece.h"

/// Tokenizers from other files than tokenizer.json, put into its terms.
namespace tessera::data {

/// What a SentencePiece model file leaves to its users.
struct SentencePieceOptions {
  bool add_bos = true;
  bool add_eos = false;
  bool prefix_after_special = true;  ///< the dummy prefix also begins a text after a special token (transformers' "legacy"; llama.cpp too)
};

/// BPE and unigram models. UserError starting with `where` for the other kinds.
TokenizerDefinition from_sentencepiece(const formats::SentencePieceModel& model, const SentencePieceOptions& options, const std::string& where);

/// llama2.c keeps pieces and scores only: the first three are <unk>, <s>, </s>, then come the 256 bytes.
TokenizerDefinition from_llama2c(const formats::Llama2cTokenizer& tokenizer, const std::string& where);

/// A GGUF's embedded tokenizer: kinds gpt2, llama and t5. UserError for other kinds and for a pre-tokenizer that is not known.
TokenizerDefinition from_gguf(const formats::GgufFile& file);

/// A tiktoken rank file. It does not say how text is cut into words nor which special tokens there are: both follow from the number of ranks when it
/// is that of a published vocabulary (GPT-2, cl100k, o200k, Llama 3, Qwen); others are cut as Llama 3's and have no special tokens.
TokenizerDefinition from_tiktoken(std::string_view text, const std::string& where);

/// GPT-2's older pair of files, vocab.json and merges.txt.
TokenizerDefinition from_vocabulary_and_merges(const std::filesystem::path& vocab_json, const std::filesystem::path& merges_txt);

}  // namespace tessera::data
