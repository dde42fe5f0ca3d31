#include <fmt/format.h>

#include <algorithm>

#include "tessera/data/template/methods.h"
#include "tessera/data/tokenizer/unicode.h"

namespace tessera::data::jinja {
namespace {

const std::string& text_argument(const Arguments& arguments, std::string_view name, std::size_t position) {
  const Value* value = arguments.find(name, position);
  if (value == nullptr) throw TemplateError(fmt::format("the argument {} is missing", name));
  if (value->is_undefined()) throw TemplateError(std::get<Undefined>(value->data()).message);
  if (value->string() == nullptr) throw TemplateError(fmt::format("the argument {} must be str, not {}", name, type_name(*value)));
  return *value->string();
}

std::int64_t integer_argument(const Arguments& arguments, std::string_view name, std::size_t position, std::int64_t fallback) {
  const Value* value = arguments.find(name, position);
  return value == nullptr || value->is_none() ? fallback : value->as_integer(name);
}

/// Characters of `text`, each as a view.
std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> list;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t num_bytes = code_point_at(text, i).num_bytes;
    list.push_back(text.substr(i, num_bytes));
    i += num_bytes;
  }
  return list;
}

Value stripped(const Value& self, const Arguments& arguments, bool left, bool right) {
  const Value* set = arguments.find("chars", 0);
  const bool spaces = set == nullptr || set->is_none();
  const std::string& chars = spaces ? *self.string() : text_argument(arguments, "chars", 0);
  const auto dropped = [&](std::string_view character) {
    return spaces ? is_white_space(code_point_at(character, 0).value) || (character[0] >= 0x1C && character[0] <= 0x1F)
                  : chars.find(character) != std::string::npos;
  };
  const auto list = characters(*self.string());
  std::size_t begin = 0;
  std::size_t end = list.size();
  while (left && begin < end && dropped(list[begin])) ++begin;
  while (right && end > begin && dropped(list[end - 1])) --end;
  std::string out;
  for (std::size_t i = begin; i < end; ++i) out += list[i];
  return out;
}

Value split_at_spaces(const std::string& text, std::int64_t limit, bool from_right) {
  const auto list = characters(text);
  const auto space = [&](std::size_t i) { return is_white_space(code_point_at(list[i], 0).value); };
  std::vector<Value> words;
  const auto word = [&](std::size_t begin, std::size_t end) {
    std::string out;
    for (std::size_t i = begin; i < end; ++i) out += list[i];
    words.emplace_back(std::move(out));
  };
  if (from_right) {
    std::size_t end = list.size();
    while (true) {
      while (end > 0 && space(end - 1)) --end;
      if (end == 0) break;
      std::size_t begin = end;
      const bool rest = limit >= 0 && static_cast<std::int64_t>(words.size()) >= limit;
      while (begin > 0 && (rest || !space(begin - 1))) --begin;
      if (rest)
        while (begin < end && space(begin)) ++begin;
      word(begin, end);
      if (rest) break;
      end = begin;
    }
    std::reverse(words.begin(), words.end());
    return Value::list(std::move(words));
  }
  std::size_t begin = 0;
  while (true) {
    while (begin < list.size() && space(begin)) ++begin;
    if (begin == list.size()) break;
    const bool rest = limit >= 0 && static_cast<std::int64_t>(words.size()) >= limit;
    std::size_t end = begin;
    while (end < list.size() && (rest || !space(end))) ++end;
    if (rest)
      while (end > begin && space(end - 1)) --end;
    word(begin, end);
    if (rest) break;
    begin = end;
  }
  return Value::list(std::move(words));
}

Value split_text(const Value& self, const Arguments& arguments, bool from_right) {
  const Value* separator_value = arguments.find("sep", 0);
  const std::int64_t limit = integer_argument(arguments, "maxsplit", 1, -1);
  const std::string& text = *self.string();
  if (separator_value == nullptr || separator_value->is_none()) return split_at_spaces(text, limit, from_right);
  const std::string& separator = text_argument(arguments, "sep", 0);
  if (separator.empty()) throw TemplateError("empty separator");
  std::vector<Value> parts;
  const auto full = [&] { return limit >= 0 && static_cast<std::int64_t>(parts.size()) >= limit; };
  if (from_right) {
    std::size_t end = text.size();
    for (std::size_t at; !full() && end >= separator.size() && (at = text.rfind(separator, end - separator.size())) != std::string::npos; end = at)
      parts.emplace_back(text.substr(at + separator.size(), end - at - separator.size()));
    parts.emplace_back(text.substr(0, end));
    std::reverse(parts.begin(), parts.end());
    return Value::list(std::move(parts));
  }
  std::size_t begin = 0;
  for (std::size_t at; !full() && (at = text.find(separator, begin)) != std::string::npos; begin = at + separator.size())
    parts.emplace_back(text.substr(begin, at - begin));
  parts.emplace_back(text.substr(begin));
  return Value::list(std::move(parts));
}

Value split_lines(const Value& self, const Arguments& arguments) {
  const Value* keep_value = arguments.find("keepends", 0);
  const bool keep = keep_value != nullptr && truth(*keep_value);
  const std::string& text = *self.string();
  std::vector<Value> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find_first_of("\n\r\v\f\x1c\x1d\x1e", begin), text.size());
    const std::size_t next = std::min(text.size(), end + (text.substr(end, 2) == "\r\n" ? 2 : 1));
    lines.emplace_back(text.substr(begin, (keep ? next : end) - begin));
    begin = next;
  }
  return Value::list(std::move(lines));
}

Value replaced(const Value& self, const Arguments& arguments) {
  const std::string& from = text_argument(arguments, "old", 0);
  const std::string& to = text_argument(arguments, "new", 1);
  std::int64_t left = integer_argument(arguments, "count", 2, -1);
  const std::string& text = *self.string();
  std::string out;
  if (from.empty()) {
    for (const std::string_view character : characters(text)) {
      if (left != 0) out += to;
      left -= left > 0 ? 1 : 0;
      out += character;
      check_text_size(out.size());
    }
    if (left != 0) out += to;
    return out;
  }
  std::size_t begin = 0;
  for (std::size_t at; left != 0 && (at = text.find(from, begin)) != std::string::npos; begin = at + from.size()) {
    out.append(text, begin, at - begin).append(to);
    check_text_size(out.size());
    left -= left > 0 ? 1 : 0;
  }
  return out.append(text, begin);
}

/// `affix` is a string or a tuple of strings.
Value has_affix(const Value& self, const Arguments& arguments, bool (*matches)(const std::string& text, const std::string& affix)) {
  const Value* affix = arguments.find("prefix", 0);
  if (affix == nullptr) throw TemplateError("an argument is missing");
  if (affix->sequence() != nullptr && affix->sequence()->tuple) {
    const auto& list = affix->sequence()->items;
    return std::any_of(list.begin(), list.end(), [&](const Value& one) { return one.string() != nullptr && matches(*self.string(), *one.string()); });
  }
  return matches(*self.string(), text_argument(arguments, "prefix", 0));
}

Value joined(const Value& self, const Arguments& arguments) {
  const Value* list = arguments.find("iterable", 0);
  if (list == nullptr) throw TemplateError("an argument is missing");
  std::string out;
  std::size_t index = 0;
  for (const Value& item : elements(*list)) {
    if (item.string() == nullptr) throw TemplateError(fmt::format("sequence item {}: expected str instance, {} found", index, type_name(item)));
    out.append(index++ == 0 ? "" : *self.string()).append(*item.string());
    check_text_size(out.size());
  }
  return out;
}

std::int64_t position_of(const std::string& text, std::size_t byte) {
  return byte == std::string::npos ? -1 : static_cast<std::int64_t>(characters(std::string_view(text).substr(0, byte)).size());
}

Value title_case(const Value& self, const Arguments&) {
  std::string out;
  bool in_word = false;
  for (const std::string_view character : characters(*self.string())) {
    out += in_word ? lowercase(character) : uppercase(character);
    in_word = is_letter(code_point_at(character, 0).value);
  }
  return out;
}

Value capitalized(const Value& self, const Arguments&) {
  const auto list = characters(*self.string());
  std::string out;
  for (std::size_t i = 0; i < list.size(); ++i) out += i == 0 ? uppercase(list[i]) : lowercase(list[i]);
  return out;
}

Value all_characters(const Value& self, bool (*holds)(char32_t)) {
  const auto list = characters(*self.string());
  return !list.empty() && std::all_of(list.begin(), list.end(), [&](std::string_view c) { return holds(code_point_at(c, 0).value); });
}

Value padded(const Value& self, const Arguments& arguments, double left_share) {
  const std::int64_t width = integer_argument(arguments, "width", 0, 0);
  const Value* fill_value = arguments.find("fillchar", 1);
  const std::string fill = fill_value == nullptr ? " " : text_argument(arguments, "fillchar", 1);
  if (width > 1'000'000) throw TemplateError("a value grows too large");
  const auto missing = std::max<std::int64_t>(0, width - static_cast<std::int64_t>(length(self)));
  const auto left = static_cast<std::int64_t>(static_cast<double>(missing) * left_share);
  std::string out;
  for (std::int64_t i = 0; i < left; ++i) out += fill;
  out += *self.string();
  for (std::int64_t i = left; i < missing; ++i) out += fill;
  return out;
}

Value parted(const Value& self, const Arguments& arguments, bool last) {
  const std::string& separator = text_argument(arguments, "sep", 0);
  const std::string& text = *self.string();
  const std::size_t at = last ? text.rfind(separator) : text.find(separator);
  if (at == std::string::npos) return last ? Value::tuple({"", "", self}) : Value::tuple({self, "", ""});
  return Value::tuple({text.substr(0, at), separator, text.substr(at + separator.size())});
}

Value counted(const Value& self, const Arguments& arguments) {
  const std::string& part = text_argument(arguments, "sub", 0);
  const std::string& text = *self.string();
  if (part.empty()) return Value::size(length(self) + 1);
  std::int64_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

/// "{} {0} {name}".format(…) without format specifications.
Value formatted(const Value& self, const Arguments& arguments) {
  const std::string& text = *self.string();
  std::string out;
  std::size_t next = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool doubled = i + 1 < text.size() && text[i + 1] == text[i];
    if ((text[i] == '{' || text[i] == '}') && doubled) {
      out += text[i++];
    } else if (text[i] != '{') {
      out += text[i];
    } else {
      const std::size_t close = text.find('}', i);
      if (close == std::string::npos) throw TemplateError("expected '}' before end of string");
      const std::string field = text.substr(i + 1, close - i - 1);
      const bool numbered = !field.empty() && std::all_of(field.begin(), field.end(), [](char c) { return c >= '0' && c <= '9'; });
      if (field.find_first_of(":!.[") != std::string::npos || field.size() > 100)
        throw TemplateError(fmt::format("the format field {{{}}} is not supported", field));
      const Value* value = arguments.find(field, field.empty() ? next++ : numbered ? std::stoul(field.substr(0, 9)) : arguments.positional.size());
      if (value == nullptr) throw TemplateError(fmt::format("no value for the format field {{{}}}", field));
      out += to_text(*value);
      i = close;
    }
  }
  return out;
}

bool is_upper_or_uncased(char32_t c) {
  std::string one;
  append_utf8(one, c);
  return lowercase(one) == one ? uppercase(one) == one : true;
}
bool is_lower_or_uncased(char32_t c) {
  std::string one;
  append_utf8(one, c);
  return uppercase(one) == one ? lowercase(one) == one : true;
}
bool has_case(const std::string& text) { return lowercase(text) != uppercase(text); }

}  // namespace

const Methods& string_methods() {
  static const Methods methods = {
      {"strip", [](const Value& self, const Arguments& a) { return stripped(self, a, true, true); }},
      {"lstrip", [](const Value& self, const Arguments& a) { return stripped(self, a, true, false); }},
      {"rstrip", [](const Value& self, const Arguments& a) { return stripped(self, a, false, true); }},
      {"split", [](const Value& self, const Arguments& a) { return split_text(self, a, false); }},
      {"rsplit", [](const Value& self, const Arguments& a) { return split_text(self, a, true); }},
      {"splitlines", split_lines},
      {"replace", replaced},
      {"join", joined},
      {"format", formatted},
      {"count", counted},
      {"title", title_case},
      {"capitalize", capitalized},
      {"startswith",
       [](const Value& self, const Arguments& a) {
         return has_affix(self, a, [](const std::string& text, const std::string& affix) { return text.starts_with(affix); });
       }},
      {"endswith",
       [](const Value& self, const Arguments& a) {
         return has_affix(self, a, [](const std::string& text, const std::string& affix) { return text.ends_with(affix); });
       }},
      {"removeprefix",
       [](const Value& self, const Arguments& a) {
         const std::string& affix = text_argument(a, "prefix", 0);
         return self.string()->starts_with(affix) ? Value(self.string()->substr(affix.size())) : self;
       }},
      {"removesuffix",
       [](const Value& self, const Arguments& a) {
         const std::string& affix = text_argument(a, "suffix", 0);
         return self.string()->ends_with(affix) ? Value(self.string()->substr(0, self.string()->size() - affix.size())) : self;
       }},
      {"upper", [](const Value& self, const Arguments&) { return Value(uppercase(*self.string())); }},
      {"lower", [](const Value& self, const Arguments&) { return Value(lowercase(*self.string())); }},
      {"casefold", [](const Value& self, const Arguments&) { return Value(lowercase(*self.string())); }},
      {"find",
       [](const Value& self, const Arguments& a) { return Value(position_of(*self.string(), self.string()->find(text_argument(a, "sub", 0)))); }},
      {"rfind",
       [](const Value& self, const Arguments& a) { return Value(position_of(*self.string(), self.string()->rfind(text_argument(a, "sub", 0)))); }},
      {"index",
       [](const Value& self, const Arguments& a) {
         const std::int64_t position = position_of(*self.string(), self.string()->find(text_argument(a, "sub", 0)));
         if (position < 0) throw TemplateError("substring not found");
         return Value(position);
       }},
      {"isdigit", [](const Value& self, const Arguments&) { return all_characters(self, is_decimal_digit); }},
      {"isdecimal", [](const Value& self, const Arguments&) { return all_characters(self, is_decimal_digit); }},
      {"isnumeric", [](const Value& self, const Arguments&) { return all_characters(self, is_numeric); }},
      {"isalpha", [](const Value& self, const Arguments&) { return all_characters(self, is_letter); }},
      {"isspace", [](const Value& self, const Arguments&) { return all_characters(self, is_white_space); }},
      {"isalnum", [](const Value& self, const Arguments&) { return all_characters(self, [](char32_t c) { return is_letter(c) || is_numeric(c); }); }},
      {"isupper",
       [](const Value& self, const Arguments&) {
         return Value(has_case(*self.string()) && truth(all_characters(self, is_upper_or_uncased)) && uppercase(*self.string()) == *self.string());
       }},
      {"islower",
       [](const Value& self, const Arguments&) {
         return Value(has_case(*self.string()) && truth(all_characters(self, is_lower_or_uncased)) && lowercase(*self.string()) == *self.string());
       }},
      {"ljust", [](const Value& self, const Arguments& a) { return padded(self, a, 0); }},
      {"rjust", [](const Value& self, const Arguments& a) { return padded(self, a, 1); }},
      {"center", [](const Value& self, const Arguments& a) { return padded(self, a, 0.5); }},
      {"zfill",
       [](const Value& self, const Arguments& a) {
         const bool sign = self.string()->starts_with('-') || self.string()->starts_with('+');
         Arguments filled = {{Value(integer_argument(a, "width", 0, 0) - (sign ? 1 : 0)), "0"}, {}};
         const Value digits = padded(sign ? Value(self.string()->substr(1)) : self, filled, 1);
         return sign ? Value(self.string()->substr(0, 1) + *digits.string()) : digits;
       }},
      {"partition", [](const Value& self, const Arguments& a) { return parted(self, a, false); }},
      {"rpartition", [](const Value& self, const Arguments& a) { return parted(self, a, true); }},
  };
  return methods;
}

}  // namespace tessera::data::jinja
