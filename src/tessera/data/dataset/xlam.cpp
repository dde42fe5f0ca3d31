#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/data/dataset/python_json.h"
#include "tessera/data/dataset/record_dataset.h"

namespace tessera::data {
namespace {

/// xLAM writes Python's types; everything unknown is a string.
constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kSchemaTypes = {{{"int", "integer"},
                                                                                         {"integer", "integer"},
                                                                                         {"float", "number"},
                                                                                         {"double", "number"},
                                                                                         {"number", "number"},
                                                                                         {"bool", "boolean"},
                                                                                         {"boolean", "boolean"},
                                                                                         {"list", "array"},
                                                                                         {"array", "array"},
                                                                                         {"object", "object"},
                                                                                         {"str", "string"}}};

std::string schema_type(const OrderedJson& definition) {
  const OrderedJson given = definition.value("type", OrderedJson("string"));
  const std::string name = to_lower(python_text(given));
  for (const auto& [python, schema] : kSchemaTypes)
    if (name == python) return std::string(schema);
  return "string";
}

/// A list of objects, or its JSON as text, as the dataset on the Hub has it.
OrderedJson list_in(const OrderedJson& record, const std::string& column, const std::string& where) {
  const auto found = record.find(column);
  if (found == record.end()) throw_missing_column(record, column, where);
  OrderedJson list = found->is_string() ? parse_ordered_json(found->get_ref<const std::string&>(), where) : *found;
  if (list.is_null()) return OrderedJson::array();
  bool objects = list.is_array();
  for (const OrderedJson& item : list) objects = objects && item.is_object();
  if (!objects)
    throw UserError({where, fmt::format("column '{}' is not a list of objects", column), "it lists functions with a name", kCorrectRecord});
  return list;
}

bool has_name(const OrderedJson& item) {
  return item.contains("name") && item["name"].is_string() && !item["name"].get_ref<const std::string&>().empty();
}

OrderedJson parameters_schema(const OrderedJson& tool) {
  OrderedJson properties = OrderedJson::object(), required = OrderedJson::array();
  const auto parameters = tool.find("parameters");
  if (parameters != tool.end() && parameters->is_object()) {
    for (const auto& [name, definition] : parameters->items()) {
      if (!definition.is_object()) continue;
      OrderedJson property = {{"type", schema_type(definition)}, {"description", definition.value("description", OrderedJson(""))}};
      if (definition.contains("enum")) property["enum"] = definition["enum"];
      if (definition.contains("default")) {
        property["default"] = definition["default"];
      } else {
        required.push_back(name);
      }
      properties[name] = std::move(property);
    }
  }
  OrderedJson schema = {{"type", "object"}, {"properties", std::move(properties)}};
  if (!required.empty()) schema["required"] = std::move(required);
  return schema;
}

OrderedJson tools_of(const OrderedJson& record, const std::string& where) {
  OrderedJson tools = OrderedJson::array();
  for (const OrderedJson& tool : list_in(record, "tools", where)) {
    if (!has_name(tool)) continue;
    const OrderedJson function = {
        {"name", tool["name"]}, {"description", tool.value("description", OrderedJson(""))}, {"parameters", parameters_schema(tool)}};
    tools.push_back({{"type", "function"}, {"function", function}});
  }
  return tools;
}

OrderedJson calls_of(const OrderedJson& record, const std::string& where) {
  OrderedJson calls = OrderedJson::array();
  const auto id = record.find("id");
  const std::string prefix = id == record.end() || id->is_null() ? "call_" : "call_" + python_text(*id) + "_";
  std::size_t index = 0;
  for (const OrderedJson& call : list_in(record, "answers", where)) {
    const std::string name = prefix + std::to_string(index++);
    if (!has_name(call)) continue;
    OrderedJson arguments = call.value("arguments", OrderedJson(""));
    if (!arguments.is_string()) arguments = python_json(arguments, JsonCharacters::Any);
    calls.push_back({{"id", name}, {"type", "function"}, {"function", {{"name", call["name"]}, {"arguments", arguments}}}});
  }
  return calls;
}

Conversation conversation_of_record(const Records& from, std::int64_t index) {
  const OrderedJson record = from.record(index);
  const std::string where = from.where(index);
  Conversation conversation{OrderedJson::array(), tools_of(record, where)};
  conversation.messages.push_back({{"role", "user"}, {"content", needed_text(record, "query", where)}});
  conversation.messages.push_back({{"role", "assistant"}, {"content", ""}, {"tool_calls", calls_of(record, where)}});
  return conversation;
}

std::int64_t check(const DatasetContext& context, const Records& from, std::int64_t index) {
  const std::string where = from.where(index);
  const Conversation conversation = conversation_of_record(from, index);
  if (conversation.messages[1]["tool_calls"].empty())
    throw UserError({where, "the answer calls nothing", "a sample needs something to learn", "remove the record, or complete it"});
  return conversation_bytes(conversation, context, where);
}

}  // namespace

std::unique_ptr<Dataset> xlam_dataset(Records records, const InstructionOptions& options, const DatasetContext& context) {
  refuse_empty(records);
  if (!context.chat_template) {
    throw UserError({"", "there is no chat template", "function calls are rendered with the tokenizer's template",
                     "set chat_template to a .jinja file, or use a model that was trained to call functions"});
  }
  RecordKind kind{.description = "function calls", .instruction = options, .check = nullptr, .make_sample = nullptr};
  kind.check = [context](const Records& from, std::int64_t index) { return check(context, from, index); };
  kind.make_sample = [options, context](const Records& from, std::int64_t index) {
    return conversation_sample(conversation_of_record(from, index), options, context, from.where(index));
  };
  return std::make_unique<RecordDataset>(std::move(records), context, std::move(kind));
}

}  // namespace tessera::data
