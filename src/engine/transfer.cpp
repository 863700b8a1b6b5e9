// SPDX-License-Identifier: BSD-3-Clause
#include "engine/transfer.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>

#include "cairn/error.hpp"
#include "engine/kernel_copy.hpp"
#include "engine/storage_crc.hpp"
#include "engine/window_filler.hpp"

namespace cairn {
namespace {

class Job {
 public:
  Job(Source& source, const OutputLayout& layout, std::span<const RecordContent> contents,
      const Windows& windows, ByteRange owned, const MakeWriter& make_writer)
      : source_(source),
        layout_(layout),
        contents_(contents),
        windows_(windows),
        end_(owned.end),
        make_writer_(make_writer),
        indices_(source.catalog()),
        next_(owned.begin) {}

  PassedBytes run(const TransferOptions& options) {
    verify_source_ = options.verify_source && options.kernel_output == nullptr;
    kernel_output_ = options.kernel_output;
    {
      std::vector<std::jthread> workers;
      start(workers, options.threads);
      wait(options.progress);
    }
    if (failure_) std::rethrow_exception(failure_);
    passed_.written = join_pieces(std::move(passed_.written));
    passed_.read = compare_storages(source_, std::move(passed_.read), passed_.verified_bytes);
    return std::move(passed_);
  }

 private:
  void start(std::vector<std::jthread>& workers, int count) {
    try {
      for (int i = 0; i < count; ++i) {
        {
          const std::lock_guard lock(mutex_);
          ++running_;
        }
        workers.emplace_back([this] { work(); });
      }
    } catch (const std::system_error& error) {
      finish({}, std::make_exception_ptr(
                     Error(ErrorKind::io, std::string("starting an I/O thread failed: ") + error.what())));
    }
  }

  void work() {
    try {
      std::vector<std::byte> buffer(kWindowBytes), scratch(kWindowBytes);
      PassedBytes passed;
      WindowFiller filler(source_, layout_, contents_, indices_, scratch, verify_source_);
      std::optional<KernelCopier> copier;
      if (kernel_output_ != nullptr) copier.emplace(source_, layout_, contents_, *kernel_output_, scratch);
      const auto writer = make_writer_();
      while (!stop_) {
        const std::uint64_t index = next_.fetch_add(1);
        if (index >= end_) break;
        const ByteRange window = windows_.at(index);
        const auto left = copier ? copier->copy(window, passed.written) : std::vector{window};
        for (const ByteRange part : left) {
          filler.fill(part, std::span(buffer).first(part.size()), passed);
          writer->write(part, std::span(buffer).first(part.size()), passed.written);
        }
        written_ += window.size();
      }
      finish(passed, nullptr);
    } catch (...) {
      finish({}, std::current_exception());
    }
  }

  void finish(const PassedBytes& passed, std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    passed_.written.insert(passed_.written.end(), passed.written.begin(), passed.written.end());
    passed_.read.insert(passed_.read.end(), passed.read.begin(), passed.read.end());
    passed_.verified_bytes += passed.verified_bytes;
    if (failure && !failure_) failure_ = std::move(failure);
    if (failure_) stop_ = true;
    --running_;
    done_.notify_one();
  }

  void wait(const std::function<void(std::uint64_t)>& progress) {
    std::unique_lock lock(mutex_);
    while (!done_.wait_for(lock, std::chrono::milliseconds(250), [this] { return running_ == 0; })) {
      if (!progress) continue;
      lock.unlock();
      progress(written_);
      lock.lock();
    }
  }

  Source& source_;
  const OutputLayout& layout_;
  std::span<const RecordContent> contents_;
  const Windows& windows_;
  const std::uint64_t end_;
  const MakeWriter& make_writer_;
  ChunkIndices indices_;
  std::atomic<std::uint64_t> next_, written_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable done_;
  int running_ = 0;
  PassedBytes passed_;
  bool verify_source_ = true;
  File* kernel_output_ = nullptr;
  std::exception_ptr failure_;
};

}  // namespace

PassedBytes transfer(Source& source, const OutputLayout& layout, std::span<const RecordContent> contents,
                     const Windows& windows, ByteRange owned, const MakeWriter& make_writer,
                     const TransferOptions& options) {
  return Job(source, layout, contents, windows, owned, make_writer).run(options);
}

int default_threads(int ranks_on_node) {
  cpu_set_t cores;
  const int mine = sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 1;
  const long all = sysconf(_SC_NPROCESSORS_ONLN);
  const int share =
      mine < all ? mine : mine / std::max(ranks_on_node, 1);  // fewer than all: this rank is bound
  return std::clamp(share, 1, 8);
}

}  // namespace cairn
