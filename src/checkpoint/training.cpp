// SPDX-License-Identifier: BSD-3-Clause
#include "cairn/training.hpp"

#include <algorithm>
#include <chrono>
#include <limits>

#include "base/fail.hpp"
#include "base/text.hpp"
#include "checkpoint/iteration_output.hpp"
#include "checkpoint/resume_choice.hpp"
#include "checkpoint/retention.hpp"
#include "checkpoint/training_wire.hpp"
#include "formats/layout/iteration_names.hpp"
#include "formats/layout/training_tree.hpp"
#include "parallel/agree.hpp"

namespace cairn {
namespace {

constexpr int kRoot = 0;
constexpr std::int64_t kMostIterations = std::numeric_limits<std::int64_t>::max();

using Clock = std::chrono::steady_clock;

// Collective: all ranks pass what rank 0 passes.
void require_equal(Communicator& comm, std::string_view what, const Bytes& mine) {
  const Bytes first = on_root("comparing the arguments", comm, kRoot, [&] { return mine; });
  on_all_ranks("comparing the arguments", comm, [&] {
    if (mine != first) fail(ErrorKind::invalid_argument, "{}: the arguments are not those of rank 0", what);
  });
}

template <class Component>
std::vector<std::string> names_of(const std::vector<Component>& components) {
  std::vector<std::string> names;
  for (const Component& component : components) names.push_back(component.name);
  return names;
}

void check_names(const std::vector<std::string>& names) {
  if (names.empty()) fail(ErrorKind::invalid_argument, "no component is given");
  for (auto name = names.begin(); name != names.end(); ++name) {
    if (!layout::is_plain_name(*name) || name->starts_with('.') || layout::is_iteration_name(*name))
      fail(ErrorKind::invalid_argument, "'{}' is no name for a component's directory", escape_name(*name));
    if (std::find(names.begin(), name, *name) != name)
      fail(ErrorKind::invalid_argument, "two components are called '{}'", escape_name(*name));
  }
}

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

}  // namespace

TrainingCheckpoints::TrainingCheckpoints(Communicator& comm, FileSystem& files, std::string directory,
                                         TrainingOptions options)
    : comm_(comm.duplicate()), files_(files), directory_(std::move(directory)), options_(std::move(options)) {
  ByteWriter mine;
  mine.counted_text(directory_);
  mine.write(options_.retention.keep_last);
  mine.write(options_.retention.keep_every);
  require_equal(*comm_, "training checkpoints", mine.take());
  on_all_ranks("checking the options", *comm_, [&] {
    if (directory_.empty()) fail(ErrorKind::invalid_argument, "training checkpoints: an empty path");
    if (options_.save.overwrite)
      fail(ErrorKind::invalid_argument, "training checkpoints: an iteration is never overwritten");
    if (options_.retention.keep_last < 0 || options_.retention.keep_every < 0)
      fail(ErrorKind::invalid_argument, "training checkpoints: a negative number to keep");
  });
}

TrainingCheckpoints::~TrainingCheckpoints() = default;

Saver& TrainingCheckpoints::saver_of(const std::string& component) {
  auto& saver = savers_[component];
  if (!saver) saver = std::make_unique<Saver>(*comm_, files_);
  return *saver;
}

IterationReport TrainingCheckpoints::save(std::int64_t iteration,
                                          const std::vector<SavedComponent>& components) {
  const auto start = Clock::now();
  check_save(*comm_, iteration, names_of(components));
  IterationReport report;
  std::optional<IterationOutput> output;  // the coordinator's
  const Bytes places = on_root("opening the iteration", *comm_, kRoot, [&] {
    output.emplace(files_, directory_, iteration, options_.save.sync, report.warnings);
    ByteWriter out;
    out.counted_text(output->path());
    out.counted_text(output->part());
    return out.take();
  });
  ByteReader in(places, "places of an iteration");
  report.path = in.counted_text();
  save_components(components, std::string(in.counted_text()), report);
  const Bytes summary = on_root("publishing the iteration", *comm_, kRoot, [&] {
    output->publish(report.warnings);
    remove_old(report);
    report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    return encode_summary(report);
  });
  decode_summary(summary, report);
  return report;
}

void TrainingCheckpoints::save_components(const std::vector<SavedComponent>& components,
                                          const std::string& part, IterationReport& report) {
  for (const auto& [name, state] : components) {
    SaveOptions save = options_.save;
    save.checkpoint_id = layout::joined(report.path, name);
    auto saved = saver_of(name).save(state, layout::joined(part, name), save);
    saved.path = save.checkpoint_id;
    report.warnings.insert(report.warnings.end(), saved.warnings.begin(), saved.warnings.end());
    report.components.emplace_back(name, std::move(saved));
  }
}

void TrainingCheckpoints::remove_old(IterationReport& report) {
  if (options_.retention.keep_last == 0) return;
  try {
    const auto pruned = prune_directory(files_, directory_, options_.retention,
                                        {.sync = options_.save.sync, .judges_all = false});
    report.removed = pruned.removed;
    add_warnings(pruned, report.warnings);
  } catch (const Error& error) {  // the iteration is there
    report.warnings.push_back(fmt::format("{}: nothing old is removed: {}", directory_, error.message()));
  }
}

ResumeReport TrainingCheckpoints::resume(const std::vector<LoadedComponent>& components,
                                         const ResumeOptions& options) {
  const auto names = names_of(components);
  ByteWriter arguments;
  write_texts(arguments, names);
  arguments.counted_text(options.start_from);
  arguments.write(std::uint8_t{options.load_training_state});
  require_equal(*comm_, "resuming", arguments.take());
  on_all_ranks("comparing the arguments", *comm_, [&] { check_names(names); });

  std::optional<ResumeChooser> chooser;  // the coordinator's; it holds the pins
  const ResumeChoice choice = ResumeChoice::decode(on_root("choosing an iteration", *comm_, kRoot, [&] {
    chooser.emplace(files_, names, options);
    return chooser->choose(directory_).encode();
  }));
  ResumeReport report;
  report.path = choice.path;
  report.iteration = choice.iteration;
  report.is_own = choice.is_own;
  report.skipped = choice.skipped;
  report.warnings = choice.warnings;
  for (const auto& [name, path] : choice.sources) {
    const auto wanted = std::ranges::find(components, name, &LoadedComponent::name);
    report.components.emplace_back(
        name, load(*comm_, files_, path, wanted->state, choice.is_own ? options.load : options.start));
  }
  return report;
}

}  // namespace cairn
