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
#include "checkpoint/consolidated_state.hpp"
#include "checkpoint/consolidation_plan.hpp"
#include "checkpoint/destination.hpp"
#include "checkpoint/open_late.hpp"
#include "checkpoint/process_memory.hpp"
#include "checkpoint/small_file.hpp"
#include "engine/kernel_copy.hpp"
#include "engine/storage_crc.hpp"
#include "engine/transfer.hpp"
#include "formats/dcp/source.hpp"
#include "formats/layouts.hpp"
#include "parallel/agree.hpp"
#include "storage/atomic_outputs.hpp"

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
    on_all_ranks("checking the options", comm_, [&] { check_options(); });
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

  bool by_kernel() const { return options_.copy == CopyMode::kernel; }
  bool verify_source() const { return options_.verify_source && !by_kernel(); }

  void check_options() {
    if (!std::has_single_bit(options_.alignment) || options_.alignment < 64 || options_.alignment > 32768) {
      fail(ErrorKind::invalid_argument, "an alignment of {}: a power of two from 64 to 32768 is needed",
           options_.alignment);
    }
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
    source_.emplace(files_, plan_.directory, std::move(metadata.catalog));
    state_ = consolidate_state(*source_, options_, file, metadata.metadata_bytes);
    report_.warnings.insert(report_.warnings.end(), state_.warnings.begin(), state_.warnings.end());
    report_.skipped = std::move(state_.skipped);
    plan_.archive_name = zip::archive_name(file);
    plan_.alignment = options_.alignment;
    plan_.pickle_bytes = state_.main.pickle.size();
    plan_.contents = std::move(state_.main.storages);
    layout_.emplace(plan_.layout());
    create_outputs(file);
    plan_.temporary_path = (*outputs_)[0].temporary_path();
    return comm_.size() > 1 ? plan_.encode(source_->catalog()) : Bytes();
  }

  void create_outputs(const std::string& file) {
    std::vector<AtomicOutputs::Wanted> wanted{{file, layout_->file_size()}};
    const std::string objects_file = objects_path_for(file);
    if (state_.unsafe_objects) {
      check_output(files_, plan_.directory, objects_file, options_.overwrite);
      const FileState& objects = *state_.unsafe_objects;
      std::vector<std::uint64_t> sizes;
      for (const RecordContent& content : objects.storages) sizes.push_back(content.bytes);
      objects_layout_.emplace(zip::archive_name(objects_file), objects.pickle.size(), std::move(sizes),
                              options_.alignment);
      wanted.push_back({objects_file, objects_layout_->file_size()});
    } else if (options_.objects == ObjectPolicy::safe && files_.status(objects_file)) {
      report_.warnings.push_back(
          fmt::format("{}: left as it is; no object of this checkpoint needs it", escape_name(objects_file)));
    }
    std::uint64_t bytes = 0;  // of this output and those that follow
    for (std::size_t i = wanted.size(); i-- > 0;) {
      bytes += wanted[i].size;
      prepare_directory(files_, wanted[i].path, bytes, options_.overwrite);
    }
    outputs_.emplace(AtomicOutputs::create(files_, wanted, options_.overwrite));
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
    TransferOptions transfer_options{threads_, verify_source(), by_kernel() ? file_.get() : nullptr, {}};
    if (options_.progress) {
      transfer_options.progress = [&](std::uint64_t done) { options_.progress({done, total}); };
    }
    const auto make_writer = [this] { return std::make_unique<FileWriter>(*file_); };
    share_.passed =
        transfer(*source_, *layout_, plan_.contents, windows, owned, make_writer, transfer_options);
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
    if (verify_source()) compare_copied_bytes(crcs);
    write_closing(crcs);
    report_output(0, layout_->file_size(), state_.main);
    if (state_.unsafe_objects) write_objects();
    outputs_->publish(options_.sync);
    std::ranges::for_each(report_.outputs, [this](const OutputReport& output) { check_published(output); });
    return encode_report();
  }

  void report_output(std::size_t index, std::uint64_t bytes, const FileState& state) {
    report_.outputs.push_back({(*outputs_)[index].final_path(), bytes, state.tensors, state.objects});
  }

  void write_objects() {
    const auto& objects = *state_.unsafe_objects;
    const auto read_before = source_->read_bytes();
    const auto file = files_.open_write((*outputs_)[1].temporary_path());
    write_small_file(*file, *objects_layout_, objects.pickle, objects.storages, *source_);
    if (options_.sync) file->sync();
    file->close();
    report_.read_bytes += source_->read_bytes() - read_before;
    report_.written_bytes += objects_layout_->file_size();
    report_output(1, objects_layout_->file_size(), objects);
  }

  void write_closing(const std::vector<std::uint32_t>& crcs) {
    const auto file = files_.open_write(plan_.temporary_path);
    file->write(0, layout_->head(state_.main.pickle));
    write_split_backs(crcs, *file);
    std::uint64_t at = layout_->region().end;
    layout_->write_tail(state_.main.pickle, crcs, [&](std::span<const std::byte> bytes) {
      file->write(at, bytes);
      at += bytes.size();
    });
    report_.written_bytes +=
        layout_->file_size() - layout_->region().size();  // the windows held zeros for backs
    if (options_.sync) file->sync();
    file->close();
  }

  // Backs of the records that more than one window holds, those at the windows' ends, and of those whose
  // payload the kernel copied.
  void write_split_backs(const std::vector<std::uint32_t>& crcs, File& file) const {
    const Windows windows(layout_->region(), kWindowBytes);
    std::vector<std::uint64_t> records;
    for (std::uint64_t i = 0; i + 1 < windows.count(); ++i) {
      const std::uint64_t record = layout_->record_at(windows.at(i).end - 1);
      if (layout_->extent(record).end > windows.at(i).end) records.push_back(record);
    }
    for (std::uint64_t record = 0; by_kernel() && record < plan_.contents.size(); ++record) {
      if (is_for_kernel(plan_.contents[record])) records.push_back(record);
    }
    std::ranges::sort(records);
    const auto repeated = std::ranges::unique(records);
    records.erase(repeated.begin(), repeated.end());
    for (const std::uint64_t record : records) write_back(record, crcs[record], file);
  }

  void write_back(std::uint64_t record, std::uint32_t crc, File& file) const {
    const ByteRange extent = layout_->extent(record), payload = layout_->payload(record);
    Bytes back(extent.end - payload.end);
    layout_->write_back(record, crc, back);
    file.write(payload.end, back);
  }

  // Storages inside objects are copied as they are: what was written must have the CRC of the source.
  void compare_copied_bytes(const std::vector<std::uint32_t>& crcs) {
    for (std::size_t i = 0; i < crcs.size(); ++i) {
      const RecordContent& content = plan_.contents[i];
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

  // Success must mean that the file is there.
  void check_published(const OutputReport& output) const {
    const auto status = files_.status(output.path);
    if (status && status->size == output.bytes) return;
    fail(ErrorKind::io, "{}: {} bytes found after publishing, {} expected", output.path,
         status ? status->size : 0, output.bytes);
  }

  Bytes encode_report() const {
    ByteWriter out;
    const auto text = [&](const std::string& value) {
      out.write<std::uint64_t>(value.size());
      out.text(value);
    };
    const auto texts = [&](const std::vector<std::string>& values) {
      out.write<std::uint64_t>(values.size());
      std::ranges::for_each(values, text);
    };
    out.write<std::uint64_t>(report_.outputs.size());
    for (const auto& [path, bytes, tensors, objects] : report_.outputs) {
      text(path);
      for (const std::uint64_t number : {bytes, tensors, objects}) out.write(number);
    }
    for (const std::uint64_t number :
         {report_.read_bytes, report_.written_bytes, report_.verified_bytes, report_.peak_rss_bytes}) {
      out.write(number);
    }
    out.write<std::int32_t>(threads_);
    out.write(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count());
    texts(report_.skipped);
    texts(report_.warnings);
    return out.take();
  }

  ConsolidateReport decode_report(const Bytes& bytes) const {
    ByteReader in(bytes, "report");
    ConsolidateReport report;
    const auto text = [&] { return std::string(in.text(in.read<std::uint64_t>())); };
    const auto texts = [&] {
      std::vector<std::string> values;
      for (auto left = in.read<std::uint64_t>(); left > 0; --left) values.push_back(text());
      return values;
    };
    for (auto left = in.read<std::uint64_t>(); left > 0; --left) {
      OutputReport output{text(), 0, 0, 0};
      for (std::uint64_t* number : {&output.bytes, &output.tensors, &output.objects})
        *number = in.read<std::uint64_t>();
      report.outputs.push_back(std::move(output));
    }
    for (std::uint64_t* number :
         {&report.read_bytes, &report.written_bytes, &report.verified_bytes, &report.peak_rss_bytes}) {
      *number = in.read<std::uint64_t>();
    }
    report.threads = in.read<std::int32_t>();
    report.seconds = in.read<double>();
    report.skipped = texts();
    report.warnings = texts();
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
  ConsolidatedState state_;
  std::optional<torch_file::Layout> objects_layout_;
  std::optional<AtomicOutputs> outputs_;
  ConsolidateReport report_;
};

}  // namespace

ConsolidateReport consolidate(Communicator& comm, FileSystem& files, const ConsolidateOptions& options) {
  return Consolidation(comm, files, options).run();
}

}  // namespace cairn
