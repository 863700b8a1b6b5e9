// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/visibility.hpp"

#include <algorithm>
#include <optional>

#include "base/byte_reader.hpp"
#include "base/byte_writer.hpp"
#include "base/fail.hpp"
#include "formats/layouts.hpp"
#include "parallel/agree.hpp"

namespace cairn {
namespace {

// --- find_source: what one rank found, or why it found nothing

Bytes encode(const SourceSite& site) {
  ByteWriter out;
  out.write<std::uint8_t>(1);
  out.write(static_cast<std::uint8_t>(site.kind));
  out.counted_text(site.directory);
  out.counted_text(site.note);
  out.counted_text(site.metadata.name);
  out.write<std::int32_t>(site.metadata.owner);
  out.write(site.metadata.bytes);
  return out.take();
}

Bytes encode(const Error& error) {
  ByteWriter out;
  out.write<std::uint8_t>(0);
  out.write(static_cast<std::uint8_t>(error.kind()));
  out.counted_text(error.message());
  out.counted_text(error.hint());
  return out.take();
}

bool is_site(const Bytes& found) { return found.at(0) != std::byte{0}; }

SourceSite decode_site(const Bytes& bytes) {
  ByteReader in(bytes, "place of the checkpoint");
  in.skip(1);
  SourceSite site;
  site.kind = static_cast<SourceKind>(in.read<std::uint8_t>());
  site.directory = std::string(in.counted_text());
  site.note = std::string(in.counted_text());
  site.metadata = {std::string(in.counted_text()), in.read<std::int32_t>(), 0};
  site.metadata.bytes = in.read<std::uint64_t>();
  return site;
}

Error decode_error(const Bytes& bytes) {
  ByteReader in(bytes, "place of the checkpoint");
  in.skip(1);
  const auto kind = static_cast<ErrorKind>(in.read<std::uint8_t>());
  std::string message = std::string(in.counted_text());
  return {kind, std::move(message), std::string(in.counted_text())};
}

SourceSite source_site(FileSystem& files, const Located& located) {
  switch (located.kind) {
    case Located::Kind::dcp:
      return {SourceKind::dcp, located.path, located.note, {".metadata", 0, 0}};
    case Located::Kind::torch_file: {
      const auto [directory, name] = place_of(located.path);
      return {SourceKind::torch_file, directory, located.note, {name, 0, 0}};
    }
    default: {
      const safetensors::Site site = site_of(files, located);
      const auto kind = site.is_boxed ? SourceKind::hf_dcp : SourceKind::safetensors;
      return {kind, site.directory, located.note, {site.name, 0, 0}};
    }
  }
}

Bytes look_for_source(FileSystem& files, const std::string& path, int rank, Sources sources) {
  try {
    const auto located = locate_checkpoint(files, path);
    if (sources == Sources::directories) require_directory(located);
    if (sources == Sources::sharded) refuse_torch_file(located);
    SourceSite site = source_site(files, located);
    const std::string file = site.directory + "/" + site.metadata.name;
    const auto status = files.status(file);
    if (!status) fail(ErrorKind::not_found, "{}: it was there a moment ago", file);
    site.metadata.owner = rank;
    site.metadata.bytes = status->size;
    return encode(site);
  } catch (const Error& error) {
    return encode(error);
  }
}

}  // namespace

SourceSite find_source(Communicator& comm, RunWatch& watch, const std::string& path, Sources sources) {
  Bytes mine;
  const auto look = [&](int rank) {
    watch.work([&] { mine = look_for_source(watch.files(), path, rank, sources); });
  };
  Bytes found = on_root("locating the checkpoint", comm, 0, [&] {
    look(0);
    if (comm.size() == 1 && !is_site(mine)) throw decode_error(mine);
    return mine;
  });
  if (is_site(found)) return decode_site(found);

  if (comm.rank() != 0) {
    on_all_ranks("locating the checkpoint", comm, [&] { look(comm.rank()); });
  } else {
    on_all_ranks("locating the checkpoint", comm, [] {});
  }
  const auto all = comm.gather(mine, 0);
  found = on_root("locating the checkpoint", comm, 0, [&] {
    const auto first = std::ranges::find_if(all, is_site);
    if (first == all.end()) throw decode_error(all.front());
    return *first;
  });
  return decode_site(found);
}

}  // namespace cairn
