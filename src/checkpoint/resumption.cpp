// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/resumption.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "base/crc32.hpp"
#include "base/fail.hpp"
#include "base/text.hpp"
#include "checkpoint/new_file.hpp"

namespace cairn {
namespace {

constexpr const char* kHint = "--overwrite without --resume discards what is there, and begins anew";
constexpr std::uint64_t kStartBytes = 4096;
constexpr const char* kBootId = "/proc/sys/kernel/random/boot_id";

// Of an AtomicOutput, or a File.
template <class Output>
std::uint32_t tail_of(Output& output) {
  const std::uint64_t size = output.status().size;
  Bytes tail(std::min(size, kTailBytes));
  output.read(size - tail.size(), tail);
  return crc32(tail);
}

std::uint32_t tail_of(FileSystem& files, const std::string& path) { return tail_of(*files.open_read(path)); }

template <class Body>
auto with_hint(Body body) {
  try {
    return body();
  } catch (Error& error) {
    if (error.kind() == ErrorKind::corrupt || error.kind() == ErrorKind::mismatch) error.add_hint(kHint);
    throw;
  }
}

class Attempt {
 public:
  Attempt(FileSystem& files, const ResumableRun& run)
      : files_(files),
        run_(run),
        job_(run.job),
        journal_path_(journal_path_for(files.resolve(run.wanted.front().path))) {
    for (const auto* wanted : {&run.wanted, &run.named}) {
      for (const auto& [path, size] : *wanted) job_.outputs.push_back({files.resolve(path), size, 0});
    }
  }

  // The lock of the main temporary comes first: it is there until all is published.
  Resumption run() {
    auto main = AtomicOutput::reopen(files_, run_.wanted.front().path, run_.overwrite);
    auto before = with_hint([&] { return read_journal(files_, journal_path_); });
    const bool is_half_begun = before && !is_begun(*before);
    if (!before || is_over(*before, main) || (is_half_begun && difference(before->job, job_).empty())) {
      check_names(is_half_begun);
      if (main) main->discard();
      return begin(is_half_begun);
    }
    return with_hint([&] { return go_on(std::move(main), std::move(*before)); });
  }

 private:
  // Nothing that the journal tells of waits for being published: it was, and the job was this one or another;
  // or somebody took it away.
  bool is_over(const JournalContent& before, const std::optional<AtomicOutput>& main) const {
    if (!before.is_complete()) return !main;
    if (main) return !is_same(main->status(), before.job.outputs.front());
    if (!difference(before.job, job_).empty()) return run_.named.empty();
    return !all_published(before);
  }

  bool is_named(std::size_t output) const { return output >= run_.wanted.size(); }

  bool all_published(const JournalContent& before) const {
    for (std::size_t i = 0; i < before.job.outputs.size(); ++i) {
      const auto& expected = before.job.outputs[i];
      if (is_named(i)) {
        if (!is_there(expected) || tail_of(files_, expected.path) != before.tails[i]) return false;
        continue;
      }
      const auto shown = AtomicOutput::reopen_shown(files_, expected.path, true);
      if (!shown || !is_same(shown->status(), expected) || tail_of(*shown) != before.tails[i]) return false;
    }
    return true;
  }

  static bool is_same(const FileStatus& found, const JournalJob::Output& expected) {
    return found.inode == expected.inode && found.size == expected.bytes;
  }

  bool is_there(const JournalJob::Output& named) const {
    const auto found = files_.status(named.path, false);
    return found && is_same(*found, named);
  }

  // Killed while the named files were made: of those it is only known that they may be there.
  static bool is_begun(const JournalContent& before) {
    return std::ranges::find(before.job.outputs, 0U, &JournalJob::Output::inode) == before.job.outputs.end();
  }

  Resumption begin(bool drop_named) {
    auto outputs = AtomicOutputs::create(files_, run_.wanted, run_.overwrite, true);
    for (std::size_t i = 0; i < outputs.size(); ++i) job_.outputs[i].inode = outputs[i].status().inode;
    auto named = create_named(drop_named);
    const SignalsHeld held;
    auto journal = JournalFile::create(files_, journal_path_, job_, run_.sync);
    outputs.keep();
    std::ranges::for_each(named, &NewFile::keep);
    if (!run_.sync) journal.add_machines(run_.machines);
    JournalContent nothing;
    nothing.job = job_;
    return {std::move(outputs), std::move(journal), std::move(nothing)};
  }

  // Names that are taken are no job's to give away. Where one was killed while it made its files, those that
  // nobody has written to are its own: a shard that holds anything begins with it.
  void check_names(bool may_drop) {
    for (const auto& [path, size] : run_.named) {
      const auto found = files_.status(path, false);
      if (!found || (may_drop && found->type == FileType::regular && is_blank(path))) continue;
      throw Error(ErrorKind::already_exists,
                  fmt::format("{}: a file is there that this job has not made", escape_name(path)), kHint);
    }
  }

  bool is_blank(const std::string& path) {
    const auto file = files_.open_read(path);
    Bytes start(std::min(file->size(), kStartBytes));
    file->read(0, start);
    return std::ranges::all_of(start, [](std::byte byte) { return byte == std::byte{0}; });
  }

  // A journal tells whose they are before the first one is made.
  std::vector<NewFile> create_named(bool drop) {
    std::vector<NewFile> made;
    if (run_.named.empty()) return made;
    check_names(drop);  // once more, with the lock
    for (const auto& [path, size] : run_.named) {
      if (drop && files_.status(path, false)) files_.unlink(path);
    }
    JournalFile::create(files_, journal_path_, job_, run_.sync);
    try {
      made = NewFile::create_all(files_, run_.named);
    } catch (Error& error) {
      if (error.kind() == ErrorKind::already_exists) error.add_hint(kHint);
      throw;
    }
    for (std::size_t i = 0; i < made.size(); ++i) {
      JournalJob::Output& output = job_.outputs[run_.wanted.size() + i];
      const auto status = files_.status(output.path, false);
      output.inode = status ? status->inode : 0;
    }
    return made;
  }

  Resumption go_on(std::optional<AtomicOutput> main, JournalContent before) {
    if (const auto changed = difference(before.job, job_); !changed.empty())
      fail(ErrorKind::mismatch, "{}: the job goes on only as it was begun: {}", escape_name(journal_path_),
           changed);
    check_machines(before);
    AtomicOutputs outputs(files_, run_.overwrite, take_up(std::move(main), before));
    check_named(before);
    check_tails(outputs, before);
    auto journal = JournalFile::reopen(files_, journal_path_, before, run_.sync);
    if (!run_.sync) journal.add_machines(run_.machines);
    return {std::move(outputs), std::move(journal), std::move(before)};
  }

  // Whoever did not sync counts on the memory of the machines that wrote.
  void check_machines(const JournalContent& before) const {
    for (const auto& machine : before.machines) {
      if (!machine.empty() && std::ranges::find(run_.machines, machine) != run_.machines.end()) continue;
      fail(ErrorKind::mismatch,
           "{}: it was begun with --no-sync on a machine that has been started anew or takes no part now: "
           "what "
           "it wrote may be lost",
           escape_name(journal_path_));
    }
  }

  std::vector<AtomicOutput> take_up(std::optional<AtomicOutput> main, const JournalContent& before) const {
    std::vector<AtomicOutput> outputs;
    for (std::size_t i = 0; i < run_.wanted.size(); ++i) {
      const auto& expected = before.job.outputs[i];
      auto output = i == 0 ? std::move(main) : AtomicOutput::reopen(files_, expected.path, run_.overwrite);
      if (output) {
        outputs.push_back(std::move(*output));
      } else if (auto shown = before.is_complete()
                                  ? AtomicOutput::reopen_shown(files_, expected.path, run_.overwrite)
                                  : std::nullopt) {
        outputs.push_back(std::move(*shown));
      } else {
        fail_missing(temporary_path_for(expected.path));
      }
      check_identity(temporary_path_for(expected.path), outputs.back().status(), expected);
    }
    return outputs;
  }

  void check_named(const JournalContent& before) const {
    for (std::size_t i = run_.wanted.size(); i < before.job.outputs.size(); ++i) {
      const auto& expected = before.job.outputs[i];
      const auto found = files_.status(expected.path, false);
      if (!found) fail_missing(expected.path);
      check_identity(expected.path, *found, expected);
    }
  }

  [[noreturn]] void fail_missing(const std::string& path) const {
    fail(ErrorKind::mismatch, "{}: this file is missing, of which {} tells", escape_name(path),
         escape_name(journal_path_));
  }

  void check_identity(const std::string& path, const FileStatus& found,
                      const JournalJob::Output& expected) const {
    if (is_same(found, expected)) return;
    fail(
        ErrorKind::mismatch,
        "{}: {} bytes, inode {}, but {} tells of {} bytes, inode {}: another file is in its place, or a copy",
        escape_name(path), found.size, found.inode, escape_name(journal_path_), expected.bytes,
        expected.inode);
  }

  void check_tails(const AtomicOutputs& outputs, const JournalContent& before) const {
    if (!before.is_complete() || tails_of(files_, outputs, run_.named) == before.tails) return;
    fail(ErrorKind::mismatch, "{}: an output does not end as this journal tells", escape_name(journal_path_));
  }

  FileSystem& files_;
  const ResumableRun& run_;
  JournalJob job_;
  const std::string journal_path_;
};

}  // namespace

std::string this_machine() {
  try {
    const auto file = posix_file_system().open_read(kBootId);
    Bytes id(36);
    file->read(0, id);
    return std::string(as_text(id));
  } catch (const Error&) {
    return {};
  }
}

bool has_journal(FileSystem& files, const std::string& file) {
  try {
    return files.status(journal_path_for(files.resolve(file)), false).has_value();
  } catch (const Error&) {  // its directory is missing
    return false;
  }
}

std::vector<std::uint32_t> tails_of(FileSystem& files, const AtomicOutputs& outputs,
                                    std::span<const AtomicOutputs::Wanted> named) {
  std::vector<std::uint32_t> tails;
  for (std::size_t i = 0; i < outputs.size(); ++i) tails.push_back(tail_of(outputs[i]));
  for (const auto& [path, size] : named) tails.push_back(tail_of(files, path));
  return tails;
}

void remove_journal(FileSystem& files, const std::string& file) {
  try {
    files.unlink(journal_path_for(files.resolve(file)));
  } catch (const Error&) {  // the next run finds that all is done
  }
}

Resumption begin_or_continue(FileSystem& files, const ResumableRun& run) { return Attempt(files, run).run(); }

}  // namespace cairn
