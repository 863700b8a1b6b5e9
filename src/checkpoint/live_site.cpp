// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/live_site.hpp"

#include <fmt/format.h>

#include "base/byte_reader.hpp"
#include "base/byte_writer.hpp"
#include "formats/dcp/metadata_encoder.hpp"
#include "parallel/agree.hpp"

namespace cairn {
namespace {

constexpr const char* kDirectory = "a state in memory";
constexpr const char* kSaveId = "00000000-0000-0000-0000-000000000000";

Bytes encode(std::span<const ItemPlace> places) {
  ByteWriter out;
  for (const ItemPlace& place : places) out.write(place.byte_length);
  return out.take();
}

std::vector<ItemPlace> decode_places(std::span<const std::byte> bytes) {
  ByteReader in(bytes, "items of a rank");
  std::vector<ItemPlace> places;
  for (std::uint64_t at = 0; !in.at_end(); at += places.back().byte_length)
    places.push_back({at, in.read<std::uint64_t>()});
  return places;
}

std::uint64_t metadata_bytes(const Catalog& catalog) {
  std::uint64_t bytes = 0;
  dcp::encode_metadata(catalog, {kDirectory, kSaveId}, {},
                       [&](std::span<const std::byte> piece) { bytes += piece.size(); });
  return bytes;
}

void locate_alone(const GlobalSavePlan& plan, const std::vector<Bytes>& places_by_rank, LiveSite& site) {
  std::vector<std::vector<ItemPlace>> places;
  for (const Bytes& bytes : places_by_rank) places.push_back(decode_places(bytes));
  site.catalog = plan.located(places, [&](int rank, std::uint32_t) {
    const ItemPlace last = places[static_cast<std::size_t>(rank)].back();
    site.files.push_back(
        {fmt::format("memory of rank {}", rank), rank, last.byte_offset + last.byte_length, 0});
    return site.files.back().name;
  });
  site.metadata_bytes = metadata_bytes(site.catalog);
}

// What all ranks must know.
Bytes encode(const LiveSite& site) {
  ByteWriter out;
  out.write<std::uint8_t>(site.all_write);
  for (const GatheredFile& file : site.files) {
    out.counted_text(file.name);
    out.write(file.owner);
    out.write(file.bytes);
  }
  return out.take();
}

void decode(std::span<const std::byte> bytes, LiveSite& site) {
  ByteReader in(bytes, "memory of the ranks");
  site.all_write = in.read<std::uint8_t>() != 0;
  site.files.clear();
  while (!in.at_end()) {
    GatheredFile& file = site.files.emplace_back(std::string(in.counted_text()));
    file.owner = in.read<int>();
    file.bytes = in.read<std::uint64_t>();
  }
}

}  // namespace

LiveSite describe_live(Communicator& comm, const SharedPlan& plan, const PackedItems& items, WriteMode mode) {
  LiveSite site;
  site.directory = kDirectory;
  const auto places = comm.gather(encode(items.places()), 0);
  const Bytes known = on_root("locating the state", comm, 0, [&] {
    locate_alone(*plan.whole, places, site);
    site.all_write = mode == WriteMode::shared;
    return encode(site);
  });
  decode(known, site);
  return site;
}

}  // namespace cairn
