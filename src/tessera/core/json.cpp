#include "tessera/core/json.h"

#include <algorithm>
#include <set>

#include "tessera/core/error.h"
#include "tessera/core/file.h"

namespace tessera {
namespace {

constexpr std::size_t kMaxDepth = 200;
constexpr const char* kDamaged = "correct the text there; where a file was cut short, copy it again";

std::string at_line(const std::string& where, std::string_view text, std::size_t byte) {
  const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(byte, text.size()));
  const auto line = 1 + std::count(text.begin(), end, '\n');
  return text.find('\n') == std::string_view::npos ? where : where + ":" + std::to_string(line);
}

/// nlohmann's message without its own "[json.exception…]" prefix and position.
std::string plain(const char* message) {
  std::string_view text = message;
  if (const auto column = text.find(": "); column != std::string_view::npos && text.starts_with("[json")) text.remove_prefix(column + 2);
  return std::string(text);
}

/// Refuses what the library would accept silently: repeated keys and depth that would exhaust the stack.
class Guard {
 public:
  explicit Guard(const std::string& where) : where_(where) {}

  bool operator()(int depth, nlohmann::detail::parse_event_t event, std::string_view key) {
    using Event = nlohmann::detail::parse_event_t;
    if (depth > static_cast<int>(kMaxDepth))
      throw UserError({where_, "JSON nested deeper than " + std::to_string(kMaxDepth), "no file that is read here needs to be",
                       "check that this is the file that was meant"});
    if (event == Event::object_start) keys_.emplace_back();
    if (event == Event::object_end) keys_.pop_back();
    if (event == Event::key && !keys_.back().insert(std::string(key)).second)
      throw UserError({where_, "key \"" + std::string(key) + "\" is given twice", "a JSON object holds each key once", "remove one of them"});
    return true;
  }

 private:
  const std::string& where_;
  std::vector<std::set<std::string>> keys_;
};

template <class Value>
Value parse(std::string_view text, const std::string& where) {
  Guard guard(where);
  try {
    return Value::parse(text, [&](int depth, auto event, Value& parsed) {
      using Event = nlohmann::detail::parse_event_t;
      const auto same = static_cast<Event>(event);
      return guard(depth, same, same == Event::key ? parsed.template get_ref<const std::string&>() : std::string());
    });
  } catch (const nlohmann::json::parse_error& error) {
    throw UserError({at_line(where, text, error.byte), "not valid JSON: " + plain(error.what()), "", kDamaged});
  } catch (const nlohmann::json::exception& error) {
    throw UserError({where, "not valid JSON: " + plain(error.what()), "", kDamaged});
  }
}

}  // namespace

Json parse_json(std::string_view text, const std::string& where) { return parse<Json>(text, where); }
OrderedJson parse_ordered_json(std::string_view text, const std::string& where) { return parse<OrderedJson>(text, where); }

Json read_json_file(const std::filesystem::path& path) { return parse_json(MappedFile(path).text(), path.string()); }

}  // namespace tessera
