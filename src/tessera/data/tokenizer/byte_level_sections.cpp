#include "tessera/data/tokenizer/byte_level_sections.h"

namespace tessera::data {

Json byte_level_section(bool use_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

Json split_then_bytes(std::string_view pattern) {
  const Json split = {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", {split, byte_level_section(false)}}};
}

Json digits_then_bytes() {
  const Json digits = {{"type", "Digits"}, {"individual_digits", true}};
  return {{"type", "Sequence"}, {"pretokenizers", {digits, byte_level_section(true)}}};
}

}  // namespace tessera::data
