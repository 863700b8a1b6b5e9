// SPDX-License-Identifier: BSD-3-Clause
// A job that loads a DCP directory again and again, beside plain reads of as many bytes of the same files by
// the same ranks into the same memory.
//   mpirun -n M load_rate DIRECTORY rows|columns|replicated ROUNDS [noverify] [once|each]
// Prints, for each round, one JSON line for either: seconds of the slowest rank. The first round is
// discarded.
//   raw      each rank: its share of all shards, one after the other, in calls of 1 MiB
//   raw_crc  the same, and the CRC-32 of each piece, which load compares too
//   load     cairn::load
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "base/crc32.hpp"
#include "cairn/checkpoint.hpp"
#include "cairn/load.hpp"
#include "cairn/mpi.hpp"
#include "timed.hpp"

namespace cairn {
namespace {

class Job {
 public:
  Job(Communicator& comm, std::string directory, const std::string& layout,
      const std::set<std::string>& words)
      : comm_(comm), directory_(std::move(directory)), state_(comm.rank()) {
    const Catalog catalog = list_checkpoint(posix_file_system(), directory_).catalog;
    files_ = {catalog.files().begin(), catalog.files().end()};
    for (const TensorInfo& tensor : catalog.tensors()) add(catalog, tensor, layout);
    options_.plan.allow_unexpected = {"*"};
    options_.verify = !words.contains("noverify");
    if (words.contains("once")) options_.read_once = ReadOnce::on;
    if (words.contains("each")) options_.read_once = ReadOnce::off;
  }

  void round(int number) {
    const double raw = timed(comm_, [&] { read_raw([](std::span<const std::byte>) {}); });
    const double raw_crc = timed(
        comm_, [&] { read_raw([this](std::span<const std::byte> piece) { crc_ = crc32(piece, crc_); }); });
    LoadReport done;
    const double load_s =
        timed(comm_, [&] { done = load(comm_, posix_file_system(), directory_, state_, options_); });
    if (comm_.rank() != 0 || number == 0) return;
    std::printf("{\"what\": \"raw\", \"seconds\": %.4f}\n", raw);
    std::printf("{\"what\": \"raw_crc\", \"seconds\": %.4f, \"crc\": %u}\n", raw_crc, crc_);
    std::printf(
        "{\"what\": \"load\", \"seconds\": %.4f, \"plan_s\": %.4f, \"read_bytes\": %lu, "
        "\"received_bytes\": %lu, \"peak_rss_bytes\": %lu, \"target_bytes\": %lu}\n",
        load_s, done.plan_s, done.read_bytes, done.received_bytes, done.peak_rss_bytes, target_bytes_);
  }

 private:
  void add(const Catalog& catalog, const TensorInfo& tensor, const std::string& name) {
    const auto shape = catalog.shape(tensor);
    const std::vector<std::int64_t> sizes(shape.begin(), shape.end());
    const std::size_t dim = name == "columns" && sizes.size() > 1 ? 1 : 0;
    const bool is_cut = name != "replicated" && !sizes.empty();
    const auto layout = is_cut ? TensorLayout::sharded(sizes, dim, comm_.size())
                               : TensorLayout::replicated(sizes, comm_.size());
    const auto local = layout.local_shape(comm_.rank());
    auto& memory =
        memory_.emplace_back(static_cast<std::size_t>(element_count(local)) * element_size(tensor.dtype));
    target_bytes_ += memory.size();
    state_.add_tensor(catalog.name(tensor), layout,
                      TensorView::contiguous(tensor.dtype, local, memory.data()));
  }

  // As many bytes as the rank has memory, from its place in the row of all shards, round and round.
  template <class Then>
  void read_raw(Then then) {
    constexpr std::uint64_t most = 1 << 20;
    std::uint64_t all = 0;
    std::vector<std::unique_ptr<File>> files;
    std::vector<std::uint64_t> sizes;
    for (const std::string& name : files_) {
      files.push_back(posix_file_system().open_read(directory_ + "/" + name));
      sizes.push_back(files.back()->size());
      all += sizes.back();
    }
    std::uint64_t at =
        all / static_cast<std::uint64_t>(comm_.size()) * static_cast<std::uint64_t>(comm_.rank());
    std::size_t file = 0;
    while (at >= sizes[file]) at -= sizes[file++];
    for (auto& memory : memory_) {
      for (std::uint64_t to = 0; to < memory.size();) {
        const auto bytes = std::min({most, memory.size() - to, sizes[file] - at});
        const auto piece = std::span(memory).subspan(to, bytes);
        files[file]->read(at, piece);
        then(piece);
        to += bytes;
        at += bytes;
        if (at == sizes[file]) {
          file = (file + 1) % files.size();
          at = 0;
        }
      }
    }
  }

  Communicator& comm_;
  const std::string directory_;
  std::vector<std::string> files_;
  std::deque<std::vector<std::byte>> memory_;
  std::uint64_t target_bytes_ = 0;
  std::uint32_t crc_ = 0;
  LiveState state_;
  LoadOptions options_;
};

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  cairn::MpiSession session(argc, argv);
  const auto comm = session.world();
  cairn::Job job(*comm, argv[1], argv[2], {argv + 4, argv + argc});
  for (int round = 0; round <= std::atoi(argv[3]); ++round) job.round(round);
  return 0;
}
