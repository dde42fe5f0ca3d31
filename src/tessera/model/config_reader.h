#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tessera/core/error.h"
#include "tessera/core/json.h"

namespace tessera::model {

/// Typed reading of one config.json. Remembers which fields were asked for and collects every mistake, so that reading continues with a harmless
/// value after one; finish() throws them all. A field that is null counts as absent.
class ConfigReader {
 public:
  /// Where a field is set, for messages: "path:line" or just the path. For the key "": the file whose fields apply unless they are set elsewhere.
  using Locate = std::function<std::string(const std::string& key)>;

  /// `config` must be an object and outlive the reader.
  ConfigReader(const Json& config, Locate locate);

  /// Marks the field as known and returns it; nullptr when it is absent or null.
  const Json* find(const std::string& key);
  bool has(const std::string& key) { return find(key) != nullptr; }

  /// A positive integer. Without a fallback the field is required.
  std::int64_t size(const std::string& key);
  std::int64_t size(const std::string& key, std::int64_t fallback);
  std::optional<std::int64_t> optional_size(const std::string& key);
  std::optional<std::int64_t> token_id(const std::string& key);  ///< a non-negative integer
  double number(const std::string& key, double fallback);
  double positive_number(const std::string& key, double fallback);
  double probability(const std::string& key, double fallback);  ///< in [0, 1)
  std::optional<double> optional_positive_number(const std::string& key);
  bool boolean(const std::string& key, bool fallback);
  std::string text(const std::string& key, const std::string& fallback);
  std::vector<double> positive_numbers(const std::string& key);  ///< a list; empty when absent

  /// Says that the field has a value Tessera does not compute.
  void not_supported(const std::string& key, const std::string& rule,
                     const std::string& fix = "choose another model: this field changes what a model computes");
  /// Says that the field is wrong: `what` follows its name.
  void wrong(const std::string& key, const std::string& what, const std::string& rule = "");
  /// The same of fields that do not fit each other; left out when one of them, `key` included, is missing or wrong by itself, because a harmless
  /// value was used in its place. Its place is that of a field that was set outside the others' file, if there is one.
  void contradicts(const std::string& key, const std::vector<std::string>& others, const std::string& what, const std::string& rule = "");
  /// The reader of a nested object, e.g. rope_parameters; its mistakes are added to this one's by `absorb`. It knows
  /// which fields around the object are wrong, and must not outlive this one.
  ConfigReader nested(const Json& object, const std::string& key) const;
  void absorb(ConfigReader&& child);

  /// Fields that were never asked for.
  std::vector<std::string> unread() const;
  const Json& json() const { return config_; }
  const ProblemList& problems() const { return problems_; }

 private:
  bool is_wrong(const std::string& key) const { return wrong_.contains(key) || (around_ != nullptr && around_->is_wrong(key)); }
  std::string place_of(const std::string& key, const std::vector<std::string>& others) const;
  void add_wrong(const std::string& key, std::string where, const std::string& what, const std::string& rule);
  const Json* find_of_kind(const std::string& key, bool (Json::*is_kind)() const noexcept, const std::string& kind);

  const Json& config_;
  Locate locate_;
  std::string prefix_;
  const ConfigReader* around_ = nullptr;  ///< of a nested object: the reader of what it stands in
  std::set<std::string> read_;
  std::set<std::string> wrong_;
  ProblemList problems_;
};

}  // namespace tessera::model
