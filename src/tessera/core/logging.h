#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <string_view>

namespace tessera::log {

/// Which of the messages below are shown: all, all but notes, or neither notes nor warnings. Plain lines always are.
enum class Level { Info, Warning, Error };
/// For this process from now on; Info before.
void show_from(Level level);

/// One line each on standard error; answers a program would read go to standard output instead.
/// "note: …" and "warning: …" are coloured on a terminal only.
void line(std::string_view text);
void note(std::string_view text);
void warning(std::string_view text);

/// Where the lines of this process go from now on. Files are appended to, without colours.
struct Destinations {
  bool terminal = true;  ///< standard error
  std::optional<std::filesystem::path> file;
};
void send_to(const Destinations& destinations);

template <class... Arguments>
void line(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  line(std::string_view(fmt::format(format, std::forward<Arguments>(arguments)...)));
}
template <class... Arguments>
void note(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  note(std::string_view(fmt::format(format, std::forward<Arguments>(arguments)...)));
}
template <class... Arguments>
void warning(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  warning(std::string_view(fmt::format(format, std::forward<Arguments>(arguments)...)));
}

}  // namespace tessera::log
