#pragma once

#include <string>

#include "tessera/plan/simulate.h"

/// Pictures of a simulated step.
namespace tessera::plan {

/// A line per rank, at most `columns` characters for the whole step. Passes carry the longest label that all have room for: "2F0", "F0" (always,
/// where ranks have one stage), or "F"; idle time is dots. `colours`: with terminal escapes, a background for each kind of pass.
std::string draw_text(const Simulation& simulation, int columns, bool colours);

/// An SVG document: a row per rank, a box per pass with its text form as label and tooltip, an axis in milliseconds.
std::string draw_svg(const Simulation& simulation);

/// A JSON array in the trace event format, which chrome://tracing and Perfetto open: a process per rank, complete events ("X"), microseconds; the
/// form of `tessera train --trace`.
std::string trace(const Simulation& simulation);

}  // namespace tessera::plan
