// SPDX-License-Identifier: BSD-3-Clause
#include "cairn/load.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/byte_reader.hpp"
#include "base/byte_writer.hpp"
#include "base/fail.hpp"
#include "base/workers.hpp"
#include "checkpoint/load_entries.hpp"
#include "checkpoint/load_joint.hpp"
#include "checkpoint/load_sharing.hpp"
#include "checkpoint/load_source.hpp"
#include "checkpoint/object_parts.hpp"
#include "checkpoint/open_late.hpp"
#include "checkpoint/process_memory.hpp"
#include "checkpoint/run_watch.hpp"
#include "checkpoint/whole_state.hpp"
#include "engine/load_run.hpp"
#include "engine/parcel_exchange.hpp"
#include "engine/storage_check.hpp"
#include "engine/transfer.hpp"
#include "formats/dcp/item.hpp"
#include "parallel/agree.hpp"
#include "parallel/attention.hpp"
#include "parallel/polling.hpp"
#include "pickle/plain_object.hpp"

namespace cairn {
namespace {

constexpr int kRoot = 0;
constexpr std::chrono::milliseconds kExchangeInterval(1), kIdleInterval(250);

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void write_texts(ByteWriter& out, const std::vector<std::string>& texts) {
  out.write<std::uint64_t>(texts.size());
  for (const std::string& text : texts) out.counted_text(text);
}

std::vector<std::string> read_texts(ByteReader& in) {
  std::vector<std::string> texts;
  for (auto count = in.read<std::uint64_t>(); count > 0; --count) texts.emplace_back(in.counted_text());
  return texts;
}

// What has to be the same on all ranks.
Bytes encode(const std::string& path, const LoadOptions& options) {
  ByteWriter out;
  out.counted_text(path);
  out.write(std::uint8_t{options.plan.strict});
  for (const auto* globs : {&options.plan.allow_missing, &options.plan.allow_unexpected, &options.plan.cast})
    write_texts(out, *globs);
  out.write(std::uint8_t{options.verify});
  out.write(static_cast<std::uint8_t>(options.read_once));
  out.write(static_cast<std::uint8_t>(options.rank_entries));
  return out.take();
}

Object object_of(std::span<const std::byte> item, std::string where) {
  const zip::ReadAt read_at = [item](std::uint64_t at, std::span<std::byte> into) {
    std::ranges::copy(item.subspan(at, into.size()), into.begin());
  };
  pickle::Arena arena;
  const auto value = dcp::ObjectItem(read_at, item.size(), std::move(where)).read(arena);
  auto object = pickle::to_object(arena, value, item.size());
  return object ? std::move(*object) : Object(Object::Stored{{item.begin(), item.end()}});
}

class Load {
 public:
  Load(Communicator& comm, FileSystem& files, const std::string& path, const LoadOptions& options)
      : comm_(comm),
        watch_(comm, files, {{}, options.stall_timeout_s, options.stalled, true}),
        files_(watch_.files()),
        timeout_s_(comm.size() > 1 ? options.visibility_timeout_s : 0),
        shards_(files_, timeout_s_),
        path_(path),
        options_(options) {}

  template <class Body>
  auto guarded(Body body) {
    return watch_.guarded(body);
  }

  /// Collective. After it the catalogue is there.
  void open() {
    Bytes common = is_root() ? encode(path_, options_) : Bytes();
    comm_.broadcast(common, kRoot);
    on_all_ranks("checking the options", comm_, [&] { check_options(common); });
    const Bytes message = on_first("reading the metadata", [&] {
      OpenedSource opened = open_load_source(files_, shards_, path_, timeout_s_);
      source_ = std::move(opened.source);
      pin_ = std::move(opened.pin);
      report_.warnings = std::move(opened.notes);
      return comm_.size() > 1 ? source_->encode() : Bytes();
    });
    on_each("reading the metadata", [&] {
      if (!is_root()) source_ = decode_load_source(shards_, message);
    });
  }

  const Catalog& catalog() const { return source_->chunks().catalog(); }

  /// Collective. Fills the state. With `everything` its names are the checkpoint's, whatever they say of
  /// ranks.
  LoadReport fill(LiveState& state, bool everything) {
    decide(state, everything);
    share(state);
    join();
    report_.plan_s = seconds_since(begin_);
    read_objects(state.description());
    LoadReport report = fill_tensors(state);
    for (auto& [entry, object] : objects_) state.set_object(entry, std::move(object));
    return report;
  }

 private:
  bool is_root() const { return comm_.rank() == kRoot; }

  // Collective; what runs in it talks to no rank.
  template <class Body>
  void on_each(std::string_view step, Body body) {
    on_all_ranks(step, comm_, [&] { watch_.work(body); });
  }
  template <class Body>
  Bytes on_first(std::string_view step, Body body) {
    return on_root(step, comm_, kRoot, [&] {
      Bytes made;
      watch_.work([&] { made = body(); });
      return made;
    });
  }

  void check_options(const Bytes& common) {
    if (encode(path_, options_) != common)
      fail(ErrorKind::invalid_argument, "path and options of a load differ between ranks");
    require_path(path_);
    if (options_.device_link != nullptr && options_.device_link->size() != comm_.size()) {
      fail(ErrorKind::invalid_argument, "a link of {} devices for a load on {} ranks",
           options_.device_link->size(), comm_.size());
    }
    threads_ = options_.threads > 0 ? options_.threads : default_threads(comm_.ranks_on_node());
    std::uint64_t exchange = 0;
    if (comm_.size() > 1 && options_.read_once != ReadOnce::off) {
      exchange = 2 * kParcelsInFlight * kLoadPieceBytes;
      if (comm_.ranks_on_node() > 1) exchange += JointReads::shared_bytes(comm_.ranks_on_node());
    }
    if (options_.max_memory < exchange + kLoadBytesPerThread) {
      fail(ErrorKind::invalid_argument, "a memory cap of {} bytes is too small: {} expected at least",
           options_.max_memory, exchange + kLoadBytesPerThread);
    }
    const auto room = (options_.max_memory - exchange) / kLoadBytesPerThread;
    threads_ = static_cast<int>(std::min<std::uint64_t>(static_cast<std::uint64_t>(threads_), room));
  }

  // --- who reads what
  // ---------------------------------------------------------------------------------------
  void decide(const LiveState& state, bool everything) {
    RankFindings mine;
    on_each("planning", [&] {
      if (state.description().rank() != comm_.rank()) {
        fail(ErrorKind::invalid_argument, "a state made for rank {} on rank {}", state.description().rank(),
             comm_.rank());
      }
      plan_ = plan_load(catalog(), state.description(), options_.plan);
      mine = find_out(catalog(), state.description(), plan_);
      if (everything) mine.rank_entry_kinds.clear();
    });
    const auto findings = comm_.gather(mine.encode(), kRoot);
    const Bytes decided = on_first("comparing state and checkpoint", [&] {
      std::vector<RankFindings> ranks;
      for (const Bytes& one : findings) ranks.push_back(RankFindings::decode(one));
      return decide_together(std::move(ranks)).encode();
    });
    on_each("comparing state and checkpoint", [&] {
      decision_ = LoadDecision::decode(decided);
      select_items();
    });
  }

  LoadDecision decide_together(std::vector<RankFindings> ranks) const {
    try {
      return decide_load(catalog(), std::move(ranks), options_, source_->has_objects_everywhere());
    } catch (Error& error) {
      error.add_context(path_);
      throw;
    }
  }

  // Without what belonged to single ranks and is dropped.
  void select_items() {
    std::vector<bool> tensor_dropped(catalog().tensors().size()), object_dropped(catalog().objects().size());
    for (std::size_t i = 0; i < decision_.is_dropped.size(); ++i) {
      const Entry& entry = catalog().entries()[i];
      (entry.is_tensor ? tensor_dropped : object_dropped)[entry.index] = decision_.is_dropped[i];
    }
    for (const ReadItem& item : plan_.items()) {
      if (!tensor_dropped[item.tensor]) items_.push_back(item);
    }
    for (const ObjectRead& read : plan_.objects()) {
      if (!object_dropped[read.object]) object_reads_.push_back(read);
    }
  }

  // What several ranks want alike is read by one of them.
  void share(const LiveState& state) {
    if (comm_.size() == 1 || options_.read_once == ReadOnce::off) return;
    Bytes mine;
    on_each("planning", [&] { mine = encode_wanted_boxes(state, items_, options_.device_link); });
    const auto wanted = comm_.gather(mine, kRoot);
    const Bytes shared =
        on_first("planning", [&] { return encode(find_shared_boxes(wanted, options_.read_once)); });
    if (shared.empty()) return;
    exchange_comm_ = comm_.duplicate();
    on_all_ranks("planning", comm_, [&] {
      shared_.emplace(state, items_, decode_groups(shared));
      exchange_.emplace(*exchange_comm_, shared_->take_parcels());
      LoadPlanOptions options = options_.plan;
      options.strict = false;
      plan_ = plan_load(catalog(), shared_->wanted(), options);
      items_.assign(plan_.items().begin(), plan_.items().end());
    });
  }

  // What ranks of a node want in pieces of the same chunks is read by one of them.
  void join() {
    if (comm_.size() == 1 || options_.read_once == ReadOnce::off) return;
    Bytes mine;
    on_each("planning", [&] { mine = encode_scattered_items(source_->chunks(), plan_, items_); });
    if (agree(comm_, mine.empty() ? 0 : 1) == 0) return;
    node_ = comm_.on_node();
    const auto told = node_->gather(mine, kRoot);
    Bytes joint;
    on_all_ranks("planning", comm_, [&] {
      joint = on_root("planning", *node_, kRoot,
                      [&] { return encode(find_joint_chunks(catalog(), told, options_.read_once)); });
    });
    if (!joint.empty()) shared_memory_ = node_->share_memory(JointReads::shared_bytes(node_->size()));
    on_each("planning", [&] {
      if (!shared_memory_) return;
      auto chunks = decode_joint_chunks(catalog(), joint);
      auto parts = find_own_parts(source_->chunks(), plan_, items_, chunks);
      joint_.emplace(shared_memory_->bytes(), catalog(), std::move(chunks), std::move(parts));
    });
  }

  // --- objects
  // ----------------------------------------------------------------------------------------------
  void read_objects(const RankState& state) {
    const Bytes common = on_first("reading the objects", [&] {
      ByteWriter out;
      for (const std::uint32_t object : decision_.common_objects)
        out.counted_text(as_text(source_->object_item(catalog().objects()[object])));
      return out.take();
    });
    on_each("reading the objects", [&] {
      ByteReader in(common, "objects");
      std::vector<std::span<const std::byte>> items(catalog().objects().size());
      for (const std::uint32_t object : decision_.common_objects) items[object] = as_bytes(in.counted_text());
      std::optional<std::uint32_t> decoded;  // reads of one object follow each other
      Object whole;
      ObjectParts parts(state, options_.plan);
      for (const ObjectRead& read : object_reads_) {
        if (decoded != read.object) {
          const ObjectInfo& info = catalog().objects()[read.object];
          const Bytes own = items[read.object].empty() ? source_->object_item(info) : Bytes();
          whole = object_of(own.empty() ? items[read.object] : own, source_->describe(info));
          decoded = read.object;
        }
        if (const Object* part = parts.find(whole, read)) objects_.emplace_back(read.entry, *part);
      }
      missing_parts_ = parts.take_missing(path_);
    });
  }

  // --- tensors
  // ----------------------------------------------------------------------------------------------
  LoadReport fill_tensors(LiveState& state) {
    watch_.enter(RunPhase::reading);
    try {
      read_tensors(state);
      return finish();
    } catch (Error& error) {
      error.add_hint("tensors may hold a part of the new values");
      throw;
    }
  }

  // Whatever happens in reading, the other ranks get their messages and stop waiting for this one.
  void read_tensors(LiveState& state) {
    on_all_ranks("reading", comm_, [&] {
      std::exception_ptr failure;
      try {
        if (shared_)
          read_for_others();
        else
          run(state.description(),
              [&](std::uint32_t entry, std::uint32_t box) -> const TensorView& {
                return state.view(entry, box);
              },
              {});
      } catch (...) {
        failure = std::current_exception();
        if (joint_) joint_->give_up();
        if (exchange_) exchange_->give_up();
      }
      if (exchange_) exchange_->finish();
      if (failure) std::rethrow_exception(failure);
    });
    if (!exchange_) return;
    on_all_ranks("exchanging what was read", comm_, [&] { exchange_->throw_if_failed(); });
    on_all_ranks("exchanging what was read", comm_, [&] { exchange_->throw_if_lost(); });
    send_between_devices();
  }

  // All ranks have what they read: none waits in it for files.
  void send_between_devices() {
    const auto& pieces = shared_->device_pieces();
    if (agree(comm_, pieces.empty() ? 0 : 1) == 0) return;
    options_.device_link->broadcast(pieces);
    for (const DeviceLink::Piece& piece : pieces) {
      if (piece.root != comm_.rank()) device_received_bytes_ += piece.byte_count;
    }
  }

  void read_for_others() {
    std::vector<std::atomic<std::size_t>> left(exchange_->parcels().size());
    for (std::size_t i = 0; i < left.size(); ++i) left[i] = shared_->boxes_of(i);
    const auto done = [&](std::uint32_t entry, std::uint32_t box) {
      const auto parcel = shared_->parcel_of(entry, box);
      if (parcel && --left[*parcel] == 0) exchange_->complete(*parcel);
    };
    run(
        shared_->wanted(),
        [&](std::uint32_t entry, std::uint32_t box) -> const TensorView& {
          return shared_->view(entry, box);
        },
        done);
    if (joint_ && joint_->is_lost()) exchange_->give_up();  // who failed says why
  }

  void run(const RankState& wanted, LoadRun::Views views,
           std::function<void(std::uint32_t, std::uint32_t)> box_done) {
    LoadRun job(source_->chunks(), plan_, items_, wanted, std::move(views),
                {options_.verify, std::move(box_done), joint_ ? &*joint_ : nullptr});
    const AtWork at_work;
    const auto poll = [this] {
      while (exchange_ && exchange_->advance()) {
      }
      attend();
    };
    run_workers(
        threads_, [&job](const std::atomic<bool>& stop) { job.work(stop); }, poll,
        exchange_ ? kExchangeInterval : kIdleInterval);
    check_ = job.take_check();
    check_.compare(catalog());
  }

  // --- the end
  // ----------------------------------------------------------------------------------------------
  LoadReport finish() {
    ByteWriter out;
    on_all_ranks("comparing checksums", comm_, [&] {
      out.write(source_->chunks().read_bytes());
      out.write((exchange_ ? exchange_->received_bytes() : 0) + device_received_bytes_);
      out.write(device_received_bytes_);
      out.write(peak_rss_bytes());
      write_texts(out, missing_parts_);
      out.append(check_.encode());
    });
    const auto shares = comm_.gather(out.view(), kRoot);
    const Bytes message = on_root("comparing checksums", comm_, kRoot, [&] { return sum_up(shares); });
    return decode_report(message);
  }

  Bytes sum_up(const std::vector<Bytes>& shares) {
    StorageCheck check;
    for (const Bytes& share : shares) {
      ByteReader in(share, "share of a load");
      report_.read_bytes += in.read<std::uint64_t>();
      report_.received_bytes += in.read<std::uint64_t>();
      report_.device_received_bytes += in.read<std::uint64_t>();
      report_.peak_rss_bytes = std::max(report_.peak_rss_bytes, in.read<std::uint64_t>());
      const auto missing = read_texts(in);
      report_.missing.insert(report_.missing.end(), missing.begin(), missing.end());
      check.add(StorageCheck::decode(in.bytes(in.remaining())));
    }
    check.compare(catalog());
    report_.verified_bytes = check.verified_bytes();
    report_.warnings.insert(report_.warnings.end(), decision_.warnings.begin(), decision_.warnings.end());
    ByteWriter out;
    for (const std::uint64_t number :
         {report_.read_bytes, report_.received_bytes, report_.device_received_bytes, report_.verified_bytes,
          report_.peak_rss_bytes})
      out.write(number);
    out.write(report_.plan_s);
    out.write(seconds_since(begin_));
    write_texts(out, report_.warnings);
    write_texts(out, report_.missing);
    return out.take();
  }

  LoadReport decode_report(const Bytes& message) const {
    ByteReader in(message, "report of a load");
    LoadReport report;
    for (std::uint64_t* number : {&report.read_bytes, &report.received_bytes, &report.device_received_bytes,
                                  &report.verified_bytes, &report.peak_rss_bytes})
      *number = in.read<std::uint64_t>();
    report.plan_s = in.read<double>();
    report.seconds = in.read<double>();
    report.warnings = read_texts(in);
    report.missing = read_texts(in);
    report.missing.insert(report.missing.end(), decision_.missing.begin(), decision_.missing.end());
    std::ranges::sort(report.missing);
    const auto repeated = std::ranges::unique(report.missing);
    report.missing.erase(repeated.begin(), repeated.end());
    report.unexpected = decision_.unexpected;
    report.dropped = decision_.dropped;
    return report;
  }

  const Clock::time_point begin_ = Clock::now();
  Communicator& comm_;
  RunWatch watch_;  // before all that it watches
  FileSystem& files_;
  const double timeout_s_;  // a world of one does not wait
  LateFileSystem shards_;
  const std::string& path_;
  const LoadOptions& options_;
  int threads_ = 1;
  std::unique_ptr<LoadSource> source_;
  ReadPin pin_;        // rank 0's
  LoadReport report_;  // rank 0's
  LoadDecision decision_;
  LoadPlan plan_;
  std::vector<ReadItem> items_;  // of plan_
  std::vector<ObjectRead> object_reads_;
  std::vector<std::pair<std::uint32_t, Object>> objects_;  // read, by entry of the state
  std::vector<std::string> missing_parts_;                 // of objects; tolerated
  std::unique_ptr<Communicator> exchange_comm_;
  std::optional<SharedLoad> shared_;
  std::optional<ParcelExchange> exchange_;
  std::unique_ptr<Communicator> node_;
  std::unique_ptr<SharedMemory> shared_memory_;  // of the node
  std::optional<JointReads> joint_;
  std::uint64_t device_received_bytes_ = 0;
  StorageCheck check_;
};

}  // namespace

LoadReport load(Communicator& comm, FileSystem& files, const std::string& path, LiveState& state,
                const LoadOptions& options) {
  Load job(comm, files, path, options);
  return job.guarded([&] {
    job.open();
    return job.fill(state, false);
  });
}

LoadedState load_all(Communicator& comm, FileSystem& files, const std::string& path,
                     const std::vector<std::string>& select, const LoadOptions& options) {
  LoadOptions lenient = options;
  lenient.plan.strict = false;
  Load job(comm, files, path, lenient);
  return job.guarded([&] {
    job.open();
    std::optional<WholeState> whole;
    on_all_ranks("making room", comm,
                 [&] { whole.emplace(job.catalog(), select, comm.rank(), comm.size()); });
    LoadReport report = job.fill(whole->state(), true);
    report.unexpected.clear();  // what was not selected
    return whole->take(std::move(report));
  });
}

}  // namespace cairn
