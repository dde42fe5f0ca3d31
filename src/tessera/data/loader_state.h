#pragma once

#include <string>

#include "tessera/core/json.h"
#include "tessera/data/loader.h"

namespace tessera::data {

/// The loader's part of a checkpoint, equal at every rank: where the next step begins ("epoch", "consumed"), and what decides which samples come
/// then ("seed", "shuffle", "group_by_length" and with it "global_batch_size"; "num_samples", "dataset" and "labels", a hash over some of them).
Json loader_state(Loader& loader);

/// Reads `loader_state` back and restores. Where something now decides otherwise, in the middle of an epoch samples would be repeated and left out:
/// UserError naming `where` and each difference; at the beginning of one they are noted. What an earlier version did not save is not compared.
void restore_loader(Loader& loader, const Json& state, const std::string& where);

/// What `restore_loader` would refuse of the options, before there is a dataset: seed, shuffle, group_by_length and global_batch_size.
void refuse_changed_order(const LoaderOptions& options, const Json& state, const std::string& where);

}  // namespace tessera::data
