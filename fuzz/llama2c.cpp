#include "tessera/formats/llama2c.h"

#include "target.h"
#include "tessera/formats/tensor_spec.h"

// The input is tried as a checkpoint and as a tokenizer.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = tessera::fuzz::bytes_of(data, size);
  tessera::fuzz::refuses_cleanly([&] {
    for (const auto& tensor : tessera::formats::parse_llama2c_header(file, "model.bin").tensors)
      TESSERA_ASSERT(tensor.begin + 4 * tessera::formats::num_elements(tensor.shape) <= size, "a tensor passes the end of the file");
  });
  return tessera::fuzz::refuses_cleanly([&] { tessera::formats::parse_llama2c_tokenizer(file, "tokenizer.bin"); });
}
