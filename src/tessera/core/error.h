#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// One mistake, worded for the person who can fix it:
///   error: WHERE: WHAT
///     rule: RULE
///     fix:  FIX
/// `where` is "file:line", a path, or empty; `rule` and `fix` may be empty.
struct Problem {
  std::string where;
  std::string what;
  std::string rule;
  std::string fix;
};

/// "error: where: what\n  rule: …\n  fix:  …", without a trailing newline.
std::string to_string(const Problem& problem);

/// Something the user can fix: bad recipe, bad file, bad argument. The program exits with 2.
/// Holds every problem found, so that all are reported at once.
class UserError : public std::runtime_error {
 public:
  explicit UserError(std::vector<Problem> problems);
  explicit UserError(Problem problem);
  const std::vector<Problem>& problems() const { return problems_; }

 private:
  std::vector<Problem> problems_;
};

/// Something that broke at run time (disk full, a rank died, NaN loss). The program exits with 1.
class Failure : public std::runtime_error {
 public:
  explicit Failure(Problem problem);
  const Problem& problem() const { return problem_; }

 private:
  Problem problem_;
};

/// Collects mistakes so that one run reports them all.
class ProblemList {
 public:
  void add(Problem problem) { problems_.push_back(std::move(problem)); }
  /// Takes over the problems of an error caught elsewhere.
  void add(const UserError& error);
  bool empty() const { return problems_.empty(); }
  const std::vector<Problem>& problems() const { return problems_; }
  /// Throws UserError with everything collected, if there is anything.
  void throw_if_any() const;

 private:
  std::vector<Problem> problems_;
};

[[noreturn]] void assertion_failed(const char* condition, const char* file, int line, std::string_view message);

}  // namespace tessera

/// For what cannot happen unless Tessera itself is wrong; active in every build.
#define TESSERA_ASSERT(condition, message) \
  (static_cast<bool>(condition) ? void(0) : ::tessera::assertion_failed(#condition, __FILE__, __LINE__, message))
