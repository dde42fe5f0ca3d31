#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "tessera/cli/cli.h"
#include "tessera/core/error.h"
#include "tessera/core/file.h"
#include "tessera/core/json.h"
#include "tessera/data/template/chat.h"
#include "tessera/data/tokenizer/tokenizer.h"

namespace tessera::cli {
namespace {

using data::ChatRequest;
using data::ChatTemplate;

struct ChatTemplateOptions {
  std::filesystem::path model;
  std::filesystem::path messages;
  std::filesystem::path tools;
  std::filesystem::path conversations;
  std::string variables;
  std::string now;
  std::string bos_token;
  std::string eos_token;
  std::string pad_token;
  std::string unk_token;
  bool generation_prompt = false;
  bool json = false;
};

/// A template and what it sees besides the conversation.
struct Source {
  ChatTemplate chat_template;
  OrderedJson variables;
};

/// A Jinja file is the template itself; anything else is a tokenizer that brings one.
Source source_of(const std::filesystem::path& path) {
  if (path.extension() == ".jinja" || path.extension() == ".j2") return {data::load_chat_template(path), OrderedJson::object()};
  const data::Tokenizer tokenizer = data::load_tokenizer(path);
  return {data::chat_template_of(tokenizer), data::special_token_variables(tokenizer)};
}

std::tm parse_time(const std::string& text) {
  std::tm time{};
  const char* const end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &time);
  if (end == nullptr || *end != '\0') throw UserError({"--now", "not a time: " + text, "", "give one like 2026-01-02T03:04:05"});
  std::tm local = time;
  local.tm_isdst = -1;
  std::mktime(&local);  // fills in the names' fields: the day of the week and of the year
  return local;
}

OrderedJson read_ordered(const std::filesystem::path& path) { return parse_ordered_json(read_text_file(path), path.string()); }

ChatRequest base_request(const CLI::App& parser, const ChatTemplateOptions& options, OrderedJson variables) {
  ChatRequest request;
  request.add_generation_prompt = options.generation_prompt;
  const auto add = [&](const char* option, const char* name, const std::string& value) {
    if (parser.count(option) > 0) variables[name] = value;
  };
  add("--bos-token", "bos_token", options.bos_token);
  add("--eos-token", "eos_token", options.eos_token);
  add("--pad-token", "pad_token", options.pad_token);
  add("--unk-token", "unk_token", options.unk_token);
  if (!options.variables.empty()) {
    const OrderedJson more = parse_ordered_json(options.variables, "--variables");
    if (!more.is_object()) throw UserError({"--variables", "not a JSON object", "", "for example --variables '{\"enable_thinking\": false}'"});
    variables.update(more);
  }
  request.variables = std::move(variables);
  if (!options.now.empty()) request.now = parse_time(options.now);
  return request;
}

OrderedJson rendered_json(const data::RenderedChat& chat) {
  OrderedJson ranges = OrderedJson::array();
  for (const auto& [begin, end] : chat.assistant_ranges) ranges.push_back({begin, end});
  return {{"text", chat.text}, {"assistant_ranges", ranges}};
}

OrderedJson read_list(const std::filesystem::path& path, const std::string& what) {
  OrderedJson list = read_ordered(path);
  if (!list.is_array())
    throw UserError({path.string(), fmt::format("holds a JSON {}, not a list of {}", list.type_name(), what), "", "put them into a list: [ … ]"});
  return list;
}

int render_messages(const ChatTemplate& chat_template, ChatRequest request, const ChatTemplateOptions& options) {
  request.messages = read_list(options.messages, "messages");
  if (!options.tools.empty()) request.tools = read_list(options.tools, "tools");
  const data::RenderedChat chat = chat_template.render(request);
  fmt::print("{}", options.json ? rendered_json(chat).dump() + "\n" : chat.text);
  return 0;
}

/// One conversation of the map, with what it says itself over what the command line says.
ChatRequest request_of(const OrderedJson& conversation, ChatRequest request, const std::string& where) {
  if (!conversation.is_object() || !conversation.contains("messages"))
    throw UserError({where, "a conversation has no messages",
                     "it is {\"messages\": […], \"tools\"?: […], \"add_generation_prompt\"?, \"kwargs\"?: {…}}", "add its messages"});
  request.messages = conversation["messages"];
  request.tools = conversation.value("tools", OrderedJson());
  if (const auto prompt = conversation.find("add_generation_prompt"); prompt != conversation.end() && prompt->is_boolean())
    request.add_generation_prompt = prompt->get<bool>();
  if (const auto more = conversation.find("kwargs"); more != conversation.end() && more->is_object()) request.variables.update(*more);
  return request;
}

/// The file is a map of name to conversation, or has one under "conversations".
int render_conversations(const ChatTemplate& chat_template, const ChatRequest& base, const ChatTemplateOptions& options) {
  const OrderedJson file = read_ordered(options.conversations);
  const std::string where = options.conversations.string();
  const OrderedJson& conversations = file.is_object() && file.contains("conversations") ? file["conversations"] : file;
  if (!conversations.is_object())
    throw UserError({where, "not a map of conversations by name", "",
                     "for example {\"greeting\": {\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}}"});
  OrderedJson answers = OrderedJson::object();
  for (const auto& [name, conversation] : conversations.items()) {
    const ChatRequest request = request_of(conversation, base, where + ": " + name);
    try {
      answers[name] = {{"text", chat_template.render(request).text}};
    } catch (const UserError& error) {
      answers[name] = {{"error", error.what()}};
    }
  }
  print_json(answers);
  return 0;
}

int render(const CLI::App& parser, const ChatTemplateOptions& options) {
  const Source source = source_of(options.model);
  const ChatRequest request = base_request(parser, options, source.variables);
  if (!options.conversations.empty()) return render_conversations(source.chat_template, request, options);
  return render_messages(source.chat_template, request, options);
}

}  // namespace

Command add_chat_template(CLI::App& program) {
  const auto options = std::make_shared<ChatTemplateOptions>();
  CLI::App* parser = program.add_subcommand("chat-template", "Render conversations with a model's chat template");
  parser->require_subcommand(1);
  CLI::App* render_parser = parser->add_subcommand("render", "Render a conversation to the text that the model reads");
  render_parser->add_option("MODEL", options->model, "Model directory or tokenizer file with a chat template, or a .jinja file")->required();
  CLI::Option_group* input = render_parser->add_option_group("input");
  CLI::Option* messages = input->add_option("--messages", options->messages, "JSON file: [{\"role\": …, \"content\": …}, …]");
  input->add_option("--conversations", options->conversations,
                    "JSON file: {name: {\"messages\", \"tools\", \"add_generation_prompt\", \"kwargs\"}}; prints {name: {\"text\"} or {\"error\"}}");
  input->require_option(1);
  render_parser->add_option("--tools", options->tools, "JSON file: the tools that the model may call")->needs(messages);
  render_parser->add_option("--variables", options->variables, "Further variables of the template, a JSON object");
  render_parser->add_option("--bos-token", options->bos_token, "bos_token (default: the tokenizer's)");
  render_parser->add_option("--eos-token", options->eos_token, "eos_token");
  render_parser->add_option("--pad-token", options->pad_token, "pad_token");
  render_parser->add_option("--unk-token", options->unk_token, "unk_token");
  render_parser->add_option("--now", options->now, "The time that strftime_now returns, e.g. 2026-01-02T03:04:05 (default: now)");
  render_parser->add_flag("--generation-prompt", options->generation_prompt, "End with the beginning of the assistant's answer");
  render_parser->add_flag("--json", options->json, "Print {\"text\", \"assistant_ranges\"}: byte ranges of {% generation %} blocks")->needs(messages);
  for (CLI::App* described : {parser, render_parser})
    described->footer("example:\n  tessera chat-template render quickstart/SmolLM2-135M-Instruct --messages examples/quickstart/messages.json");
  return {parser, nullptr, nullptr, {{render_parser, [render_parser, options] { return render(*render_parser, *options); }}}};
}

}  // namespace tessera::cli
