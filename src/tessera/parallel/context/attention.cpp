#include "tessera/parallel/context/attention.h"

#include "tessera/core/error.h"
#include "tessera/parallel/context/all_gather.h"
#include "tessera/parallel/context/all_to_all.h"
#include "tessera/parallel/context/equal_widths.h"
#include "tessera/parallel/context/ring.h"

namespace tessera::parallel {

std::unique_ptr<model::Attention> context_parallel_attention(comm::Communicator& group, config::CpAttention kind) {
  switch (kind) {
    case config::CpAttention::Ring:
      return with_equal_widths(ring_attention(group));
    case config::CpAttention::AllGather:
      return with_equal_widths(all_gather_attention(group));
    case config::CpAttention::AllToAll:
      return all_to_all_attention(group);
  }
  TESSERA_ASSERT(false, "no such implementation");
}

}  // namespace tessera::parallel
