// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/journal.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "base/byte_reader.hpp"
#include "base/crc32.hpp"
#include "base/fail.hpp"
#include "base/text.hpp"

namespace cairn {
namespace {

constexpr std::string_view kMagic = "cairn journal 1\n";
constexpr std::size_t kHeadBytes = 16, kCrcBytes = 4;
constexpr std::size_t kDifferencesShown = 5;

enum class Kind : std::uint32_t { job = 1, machines = 2, windows = 3, complete = 4 };

Bytes frame(Kind kind, std::uint32_t sequence, std::span<const std::byte> payload) {
  ByteWriter out;
  out.write(static_cast<std::uint32_t>(kind));
  out.write(sequence);
  out.write<std::uint64_t>(payload.size());
  out.write(crc32(out.view()));
  out.append(payload);
  out.write(crc32(payload));
  return out.take();
}

// --- the job

void write_texts(ByteWriter& out, std::span<const std::string> texts) {
  out.write<std::uint64_t>(texts.size());
  for (const auto& text : texts) out.counted_text(text);
}

Bytes encode_job(const JournalJob& job) {
  ByteWriter out;
  out.counted_text(job.source);
  out.write<std::uint64_t>(job.options.size());
  for (const auto& [name, value] : job.options) {
    out.counted_text(name);
    out.counted_text(value);
  }
  for (const std::uint64_t number : {job.metadata_bytes, job.metadata_hash, job.plan_hash, job.window_count})
    out.write(number);
  out.write<std::uint64_t>(job.shards.size());
  for (const auto& shard : job.shards) {
    out.counted_text(shard.name);
    out.write(shard.bytes);
    out.write(shard.modified_ns);
  }
  out.write<std::uint64_t>(job.outputs.size());
  for (const auto& output : job.outputs) {
    out.counted_text(output.path);
    out.write(output.bytes);
    out.write(output.inode);
  }
  return out.take();
}

JournalJob decode_job(ByteReader& in) {
  JournalJob job;
  job.source = in.counted_text();
  for (auto left = in.read<std::uint64_t>(); left > 0; --left) {
    std::string name(in.counted_text());
    job.options.emplace_back(std::move(name), in.counted_text());
  }
  for (std::uint64_t* number : {&job.metadata_bytes, &job.metadata_hash, &job.plan_hash, &job.window_count})
    *number = in.read<std::uint64_t>();
  for (auto left = in.read<std::uint64_t>(); left > 0; --left) {
    std::string name(in.counted_text());
    const auto bytes = in.read<std::uint64_t>();
    job.shards.push_back({std::move(name), bytes, in.read<std::int64_t>()});
  }
  for (auto left = in.read<std::uint64_t>(); left > 0; --left) {
    std::string path(in.counted_text());
    const auto bytes = in.read<std::uint64_t>();
    job.outputs.push_back({std::move(path), bytes, in.read<std::uint64_t>()});
  }
  return job;
}

// --- windows

std::vector<WindowRun> runs_of(std::vector<std::uint64_t> windows) {
  std::ranges::sort(windows);
  std::vector<WindowRun> runs;
  for (const std::uint64_t window : windows) {
    if (!runs.empty() && runs.back().end == window)
      ++runs.back().end;
    else
      runs.push_back({window, window + 1});
  }
  return runs;
}

void check_pieces(const std::vector<CrcPiece>& pieces) {
  for (const CrcPiece& piece : pieces) {
    if (piece.bytes == 0 || piece.begin + piece.bytes < piece.begin)
      fail_corrupt("{} bytes from byte {} of {} on are no piece", piece.bytes, piece.begin, piece.of);
  }
}

void decode_windows(ByteReader& in, JournalContent& content) {
  for (auto left = in.read<std::uint64_t>(); left > 0; --left) {
    const auto begin = in.read<std::uint64_t>(), end = in.read<std::uint64_t>();
    if (begin >= end || end > content.job.window_count)
      fail_corrupt("windows {} to {} of {}", begin, end, content.job.window_count);
    content.finished.push_back({begin, end});
  }
  PassedBytes passed;
  passed.verified_bytes = in.read<std::uint64_t>();
  passed.written = decode_pieces(in.bytes(in.read<std::uint64_t>()));
  passed.read = decode_pieces(in.bytes(in.remaining()));
  check_pieces(passed.written);
  check_pieces(passed.read);
  content.passed.add(passed);
}

// --- reading

class Decoder {
 public:
  Decoder(std::span<const std::byte> bytes, std::string_view where) : bytes_(bytes), where_(where) {}

  JournalContent run() {
    if (!as_text(bytes_).starts_with(kMagic)) fail_corrupt("{}: no journal of Cairn begins so", where_);
    content_.bytes = kMagic.size();
    while (const auto head = next_head()) {
      read_entry(*head);
      content_.bytes += kHeadBytes + 2 * kCrcBytes + head->length;
      ++content_.entries;
    }
    if (content_.entries == 0)
      fail_corrupt("{}: at byte {}: the journal ends within its first entry", where_, content_.bytes);
    check_windows();
    return std::move(content_);
  }

 private:
  struct Head {
    Kind kind;
    std::uint32_t sequence;
    std::uint64_t length;
  };

  std::span<const std::byte> rest() const { return bytes_.subspan(content_.bytes); }

  // nullopt: at the end, or before an entry that was cut short.
  std::optional<Head> next_head() const {
    if (rest().size() < kHeadBytes + kCrcBytes) return std::nullopt;
    ByteReader in(rest(), where_);
    const Head head{static_cast<Kind>(in.read<std::uint32_t>()), in.read<std::uint32_t>(),
                    in.read<std::uint64_t>()};
    if (in.read<std::uint32_t>() != crc32(rest().first(kHeadBytes))) {
      if (std::ranges::all_of(rest(), [](std::byte b) { return b == std::byte{0}; })) return std::nullopt;
      fail_corrupt("{}: at byte {}: the head of entry {} is damaged", where_, content_.bytes,
                   content_.entries);
    }
    if (in.remaining() < kCrcBytes || in.remaining() - kCrcBytes < head.length) return std::nullopt;
    return head;
  }

  void read_entry(const Head& head) {
    const auto payload = rest().subspan(kHeadBytes + kCrcBytes, head.length);
    ByteReader crc(rest().subspan(kHeadBytes + kCrcBytes + head.length, kCrcBytes), where_);
    if (crc.read<std::uint32_t>() != crc32(payload)) {
      fail_corrupt("{}: at byte {}: entry {} has another CRC-32 than it states", where_, content_.bytes,
                   content_.entries);
    }
    with_context(
        [&] { return fmt::format("{}: at byte {}: entry {}", where_, content_.bytes, content_.entries); },
        [&] { understand(head, payload); });
  }

  void understand(const Head& head, std::span<const std::byte> payload) {
    if (head.sequence != content_.entries) fail_corrupt("number {} stands here", head.sequence);
    if ((head.kind == Kind::job) != (head.sequence == 0)) fail_corrupt("the job is the first entry");
    ByteReader in(payload, "journal");
    switch (head.kind) {
      case Kind::job:
        content_.job = decode_job(in);
        break;
      case Kind::machines:
        for (auto left = in.read<std::uint64_t>(); left > 0; --left)
          content_.machines.emplace_back(in.counted_text());
        break;
      case Kind::windows:
        decode_windows(in, content_);
        break;
      case Kind::complete:
        content_.tails.clear();
        for (std::size_t i = 0; i < content_.job.outputs.size(); ++i)
          content_.tails.push_back(in.read<std::uint32_t>());
        break;
      default:
        fail_corrupt("kind {} is not known", static_cast<std::uint32_t>(head.kind));
    }
    if (!in.at_end()) fail_corrupt("{} bytes too many", in.remaining());
  }

  void check_windows() {
    std::ranges::sort(content_.finished, {}, &WindowRun::begin);
    for (std::size_t i = 1; i < content_.finished.size(); ++i) {
      if (content_.finished[i].begin < content_.finished[i - 1].end)
        fail_corrupt("{}: window {} is finished twice", where_, content_.finished[i].begin);
    }
  }

  std::span<const std::byte> bytes_;
  std::string_view where_;
  JournalContent content_;
};

// --- comparing

using Differences = std::vector<std::string>;

void compare_options(const JournalJob& before, const JournalJob& now, Differences& found) {
  std::map<std::string, std::pair<std::string, std::string>> values;
  for (const auto& [name, value] : before.options) values[name].first = value;
  for (const auto& [name, value] : now.options) values[name].second = value;
  for (const auto& [name, both] : values) {
    if (both.first == both.second) continue;
    found.push_back(
        fmt::format("{} was '{}' and is '{}'", name, escape_name(both.first), escape_name(both.second)));
  }
}

std::string about(const JournalJob::Shard& shard) {
  constexpr std::int64_t second = 1'000'000'000;
  return fmt::format("{} bytes, modified at {}.{:09}", shard.bytes, shard.modified_ns / second,
                     shard.modified_ns % second);
}

void compare_shards(const JournalJob& before, const JournalJob& now, Differences& found) {
  std::map<std::string_view, const JournalJob::Shard*> old;
  for (const auto& shard : before.shards) old[shard.name] = &shard;
  for (const auto& shard : now.shards) {
    const auto was = old.find(shard.name);
    if (was == old.end()) {
      found.push_back(fmt::format("{} is new", escape_name(shard.name)));
    } else if (was->second->bytes != shard.bytes || was->second->modified_ns != shard.modified_ns) {
      found.push_back(
          fmt::format("{} had {}, and has {}", escape_name(shard.name), about(*was->second), about(shard)));
    }
    if (was != old.end()) old.erase(was);
  }
  for (const auto& [name, shard] : old)
    found.push_back(fmt::format("{} belongs to it no more", escape_name(name)));
}

void compare_outputs(const JournalJob& before, const JournalJob& now, Differences& found) {
  const auto named = [](const JournalJob& job) {
    std::string text;
    for (const auto& output : job.outputs)
      text +=
          fmt::format("{}{} ({} bytes)", text.empty() ? "" : ", ", escape_name(output.path), output.bytes);
    return text;
  };
  const std::string was = named(before), is = named(now);
  if (was != is) found.push_back(fmt::format("the outputs were {}, and are {}", was, is));
}

}  // namespace

std::string difference(const JournalJob& before, const JournalJob& now) {
  Differences found;
  if (before.source != now.source)
    found.push_back(
        fmt::format("the source was {}, and is {}", escape_name(before.source), escape_name(now.source)));
  compare_options(before, now, found);
  if (before.metadata_bytes != now.metadata_bytes || before.metadata_hash != now.metadata_hash)
    found.push_back(".metadata has another content");
  compare_shards(before, now, found);
  if (found.empty()) compare_outputs(before, now, found);
  if (found.empty() && (before.plan_hash != now.plan_hash || before.window_count != now.window_count))
    found.push_back("the same options lead to another layout (a changed map, another version of cairn)");
  std::string text;
  for (std::size_t i = 0; i < std::min(found.size(), kDifferencesShown); ++i)
    text += (i == 0 ? "" : "; ") + found[i];
  if (found.size() > kDifferencesShown)
    text += fmt::format("; and {} more", found.size() - kDifferencesShown);
  return text;
}

Bytes begin_journal(const JournalJob& job) {
  ByteWriter out;
  out.text(kMagic);
  out.append(frame(Kind::job, 0, encode_job(job)));
  return out.take();
}

Bytes machines_entry(std::uint32_t sequence, std::span<const std::string> machines) {
  ByteWriter out;
  write_texts(out, machines);
  return frame(Kind::machines, sequence, out.view());
}

Bytes encode_windows(FinishedWindows&& finished) {
  ByteWriter out;
  const auto runs = runs_of(std::move(finished.windows));
  out.write<std::uint64_t>(runs.size());
  for (const auto& [begin, end] : runs) {
    out.write(begin);
    out.write(end);
  }
  out.write(finished.passed.verified_bytes);
  const auto written = encode_pieces(join_pieces(std::move(finished.passed.written)));
  out.write<std::uint64_t>(written.size());
  out.append(written);
  out.append(encode_pieces(join_pieces(std::move(finished.passed.read))));
  return out.take();
}

Bytes windows_entry(std::uint32_t sequence, std::span<const std::byte> windows) {
  return frame(Kind::windows, sequence, windows);
}

Bytes complete_entry(std::uint32_t sequence, std::span<const std::uint32_t> tails) {
  ByteWriter out;
  for (const std::uint32_t tail : tails) out.write(tail);
  return frame(Kind::complete, sequence, out.view());
}

JournalContent decode_journal(std::span<const std::byte> bytes, std::string_view where) {
  return Decoder(bytes, where).run();
}

}  // namespace cairn
