#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/checkpoint/files.h"
#include "tessera/checkpoint/manifest.h"
#include "tessera/checkpoint/verify.h"
#include "tessera/cli/cli.h"
#include "tessera/core/json.h"
#include "tessera/core/terminal.h"

/// The subcommands of `tessera checkpoint`: a file each.
namespace tessera::cli::checkpoint_commands {

Command add_list(CLI::App& parent);
Command add_inspect(CLI::App& parent);
Command add_verify(CLI::App& parent);
Command add_consolidate(CLI::App& parent);
Command add_reshard(CLI::App& parent);
Command add_diff(CLI::App& parent);
Command add_prune(CLI::App& parent);
std::vector<Command> add_all(CLI::App& parent);

/// Bytes of all files of a checkpoint.
std::uint64_t num_bytes(const checkpoint::Manifest& manifest);
/// Bytes of tensors, as they are or in another dtype.
std::uint64_t num_bytes(const checkpoint::TensorRecord& record, std::optional<DType> dtype = {});
std::uint64_t num_bytes(const checkpoint::TensorRecords& records, std::optional<DType> dtype = {});
/// "4 ranks (dp_shard 4)", from the manifest's layout.
std::string describe_layout(const Json& layout);
/// --verify full, sizes or off, for what makes new files of a checkpoint's.
void add_verify_option(CLI::App& parser, std::string& value);
/// UserError for another word.
checkpoint::Verify verify_of(const std::string& value);
/// Shows bytes on a bar, which must outlive it.
checkpoint::Progress shown_on(ProgressBar& bar);

}  // namespace tessera::cli::checkpoint_commands
