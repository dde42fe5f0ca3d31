#include "tessera/model/families/common.h"
#include "tessera/model/families/families.h"
#include "tessera/model/families/rope_config.h"

namespace tessera::model {

/// Norms on both sides, soft caps, every other layer slides.
void describe_gemma2(ConfigReader& config, ModelSpec& spec) {
  read_gemma_common(config, 8192, spec);
  // Without these fields the configuration class caps at 50 and 30; null means no cap.
  spec.attention_soft_cap = config.json().contains("attn_logit_softcapping") ? config.optional_positive_number("attn_logit_softcapping") : 50.0;
  spec.final_soft_cap = config.json().contains("final_logit_softcapping") ? config.optional_positive_number("final_logit_softcapping") : 30.0;
  const std::optional<std::int64_t> window = config.json().contains("sliding_window") ? config.optional_size("sliding_window") : 4096;
  read_layer_types(config, spec, window, [](std::int64_t layer) { return layer % 2 == 0; });
  spec.ropes = {read_rope(config, spec)};
  spec.names = sandwich_names();
}

}  // namespace tessera::model
