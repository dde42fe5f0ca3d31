#include "tessera/config/sections/data.h"
#include "tessera/config/targets.h"

namespace tessera::config {

namespace {

constexpr auto kDataset = TargetKind::Dataset;
constexpr auto kCollate = TargetKind::Collate;

Target dataset(DatasetKind kind, std::string_view native, std::vector<std::string_view> python, Support support = Support::Supported,
               std::string_view reason = "") {
  return {kDataset, native, std::move(python), support, reason, static_cast<int>(kind)};
}

Target refused_dataset(std::vector<std::string_view> python, std::string_view reason) {
  return {kDataset, "", std::move(python), Support::NotSupported, reason, -1};
}

std::vector<Target> datasets() {
  return {
      dataset(DatasetKind::ColumnMapped, "instruction",
              {"nemo_automodel.components.datasets.llm.column_mapped_text_instruction_dataset.ColumnMappedTextInstructionDataset",
               "nemo_automodel.components.datasets.llm.column_mapped_text_instruction_dataset.ColumnMappedTextInstructionDatasetConfig",
               "nemo_automodel.components.datasets.llm.ColumnMappedTextInstructionDataset",
               // Files are mapped, so streaming them is the same: nothing of them is held in memory either way.
               "nemo_automodel.components.datasets.llm.column_mapped_text_instruction_iterable_dataset.ColumnMappedTextInstructionIterableDataset",
               "nemo_automodel.components.datasets.llm.column_mapped_text_instruction_iterable_dataset."
               "ColumnMappedTextInstructionIterableDatasetConfig",
               "nemo_automodel.components.datasets.llm.ColumnMappedTextInstructionIterableDataset"}),
      dataset(DatasetKind::Text, "text", {}),
      dataset(DatasetKind::MockIterable, "mock",
              {"nemo_automodel.components.datasets.llm.mock_iterable_dataset.MockIterableDataset",
               "nemo_automodel.components.datasets.llm.mock_iterable_dataset.MockIterableDatasetConfig"}),
      dataset(DatasetKind::MockUnpacked, "mock_unpacked",
              {"nemo_automodel.components.datasets.llm.mock.build_unpacked_dataset",
               "nemo_automodel.components.datasets.llm.mock.MockUnpackedDatasetConfig"}),
      dataset(DatasetKind::MockPacked, "mock_packed",
              {"nemo_automodel.components.datasets.llm.mock_packed.build_packed_dataset",
               "nemo_automodel.components.datasets.llm.mock_packed.MockPackedDatasetConfig"}),
      dataset(DatasetKind::Squad, "squad",
              {"nemo_automodel.components.datasets.llm.squad.make_squad_dataset", "nemo_automodel.components.datasets.llm.squad.SquadConfig",
               "nemo_automodel.components.datasets.llm.make_squad_dataset"}),
      dataset(DatasetKind::HellaSwag, "hellaswag",
              {"nemo_automodel.components.datasets.llm.hellaswag.HellaSwag", "nemo_automodel.components.datasets.llm.hellaswag.HellaSwagConfig"}),
      dataset(DatasetKind::Chat, "chat",
              {"nemo_automodel.components.datasets.llm.chat_dataset.ChatDataset", "nemo_automodel.components.datasets.llm.ChatDataset",
               "nemo_automodel.components.datasets.llm.chat_dataset.ChatDatasetConfig"}),
      dataset(
          DatasetKind::AgentChat, "agent_chat",
          {"nemo_automodel.components.datasets.llm.agent_chat.make_agent_chat_dataset",
           "nemo_automodel.components.datasets.llm.agent_chat.AgentChatConfig", "nemo_automodel.components.datasets.llm.make_agent_chat_dataset"}),
      // Text alone, though it lies among the datasets of images.
      dataset(DatasetKind::Tulu3, "tulu3",
              {"nemo_automodel.components.datasets.vlm.datasets.make_tulu3_dataset", "nemo_automodel.components.datasets.vlm.make_tulu3_dataset"}),
      dataset(DatasetKind::Xlam, "xlam",
              {"nemo_automodel.components.datasets.llm.xlam.make_xlam_dataset", "nemo_automodel.components.datasets.llm.xlam.XlamConfig",
               "nemo_automodel.components.datasets.llm.make_xlam_dataset"}),
      dataset(DatasetKind::Seq2Seq, "seq2seq", {"nemo_automodel.components.datasets.llm.seq2seq.make_seq2seq_dataset"}),
      dataset(
          DatasetKind::Nanogpt, "nanogpt",
          {"nemo_automodel.components.datasets.llm.nanogpt_dataset.NanogptDataset",
           "nemo_automodel.components.datasets.llm.nanogpt_dataset.NanogptDatasetConfig", "nemo_automodel.components.datasets.llm.NanogptDataset"}),
      dataset(DatasetKind::MegatronPretraining, "megatron",
              {"nemo_automodel.components.datasets.llm.megatron_dataset.MegatronPretraining",
               "nemo_automodel.components.datasets.llm.megatron_dataset.MegatronPretrainingConfig"}),
      refused_dataset({"nemo_automodel.components.datasets.vlm.*", "nemo_automodel.components.datasets.audio.*",
                       "nemo_automodel.components.datasets.multimodal.*", "nemo_automodel.components.datasets.diffusion.*"},
                      "Tessera trains text models; images and sound are not read"),
      refused_dataset({"nemo_automodel.components.datasets.llm.seq_cls.*", "nemo_automodel.components.datasets.llm.mock_seq_cls.*"},
                      "Tessera trains causal language models, not classifiers"),
      refused_dataset({"nemo_automodel.components.datasets.llm.retrieval_dataset*", "nemo_automodel.components.datasets.llm.make_*retrieval_dataset"},
                      "Tessera trains causal language models, not retrievers"),
      refused_dataset({"nemo_automodel.components.datasets.llm.mock_prefix_tree.*", "nemo_automodel.components.datasets.llm.prefix_tree.*"},
                      "prefix-tree rollouts belong to reinforcement learning"),
      refused_dataset({"nemo_automodel.components.datasets.llm.delta_lake_dataset.*", "nemo_automodel.components.datasets.llm.DeltaLakeDataset"},
                      "Delta Lake tables are not read; export them to Parquet"),
      refused_dataset({"nemo_automodel.components.datasets.llm.eagle3*", "nemo_automodel.components.datasets.llm.dspark_cache.*"},
                      "draft models for speculative decoding are not trained"),
  };
}

std::vector<Target> loaders() {
  return {
      {TargetKind::Dataloader,
       "dataloader",
       {"torchdata.stateful_dataloader.StatefulDataLoader", "torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader"}},
      {kCollate,
       "default",
       {"nemo_automodel.components.datasets.utils.default_collater", "torch.utils.data.default_collate",
        "torch.utils.data.dataloader.default_collate"},
       Support::Supported,
       "",
       static_cast<int>(Collate::Default)},
      {kCollate,
       "packed_thd",
       {"nemo_automodel.components.datasets.utils.packed_sequence_thd_collater"},
       Support::Supported,
       "",
       static_cast<int>(Collate::PackedThd)},
      {kCollate,
       "packed_neat",
       {"nemo_automodel.components.datasets.utils.neat_packed_collater"},
       Support::Supported,
       "",
       static_cast<int>(Collate::PackedThd)},
      {kCollate,
       "",
       {"nemo_automodel.components.datasets.utils.packed_sequence_thd_collater_vlm", "nemo_automodel.components.datasets.vlm.*",
        "nemo_automodel.components.datasets.audio.*", "nemo_automodel.components.datasets.multimodal.*"},
       Support::NotSupported,
       "Tessera trains text models; images and sound are not read"},
      {kCollate,
       "",
       {"nemo_automodel.components.datasets.llm.prefix_tree.prefix_tree_collate_fn"},
       Support::NotSupported,
       "prefix-tree rollouts belong to reinforcement learning"},
      {kCollate,
       "",
       {"nemo_automodel.components.datasets.llm.*Collator", "nemo_automodel.components.datasets.llm.retrieval*"},
       Support::NotSupported,
       "Tessera trains causal language models, not retrievers"},
  };
}

}  // namespace

std::vector<Target> data_targets() {
  std::vector<Target> all = datasets();
  for (const Target& target : loaders()) all.push_back(target);
  return all;
}

}  // namespace tessera::config
