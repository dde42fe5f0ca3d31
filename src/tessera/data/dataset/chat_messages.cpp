#include "tessera/data/dataset/chat_messages.h"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

#include "tessera/core/error.h"
#include "tessera/data/dataset/python_json.h"
#include "tessera/data/dataset/records.h"

namespace tessera::data {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kShareGptRoles = {{{"system", "system"},
                                                                                          {"human", "user"},
                                                                                          {"user", "user"},
                                                                                          {"gpt", "assistant"},
                                                                                          {"assistant", "assistant"},
                                                                                          {"chatgpt", "assistant"},
                                                                                          {"model", "assistant"},
                                                                                          {"bot", "assistant"}}};

/// Says which part of a record is wrong.
class Mistake {
 public:
  explicit Mistake(const std::string& where, const char* fix = kCorrectRecord) : where_(where), fix_(fix) {}
  [[noreturn]] void operator()(std::string what, std::string rule) const { throw UserError({where_, std::move(what), std::move(rule), fix_}); }

 private:
  const std::string& where_;
  const char* fix_;
};

const OrderedJson& member(const OrderedJson& object, const char* key) {
  static const OrderedJson absent;
  const auto found = object.find(key);
  return found == object.end() ? absent : *found;
}

bool is_text(const OrderedJson& value) { return value.is_string() && !value.get_ref<const std::string&>().empty(); }
bool is_left_out(const OrderedJson& value) { return value.is_null() || (value.is_string() && !is_text(value)); }

/// One text: that of a list's parts joined by spaces.
std::string content_text(const OrderedJson& content) {
  if (content.is_null()) return "";
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) return python_text(content);
  std::string joined;
  for (const OrderedJson& part : content) {
    if (!part.is_object() || !part.contains("text")) continue;
    if (!joined.empty()) joined += " ";
    joined += content_text(part["text"]);
  }
  return joined;
}

OrderedJson tool_call(const OrderedJson& given, std::size_t index, const Mistake& mistake) {
  const std::string name = fmt::format("tool_calls[{}]", index);
  if (!given.is_object()) mistake(name + " is not an object", "a call has a function");
  OrderedJson call = given;
  if (is_left_out(member(given, "id"))) call["id"] = fmt::format("call_{}", index);
  if (is_left_out(member(given, "type"))) call["type"] = "function";
  if (!call["id"].is_string() || !call["type"].is_string()) mistake(name + ": id or type is not text", "");
  const OrderedJson& function = member(given, "function");
  if (!function.is_object() || !is_text(member(function, "name"))) mistake(name + " has no function with a name", "a call names its function");
  const OrderedJson& arguments = member(function, "arguments");
  if (arguments.is_null()) mistake(name + " has no arguments", "a call gives its arguments, if only {}");
  if (!arguments.is_string()) call["function"]["arguments"] = python_json(arguments, JsonCharacters::Ascii);
  return call;
}

OrderedJson message_of(const OrderedJson& given, const Mistake& mistake) {
  if (!given.is_object()) mistake("a message is not an object", "a message has a role and a content");
  const OrderedJson& role = member(given, "role");
  if (role != "system" && role != "user" && role != "assistant" && role != "tool")
    mistake(fmt::format("a message has the role {}", role.dump()), "roles are system, user, assistant and tool");
  OrderedJson message = given;
  message["content"] = content_text(member(given, "content"));
  if (role == "tool" && !is_text(member(given, "tool_call_id")))
    mistake("a tool's message has no tool_call_id", "it says which call the tool answers");
  if (role != "assistant") return message;
  if (const auto reasoning = message.find("reasoning_content"); reasoning != message.end()) {
    if (reasoning->is_null()) *reasoning = "";
    if (!reasoning->is_string()) mistake("reasoning_content is not text", "");
  }
  if (const auto calls = message.find("tool_calls"); calls != message.end()) {
    if (!calls->is_array()) mistake("tool_calls is not a list", "");
    for (std::size_t index = 0; index < calls->size(); ++index) (*calls)[index] = tool_call((*calls)[index], index, mistake);
  }
  return message;
}

OrderedJson share_gpt_message(const OrderedJson& turn, const Mistake& mistake) {
  if (!turn.is_object()) mistake("a turn of `conversations` is not an object", "a turn is {\"from\": …, \"value\": …}");
  const OrderedJson& from = turn.contains("from") ? turn["from"] : member(turn, "role");
  for (const auto& [given, role] : kShareGptRoles) {
    if (from != given) continue;
    const OrderedJson& value = turn.contains("value") ? turn["value"] : member(turn, "content");
    return {{"role", std::string(role)}, {"content", value}};
  }
  mistake(fmt::format("a turn is from {}", from.dump()), "ShareGPT's turns are from system, human or gpt; calls of tools need OpenAI's `messages`");
}

}  // namespace

OrderedJson tools_of(const OrderedJson& record, const std::string& where) {
  const Mistake mistake(where);
  OrderedJson tools = member(record, "tools");
  if (tools.is_string()) {
    const std::string text = stripped(tools.get_ref<const std::string&>());
    OrderedJson parsed = text.empty() ? OrderedJson() : OrderedJson::parse(text, nullptr, false);
    if (parsed.is_discarded()) mistake("`tools` is text, but not JSON", "tools are a list, or its JSON");
    tools = std::move(parsed);
  }
  if (!tools.is_null() && !tools.is_array()) mistake(fmt::format("`tools` is a JSON {}", tools.type_name()), "tools are a list");
  return tools.empty() ? OrderedJson() : tools;
}

Conversation conversation_of(const OrderedJson& record, const std::string& where) {
  const Mistake mistake(where, "correct or remove this record, or set skip_invalid_samples: true");
  const OrderedJson& messages = member(record, "messages");
  const OrderedJson& turns = member(record, "conversations");
  const bool share_gpt = messages.is_null() && turns.is_array();
  if (!share_gpt && !messages.is_array()) mistake("there is no list `messages` or `conversations`", "a sample of a chat dataset is one conversation");
  Conversation conversation{OrderedJson::array(), tools_of(record, where)};
  for (const OrderedJson& given : share_gpt ? turns : messages)
    conversation.messages.push_back(message_of(share_gpt ? share_gpt_message(given, mistake) : given, mistake));
  return conversation;
}

Conversation tulu3_conversation(const OrderedJson& record, const std::string& where) {
  const Mistake mistake(where);
  const OrderedJson& messages = member(record, "messages");
  if (!messages.is_array()) mistake("there is no list `messages`", "a sample of this dataset is one conversation");
  Conversation conversation{OrderedJson::array()};
  for (const OrderedJson& message : messages) {
    if (!message.is_object()) mistake("a message is not an object", "a message has a role and a content");
    const OrderedJson& role = member(message, "role");
    if (role != "system" && role != "user" && role != "assistant") continue;
    if (!member(message, "content").is_string()) mistake("a message's content is not text", "this dataset is text alone");
    const std::string content = member(message, "content").get<std::string>();
    conversation.messages.push_back({{"role", role}, {"content", role == "user" ? stripped(content) : content}});
  }
  return conversation;
}

}  // namespace tessera::data
