// SPDX-License-Identifier: BSD-3-Clause
#include "parallel/agree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <new>
#include <optional>
#include <string>

#include "base/byte_reader.hpp"
#include "base/byte_writer.hpp"
#include "parallel/letters.hpp"

namespace cairn {

Error current_error() {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return Error(ErrorKind::io, "out of memory");
  } catch (const std::exception& error) {
    return Error(ErrorKind::io, error.what());
  } catch (...) {
    return Error(ErrorKind::io, "an exception that is not a std::exception");
  }
}

namespace {

std::optional<Error> failure_of(const std::function<void()>& body) {
  try {
    body();
  } catch (...) {
    return current_error();
  }
  return std::nullopt;
}

}  // namespace

Bytes encode(const Failure& failure) {
  ByteWriter to;
  to.write(std::int32_t{failure.rank});
  to.write(static_cast<std::uint8_t>(failure.error.kind()));
  to.counted_text(failure.error.message());
  to.counted_text(failure.error.hint());
  return to.take();
}

std::vector<Failure> decode_failures(std::span<const std::byte> bytes) {
  ByteReader from(bytes, "failures of the ranks");
  std::vector<Failure> failures;
  while (!from.at_end()) {
    const auto rank = from.read<std::int32_t>();
    const auto kind = static_cast<ErrorKind>(from.read<std::uint8_t>());
    std::string message(from.counted_text());
    std::string hint(from.counted_text());
    failures.push_back({rank, Error(kind, std::move(message), std::move(hint))});
  }
  return failures;
}

namespace {

// Records follow each other in rank order, so that the first is the lowest rank's.
std::vector<Failure> exchange(Communicator& comm, const std::optional<Error>& mine) {
  const Bytes record = mine ? encode({comm.rank(), *mine}) : Bytes{};
  Bytes all;
  for (const Bytes& one : comm.gather(record, 0)) all.insert(all.end(), one.begin(), one.end());
  comm.broadcast(all, 0);
  return decode_failures(all);
}

}  // namespace

Error merged(std::string_view step, int size, const std::vector<Failure>& failures) {
  std::vector<RankFailure> parts;
  for (const auto& [rank, error] : failures) parts.push_back({rank, error.message()});
  const auto& [rank, first] = failures.front();
  auto message = first.message();
  if (size > 1) message += fmt::format(" (rank {} of {})", rank, size);
  Error error(first.kind(), std::move(message), first.hint());
  error.set_failures(std::string(step), std::move(parts));
  return error;
}

void on_all_ranks(std::string_view step, Communicator& comm, const std::function<void()>& body) {
  const auto mine = failure_of(body);
  if (agree(comm, mine ? 1 : 0) == 0) return;
  throw merged(step, comm.size(), exchange(comm, mine));
}

Bytes on_root(std::string_view step, Communicator& comm, int root, const std::function<Bytes()>& body) {
  Bytes bytes;
  on_all_ranks(step, comm, [&] {
    if (comm.rank() == root) bytes = body();
  });
  comm.broadcast(bytes, root);
  return bytes;
}

namespace {

constexpr int kPartTag = 990;

// The size of each rank's part, in order of ranks.
Bytes sizes_of(const std::vector<Bytes>& parts) {
  ByteWriter out;
  for (const Bytes& part : parts) out.write<std::uint64_t>(part.size());
  return out.take();
}

}  // namespace

Bytes on_root_for_each(std::string_view step, Communicator& comm, int root,
                       const std::function<std::vector<Bytes>()>& body) {
  std::vector<Bytes> parts;
  const Bytes sizes = on_root(step, comm, root, [&] {
    parts = body();
    return sizes_of(parts);
  });
  Requests requests;
  Bytes mine;
  if (comm.rank() == root) {
    for (int rank = 0; rank < comm.size(); ++rank) {
      const Bytes& part = parts[static_cast<std::size_t>(rank)];
      if (rank == root) continue;
      for_each_message(std::span(part), requests,
                       [&](auto message) { return comm.start_send(message, rank, kPartTag); });
    }
    mine = std::move(parts[static_cast<std::size_t>(root)]);
  } else {
    ByteReader in(sizes, "sizes of the parts");
    in.skip(sizeof(std::uint64_t) * static_cast<std::uint64_t>(comm.rank()));
    mine.resize(in.read<std::uint64_t>());
    for_each_message(std::span(mine), requests,
                     [&](auto message) { return comm.start_receive(message, root, kPartTag); });
  }
  for (const auto& request : requests) request->wait();
  return mine;
}

}  // namespace cairn
