#include "tessera/core/logging.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace tessera::log {
namespace {

/// One process-wide sink: spdlog keeps lines whole when several threads write.
spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto made = std::make_shared<spdlog::logger>("tessera", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern("%^%v%$");
    made->flush_on(spdlog::level::info);
    return made;
  }();
  return *instance;
}

}  // namespace

void line(std::string_view text) { logger().log(spdlog::level::off, "{}", text); }
void note(std::string_view text) { logger().info("note: {}", text); }
void warning(std::string_view text) { logger().warn("warning: {}", text); }

}  // namespace tessera::log
