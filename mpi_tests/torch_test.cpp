// SPDX-License-Identifier: BSD-3-Clause
// States of libtorch, saved and loaded by all ranks.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "cairn/checkpoint.hpp"
#include "cairn/torch.hpp"
#include "failure_of.hpp"
#include "shared_directory.hpp"
#include "world.hpp"

namespace cairn {
namespace {

constexpr std::int64_t kRows = 7, kColumns = 6;

at::Tensor numbered() { return at::arange(kRows * kColumns, at::kDouble).view({kRows, kColumns}); }

/// This rank's rows, or columns, of a tensor.
at::Tensor part_of(const at::Tensor& whole, const TensorLayout& layout) {
  const std::vector<Box> boxes = layout.boxes(world().rank());
  if (boxes.empty()) return at::empty(layout.local_shape(world().rank()), whole.options());
  const Box& box = boxes[0];
  return whole.narrow(0, box.offsets[0], box.sizes[0]).narrow(1, box.offsets[1], box.sizes[1]);
}

TensorLayout cut(std::size_t dim) { return TensorLayout::sharded({kRows, kColumns}, dim, world().size()); }

/// In rows: parts of a transposed tensor, and conjugates.
TorchState rows() {
  const at::Tensor transposed = part_of(numbered().t().contiguous().t(), cut(0));
  const at::Tensor conjugated = at::complex(transposed, transposed + 1).conj();
  TorchState state(world());
  state.add_tensor("w", cut(0), transposed);
  state.add_tensor("c", cut(0), conjugated);
  state.live().add_object("step", 7);
  return state;
}

void save_rows(const std::string& directory) {
  TorchState state = rows();
  save(world(), posix_file_system(), state, directory);
}

void nothing(const TempDir&) {}

TEST(TorchStates, AreSavedWhole) {
  const SharedDirectory dir(nothing);
  save_rows(dir.path() + "/saved");
  VerifyOptions options;
  options.path = dir.path() + "/saved";
  const VerifyReport report = verify(world(), posix_file_system(), options);
  EXPECT_TRUE(report.faults.empty());
  EXPECT_EQ(report.tensors, 2u);
  EXPECT_EQ(report.payload_bytes, kRows * kColumns * (8u + 16u));
}

TEST(TorchStates, AreSavedInTheBackgroundAsTheyWere) {
  const SharedDirectory dir(nothing);
  AsyncSaver saver(world(), posix_file_system());
  at::Tensor tensor = numbered();
  TorchState state(world());
  state.add_tensor("w", tensor);
  state.add_tensor("c", at::complex(tensor, tensor + 1).conj());
  AsyncSave pending = save(saver, state, dir.path() + "/saved");
  tensor.zero_();
  EXPECT_EQ(pending.wait().tensors, 2u);
  at::Tensor loaded = at::zeros({kRows, kColumns}, at::kDouble), conjugated = at::complex(loaded, loaded);
  TorchState wanted(world());
  wanted.add_tensor("w", loaded);
  wanted.add_tensor("c", conjugated);
  load(world(), posix_file_system(), dir.path() + "/saved", wanted);
  EXPECT_TRUE(at::equal(loaded, numbered()));
  EXPECT_TRUE(at::equal(conjugated, at::complex(numbered(), -(numbered() + 1))));
}

TEST(TorchStates, BecomeTheTorchFileThatTheirSaveBecomes) {
  const SharedDirectory dir(nothing);
  save_rows(dir.path() + "/saved");
  ConsolidateOptions options;
  options.source = dir.path() + "/saved";
  options.destination = dir.path() + "/by-save/out.pth";
  consolidate(world(), posix_file_system(), options);
  TorchState state = rows();
  consolidate(world(), posix_file_system(), state, dir.path() + "/live/out.pth");
  if (dir.mine() != nullptr) {
    EXPECT_TRUE(dir.mine()->read("live/out.pth") == dir.mine()->read("by-save/out.pth"));
  }
}

TEST(TorchStates, ATensorThatCannotBePreparedFailsOnAllRanks) {
  const SharedDirectory dir(nothing);
  save_rows(dir.path() + "/saved");
  TorchState state(world());
  at::Tensor target = at::zeros({kRows, kColumns}, at::kDouble);
  if (world().rank() == world().size() - 1) target = at::zeros({1, 1}, at::kDouble).expand({kRows, kColumns});
  state.add_tensor("w", target);
  const Error error = failure_of([&] { load(world(), posix_file_system(), dir.path() + "/saved", state); });
  EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
  EXPECT_EQ(error.failures().size(), 1u);
}

TEST(TorchStates, AreLoadedInAnotherLayoutIntoTensorsWithGapsAndBits) {
  const SharedDirectory dir(nothing);
  save_rows(dir.path() + "/saved");
  const at::Tensor storage = at::zeros({kColumns, kRows}, at::kDouble);
  const at::Tensor target = part_of(storage.t(), cut(1));
  const at::Tensor conjugated = at::complex(target, target).conj();
  TorchState state(world());
  state.add_tensor("w", cut(1), target);
  state.add_tensor("c", cut(1), conjugated);
  state.live().add_object("step", {});
  load(world(), posix_file_system(), dir.path() + "/saved", state);

  const at::Tensor wanted = part_of(numbered(), cut(1));
  EXPECT_TRUE(target.equal(wanted));
  EXPECT_TRUE(conjugated.resolve_conj().equal(at::complex(wanted, -wanted - 1)));
  EXPECT_EQ(state.object("step"), Object(7));
}

TEST(TorchStates, LoadedWithoutATemplateBecomeTensors) {
  const SharedDirectory dir(nothing);
  save_rows(dir.path() + "/saved");
  LoadedState all = load_all(world(), posix_file_system(), dir.path() + "/saved", {"w"});
  ASSERT_EQ(all.tensors.size(), 1u);
  EXPECT_TRUE(to_tensor(std::move(all.tensors[0])).equal(numbered()));
}

}  // namespace
}  // namespace cairn
