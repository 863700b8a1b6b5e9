// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/replica_check.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/byte_reader.hpp"
#include "base/byte_writer.hpp"
#include "base/fail.hpp"
#include "base/text.hpp"
#include "engine/view_copy.hpp"
#include "parallel/agree.hpp"
#include "parallel/attention.hpp"
#include "plan/fingerprint.hpp"

namespace cairn {
namespace {

constexpr std::size_t kMostNamed = 10;
constexpr std::uint64_t kHashPiece = 256 << 10;

/// A box of an entry, or an object.
struct Part {
  std::size_t entry, box;
};

std::vector<Part> parts_of(const RankState& state) {
  std::vector<Part> parts;
  for (std::size_t entry = 0; entry < state.size(); ++entry) {
    const std::size_t count = state.is_tensor(entry) ? state.box_count(entry) : 1;
    for (std::size_t box = 0; box < count; ++box) parts.push_back({entry, box});
  }
  return parts;
}

Fingerprint key_of(const RankState& state, Part part) {
  FingerprintHash hash;
  hash.add(std::as_bytes(std::span(state.name(part.entry))));
  if (state.is_tensor(part.entry)) {
    hash.add(std::as_bytes(state.box(part.entry, part.box).offsets));
    hash.add(std::as_bytes(state.box(part.entry, part.box).sizes));
  }
  return hash.finish();
}

Fingerprint value_of(const TensorView& view) {
  FingerprintHash hash;
  std::vector<std::byte> buffer(std::min(view.byte_count(), kHashPiece));
  for (std::uint64_t at = 0; at < view.byte_count(); at += kHashPiece) {
    const auto piece = std::span(buffer).first(std::min(kHashPiece, view.byte_count() - at));
    copy_elements(view, static_cast<std::int64_t>(at / element_size(view.dtype)), piece);
    hash.add(piece);
    attend();
  }
  return hash.finish();
}

Bytes encode(std::span<const Fingerprint> prints) {
  const auto bytes = std::as_bytes(prints);
  return {bytes.begin(), bytes.end()};
}

std::vector<Fingerprint> decode(std::span<const std::byte> bytes) {
  std::vector<Fingerprint> prints(bytes.size() / sizeof(Fingerprint));
  if (!prints.empty()) std::memcpy(prints.data(), bytes.data(), bytes.size());
  return prints;
}

/// On the coordinator: who holds what, by key.
struct Holder {
  Fingerprint key;
  std::uint32_t rank, part;

  friend auto operator<=>(const Holder&, const Holder&) = default;
};

std::vector<Holder> sorted_holders(const std::vector<Bytes>& keys_by_rank) {
  std::vector<Holder> holders;
  for (std::uint32_t rank = 0; rank < keys_by_rank.size(); ++rank) {
    const auto keys = decode(keys_by_rank[rank]);
    for (std::uint32_t part = 0; part < keys.size(); ++part) holders.push_back({keys[part], rank, part});
  }
  std::ranges::sort(holders);
  return holders;
}

/// Calls `visit` with the holders of each key that several have.
template <class Visit>
void for_each_shared(std::span<const Holder> holders, Visit&& visit) {
  for (std::size_t begin = 0, end = 0; begin < holders.size(); begin = end) {
    while (end < holders.size() && holders[end].key == holders[begin].key) ++end;
    if (end - begin > 1) visit(holders.subspan(begin, end - begin));
  }
}

// For each rank the parts that others have too, ascending.
std::vector<std::vector<std::uint32_t>> shared_parts(std::span<const Holder> holders, std::size_t ranks) {
  std::vector<std::vector<std::uint32_t>> shared(ranks);
  for_each_shared(holders, [&](std::span<const Holder> group) {
    for (const Holder& holder : group) shared[holder.rank].push_back(holder.part);
  });
  for (auto& parts : shared) std::ranges::sort(parts);
  return shared;
}

std::vector<Bytes> as_messages(const std::vector<std::vector<std::uint32_t>>& numbers) {
  std::vector<Bytes> out;
  for (const auto& of_rank : numbers) {
    const auto bytes = std::as_bytes(std::span(of_rank));
    out.emplace_back(bytes.begin(), bytes.end());
  }
  return out;
}

std::vector<std::uint32_t> numbers_from(std::span<const std::byte> bytes) {
  std::vector<std::uint32_t> numbers(bytes.size() / sizeof(std::uint32_t));
  if (!numbers.empty()) std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

struct Difference {
  std::uint32_t first_rank, part, other_rank;  ///< part: of first_rank
};

class ReplicaCheck {
 public:
  ReplicaCheck(Communicator& comm, const LiveState& state,
               const std::function<Bytes(std::size_t)>& object_bytes)
      : comm_(comm), state_(state), object_bytes_(object_bytes), parts_(parts_of(state.description())) {}

  void run() {
    const auto keys = comm_.gather(own_keys(), 0);
    const Bytes mine = on_root_for_each("looking for replicas", comm_, 0, [&] {
      holders_ = sorted_holders(keys);
      shared_by_rank_ = shared_parts(holders_, keys.size());
      return as_messages(shared_by_rank_);
    });
    shared_ = numbers_from(mine);
    std::vector<Fingerprint> values;
    on_all_ranks("hashing replicas", comm_, [&] {
      for (const std::uint32_t part : shared_) values.push_back(value(parts_[part]));
    });
    const auto all_values = comm_.gather(encode(values), 0);
    report(on_root("comparing replicas", comm_, 0, [&] { return differences(all_values); }));
  }

 private:
  Bytes own_keys() const {
    std::vector<Fingerprint> keys;
    for (const Part part : parts_) keys.push_back(key_of(state_.description(), part));
    return encode(keys);
  }

  Fingerprint value(Part part) const {
    if (state_.description().is_tensor(part.entry)) return value_of(state_.view(part.entry, part.box));
    FingerprintHash hash;
    hash.add(object_bytes_(part.entry));
    return hash.finish();
  }

  Bytes differences(const std::vector<Bytes>& values_by_rank) const {
    std::vector<std::map<std::uint32_t, Fingerprint>> values(values_by_rank.size());
    for (std::size_t rank = 0; rank < values.size(); ++rank) {
      const auto prints = decode(values_by_rank[rank]);
      for (std::size_t i = 0; i < prints.size(); ++i)
        values[rank].emplace(shared_by_rank_[rank][i], prints[i]);
    }
    ByteWriter named;
    std::uint64_t count = 0;
    for_each_shared(holders_, [&](std::span<const Holder> group) {
      const Holder& first = group.front();
      const auto other = std::ranges::find_if(group, [&](const Holder& holder) {
        return values[holder.rank].at(holder.part) != values[first.rank].at(first.part);
      });
      if (other == group.end() || count++ >= kMostNamed) return;
      named.write(first.rank);
      named.write(first.part);
      named.write(other->rank);
    });
    ByteWriter out;
    out.write(count);
    out.append(named.view());
    return out.take();
  }

  // The first of two ranks knows the name.
  void report(std::span<const std::byte> differences) const {
    on_all_ranks("comparing replicas", comm_, [&] {
      std::string text;
      ByteReader in(differences, "differences");
      const auto count = in.read<std::uint64_t>();
      while (!in.at_end()) {
        const auto first = in.read<std::uint32_t>(), part = in.read<std::uint32_t>();
        const auto other = in.read<std::uint32_t>();
        if (static_cast<int>(first) != comm_.rank()) continue;
        text += fmt::format("{}{}: ranks {} and {} hold different values", text.empty() ? "" : "; ",
                            words(parts_[part]), first, other);
      }
      if (text.empty()) return;
      if (count > kMostNamed) text += fmt::format("; {} differ in all", count);
      throw Error(ErrorKind::mismatch, text);
    });
  }

  std::string words(Part part) const {
    const RankState& known = state_.description();
    const std::string name = "'" + escape_name(known.name(part.entry)) + "'";
    return known.is_tensor(part.entry) ? name + " " + to_string(known.box(part.entry, part.box)) : name;
  }

  Communicator& comm_;
  const LiveState& state_;
  const std::function<Bytes(std::size_t)>& object_bytes_;
  const std::vector<Part> parts_;
  std::vector<Holder> holders_;                             // on the coordinator
  std::vector<std::vector<std::uint32_t>> shared_by_rank_;  // likewise
  std::vector<std::uint32_t> shared_;                       // of parts_
};

}  // namespace

void require_equal_replicas(Communicator& comm, const LiveState& state,
                            const std::function<Bytes(std::size_t)>& object_bytes) {
  ReplicaCheck(comm, state, object_bytes).run();
}

}  // namespace cairn
