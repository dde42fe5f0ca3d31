#include "tessera/core/error.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

namespace tessera {
namespace {

std::string join(const std::vector<Problem>& problems) {
  std::string text;
  for (const Problem& problem : problems) {
    if (!text.empty()) text += '\n';
    text += to_string(problem);
  }
  return text;
}

}  // namespace

std::string to_string(const Problem& problem) {
  std::string text = "error: ";
  if (!problem.where.empty()) text += problem.where + ": ";
  text += problem.what;
  if (!problem.rule.empty()) text += "\n  rule: " + problem.rule;
  if (!problem.fix.empty()) text += "\n  fix:  " + problem.fix;
  return text;
}

UserError::UserError(std::vector<Problem> problems) : std::runtime_error(join(problems)), problems_(std::move(problems)) {}
UserError::UserError(Problem problem) : UserError(std::vector<Problem>{std::move(problem)}) {}

Failure::Failure(Problem problem) : std::runtime_error(to_string(problem)), problem_(std::move(problem)) {}

void ProblemList::add(const UserError& error) { problems_.insert(problems_.end(), error.problems().begin(), error.problems().end()); }

void ProblemList::throw_if_any() const {
  if (!problems_.empty()) throw UserError(problems_);
}

void assertion_failed(const char* condition, const char* file, int line, std::string_view message) {
  fmt::print(stderr, "internal error: {}:{}: {} ({})\n", file, line, message, condition);
  std::abort();
}

}  // namespace tessera
