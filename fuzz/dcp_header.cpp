#include "tessera/checkpoint/dcp_directory.h"

#include <algorithm>
#include <string>

#include "target.h"

// Files of one directory, a line "NEXT" between them. What is accepted of their headers covers every tensor exactly.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace checkpoint = tessera::checkpoint;
  namespace formats = tessera::formats;
  return tessera::fuzz::refuses_cleanly([&] {
    constexpr std::string_view separator = "\nNEXT\n";
    checkpoint::TensorRecords records;
    std::string_view rest = tessera::fuzz::text_of(data, size);
    for (int number = 0; !rest.empty(); ++number) {
      const std::string_view file = rest.substr(0, rest.find(separator));
      rest.remove_prefix(std::min(rest.size(), file.size() + separator.size()));
      const formats::SafetensorsHeader header = formats::parse_safetensors_header(std::as_bytes(std::span(file)), "input");
      checkpoint::add_dcp_file(records, header.tensors, header.metadata, std::to_string(number) + ".safetensors");
    }
    for (const auto& [name, record] : records) checkpoint::check_boxes(name, record, "input");
  });
}
