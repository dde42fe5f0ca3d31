#include "tessera/core/error.h"

#include "tessera/comm/nccl/nccl_backend.h"

namespace tessera::comm {

int num_gpus() { return 0; }

std::unique_ptr<Backend> nccl_backend(const launch::RankEnvironment&, const launch::Rendezvous&, double) {
  throw UserError({"", "this build of Tessera has no NCCL", "ranks on GPUs need a libtorch with CUDA", "build against one (TESSERA_TORCH)"});
}

}  // namespace tessera::comm
