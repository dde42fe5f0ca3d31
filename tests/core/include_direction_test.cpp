// Includes may only point down the list of layers (docs/design.md), and only some layers may see libtorch.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <regex>
#include <sstream>

#include "support/support.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

struct Level {
  std::vector<std::string> layers;  ///< siblings: they may not include each other
  bool may_use_torch;
};

/// From the top down.
const std::vector<Level> kLevels{
    {{"cli"}, true},
    {{"train"}, true},
    {{"generate", "plan", "serve", "curate"}, true},
    {{"checkpoint"}, true},
    {{"peft", "optim", "loss"}, true},
    {{"parallel"}, true},
    {{"data"}, false},
    {{"model"}, true},
    {{"ops"}, true},
    {{"comm"}, true},
    {{"mesh"}, false},
    {{"config"}, false},
    {{"formats"}, false},
    {{"core"}, false},
};

/// Position in kLevels, 0 at the top.
std::optional<std::size_t> level_of(const std::string& layer) {
  for (std::size_t i = 0; i < kLevels.size(); ++i)
    if (std::ranges::count(kLevels[i].layers, layer) > 0) return i;
  return std::nullopt;
}

/// What is wrong with including `target` ("tessera/ops/tape.h", "ATen/ATen.h") in a file of `layer`; "" when nothing is.
std::string complaint(const std::string& layer, const std::string& target) {
  const std::size_t own = level_of(layer).value();
  if (target == "torch/torch.h" || target == "torch/extension.h") return "costs half a minute of compile time per file";
  if (std::regex_search(target, std::regex("^(ATen|torch|c10)/")) && !kLevels[own].may_use_torch) return layer + " may not use libtorch";
  std::smatch match;
  if (!std::regex_match(target, match, std::regex("tessera/([^/]+)/.*"))) return target.starts_with("tessera/") ? "belongs to no layer" : "";
  const std::optional<std::size_t> other = level_of(match[1]);
  if (!other) return match[1].str() + " is no layer";
  if (match[1] == layer || *other > own) return "";
  return layer + " may not include " + match[1].str();
}

/// One line per wrong include in a file of src/tessera/<layer>.
std::vector<std::string> wrong_includes(const std::string& layer, const std::string& file, const std::string& text) {
  static const std::regex include(R"(^\s*#\s*include\s*[<"]([^>"]+)[>"])");
  std::vector<std::string> wrong;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::smatch match;
    if (!std::regex_search(line, match, include)) continue;
    const std::string why = complaint(layer, match[1]);
    if (!why.empty()) wrong.push_back(file + ":" + std::to_string(number) + ": " + match[1].str() + ": " + why);
  }
  return wrong;
}

TEST(IncludeDirection, EveryIncludePointsDown) {
  const fs::path root = test::source_directory() / "src/tessera";
  std::vector<std::string> wrong;
  std::size_t num_files = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root)) {
    const std::string extension = entry.path().extension();
    const std::string layer = *fs::relative(entry.path(), root).begin();
    if (!entry.is_regular_file() || (extension != ".h" && extension != ".cpp") || layer == "torch_pch") continue;
    if (!level_of(layer)) {
      wrong.push_back(entry.path().string() + ": the folder is no layer");
      continue;
    }
    const auto found = wrong_includes(layer, entry.path(), test::read_file(entry.path()));
    wrong.insert(wrong.end(), found.begin(), found.end());
    ++num_files;
  }
  EXPECT_THAT(wrong, testing::IsEmpty());
  EXPECT_GT(num_files, 20U);
}

TEST(IncludeDirection, TheCheckCanFail) {
  const std::string sample =
      "#include <vector>\n"
      "#include \"tessera/train/loop.h\"\n"
      "#include \"tessera/core/error.h\"\n"
      "  #  include <ATen/ATen.h>\n"
      "#include \"tessera/attic/old.h\"\n"
      "#include \"tessera/formats/gguf.h\"\n";
  EXPECT_THAT(wrong_includes("formats", "f.h", sample),
              testing::ElementsAre("f.h:2: tessera/train/loop.h: formats may not include train", "f.h:4: ATen/ATen.h: formats may not use libtorch",
                                   "f.h:5: tessera/attic/old.h: attic is no layer"));
}

TEST(IncludeDirection, SiblingsMayNotIncludeEachOther) {
  EXPECT_EQ(complaint("optim", "tessera/loss/cross_entropy.h"), "optim may not include loss");
  EXPECT_EQ(complaint("optim", "tessera/model/parameter_table.h"), "");
  EXPECT_EQ(complaint("ops", "torch/torch.h"), "costs half a minute of compile time per file");
}

}  // namespace
}  // namespace tessera
