// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>

#include "base/byte_reader.hpp"
#include "base/byte_writer.hpp"
#include "base/fail.hpp"
#include "base/text.hpp"
#include "cairn/checkpoint.hpp"
#include "checkpoint/process_memory.hpp"
#include "checkpoint/run_watch.hpp"
#include "checkpoint/verify_items.hpp"
#include "checkpoint/verify_outcome.hpp"
#include "checkpoint/verify_report.hpp"
#include "checkpoint/verify_structure.hpp"
#include "checkpoint/verify_worker.hpp"
#include "engine/transfer.hpp"
#include "formats/dcp/rank_metadata.hpp"
#include "formats/layouts.hpp"
#include "parallel/agree.hpp"
#include "storage/read_pin.hpp"

namespace cairn {
namespace {

constexpr int kRoot = 0;

class Verification {
 public:
  Verification(Communicator& comm, FileSystem& files, const VerifyOptions& options)
      : comm_(comm),
        watch_(comm, files, {options.progress, 0, {}}),
        files_(files),
        options_(options),
        begin_(std::chrono::steady_clock::now()) {}

  template <class Body>
  auto guarded(Body body) {
    return watch_.guarded(body);
  }

  VerifyReport run() {
    on_all_ranks("checking the options", comm_, [&] { choose_threads(); });
    const Bytes found = on_root("looking for checkpoints", comm_, kRoot, [&] { return locate(); });
    ByteReader in(found, "what is verified");
    const auto components = in.read<std::uint64_t>();
    metadata_only_ = in.read<std::uint8_t>() != 0;
    strict_ = in.read<std::uint8_t>() != 0;
    for (std::uint64_t i = 0; i < components; ++i) check_component(i);
    const Bytes report = on_root("reporting", comm_, kRoot, [&] { return finish(); });
    return decode_report(report);
  }

 private:
  bool is_root() const { return comm_.rank() == kRoot; }

  void choose_threads() {
    const auto room = options_.max_memory / kVerifyBytesPerThread;
    if (room == 0) {
      fail(ErrorKind::invalid_argument, "a memory cap of {} bytes is too small: {} expected at least",
           options_.max_memory, kVerifyBytesPerThread);
    }
    threads_ = options_.threads > 0 ? options_.threads : default_threads(comm_.ranks_on_node());
    threads_ = static_cast<int>(std::min<std::uint64_t>(static_cast<std::uint64_t>(threads_), room));
  }

  Bytes locate() {
    located_ = locate_for_verify(files_, options_.path);
    for (const Located& one : located_) {
      if (one.kind == Located::Kind::dcp && pins_.size() < kMostPins)
        pins_.push_back(ReadPin::take(files_, one.path + "/" + dcp::first_metadata_name(files_, one.path)));
    }
    ByteWriter out;
    out.write<std::uint64_t>(located_.size());
    out.write(std::uint8_t{options_.metadata_only});
    out.write(std::uint8_t{options_.strict});
    return out.take();
  }

  void check_component(std::uint64_t i) {
    VerifyReport part;  // the coordinator's
    VerifyTask task;
    const Bytes message = on_root("checking the structure", comm_, kRoot, [&] {
      task = check_structure(located_[i], part);
      return comm_.size() > 1 && !metadata_only_ ? task.encode() : Bytes();
    });
    if (metadata_only_) {
      part.unchecked_items = part.chunks + part.objects + part.torch_files;
    } else {
      check_payload(std::move(task), message, part);
    }
    if (is_root()) add_part(i, std::move(part));
  }

  // One of several components whose metadata is damaged does not hide the others.
  VerifyTask check_structure(const Located& located, VerifyReport& part) {
    try {
      return verify_structure(files_, located, strict_ && !metadata_only_, part);
    } catch (const Error& error) {
      if (located_.size() == 1 || error.kind() != ErrorKind::corrupt) throw;
      part.components.push_back(located.path);
      part.faults.add({FaultKind::pickle, {}, ".metadata", 0, error.message()});
      return {located.kind, located.path, {}, {}, {}};
    }
  }

  void check_payload(VerifyTask task, const Bytes& message, VerifyReport& part) {
    std::optional<VerifyItems> items;
    VerifyOutcome mine;
    on_all_ranks("reading the items", comm_, [&] {
      if (!is_root()) task = VerifyTask::decode(message);
      items.emplace(task);
      const ByteRange owned = items->owned(comm_.rank(), comm_.size());
      mine = check_units(files_, *items, owned, work(*items, owned));
      mine.peak_rss_bytes = peak_rss_bytes();
    });
    watch_.end_copying();
    const auto theirs = comm_.gather(is_root() ? Bytes() : mine.encode(), kRoot);
    on_all_ranks("putting the results together", comm_, [&] {
      if (!is_root()) return;
      for (std::size_t rank = 1; rank < theirs.size(); ++rank)
        mine.merge(VerifyOutcome::decode(theirs[rank]));
      mine.compare_parts(*items);
      add_outcome(*items, std::move(mine), part);
    });
  }

  VerifyWork work(const VerifyItems& items, ByteRange owned) {
    std::uint64_t own = 0, all = 0;
    for (std::uint64_t i = 0; i < items.units().size(); ++i) {
      all += items.units()[i].bytes;
      if (i >= owned.begin && i < owned.end) own += items.units()[i].bytes;
    }
    watch_.begin_copying(own, all);
    return {strict_, threads_, [this](std::uint64_t done) { watch_.moved(done); }};
  }

  static void add_outcome(const VerifyItems& items, VerifyOutcome outcome, VerifyReport& part) {
    for (const Fault& fault : items.faults()) part.faults.add(fault);
    const auto found = outcome.take_faults();
    for (const auto& one : found) part.faults.add(one.fault);
    part.faults.add_unlisted(outcome.fault_count() - found.size());
    part.checked_bytes = outcome.checked_bytes();
    part.unchecked_items += outcome.unchecked_items;
    part.read_bytes = outcome.read_bytes;
    part.peak_rss_bytes = outcome.peak_rss_bytes;
  }

  // --- coordinator
  void add_part(std::uint64_t i, VerifyReport part) {
    const std::string& path = located_[i].path;
    const bool is_prefixed = path != options_.path && located_[i].kind == Located::Kind::dcp;
    for (Fault fault : part.faults.faults()) {
      if (is_prefixed) fault.file = path + "/" + fault.file;
      if (is_prefixed && !fault.message.starts_with(path)) {
        fault.message = fmt::format("{}: {}", escape_name(path), fault.message);
      }
      report_.faults.add(std::move(fault));
    }
    report_.faults.add_unlisted(part.faults.count() - part.faults.faults().size());
    report_.components.push_back(path);
    for (const auto number :
         {&VerifyReport::tensors, &VerifyReport::objects, &VerifyReport::chunks, &VerifyReport::files,
          &VerifyReport::torch_files, &VerifyReport::payload_bytes, &VerifyReport::checked_bytes,
          &VerifyReport::unchecked_items, &VerifyReport::read_bytes}) {
      report_.*number += part.*number;
    }
    report_.peak_rss_bytes = std::max({report_.peak_rss_bytes, part.peak_rss_bytes, peak_rss_bytes()});
    std::ranges::move(part.warnings, std::back_inserter(report_.warnings));
  }

  Bytes finish() {
    report_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    report_.ranks = comm_.size();
    report_.threads = threads_;
    return encode_report(report_);
  }

  Communicator& comm_;
  RunWatch watch_;
  FileSystem& files_;
  const VerifyOptions& options_;
  bool metadata_only_ = false, strict_ = false;  // the coordinator's
  const std::chrono::steady_clock::time_point begin_;
  int threads_ = 1;

  // the coordinator's
  std::vector<Located> located_;
  std::vector<ReadPin> pins_;
  VerifyReport report_;
};

}  // namespace

VerifyReport verify(Communicator& comm, FileSystem& files, const VerifyOptions& options) {
  Verification verification(comm, files, options);
  return verification.guarded([&] { return verification.run(); });
}

}  // namespace cairn
