#pragma once

#include <string>
#include <vector>

#include "tessera/core/json.h"
#include "tessera/data/tokenizer/tokenizer.h"

/// tokenizer.json's post-processors, for one text: what goes before and after its ids.
namespace tessera::data {

struct SpecialFrame {
  std::vector<TokenId> before;
  std::vector<TokenId> after;
};

/// Of the "post_processor" section (TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel, Sequence). UserError on a type that is
/// unknown, on a template that leaves the text out or repeats it, and on ids that are not token ids.
SpecialFrame parse_post_processor(const Json& json, const std::string& where);

/// The TemplateProcessing section that puts these around a text; null when there is nothing to put.
Json template_processing(const std::vector<std::pair<std::string, TokenId>>& before, const std::vector<std::pair<std::string, TokenId>>& after);

}  // namespace tessera::data
