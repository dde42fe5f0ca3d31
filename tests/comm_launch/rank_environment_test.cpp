#include "tessera/comm/launch/rank_environment.h"

#include <gmock/gmock.h>

#include <map>

#include "support/support.h"

namespace tessera::launch {
namespace {

using test::error_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

Environment with(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(std::string(name));
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

TEST(RankEnvironment, AloneThereIsNone) {
  EXPECT_EQ(rank_environment(with({})), std::nullopt);
  EXPECT_EQ(rank_environment(with({{"RANK", "1"}, {"WORLD_SIZE", "2"}})), std::nullopt);
}

TEST(RankEnvironment, EachLauncherHasItsNames) {
  const RankEnvironment expected{.rank = 5, .world_size = 8, .local_rank = 1, .local_size = 4};
  EXPECT_EQ(
      rank_environment(with(
          {{"OMPI_COMM_WORLD_RANK", "5"}, {"OMPI_COMM_WORLD_SIZE", "8"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}})),
      expected);
  EXPECT_EQ(rank_environment(with({{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "4"}})), expected);
  EXPECT_EQ(rank_environment(with({{"SLURM_PROCID", "5"},
                                   {"SLURM_STEP_NUM_TASKS", "8"},
                                   {"SLURM_LOCALID", "1"},
                                   {"SLURM_NODEID", "2"},
                                   {"SLURM_STEP_TASKS_PER_NODE", "2(x2),4"}})),
            expected);
}

/// A batch script has SLURM_PROCID without a step; a step of one task is how people start a program that starts its own ranks.
TEST(RankEnvironment, SlurmWithoutSeveralTasksIsAlone) {
  EXPECT_EQ(rank_environment(with({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}})), std::nullopt);
  EXPECT_EQ(rank_environment(with({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_LOCALID", "0"}})), std::nullopt);
}

TEST(RankEnvironment, ContradictionsAreMendable) {
  EXPECT_THAT(error_of([] { rank_environment(with({{"OMPI_COMM_WORLD_RANK", "x"}, {"OMPI_COMM_WORLD_SIZE", "2"}})); }),
              HasSubstr("OMPI_COMM_WORLD_RANK=x is not a whole number"));
  EXPECT_THAT(error_of([] { rank_environment(with({{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}})); }), HasSubstr("PMI_RANK=2 of PMI_SIZE=2"));
}

TEST(RankEnvironment, TorchrunServesGpus) {
  const auto torchrun = with({{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}, {"MASTER_ADDR", "host"}});
  EXPECT_EQ(torchrun_environment(torchrun), (RankEnvironment{.rank = 3, .world_size = 4, .local_rank = 1, .local_size = 2}));
  EXPECT_THAT(error_of([&] { refuse_ranks_without_mpi(torchrun, "tessera train r.yaml"); }),
              AllOf(HasSubstr("mpirun -n 4 tessera train r.yaml"), HasSubstr("tessera train r.yaml --nproc-per-node 4")));
  EXPECT_THAT(error_of([] { refuse_ranks_without_mpi(with({{"RANK", "3"}, {"WORLD_SIZE", "4"}}), "tessera train r.yaml"); }),
              AllOf(HasSubstr("RANK=3 and WORLD_SIZE=4 are set, MASTER_ADDR is not"), HasSubstr("mpirun -n 4 tessera train r.yaml")));
  EXPECT_NO_THROW(refuse_ranks_without_mpi(with({{"RANK", "0"}, {"WORLD_SIZE", "1"}}), ""));
  EXPECT_NO_THROW(
      refuse_ranks_without_mpi(with({{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"}}), ""));
}

TEST(RankEnvironment, TorchrunBelowSrunIsTorchrun) {
  std::map<std::string, std::string> variables{{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_LOCALID", "0"}, {"PMIX_RANK", "1"},
                                               {"RANK", "9"},         {"WORLD_SIZE", "16"},          {"LOCAL_RANK", "1"},    {"MASTER_ADDR", "host"}};
  EXPECT_FALSE(started_by_torchrun(with(variables)));
  variables["TORCHELASTIC_RUN_ID"] = "7";
  EXPECT_TRUE(started_by_torchrun(with(variables)));
}

TEST(RankEnvironment, SrunMustHandOutPmi) {
  std::map<std::string, std::string> variables{{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_LOCALID", "0"}};
  EXPECT_THAT(error_of([&] { refuse_ranks_without_mpi(with(variables), ""); }),
              AllOf(HasSubstr("srun started 2 tasks without PMI"), HasSubstr("srun --mpi=pmix")));
  variables["PMIX_RANK"] = "1";
  EXPECT_NO_THROW(refuse_ranks_without_mpi(with(variables), ""));
  EXPECT_NO_THROW(refuse_ranks_without_mpi(with({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_LOCALID", "0"}}), ""));
}

/// The shortest set of variables by which people start GPU ranks by hand.
TEST(RankEnvironment, LocalSizeMayBeUntold) {
  EXPECT_EQ(torchrun_environment(with({{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}, {"MASTER_ADDR", "host"}})),
            (RankEnvironment{.rank = 3, .world_size = 4, .local_rank = 1, .local_size = 2}));
}

TEST(Rendezvous, IsWhereTheVariablesSay) {
  const Rendezvous by_hand = torchrun_rendezvous(with({{"MASTER_ADDR", "host"}, {"MASTER_PORT", "29500"}}));
  EXPECT_EQ(by_hand.address, "host");
  EXPECT_EQ(by_hand.port, 29500);
  EXPECT_FALSE(by_hand.served);
  const Rendezvous again = torchrun_rendezvous(
      with({{"MASTER_ADDR", "host"}, {"MASTER_PORT", "65535"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"TORCHELASTIC_RESTART_COUNT", "2"}}));
  EXPECT_EQ(again.port, 65535);
  EXPECT_TRUE(again.served);
  EXPECT_NE(again.prefix, by_hand.prefix);
}

TEST(Rendezvous, NeedsAPort) {
  EXPECT_THAT(error_of([] { torchrun_rendezvous(with({{"MASTER_ADDR", "host"}})); }), HasSubstr("MASTER_PORT is not"));
  for (const char* port : {"0", "65536"})
    EXPECT_THAT(error_of([&] { torchrun_rendezvous(with({{"MASTER_ADDR", "host"}, {"MASTER_PORT", port}})); }), HasSubstr("not a TCP port"));
}

}  // namespace
}  // namespace tessera::launch
