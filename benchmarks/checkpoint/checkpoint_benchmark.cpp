// Seconds of one way of moving a training state between memory and disk, as one JSON line from rank 0.
//   mpirun -n 4 checkpoint_benchmark MODE DIRECTORY GIB
//     write    nothing but the bytes: rank 0 writes them to one file, in one stream, and syncs it
//     copy     nothing but the copy: every rank copies its share to memory that has been touched before
//     save     CheckpointDirectory::save
//     async    CheckpointDirectory::begin_save into warm staging memory: the stall, and the seconds until all is on disk
//     load     restore() of what `save` left
//     evict    asks the kernel to forget the checkpoint's pages, so that the next load comes from the disk
// The state is 2048 × 2048 matrices in fp32 with both moments, cut over the ranks; GIB is its size. Each run trains nothing.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <numeric>

#include "tessera/checkpoint/checkpoint.h"
#include "tessera/comm/initialize.h"
#include "tessera/comm/values.h"
#include "tessera/core/memory.h"

namespace fs = std::filesystem;
using namespace tessera;

namespace {

constexpr std::int64_t kRows = 2048;
constexpr std::int64_t kStateBytes = kRows * kRows * 12;  // of one matrix: weight and two moments

model::ParameterTable table_of(double gib) {
  model::ParameterTable table;
  table.num_units = static_cast<std::int64_t>(gib * 1073741824.0 / kStateBytes);
  for (std::int64_t unit = 0; unit < table.num_units; ++unit) {
    const std::string name = fmt::format("layers.{}.weight", unit);
    model::ParameterSpec spec;
    spec.name = name;
    spec.shape = {kRows, kRows};
    spec.unit = unit;
    spec.pieces = {{name, {kRows, kRows}, {0, 0}, {kRows, kRows}, 0, false}};
    table.parameters.push_back(std::move(spec));
  }
  return table;
}

/// What one rank of a run holds.
struct State {
  State(double gib, comm::Communicator& world) : store(table_of(gib), options(world)), optimizer(store, {}) {
    for (std::size_t i = 0; i < store.buffers().size(); ++i) {  // pages that exist, with bytes that differ
      const auto fill = [&](const at::Tensor& tensor, double value) { tensor.fill_(value + static_cast<double>(i)); };
      fill(store.buffers()[i].master, 0.1);
      fill(optimizer.moments()[i].first, 0.2);
      fill(optimizer.moments()[i].second, 0.3);
    }
    spec.model_type = "benchmark";
  }
  static model::ParameterStore::Options options(comm::Communicator& world) {
    return {.frozen = {}, .placement = {.num_shards = world.size(), .shard = world.rank(), .whole_weights = false, .whole_gradients = false}};
  }
  checkpoint::SaveRequest request(std::int64_t step) const {
    checkpoint::SaveRequest request;
    request.store = &store;
    request.optimizer = &optimizer;
    request.signature = signature();
    request.model_files = &model_files;
    request.state.step = step;
    request.config_yaml = "seed: 1\n";
    return request;
  }
  checkpoint::ModelSignature signature() const { return checkpoint::model_signature(spec, store.table()); }
  std::uint64_t own_bytes() const {
    std::uint64_t bytes = 0;
    for (const model::FlatBuffer& buffer : store.buffers()) bytes += static_cast<std::uint64_t>(buffer.held.size()) * 12;
    return bytes;
  }

  model::ModelSpec spec;
  model::ParameterStore store;
  optim::Optimizer optimizer;
  checkpoint::ModelFiles model_files{"{\"model_type\": \"benchmark\"}\n", {}};
};

/// The time from one barrier to the next.
double timed(comm::Communicator& world, const std::function<void()>& work) {
  world.barrier();
  const auto start = std::chrono::steady_clock::now();
  work();
  world.barrier();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void write_plainly(const fs::path& path, std::uint64_t bytes) {
  const std::vector<std::byte> chunk(std::size_t{8} << 20, std::byte{1});
  const auto operations = posix_file_operations();
  FileWriter writer(*operations, path);
  while (writer.size() < bytes) writer.write(chunk);
  writer.finish();
  fs::remove(path);
}

void evict(const fs::path& checkpoint) {
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(checkpoint)) {
    if (!entry.is_regular_file()) continue;
    const int descriptor = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
    ::close(descriptor);
  }
}

void run(const std::string& mode, const fs::path& directory, double gib, comm::Communicator& world) {
  const auto operations = posix_file_operations();
  const auto report = [&](const Json& figures) {
    if (world.rank() == 0) fmt::print("{}\n", figures.dump());
  };
  if (mode == "evict") {
    if (world.rank() == 0) evict(directory / "epoch_0_step_1");
    return;
  }
  if (mode == "write") {
    const auto bytes = static_cast<std::uint64_t>(gib * 1073741824.0);
    return report({{"seconds", timed(world, [&] {
                      if (world.rank() == 0) write_plainly(directory / "plain", bytes);
                    })}});
  }
  State state(gib, world);
  if (mode == "copy") {
    const at::Tensor copy = at::empty({static_cast<std::int64_t>(state.own_bytes())}, at::kByte).fill_(1);
    return report({{"seconds", timed(world, [&] {
                      auto* to = static_cast<std::byte*>(copy.data_ptr());
                      for (std::size_t i = 0; i < state.store.buffers().size(); ++i)
                        for (const at::Tensor& part :
                             {state.store.buffers()[i].master, state.optimizer.moments()[i].first, state.optimizer.moments()[i].second}) {
                          std::memcpy(to, part.data_ptr(), part.nbytes());
                          to += part.nbytes();
                        }
                    })}});
  }
  if (mode == "load") {
    const std::uint64_t before = peak_resident_bytes();
    const double seconds = timed(world, [&] {
      checkpoint::restore(directory / "epoch_0_step_1", state.signature(), state.store, &state.optimizer,
                          {.rank = world.rank(), .num_ranks = world.size()});
    });
    return report(
        {{"seconds", seconds}, {"peak_growth_share", static_cast<double>(peak_resident_bytes() - before) / static_cast<double>(state.own_bytes())}});
  }
  checkpoint::CheckpointDirectory saver(*operations, directory, {.max_recent_checkpoints = 1}, world);
  if (mode == "save") return report({{"seconds", timed(world, [&] { saver.save(state.request(1)); })}});
  saver.begin_save(state.request(2));
  saver.finish_save();
  double stall = 0.0;
  const double seconds = timed(world, [&] {
    const auto start = std::chrono::steady_clock::now();
    saver.begin_save(state.request(3));
    stall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    saver.finish_save();
  });
  report({{"stall", stall}, {"seconds", seconds}});
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) {
    fmt::print(stderr, "usage: mpirun -n RANKS checkpoint_benchmark write|copy|save|async|load|evict DIRECTORY GIB\n");
    return 2;
  }
  const auto backend = comm::initialize_distributed();
  at::set_num_threads(1);
  std::vector<std::int64_t> members(static_cast<std::size_t>(backend->world_size()));
  std::iota(members.begin(), members.end(), 0);
  run(arguments[1], arguments[2], std::stod(arguments[3]), *backend->communicator(members, "world"));
  return 0;
}
