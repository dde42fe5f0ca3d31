#include "tessera/cli/rank_arguments.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "support/command_line.h"
#include "support/support.h"

namespace tessera {
namespace {

using test::run_tessera;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// Sets environment variables until its end.
class Variables {
 public:
  explicit Variables(std::vector<std::pair<const char*, const char*>> variables) : variables_(std::move(variables)) {
    for (const auto& [name, value] : variables_) ::setenv(name, value, 1);
  }
  ~Variables() {
    for (const auto& [name, value] : variables_) ::unsetenv(name);
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

 private:
  std::vector<std::pair<const char*, const char*>> variables_;
};

TEST(RankArguments, RanksGetTheOtherArguments) {
  EXPECT_THAT(cli::arguments_of_ranks({"train", "r.yaml", "--nproc-per-node", "4", "--log-dir", "d", "--a.b=1"}),
              ElementsAre("train", "r.yaml", "--log-dir", "d", "--a.b=1"));
  EXPECT_THAT(cli::arguments_of_ranks({"--nproc-per-node=4", "train"}), ElementsAre("train"));
}

TEST(RankArguments, TorchrunIsTurnedAway) {
  const Variables torchrun({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}});
  const auto result = run_tessera({"train", "r.yaml", "--seed=3"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.error, HasSubstr("mpirun -n 2 tessera train r.yaml --seed=3\n"));
}

TEST(RankArguments, ARankStartsNoRanks) {
  const Variables rank({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  const auto result = run_tessera({"train", "r.yaml", "--nproc-per-node", "2"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.error, HasSubstr("[rank 0] error: --nproc-per-node 2: this process is rank 0 of 2 already"));
}

TEST(RankArguments, CountsAreChecked) {
  EXPECT_THAT(run_tessera({"train", "r.yaml", "--nproc-per-node", "0"}).error, HasSubstr("0 is not a whole number of at least 1"));
}

/// A recipe that cannot be trained is refused before anything is started, once.
TEST(RankArguments, TheLauncherRefusesARecipeOnce) {
  const test::TemporaryDirectory directory;
  test::write_file(directory / "r.yaml",
                   "model: {_target_: from_config, config: {model_type: gpt2, n_embd: 64, n_layer: 1, n_head: 4, n_positions: 64, vocab_size: 80}}\n"
                   "dataset: {_target_: mock_unpacked, vocab_size: 80}\ndistributed: {dp_replicate_size: 2}\n");
  const auto result = run_tessera({"train", (directory / "r.yaml").string(), "--nproc-per-node", "3"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.error, AllOf(HasSubstr("dp_replicate_size: 2 does not divide dp_size (3)"), Not(HasSubstr("[rank"))));
}

}  // namespace
}  // namespace tessera
