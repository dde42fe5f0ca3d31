#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "tessera/cli/cli.h"
#include "tessera/core/error.h"
#include "tessera/core/file.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"
#include "tessera/data/tokenizer/tokenizer.h"

namespace tessera::cli {
namespace {

using data::TokenId;
using data::Tokenizer;

struct TokenizeOptions {
  std::filesystem::path model;
  std::string text;
  std::filesystem::path file;
  std::filesystem::path jsonl;
  std::string ids;
  bool special = false;
  bool json = false;
};

/// "1 2,3" or "[1, 2, 3]".
std::vector<TokenId> parse_ids(const std::string& text) {
  std::vector<TokenId> ids;
  const char* const end = text.data() + text.size();
  for (const char* position = text.data(); position < end;) {
    if (std::string_view(" ,[]\n\t").find(*position) != std::string_view::npos) {
      ++position;
      continue;
    }
    TokenId id = 0;
    const auto [next, status] = std::from_chars(position, end, id);
    if (status != std::errc()) throw UserError({"--decode", "not a list of token ids: " + text, "", "give numbers, e.g. --decode \"1 2 3\""});
    ids.push_back(id);
    position = next;
  }
  return ids;
}

std::string printable(const Tokenizer& tokenizer, TokenId id) { return tokenizer.token(id).value_or(""); }

/// A table of id and token for people, {"ids", "tokens", "decoded"} for programs.
void print_encoding(const Tokenizer& tokenizer, std::string_view text, const TokenizeOptions& options) {
  const std::vector<TokenId> ids = tokenizer.encode(text, options.special);
  if (!options.json) {
    for (const TokenId id : ids) fmt::print("{:>8}  {}\n", id, printable(tokenizer, id));
    fmt::print(stderr, "{} tokens, {} bytes\n", ids.size(), text.size());
    return;
  }
  OrderedJson tokens = OrderedJson::array();
  for (const TokenId id : ids) tokens.push_back(printable(tokenizer, id));
  fmt::print("{}\n", OrderedJson{{"ids", ids}, {"tokens", tokens}, {"decoded", tokenizer.decode(ids, false)}}.dump());
}

/// One JSON string a line in, {"ids", "decoded"} a line out.
void print_jsonl(const Tokenizer& tokenizer, const TokenizeOptions& options) {
  const MappedFile file(options.jsonl);
  std::size_t number = 0;
  for (const std::string& line : split(file.text(), '\n')) {
    ++number;
    if (line.empty()) continue;
    const std::string where = fmt::format("{}:{}", options.jsonl.string(), number);
    const Json value = parse_json(line, where);
    if (!value.is_string())
      throw UserError({where, "not a JSON string", "--jsonl reads one JSON string a line",
                       "put the line's text into quotation marks, or read the file with --file"});
    const std::vector<TokenId> ids = tokenizer.encode(value.get_ref<const std::string&>(), options.special);
    fmt::print("{}\n", OrderedJson{{"ids", ids}, {"decoded", tokenizer.decode(ids, false)}}.dump());
  }
}

void refuse_unknown_ids(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  for (const TokenId id : ids) {
    if (!tokenizer.token(id))
      throw UserError({"--decode", fmt::format("no token has the id {}", id), fmt::format("the vocabulary has {} ids", tokenizer.vocab_size()),
                       "use ids of this tokenizer; --text shows those of a text"});
  }
}

void print_text(const Tokenizer& tokenizer, const TokenizeOptions& options) {
  const std::vector<TokenId> ids = parse_ids(options.ids);
  refuse_unknown_ids(tokenizer, ids);
  const std::string text = tokenizer.decode(ids, false);
  fmt::print("{}\n", options.json ? OrderedJson{{"text", text}}.dump() : text);
}

int tokenize(const CLI::App& parser, const TokenizeOptions& options) {
  const Tokenizer tokenizer = data::load_tokenizer(options.model);
  if (parser.count("--jsonl") > 0) {
    print_jsonl(tokenizer, options);
  } else if (parser.count("--decode") > 0) {
    print_text(tokenizer, options);
  } else {
    print_encoding(tokenizer, parser.count("--file") > 0 ? read_text_file(options.file) : options.text, options);
  }
  return 0;
}

}  // namespace

Command add_tokenize(CLI::App& program) {
  const auto options = std::make_shared<TokenizeOptions>();
  CLI::App* parser = program.add_subcommand("tokenize", "Turn text into token ids, or ids into text");
  parser->add_option("MODEL", options->model, "Model directory or tokenizer file")->required();
  CLI::Option_group* input = parser->add_option_group("input");
  input->add_option("--text", options->text, "This text");
  input->add_option("--file", options->file, "The whole file");
  input->add_option("--jsonl", options->jsonl, "A file with one JSON string a line; prints {\"ids\": […], \"decoded\": \"…\"} a line");
  input->add_option("--decode", options->ids, "These token ids, e.g. \"1 2 3\", back to text");
  input->require_option(1);
  parser->add_flag("--special", options->special, "Add the special tokens that the tokenizer puts around a text (BOS, EOS)");
  parser->add_flag("--json", options->json, "Print one JSON document");
  parser->footer("example:\n  tessera tokenize quickstart/SmolLM2-135M-Instruct --text \"Hello world\"");
  return {parser, [parser, options] { return tokenize(*parser, *options); }};
}

}  // namespace tessera::cli
