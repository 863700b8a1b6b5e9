// SPDX-License-Identifier: BSD-3-Clause
// Threads that share one piece of work, and the thread that waits for them. Local.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>

namespace cairn {

/// Runs `work` on `count` threads and waits for all of them. `stop` becomes true when one has failed: the
/// others should come to an end. `poll`, which may be empty, is called every `interval` or so on the
/// calling thread meanwhile. Throws the first failure; io when a thread cannot be started.
void run_workers(int count, const std::function<void(const std::atomic<bool>& stop)>& work,
                 const std::function<void()>& poll = {},
                 std::chrono::milliseconds interval = std::chrono::milliseconds(250));

}  // namespace cairn
