// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <chrono>
#include <optional>

#include "base/byte_reader.hpp"
#include "base/byte_writer.hpp"
#include "base/fail.hpp"
#include "base/text.hpp"
#include "cairn/checkpoint.hpp"
#include "checkpoint/consolidation_plan.hpp"
#include "checkpoint/destination.hpp"
#include "checkpoint/open_late.hpp"
#include "checkpoint/process_memory.hpp"
#include "engine/transfer.hpp"
#include "formats/dcp/source.hpp"
#include "formats/layouts.hpp"
#include "formats/torch_file/state_pickle.hpp"
#include "parallel/agree.hpp"
#include "pickle/globals.hpp"
#include "storage/atomic_output.hpp"

namespace cairn {
namespace {

constexpr double kVisibilityTimeout_s = 30;
constexpr int kRoot = 0;

// What one rank did; gathered by the coordinator.
struct Share {
  std::uint64_t read_bytes = 0, written_bytes = 0, peak_rss = 0;
  PassedBytes passed;
};

class Consolidation {
 public:
  Consolidation(Communicator& comm, FileSystem& files, const ConsolidateOptions& options)
      : comm_(comm), files_(files), options_(options), begin_(std::chrono::steady_clock::now()) {}

  ConsolidateReport run() {
    on_all_ranks("checking the options", comm_, [&] { choose_threads(); });
    const Bytes message = on_root("preparing", comm_, kRoot, [&] { return prepare(); });
    on_all_ranks("opening the output", comm_, [&] { open(message); });
    on_all_ranks("copying", comm_, [&] { copy(); });
    on_all_ranks("writing out", comm_, [&] { close(); });
    const auto shares = comm_.gather(encode_share(), kRoot);
    const Bytes report = on_root("publishing", comm_, kRoot, [&] { return publish(shares); });
    return decode_report(report);
  }

 private:
  bool is_root() const { return comm_.rank() == kRoot; }

  void choose_threads() {
    const auto room = options_.max_memory / kBufferBytesPerThread;
    if (room == 0) {
      fail(ErrorKind::invalid_argument, "a memory cap of {} bytes is too small: {} expected at least",
           options_.max_memory, kBufferBytesPerThread);
    }
    threads_ = options_.threads > 0 ? options_.threads : default_threads(comm_.ranks_on_node());
    threads_ = static_cast<int>(std::min<std::uint64_t>(static_cast<std::uint64_t>(threads_), room));
  }

  // --- coordinator: everything that can be refused is refused before a tensor byte is read
  // --------------------
  Bytes prepare() {
    const auto located = locate_checkpoint(files_, options_.source);
    plan_.directory = located.path;
    const std::string file =
        choose_destination(files_, plan_.directory, options_.destination, options_.overwrite);
    FaultList faults;
    auto metadata = dcp::read_metadata(files_, plan_.directory, faults);
    faults.throw_if_any(plan_.directory);
    if (!located.note.empty()) report_.warnings.push_back(located.note);
    report_.warnings.insert(report_.warnings.end(), metadata.notes.begin(), metadata.notes.end());
    make_state(std::move(metadata.catalog), metadata.metadata_bytes);
    plan_.archive_name = zip::archive_name(file);
    plan_.pickle_bytes = state_pickle_.size();
    layout_.emplace(plan_.layout());
    prepare_directory(files_, file, layout_->file_size(), options_.overwrite);
    output_.emplace(AtomicOutput::create(files_, file, layout_->file_size(), options_.overwrite));
    plan_.temporary_path = output_->temporary_path();
    return comm_.size() > 1 ? plan_.encode(source_->catalog()) : Bytes();
  }

  void make_state(Catalog catalog, std::uint64_t metadata_bytes) {
    source_.emplace(files_, plan_.directory, std::move(catalog));
    const Catalog& held = source_->catalog();
    pickle::Arena arena;
    std::vector<pickle::Value> objects;
    for (const ObjectInfo& object : held.objects()) {
      objects.push_back(source_->read_object(arena, object));
      warn_if_unsafe(held.name(object), arena, objects.back());
    }
    const auto find_storage = [&](std::uint32_t object, pickle::Value id) {
      return source_->find_storage(arena, id, held.objects()[object]);
    };
    auto state = torch_file::pickle_state(held, arena, objects, metadata_bytes, find_storage);
    const auto tensors = std::ranges::count_if(state.storages, &RecordContent::is_tensor);
    if (static_cast<std::size_t>(tensors) != held.tensors().size()) {
      fail(ErrorKind::mismatch, "{} tensors would be written, {} expected", tensors, held.tensors().size());
    }
    state_pickle_ = std::move(state.pickle);
    plan_.contents = std::move(state.storages);
  }

  void warn_if_unsafe(std::string_view name, const pickle::Arena& arena, pickle::Value value) {
    const auto parts = pickle::unsafe_parts(arena, value);
    if (parts.empty()) return;
    std::string text;
    for (const auto& part : parts) text += (text.empty() ? "" : ", ") + escape_name(part);
    report_.warnings.push_back(fmt::format(
        "'{}' needs {}: the file opens with torch.load(weights_only=False) only", escape_name(name), text));
  }

  // --- all ranks ------------------------------------------------------------------------------------------
  void open(const Bytes& message) {
    if (!is_root()) {
      Catalog catalog;
      plan_ = ConsolidationPlan::decode(message, catalog);
      layout_.emplace(plan_.layout());
      source_.emplace(files_, plan_.directory, std::move(catalog));
    }
    file_ = open_write_late(files_, plan_.temporary_path, kVisibilityTimeout_s);
  }

  void copy() {
    const Windows windows(layout_->region(), kWindowBytes);
    const ByteRange owned = windows.owned(comm_.rank(), comm_.size());
    const std::uint64_t total =
        owned.size() == 0 ? 0 : windows.at(owned.end - 1).end - windows.at(owned.begin).begin;
    TransferOptions transfer_options{threads_, options_.verify_source, {}};
    if (options_.progress) {
      transfer_options.progress = [&](std::uint64_t done) { options_.progress({done, total}); };
    }
    share_.passed = transfer(*source_, *layout_, plan_.contents, windows, owned, *file_, transfer_options);
    share_.written_bytes = total;
    if (options_.progress) options_.progress({total, total});
  }

  void close() {
    if (options_.sync) file_->sync();
    file_->close();
    file_.reset();
    share_.read_bytes = source_->read_bytes();
    share_.peak_rss = peak_rss_bytes();
  }

  Bytes encode_share() const {
    ByteWriter out;
    out.write(share_.read_bytes);
    out.write(share_.written_bytes);
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
    std::vector<CrcPiece> written, read;
    const auto append = [](std::vector<CrcPiece>& to, std::span<const std::byte> encoded) {
      const auto pieces = decode_pieces(encoded);
      to.insert(to.end(), pieces.begin(), pieces.end());
    };
    for (const Bytes& bytes : shares) {
      ByteReader in(bytes, "share");
      report_.read_bytes += in.read<std::uint64_t>();
      report_.written_bytes += in.read<std::uint64_t>();
      report_.peak_rss_bytes = std::max(report_.peak_rss_bytes, in.read<std::uint64_t>());
      report_.verified_bytes += in.read<std::uint64_t>();
      append(written, in.bytes(in.read<std::uint64_t>()));
      append(read, in.bytes(in.remaining()));
    }
    compare_storages(*source_, std::move(read), report_.verified_bytes);
    const auto crcs = record_crcs(std::move(written), plan_.record_bytes());
    write_closing(crcs);
    output_->publish(options_.sync);
    report_.outputs.push_back({output_->final_path(), layout_->file_size(),
                               source_->catalog().tensors().size(), source_->catalog().objects().size()});
    check_published();
    return encode_report();
  }

  void write_closing(const std::vector<std::uint32_t>& crcs) {
    const auto file = files_.open_write(plan_.temporary_path);
    file->write(0, layout_->head(state_pickle_));
    write_split_backs(crcs, *file);
    std::uint64_t at = layout_->region().end;
    layout_->write_tail(state_pickle_, crcs, [&](std::span<const std::byte> bytes) {
      file->write(at, bytes);
      at += bytes.size();
    });
    report_.written_bytes +=
        layout_->file_size() - layout_->region().size();  // the windows held zeros for backs
    if (options_.sync) file->sync();
    file->close();
  }

  // Backs of the records that more than one window holds: those at the windows' ends.
  void write_split_backs(const std::vector<std::uint32_t>& crcs, File& file) const {
    const Windows windows(layout_->region(), kWindowBytes);
    std::optional<std::uint64_t> last;
    for (std::uint64_t i = 0; i + 1 < windows.count(); ++i) {
      const std::uint64_t record = layout_->record_at(windows.at(i).end - 1);
      const ByteRange extent = layout_->extent(record), payload = layout_->payload(record);
      if (record == last || extent.end <= windows.at(i).end) continue;
      last = record;
      Bytes back(extent.end - payload.end);
      layout_->write_back(record, crcs[record], back);
      file.write(payload.end, back);
    }
  }

  // Success must mean that the file is there.
  void check_published() const {
    const auto status = files_.status(report_.outputs.front().path);
    if (status && status->size == layout_->file_size()) return;
    fail(ErrorKind::io, "{}: {} bytes found after publishing, {} expected", report_.outputs.front().path,
         status ? status->size : 0, layout_->file_size());
  }

  Bytes encode_report() const {
    ByteWriter out;
    const auto text = [&](const std::string& value) {
      out.write<std::uint64_t>(value.size());
      out.text(value);
    };
    const OutputReport& output = report_.outputs.front();
    text(output.path);
    for (const std::uint64_t number :
         {output.bytes, output.tensors, output.objects, report_.read_bytes, report_.written_bytes,
          report_.verified_bytes, report_.peak_rss_bytes}) {
      out.write(number);
    }
    out.write<std::int32_t>(threads_);
    out.write(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count());
    for (const auto& warning : report_.warnings) text(warning);
    return out.take();
  }

  ConsolidateReport decode_report(const Bytes& bytes) const {
    ByteReader in(bytes, "report");
    ConsolidateReport report;
    OutputReport output;
    output.path = in.text(in.read<std::uint64_t>());
    for (std::uint64_t* number : {&output.bytes, &output.tensors, &output.objects, &report.read_bytes,
                                  &report.written_bytes, &report.verified_bytes, &report.peak_rss_bytes}) {
      *number = in.read<std::uint64_t>();
    }
    report.outputs.push_back(output);
    report.threads = in.read<std::int32_t>();
    report.seconds = in.read<double>();
    while (!in.at_end()) report.warnings.emplace_back(in.text(in.read<std::uint64_t>()));
    report.ranks = comm_.size();
    report.synced = options_.sync;
    return report;
  }

  Communicator& comm_;
  FileSystem& files_;
  const ConsolidateOptions& options_;
  const std::chrono::steady_clock::time_point begin_;
  int threads_ = 1;

  ConsolidationPlan plan_;
  std::optional<torch_file::Layout> layout_;
  std::optional<dcp::DirectorySource> source_;
  std::unique_ptr<File> file_;
  Share share_;

  // the coordinator's
  Bytes state_pickle_;
  std::optional<AtomicOutput> output_;
  ConsolidateReport report_;
};

}  // namespace

ConsolidateReport consolidate(Communicator& comm, FileSystem& files, const ConsolidateOptions& options) {
  return Consolidation(comm, files, options).run();
}

}  // namespace cairn
