// SPDX-License-Identifier: BSD-3-Clause
#include "cairn/async_save.hpp"

#include "base/byte_writer.hpp"
#include "base/fail.hpp"
#include "checkpoint/background_save.hpp"
#include "checkpoint/save_publish.hpp"
#include "parallel/agree.hpp"

namespace cairn {
namespace {

using Clock = BackgroundSave::Clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// A save of one directory.
class OneSave final : public BackgroundSave {
 public:
  OneSave(FileSystem& files, std::shared_ptr<SaveReport> report, Clock::time_point start)
      : BackgroundSave(files), report_(std::move(report)), start_(start) {}

  std::optional<Error> conclude(const std::vector<Bytes>& results) override {
    const Results all = read_results(results);
    OpenedSave& save = parts().front().save;
    save.report.peak_rss_bytes = all.peak_rss_bytes;
    return publish_save(save, all.written.front());
  }
  Bytes summary() override {
    SaveReport& report = parts().front().save.report;
    report.seconds = seconds_since(start_);
    return encode_summary(report);
  }
  void keep(std::span<const std::byte> summary) override {
    keep_all();
    *report_ = parts().front().save.report;
    if (!summary.empty()) decode_summary(summary, *report_);
  }

 private:
  std::shared_ptr<SaveReport> report_;
  Clock::time_point start_;
};

const Error& skipped() {
  static const Error error(ErrorKind::invalid_argument,
                           "the save was skipped: an earlier one was still under way");
  return error;
}

}  // namespace

bool SaveHandle::poll() { return is_skipped() || run_->poll(); }

const Error* SaveHandle::error() {
  if (is_skipped()) return &skipped();
  return run_->poll() && run_->error() ? &*run_->error() : nullptr;
}

void SaveHandle::finish() {
  if (!is_skipped()) run_->wait();
  if (const Error* failure = error()) throw Error(*failure);
}

struct AsyncSaver::Saving {
  explicit Saving(Communicator& comm) : background(comm) {}

  SavePlans plans;
  Pool<std::byte> room;
  Background background;  // goes first
};

AsyncSaver::AsyncSaver(Communicator& comm, FileSystem& files, const AsyncSaveOptions& options)
    : comm_(comm.duplicate()), files_(files), options_(options), saving_(std::make_unique<Saving>(*comm_)) {
  require_equal_policies(*comm_, options.while_saving);
}

AsyncSaver::~AsyncSaver() = default;

AsyncSave AsyncSaver::save(const LiveState& state, const std::string& directory, const SaveOptions& options) {
  const auto start = Clock::now();
  const auto report = std::make_shared<SaveReport>();
  if (!admit(*comm_, saving_->background, options_.while_saving)) return {nullptr, {}, report};
  auto work = std::make_unique<OneSave>(files_, report, start);
  work->add(open_save(*comm_, files_, saving_->plans, state, directory, options), state);
  auto [run, staging] =
      stage_and_start(saving_->background, std::move(work), saving_->room, options_.staging_bytes, start);
  return {std::move(run), staging, report};
}

}  // namespace cairn
