#include "tessera/core/logging.h"

#include <spdlog/sinks/basic_file_sink.h>
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

void send_to(const Destinations& destinations) {
  std::vector<spdlog::sink_ptr> sinks;
  if (destinations.terminal) sinks.push_back(std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  if (destinations.file) sinks.push_back(std::make_shared<spdlog::sinks::basic_file_sink_mt>(destinations.file->string()));
  for (const spdlog::sink_ptr& sink : sinks) sink->set_pattern("%^%v%$");
  logger().sinks() = std::move(sinks);
}

void show_from(Level level) {
  logger().set_level(level == Level::Info ? spdlog::level::info : level == Level::Warning ? spdlog::level::warn : spdlog::level::err);
}

void line(std::string_view text) { logger().log(spdlog::level::off, "{}", text); }
void note(std::string_view text) { logger().info("note: {}", text); }
void warning(std::string_view text) { logger().warn("warning: {}", text); }

}  // namespace tessera::log
