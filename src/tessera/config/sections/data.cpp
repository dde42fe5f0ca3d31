#include "tessera/config/sections/read.h"

namespace tessera::config {

namespace {

using L = Dataloader;

Key<L> collate_fn() {
  return {"collate_fn", [](const Scope& scope, const Node& node, L& section) {
            if (is_null(node)) return;
            const Target* target = read_target(scope, node, TargetKind::Collate, "default");
            if (!target || target->support != Support::Supported) return;
            section.collate = static_cast<Collate>(target->value);
            if (node.is_scalar()) return;
            const Keys<L> keys = {field("pad_seq_len_divisible", &L::pad_seq_len_divisible, at_least(1)),
                                  accepted<L>("attn_implementation", Type::String), target_key<L>()};
            read_section(scope, node, keys, section);
          }};
}

/// AutoModel's older place of a data set, which it still takes.
Key<L> nested_dataset(std::string_view place) {
  return {"dataset", [place](const Scope& scope, const Node& node, L&) {
            if (!is_null(node))
              scope.unsupported(node, "", Support::NotSupported, "an older place of the section " + std::string(place),
                                "move it to " + std::string(place));
          }};
}

Keys<L> dataloader_keys(std::string_view place_of_dataset) {
  return {
      nested_dataset(place_of_dataset),
      field("shuffle", &L::shuffle),
      field("batch_size", &L::batch_size, at_least(1)),
      field("num_workers", &L::num_workers, within(0, 1024)),  // threads
      inert<L>("prefetch_factor", Type::Int, "has no effect: microbatches are made two steps ahead"),
      field("drop_last", &L::drop_last),
      field("group_by_length", &L::group_by_length),
      inert<L>("shuffle_buffer_size", Type::Int, "has no effect: shuffling takes in the whole data set"),
      collate_fn(),
      choice("dataloader_type", &L::dataloader_type, Choices<MegatronOrder>{{"single", MegatronOrder::Single}, {"cyclic", MegatronOrder::Cyclic}}),
      // Properties of Python worker processes.
      accepted<L>("pin_memory", Type::Bool),
      accepted<L>("persistent_workers", Type::Bool),
      accepted<L>("multiprocessing_context", Type::String),
      target_key<L>(),
  };
}

void read_loader(const Scope& scope, const Node& node, std::string_view place_of_dataset, Dataloader& section) {
  if (is_null(node) || !check_type(scope, node, Type::Map)) return;
  read_target(scope, node, TargetKind::Dataloader);
  read_section(scope, node, dataloader_keys(place_of_dataset), section);
}

}  // namespace

void read_dataloader(const Scope& scope, const Node& node, Dataloader& section) { read_loader(scope, node, "dataset", section); }

void read_validation_dataloader(const Scope& scope, const Node& node, Dataloader& section) {
  read_loader(scope, node, "validation_dataset", section);
  if (section.drop_last) scope.child("drop_last").note("has no effect: a validation set is measured whole");
}

Keys<PackedSequence> packed_sequence_keys() {
  using P = PackedSequence;
  constexpr std::string_view images = "it belongs to packing of images, which Tessera does not read";
  return {
      field("packed_sequence_size", &P::packed_sequence_size, at_least(0)),
      choice("packing_strategy", &P::packing_strategy,
             Choices<PackingStrategy>{{"thd", PackingStrategy::InOrder}, {"neat", PackingStrategy::Balanced}}),
      field("max_packs", &P::max_packs, at_least(1)),
      field("drop_long_samples", &P::drop_long_samples),
      accepted<P>("num_proc", Type::Int),
      refused<P>("split_across_pack", Type::Bool, Support::NotSupported, "a document is never split over two packs"),
      refused<P>("prepacked", Type::Bool, Support::NotSupported, "packs are made here"),
      refused<P>("pack_size", Type::Int, Support::NotSupported, std::string(images)),
      refused<P>("max_length", Type::Int, Support::NotSupported, std::string(images)),
      refused<P>("collate_max_length", Type::Int, Support::NotSupported, std::string(images)),
      refused<P>("packing_ratio", Type::Number, Support::NotSupported, std::string(images)),
      refused<P>("pretokenize", Type::Bool, Support::NotSupported, std::string(images)),
      refused<P>("post_tokenize_hook_fn", Type::Any, Support::NotSupported, std::string(images)),
  };
}

}  // namespace tessera::config
