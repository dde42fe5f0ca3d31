#include "target.h"
#include "tessera/data/template/chat.h"

// Templates come with downloaded models: whatever they say, rendering ends soon, within its limits, with a text or an error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return tessera::fuzz::refuses_cleanly([&] {
    tessera::data::ChatRequest request;
    request.messages = {{{"role", "system"}, {"content", "Be brief."}},
                        {{"role", "user"}, {"content", {{{"type", "text"}, {"text", "Hé"}}}}},
                        {{"role", "assistant"}, {"content", "x"}, {"tool_calls", {{{"function", {{"name", "f"}, {"arguments", {{"a", 1.5}}}}}}}}}};
    request.tools = {{{"type", "function"}, {"function", {{"name", "f"}}}}};
    request.add_generation_prompt = true;
    request.variables = {{"bos_token", "<s>"}};
    tessera::data::ChatTemplate(tessera::fuzz::text_of(data, size), "fuzz.jinja").render(request);
  });
}
