// SPDX-License-Identifier: BSD-3-Clause
#include <chrono>
#include <limits>
#include <utility>

#include "base/fail.hpp"
#include "checkpoint/background_save.hpp"
#include "checkpoint/iteration_output.hpp"
#include "checkpoint/retention.hpp"
#include "checkpoint/save_publish.hpp"
#include "checkpoint/training_arguments.hpp"
#include "checkpoint/training_saving.hpp"
#include "checkpoint/training_wire.hpp"
#include "formats/layout/iteration_names.hpp"
#include "formats/layout/training_tree.hpp"
#include "parallel/agree.hpp"

namespace cairn {
namespace {

constexpr int kRoot = 0;
constexpr std::int64_t kMostIterations = std::numeric_limits<std::int64_t>::max();

using Clock = std::chrono::steady_clock;

void check_iteration(std::int64_t iteration) {
  if (iteration < 0 || iteration == kMostIterations)
    fail(ErrorKind::invalid_argument, "{} is no number of an iteration", iteration);
}

// Collective.
void check_save(Communicator& comm, std::int64_t iteration, const std::vector<std::string>& names) {
  ByteWriter arguments;
  arguments.write(iteration);
  write_texts(arguments, names);
  require_equal(comm, "saving an iteration", arguments.take());
  on_all_ranks("comparing the arguments", comm, [&] {
    check_iteration(iteration);
    check_names(names);
  });
}

// What rank 0 alone knows of an iteration.
Bytes encode_summary(const IterationReport& report) {
  ByteWriter out;
  write_texts(out, report.removed);
  write_texts(out, report.warnings);
  out.write(report.seconds);
  return out.take();
}

void decode_summary(std::span<const std::byte> bytes, IterationReport& report) {
  ByteReader in(bytes, "summary of an iteration");
  report.removed = read_texts(in);
  report.warnings = read_texts(in);
  report.seconds = in.read<double>();
}

// What there is to say about a removal, for a job that goes on.
void add_warnings(const PruneReport& pruned, std::vector<std::string>& warnings) {
  const auto add = [&](const std::vector<PassedIteration>& passed, std::string_view what) {
    for (const auto& [path, reason] : passed)
      warnings.push_back(fmt::format("{}: {}: {}", path, what, reason));
  };
  add(pruned.in_use, "is not removed");
  add(pruned.failed, "could not be removed");
  add(pruned.broken, "is not complete");
  warnings.insert(warnings.end(), pruned.warnings.begin(), pruned.warnings.end());
}

/// An iteration's save on its way.
struct OpenIteration {
  std::unique_ptr<IterationOutput> output;  // the coordinator's
  std::string part;
  IterationReport report;
};

// Collective.
OpenIteration open_iteration(Communicator& comm, FileSystem& files, const std::string& directory,
                             std::int64_t iteration, const TrainingOptions& options) {
  OpenIteration open;
  const Bytes places = on_root("opening the iteration", comm, kRoot, [&] {
    open.output = std::make_unique<IterationOutput>(files, directory, iteration, options.save.sync,
                                                    open.report.warnings);
    ByteWriter out;
    out.counted_text(open.output->path());
    out.counted_text(open.output->part());
    return out.take();
  });
  ByteReader in(places, "places of an iteration");
  open.report.path = in.counted_text();
  open.part = in.counted_text();
  return open;
}

SaveOptions options_of(const TrainingOptions& options, const OpenIteration& open, const std::string& name) {
  SaveOptions save = options.save;
  save.checkpoint_id = layout::joined(open.report.path, name);
  return save;
}

// A component of the iteration has been saved.
void add_component(IterationReport& report, const std::string& name, SaveReport saved) {
  saved.path = layout::joined(report.path, name);
  report.warnings.insert(report.warnings.end(), saved.warnings.begin(), saved.warnings.end());
  report.components.emplace_back(name, std::move(saved));
}

void remove_old(FileSystem& files, const std::string& directory, const TrainingOptions& options,
                IterationReport& report) {
  if (options.retention.keep_last == 0) return;
  try {
    const auto pruned = prune_directory(files, directory, options.retention,
                                        {.sync = options.save.sync, .judges_all = false});
    report.removed = pruned.removed;
    add_warnings(pruned, report.warnings);
  } catch (const Error& error) {  // the iteration is there
    report.warnings.push_back(fmt::format("{}: nothing old is removed: {}", directory, error.message()));
  }
}

/// All components of an iteration in the background.
class IterationSave final : public BackgroundSave {
 public:
  IterationSave(FileSystem& files, std::string directory, const TrainingOptions& options,
                std::vector<std::string> names, std::shared_ptr<IterationReport> report)
      : BackgroundSave(files),
        files_(files),
        directory_(std::move(directory)),
        options_(options),
        names_(std::move(names)),
        report_(std::move(report)) {}
  ~IterationSave() override { parts().clear(); }  // before what they lie in

  const OpenIteration& open(OpenIteration open) { return open_ = std::move(open); }

  std::string_view concluding() const override { return "publishing the iteration"; }
  std::optional<Error> conclude(const std::vector<Bytes>& results) override {
    publish_components(read_results(results));
    try {
      open_.output->publish(open_.report.warnings);
    } catch (...) {
      if (!open_.output->is_published()) throw;
      return current_error();
    }
    remove_old_quietly();
    return std::nullopt;
  }
  Bytes summary() override {
    open_.report.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    ByteWriter out;
    for (Part& part : parts()) out.counted_text(as_text(encode_summary(part.save.report)));
    out.append(encode_summary(open_.report));
    return out.take();
  }
  void keep(std::span<const std::byte> summary) override {
    keep_all();
    if (summary.empty()) return;
    ByteReader in(summary, "summary of the components");
    for (std::size_t i = 0; i < names_.size(); ++i) {
      SaveReport& saved = parts()[i].save.report;
      decode_summary(as_bytes(in.counted_text()), saved);
      add_component(open_.report, names_[i], saved);
    }
    decode_summary(in.bytes(in.remaining()), open_.report);
    *report_ = open_.report;
  }

 private:
  // What has been published stands, whatever comes.
  void remove_old_quietly() {
    try {
      remove_old(files_, directory_, options_, open_.report);
    } catch (const std::exception&) {  // a lack of memory: they go with the next save
    }
  }

  void publish_components(const Results& all) {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      OpenedSave& save = parts()[i].save;
      if (const auto error = publish_save(save, all.written[i])) throw Error(*error);
      save.output.reset();
      save.report.peak_rss_bytes = all.peak_rss_bytes;
      save.report.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
      open_.report.warnings.insert(open_.report.warnings.end(), save.report.warnings.begin(),
                                   save.report.warnings.end());
    }
  }

  FileSystem& files_;
  const std::string directory_;
  const TrainingOptions options_;
  const std::vector<std::string> names_;
  std::shared_ptr<IterationReport> report_;
  Clock::time_point start_ = Clock::now();
  OpenIteration open_;
};

}  // namespace

IterationReport TrainingCheckpoints::save(std::int64_t iteration,
                                          const std::vector<SavedComponent>& components) {
  const auto start = Clock::now();
  saving_->finish();
  check_save(*comm_, iteration, names_of(components));
  OpenIteration open = open_iteration(*comm_, files_, directory_, iteration, options_);
  for (const auto& [name, state] : components)
    add_component(open.report, name,
                  save_with(*comm_, files_, saving_->plans[name], state, layout::joined(open.part, name),
                            options_of(options_, open, name)));
  const Bytes summary = on_root("publishing the iteration", *comm_, kRoot, [&] {
    open.output->publish(open.report.warnings);
    remove_old(files_, directory_, options_, open.report);
    open.report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    return encode_summary(open.report);
  });
  decode_summary(summary, open.report);
  return open.report;
}

AsyncIteration TrainingCheckpoints::start_save(std::int64_t iteration,
                                               const std::vector<SavedComponent>& components) {
  const auto start = Clock::now();
  const auto report = std::make_shared<IterationReport>();
  if (!saving_->background) saving_->background.emplace(*comm_);
  if (!admit(*comm_, *saving_->background, options_.async.while_saving)) return {nullptr, {}, report};
  const auto names = names_of(components);
  check_save(*comm_, iteration, names);
  auto work = std::make_unique<IterationSave>(files_, directory_, options_, names, report);
  const auto& open = work->open(open_iteration(*comm_, files_, directory_, iteration, options_));
  for (const auto& [name, state] : components)
    work->add(open_save(*comm_, files_, saving_->plans[name], state, layout::joined(open.part, name),
                        options_of(options_, open, name)),
              state);
  auto [run, staging] = stage_and_start(*saving_->background, std::move(work), saving_->room,
                                        options_.async.staging_bytes, start);
  return {std::move(run), staging, report};
}

}  // namespace cairn
