// SPDX-License-Identifier: BSD-3-Clause
#include "cairn/training.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "checkpoint/resume_choice.hpp"
#include "checkpoint/training_arguments.hpp"
#include "checkpoint/training_saving.hpp"
#include "checkpoint/training_wire.hpp"
#include "parallel/agree.hpp"

namespace cairn {
namespace {

constexpr int kRoot = 0;

}  // namespace

TrainingCheckpoints::TrainingCheckpoints(Communicator& comm, FileSystem& files, std::string directory,
                                         TrainingOptions options)
    : comm_(comm.duplicate()),
      files_(files),
      directory_(std::move(directory)),
      options_(std::move(options)),
      saving_(std::make_unique<Saving>()) {
  ByteWriter mine;
  mine.counted_text(directory_);
  mine.write(options_.retention.keep_last);
  mine.write(options_.retention.keep_every);
  mine.write(static_cast<std::uint8_t>(options_.async.while_saving));
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

ResumeReport TrainingCheckpoints::resume(const std::vector<LoadedComponent>& components,
                                         const ResumeOptions& options) {
  saving_->finish();
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
