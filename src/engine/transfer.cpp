// SPDX-License-Identifier: BSD-3-Clause
#include "engine/transfer.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>

#include "base/workers.hpp"
#include "engine/kernel_copy.hpp"
#include "engine/storage_crc.hpp"
#include "engine/window_filler.hpp"

namespace cairn {
namespace {

class Job {
 public:
  Job(Source& source, const OutputLayout& layout, std::span<const RecordContent> contents,
      const Windows& windows, const WindowRuns& owned, const MakeWriter& make_writer)
      : source_(source),
        layout_(layout),
        contents_(contents),
        windows_(windows),
        owned_(owned),
        make_writer_(make_writer),
        indices_(source.catalog()) {}

  PassedBytes run(const TransferOptions& options) {
    verify_source_ = options.verify_source && options.kernel_output == nullptr;
    kernel_output_ = options.kernel_output;
    log_ = options.log;
    std::function<void()> poll;
    if (options.progress) poll = [&] { options.progress(written_); };
    run_workers(
        options.threads, [this](const std::atomic<bool>& stop) { work(stop); }, poll,
        options.progress_interval);
    passed_.written = join_pieces(std::move(passed_.written));
    passed_.read = compare_storages(source_, std::move(passed_.read), passed_.verified_bytes);
    return std::move(passed_);
  }

 private:
  void work(const std::atomic<bool>& stop) {
    std::vector<std::byte> buffer(kWindowBytes), scratch(kWindowBytes);
    WindowFiller filler(source_, layout_, contents_, indices_, scratch, verify_source_);
    std::optional<KernelCopier> copier;
    if (kernel_output_ != nullptr) copier.emplace(source_, layout_, contents_, *kernel_output_, scratch);
    const auto writer = make_writer_();
    while (!stop) {
      const std::uint64_t index = next_.fetch_add(1);
      if (index >= owned_.count()) break;
      const ByteRange window = windows_.at(owned_[index]);
      PassedBytes passed;
      const auto left = copier ? copier->copy(window, passed.written) : std::vector{window};
      for (const ByteRange part : left) {
        filler.fill(part, std::span(buffer).first(part.size()), passed);
        writer->write(part, std::span(buffer).first(part.size()), passed.written);
      }
      written_ += window.size();
      add(passed);
      if (log_ != nullptr) log_->add(owned_[index], std::move(passed));
    }
  }

  void add(const PassedBytes& passed) {
    const std::lock_guard lock(mutex_);
    passed_.add(passed);
  }

  Source& source_;
  const OutputLayout& layout_;
  std::span<const RecordContent> contents_;
  const Windows& windows_;
  const WindowRuns& owned_;
  const MakeWriter& make_writer_;
  ChunkIndices indices_;
  std::atomic<std::uint64_t> next_{0}, written_{0};
  bool verify_source_ = true;
  File* kernel_output_ = nullptr;
  WindowLog* log_ = nullptr;
  std::mutex mutex_;
  PassedBytes passed_;  // guarded while threads run
};

}  // namespace

PassedBytes transfer(Source& source, const OutputLayout& layout, std::span<const RecordContent> contents,
                     const Windows& windows, const WindowRuns& owned, const MakeWriter& make_writer,
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
