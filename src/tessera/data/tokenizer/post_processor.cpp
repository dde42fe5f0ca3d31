#include "tessera/data/tokenizer/post_processor.h"

#include <fmt/format.h>

#include <limits>

#include "tessera/data/tokenizer/json_section.h"

namespace tessera::data {
namespace {

TokenId token_id(const Json& json, const JsonSection& section) {
  const auto id = natural_number(json, static_cast<std::uint64_t>(std::numeric_limits<TokenId>::max()));
  if (!id) section.fail(fmt::format("{} is not a token id", json.dump().substr(0, 40)));
  return static_cast<TokenId>(*id);
}

/// Every "$A" of the template must appear exactly once; special tokens come from its own table.
SpecialFrame frame_of_template(const JsonSection& section) {
  SpecialFrame frame;
  bool text_seen = false;
  const Json& parts = section.array("single");
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const JsonSection part(parts[i], section.where(), fmt::format("{}.single[{}]", section.path(), i));
    if (part.find("Sequence") != nullptr) {
      if (std::exchange(text_seen, true)) section.not_supported("a template that repeats the text");
      continue;
    }
    const JsonSection special = section.object("special_tokens").object(part.object("SpecialToken").string("id").c_str());
    for (const Json& id : special.array("ids")) (text_seen ? frame.after : frame.before).push_back(token_id(id, special));
  }
  if (!text_seen) section.not_supported("a template that leaves the text out");
  return frame;
}

TokenId pair_id(const JsonSection& section, const char* key) {
  const Json& pair = section.array(key);
  if (pair.size() != 2) section.fail(fmt::format("\"{}\" must be a token and its id", key));
  return token_id(pair[1], section);
}

SpecialFrame frame_of(const JsonSection& section) {
  const std::string type = section.string("type");
  if (type == "ByteLevel") return {};
  if (type == "TemplateProcessing") return frame_of_template(section);
  if (type == "BertProcessing" || type == "RobertaProcessing") return {{pair_id(section, "cls")}, {pair_id(section, "sep")}};
  section.not_supported(fmt::format("the post-processor \"{}\"", type));
}

}  // namespace

SpecialFrame parse_post_processor(const Json& json, const std::string& where) {
  SpecialFrame whole;
  for (const JsonSection& section : flatten_sequence(json, where, "post_processor", "processors")) {
    const SpecialFrame step = frame_of(section);
    whole.before.insert(whole.before.begin(), step.before.begin(), step.before.end());
    whole.after.insert(whole.after.end(), step.after.begin(), step.after.end());
  }
  return whole;
}

Json template_processing(const std::vector<std::pair<std::string, TokenId>>& before, const std::vector<std::pair<std::string, TokenId>>& after) {
  if (before.empty() && after.empty()) return nullptr;
  Json table = Json::object();
  const auto special = [&](const std::pair<std::string, TokenId>& token, int type_id) {
    table[token.first] = {{"id", token.first}, {"ids", {token.second}}, {"tokens", {token.first}}};
    return Json{{"SpecialToken", {{"id", token.first}, {"type_id", type_id}}}};
  };
  const auto framed = [&](const char* sequence, int type_id) {
    Json parts = Json::array();
    for (const auto& token : before) parts.push_back(special(token, type_id));
    parts.push_back({{"Sequence", {{"id", sequence}, {"type_id", type_id}}}});
    for (const auto& token : after) parts.push_back(special(token, type_id));
    return parts;
  };
  Json single = framed("A", 0);
  Json pair = single;
  for (Json& part : framed("B", 1)) pair.push_back(std::move(part));
  return {{"type", "TemplateProcessing"}, {"single", std::move(single)}, {"pair", std::move(pair)}, {"special_tokens", std::move(table)}};
}

}  // namespace tessera::data
