#pragma once

#include <cstdint>
#include <memory>

#include "tessera/comm/communicator.h"
#include "tessera/comm/mpi_engine.h"

namespace tessera::comm {

/// Whether mpirun, mpiexec or srun started this process as one of several (or one) ranks: recognised by the variables they set, without starting MPI.
bool started_by_mpi();

/// Ranks that talk MPI, on CPUs. One per process: MPI starts once. The engine's rules for the end of the process hold (mpi_engine.h).
class MpiBackend : public Backend {
 public:
  explicit MpiBackend(const MpiOptions& options = {}) : engine_(std::make_unique<MpiEngine>(options)) {}
  std::int64_t rank() const override { return engine_->world().rank; }
  std::int64_t world_size() const override { return engine_->world().size; }
  std::int64_t local_rank() const override { return engine_->world().local_rank; }
  std::int64_t local_size() const override { return engine_->world().local_size; }
  /// At most 4095 per rank. Must not outlive the backend.
  std::unique_ptr<Communicator> communicator(const std::vector<std::int64_t>& members, const std::string& name) override;
  [[noreturn]] void abort(int status) override { engine_->abort(status); }
  /// For operations started from now on.
  void set_timeout(double seconds) { engine_->set_timeout(seconds); }

 private:
  std::unique_ptr<MpiEngine> engine_;
};

}  // namespace tessera::comm
