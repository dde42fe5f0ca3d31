#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Pipeline parallelism as data: what each rank does in one optimizer step is a list of actions, which schedules make, passes lower, `tessera
/// simulate` draws and one executor runs. Stages are numbered along the model, microbatches along the step, ranks along the mesh axis pp; all from 0.
namespace tessera::pipeline {

enum class ActionKind : std::uint8_t {
  // Computing; these alone make a schedule.
  Forward,         ///< F
  InputGradient,   ///< I: backward as far as the previous stage waits for it; weight gradients are postponed
  WeightGradient,  ///< W: those
  Backward,        ///< B: I and W in one
  // What lowering adds. None of them makes the rank wait: the computing action that needs the result does.
  SendActivation,     ///< SEND_F: the output of the stage, to the next one's rank
  ReceiveActivation,  ///< RECV_F: the input of the stage, from the previous one's rank
  SendGradient,       ///< SEND_B: the gradient of the stage's input, to the previous one's rank
  ReceiveGradient,    ///< RECV_B: the gradient of the stage's output, from the next one's rank
  Gather,             ///< UNSHARD: begins to gather the stage's weights
  Free,               ///< RESHARD: drops them
  ReduceGradient,     ///< REDUCE_GRAD: begins to reduce the stage's weight gradients
};

struct Action {
  int stage = 0;
  ActionKind kind = ActionKind::Forward;
  int microbatch = -1;  ///< −1 for the kinds that concern a stage as a whole: Gather, Free, ReduceGradient

  bool operator==(const Action&) const = default;
};

/// One rank's actions in the order in which it begins them.
using ActionList = std::vector<Action>;
/// A list per rank.
using Schedule = std::vector<ActionList>;

bool is_compute(ActionKind kind);
/// I or B: what gives the previous stage its gradient.
bool makes_input_gradient(ActionKind kind);
/// W or B: the last use of what a forward pass stored.
bool makes_weight_gradient(ActionKind kind);

/// "F", "RECV_B", …
std::string_view to_string(ActionKind kind);
/// "2F0", "1RECV_B3", "0UNSHARD": stage, kind, microbatch; the text of torch.distributed.pipelining.
std::string to_string(const Action& action);
/// The reverse; nothing when the text is not an action.
std::optional<Action> parse_action(std::string_view text);

}  // namespace tessera::pipeline
