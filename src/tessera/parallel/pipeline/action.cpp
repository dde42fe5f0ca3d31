#include "tessera/parallel/pipeline/action.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <utility>

namespace tessera::pipeline {
namespace {

/// In the order of the enumeration.
constexpr std::array<std::pair<ActionKind, std::string_view>, 11> kNames{{{ActionKind::Forward, "F"},
                                                                          {ActionKind::InputGradient, "I"},
                                                                          {ActionKind::WeightGradient, "W"},
                                                                          {ActionKind::Backward, "B"},
                                                                          {ActionKind::SendActivation, "SEND_F"},
                                                                          {ActionKind::ReceiveActivation, "RECV_F"},
                                                                          {ActionKind::SendGradient, "SEND_B"},
                                                                          {ActionKind::ReceiveGradient, "RECV_B"},
                                                                          {ActionKind::Gather, "UNSHARD"},
                                                                          {ActionKind::Free, "RESHARD"},
                                                                          {ActionKind::ReduceGradient, "REDUCE_GRAD"}}};

bool concerns_whole_stage(ActionKind kind) { return kind == ActionKind::Gather || kind == ActionKind::Free || kind == ActionKind::ReduceGradient; }

std::optional<ActionKind> parse_kind(std::string_view text) {
  for (const auto& [kind, name] : kNames)
    if (name == text) return kind;
  return std::nullopt;
}

std::optional<int> parse_number(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

bool is_compute(ActionKind kind) { return kind <= ActionKind::Backward; }

bool makes_input_gradient(ActionKind kind) { return kind == ActionKind::InputGradient || kind == ActionKind::Backward; }

bool makes_weight_gradient(ActionKind kind) { return kind == ActionKind::WeightGradient || kind == ActionKind::Backward; }

std::string_view to_string(ActionKind kind) { return kNames.at(static_cast<std::size_t>(kind)).second; }

std::string to_string(const Action& action) {
  if (action.microbatch < 0) return fmt::format("{}{}", action.stage, to_string(action.kind));
  return fmt::format("{}{}{}", action.stage, to_string(action.kind), action.microbatch);
}

std::optional<Action> parse_action(std::string_view text) {
  constexpr std::string_view digits = "0123456789";
  const std::size_t kind_begin = text.find_first_not_of(digits);
  const std::size_t kind_end = text.find_last_not_of(digits) + 1;
  if (kind_begin == std::string_view::npos) return std::nullopt;
  const auto stage = parse_number(text.substr(0, kind_begin));
  const auto kind = parse_kind(text.substr(kind_begin, kind_end - kind_begin));
  if (!stage || !kind) return std::nullopt;
  if (concerns_whole_stage(*kind)) return kind_end == text.size() ? std::optional(Action{*stage, *kind}) : std::nullopt;
  const auto microbatch = parse_number(text.substr(kind_end));
  return microbatch ? std::optional(Action{*stage, *kind, *microbatch}) : std::nullopt;
}

}  // namespace tessera::pipeline
