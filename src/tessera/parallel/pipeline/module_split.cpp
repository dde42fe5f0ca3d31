#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "tessera/core/text.h"
#include "tessera/parallel/pipeline/stage_split.h"

namespace tessera::pipeline {
namespace {

/// The modules of a model that a stage can name, and the unit of each: "model.embed_tokens", "model.layers.3", "model.norm", "lm_head".
class Modules {
 public:
  explicit Modules(const model::ParameterTable& table) : prefix_(table.base_prefix), num_units_(static_cast<int>(table.num_units)) {
    for (const model::ParameterSpec& parameter : table.parameters)
      for (const model::Piece& piece : parameter.pieces) add(piece.tensor, parameter);
    if (table.tied_head) units_[without_last(table.tied_head_tensor)] = num_units_ - 1;
  }

  /// −1 when there is no such module.
  int unit_of(const std::string& module) const {
    for (const std::string& name : {module, prefix_ + module})
      if (const auto found = units_.find(name); found != units_.end()) return found->second;
    return -1;
  }
  /// Parameters have no place in them.
  static bool has_no_parameters(const std::string& module) { return module == "rotary_emb" || module.ends_with(".rotary_emb"); }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& [name, unit] : units_) all.push_back(name);
    return all;
  }
  std::vector<std::string> names_of(int unit) const {
    std::vector<std::string> found;
    for (const auto& [name, of] : units_)
      if (of == unit) found.push_back(name);
    return found;
  }
  int num_units() const { return num_units_; }

 private:
  static std::string without_last(const std::string& name) { return name.substr(0, name.rfind('.')); }

  void add(const std::string& tensor, const model::ParameterSpec& parameter) {
    std::string module = without_last(tensor);
    if (parameter.layer >= 0) {  // up to the layer's number
      const std::string number = fmt::format(".{}.", parameter.layer);
      module = tensor.substr(0, tensor.find(number) + number.size() - 1);
    }
    units_[module] = static_cast<int>(parameter.unit);
  }

  std::string prefix_;
  int num_units_;
  std::map<std::string, int> units_;
};

constexpr const char* kOrder = "list the modules in the model's order, from the first stage to the last";

class ModuleSplitter {
 public:
  ModuleSplitter(const model::ParameterTable& table, const std::string& where, ProblemList& problems)
      : modules_(table), where_(where), problems_(problems), stage_of_(static_cast<std::size_t>(table.num_units), -1) {}

  void add(int stage, const std::string& module) {
    if (Modules::has_no_parameters(module)) return;
    const int unit = modules_.unit_of(module);
    if (unit < 0)
      return problem(fmt::format("unknown module \"{}\"", module), "names are those of the checkpoint's modules",
                     did_you_mean(module, modules_.names(), "take names from `tessera inspect`, for example model.layers.0"));
    if (!named_.emplace(module, stage).second)
      return problem(fmt::format("module \"{}\" twice", module), "a module is on one stage", "leave one out");
    int& seen = stage_of_[static_cast<std::size_t>(unit)];
    if (seen >= 0 && seen != stage)
      return problem(fmt::format("{} on stages {} and {}", fmt::join(modules_.names_of(unit), " and "), seen, stage), "they are gathered together",
                     "put them on one stage");
    seen = stage;
  }

  /// After every module.
  std::vector<UnitRange> ranges(int num_stages) const {
    std::vector<UnitRange> result(static_cast<std::size_t>(num_stages));
    if (!all_placed()) return result;
    int unit = 0;
    for (int stage = 0; stage < num_stages; ++stage) {
      UnitRange& range = result[static_cast<std::size_t>(stage)];
      range.first = unit;
      while (unit < modules_.num_units() && stage_of_[static_cast<std::size_t>(unit)] == stage) ++unit;
      range.end = unit;
      if (range.first == range.end)
        problem(fmt::format("stage {} is empty or out of order", stage), "a stage holds consecutive layers, at least one", kOrder);
    }
    if (unit < modules_.num_units())
      problem(fmt::format("{} on stage {} comes after a later stage's", fmt::join(modules_.names_of(unit), " with "),
                          stage_of_[static_cast<std::size_t>(unit)]),
              "a stage holds consecutive layers", kOrder);
    return result;
  }

 private:
  bool all_placed() const {
    for (int unit = 0; unit < modules_.num_units(); ++unit)
      if (stage_of_[static_cast<std::size_t>(unit)] < 0)
        problem(fmt::format("{} on no stage", fmt::join(modules_.names_of(unit), " with ")), "every module is on one stage", "add it");
    return std::ranges::count(stage_of_, -1) == 0;
  }

  void problem(const std::string& what, const std::string& rule, const std::string& fix) const {
    problems_.add({where_, "distributed.pipeline.module_fqns_per_model_part: " + what, rule, fix});
  }

  Modules modules_;
  const std::string& where_;
  ProblemList& problems_;
  std::vector<int> stage_of_;         ///< by unit
  std::map<std::string, int> named_;  ///< modules as they were written
};

}  // namespace

std::vector<UnitRange> split_by_modules(const std::vector<std::vector<std::string>>& modules, const model::ParameterTable& table,
                                        const std::string& where, ProblemList& problems) {
  ModuleSplitter splitter(table, where, problems);
  for (std::size_t stage = 0; stage < modules.size(); ++stage)
    for (const std::string& module : modules[stage]) splitter.add(static_cast<int>(stage), module);
  return splitter.ranges(static_cast<int>(modules.size()));
}

}  // namespace tessera::pipeline
