#include <algorithm>

#include "target.h"
#include "tessera/parallel/pipeline/csv.h"
#include "tessera/parallel/pipeline/lowering.h"
#include "tessera/parallel/pipeline/schedule.h"
#include "tessera/plan/simulate.h"

// A schedule from a file either keeps every rule, and then it lowers and runs or blocks with a message, or is refused.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return tessera::fuzz::refuses_cleanly([&] {
    using namespace tessera::pipeline;
    const Schedule schedule = parse_csv(tessera::fuzz::text_of(data, size), "fuzz.csv");
    int num_microbatches = 1;
    for (const ActionList& actions : schedule)
      for (const Action& action : actions) num_microbatches = std::max(num_microbatches, action.microbatch + 1);
    const Placement placement = placement_of(schedule);
    tessera::ProblemList problems;
    check_schedule(schedule, placement, num_microbatches, "fuzz.csv", problems);
    problems.throw_if_any();
    tessera::plan::simulate(lower(schedule, placement), placement);
  });
}
