#include "tessera/config/sections/training.h"
#include "tessera/config/targets.h"

namespace tessera::config {

namespace {

constexpr auto kRecipe = TargetKind::Recipe;
constexpr auto kOptimizer = TargetKind::Optimizer;
constexpr auto kLoss = TargetKind::Loss;

std::vector<Target> recipes() {
  return {
      {kRecipe,
       "train",
       {"TrainFinetuneRecipeForNextTokenPrediction", "nemo_automodel.recipes.llm.train_ft.TrainFinetuneRecipeForNextTokenPrediction"},
       Support::Supported,
       "",
       static_cast<int>(RecipeTarget::Train)},
      {kRecipe,
       "benchmark",
       {"BenchmarkingRecipeForNextTokenPrediction", "nemo_automodel.recipes.llm.benchmark.BenchmarkingRecipeForNextTokenPrediction"},
       Support::Supported,
       "",
       static_cast<int>(RecipeTarget::Benchmark)},
      {kRecipe,
       "",
       {"KnowledgeDistillationRecipe*", "EmbeddingDistillRecipe", "nemo_automodel.recipes.llm.kd.*"},
       Support::NotSupported,
       "distillation from a teacher model is not implemented",
       static_cast<int>(RecipeTarget::Other)},
      {kRecipe,
       "",
       {"TrainFinetuneRecipeForSequenceClassification", "nemo_automodel.recipes.llm.train_seq_cls.*"},
       Support::NotSupported,
       "Tessera trains causal language models, not classifiers",
       static_cast<int>(RecipeTarget::Other)},
      {kRecipe,
       "",
       {"FinetuneRecipeForVLM", "FinetuneRecipeForMultimodal", "PretrainRecipeForMultimodal", "nemo_automodel.recipes.vlm.*",
        "nemo_automodel.recipes.multimodal.*"},
       Support::NotSupported,
       "Tessera trains text models; images and sound are not read",
       static_cast<int>(RecipeTarget::Other)},
      {kRecipe,
       "",
       {"Train*EncoderRecipe", "MineHardNegativesRecipe", "DiffusionLMSFTRecipe", "DiffusionGemmaSFTRecipe", "TrainDiffusionRecipe", "TrainD*Recipe",
        "TrainEagle*Recipe", "TrainJetSpecRecipe", "TrainVispec*Recipe", "nemo_automodel.recipes.*"},
       Support::NotSupported,
       "Tessera trains causal language models by next-token prediction",
       static_cast<int>(RecipeTarget::Other)},
  };
}

std::vector<Target> optimizers() {
  constexpr int adamw = static_cast<int>(OptimizerKind::AdamW);
  constexpr int adam = static_cast<int>(OptimizerKind::Adam);
  constexpr std::string_view only_adam = "only AdamW and Adam are implemented";
  return {
      {kOptimizer,
       "adamw",
       {"torch.optim.AdamW", "torch.optim.adamw.AdamW", "nemo_automodel.components.optim.optimizer.AdamWConfig"},
       Support::Supported,
       "",
       adamw},
      {kOptimizer,
       "adam",
       {"torch.optim.Adam", "torch.optim.adam.Adam", "nemo_automodel.components.optim.optimizer.AdamConfig"},
       Support::Supported,
       "",
       adam},
      {kOptimizer,
       "fused_adam",
       {"transformer_engine.pytorch.optimizers.fused_adam.FusedAdam", "transformer_engine.pytorch.optimizers.FusedAdam",
        "nemo_automodel.components.optim.optimizer.FusedAdamConfig"},
       Support::Supported,
       "",
       adamw},
      {kOptimizer,
       "flash_adamw",
       {"flashoptim.FlashAdamW", "nemo_automodel.components.optim.optimizer.FlashAdamWConfig"},
       Support::Supported,
       "",
       adamw},
      {kOptimizer,
       "muon",
       {"dion.Muon", "dion.NorMuon", "torch.optim.Muon", "nemo_automodel.components.optim.optimizer.*MuonConfig"},
       Support::NotSupported,
       only_adam,
       -1},
      {kOptimizer, "dion", {"dion.*", "nemo_automodel.components.optim.optimizer.Dion*Config"}, Support::NotSupported, only_adam, -1},
      {kOptimizer,
       "",
       {"torch.optim.SGD", "torch.optim.Adagrad", "torch.optim.Adadelta", "torch.optim.Adafactor", "torch.optim.Adamax", "torch.optim.ASGD",
        "torch.optim.LBFGS", "torch.optim.NAdam", "torch.optim.RAdam", "torch.optim.RMSprop", "torch.optim.Rprop", "torch.optim.SparseAdam",
        "flashoptim.*", "bitsandbytes.optim.*", "torchao.optim.*"},
       Support::NotSupported,
       only_adam,
       -1},
      {TargetKind::LrScheduler,
       "scheduler",
       {"nemo_automodel.components.optim.scheduler.OptimizerParamScheduler", "nemo_automodel.components.optim.optimizer.LRSchedulerConfig"}},
  };
}

Target loss(LossKind kind, std::string_view native, std::vector<std::string_view> python) {
  return {kLoss, native, std::move(python), Support::Supported, "", static_cast<int>(kind)};
}

std::vector<Target> losses() {
  return {
      loss(LossKind::MaskedCrossEntropy, "masked",
           {"nemo_automodel.components.loss.masked_ce.MaskedCrossEntropy", "nemo_automodel.components.loss.loss.MaskedCrossEntropyConfig",
            "nemo_automodel.components.loss.MaskedCrossEntropy"}),
      loss(LossKind::ChunkedCrossEntropy, "chunked",
           {"nemo_automodel.components.loss.chunked_ce.ChunkedCrossEntropy", "nemo_automodel.components.loss.ChunkedCrossEntropy"}),
      loss(LossKind::FusedLinearCrossEntropy, "fused_linear",
           {"nemo_automodel.components.loss.linear_ce.FusedLinearCrossEntropy", "nemo_automodel.components.loss.loss.FusedLinearCEConfig",
            "nemo_automodel.components.loss.FusedLinearCrossEntropy"}),
      loss(LossKind::TEParallelCrossEntropy, "te_parallel",
           {"nemo_automodel.components.loss.te_parallel_ce.TEParallelCrossEntropy", "nemo_automodel.components.loss.loss.TEParallelCEConfig",
            "nemo_automodel.components.loss.TEParallelCrossEntropy"}),
      {kLoss,
       "",
       {"nemo_automodel.components.loss.*", "nemo_automodel.components.models.*"},
       Support::NotSupported,
       "the loss is the cross-entropy of the next token",
       -1},
  };
}

std::vector<Target> distribution() {
  return {
      {TargetKind::Distributed,
       "fsdp2",
       {"nemo_automodel.components.distributed.fsdp2.FSDP2Manager", "nemo_automodel.components.distributed.config.FSDP2Config"},
       Support::Supported,
       "",
       0},
      {TargetKind::Distributed,
       "megatron_fsdp",
       {"nemo_automodel.components.distributed.megatron_fsdp.MegatronFSDPManager", "nemo_automodel.components.distributed.config.MegatronFSDPConfig"},
       Support::Supported,
       "",
       1},
      {TargetKind::Distributed,
       "ddp",
       {"nemo_automodel.components.distributed.ddp.DDPManager", "nemo_automodel.components.distributed.config.DDPConfig"},
       Support::Supported,
       "",
       2},
      {TargetKind::MixedPrecisionPolicy, "policy", {"torch.distributed.fsdp.MixedPrecisionPolicy"}},
      {TargetKind::OffloadPolicy, "cpu", {"torch.distributed.fsdp.CPUOffloadPolicy", "torch.distributed.fsdp.OffloadPolicy"}},
      {TargetKind::Rng, "rng", {"nemo_automodel.components.training.rng.StatefulRNG"}},
  };
}

}  // namespace

std::vector<Target> training_targets() {
  std::vector<Target> all = recipes();
  for (const auto& part : {optimizers(), losses(), distribution()}) all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace tessera::config
