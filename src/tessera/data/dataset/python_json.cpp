#include "tessera/data/dataset/python_json.h"

#include "tessera/data/template/value.h"

namespace tessera::data {

std::string python_json(const OrderedJson& value, JsonCharacters characters) {
  jinja::JsonStyle style;
  style.ensure_ascii = characters == JsonCharacters::Ascii;
  return jinja::to_json(jinja::Value::from_json(value), style);
}

std::string python_text(const OrderedJson& value) { return jinja::to_text(jinja::Value::from_json(value)); }

}  // namespace tessera::data
