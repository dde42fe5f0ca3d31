// How Python writes values: str(), repr(), json.dumps().
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "tessera/data/template/value.h"
#include "tessera/data/tokenizer/unicode.h"

namespace tessera::data::jinja {
namespace {

std::string string_repr(std::string_view text) {
  const bool double_quotes = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = double_quotes ? '"' : '\'';
  std::string out(1, quote);
  for (std::size_t i = 0; i < text.size();) {
    const auto [value, num_bytes] = code_point_at(text, i);
    const std::string_view character = text.substr(i, num_bytes);
    i += num_bytes;
    if (value == '\n') {
      out += "\\n";
    } else if (value == '\r') {
      out += "\\r";
    } else if (value == '\t') {
      out += "\\t";
    } else if (value == '\\' || value == static_cast<char32_t>(quote)) {
      out.append("\\").append(character);
    } else if (is_printable(value)) {
      out += character;
    } else {
      const auto number = static_cast<std::uint32_t>(value);
      out += value < 0x100 ? fmt::format("\\x{:02x}", number) : value < 0x10000 ? fmt::format("\\u{:04x}", number) : fmt::format("\\U{:08x}", number);
    }
  }
  return out + quote;
}

void append_json_string(std::string_view text, bool ensure_ascii, std::string& out) {
  out += '"';
  for (std::size_t i = 0; i < text.size();) {
    const auto [value, num_bytes] = code_point_at(text, i);
    const auto number = static_cast<std::uint32_t>(value);
    if (value == '"' || value == '\\') {
      out.append("\\").append(1, static_cast<char>(value));
    } else if (value == '\n') {
      out += "\\n";
    } else if (value == '\r') {
      out += "\\r";
    } else if (value == '\t') {
      out += "\\t";
    } else if (value == '\f') {
      out += "\\f";
    } else if (value == '\b') {
      out += "\\b";
    } else if (value < 0x20 || (ensure_ascii && value >= 0x7F && value < 0x10000)) {
      out += fmt::format("\\u{:04x}", number);
    } else if (ensure_ascii && value >= 0x10000) {
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((number - 0x10000) >> 10), 0xDC00 + ((number - 0x10000) & 0x3FF));
    } else {
      out += text.substr(i, num_bytes);
    }
    i += num_bytes;
  }
  out += '"';
}

class JsonWriter {
 public:
  explicit JsonWriter(const JsonStyle& style) : style_(style) {}

  std::string run(const Value& value) {
    write(value, 0);
    return std::move(out_);
  }

 private:
  void write(const Value& value, int depth) {
    check_text_size(out_.size());
    if (value.is_none()) {
      out_ += "null";
    } else if (value.is_boolean()) {
      out_ += truth(value) ? "true" : "false";
    } else if (value.is_integer()) {
      out_ += std::to_string(value.as_integer(""));
    } else if (value.is_real()) {
      out_ += number(value.as_real());
    } else if (const std::string* text = value.string()) {
      append_json_string(*text, style_.ensure_ascii, out_);
    } else if (const Sequence* sequence = value.sequence()) {
      write_sequence(*sequence, depth);
    } else if (const Dict* dict = value.dict()) {
      write_dict(*dict, depth);
    } else {
      throw TemplateError(fmt::format("Object of type {} is not JSON serializable", type_name(value)));
    }
  }

  static std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return real_to_text(value);
  }

  void new_line(int depth) {
    if (style_.indent >= 0) out_.append("\n").append(static_cast<std::size_t>(depth) * static_cast<std::size_t>(style_.indent), ' ');
  }

  void write_sequence(const Sequence& sequence, int depth) {
    if (sequence.items.empty()) {
      out_ += "[]";
      return;
    }
    out_ += '[';
    for (std::size_t i = 0; i < sequence.items.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      new_line(depth + 1);
      write(sequence.items[i], depth + 1);
    }
    new_line(depth);
    out_ += ']';
  }

  static std::string key_text(const Value& key) {
    if (key.string() != nullptr) return *key.string();
    if (key.is_none()) return "null";
    if (key.is_boolean()) return truth(key) ? "true" : "false";
    if (key.is_number()) return to_text(key);
    throw TemplateError(fmt::format("keys must be str, int, float, bool or None, not {}", type_name(key)));
  }

  void write_dict(const Dict& dict, int depth) {
    if (dict.entries.empty()) {
      out_ += "{}";
      return;
    }
    auto entries = dict.entries;
    if (style_.sort_keys) std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return less(a.first, b.first); });
    out_ += '{';
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      new_line(depth + 1);
      append_json_string(key_text(entries[i].first), style_.ensure_ascii, out_);
      out_ += style_.key_separator;
      write(entries[i].second, depth + 1);
    }
    new_line(depth);
    out_ += '}';
  }

  const JsonStyle& style_;
  std::string out_;
};

std::string joined_reprs(const std::vector<Value>& items) {
  std::string out;
  for (const Value& item : items) out.append(out.empty() ? "" : ", ").append(to_repr(item));
  return out;
}

}  // namespace

std::string real_to_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  // Shortest digits that read back the same; Python takes the exponent form below 1e-4 and from 1e16 on.
  std::array<char, 64> buffer{};
  const double magnitude = std::abs(value);
  const bool scientific = value != 0 && (magnitude < 1e-4 || magnitude >= 1e16);
  const auto result =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, scientific ? std::chars_format::scientific : std::chars_format::fixed);
  std::string text(buffer.data(), result.ptr);
  if (!scientific && text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::string to_text(const Value& value) {
  if (value.is_undefined()) return "";
  if (const std::string* text = value.string()) return *text;
  return to_repr(value);
}

std::string to_repr(const Value& value) {
  if (value.is_undefined()) return "Undefined";
  if (value.is_none()) return "None";
  if (value.is_boolean()) return truth(value) ? "True" : "False";
  if (value.is_integer()) return std::to_string(value.as_integer(""));
  if (value.is_real()) return real_to_text(value.as_real());
  if (const std::string* text = value.string()) return string_repr(*text);
  if (const Sequence* sequence = value.sequence()) {
    if (!sequence->tuple) return fmt::format("[{}]", joined_reprs(sequence->items));
    return fmt::format("({}{})", joined_reprs(sequence->items), sequence->items.size() == 1 ? "," : "");
  }
  if (const Dict* dict = value.dict()) {
    std::string out;
    for (const auto& [key, held] : dict->entries) out += fmt::format("{}{}: {}", out.empty() ? "" : ", ", to_repr(key), to_repr(held));
    return fmt::format("{{{}}}", out);
  }
  if (const Object* object = value.object()) return fmt::format("<{}>", object->type);
  return fmt::format("<function {}>", value.callable()->name);
}

std::string to_json(const Value& value, const JsonStyle& style) { return JsonWriter(style).run(value); }

}  // namespace tessera::data::jinja
