// SPDX-License-Identifier: BSD-3-Clause
// A job that loads a directory which real torch wrote (tests/interop/run_load.py).
//   load_job DIRECTORY OUT rows|columns|replicated|all|saved…
// For each layout, in OUT/LAYOUT, which is there: each rank writes R.bin, the elements that it got of each
// tensor, in the order of the metadata; rank 0 also object.I, what torch.save makes of object I, and objects,
// their names. saved: rows, and the ranks save them again, under the same names and paths, in
// OUT/saved/checkpoint.
#include <cstdio>
#include <deque>
#include <fstream>
#include <string>

#include "cairn/checkpoint.hpp"
#include "cairn/load.hpp"
#include "cairn/mpi.hpp"
#include "cairn/save.hpp"
#include "formats/dcp/item_writer.hpp"
#include "pickle/plain_object.hpp"

namespace cairn {
namespace {

class Loader {
 public:
  Loader(Communicator& comm, std::string directory, std::string layout)
      : comm_(comm), directory_(std::move(directory)), layout_(std::move(layout)), state_(comm.rank()) {}

  void load() {
    if (layout_ == "all") return load_everything();
    const Catalog catalog = list_checkpoint(posix_file_system(), directory_).catalog;
    for (const Entry& entry : catalog.entries()) {
      if (entry.is_tensor)
        add(catalog, catalog.tensors()[entry.index], cuts(catalog, entry));
      else
        state_.add_object(catalog.name(entry), {}, cuts(catalog, entry));
    }
    LoadOptions options;
    options.read_once = ReadOnce::on;
    options.rank_entries = RankEntryPolicy::keep;
    cairn::load(comm_, posix_file_system(), directory_, state_, options);
    for (std::size_t entry = 0; entry < state_.size(); ++entry) {
      if (!state_.description().is_tensor(entry))
        objects_.emplace_back(state_.description().name(entry), state_.object(entry));
    }
  }

  void write(const std::string& out) {
    if (layout_ == "saved") {
      SaveOptions options;
      options.sync = false;
      Saver(comm_, posix_file_system()).save(state_, out + "/checkpoint", options);
    }
    std::ofstream bytes(out + "/" + std::to_string(comm_.rank()) + ".bin", std::ios::binary);
    for (const auto& memory : memory_)
      bytes.write(reinterpret_cast<const char*>(memory.data()), static_cast<std::streamsize>(memory.size()));
    if (comm_.rank() != 0) return;
    std::ofstream names(out + "/objects", std::ios::binary);
    for (std::size_t i = 0; i < objects_.size(); ++i) {
      names << objects_[i].first << '\n';
      const Bytes item = stored(objects_[i].second);
      std::ofstream(out + "/object." + std::to_string(i), std::ios::binary)
          .write(reinterpret_cast<const char*>(item.data()), static_cast<std::streamsize>(item.size()));
    }
  }

 private:
  // The steps of a path, of which the name is made.
  static std::vector<NameCut> cuts(const Catalog& catalog, const Entry& entry) {
    std::vector<NameCut> cuts;
    for (const PathStep step : catalog.path(entry)) {
      const std::size_t length = step.is_position ? std::to_string(step.value).size()
                                                  : catalog.text(static_cast<StringId>(step.value)).size();
      cuts.push_back({static_cast<std::uint32_t>(length), step.is_position});
    }
    return cuts;
  }

  void add(const Catalog& catalog, const TensorInfo& tensor, const std::vector<NameCut>& cuts) {
    const auto shape = catalog.shape(tensor);
    const std::vector<std::int64_t> sizes(shape.begin(), shape.end());
    const std::size_t dim = layout_ == "columns" && sizes.size() > 1 ? 1 : 0;
    const bool is_cut = layout_ != "replicated" && !sizes.empty();
    const auto layout = is_cut ? TensorLayout::sharded(sizes, dim, comm_.size())
                               : TensorLayout::replicated(sizes, comm_.size());
    const auto local = layout.local_shape(comm_.rank());
    auto& memory =
        memory_.emplace_back(static_cast<std::size_t>(element_count(local)) * element_size(tensor.dtype));
    state_.add_tensor(catalog.name(tensor), layout,
                      TensorView::contiguous(tensor.dtype, local, memory.data()), cuts);
  }

  void load_everything() {
    LoadedState loaded = load_all(comm_, posix_file_system(), directory_);
    for (LoadedTensor& tensor : loaded.tensors) memory_.push_back(std::move(tensor.bytes));
    objects_ = std::move(loaded.objects);
  }

  static Bytes stored(const Object& object) {
    if (object.is<Object::Stored>()) return object.as<Object::Stored>().bytes;
    pickle::Arena arena;
    return dcp::object_item(arena, pickle::add_object(arena, object));
  }

  Communicator& comm_;
  const std::string directory_, layout_;
  LiveState state_;
  std::deque<std::vector<std::byte>> memory_;
  std::vector<std::pair<std::string, Object>> objects_;
};

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  cairn::MpiSession session(argc, argv);
  const auto comm = session.world();
  try {
    for (int i = 3; i < argc; ++i) {
      cairn::Loader loader(*comm, argv[1], argv[i]);
      loader.load();
      loader.write(std::string(argv[2]) + "/" + argv[i]);
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", comm->rank(), error.what());
    return 1;
  }
}
