// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/output_set.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "base/keyed_hash.hpp"
#include "base/text.hpp"
#include "checkpoint/destination.hpp"

namespace cairn {

void OutputSet::create(Files all, const Job& job) {
  for (const auto& [path, size] : all.wanted) made_.make(directory_for(files_, path));
  named_ = all.named;
  if (!options_.resume) {
    plain_.emplace(AtomicOutputs::create(files_, all.wanted, options_.overwrite, all.discard_leftovers));
    new_files_ = NewFile::create_all(files_, named_);
    return;
  }
  on_signal_.emplace(fmt::format("cairn: ended by a signal; the same command continues {}\n",
                                 escape_name(temporary_path_for(files_.resolve(all.wanted[0].path)))));
  resumption_.emplace(
      begin_or_continue(files_, {std::move(all.wanted), std::move(all.named), options_.overwrite,
                                 options_.sync, described(job), job.machines}));
  check_pieces_read(resumption_->before.passed, job.source);
  plan_.finished = resumption_->before.finished;
  plan_.is_complete = resumption_->before.is_complete();
}

JournalJob OutputSet::described(const Job& job) const {
  JournalJob described = describe_job(options_, plan_, job.metadata);
  described.source = job.view.resolve(plan_.directory);
  described.window_count = job.planned.windows().count();
  auto read = job.source.files();
  std::vector<std::string> names(read.begin(), read.end());
  names.insert(names.end(), job.copied.begin(), job.copied.end());
  described.shards = find_shard_times(job.view, plan_.directory, names);
  described.options.insert(described.options.end(), job.options.begin(), job.options.end());
  for (const auto& text : job.texts) described.plan_hash = stable_hash(text, described.plan_hash);
  return described;
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
  if (!resumption_) return;
  // the journal first: it tells of all of them
  if (!named_.empty() && !outputs()[0].is_shown()) {
    resumption_->journal.remove();
    for (const auto& [path, size] : named_) files_.unlink(path);
  }
  resumption_->outputs.discard();
}

void OutputSet::publish() {
  try {
    outputs().publish(options_.sync, [this] {
      for (NewFile& file : new_files_) file.outlive_signals();  // what refers to them may be there already
      if (resumption_ && !plan_.is_complete)
        resumption_->journal.add_complete(tails_of(files_, outputs(), named_));
    });
  } catch (...) {
    if (outputs()[0].is_shown()) keep();
    throw;
  }
  keep();
  on_signal_.reset();
}

void OutputSet::end_job() {
  if (resumption_) resumption_->journal.remove();
}

void OutputSet::keep() {
  std::ranges::for_each(new_files_, &NewFile::keep);
  new_files_.clear();
  made_.keep();
}

}  // namespace cairn
