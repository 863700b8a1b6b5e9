// SPDX-License-Identifier: BSD-3-Clause
#include "progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/fail.hpp"
#include "base/text.hpp"
#include "report.hpp"

namespace cairn {
namespace {

constexpr std::chrono::seconds kBetweenLines{3};
constexpr int kBarWidth = 20;

double share(const Progress& progress) {
  if (progress.total_bytes == 0) return 1;
  return std::min(1.0, static_cast<double>(progress.done_bytes) / static_cast<double>(progress.total_bytes));
}

std::string remaining(double seconds) {
  const auto whole = static_cast<std::uint64_t>(std::min(seconds, 1e9) + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{}:{:02} min", whole / 60, whole % 60);
  return fmt::format("{}:{:02} h", whole / 3600, whole / 60 % 60);
}

std::string figures(const Progress& progress, double rate) {
  auto text = fmt::format("{:3.0f} %  {} of {}", 100 * share(progress), human_bytes(progress.done_bytes),
                          human_bytes(progress.total_bytes));
  if (progress.phase != "copying") return text + fmt::format("  {}", progress.phase);
  if (rate > 0) {
    const auto left = progress.total_bytes - std::min(progress.done_bytes, progress.total_bytes);
    text += fmt::format("  {}/s  ETA {}", human_bytes(static_cast<std::uint64_t>(rate)),
                        remaining(static_cast<double>(left) / rate));
  }
  return text;
}

void write_error_stream(const std::string& text) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

ProgressForm progress_form(const std::string& choice) {
  if (choice == "never") return ProgressForm::none;
  if (choice != "auto" && choice != "always") {
    fail(ErrorKind::invalid_argument, "--progress '{}': auto, always or never is needed", choice);
  }
  if (isatty(STDERR_FILENO) == 1) return ProgressForm::bar;
  return choice == "always" ? ProgressForm::lines : ProgressForm::none;
}

ProgressDisplay::ProgressDisplay(ProgressForm form) : form_(form) {}

ProgressDisplay::~ProgressDisplay() { clear(); }

void ProgressDisplay::clear() {
  if (drawn_) write_error_stream("\r\x1b[K");
  drawn_ = false;
}

// Bytes a second since the first were seen: neither planning nor what an earlier run has done count. Fewer
// bytes than before are another round.
double ProgressDisplay::rate(const Progress& progress) {
  if (!begun_ || progress.done_bytes < last_bytes_) {
    begun_ = true;
    begin_ = Clock::now();
    begin_bytes_ = progress.done_bytes;
  }
  last_bytes_ = progress.done_bytes;
  const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
  return seconds > 0 ? static_cast<double>(progress.done_bytes - begin_bytes_) / seconds : 0;
}

void ProgressDisplay::show(const Progress& progress) {
  const auto now = Clock::now();
  const auto text = figures(progress, rate(progress));
  if (form_ == ProgressForm::bar) {
    const auto filled = static_cast<std::size_t>(share(progress) * kBarWidth);
    write_error_stream(fmt::format("\r[{:<{}}] {}\x1b[K", std::string(filled, '#'), kBarWidth, text));
    drawn_ = true;
  } else if (form_ == ProgressForm::lines && now - last_line_ >= kBetweenLines) {
    say(text);
    last_line_ = now;
  }
}

}  // namespace cairn
