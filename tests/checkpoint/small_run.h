#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "optim/small_table.h"
#include "support/support.h"
#include "tessera/checkpoint/checkpoint.h"
#include "tessera/core/forwarding_operations.h"

namespace tessera::test {

/// File operations that skip the waiting of fsync: tests end processes, not power.
class UnsyncedOperations : public ForwardingFileOperations {
 public:
  UnsyncedOperations() : ForwardingFileOperations(real()) {}
  void sync(int, const std::filesystem::path&) override {}
  void sync_directory(const std::filesystem::path&) override {}

 private:
  static FileOperations& real() {
    static const std::unique_ptr<FileOperations> operations = posix_file_operations();
    return *operations;
  }
};

/// The group of a process that saves alone.
inline comm::Communicator& alone() {
  static const std::unique_ptr<comm::Communicator> self = comm::self_communicator();
  return *self;
}

/// A model of a few parameters that trains on made-up gradients.
struct SmallRun {
  explicit SmallRun(DType dtype = DType::F32, model::ParameterPredicate frozen = {}, const model::Placement& placement = {})
      : store(small_table(), options(dtype, std::move(frozen), placement)), optimizer(store, {}) {
    fill_weights(store);
  }
  void train(int steps) {
    for (int i = 0; i < steps; ++i) {
      fill_gradients(store, 0.1 * static_cast<double>(optimizer.num_steps()));
      optimizer.step({1e-2, 0.1, 0.7});
    }
  }
  checkpoint::ModelSignature signature() const {
    model::ModelSpec spec;
    spec.model_type = "small";
    return checkpoint::model_signature(spec, store.table());
  }
  checkpoint::SaveRequest request(std::int64_t step) const {
    checkpoint::SaveRequest request;
    request.store = &store;
    request.optimizer = &optimizer;
    request.signature = signature();
    request.model_files = &model_files;
    request.state = {.epoch = 0,
                     .step = step,
                     .loader = {{"consumed", 7 * step}},
                     .scheduler = {{"max_lr", 0.1}},
                     .rng = {},
                     .losses = {{"train_loss", 1.0}},
                     .validation_metric = {}};
    request.config_yaml = "seed: 42\n";
    return request;
  }
  checkpoint::TrainingState restore(const std::filesystem::path& path, const checkpoint::RestoreOptions& options = {}) {
    return checkpoint::restore(path, signature(), store, options.restore_optimizer ? &optimizer : nullptr, options);
  }

  model::ParameterStore store;
  optim::Optimizer optimizer;
  checkpoint::ModelFiles model_files{"{\"model_type\": \"small\", \"torch_dtype\": \"float32\"}\n", {}};

 private:
  static model::ParameterStore::Options options(DType dtype, model::ParameterPredicate frozen, const model::Placement& placement) {
    model::ParameterStore::Options options = store_options(dtype, std::move(frozen));
    options.placement = placement;
    return options;
  }
};

/// In the last byte of a file.
inline void flip_a_bit(const std::filesystem::path& path) {
  std::string bytes = read_file(path);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file(path, bytes);
}

/// Every weight, master and moment that both hold, bit for bit.
inline bool same_state(const SmallRun& a, const SmallRun& b) {
  if (a.optimizer.num_steps() != b.optimizer.num_steps()) return false;
  for (std::size_t i = 0; i < a.store.buffers().size(); ++i) {
    const model::FlatBuffer& x = a.store.buffers()[i];
    const model::FlatBuffer& y = b.store.buffers()[i];
    if (x.master.defined() != y.master.defined() || !x.compute_shard.equal(y.compute_shard)) return false;
    if (x.master.defined() && !x.master.equal(y.master)) return false;
    const optim::Moments& m = a.optimizer.moments()[i];
    const optim::Moments& n = b.optimizer.moments()[i];
    if (m.first.defined() && !(m.first.equal(n.first) && m.second.equal(n.second))) return false;
  }
  return true;
}

/// Saves alone, without waiting for the disk. Returns the checkpoint's path.
inline std::filesystem::path save(const std::filesystem::path& directory, const checkpoint::SaveRequest& request,
                                  checkpoint::DirectoryOptions options = {}) {
  UnsyncedOperations operations;
  return checkpoint::CheckpointDirectory(operations, directory, options, alone()).save(request);
}

}  // namespace tessera::test
