#include <gtest/gtest.h>

#include "support/support.h"
#include "tessera/data/template/chat.h"

namespace tessera::data {
namespace {

using test::error_of;
using test::read_file;
using test::shared_data;

/// 2026-01-02 03:04:05, the clock of the goldens.
std::tm fixed_clock() {
  std::tm now{};
  now.tm_year = 2026 - 1900;
  now.tm_mon = 0;
  now.tm_mday = 2;
  now.tm_hour = 3;
  now.tm_min = 4;
  now.tm_sec = 5;
  std::mktime(&now);
  return now;
}

ChatRequest request_of(const OrderedJson& conversation) {
  ChatRequest request;
  request.messages = conversation["messages"];
  request.tools = conversation["tools"];
  request.add_generation_prompt = conversation["add_generation_prompt"].get<bool>();
  request.variables = {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"pad_token", "<pad>"}, {"unk_token", "<unk>"}};
  request.variables.update(conversation["kwargs"]);
  request.now = fixed_clock();
  return request;
}

/// 21 conversations through 29 published templates, as transformers renders them.
TEST(TemplateGolden, EqualsTransformers) {
  const auto path = shared_data("goldens/chat_templates.json");
  TESSERA_SKIP_WITHOUT(path);
  const OrderedJson golden = parse_ordered_json(read_file(path), path.string());
  for (const auto& [file, renders] : golden["renders"].items()) {
    const std::string text = read_file(shared_data("data/chat_templates/" + file));
    for (const auto& [name, expected] : renders.items()) {
      const ChatRequest request = request_of(golden["conversations"][name]);
      if (expected.contains("error")) {
        const std::string error = error_of([&] { ChatTemplate(text, file).render(request); });
        const auto cause = expected["error"].get<std::string>();
        EXPECT_NE(error.find(file + ":"), std::string::npos) << error;
        EXPECT_NE(error.find(cause.substr(cause.find(": ") + 2)), std::string::npos) << file << " " << name << ": " << error << "\n" << cause;
        continue;
      }
      try {
        EXPECT_EQ(ChatTemplate(text, file).render(request).text, expected["text"].get<std::string>()) << file << " " << name;
      } catch (const std::exception& error) {
        ADD_FAILURE() << file << " " << name << ": " << error.what();
      }
    }
  }
}

}  // namespace
}  // namespace tessera::data
