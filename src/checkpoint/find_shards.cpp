// SPDX-License-Identifier: BSD-3-Clause
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <numeric>
#include <optional>
#include <thread>

#include "base/byte_reader.hpp"
#include "base/byte_writer.hpp"
#include "base/fail.hpp"
#include "base/text.hpp"
#include "checkpoint/visibility.hpp"
#include "parallel/agree.hpp"

namespace cairn {
namespace {

constexpr std::uint64_t kUnseen = ~std::uint64_t{0};
constexpr std::size_t kShown = 8;
constexpr std::chrono::milliseconds kFirstPause(20), kLongestPause(1000), kSilence(3000);

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : std::string("?");
}

// --- every rank: what it sees

struct Sight {
  std::string host;
  std::vector<std::uint64_t> sizes;       // by file; kUnseen
  std::vector<std::int64_t> modified_ns;  // by file
};

std::vector<std::string> entries_of(FileSystem& files, const std::string& directory) {
  try {
    return files.list(directory);
  } catch (const Error&) {  // a rank that cannot look sees nothing
    return {};
  }
}

struct Seen {
  std::uint64_t bytes = kUnseen;
  std::int64_t modified_ns = 0;
};

Seen file_seen(FileSystem& files, const ShardSearch& search, const std::string& name) {
  const std::string& directory = search.directory;
  const std::string path = directory + "/" + name;
  const auto status = files.status(path);
  if (!status) return {};
  if (status->type != FileType::regular) {
    fail_corrupt("{}: the shard is no regular file", escape_name(path));
  }
  const std::string root = files.resolve(directory);
  if (!search.follow_links && !files.resolve(path).starts_with(root.ends_with('/') ? root : root + "/")) {
    fail_corrupt("{}: the shard is a link that leaves the directory", escape_name(path));
  }
  return {status->size, status->modified_ns};
}

Bytes look(FileSystem& files, const ShardSearch& search, const std::vector<std::string>& names) {
  const auto there = entries_of(files, search.directory);  // sorted
  ByteWriter out;
  out.counted_text(host_name());
  for (const auto& name : names) {
    const std::string first = name.substr(0, name.find('/'));
    const Seen seen = std::ranges::binary_search(there, first) ? file_seen(files, search, name) : Seen();
    out.write(seen.bytes);
    out.write(seen.modified_ns);
  }
  return out.take();
}

Sight decode_sight(const Bytes& bytes, std::size_t count) {
  ByteReader in(bytes, "what a rank sees");
  Sight sight{std::string(in.counted_text()), {}, {}};
  for (std::size_t i = 0; i < count; ++i) {
    sight.sizes.push_back(in.read<std::uint64_t>());
    sight.modified_ns.push_back(in.read<std::int64_t>());
  }
  return sight;
}

// --- the coordinator: what it makes of that

// The least size of each file, for the items that lie in it.
std::vector<std::uint64_t> needed_bytes(const Catalog& catalog) {
  std::vector<std::uint64_t> needed(catalog.files().size(), 0);
  const auto add = [&](const StoredItem& item) {
    constexpr auto most = std::numeric_limits<std::uint64_t>::max();
    if (item.file == kNoFile) return;
    const auto end = item.byte_length > most - item.byte_offset ? most : item.byte_offset + item.byte_length;
    needed[item.file] = std::max(needed[item.file], end);
  };
  std::ranges::for_each(catalog.chunks(), add);
  for (const auto& object : catalog.objects()) add(object.item);
  return needed;
}

// "'weight': chunk [0, 0] + [4, 4]"
std::string first_in(const Catalog& catalog, std::uint32_t file) {
  for (const TensorInfo& tensor : catalog.tensors()) {
    for (const StoredItem& chunk : catalog.chunks(tensor)) {
      if (chunk.file != file) continue;
      return fmt::format("'{}': chunk {}", escape_name(catalog.name(tensor)),
                         to_string(catalog.box(tensor, chunk)));
    }
  }
  for (const ObjectInfo& object : catalog.objects()) {
    if (object.item.file == file) return fmt::format("'{}': the object", escape_name(catalog.name(object)));
  }
  return "nothing that is read";
}

class Judge {
 public:
  Judge(const Catalog& catalog, const ShardSearch& search)
      : catalog_(catalog), search_(search), needed_(needed_bytes(catalog)) {}

  // nullopt: look again.
  std::optional<ShardSites> judge(const std::vector<Bytes>& seen, bool last) {
    ranks_.clear();
    for (const Bytes& bytes : seen) ranks_.push_back(decode_sight(bytes, needed_.size()));
    for (std::uint32_t file = 0; file < needed_.size(); ++file) {
      if (is_settled(file)) continue;
      if (!last) return std::nullopt;
      refuse(file);
    }
    return decide();
  }

  // After judge() has said to look again.
  std::string what_is_awaited() const {
    std::uint32_t first = 0, count = 0;
    for (std::uint32_t file = 0; file < needed_.size(); ++file) {
      if (!is_settled(file) && ++count == 1) first = file;
    }
    const bool is_seen = !ranks_that(true, first).empty();
    return fmt::format("waiting for {}{}: {}, for {:.0f} s at most (--visibility-timeout)", path(first),
                       count > 1 ? fmt::format(" and {} more shards", count - 1) : "",
                       is_seen ? "not all ranks see it whole" : "no rank sees it", search_.timeout_s);
  }

 private:
  std::vector<std::size_t> ranks_that(bool see, std::uint32_t file) const {
    std::vector<std::size_t> ranks;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if ((ranks_[rank].sizes[file] != kUnseen) == see) ranks.push_back(rank);
    }
    return ranks;
  }

  bool is_settled(std::uint32_t file) const {
    const auto seeing = ranks_that(true, file);
    if (seeing.empty() || (search_.mode == WriteMode::shared && seeing.size() < ranks_.size())) return false;
    const auto size = ranks_[seeing.front()].sizes[file];
    return size >= needed_[file] &&
           std::ranges::all_of(seeing, [&](std::size_t rank) { return ranks_[rank].sizes[file] == size; });
  }

  std::string path(std::uint32_t file) const {
    return escape_name(search_.directory + "/" + catalog_.files()[file]);
  }

  std::string named(const std::vector<std::size_t>& ranks) const {
    std::string text;
    for (std::size_t i = 0; i < std::min(ranks.size(), kShown); ++i) {
      text += fmt::format("{}rank {} ({})", i == 0 ? "" : ", ", ranks[i], escape_name(ranks_[ranks[i]].host));
    }
    return text + (ranks.size() > kShown ? fmt::format(" and {} more", ranks.size() - kShown) : "");
  }

  // What stays unsettled. A file that is too short everywhere is for the check of the structure.
  void refuse(std::uint32_t file) const {
    const auto seeing = ranks_that(true, file), blind = ranks_that(false, file);
    if (seeing.empty()) {
      throw Error(ErrorKind::corrupt,
                  fmt::format("{}: the shard file is missing: {} lies in it, and no rank sees it (looked on "
                              "{}){}",
                              path(file), first_in(catalog_, file), named(blind), count_of_missing()),
                  "start at least one rank on each node that has shards");
    }
    for (const std::size_t rank : seeing) {
      const auto first = ranks_[seeing.front()].sizes[file], other = ranks_[rank].sizes[file];
      if (first == other) continue;
      fail(ErrorKind::mismatch, "{}: {} bytes on {}, {} on {}, at least {} expected, the same on all",
           path(file), first, named({seeing.front()}), other, named({rank}), needed_[file]);
    }
    if (search_.mode != WriteMode::shared || blind.empty()) return;
    throw Error(
        ErrorKind::not_found,
        fmt::format("{}: {} does not see this shard, {} does", path(file), named(blind), named(seeing)),
        "--write gather has every shard read by a rank that sees it");
  }

  std::string count_of_missing() const {
    std::size_t count = 0;
    for (std::uint32_t file = 0; file < needed_.size(); ++file) count += ranks_that(true, file).empty();
    return count > 1 ? fmt::format("; {} shards are missing", count) : std::string();
  }

  ShardSites decide() const {
    ShardSites sites{search_.mode == WriteMode::gather, {}, {}};
    for (std::uint32_t file = 0; file < needed_.size(); ++file) {
      const auto blind = ranks_that(false, file);
      if (search_.mode == WriteMode::automatic && !blind.empty() && !sites.gather) {
        sites.gather = true;
        sites.note = fmt::format(
            "--write gather: {} does not see {}, so every shard is read by a rank that sees it, and rank 0 "
            "writes",
            named(blind), path(file));
      }
    }
    sites.files = owners();
    return sites;
  }

  // The longest first, each to the rank with the fewest bytes so far, the lowest of those.
  std::vector<GatheredFile> owners() const {
    std::vector<GatheredFile> files;
    for (std::uint32_t file = 0; file < needed_.size(); ++file) {
      files.push_back({catalog_.files()[file], 0, ranks_[ranks_that(true, file).front()].sizes[file]});
    }
    std::vector<std::uint32_t> order(files.size());
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::stable_sort(order, std::greater<>(), [&](std::uint32_t i) { return files[i].bytes; });
    std::vector<std::uint64_t> load(ranks_.size(), 0);
    for (const std::uint32_t file : order) {
      const auto seeing = ranks_that(true, file);
      const auto least = std::ranges::min(seeing, {}, [&](std::size_t rank) { return load[rank]; });
      files[file].owner = static_cast<int>(least);
      files[file].modified_ns = ranks_[least].modified_ns[file];
      load[least] += files[file].bytes;
    }
    return files;
  }

  const Catalog& catalog_;
  const ShardSearch& search_;
  const std::vector<std::uint64_t> needed_;
  std::vector<Sight> ranks_;
};

// --- the decision on its way

Bytes encode_names(const Catalog& catalog) {
  ByteWriter out;
  for (const auto& name : catalog.files()) out.counted_text(name);
  return out.take();
}

std::vector<std::string> decode_names(const Bytes& bytes) {
  ByteReader in(bytes, "names of the shards");
  std::vector<std::string> names;
  while (!in.at_end()) names.push_back(std::string(in.counted_text()));
  return names;
}

// The others need owners and sizes only to gather. Empty: look again.
Bytes encode(const std::optional<ShardSites>& sites) {
  ByteWriter out;
  if (!sites) return {};
  out.write<std::uint8_t>(sites->gather ? 1 : 0);
  for (const auto& file : sites->files) {
    if (!sites->gather) break;
    out.write<std::int32_t>(file.owner);
    out.write(file.bytes);
  }
  return out.take();
}

ShardSites decode_sites(const Bytes& bytes, const std::vector<std::string>& names) {
  ByteReader in(bytes, "owners of the shards");
  ShardSites sites{in.read<std::uint8_t>() != 0, {}, {}};
  for (std::size_t i = 0; sites.gather && i < names.size(); ++i) {
    const auto owner = in.read<std::int32_t>();
    sites.files.push_back({names[i], owner, in.read<std::uint64_t>()});
  }
  return sites;
}

}  // namespace

ShardSites find_shards(Communicator& comm, RunWatch& watch, const Catalog* catalog,
                       const ShardSearch& search) {
  constexpr auto step = "looking for the shards";
  if (comm.size() == 1) return {};
  const auto begin = std::chrono::steady_clock::now();
  std::optional<Judge> judge;
  const Bytes named = on_root(step, comm, 0, [&] {
    judge.emplace(*catalog, search);
    return encode_names(*catalog);
  });
  std::vector<std::string> names;
  on_all_ranks(step, comm, [&] { names = decode_names(named); });

  std::optional<ShardSites> sites;
  bool is_noted = false;
  for (auto pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    Bytes mine;
    on_all_ranks(step, comm, [&] { watch.work([&] { mine = look(watch.files(), search, names); }); });
    const auto seen = comm.gather(mine, 0);
    const Bytes verdict = on_root(step, comm, 0, [&] {
      const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
      sites = judge->judge(seen, waited.count() >= search.timeout_s);
      if (!sites && search.note && !is_noted && waited > kSilence) {
        search.note(judge->what_is_awaited());
        is_noted = true;
      }
      return encode(sites);
    });
    if (!verdict.empty()) return comm.rank() == 0 ? *sites : decode_sites(verdict, names);
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace cairn
