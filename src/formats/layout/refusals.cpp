// SPDX-License-Identifier: BSD-3-Clause
#include "formats/layout/refusals.hpp"

#include <algorithm>
#include <string_view>

#include "base/fail.hpp"
#include "formats/dcp/rank_metadata.hpp"
#include "formats/layout/companions.hpp"
#include "formats/layout/file_kind.hpp"

namespace cairn::layout {
namespace {

constexpr ErrorKind kUnsupported = ErrorKind::unsupported;

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

bool is_shard(std::string_view name) { return name.ends_with(".distcp"); }

// "model_0.pt"
bool is_item_of_rank(std::string_view name) {
  if (!name.ends_with(".pt")) return false;
  const auto stem = name.substr(0, name.size() - 3);
  return stem.rfind('_') != stem.npos && is_number(stem.substr(stem.rfind('_') + 1));
}

bool is_torch_name(std::string_view name) {
  return name.ends_with(".pt") || name.ends_with(".pth") || name.ends_with(".ckpt") || name.ends_with(".bin");
}

bool is_deepspeed_name(std::string_view name) {
  return name.find("zero_pp_rank_") != name.npos || name.starts_with("global_step");
}

// As a save with use_collectives=False names them.
bool is_metadata_of_rank(std::string_view name) { return dcp::metadata_rank(name).has_value(); }

void refuse_unfinished(const Folder& folder, std::string_view journal) {
  fail(kUnsupported,
       "{} holds what a run with --resume has begun and not finished ({}): the same command continues it",
       folder.path(), journal);
}

void refuse_lost_metadata(const Folder& folder) {
  constexpr std::string_view journal = "..metadata.cairn-journal";
  if (folder.has_file(journal)) refuse_unfinished(folder, journal);
  const auto shard = folder.first(is_shard);
  if (folder.first([](std::string_view name) { return name == ".metadata.tmp"; }) == ".metadata.tmp") {
    fail(kUnsupported,
         "{} is a DCP directory whose save did not finish: it has a .metadata.tmp and no .metadata; use an "
         "older checkpoint",
         folder.path());
  }
  if (shard.empty()) return;
  if (const auto name = folder.first(is_metadata_of_rank); !name.empty()) {
    fail(kUnsupported,
         "{} has the metadata of single ranks ({}, …) but not __0.metadata: the save did not finish or the "
         "file "
         "was lost",
         folder.path(), name);
  }
  fail(kUnsupported,
       "{} has shards ({}, …) but no .metadata: the save did not finish or the file was lost, and without it "
       "nothing says which tensors the shards make up",
       folder.path(), shard);
}

void refuse_other_kinds(const Folder& folder) {
  const auto& path = folder.path();
  if (folder.has_file("metadata.pkl") && !folder.first(is_item_of_rank).empty()) {
    fail(kUnsupported,
         "{} is a torch_checkpointing directory (metadata.pkl beside one .pt file an item and rank); Cairn "
         "does not read this kind",
         path);
  }
  if (const auto name = folder.first(is_deepspeed_name); !name.empty()) {
    fail(kUnsupported, "{} is a DeepSpeed checkpoint ({}, …); Cairn does not read this kind", path, name);
  }
  if (is_megatron(folder)) {
    companion_of(folder);  // names another backend
    fail(kUnsupported, "{} is a Megatron checkpoint without a .metadata; Cairn does not read this kind",
         path);
  }
  if (folder.has_file(kLightningFile) && folder.count(is_torch_name) == 1) {
    fail(kUnsupported, "{} has the meta.pt of a Lightning sharded checkpoint, but no .metadata", path);
  }
}

}  // namespace

void refuse_look_alikes(const Folder& folder) {
  const auto& path = folder.path();
  // The class of the pickled object is the first thing named in it.
  if (folder.head(".metadata", 512).find("bytecheckpoint") != std::string::npos) {
    fail(kUnsupported,
         "{} is a ByteCheckpoint directory: its .metadata and .distcp files are not those of PyTorch, and "
         "Cairn does not read them",
         path);
  }
}

void refuse_other_sharded(const Folder& folder) {
  refuse_other_kinds(folder);
  refuse_lost_metadata(folder);
}

void refuse_plain_files(const Folder& folder) {
  const auto is_journal = [](std::string_view name) {
    return name.starts_with('.') && name.ends_with(".cairn-journal");
  };
  if (const auto journal = folder.first(is_journal); !journal.empty()) refuse_unfinished(folder, journal);
  const auto is_safetensors = [](std::string_view name) { return name.ends_with(".safetensors"); };
  if (const auto name = folder.first(is_safetensors); !name.empty()) {
    fail(
        kUnsupported,
        "{0} holds {1} safetensors files ({2}, …) and no index that says which of them make up a checkpoint; "
        "pass one of the files, e.g. {0}/{2}",
        folder.path(), folder.count(is_safetensors), name);
  }
  if (const auto name = folder.first(is_torch_name); !name.empty()) {
    fail(
        kUnsupported,
        "{0} holds torch files ({1}, …) but no .metadata: it is not a DCP checkpoint; pass one of the files, "
        "e.g. {0}/{1}",
        folder.path(), name);
  }
}

void refuse_file(FileSystem& files, const std::string& path) {
  const auto slash = path.rfind('/');
  const auto directory =
      slash == path.npos ? std::string(".") : path.substr(0, std::max<std::size_t>(slash, 1));
  const auto name = path.substr(slash == path.npos ? 0 : slash + 1);
  const auto beside = files.status(joined(directory, ".metadata"));
  if (beside && beside->type == FileType::regular && (is_shard(name) || name == ".metadata")) {
    fail(kUnsupported, "{} is one file of a DCP directory; pass {}", path, directory);
  }
  const auto kind = file_kind(files, path);
  if (kind == "a safetensors file")
    fail(kUnsupported, "{} is one file of a directory in Hugging Face's DCP format; pass {}", path,
         directory);
  if (kind.empty())
    fail(kUnsupported,
         "{} is no checkpoint that Cairn knows; a DCP directory, torch file or safetensors file is needed",
         path);
  fail(kUnsupported, "{} is {}; Cairn reads DCP directories, torch files and safetensors files only", path,
       kind);
}

}  // namespace cairn::layout
