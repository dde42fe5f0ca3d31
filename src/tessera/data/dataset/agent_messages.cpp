#include "tessera/data/dataset/agent_messages.h"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/core/error.h"
#include "tessera/data/dataset/chat_messages.h"
#include "tessera/data/dataset/python_json.h"
#include "tessera/data/dataset/records.h"

namespace tessera::data {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kAgentRoles = {{{"system", "system"},
                                                                                        {"human", "user"},
                                                                                        {"user", "user"},
                                                                                        {"gpt", "assistant"},
                                                                                        {"assistant", "assistant"},
                                                                                        {"function_call", "tool_call"},
                                                                                        {"tool_call", "tool_call"},
                                                                                        {"observation", "tool_response"},
                                                                                        {"tool_response", "tool_response"},
                                                                                        {"tool", "tool_response"}}};

bool is_name(const OrderedJson& value) { return value.is_string() && !value.get_ref<const std::string&>().empty(); }
/// What Python calls false.
bool is_empty(const OrderedJson& value) { return value.is_string() ? !is_name(value) : value.empty() || value == false || value == 0; }

std::string text_or_json(const OrderedJson& value) { return value.is_string() ? value.get<std::string>() : python_json(value, JsonCharacters::Any); }

std::string text_or_nothing(const OrderedJson& value) { return value.is_null() ? "" : python_text(value); }

void copy_reasoning(const OrderedJson& from, OrderedJson& to) {
  const auto reasoning = from.find("reasoning_content");
  if (reasoning != from.end() && !is_empty(*reasoning)) to["reasoning_content"] = python_text(*reasoning);
}

/// Puts the messages of one record into OpenAI's form, one after the other.
class AgentReader {
 public:
  AgentReader(const OrderedJson& record, const std::string& where) : where_(where) {
    if (const auto id = record.find("id"); id != record.end() && !id->is_null()) id_prefix_ += "_" + python_text(*id);
  }

  OrderedJson read(const std::vector<OrderedJson>& turns) {
    for (const OrderedJson& turn : turns) {
      const std::string role = turn.value("role", OrderedJson()).is_string() ? turn["role"].get<std::string>() : "";
      if (role == "tool_call") {
        add_call(turn);
      } else if (role == "tool_response" || role == "tool") {
        add_answer(turn);
      } else if (role == "system" || role == "user" || role == "assistant") {
        add_text(turn, role);
      } else {
        fail(fmt::format("a message has the role {}", turn.value("role", OrderedJson()).dump()),
             "roles are system, user, assistant, tool, tool_call and tool_response");
      }
      previous_role_ = role;
    }
    return std::move(messages_);
  }

 private:
  [[noreturn]] void fail(std::string what, std::string rule) const { throw UserError({where_, std::move(what), std::move(rule), kCorrectRecord}); }

  OrderedJson call_of(const OrderedJson& function, const OrderedJson& given_id) {
    if (!is_name(function.value("name", OrderedJson()))) fail("a call of a tool has no name", "a call names its function");
    const std::string id = is_name(given_id) ? given_id.get<std::string>() : fmt::format("{}_{}", id_prefix_, num_calls_);
    ++num_calls_;
    open_calls_.push_back(id);
    return {{"id", id},
            {"type", "function"},
            {"function", {{"name", function["name"]}, {"arguments", text_or_json(function.value("arguments", OrderedJson("")))}}}};
  }

  /// The first of consecutive calls begins a message, unless the assistant has just spoken.
  void add_call(const OrderedJson& turn) {
    OrderedJson call = turn.value("content", OrderedJson());
    if (is_empty(call)) call = OrderedJson::object();
    if (call.is_string()) call = OrderedJson::parse(call.get_ref<const std::string&>(), nullptr, false);
    if (!call.is_object()) fail("a call of a tool is not a JSON object", "a call is {\"name\": …, \"arguments\": …}");
    if (previous_role_ != "tool_call") {
      open_calls_.clear();
      if (messages_.empty() || messages_.back()["role"] != "assistant" || messages_.back().contains("tool_calls"))
        messages_.push_back({{"role", "assistant"}, {"content", ""}});
      messages_.back()["tool_calls"] = OrderedJson::array();
    }
    messages_.back()["tool_calls"].push_back(call_of(call, OrderedJson()));
  }

  void add_answer(const OrderedJson& turn) {
    if (previous_role_ != "tool" && previous_role_ != "tool_response") num_answers_ = 0;
    const OrderedJson given_id = turn.value("tool_call_id", OrderedJson());
    std::string id = fmt::format("{}_response_{}_{}", id_prefix_, num_calls_, num_answers_);
    if (num_answers_ < open_calls_.size()) id = open_calls_[num_answers_];
    if (is_name(given_id)) id = given_id.get<std::string>();
    ++num_answers_;
    OrderedJson message = {{"role", "tool"}, {"content", text_or_json(turn.value("content", OrderedJson("")))}, {"tool_call_id", id}};
    if (const OrderedJson name = turn.value("name", OrderedJson()); is_name(name)) message["name"] = name;
    messages_.push_back(std::move(message));
  }

  void add_text(const OrderedJson& turn, const std::string& role) {
    open_calls_.clear();
    OrderedJson message = {{"role", role}, {"content", text_or_nothing(turn.value("content", OrderedJson("")))}};
    if (role == "assistant") {
      copy_reasoning(turn, message);
      const OrderedJson calls = turn.value("tool_calls", OrderedJson());
      if (!calls.is_null() && !calls.is_array()) fail("tool_calls is not a list", "");
      if (!calls.is_null()) message["tool_calls"] = OrderedJson::array();
      for (const OrderedJson& call : calls) {
        if (!call.is_object() || !call.value("function", OrderedJson()).is_object()) fail("a call of a tool has no function", "");
        message["tool_calls"].push_back(call_of(call["function"], call.value("id", OrderedJson())));
      }
    }
    messages_.push_back(std::move(message));
  }

  const std::string& where_;
  std::string id_prefix_ = "call";
  std::string previous_role_;
  OrderedJson messages_ = OrderedJson::array();
  std::vector<std::string> open_calls_;  ///< ids of the calls that the next answers belong to
  std::size_t num_answers_ = 0;          ///< in a row
  std::size_t num_calls_ = 0;            ///< of the whole record
};

OrderedJson chatml_turn(const OrderedJson& turn, const std::string& where) {
  const OrderedJson from = turn.value("from", OrderedJson());
  for (const auto& [given, role] : kAgentRoles) {
    if (from != given) continue;
    OrderedJson message = {{"role", std::string(role)}, {"content", turn.value("value", OrderedJson(""))}};
    copy_reasoning(turn, message);
    return message;
  }
  throw UserError({where, fmt::format("a turn is from {}", from.dump()), "ShareGPT's turns are from system, human, gpt, function_call or observation",
                   kCorrectRecord});
}

/// The record's turns in chatml's form.
std::vector<OrderedJson> turns_of(const OrderedJson& record, const std::string& where) {
  const OrderedJson messages = record.value("messages", OrderedJson());
  const OrderedJson& given = messages.is_null() && record.contains("conversations") ? record["conversations"] : messages;
  if (!given.is_array())
    throw UserError({where, "there is no list `messages` or `conversations`", "a sample of an agent's dataset is one conversation", kCorrectRecord});
  std::vector<OrderedJson> turns;
  for (const OrderedJson& turn : given) {
    if (!turn.is_object()) throw UserError({where, "a message is not an object", "a message has a role and a content", kCorrectRecord});
    turns.push_back(messages.is_null() ? chatml_turn(turn, where) : turn);
  }
  return turns;
}

bool is_assistants(const OrderedJson& message) { return message.value("role", OrderedJson()) == "assistant"; }

/// One past the last message that is the assistant's; 0 when none is.
std::size_t end_of_last_assistant(const auto& messages) {
  std::size_t end = messages.size();
  while (end > 0 && !is_assistants(messages[end - 1])) --end;
  return end;
}

}  // namespace

Conversation agent_conversation(const OrderedJson& record, const AgentOptions& options, const std::string& where) {
  std::vector<OrderedJson> turns = turns_of(record, where);
  if (const std::size_t end = end_of_last_assistant(turns); options.trim_incomplete_last_turn && end > 0) turns.resize(end);
  Conversation conversation{AgentReader(record, where).read(turns), tools_of(record, where)};
  const std::size_t end = end_of_last_assistant(conversation.messages);
  for (std::size_t index = 0; options.drop_history_reasoning && index + 1 < end; ++index) conversation.messages[index].erase("reasoning_content");
  return conversation;
}

Conversation with_recent_exchanges(Conversation conversation, std::int64_t num_tokens, const DatasetContext& context, const std::string& where) {
  if (conversation_tokens(conversation, context, where) <= num_tokens) return conversation;
  const OrderedJson& messages = conversation.messages;
  std::size_t num_system = 0;
  while (num_system < messages.size() && messages[num_system]["role"] == "system") ++num_system;
  std::vector<std::size_t> begins;
  for (std::size_t index = num_system; index < messages.size(); ++index)
    if (messages[index]["role"] == "user") begins.push_back(index);
  for (const std::size_t begin : begins) {
    Conversation shorter{OrderedJson(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(num_system)), conversation.tools};
    for (std::size_t index = begin; index < messages.size(); ++index) shorter.messages.push_back(messages[index]);
    if (begin == begins.back() || conversation_tokens(shorter, context, where) <= num_tokens) return shorter;
  }
  return conversation;
}

}  // namespace tessera::data
