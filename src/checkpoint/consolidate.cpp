// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <bit>
#include <chrono>
#include <optional>

#include "base/byte_reader.hpp"
#include "base/byte_writer.hpp"
#include "base/fail.hpp"
#include "base/text.hpp"
#include "cairn/checkpoint.hpp"
#include "checkpoint/consolidate_report.hpp"
#include "checkpoint/consolidation.hpp"
#include "checkpoint/consolidation_plan.hpp"
#include "checkpoint/destination.hpp"
#include "checkpoint/dry_run.hpp"
#include "checkpoint/journal_reports.hpp"
#include "checkpoint/output_files.hpp"
#include "checkpoint/output_requests.hpp"
#include "checkpoint/planned_outputs.hpp"
#include "checkpoint/process_memory.hpp"
#include "checkpoint/resumption.hpp"
#include "checkpoint/run_source.hpp"
#include "checkpoint/run_watch.hpp"
#include "checkpoint/safetensors_outputs.hpp"
#include "checkpoint/shard_outputs.hpp"
#include "checkpoint/source_access.hpp"
#include "checkpoint/visibility.hpp"
#include "engine/dequant_source.hpp"
#include "engine/storage_crc.hpp"
#include "engine/transfer.hpp"
#include "formats/dcp/bare_source.hpp"
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
  Consolidation(Communicator& comm, FileSystem& files, const ConsolidateOptions& options,
                const RunTarget& target)
      : comm_(comm),
        watch_(comm, files, {options.progress, options.stall_timeout_s, options.stalled}),
        files_(watch_.files()),
        options_(options),
        target_(target),
        begin_(std::chrono::steady_clock::now()),
        source_files_(comm, watch_, target.live != nullptr ? options.max_memory / 2 : options.max_memory) {
    if (target.shards)
      outputs_ = std::make_unique<ShardOutputs>(files_, options_, *target.shards, plan_, report_);
    else if (target.safetensors)
      outputs_ = std::make_unique<SafetensorsOutputs>(files_, options_, *target.safetensors, plan_, report_);
    else
      outputs_ = std::make_unique<OutputFiles>(files_, options_, plan_, report_);
  }

  template <class Body>
  auto guarded(Body body) {
    return watch_.guarded(body);
  }

  ConsolidateReport run() {
    const Bytes message = plan();
    try {
      return work(message);
    } catch (Error& error) {
      if (options_.resume) error.add_hint(settle_failed(error));
      throw;
    }
  }

  DryRunReport run_dry() {
    dry_.emplace();
    outputs_->only_tell(*dry_);
    const Bytes message = plan();
    everywhere("opening the output", [&] { open(message); });
    DryRunRank mine;
    const auto measure = [&] { measure_reading(*source_, *planned_, owned_windows(), threads_, mine); };
    if (gather_)
      source_files_.run("measuring", measure);
    else
      everywhere("measuring", measure);
    const auto ranks = comm_.gather(encode(mine), kRoot);
    on_all_ranks("telling the plan", comm_, [&] {
      if (is_root()) tell_ranks(ranks);
    });
    return std::move(*dry_);
  }

 private:
  // Bytes that are not what their CRC says may have been read by an earlier run, and be in what it wrote: a
  // run that went on with them would fail for ever. Returns a hint.
  std::string_view settle_failed(const Error& error) {
    if (error.kind() != ErrorKind::corrupt)
      return "what is written is kept: the same command goes on, --overwrite without --resume discards it";
    try {
      if (is_root()) outputs_->start_anew();
    } catch (const Error&) {  // the same command, with --overwrite, discards it
    }
    return "what is written is discarded, since it may hold such bytes: the same command begins anew";
  }

  /// What the other ranks need of it.
  Bytes plan() {
    const auto resumes = agree(comm_, options_.resume ? 1 : 2);
    on_all_ranks("checking the options", comm_, [&] {
      if (resumes == 3) fail(ErrorKind::invalid_argument, "some ranks resume, others do not");
      check_options();
    });
    find_source_files();
    watch_.enter(RunPhase::planning);
    if (options_.resume) gather_machines();
    return source_files_.on_coordinator("preparing", [&] { return prepare(); });
  }

  ConsolidateReport work(const Bytes& message) {
    everywhere("opening the output", [&] { open(message); });
    watch_.enter(RunPhase::copying);
    if (gather_)
      source_files_.run("copying", [&] { copy(nullptr); });
    else
      copy_shared();
    watch_.end_copying();
    watch_.enter(RunPhase::syncing);
    everywhere("writing out", [&] { close(); });
    watch_.enter(RunPhase::publishing);
    const auto shares = comm_.gather(encode_share(), kRoot);
    const Bytes report = source_files_.on_coordinator("publishing", [&] { return publish(shares); });
    watch_.enter(RunPhase::leaving);
    return decode_consolidate_report(report);
  }

  void everywhere(std::string_view step, const std::function<void()>& body) {
    on_all_ranks(step, comm_, [&] { watch_.work(body); });
  }

  bool is_root() const { return comm_.rank() == kRoot; }
  bool by_kernel() const { return options_.copy == CopyMode::kernel; }
  bool verify_source() const { return options_.verify_source && !by_kernel(); }

  void check_options() {
    require_path(options_.source);
    require_path(options_.destination);
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
    const bool serves = target_.live != nullptr && target_.live->all_write && comm_.size() > 1;
    const std::uint64_t answer_bytes = serves ? source_files_.answer_bytes() : 0;
    if (options_.max_memory < answer_bytes + bytes_per_thread) {
      fail(ErrorKind::invalid_argument, "a memory cap of {} bytes is too small: {} expected at least",
           options_.max_memory, answer_bytes + bytes_per_thread);
    }
    const auto room = (options_.max_memory - answer_bytes) / bytes_per_thread;
    threads_ = static_cast<int>(std::min<std::uint64_t>(static_cast<std::uint64_t>(threads_), room));
  }

  // --- all ranks: where the source is, and who reads it ----------------------------------------------------
  void find_source_files() {
    if (target_.live != nullptr) return take_up_live();
    const SourceSite site =
        find_source(comm_, watch_, options_.source, target_.sources, options_.whole_iteration);
    const bool shards_only = site.kind == SourceKind::merged && target_.keeps_companion;
    plan_.source_kind = shards_only ? SourceKind::dcp : site.kind;
    plan_.directory = site.directory;
    source_files_.assign(site.directory, {site.metadata});
    source_files_.run("reading the metadata", [&] { read_metadata(site); });
    watch_.enter(RunPhase::looking);
    ShardSearch search{site.directory, options_.write, options_.visibility_timeout_s};
    search.follow_links = follows_links(site.kind);
    search.note = options_.note;
    ShardSites sites = find_shards(comm_, watch_, is_root() ? &run_source_->awaited() : nullptr, search);
    gather_ = sites.gather;
    source_files_.assign(site.directory, gather_ ? std::move(sites.files) : std::vector<GatheredFile>());
    for (const auto& note : {site.note, sites.note}) {
      if (!note.empty()) report_.warnings.push_back(note);
    }
  }

  void take_up_live() {
    plan_.directory = target_.live->directory;
    watch_.enter(RunPhase::looking);
    gather_ = comm_.size() > 1 && !target_.live->all_write;
    if (gather_) source_files_.use_devices(target_.live->devices);
    source_files_.assign(plan_.directory, target_.live->files,
                         gather_ ? SourceAccess::Readers::coordinator : SourceAccess::Readers::all);
    source_files_.run("looking at the destination",
                      [&] { outputs_->choose(source_files_.files(), {}, requests_); });
  }

  void gather_machines() {
    const std::string mine = this_machine();
    for (const Bytes& machine : comm_.gather(as_bytes(mine), kRoot)) machines_.emplace_back(as_text(machine));
    std::ranges::sort(machines_);
    const auto repeated = std::ranges::unique(machines_);
    machines_.erase(repeated.begin(), repeated.end());
  }

  // --- coordinator: everything that can be refused is refused before a tensor byte is read ----------------
  void read_metadata(const SourceSite& site) {
    const bool drops_empty = target_.shards || target_.safetensors;
    const SourceReading reading{drops_empty ? torch_file::EmptyDicts::drop : torch_file::EmptyDicts::keep,
                                options_.fabric ? MergeRule::lightning_stored : MergeRule::lightning_trainer,
                                !target_.keeps_companion, options_.resume};
    run_source_.emplace(site, reading);
    if (options_.destination.empty()) options_.destination = default_destination(files_, site);
    outputs_->choose(source_files_.files(), run_source_->place(), requests_);
    run_source_->read_metadata(source_files_.files(), files_);
  }

  void open_source(FileSystem& files) {
    if (target_.live != nullptr)
      source_ = std::make_unique<dcp::BareSource>(files, plan_.directory, std::move(target_.live->catalog));
    else
      source_ = run_source_->open(files);
    if (!options_.dequant) return;
    if (by_kernel())
      fail(ErrorKind::invalid_argument, "the kernel copies bytes as they are: dequant goes with --copy user");
    dequantize();
    report_.warnings.push_back(fmt::format(
        "{} tensors of 8-bit floats become bfloat16; their scales are not written", scales_.size()));
  }

  void dequantize() {
    auto made = std::make_unique<DequantSource>(std::move(source_), options_.verify_source);
    scales_ = made->companions();
    source_ = std::move(made);
  }

  std::uint64_t metadata_bytes() const {
    return target_.live != nullptr ? target_.live->metadata_bytes : run_source_->metadata_bytes();
  }

  Bytes prepare() {
    if (gather_) check_gather();
    FileSystem& files = source_files_.files();
    open_source(files);
    if (run_source_) {
      const auto& notes = run_source_->notes();
      report_.warnings.insert(report_.warnings.end(), notes.begin(), notes.end());
    }
    outputs_->plan_all(requests_, *source_, metadata_bytes());
    for (const std::string& name : scales_)
      report_.skipped.push_back(
          fmt::format("'{}': the scales of a tensor that is written as bfloat16", escape_name(name)));
    planned_.emplace(plan_, source_->catalog());
    outputs_->create(files, *planned_, run_source_ ? run_source_->digest() : FileDigest(), machines_);
    return comm_.size() > 1 && !gather_ ? plan_.encode(source_->encode()) : Bytes();
  }

  // --- all ranks ------------------------------------------------------------------------------------------
  void open(const Bytes& message) {
    if (gather_ && !is_root()) return;
    if (gather_ && options_.threads == 0) threads_ = std::max(threads_, kGatheringThreads);
    if (!is_root()) {
      std::span<const std::byte> source;
      plan_ = ConsolidationPlan::decode(message, source);
      if (target_.live != nullptr)
        source_ = std::make_unique<dcp::BareSource>(source_files_.files(), plan_.directory,
                                                    Catalog::decode(source));
      else
        source_ = decode_source(files_, plan_.source_kind, plan_.directory, source);
      if (options_.dequant) dequantize();
      planned_.emplace(plan_, source_->catalog());
    }
    fit_threads(kBufferBytesPerThread + planned_->writer_bytes() +
                (options_.dequant ? kDequantBytesPerThread : 0));
    if (!plan_.is_complete && !dry_) planned_->open(files_, options_.visibility_timeout_s, options_.sync);
  }

  ByteRange owned_windows() const { return planned_->owned_windows(comm_.rank(), writing_ranks()); }
  int writing_ranks() const { return gather_ ? 1 : comm_.size(); }

  void copy_shared() {
    if (target_.live != nullptr) return source_files_.run_on_all("copying", [&] { transfer_windows({}); });
    if (!options_.resume) return everywhere("copying", [&] { transfer_windows({}); });
    const auto for_journal = comm_.size() > 1 ? comm_.duplicate() : nullptr;
    on_all_ranks("copying", comm_, [&] { copy(for_journal.get()); });
  }

  // `comm` is for reports to the journal, where other ranks write too.
  void copy(Communicator* comm) {
    if (plan_.is_complete) return;
    if (!options_.resume) return transfer_windows({});
    const auto sync = [this] {
      if (gather_) return planned_->sync();  // the thread of the run serves the others
      watch_.work([this] { planned_->sync(); });
    };
    JournalReports reports({comm, outputs_->journal(), options_.sync ? sync : std::function<void()>(),
                            std::chrono::duration<double>(options_.journal_interval_s)});
    const auto report = [&] { reports.poll(); };
    if (gather_ || !watch_.works_apart())
      return reports.run([&] { transfer_windows({&reports.log(), report}); });
    // messages are for this thread
    reports.run([&] { watch_.work([&] { transfer_windows({&reports.log(), {}}); }, report); });
  }

  struct Journalled {
    WindowLog* log = nullptr;
    std::function<void()> report{};  // now and then
  };

  void transfer_windows(const Journalled& journalled) {
    const Windows windows = planned_->windows();
    const WindowRuns left(windows.count(), plan_.finished);
    const WindowRuns owned = gather_ ? left : left.share(comm_.rank(), comm_.size());
    watch_.begin_copying(windows.bytes(owned), windows.bytes(left));
    TransferOptions transfer_options{
        threads_, verify_source(), by_kernel() ? &planned_->file(0) : nullptr, {}};
    transfer_options.progress = [&](std::uint64_t done) {
      watch_.moved(done);
      if (journalled.report) journalled.report();
    };
    transfer_options.log = journalled.log;
    if (journalled.log != nullptr) {
      const std::chrono::duration<double> interval(options_.journal_interval_s);
      transfer_options.progress_interval = std::min(transfer_options.progress_interval,
                                                    std::chrono::ceil<std::chrono::milliseconds>(interval));
    }
    share_.passed = transfer(*source_, planned_->window_layout(), planned_->contents(), windows, owned,
                             planned_->make_writer(), transfer_options);
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

  // --- coordinator: a dry run -----------------------------------------------------------------------------
  void tell_ranks(const std::vector<Bytes>& measured) {
    dry_->gather = gather_;
    dry_->skipped = std::move(report_.skipped);
    dry_->warnings = std::move(report_.warnings);
    dry_->files = dry_run_files(source_->catalog(), dry_->outputs, source_files_.gathered());
    dry_->ranks = dry_run_ranks(measured, *planned_, writing_ranks(), dry_->files);
  }

  // --- coordinator: the closing phase ---------------------------------------------------------------------
  Bytes publish(const std::vector<Bytes>& shares) {
    PassedBytes passed = outputs_->passed_before();
    for (const Bytes& bytes : shares) add_share(bytes, passed);
    report_.verified_bytes = passed.verified_bytes;
    compare_storages(*source_, std::move(passed.read), report_.verified_bytes);
    const auto crcs = record_crcs(std::move(passed.written), planned_->crc_bytes());
    if (verify_source()) compare_copied_bytes(crcs);
    outputs_->finish(*planned_, crcs);
    outputs_->publish();
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
            source_->file_text(content.file), content.byte_offset, content.bytes, crcs[i], content.crc);
      }
      report_.verified_bytes += content.bytes;
    }
  }

  Communicator& comm_;
  RunWatch watch_;  // before all that it watches
  FileSystem& files_;
  ConsolidateOptions options_;  // the coordinator may choose the destination
  const RunTarget& target_;
  const std::chrono::steady_clock::time_point begin_;
  int threads_ = 1;
  SourceAccess source_files_;
  bool gather_ = false;

  ConsolidationPlan plan_;
  std::unique_ptr<CheckpointSource> source_;
  std::vector<std::string> scales_;  // companions that dequant leaves out
  std::optional<PlannedOutputs> planned_;
  Share share_;

  // the coordinator's
  std::vector<std::string> machines_;
  std::optional<RunSource> run_source_;  // but for a live state
  std::vector<OutputRequest> requests_;
  ConsolidateReport report_;
  std::unique_ptr<RunOutputs> outputs_;
  std::optional<DryRunReport> dry_;  // on all ranks: nothing is to be made
};

}  // namespace

ConsolidateReport run_consolidation(Communicator& comm, FileSystem& files, const ConsolidateOptions& options,
                                    const RunTarget& target) {
  Consolidation consolidation(comm, files, options, target);
  return consolidation.guarded([&] { return consolidation.run(); });
}

ConsolidateReport consolidate(Communicator& comm, FileSystem& files, const ConsolidateOptions& options) {
  return run_consolidation(comm, files, options, {});
}

DryRunReport run_dry(Communicator& comm, FileSystem& files, const ConsolidateOptions& options,
                     const RunTarget& target) {
  Consolidation consolidation(comm, files, options, target);
  return consolidation.guarded([&] { return consolidation.run_dry(); });
}

DryRunReport dry_run_consolidate(Communicator& comm, FileSystem& files, const ConsolidateOptions& options) {
  return run_dry(comm, files, options, {});
}

double DryRunReport::seconds() const {
  double longest = 0;
  for (const DryRunRank& rank : ranks) longest = std::max(longest, rank.predicted_s);
  return longest;
}

}  // namespace cairn
