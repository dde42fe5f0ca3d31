#include "tessera/parallel/expert/routes.h"

#include <numeric>

namespace tessera::parallel {
namespace {

/// The choices that go to one rank.
struct Message {
  std::int64_t num_rows = 0;
  std::int64_t last_token = -1;  ///< whose row is the last one
  std::vector<std::int64_t> numbers;
  std::vector<SentChoice> choices;
};

}  // namespace

Departure plan_departure(const at::Tensor& experts_NK, std::int64_t num_ranks, std::int64_t experts_per_rank) {
  const at::Tensor flat = experts_NK.cpu().contiguous();
  const std::int64_t* const experts = flat.data_ptr<std::int64_t>();
  const std::int64_t num_tokens = flat.size(0), choices = flat.size(1);
  std::vector<Message> messages(static_cast<std::size_t>(num_ranks));
  std::vector<std::int64_t> rank_of_pair, num_pairs_of_token(static_cast<std::size_t>(num_tokens));
  for (std::int64_t number = 0; number < flat.numel(); ++number) {
    if (experts[number] < 0) continue;
    const std::int64_t token = number / choices, rank = experts[number] / experts_per_rank;
    Message& message = messages[static_cast<std::size_t>(rank)];
    if (message.last_token != token) {
      message.last_token = token;
      ++message.num_rows;
      rank_of_pair.push_back(rank);
      ++num_pairs_of_token[static_cast<std::size_t>(token)];
    }
    message.numbers.push_back(number);
    message.choices.push_back({message.num_rows - 1, experts[number] % experts_per_rank});
  }
  Departure departure{.rows = ops::route_rows(rank_of_pair, num_pairs_of_token, num_ranks), .choices_per_rank = {}, .number_Q = {}, .choice_Q = {}};
  for (const Message& message : messages) {
    departure.choices_per_rank.push_back(static_cast<std::int64_t>(message.choices.size()));
    departure.number_Q.insert(departure.number_Q.end(), message.numbers.begin(), message.numbers.end());
    departure.choice_Q.insert(departure.choice_Q.end(), message.choices.begin(), message.choices.end());
  }
  return departure;
}

ops::RoutedRows plan_arrival(const std::vector<SentChoice>& choices, const std::vector<std::int64_t>& choices_per_rank,
                             const std::vector<std::int64_t>& rows_per_rank, std::int64_t num_experts) {
  std::vector<std::int64_t> expert_of_choice;
  std::vector<std::int64_t> num_choices_of_row(
      static_cast<std::size_t>(std::accumulate(rows_per_rank.begin(), rows_per_rank.end(), std::int64_t{0})));
  std::int64_t first_row = 0;
  std::size_t next = 0;
  for (std::size_t rank = 0; rank < rows_per_rank.size(); ++rank) {
    for (std::int64_t i = 0; i < choices_per_rank[rank]; ++i, ++next) {
      expert_of_choice.push_back(choices[next].expert);
      ++num_choices_of_row[static_cast<std::size_t>(first_row + choices[next].row)];
    }
    first_row += rows_per_rank[rank];
  }
  return ops::route_rows(expert_of_choice, num_choices_of_row, num_experts);
}

}  // namespace tessera::parallel
