#include "tessera/train/run.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/version.h>

#include <chrono>
#include <cmath>
#include <map>

#include "tessera/checkpoint/checkpoint.h"
#include "tessera/comm/forwarding_communicator.h"
#include "tessera/comm/values.h"
#include "tessera/config/interpolate.h"
#include "tessera/config/print.h"
#include "tessera/core/error.h"
#include "tessera/core/interrupt.h"
#include "tessera/core/logging.h"
#include "tessera/core/memory.h"
#include "tessera/core/text.h"
#include "tessera/core/version.h"
#include "tessera/data/loader_state.h"
#include "tessera/formats/tensor_source.h"
#include "tessera/model/load.h"
#include "tessera/model/summary.h"
#include "tessera/train/matmul_peak.h"
#include "tessera/train/objects.h"
#include "tessera/train/reporter.h"
#include "tessera/train/reshard_layout.h"
#include "tessera/train/restore_point.h"
#include "tessera/train/routing_metrics.h"
#include "tessera/train/step.h"
#include "tessera/train/trace.h"
#include "tessera/train/validation.h"

namespace tessera::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// One run from its first step to its last.
class TrainingRun {
 public:
  /// `trace` may be null and must outlive the run.
  TrainingRun(const config::LoadedRecipe& loaded, const Environment& environment, comm::Backend& backend, Trace* trace)
      : loaded_(loaded),
        recipe_(loaded.recipe),
        environment_(environment),
        start_(Clock::now()),
        objects_(build_objects(loaded, environment, backend)),
        backend_(backend),
        operations_(posix_file_operations()),
        trace_(trace) {
    if (trace_ != nullptr) {
      unit_hooks_ = tracing_hooks(*objects_.model.engine, *trace_, objects_.model.model.store->table().num_units);
      objects_.model.model.decoder->set_unit_hooks(unit_hooks_.get());
    }
    if (recipe_.checkpoint.enabled) config::with_placeholders(loaded_.tree, environment_, [&] { open_checkpoints(); });
  }

  RunSummary operator()() {
    return config::with_placeholders(loaded_.tree, environment_, [&] { return run(); });
  }

  comm::Communicator& world() const { return objects_.setup.world(); }

 private:
  RunSummary run() {
    Reporter reporter(recipe_, objects_.setup.rank() == 0, metrics_.step, objects_.total_steps);
    announce(reporter);
    summary_.first_step = metrics_.step;
    summary_.total_steps = objects_.total_steps;
    summary_.seconds_to_first_step = seconds_since(start_);
    for (bool stop = interrupted(); metrics_.step < objects_.total_steps && !stop;) {
      const data::StepBatches& batches = objects_.loader->next();
      step(batches, reporter);
      const bool last = metrics_.step == objects_.total_steps;
      if (validation_due(batches.ends_epoch, last)) run_validation(reporter);
      stop = interrupted();  // asked once: a signal that comes while saving ends the next step, and that is saved too
      if (save_has_ended_) finish_save(reporter);
      if (stop || checkpoint_due(batches.ends_epoch, last)) save(last, reporter);
    }
    finish_save(reporter);
    finish(reporter);
    return summary_;
  }

  void open_checkpoints() {
    const config::Checkpoint& options = recipe_.checkpoint;
    comm::Communicator& world = objects_.setup.world();
    // A group of its own: saves in the background talk while training does.
    checkpoint_group_ = backend_.communicator(world.members(), "checkpoint");
    directory_.emplace(
        *operations_, options.checkpoint_dir,
        checkpoint::DirectoryOptions{.max_shard_size = options.max_shard_size, .max_recent_checkpoints = options.max_recent_checkpoints},
        *checkpoint_group_);
    if (const RestorePoint point = agree_on_restore_point(options, world); !point.path.empty()) {
      comm::together(world, [&] { restore(point); });
      objects_.model.engine->weights_loaded();
    }
    directory_->refuse_later_checkpoints(metrics_.step);
  }

  void restore(const RestorePoint& point) {
    const config::Checkpoint& options = recipe_.checkpoint;
    const std::filesystem::path& path = point.path;
    if (point.weights_alone && !checkpoint::is_checkpoint(path)) {
      model::load_weights(*objects_.model.model.store, *formats::open_huggingface_source(path));
      log::note("restored the weights of {}", path.string());
      return;
    }
    const checkpoint::TrainingState state =
        checkpoint::restore(path, objects_.signature, *objects_.model.model.store, point.weights_alone ? nullptr : objects_.optimizer.get(),
                            {.verify = options.verify,
                             .restore_optimizer = !point.weights_alone,
                             .rank = checkpoint_group_->rank(),
                             .num_ranks = checkpoint_group_->size()});
    log::note("restored {}", path.string());
    if (!point.weights_alone) continue_from(state, path);  // else a new run from these weights
  }

  void continue_from(const checkpoint::TrainingState& state, const std::filesystem::path& path) {
    metrics_.step = state.step;
    metrics_.epoch = state.epoch;
    losses_ = state.losses;
    restore_best(state.best_validation);
    data::restore_loader(*objects_.loader, state.loader, (path / "loader.json").string());
    objects_.schedule = optim::resume_schedule(objects_.schedule, optim::schedule_from_json(state.scheduler, (path / "scheduler.json").string()),
                                               resume_policy(), config::where(loaded_.tree, "lr_scheduler"));
  }

  /// What LOWEST_VAL has to be below; not what is there no more.
  void restore_best(const std::optional<checkpoint::BestValidation>& best) {
    if (!best || !checkpoint::is_checkpoint(best->checkpoint)) return;
    best_validation_ = best;
    if (std::filesystem::path(best->checkpoint).parent_path() != std::filesystem::weakly_canonical(directory_->path()))
      log::note("{} has the lowest validation loss so far, {:.4f}; LOWEST_VAL in {} will be of lower ones", best->checkpoint, best->metric,
                directory_->path().string());
  }

  optim::ResumeSchedule resume_policy() const {
    if (!recipe_.lr_scheduler || recipe_.lr_scheduler->override_opt_param_scheduler) return optim::ResumeSchedule::Recipe;
    return recipe_.lr_scheduler->use_checkpoint_opt_param_scheduler ? optim::ResumeSchedule::Checkpoint : optim::ResumeSchedule::MustAgree;
  }

  void announce(Reporter& reporter) const {
    if (metrics_.step >= objects_.total_steps)
      return reporter.say(fmt::format("nothing left to train: {} of {} steps were done before; to begin anew, name another checkpoint.checkpoint_dir",
                                      metrics_.step, objects_.total_steps));
    const model::ParameterTable table = model::parameter_table(objects_.plan.spec);
    reporter.say(fmt::format("{} | {} parameters | {} | {} threads | steps {} to {}", objects_.plan.spec.model_type,
                             human_count(static_cast<double>(table.num_elements())), torch_name(objects_.plan.dtype), at::get_num_threads(),
                             metrics_.step + 1, objects_.total_steps));
    if (objects_.setup.mesh->world_size() > 1)
      reporter.say(fmt::format("{} ranks | {}", objects_.setup.mesh->world_size(),
                               parallel::describe(objects_.model.policy, objects_.model.model.store->options().placement)));
    warn_of_unmatched_patterns();
  }

  /// A rank of a pipeline has some of the parameters only.
  void warn_of_unmatched_patterns() const {
    comm::Communicator& stages = objects_.model.group(mesh::Axis::PipelineParallel);
    std::map<std::string, int> ranks_without;
    for (const std::string& rank : comm::gather(stages, fmt::format("{}", fmt::join(objects_.optimizer->unmatched_patterns(), "\n"))))
      for (const std::string& pattern : split(rank, '\n')) ++ranks_without[pattern];
    for (const auto& [pattern, num_ranks] : ranks_without)
      if (!pattern.empty() && num_ranks == stages.size())
        log::warning("optimizer.param_group_overrides: \"{}\" changes nothing: earlier patterns or freeze_config have all that it matches", pattern);
  }

  void step(const data::StepBatches& batches, Reporter& reporter) {
    const Clock::time_point begin = Clock::now();
    const std::int64_t completed = metrics_.step;
    const optim::StepOptions options{.learning_rate = optim::learning_rate(objects_.schedule, completed),
                                     .weight_decay = optim::weight_decay(objects_.schedule, completed)};
    validation_metric_.reset();
    const StepResult result = training_step(objects_.model, *objects_.optimizer, batches.microbatches, static_cast<std::uint64_t>(completed), options,
                                            recipe_.clip_grad_norm.max_norm, objects_.experts.get());
    const double seconds = seconds_since(begin);
    if (trace_ != nullptr) trace_->compute("optimizer", "optimizer", result.update_began, result.update_ended);
    if (result.gradients.num_label_tokens == 0) note_unlabelled_step(batches.samples);
    if (peak_ == 0.0) peak_ = measured_matmul_peak(objects_.plan.dtype == DType::BF16 ? at::kBFloat16 : at::kFloat);
    tokens_ += result.gradients.num_tokens;
    seconds_ += seconds;
    metrics_ = {.step = completed + 1,
                .epoch = batches.epoch,
                .loss = result.gradients.loss,
                .gradient_norm = result.gradient_norm,
                .learning_rate = options.learning_rate,
                .memory_gib = to_gib(peak_resident_bytes()),
                .tokens_per_second = static_cast<double>(result.gradients.num_tokens) / seconds,
                .mfu = mfu(batches, seconds),
                .num_label_tokens = result.gradients.num_label_tokens,
                .world_size = objects_.setup.mesh->world_size(),
                .routing = routing_report(completed + 1)};
    if (completed == summary_.first_step) summary_.first_loss = metrics_.loss;
    losses_["train_loss"] = metrics_.loss;
    reporter.step(metrics_);
  }

  std::map<std::string, double> routing_report(std::int64_t step) const {
    std::map<std::string, double> report;
    if (!objects_.experts) return report;
    const config::MoeMetrics& asked = recipe_.moe_metrics;
    const bool detailed = asked.detailed && step % asked.detailed_every_steps.value_or(1) == 0;
    if (asked.enabled) report = routing_metrics(*objects_.experts, asked.top_k_experts, detailed);
    if (recipe_.model.moe_overrides.capacity_factor) report["moe/num_dropped"] = static_cast<double>(num_dropped(*objects_.experts));
    return report;
  }

  /// The first one is warned about, the end of the run counts them.
  void note_unlabelled_step(std::int64_t samples) {
    if (unlabelled_steps_++ > 0 || objects_.setup.rank() != 0) return;
    log::warning("{}: dataset: no label counts in the {} samples of step {}, which therefore teach nothing; is every answer masked or cut off? {}",
                 config::where(loaded_.tree, "dataset"), samples, metrics_.step + 1, objects_.loader->description());
  }

  double mfu(const data::StepBatches& batches, double seconds) const {
    double operations = 0.0;
    for (const data::Batch& batch : batches.microbatches)
      operations += model::flops_per_token(objects_.plan.spec, batch.length) * static_cast<double>(data::num_tokens(batch));
    const std::int64_t ranks_of_a_batch = objects_.setup.mesh->world_size() / objects_.setup.mesh->dp_size();
    return operations / seconds / peak_ / static_cast<double>(ranks_of_a_batch);
  }

  bool validation_due(bool ends_epoch, bool last) const {
    const auto& every = recipe_.step_scheduler.val_every_steps;
    if (objects_.validation.empty()) return false;
    return last || (every ? metrics_.step % *every == 0 : ends_epoch);
  }

  void run_validation(Reporter& reporter) {
    for (ValidationSet& set : objects_.validation) {
      const ValidationResult result = validate(objects_.model, set, [&] { return interrupted(); });
      if (interrupted()) return;  // half a pass is no measurement
      if (result.num_label_tokens == 0) {
        log::warning("validation set {}: no label counts, so there is no loss; is every answer masked or cut off?", set.name);
        continue;
      }
      reporter.validation(set.name, metrics_, result);
      losses_["val_loss"][set.name] = result.loss;
      if (&set == &objects_.validation.front()) summary_.validation_loss = result.loss;
      const bool only = objects_.validation.size() == 1;  // then it is what is meant, whatever the key says
      if (only || set.name == recipe_.checkpoint.best_metric_key) validation_metric_ = result.loss;
    }
  }

  /// Whether any rank was asked to stop. All ranks ask together, so that all stop after the same step; once true, it stays so. What else all ranks
  /// must agree on travels along.
  bool interrupted() {
    const std::vector<std::int64_t> ranks =
        comm::sum(objects_.setup.world(), std::vector<std::int64_t>{interrupt_.signal() != 0, directory_ && directory_->save_has_ended()});
    stopping_ = stopping_ || ranks[0] > 0;
    save_has_ended_ = ranks[1] == objects_.setup.mesh->world_size();
    return stopping_;
  }

  bool checkpoint_due(bool ends_epoch, bool last) const {
    if (!directory_) return false;
    const config::StepScheduler& scheduler = recipe_.step_scheduler;
    const bool epoch = ends_epoch && (scheduler.save_checkpoint_every_epoch || !scheduler.ckpt_every_steps);
    return last || epoch || (scheduler.ckpt_every_steps && metrics_.step % *scheduler.ckpt_every_steps == 0);
  }

  /// Of this step, which is saved.
  void note_best() {
    if (!validation_metric_ || std::isnan(*validation_metric_) || (best_validation_ && best_validation_->metric <= *validation_metric_)) return;
    const std::filesystem::path checkpoint =
        std::filesystem::weakly_canonical(directory_->path()) / checkpoint::checkpoint_name(metrics_.epoch, metrics_.step);
    best_validation_ = {*validation_metric_, metrics_.step, checkpoint.string()};
  }

  void save(bool last, Reporter& reporter) {
    if (!directory_) return;
    note_best();
    const config::SaveConsolidated when = recipe_.checkpoint.save_consolidated;
    const checkpoint::SaveRequest request{.store = objects_.model.model.store.get(),
                                          .optimizer = objects_.optimizer.get(),
                                          .signature = objects_.signature,
                                          .model_files = &objects_.model_files,
                                          .state = {.epoch = metrics_.epoch,
                                                    .step = metrics_.step,
                                                    .loader = data::loader_state(*objects_.loader),
                                                    .scheduler = optim::to_json(objects_.schedule),
                                                    .rng = {{"seed", recipe_.seed}, {"step", metrics_.step}},
                                                    .losses = losses_,
                                                    .validation_metric = validation_metric_,
                                                    .best_validation = best_validation_},
                                          .config_yaml = config::print_yaml(loaded_.tree),
                                          .versions = {{"tessera", version()}, {"torch", TORCH_VERSION}},
                                          .layout = layout_json(objects_.setup.mesh->sizes()),
                                          .consolidate = when == config::SaveConsolidated::Every || (when == config::SaveConsolidated::Final && last),
                                          .saves_masters = objects_.plan.saved_dtype != objects_.plan.dtype};
    if (recipe_.checkpoint.is_async) {
      finish_save(reporter);  // of the one before
      directory_->begin_save(request);
      return;
    }
    saved(directory_->save(request), reporter);
  }

  void saved(const std::filesystem::path& checkpoint, Reporter& reporter) {
    summary_.checkpoint = checkpoint;
    reporter.say("saved " + checkpoint.string());
  }

  /// Waits for the save in flight, if there is one; what it failed with ends the run.
  void finish_save(Reporter& reporter) {
    if (!directory_) return;
    if (const auto checkpoint = directory_->finish_save()) saved(*checkpoint, reporter);
    save_has_ended_ = false;
  }

  void finish(Reporter& reporter) {
    summary_.last_step = metrics_.step;
    summary_.last_loss = metrics_.loss;
    summary_.tokens_per_second = seconds_ > 0.0 ? static_cast<double>(tokens_) / seconds_ : 0.0;
    summary_.peak_memory_gib = to_gib(peak_resident_bytes());
    if (unlabelled_steps_ > 0 && objects_.setup.rank() == 0)
      log::warning("{} of {} steps had no label that counts", unlabelled_steps_, metrics_.step - summary_.first_step);
    summary_.interrupted = stopping_ && metrics_.step < objects_.total_steps;
    if (!summary_.interrupted) return;
    const char* const saved = !directory_                                 ? "checkpoints are off, nothing was saved"
                              : !summary_.checkpoint                      ? "it had not begun, nothing was saved"
                              : continues_from_newest(recipe_.checkpoint) ? "the same command continues"
                                                                          : "checkpoint.restore_from: LATEST continues";
    reporter.say(fmt::format("interrupted after step {} of {}; {}", metrics_.step, objects_.total_steps, saved));
  }

  const config::LoadedRecipe& loaded_;
  const config::Recipe& recipe_;
  const Environment& environment_;
  Clock::time_point start_;
  InterruptGuard interrupt_;
  TrainingObjects objects_;
  comm::Backend& backend_;
  std::unique_ptr<FileOperations> operations_;
  std::unique_ptr<comm::Communicator> checkpoint_group_;
  std::optional<checkpoint::CheckpointDirectory> directory_;
  Trace* trace_;
  std::unique_ptr<model::UnitHooks> unit_hooks_;  ///< of the trace
  bool stopping_ = false;
  bool save_has_ended_ = false;  ///< at every rank: the save in the background
  double peak_ = 0.0;            ///< of the matrix product; measured after the first step, so that training starts without waiting for it
  StepMetrics metrics_;          ///< of the last step
  Json losses_ = Json::object();
  std::optional<double> validation_metric_;                    ///< of the weights as they are: nothing once a step has changed them
  std::optional<checkpoint::BestValidation> best_validation_;  ///< of a checkpoint of this run
  std::int64_t tokens_ = 0;
  std::int64_t unlabelled_steps_ = 0;
  double seconds_ = 0.0;
  RunSummary summary_;
};

}  // namespace

RunSummary train(const config::LoadedRecipe& recipe, const Environment& environment, comm::Backend& backend,
                 const std::optional<std::filesystem::path>& trace) {
  keep_freed_memory();
  if (!trace) return TrainingRun(recipe, environment, backend, nullptr)();
  if (backend.rank() == 0) prepare_trace(*trace);
  Trace events;
  const auto recorded =
      comm::decorated_backend(backend, [&](auto communicator) { return comm::recording_communicator(std::move(communicator), events); });
  TrainingRun run(recipe, environment, *recorded, &events);
  RunSummary summary = run();
  events.write(*trace, run.world());
  return summary;
}

}  // namespace tessera::train
