#include "tessera/model/families/common.h"
#include "tessera/model/families/families.h"
#include "tessera/model/families/rope_config.h"

namespace tessera::model {

/// A llama whose every layer may have a sliding window.
void describe_mistral(ConfigReader& config, ModelSpec& spec) {
  CommonDefaults defaults;
  defaults.max_position_embeddings = 4096 * 32;
  defaults.num_key_value_heads = 8;
  read_common(config, defaults, spec);
  // The configuration class slides by 4096 unless the file says otherwise; null means no window.
  use_sliding_window(spec, config.json().contains("sliding_window") ? config.optional_size("sliding_window") : std::optional<std::int64_t>(4096));
  spec.ropes = {read_rope(config, spec)};
  spec.names = llama_names();
}

}  // namespace tessera::model
