// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <optional>

#include "base/byte_reader.hpp"
#include "base/byte_writer.hpp"
#include "base/fail.hpp"
#include "base/text.hpp"
#include "cairn/checkpoint.hpp"
#include "checkpoint/consolidate_report.hpp"
#include "checkpoint/consolidation_plan.hpp"
#include "checkpoint/destination.hpp"
#include "checkpoint/journal_reports.hpp"
#include "checkpoint/output_files.hpp"
#include "checkpoint/output_requests.hpp"
#include "checkpoint/planned_outputs.hpp"
#include "checkpoint/process_memory.hpp"
#include "checkpoint/resumption.hpp"
#include "checkpoint/source_access.hpp"
#include "checkpoint/visibility.hpp"
#include "engine/storage_crc.hpp"
#include "engine/transfer.hpp"
#include "formats/dcp/source.hpp"
#include "formats/dcp/structure.hpp"
#include "parallel/agree.hpp"

namespace cairn {
namespace {

constexpr int kRoot = 0;
constexpr int kGatheringThreads = 8;  // they wait for other ranks more than they work

// What one rank did; gathered by the coordinator.
struct Share {
  std::uint64_t read_bytes = 0, peak_rss = 0;
  PassedBytes passed;
};

class Consolidation {
 public:
  Consolidation(Communicator& comm, FileSystem& files, const ConsolidateOptions& options)
      : comm_(comm),
        files_(files),
        options_(options),
        begin_(std::chrono::steady_clock::now()),
        source_files_(comm, files, options.max_memory),
        output_files_(files, options, plan_, report_) {}

  ConsolidateReport run() {
    on_all_ranks("checking the options", comm_, [&] { check_options(); });
    find_source_files();
    if (options_.resume) gather_machines();
    const Bytes message = source_files_.on_coordinator("preparing", [&] { return prepare(); });
    try {
      return work(message);
    } catch (Error& error) {
      if (options_.resume)
        error.add_hint(
            "what is written is kept: the same command goes on, --overwrite without --resume discards it");
      throw;
    }
  }

 private:
  ConsolidateReport work(const Bytes& message) {
    on_all_ranks("opening the output", comm_, [&] { open(message); });
    if (gather_)
      source_files_.run(
          "copying", [&] { copy(nullptr); }, [&] { show_progress(); });
    else
      copy_shared();
    on_all_ranks("writing out", comm_, [&] { close(); });
    const auto shares = comm_.gather(encode_share(), kRoot);
    const Bytes report = source_files_.on_coordinator("publishing", [&] { return publish(shares); });
    return decode_consolidate_report(report);
  }

  bool is_root() const { return comm_.rank() == kRoot; }
  bool by_kernel() const { return options_.copy == CopyMode::kernel; }
  bool verify_source() const { return options_.verify_source && !by_kernel(); }

  void check_options() {
    if (!std::has_single_bit(options_.alignment) || options_.alignment < 64 || options_.alignment > 32768) {
      fail(ErrorKind::invalid_argument, "an alignment of {}: a power of two from 64 to 32768 is needed",
           options_.alignment);
    }
    requests_ = output_requests(options_);
    if (by_kernel() && (requests_.size() > 1 || !requests_[0].rules.casts.empty())) {
      fail(ErrorKind::invalid_argument, "the kernel copies into one output without casts only");
    }
    if (options_.write == WriteMode::gather) check_gather();
    threads_ = options_.threads > 0 ? options_.threads : default_threads(comm_.ranks_on_node());
    fit_threads(kBufferBytesPerThread);
  }

  void check_gather() const {
    if (!by_kernel()) return;
    throw Error(ErrorKind::invalid_argument, "the kernel copies where one rank sees source and output only",
                "--write gather goes with --copy user");
  }

  // As many threads as their buffers have room.
  void fit_threads(std::uint64_t bytes_per_thread) {
    const auto room = options_.max_memory / bytes_per_thread;
    if (room == 0) {
      fail(ErrorKind::invalid_argument, "a memory cap of {} bytes is too small: {} expected at least",
           options_.max_memory, bytes_per_thread);
    }
    threads_ = static_cast<int>(std::min<std::uint64_t>(static_cast<std::uint64_t>(threads_), room));
  }

  // --- all ranks: where the source is, and who reads it ----------------------------------------------------
  void find_source_files() {
    const SourceSite site = find_source(comm_, files_, options_.source);
    plan_.directory = site.directory;
    source_files_.assign(site.directory, {site.metadata});
    source_files_.run("reading the metadata", [&] { read_metadata(); });
    ShardSites sites = find_shards(comm_, files_, &metadata_.catalog,
                                   {site.directory, options_.write, options_.visibility_timeout_s});
    gather_ = sites.gather;
    source_files_.assign(site.directory, gather_ ? std::move(sites.files) : std::vector<GatheredFile>());
    for (const auto& note : {site.note, sites.note}) {
      if (!note.empty()) report_.warnings.push_back(note);
    }
  }

  void gather_machines() {
    const std::string mine = this_machine();
    for (const Bytes& machine : comm_.gather(as_bytes(mine), kRoot)) machines_.emplace_back(as_text(machine));
    std::ranges::sort(machines_);
    const auto repeated = std::ranges::unique(machines_);
    machines_.erase(repeated.begin(), repeated.end());
  }

  // --- coordinator: everything that can be refused is refused before a tensor byte is read ----------------
  void read_metadata() {
    FileSystem& files = source_files_.files();
    const bool may_be_there = options_.overwrite || options_.resume;  // then creating the outputs decides
    const std::string file = choose_destination(files, plan_.directory, options_.destination, may_be_there);
    if (!options_.overwrite && may_be_there && !has_journal(files_, file))
      check_output(files, plan_.directory, file, false);
    if (options_.resume) metadata_digest_ = digest_file(files, plan_.directory + "/.metadata");
    complete_requests(files, file, requests_);
    metadata_ = dcp::decode_metadata_file(files, plan_.directory, faults_);
  }

  Bytes prepare() {
    if (gather_) check_gather();
    FileSystem& files = source_files_.files();
    dcp::check_structure(files, plan_.directory, metadata_.catalog, faults_);
    faults_.throw_if_any(plan_.directory);
    report_.warnings.insert(report_.warnings.end(), metadata_.notes.begin(), metadata_.notes.end());
    source_.emplace(files, plan_.directory, std::move(metadata_.catalog));
    output_files_.plan_all(requests_, *source_, metadata_.metadata_bytes);
    planned_.emplace(plan_, source_->catalog());
    output_files_.create(files, *planned_, metadata_digest_, machines_);
    return comm_.size() > 1 && !gather_ ? plan_.encode(source_->catalog()) : Bytes();
  }

  // --- all ranks ------------------------------------------------------------------------------------------
  void open(const Bytes& message) {
    if (gather_ && !is_root()) return;
    if (gather_ && options_.threads == 0) threads_ = std::max(threads_, kGatheringThreads);
    if (!is_root()) {
      Catalog catalog;
      plan_ = ConsolidationPlan::decode(message, catalog);
      source_.emplace(files_, plan_.directory, std::move(catalog));
      planned_.emplace(plan_, source_->catalog());
    }
    fit_threads(kBufferBytesPerThread + planned_->writer_bytes());
    if (!plan_.is_complete) planned_->open(files_, options_.visibility_timeout_s);
  }

  void copy_shared() {
    const auto for_journal = options_.resume && comm_.size() > 1 ? comm_.duplicate() : nullptr;
    on_all_ranks("copying", comm_, [&] { copy(for_journal.get()); });
  }

  // `comm` is for reports to the journal, where other ranks write too.
  void copy(Communicator* comm) {
    if (plan_.is_complete) return;
    if (!options_.resume) return transfer_windows(nullptr);
    JournalReports reports({comm, output_files_.journal(),
                            options_.sync ? [this] { planned_->sync(); } : std::function<void()>(),
                            std::chrono::duration<double>(options_.journal_interval_s)});
    reports.run([&] { transfer_windows(&reports); });
  }

  void transfer_windows(JournalReports* reports) {
    const Windows windows = planned_->windows();
    const WindowRuns left(windows.count(), plan_.finished);
    const WindowRuns owned = gather_ ? left : left.share(comm_.rank(), comm_.size());
    total_bytes_ = windows.bytes(owned);
    TransferOptions transfer_options{
        threads_, verify_source(), by_kernel() ? &planned_->file(0) : nullptr, {}};
    transfer_options.progress = [&](std::uint64_t done) {
      done_bytes_ = done;
      if (reports != nullptr) reports->poll();
      if (!gather_) show_progress();
    };
    if (reports != nullptr) {
      const std::chrono::duration<double> interval(options_.journal_interval_s);
      transfer_options.log = &reports->log();
      transfer_options.progress_interval = std::min(transfer_options.progress_interval,
                                                    std::chrono::ceil<std::chrono::milliseconds>(interval));
    }
    share_.passed = transfer(*source_, planned_->window_layout(), planned_->contents(), windows, owned,
                             planned_->make_writer(), transfer_options);
    done_bytes_ = total_bytes_.load();
    if (!gather_) show_progress();
  }

  void show_progress() const {
    if (options_.progress) options_.progress({done_bytes_, total_bytes_});
  }

  void close() {
    if (planned_) planned_->close(options_.sync);
    if (source_) share_.read_bytes = source_->read_bytes();
    share_.peak_rss = peak_rss_bytes();
  }

  Bytes encode_share() const {
    ByteWriter out;
    out.write(share_.read_bytes);
    out.write(share_.peak_rss);
    out.write(share_.passed.verified_bytes);
    const auto written = encode_pieces(share_.passed.written);
    out.write<std::uint64_t>(written.size());
    out.append(written);
    out.append(encode_pieces(share_.passed.read));
    return out.take();
  }

  // --- coordinator: the closing phase ---------------------------------------------------------------------
  Bytes publish(const std::vector<Bytes>& shares) {
    PassedBytes passed = output_files_.passed_before();
    for (const Bytes& bytes : shares) add_share(bytes, passed);
    report_.verified_bytes = passed.verified_bytes;
    compare_storages(*source_, std::move(passed.read), report_.verified_bytes);
    const auto crcs = record_crcs(std::move(passed.written), planned_->crc_bytes());
    if (verify_source()) compare_copied_bytes(crcs);
    for (std::size_t i = 0; i < plan_.outputs.size(); ++i)
      output_files_.finish(i, *planned_, planned_->crcs_of(i, crcs));
    output_files_.publish();
    report_.resumed_bytes = resumed_bytes();
    report_.ranks = comm_.size();
    report_.threads = threads_;
    report_.synced = options_.sync;
    report_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    return encode_report(report_);
  }

  void add_share(const Bytes& bytes, PassedBytes& passed) {
    ByteReader in(bytes, "share");
    report_.read_bytes += in.read<std::uint64_t>();
    report_.peak_rss_bytes = std::max(report_.peak_rss_bytes, in.read<std::uint64_t>());
    PassedBytes share;
    share.verified_bytes = in.read<std::uint64_t>();
    share.written = decode_pieces(in.bytes(in.read<std::uint64_t>()));
    share.read = decode_pieces(in.bytes(in.remaining()));
    passed.add(share);
  }

  std::uint64_t resumed_bytes() const {
    const Windows windows = planned_->windows();
    return windows.bytes(WindowRuns(windows.count())) -
           windows.bytes(WindowRuns(windows.count(), plan_.finished));
  }

  // Storages inside objects are copied as they are: what was written must have the CRC of the source.
  void compare_copied_bytes(const std::vector<std::uint32_t>& crcs) {
    for (std::size_t i = 0; i < planned_->contents().size(); ++i) {
      const RecordContent& content = planned_->contents()[i];
      if (content.is_tensor || content.crc == 0) continue;
      if (crcs[i] != content.crc) {
        fail_corrupt(
            "{} at byte {}: {} bytes of a storage inside an object have CRC-32 {:08x}, {:08x} expected",
            escape_name(source_->catalog().files()[content.file]), content.byte_offset, content.bytes,
            crcs[i], content.crc);
      }
      report_.verified_bytes += content.bytes;
    }
  }

  Communicator& comm_;
  FileSystem& files_;
  const ConsolidateOptions& options_;
  const std::chrono::steady_clock::time_point begin_;
  int threads_ = 1;
  SourceAccess source_files_;
  bool gather_ = false;
  std::atomic<std::uint64_t> done_bytes_{0}, total_bytes_{0};  // of this rank

  ConsolidationPlan plan_;
  std::optional<dcp::DirectorySource> source_;
  std::optional<PlannedOutputs> planned_;
  Share share_;

  // the coordinator's
  std::vector<std::string> machines_;
  FileDigest metadata_digest_;
  FaultList faults_;
  dcp::DecodedMetadata metadata_;
  std::vector<OutputRequest> requests_;
  ConsolidateReport report_;
  OutputFiles output_files_;
};

}  // namespace

ConsolidateReport consolidate(Communicator& comm, FileSystem& files, const ConsolidateOptions& options) {
  return Consolidation(comm, files, options).run();
}

}  // namespace cairn
