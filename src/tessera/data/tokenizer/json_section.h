#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/core/json.h"

namespace tessera::data {

/// Remedies for a tokenizer that cannot be used.
inline constexpr const char* kDamagedTokenizer = "download the file again; if that does not help, choose a model with another tokenizer";
inline constexpr const char* kOtherTokenizer = "choose a model with another tokenizer";

/// Typed reading of one object of a tokenizer file that has not been checked. A field of the wrong type, or a required one that is missing, is a
/// UserError that names file, section and field; null counts as absent.
class JsonSection {
 public:
  /// `path` says where in the file the object is ("model", "decoder.decoders[2]"). UserError when `json` is not an object.
  JsonSection(const Json& json, std::string where, std::string path);

  /// nullptr when absent.
  const Json* find(const char* key) const;
  const Json& required(const char* key) const;
  std::string string(const char* key) const;
  std::string string_or(const char* key, std::string fallback) const;
  bool boolean_or(const char* key, bool fallback) const;
  std::optional<std::uint64_t> integer(const char* key) const;
  JsonSection object(const char* key) const;
  const Json& array(const char* key) const;

  [[noreturn]] void fail(const std::string& what, const std::string& rule = "") const;
  /// "WHAT is not supported".
  [[noreturn]] void not_supported(const std::string& what, const std::string& rule = "") const;
  const std::string& where() const { return where_; }
  const std::string& path() const { return path_; }

 private:
  const Json& json_;
  std::string where_;
  std::string path_;
};

/// The value when it is a non-negative integer up to `largest`, whichever way the JSON library holds it.
std::optional<std::uint64_t> natural_number(const Json& json, std::uint64_t largest);

/// The members of a section that is one step or a (nested) "Sequence" of steps under `member`, in order; none when it is null.
std::vector<JsonSection> flatten_sequence(const Json& json, const std::string& where, const std::string& path, const char* member);

}  // namespace tessera::data
