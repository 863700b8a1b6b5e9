// SPDX-License-Identifier: BSD-3-Clause
#include "engine/raw_workloads.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/crc32.hpp"
#include "base/fail.hpp"

namespace cairn {
namespace {

using Piece = std::function<void(std::uint64_t offset, std::span<std::byte> buffer)>;

// All pieces, shared out to threads; each thread reuses one buffer.
void for_pieces(const RawOptions& options, const Piece& piece) {
  std::atomic<std::uint64_t> next{0};
  std::exception_ptr failure;
  std::mutex mutex;
  const auto work = [&] {
    try {
      std::vector<std::byte> buffer(options.piece_bytes);
      for (;;) {
        const std::uint64_t at = next.fetch_add(options.piece_bytes);
        if (at >= options.bytes) return;
        piece(at, std::span(buffer).first(std::min(options.piece_bytes, options.bytes - at)));
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
      next = options.bytes;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < options.threads; ++i) threads.emplace_back(work);
  }
  if (failure) std::rethrow_exception(failure);
}

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

class ScratchFile {
 public:
  ScratchFile(FileSystem& files, const RawOptions& options, std::string_view name)
      : files_(files), path_(fmt::format("{}/.cairn-bench-{}-{}", options.directory, getpid(), name)) {
    file_ = files.create_exclusive(path_);
    file_->allocate(options.bytes);
  }
  ~ScratchFile() {
    try {
      files_.unlink(path_);
    } catch (const Error&) {
    }
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  File& operator*() { return *file_; }
  void fill(const RawOptions& options) {
    for_pieces(options, [&](std::uint64_t at, std::span<std::byte> buffer) {
      std::memset(buffer.data(), static_cast<int>(at % 251), buffer.size());
      file_->write(at, buffer);
    });
  }

 private:
  FileSystem& files_;
  std::string path_;
  std::unique_ptr<File> file_;
};

double run_memory(RawWorkload workload, const RawOptions& options) {
  std::vector<std::byte> source(options.bytes, std::byte{1});
  std::vector<std::byte> target(workload == RawWorkload::memcpy ? options.bytes : 0, std::byte{2});
  std::atomic<std::uint32_t> sink{0};
  return seconds_of([&] {
    for_pieces(options, [&](std::uint64_t at, std::span<std::byte> buffer) {
      const auto piece = std::span(source).subspan(at, buffer.size());
      if (workload == RawWorkload::crc)
        sink ^= crc32(piece);
      else
        std::memcpy(target.data() + at, piece.data(), piece.size());
    });
  });
}

double run_files(FileSystem& files, RawWorkload workload, const RawOptions& options) {
  ScratchFile source(files, options, "source");
  if (workload == RawWorkload::write) return seconds_of([&] { source.fill(options); });
  source.fill(options);
  if (workload == RawWorkload::read) {
    return seconds_of([&] {
      for_pieces(options, [&](std::uint64_t at, std::span<std::byte> buffer) { (*source).read(at, buffer); });
    });
  }
  return seconds_of([&] {
    ScratchFile target(files, options, "target");
    for_pieces(options, [&](std::uint64_t at, std::span<std::byte> buffer) {
      (*source).read(at, buffer);
      (*target).write(at, buffer);
    });
  });
}

constexpr std::array<std::pair<std::string_view, RawWorkload>, 5> kNames{{{"memcpy", RawWorkload::memcpy},
                                                                          {"crc", RawWorkload::crc},
                                                                          {"read", RawWorkload::read},
                                                                          {"write", RawWorkload::write},
                                                                          {"copy", RawWorkload::copy}}};

}  // namespace

std::optional<RawWorkload> raw_workload(std::string_view name) {
  const auto found = std::ranges::find(kNames, name, &std::pair<std::string_view, RawWorkload>::first);
  return found == kNames.end() ? std::nullopt : std::optional(found->second);
}

double run_raw(FileSystem& files, RawWorkload workload, const RawOptions& options) {
  const bool in_memory = workload == RawWorkload::memcpy || workload == RawWorkload::crc;
  return in_memory ? run_memory(workload, options) : run_files(files, workload, options);
}

}  // namespace cairn
