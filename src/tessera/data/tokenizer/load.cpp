#include "tessera/core/error.h"
#include "tessera/core/file.h"
#include "tessera/data/tokenizer/tokenizer.h"
#include "tessera/data/tokenizer/tokenizer_json.h"

namespace tessera::data {

Tokenizer load_tokenizer(const std::filesystem::path& path) { return Tokenizer(parse_tokenizer_json(MappedFile(path).text(), path.string())); }

}  // namespace tessera::data
