// SPDX-License-Identifier: BSD-3-Clause
// Row: checkpoint. The verbs. Each says whether it is collective or local; all throw cairn::Error.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/communicator.hpp"
#include "cairn/error.hpp"
#include "cairn/metadata.hpp"
#include "cairn/storage.hpp"
#include "cairn/tensor.hpp"

namespace cairn {

/// What `cairn ls` shows: a checkpoint's catalogue, read without a payload byte.
struct Listing {
  std::string format;  ///< "dcp", "torch", "safetensors", "hf_dcp", "tree", "accelerate"
  Catalog catalog;
  std::vector<std::string> notes;
};

/// Local. Reads the metadata of the checkpoint at `path`. Throws unsupported for kinds that are recognised
/// and not read, not_found when nothing is there, corrupt for damaged metadata; faults of single tensors are
/// reported together in one corrupt error.
Listing list_checkpoint(FileSystem& files, const std::string& path);

/// Bytes that all ranks have moved so far, as far as rank 0 knows, of those that all have to move. Rank 0 is
/// told, a few times a second at most, on the thread that called the verb.
struct Progress {
  std::uint64_t done_bytes, total_bytes;
  std::string_view phase;  ///< "copying", then "syncing", "publishing"
};

struct VerifyOptions {
  std::string path;                        ///< DCP directory, torch file, safetensors files, tree of several
  bool metadata_only = false;              ///< structure only, no payload is read
  bool strict = false;                     ///< an item without a CRC is a fault
  std::uint64_t max_memory = 64ull << 20;  ///< data buffers of one rank, in bytes
  int threads = 0;                         ///< as in ConsolidateOptions
  std::function<void(const Progress&)> progress;
};

/// The same on all ranks, and the same for any number of ranks and threads but for the figures of the run.
struct VerifyReport {
  FaultList faults;                     ///< of the structure first, then by file and place
  std::vector<std::string> components;  ///< paths of what was checked, one at least
  std::uint64_t tensors = 0, objects = 0, chunks = 0, files = 0;  ///< of DCP directories
  std::uint64_t torch_files = 0;
  std::uint64_t payload_bytes = 0;    ///< of all tensors; of a torch file its size
  std::uint64_t checked_bytes = 0;    ///< compared with a stored CRC
  std::uint64_t unchecked_items = 0;  ///< chunks, objects, torch files of which some byte has no stored CRC
  std::vector<std::string> warnings;  ///< shard files that nothing refers to, leftovers, notes
  // figures of the run
  std::uint64_t read_bytes = 0;      ///< over all ranks
  std::uint64_t peak_rss_bytes = 0;  ///< VmHWM, the largest of all ranks
  double seconds = 0;
  int ranks = 1, threads = 1;
};

/// Collective. Proves that everything at options.path is whole. A DCP directory: what its metadata says makes
/// sense, every chunk once, every item inside its file; and unless metadata_only, in every item: the zip
/// records byte by byte, every stored CRC-32, dtype, shape and storage as its pickle says against the
/// metadata. A torch file: the records, the CRCs, every storage that its pickle names. Safetensors files:
/// headers and index; there are no CRCs. What is wrong is a fault in the report; what cannot be found out is
/// an Error on all ranks: nothing there, a kind that is not read, damaged metadata of a directory that is
/// checked alone, a failure of the file system.
VerifyReport verify(Communicator& comm, FileSystem& files, const VerifyOptions& options);

/// What becomes of values that are no tensors.
enum class ObjectPolicy : std::uint8_t {
  keep,  ///< written; one outside torch's safe list makes the file open with weights_only=False only
  safe,  ///< those go into a second file, <destination>.objects.pth; the main file always opens safely
  drop,  ///< none are written
};

/// How bytes move.
enum class CopyMode : std::uint8_t {
  automatic,  ///< user
  user,       ///< through buffers, CRCs checked and computed
  kernel,     ///< copy_file_range where source and output agree byte by byte; nothing is verified. Of one
              ///< output without casts, not with WriteMode::gather
};

/// What of a checkpoint goes into an output, and under which names: the options of the command line, as text
/// (docs/names-and-casts.md).
struct NameOptions {
  std::vector<std::string> select, exclude;  ///< globs
  bool unwrap = false;                       ///< drop the components that wrapping modules add
  std::vector<std::string> strip_prefix;     ///< whole components
  std::vector<std::string> rename;           ///< FROM=TO
  std::string map_file;                      ///< old<TAB>new lines; empty: none
  std::vector<std::string> cast;             ///< DTYPE, GLOB=DTYPE, GLOB=keep
};

/// Who writes, and how the bytes get there.
enum class WriteMode : std::uint8_t {
  automatic,  ///< gather when some rank does not see all shards, else shared
  shared,     ///< every rank sees source and output; all write disjoint ranges of the output
  gather,     ///< every shard is read by one of the ranks that see it, rank 0 alone writes
};

struct ConsolidateOptions {
  std::string source;  ///< a checkpoint of any kind that is read, but a torch file
  /// A file; or a directory (existing, or ending in '/'): model.pth in it. Empty: of a Lightning folder
  /// `<folder>.consolidated`, else invalid_argument.
  std::string destination;
  bool overwrite = false;
  bool sync = true;                        ///< fsync before publishing
  std::uint64_t max_memory = 64ull << 20;  ///< data buffers of one rank, in bytes
  int threads = 0;  ///< I/O threads of one rank; 0: cores of this rank's affinity, shared
                    ///< fairly with the ranks on the node, 1 to 8
  ObjectPolicy objects = ObjectPolicy::keep;
  /// Of a Lightning folder: the names as they are stored (Fabric's form), not the Trainer's.
  bool fabric = false;
  /// `source` is an iteration of a training tree, or the tree's root: all components, each under its name.
  bool whole_iteration = false;
  /// Tensors of 8-bit floats with a companion `<name>_scale_inv` as bfloat16, without the companions, before
  /// any other rule (docs/names-and-casts.md). Not with CopyMode::kernel.
  bool dequant = false;
  bool flat = false;  ///< flat names as keys; else the recorded nesting is rebuilt
  NameOptions names;  ///< of the main output
  bool ema = false;   ///< also model_ema_fp32.pth and model_ema_bf16.pth beside it, of what `net_ema.` names
  std::vector<std::string> more_outputs;  ///< FILE:RULES each; every source byte is read once for all outputs
  std::uint32_t alignment = 64;           ///< of payloads in the file, a power of two up to 32768
  CopyMode copy = CopyMode::automatic;
  WriteMode write = WriteMode::automatic;
  /// How long shards that the metadata names, and the output's temporary, may take to appear where they are
  /// needed; a world of one rank does not wait for shards.
  double visibility_timeout_s = 30;
  bool verify_source =
      true;  ///< compare the stored CRCs of items that this job reads completely (not with kernel)
  std::function<void(const Progress&)> progress;  ///< may be empty on some ranks
  /// On rank 0: what cannot wait for the report, such as files that are waited for. May be empty.
  std::function<void(const std::string&)> note;
  /// A rank that does not get on for so long ends the job: some other rank, or itself, calls `stalled` with
  /// an Error that names it and its phase, rank 0 removes the temporaries, and the communicator is aborted
  /// with status 1 (a world of one: the process ends). 0: never. Getting on is the end of a file operation,
  /// computing, or, while bytes are made durable, pages that the kernel writes back. Time in which the
  /// observer itself does not run does not count. With it, work runs on a thread of its own.
  double stall_timeout_s = 0;
  std::function<void(const Error&)> stalled;
  /// Keep a journal beside the temporary, so that both survive whatever happens and the job can be continued;
  /// continue the one that is there (docs/consolidation.md).
  bool resume = false;
  /// So often, or when 1 GiB is written, a rank makes what it wrote durable and has it entered there.
  double journal_interval_s = 5;
};

struct OutputReport {
  std::string path;
  std::uint64_t bytes, tensors, objects;
};

/// The same on all ranks.
struct ConsolidateReport {
  std::vector<OutputReport> outputs;
  std::uint64_t read_bytes = 0;      ///< over all ranks
  std::uint64_t written_bytes = 0;   ///< over all ranks
  std::uint64_t verified_bytes = 0;  ///< source bytes whose stored CRC was compared, by earlier runs too
  std::uint64_t resumed_bytes = 0;   ///< of the payload, written by earlier runs of this job
  double seconds = 0;
  std::uint64_t peak_rss_bytes = 0;  ///< VmHWM, the largest of all ranks
  int ranks = 1, threads = 1;
  bool synced = true;
  std::vector<std::string> skipped;  ///< names of the metadata that were not written, with the reason
  std::vector<std::string> warnings;
};

/// Collective. Writes the checkpoint at options.source as one torch file that plain torch.load opens. All
/// ranks share the bytes; the file is the same for any number of ranks and threads. Nothing is visible under
/// the destination's name before it is whole (and durable, with sync); on failure every rank throws the same
/// Error, the temporary is gone (with resume it stays, and its journal) and an old output is untouched.
ConsolidateReport consolidate(Communicator& comm, FileSystem& files, const ConsolidateOptions& options);

/// A tensor or object that would be written.
struct DryRunEntry {
  std::string old_name, new_name;
  bool is_tensor;
  DType from, to;                   ///< of tensors: as stored, as written
  std::vector<std::int64_t> shape;  ///< of tensors
  std::uint64_t bytes;              ///< of a tensor as written, of an object as stored
};

struct DryRunOutput {
  std::string path;
  std::uint64_t bytes, free_bytes;  ///< of the output; in its directory, or the nearest one that exists
  std::vector<DryRunEntry> entries;
};

/// A file of the source.
struct DryRunFile {
  std::string name;
  std::uint64_t bytes;      ///< of the items in it that would be read
  std::optional<int> rank;  ///< who reads it when rank 0 writes; else all ranks do
};

struct DryRunRank {
  std::uint64_t read_bytes = 0, written_bytes = 0;  ///< payload
  std::uint64_t measured_bytes = 0;
  double measured_s = 0, predicted_s = 0;  ///< to read what was measured; the rank's whole share
};

struct DryRunReport {
  std::vector<DryRunOutput> outputs;  ///< in the order of ConsolidateReport
  std::vector<DryRunFile> files;
  std::vector<DryRunRank> ranks;
  bool gather = false;     ///< rank 0 writes
  double seconds() const;  ///< the longest prediction of a rank
  std::vector<std::string> skipped, warnings;
};

/// Collective. What consolidate() with these options would do. Refuses what that refuses before it reads a
/// tensor byte, in the same way, and makes nothing: no directory, no temporary. The prediction is of reading
/// only: each rank (rank 0 alone, when it writes) reads up to 32 MiB of its share, for about a second; what
/// is in the page cache is read from there. The report is rank 0's; on other ranks it is empty.
DryRunReport dry_run_consolidate(Communicator& comm, FileSystem& files, const ConsolidateOptions& options);

}  // namespace cairn
