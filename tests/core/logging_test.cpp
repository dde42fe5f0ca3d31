#include "tessera/core/logging.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Logging, LinesGoToStandardErrorWithoutColoursOffATerminal) {
  testing::internal::CaptureStderr();
  log::line("step {} | loss {:.2f}", 3, 1.5);
  log::note("{} is not used here", "ci");
  log::warning(std::string_view("braces {} in a plain text stay"));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "step 3 | loss 1.50\nnote: ci is not used here\nwarning: braces {} in a plain text stay\n");
}

TEST(Logging, ALevelLeavesOutNotesThenWarnings) {
  const auto said = [](log::Level level) {
    testing::internal::CaptureStderr();
    log::show_from(level);
    log::line("line");
    log::note("note");
    log::warning("warning");
    log::show_from(log::Level::Info);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(said(log::Level::Info), "line\nnote: note\nwarning: warning\n");
  EXPECT_EQ(said(log::Level::Warning), "line\nwarning: warning\n");
  EXPECT_EQ(said(log::Level::Error), "line\n");
}

}  // namespace
}  // namespace tessera
