// SPDX-License-Identifier: BSD-3-Clause
#include "base/workers.hpp"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/fail.hpp"

namespace cairn {
namespace {

class Workers {
 public:
  void run(int count, const std::function<void(const std::atomic<bool>&)>& work,
           const std::function<void()>& poll, std::chrono::milliseconds interval) {
    {
      std::vector<std::jthread> threads;
      start(threads, count, work);
      wait(poll, interval);
    }
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void start(std::vector<std::jthread>& threads, int count,
             const std::function<void(const std::atomic<bool>&)>& work) {
    try {
      for (int i = 0; i < count; ++i) {
        {
          const std::lock_guard lock(mutex_);
          ++running_;
        }
        threads.emplace_back([this, &work] { finish(failure_of(work)); });
      }
    } catch (const std::system_error& error) {
      finish(std::make_exception_ptr(
          Error(ErrorKind::io, fmt::format("starting an I/O thread failed: {}", error.what()))));
    }
  }

  std::exception_ptr failure_of(const std::function<void(const std::atomic<bool>&)>& work) {
    try {
      work(stop_);
      return nullptr;
    } catch (...) {
      return std::current_exception();
    }
  }

  void finish(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    if (failure && !failure_) failure_ = std::move(failure);
    if (failure_) stop_ = true;
    --running_;
    done_.notify_one();
  }

  void wait(const std::function<void()>& poll, std::chrono::milliseconds interval) {
    std::unique_lock lock(mutex_);
    while (!done_.wait_for(lock, interval, [this] { return running_ == 0; })) {
      if (!poll) continue;
      lock.unlock();
      poll();
      lock.lock();
    }
  }

  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable done_;
  int running_ = 0;
  std::exception_ptr failure_;
};

}  // namespace

void run_workers(int count, const std::function<void(const std::atomic<bool>&)>& work,
                 const std::function<void()>& poll, std::chrono::milliseconds interval) {
  Workers().run(count, work, poll, interval);
}

}  // namespace cairn
