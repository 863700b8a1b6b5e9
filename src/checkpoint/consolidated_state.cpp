// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/consolidated_state.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "base/text.hpp"
#include "pickle/globals.hpp"

namespace cairn {
namespace {

class StateMaker {
 public:
  StateMaker(CheckpointSource& source, const OutputCatalog* chosen, const ConsolidateOptions& options,
             const std::string& file, std::uint64_t metadata_bytes)
      : source_(source),
        chosen_(chosen),
        catalog_(chosen == nullptr ? source.catalog() : chosen->catalog),
        options_(options),
        file_(file),
        metadata_bytes_(metadata_bytes) {}

  ConsolidatedState run() {
    main_.flat = others_.flat = options_.flat;
    main_.integer_keys = others_.integer_keys = source_.integer_keys();
    objects_.resize(catalog_.objects().size());
    for (std::uint32_t i = 0; i < catalog_.entries().size(); ++i) sort(i);
    state_.main = made(main_);
    if (!others_.entries.empty()) state_.unsafe_objects = made(others_);
    if (state_.main.tensors != catalog_.tensors().size()) {
      fail(ErrorKind::mismatch, "{} tensors would be written, {} expected", state_.main.tensors,
           catalog_.tensors().size());
    }
    return std::move(state_);
  }

 private:
  // Into which file an entry goes, if any.
  void sort(std::uint32_t index) {
    const Entry& entry = catalog_.entries()[index];
    if (entry.is_tensor)
      main_.entries.push_back(index);
    else if (options_.objects == ObjectPolicy::drop)
      state_.skipped.push_back(
          fmt::format("'{}': an object, and none are to be written", escape_name(catalog_.name(entry))));
    else
      (is_for_main(entry) ? main_ : others_).entries.push_back(index);
  }

  bool is_for_main(const Entry& entry) {
    const pickle::Value value = objects_[entry.index] =
        source_.read_object(arena_, source_object(entry.index));
    const auto parts = pickle::unsafe_parts(arena_, value);
    if (parts.empty()) return true;
    const bool apart = options_.objects == ObjectPolicy::safe;
    std::string text;
    for (const auto& part : parts) text += (text.empty() ? "" : ", ") + escape_name(part);
    state_.warnings.push_back(fmt::format(
        "'{}' needs {}: {} opens with torch.load(weights_only=False) only", escape_name(catalog_.name(entry)),
        text, apart ? "it goes into " + escape_name(objects_path_for(file_)) + ", which" : "the file"));
    return !apart;
  }

  FileState made(const torch_file::StateShape& shape) {
    FileState made;
    const auto find_storage = [&](std::uint32_t object, pickle::Value id) {
      return source_.find_storage(arena_, id, source_object(object));
    };
    static_cast<torch_file::StatePickle&>(made) =
        torch_file::pickle_state(catalog_, shape, arena_, objects_, metadata_bytes_, find_storage);
    made.tensors =
        static_cast<std::uint64_t>(std::ranges::count_if(made.storages, &RecordContent::is_tensor));
    made.objects = shape.entries.size() - made.tensors;
    made.entries = shape.entries;
    if (chosen_ == nullptr) return made;
    for (RecordContent& content : made.storages) {
      if (content.is_tensor) content.tensor = chosen_->tensors[content.tensor];
    }
    return made;
  }

  const ObjectInfo& source_object(std::uint32_t index) const {
    return source_.catalog().objects()[chosen_ == nullptr ? index : chosen_->objects[index]];
  }

  CheckpointSource& source_;
  const OutputCatalog* chosen_;
  const Catalog& catalog_;
  const ConsolidateOptions& options_;
  const std::string& file_;
  const std::uint64_t metadata_bytes_;
  pickle::Arena arena_;
  std::vector<pickle::Value> objects_;
  torch_file::StateShape main_, others_;
  ConsolidatedState state_;
};

}  // namespace

std::string objects_path_for(const std::string& file) { return file + ".objects.pth"; }

ConsolidatedState consolidate_state(CheckpointSource& source, const OutputCatalog* chosen,
                                    const ConsolidateOptions& options, const std::string& file,
                                    std::uint64_t metadata_bytes) {
  return StateMaker(source, chosen, options, file, metadata_bytes).run();
}

}  // namespace cairn
