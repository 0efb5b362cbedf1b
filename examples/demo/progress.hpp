// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the program is doing, on stderr, where it takes more than a second: one line that is rewritten
// on a terminal, a line every five seconds elsewhere. Nothing is printed for what is done at once.

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <utility>

namespace fasttree::examples {

/// Progress of `total` steps; the line vanishes from a terminal when the object does.
class Progress {
 public:
  Progress(std::string what, long long total) : what_(std::move(what)), total_(total) {}
  Progress(Progress const&) = delete;
  Progress& operator=(Progress const&) = delete;
  ~Progress() {
    if (shown_ && terminal_) std::fprintf(stderr, "\r\033[K");
  }

  /// Says that `done` steps are done.
  void at(long long done) {
    auto const now = Clock::now();
    if (now < next_) return;
    next_ = now + std::chrono::milliseconds(terminal_ ? 200 : 5000);
    double const percent = total_ > 0 ? 100.0 * static_cast<double>(done) / total_ : 0.0;
    std::fprintf(stderr, terminal_ ? "\r%s: %.0f %%\033[K" : "%s: %.0f %%\n", what_.c_str(),
                 percent);
    std::fflush(stderr);
    shown_ = true;
  }

 private:
  using Clock = std::chrono::steady_clock;

  std::string what_;
  long long total_;
  bool const terminal_ = isatty(STDERR_FILENO) == 1;
  bool shown_ = false;
  Clock::time_point next_ = Clock::now() + std::chrono::seconds(1);
};

}  // namespace fasttree::examples
