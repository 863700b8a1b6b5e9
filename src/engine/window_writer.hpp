// SPDX-License-Identifier: BSD-3-Clause
// Where filled windows go. Local; one object per thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "cairn/storage.hpp"
#include "engine/crc_pieces.hpp"
#include "plan/windows.hpp"

namespace cairn {

class WindowWriter {
 public:
  virtual ~WindowWriter() = default;
  /// Each window, or part of one, once; `bytes` are all of it. CRCs of records that come about only here are
  /// added to `written`.
  virtual void write(ByteRange window, std::span<const std::byte> bytes, std::vector<CrcPiece>& written) = 0;
};

/// Called by each thread, several at a time.
using MakeWriter = std::function<std::unique_ptr<WindowWriter>()>;

/// Windows are ranges of one file.
class FileWriter : public WindowWriter {
 public:
  explicit FileWriter(File& file) : file_(file) {}
  void write(ByteRange window, std::span<const std::byte> bytes, std::vector<CrcPiece>&) override {
    file_.write(window.begin, bytes);
  }

 private:
  File& file_;
};

}  // namespace cairn
