// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/source_access.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "parallel/agree.hpp"

namespace cairn {

SourceAccess::SourceAccess(Communicator& comm, RunWatch& watch, std::uint64_t max_memory)
    : comm_(comm),
      watch_(watch),
      own_(watch.files()),
      requests_(
          static_cast<int>(std::clamp<std::uint64_t>(max_memory / kMostAnswerBytes, 1, kMostRequests))) {}

SourceAccess::~SourceAccess() = default;

void SourceAccess::assign(const std::string& directory, std::vector<GatheredFile> gathered, Readers readers) {
  directory_ = directory;
  gathered_ = std::move(gathered);
  owners_.clear();
  for (const auto& file : gathered_) {
    if (file.owner != 0) owners_.push_back(file.owner);
  }
  std::ranges::sort(owners_);
  const auto repeated = std::ranges::unique(owners_);
  owners_.erase(repeated.begin(), repeated.end());

  all_read_ = readers == Readers::all && comm_.size() > 1;
  view_.reset();
  if (owners_.empty() && !all_read_) return;
  if (!private_comm_) private_comm_ = comm_.duplicate();
  cache_.emplace(own_);
  if (!is_root() && !all_read_) return;
  reads_.emplace(*private_comm_, requests_, devices_.link);
  view_.emplace(own_, directory_, gathered_, comm_.rank(),
                [this](std::uint32_t file, std::uint64_t byte_offset, std::span<std::byte> into) {
                  const Activity::Running reading(watch_.activity(), "reading over there",
                                                  gathered_[file].name);
                  reads_->read(gathered_[file].owner, file, byte_offset, into);
                });
}

FileSystem& SourceAccess::files() {
  if (view_) return *view_;
  return own_;
}

void SourceAccess::run(std::string_view step, const std::function<void()>& body) {
  on_all_ranks(step, comm_, [&] {
    if (owners_.empty()) {
      if (is_root()) watch_.work(body);
    } else if (is_root()) {
      coordinate(body);
    } else if (std::ranges::binary_search(owners_, comm_.rank())) {
      serve();
    }
  });
}

Bytes SourceAccess::on_coordinator(std::string_view step, const std::function<Bytes()>& body) {
  Bytes bytes;
  run(step, [&] { bytes = body(); });
  comm_.broadcast(bytes, 0);
  return bytes;
}

void SourceAccess::coordinate(const std::function<void()>& body) {
  const auto dismiss_all = [this](std::optional<int> failed, const Error* error) {
    for (const int rank : owners_) reads_->dismiss(rank, failed == rank ? error : nullptr);
  };
  try {
    reads_->run(body);
  } catch (const Error& error) {
    auto failed = reads_->origin(error);
    if (!failed) failed = owner_of_fault(error);
    dismiss_all(failed, &error);
    if (!failed) throw;
    return;  // the rank that failed throws it
  } catch (...) {
    dismiss_all(std::nullopt, nullptr);
    throw;
  }
  dismiss_all(std::nullopt, nullptr);
}

void SourceAccess::run_on_all(std::string_view step, const std::function<void()>& body) {
  on_all_ranks(step, comm_, [&] {
    if (!all_read_) return watch_.work(body);
    reads_->run_on_all(body, std::bind_front(&SourceAccess::read_own, this));
  });
}

void SourceAccess::serve() {
  serve_reads(*private_comm_, requests_, std::bind_front(&SourceAccess::read_own, this), devices_);
}

void SourceAccess::read_own(std::uint32_t file, std::uint64_t byte_offset, std::span<std::byte> into) {
  cache_->open(directory_ + "/" + gathered_[file].name)->read(byte_offset, into);
}

// Damage is found by the coordinator; whoever looks for the file must know on which rank's disk it is.
std::optional<int> SourceAccess::owner_of_fault(const Error& error) const {
  if (error.kind() != ErrorKind::corrupt) return std::nullopt;
  for (const auto& file : gathered_) {
    if (file.owner != 0 &&
        error.message().find(" in " + escape_name(file.name) + " at byte ") != std::string::npos) {
      return file.owner;
    }
  }
  return std::nullopt;
}

}  // namespace cairn
