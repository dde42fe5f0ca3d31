#include "tessera/model/load.h"

#include <ATen/ops/empty.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <set>

#include "tessera/core/error.h"
#include "tessera/core/terminal.h"
#include "tessera/core/text.h"
#include "tessera/formats/convert.h"
#include "tessera/model/flat_memory.h"
#include "tessera/ops/cpu/parallel.h"

namespace tessera::model {
namespace {

using formats::TensorSource;
using formats::TensorSpec;

constexpr std::int64_t kTaskBytes = std::int64_t{8} << 20;
constexpr const char* kOtherModel = "check that config.json belongs to these weights";

/// How the names of this checkpoint differ from the table's: a bare model's lack the prefix.
class Names {
 public:
  Names(const ParameterTable& table, const TensorSource& source) : prefix_(table.base_prefix) {
    bare_ = !prefix_.empty() && std::ranges::none_of(source.tensors(), [&](const TensorSpec& tensor) { return tensor.name.starts_with(prefix_); });
  }
  std::string in_source(const std::string& name) const { return bare_ && name.starts_with(prefix_) ? name.substr(prefix_.size()) : name; }

 private:
  std::string prefix_;
  bool bare_ = false;
};

/// What transformers saved at one time or another and the model does not need.
bool is_inert(const std::string& name) {
  return std::ranges::any_of(std::array<std::string_view, 3>{".rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias"},
                             [&](std::string_view suffix) { return name.ends_with(suffix); });
}

/// "3 tensors are missing:\n    a [2, 3]\n …"
void add_list(ProblemList& problems, const std::string& where, const std::string& what, const std::vector<std::string>& lines,
              const std::string& fix) {
  if (lines.empty()) return;
  const std::string verb = lines.size() == 1 ? "tensor is" : "tensors are";
  problems.add({where, fmt::format("{} {} {}:\n    {}", lines.size(), verb, what, fmt::join(lines, "\n    ")), "", fix});
}

void check(const ParameterTable& table, const TensorSource& source, const Names& names) {
  std::vector<std::string> missing, surplus, misshapen, untyped;
  std::set<std::string> expected, elsewhere;
  for (const std::string& name : table.elsewhere) elsewhere.insert(names.in_source(name));
  for (const ParameterSpec& parameter : table.parameters) {
    for (const Piece& piece : parameter.pieces) {
      const std::string name = names.in_source(piece.tensor);
      const std::string shape = formats::shape_to_string(piece.tensor_shape);
      if (!expected.insert(name).second) continue;
      const TensorSpec* found = source.find(name);
      if (found == nullptr) {
        missing.push_back(fmt::format("{} {}", name, shape));
      } else if (found->shape != piece.tensor_shape) {
        misshapen.push_back(fmt::format("{}: {} in the file, {} in the model", name, formats::shape_to_string(found->shape), shape));
      } else if (!formats::is_convertible(found->dtype, DType::F32)) {
        untyped.push_back(fmt::format("{} {}", name, to_string(found->dtype)));
      }
    }
  }
  for (const TensorSpec& tensor : source.tensors()) {
    const bool unused =
        std::ranges::any_of(table.unused_prefixes, [&](const auto& prefix) { return tensor.name.starts_with(names.in_source(prefix)); });
    const bool known = expected.contains(tensor.name) || is_inert(tensor.name) || unused ||
                       (table.tied_head && tensor.name == table.tied_head_tensor) || elsewhere.contains(tensor.name);
    if (!known) surplus.push_back(fmt::format("{} {}", tensor.name, formats::shape_to_string(tensor.shape)));
  }
  ProblemList problems;
  add_list(problems, source.where(), "missing", missing, kOtherModel);
  add_list(problems, source.where(), "not part of the model", surplus, kOtherModel);
  add_list(problems, source.where(), "of another shape than config.json says", misshapen, kOtherModel);
  add_list(problems, source.where(), "of a type that is not supported", untyped, "convert them to float32, bfloat16 or float16");
  problems.throw_if_any();
}

/// Some entries of one checkpoint tensor along its first dim, and where they go.
struct Task {
  std::string name;                  // in the source
  std::int64_t first;                // of the entries in the checkpoint tensor
  std::vector<std::int64_t> offset;  // of what is wanted, within the entries' other dims
  std::vector<std::int64_t> shape;   // of whole entries in the checkpoint: [num_entries, …]
  at::Tensor part;                   // [num_entries, …] in the checkpoint's orientation: a view of the weights

  bool whole_entries() const { return part.sizes().equals(shape); }
};

std::vector<Task> plan(const ParameterStore& store, const Names& names) {
  std::vector<Task> tasks;
  for (const PlacedPiece& placed : store.held_pieces()) {
    const Piece& piece = placed.piece;
    const at::Tensor view = held_view(store, placed);
    std::vector<std::int64_t> shape = piece.tensor_shape;
    shape[0] = 1;
    const auto entry_elements = static_cast<std::int64_t>(formats::num_elements(shape));
    const std::int64_t entries_per_task = std::max<std::int64_t>(1, kTaskBytes / (entry_elements * view.element_size()));
    for (std::int64_t entry = 0; entry < view.size(0); entry += entries_per_task) {
      shape[0] = std::min(entries_per_task, view.size(0) - entry);
      tasks.push_back({names.in_source(piece.tensor),
                       piece.offset[0] + entry,
                       {piece.offset.begin() + 1, piece.offset.end()},
                       shape,
                       view.narrow(0, entry, shape[0])});
    }
  }
  return tasks;
}

/// Tasks in the order of the file's bytes.
void sort_by_position(std::vector<Task>& tasks, const TensorSource& source) {
  std::map<std::string, std::size_t, std::less<>> position;
  for (std::size_t i = 0; i < source.tensors().size(); ++i) position[source.tensors()[i].name] = i;
  std::ranges::stable_sort(tasks, {}, [&](const Task& task) { return position.at(task.name); });
}

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), static_cast<std::size_t>(tensor.numel() * tensor.element_size())};
}

DType dtype_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return DType::F32;
    case at::kBFloat16:
      return DType::BF16;
    case at::kDouble:
      return DType::F64;
    default:
      TESSERA_ASSERT(false, "weights are fp64, fp32 or bf16");
  }
}

void run(const Task& task, const TensorSource& source) {
  const DType stored = source.find(task.name)->dtype;
  const DType wanted = dtype_of(task.part);
  if (task.whole_entries() && task.part.is_contiguous() && formats::is_convertible(stored, wanted)) {
    source.read_rows(task.name, task.first, task.shape[0], wanted, bytes_of(task.part));
    return;
  }
  const DType between = formats::is_convertible(stored, wanted) ? wanted : DType::F32;
  const at::Tensor buffer = at::empty(task.shape, at::TensorOptions().dtype(scalar_type(between)));
  source.read_rows(task.name, task.first, task.shape[0], between, bytes_of(buffer));
  at::Tensor found = buffer;
  for (std::int64_t dim = 1; dim < buffer.dim(); ++dim)
    found = found.narrow(dim, task.offset[static_cast<std::size_t>(dim - 1)], task.part.size(dim));
  at::Tensor(task.part).copy_(found);
}

/// Shows itself once two seconds have passed. Only one thread updates it.
class LateProgress {
 public:
  explicit LateProgress(std::uint64_t total) : total_(total) {}
  void update(std::uint64_t done) {
    if (!bar_ && std::chrono::steady_clock::now() - start_ > std::chrono::seconds(2)) {
      bar_ = std::make_unique<ProgressBar>("loading weights", total_, ProgressBar::Unit::Bytes);
    }
    if (bar_) bar_->update(done);
  }

 private:
  std::uint64_t total_;
  std::unique_ptr<ProgressBar> bar_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

void run_all(const std::vector<Task>& tasks, const TensorSource& source) {
  std::uint64_t total = 0;
  for (const Task& task : tasks) total += bytes_of(task.part).size();
  LateProgress progress(total);
  std::atomic<std::uint64_t> done = 0;
  std::exception_ptr error;
  std::mutex mutex;
  const auto count = static_cast<std::int64_t>(tasks.size());
  ops::cpu::parallel_tasks(count, ops::cpu::parallel_workers(count), [&](std::int64_t index, int worker) {
    const Task& task = tasks[static_cast<std::size_t>(index)];
    try {
      run(task, source);
    } catch (...) {  // must not leave a parallel region
      const std::lock_guard lock(mutex);
      error = std::current_exception();
    }
    done += bytes_of(task.part).size();
    if (worker == 0) progress.update(done);
  });
  if (error) std::rethrow_exception(error);
}

/// A tied head in the file must say what the embedding says.
void check_tied_head(const ParameterTable& table, const TensorSource& source, const Names& names) {
  const TensorSpec* head = table.tied_head ? source.find(table.tied_head_tensor) : nullptr;
  if (head == nullptr) return;
  const TensorSpec* embedding = source.find(names.in_source(table.find("embedding.weight").pieces[0].tensor));
  bool equal = head->shape == embedding->shape && formats::is_convertible(head->dtype, DType::F32);
  const std::int64_t columns = embedding->shape[1];
  const std::int64_t step = std::max<std::int64_t>(1, kTaskBytes / (columns * 4));
  std::vector<float> a(static_cast<std::size_t>(step * columns)), b(a.size());
  for (std::int64_t row = 0; equal && row < head->shape[0]; row += step) {
    const std::int64_t rows = std::min(step, head->shape[0] - row);
    const auto bytes = static_cast<std::size_t>(rows * columns) * sizeof(float);
    source.read_rows(head->name, row, rows, DType::F32, std::as_writable_bytes(std::span(a)).first(bytes));
    source.read_rows(embedding->name, row, rows, DType::F32, std::as_writable_bytes(std::span(b)).first(bytes));
    equal = std::memcmp(a.data(), b.data(), bytes) == 0;
  }
  if (equal) return;
  throw UserError({source.where(), fmt::format("{} differs from {}", head->name, embedding->name),
                   "config.json says tie_word_embeddings: true, so that one tensor serves as both",
                   "set tie_word_embeddings to false in config.json"});
}

}  // namespace

std::set<std::string> matrices_in_bfloat16(const ParameterTable& table, const TensorSource& source) {
  const Names names(table, source);
  const auto in_bfloat16 = [&](const Piece& piece) {
    const TensorSpec* tensor = source.find(names.in_source(piece.tensor));
    return tensor != nullptr && tensor->dtype == DType::BF16;
  };
  std::set<std::string> found;
  for (const ParameterSpec& parameter : table.parameters)
    if (parameter.shape.size() == 2 && std::ranges::all_of(parameter.pieces, in_bfloat16)) found.insert(parameter.name);
  return found;
}

void check_weights(const ParameterTable& table, const TensorSource& source) { check(table, source, Names(table, source)); }

void load_weights(ParameterStore& store, const TensorSource& source) {
  const Names names(store.table(), source);
  check(store.table(), source, names);
  check_tied_head(store.table(), source, names);
  std::vector<Task> tasks = plan(store, names);
  sort_by_position(tasks, source);
  run_all(tasks, source);
  store.refresh_compute();
}

}  // namespace tessera::model
