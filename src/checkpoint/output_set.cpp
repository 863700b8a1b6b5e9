// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/output_set.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "base/keyed_hash.hpp"
#include "base/text.hpp"
#include "checkpoint/destination.hpp"

namespace cairn {

void OutputSet::create(std::vector<AtomicOutputs::Wanted> wanted, const Job& job) {
  for (const auto& [path, size] : wanted) made_.make(directory_for(files_, path));
  if (!options_.resume) {
    plain_.emplace(AtomicOutputs::create(files_, wanted, options_.overwrite));
    return;
  }
  JournalJob described = describe_job(options_, plan_, job.metadata);
  described.source = job.view.resolve(plan_.directory);
  described.window_count = job.planned.windows().count();
  described.shards = find_shard_times(job.view, plan_.directory, job.source);
  described.options.insert(described.options.end(), job.options.begin(), job.options.end());
  for (const auto& text : job.texts) described.plan_hash = stable_hash(text, described.plan_hash);
  on_signal_.emplace(fmt::format("cairn: ended by a signal; the same command continues {}\n",
                                 escape_name(temporary_path_for(files_.resolve(wanted[0].path)))));
  resumption_.emplace(begin_or_continue(
      files_, {std::move(wanted), options_.overwrite, options_.sync, std::move(described), job.machines}));
  check_pieces_read(resumption_->before.passed, job.source);
  plan_.finished = resumption_->before.finished;
  plan_.is_complete = resumption_->before.is_complete();
}

bool OutputSet::may_be_there(std::span<const std::string> mains) const {
  return options_.resume &&
         std::ranges::any_of(mains, [this](const std::string& main) { return has_journal(files_, main); });
}

const PassedBytes& OutputSet::passed_before() const {
  static const PassedBytes nothing;
  return resumption_ ? resumption_->before.passed : nothing;
}

void OutputSet::start_anew() {
  if (resumption_) resumption_->outputs.discard();
}

void OutputSet::publish() {
  outputs().publish(options_.sync, [this] {
    if (resumption_ && !plan_.is_complete) resumption_->journal.add_complete(tails_of(outputs()));
  });
  made_.keep();
  if (resumption_) resumption_->journal.remove();
  on_signal_.reset();
}

}  // namespace cairn
