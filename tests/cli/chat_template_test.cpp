#include <gmock/gmock.h>

#include "support/command_line.h"
#include "support/support.h"
#include "tessera/core/json.h"

namespace tessera {
namespace {

using test::run_tessera;
using testing::HasSubstr;

class ChatTemplateCommand : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    test::write_file(directory_ / name, text);
    return directory_ / name;
  }
  std::string messages() const { return write("messages.json", R"([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}])"); }
  std::string chat() const {
    return write("chat.jinja",
                 "{{ bos_token }}{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}"
                 "{% generation %}{{ m.content }}{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}"
                 "{% if add_generation_prompt %}<assistant>{% endif %}{% if clock %}{{ strftime_now('%A %d %b %Y %H:%M:%S') }}{% endif %}");
  }

 private:
  test::TemporaryDirectory directory_;
};

TEST_F(ChatTemplateCommand, PrintsTheTextAlone) {
  const auto result = run_tessera({"chat-template", "render", chat(), "--messages", messages(), "--bos-token", "<s>", "--generation-prompt"});
  EXPECT_EQ(result.status, 0) << result.error;
  EXPECT_EQ(result.output, "<s><user>Hi<assistant>Ho<assistant>");
}

TEST_F(ChatTemplateCommand, JsonTellsWhatTheAssistantSays) {
  const std::string tools = write("tools.json", R"([{"name": "f"}])");
  const auto result = run_tessera({"chat-template", "render", chat(), "--messages", messages(), "--tools", tools, "--json"});
  const Json answer = parse_json(result.output, "output");
  EXPECT_EQ(answer["text"], "[{\"name\": \"f\"}]<user>Hi<assistant>Ho");
  EXPECT_EQ(answer["assistant_ranges"], Json::parse("[[34, 36]]"));
}

TEST_F(ChatTemplateCommand, TheClockAndVariablesAreGiven) {
  const auto result =
      run_tessera({"chat-template", "render", chat(), "--messages", messages(), "--now", "2026-01-02T03:04:05", "--variables", "{\"clock\": true}"});
  EXPECT_THAT(result.output, HasSubstr("Friday 02 Jan 2026 03:04:05"));
  EXPECT_EQ(run_tessera({"chat-template", "render", chat(), "--messages", messages(), "--now", "yesterday"}).status, 2);
  EXPECT_EQ(run_tessera({"chat-template", "render", chat(), "--messages", messages(), "--variables", "[1]"}).status, 2);
}

TEST_F(ChatTemplateCommand, ConversationsAnswerByNameTextOrError) {
  const std::string failing = write("failing.jinja", "{% if messages | length > 1 %}{{ raise_exception('too many') }}{% endif %}{{ name }}");
  const std::string conversations = write("conversations.json", R"({"conversations": {
    "one": {"messages": [{"role": "user", "content": "Hi"}], "tools": null, "add_generation_prompt": true, "kwargs": {"name": "N"}},
    "two": {"messages": [{}, {}], "kwargs": {}}}})");
  const auto result = run_tessera({"chat-template", "render", failing, "--conversations", conversations});
  EXPECT_EQ(result.status, 0) << result.error;
  const Json answers = parse_json(result.output, "output");
  EXPECT_EQ(answers["one"], Json({{"text", "N"}}));
  EXPECT_THAT(answers["two"]["error"].get<std::string>(), testing::AllOf(HasSubstr("failing.jinja:1"), HasSubstr("too many")));
}

TEST_F(ChatTemplateCommand, MistakesAreMendable) {
  const auto result = run_tessera({"chat-template", "render", write("broken.jinja", "a\n{% if x %}"), "--messages", messages()});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.error, HasSubstr("broken.jinja:2: chat template: unexpected end of template"));
  EXPECT_EQ(run_tessera({"chat-template", "render", chat()}).status, 2);
  const auto object = run_tessera({"chat-template", "render", chat(), "--messages", write("object.json", "{}")});
  EXPECT_THAT(object.error, HasSubstr("object.json: holds a JSON object, not a list of messages"));
}

}  // namespace
}  // namespace tessera
