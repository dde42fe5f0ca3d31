#include "tessera/parallel/pipeline/lowering.h"

#include <gtest/gtest.h>

#include "tessera/parallel/pipeline/csv.h"

namespace tessera::pipeline {
namespace {

Schedule schedule(const char* csv) { return parse_csv(csv, "test"); }

TEST(Lowering, SendsAtOnceAndReceivesOneActionAhead) {
  EXPECT_EQ(to_csv(add_messages(schedule("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1"), loop_placement(2, 1))),
            "0F0,0SEND_F0,0RECV_B0,0F1,0SEND_F1,0RECV_B1,0B0,0B1\n"
            "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n");
}

TEST(Lowering, TheInputGradientIsWhatTravels) {
  EXPECT_EQ(to_csv(add_messages(schedule("0F0,0I0,0W0\n1F0,1I0,1W0"), loop_placement(2, 1))),
            "0RECV_B0,0F0,0SEND_F0,0I0,0W0\n1RECV_F0,1F0,1I0,1SEND_B0,1W0\n");
}

TEST(Lowering, NeighboursOnOneRankHandOver) {
  // Stages 1 and 2 are both on rank 1.
  EXPECT_EQ(to_csv(add_messages(schedule("0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0"), v_placement(2))),
            "3RECV_F0,0F0,0SEND_F0,3F0,0RECV_B0,3B0,3SEND_B0,0B0\n"
            "1RECV_F0,1F0,2RECV_B0,2F0,2SEND_F0,2B0,1B0,1SEND_B0\n");
}

TEST(Lowering, WeightsAreGatheredOncePerStep) {
  EXPECT_EQ(to_csv(add_gather_and_free(schedule("0F0,0F1,2F0,2F1,2I0,2W0,2I1,0I0,0I1,2W1,0W0,0W1"))),
            "0UNSHARD,0F0,2UNSHARD,0F1,2F0,2F1,2I0,2W0,2I1,2RESHARD,0I0,0I1,0RESHARD,2W1,0W0,0W1\n");
}

TEST(Lowering, GradientsAreReducedAfterTheirLastWeightGradient) {
  EXPECT_EQ(to_csv(add_gradient_reduction(schedule("0F0,0F1,2F0,2F1,2B0,2I1,0B0,2W1,0B1"))),
            "0F0,0F1,2F0,2F1,2B0,2I1,0B0,2W1,2REDUCE_GRAD,0B1,0REDUCE_GRAD\n");
}

TEST(Lowering, AllPassesTogether) {
  EXPECT_EQ(to_csv(lower(schedule("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1I1,1W1"), loop_placement(2, 1))),
            "0UNSHARD,0F0,0SEND_F0,0RECV_B0,0F1,0SEND_F1,0RECV_B1,0B0,0B1,0REDUCE_GRAD,0RESHARD\n"
            "1UNSHARD,1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1I1,1RESHARD,1SEND_B1,1W1,1REDUCE_GRAD\n");
}

}  // namespace
}  // namespace tessera::pipeline
