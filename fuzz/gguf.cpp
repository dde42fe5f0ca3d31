#include "tessera/formats/gguf.h"

#include <vector>

#include "target.h"
#include "tessera/formats/gguf_dequantize.h"
#include "tessera/formats/tensor_spec.h"

// Parses the header and dequantises everything it names: reads past the end of the file would be found by AddressSanitizer.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return tessera::fuzz::refuses_cleanly([&] {
    const auto file = tessera::fuzz::bytes_of(data, size);
    const tessera::formats::GgufHeader header = tessera::formats::parse_gguf_header(file, "input.gguf");
    for (const tessera::formats::GgufTensor& tensor : header.tensors) {
      const auto bytes = file.subspan(header.data_begin + tensor.begin, tensor.num_bytes);
      if (!tessera::formats::can_dequantize(tensor.type)) continue;
      std::vector<float> values(tessera::formats::num_elements(tensor.shape));
      tessera::formats::dequantize(tensor.type, bytes, values);
    }
  });
}
