// SPDX-License-Identifier: BSD-3-Clause
// Chunks that are stored bare: their elements alone, row-major, where a shard has an archive. So are the
// tensors of safetensors files, and so is the memory of ranks read (checkpoint/live_site.hpp). Objects are
// items as in a shard. Local.
#pragma once

#include <memory>

#include "formats/dcp/source.hpp"

namespace cairn::dcp {

class BareSource final : public DirectorySource {
 public:
  using DirectorySource::DirectorySource;

  std::unique_ptr<ItemLocator> item_locator() override;
  std::shared_ptr<const ChunkPlace> locate(const TensorInfo& tensor, std::uint64_t chunk) override;

 private:
  class Locator;
  ChunkPlace place(const TensorInfo& tensor, std::uint64_t chunk) const;
};

}  // namespace cairn::dcp
