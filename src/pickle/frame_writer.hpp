// SPDX-License-Identifier: BSD-3-Clause
// The opcodes of a protocol 4 pickle one after the other, in the frames that CPython's C pickler makes when
// it writes to a file (Modules/_pickle.c: _Pickler_OpcodeBoundary, _Pickler_write_bytes). For writers that
// know what they pickle: they say which objects are one object by the memo numbers that they keep. Local.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "base/byte_writer.hpp"
#include "pickle/numbers.hpp"
#include "pickle/opcodes.hpp"

namespace cairn::pickle {

class FrameWriter {
 public:
  /// Receives the pickle in pieces, in order: a frame each, of 64 KiB and a value more.
  using Sink = std::function<void(std::span<const std::byte>)>;
  using MemoNumber = std::uint32_t;
  static constexpr MemoNumber kNoNumber = 0xffffffff;

  /// `sink` outlives the writer; what it throws passes through.
  explicit FrameWriter(const Sink& sink);

  /// Before every value, whatever it is, nested ones and those fetched from the memo included: frames end
  /// between values. The functions for whole values below do it themselves.
  void value() {
    if (frame_.size() >= kFrameBytes) close_frame();
  }
  void op(Op code) { frame_.write(static_cast<std::uint8_t>(code)); }
  /// The number of the value written last. Throws unsupported past 2^32 - 1 of them.
  MemoNumber memoize() {
    op(Op::memoize);
    if (next_ == kNoNumber) too_many();
    return next_++;
  }

  void get(MemoNumber number) {
    value();
    op(number < 256 ? Op::binget : Op::long_binget);
    if (number < 256) return frame_.write(static_cast<std::uint8_t>(number));
    frame_.write(number);
  }
  void none() {
    value();
    op(Op::none);
  }
  void boolean(bool truth) {
    value();
    op(truth ? Op::newtrue : Op::newfalse);
  }
  void integer(std::int64_t number) {
    value();
    write_integer(number, frame_);
  }
  /// A new str object. Throws invalid_argument where the text is no UTF-8 (lone surrogates are).
  MemoNumber text(std::string_view utf8);
  /// () is one object and has no number.
  void empty_tuple() {
    value();
    op(Op::empty_tuple);
  }

  /// STOP; the last pieces go to the sink. Nothing may follow.
  void finish();

 private:
  static constexpr std::size_t kFrameBytes = 64 << 10;
  static constexpr std::size_t kLeastFrame = 4;  // shorter ones go without a header

  void close_frame();
  [[noreturn]] static void too_many();

  const Sink& sink_;
  ByteWriter frame_;
  MemoNumber next_ = 0;
};

/// The items of an exact list or dict as the pickler batches them, up to 1000 each: next() before each item
/// (for a dict: each key), `count` times, then finish().
class FrameBatches {
 public:
  enum class Of : std::uint8_t { list, dict };
  FrameBatches(FrameWriter& out, Of kind, std::size_t count) : out_(out), kind_(kind), count_(count) {}

  void next() {
    if (count_ == 1) return;
    if (done_ % kBatch == 0) {
      if (done_ > 0) close();
      out_.op(Op::mark);
    }
    ++done_;
  }
  void finish() {
    if (count_ == 1) return out_.op(kind_ == Of::dict ? Op::setitem : Op::append);
    if (count_ == 0) return;
    close();
    if (kind_ == Of::list || count_ % kBatch != 0) return;  // a full dict ends with an empty batch
    out_.op(Op::mark);
    close();
  }

 private:
  static constexpr std::size_t kBatch = 1000;
  void close() { out_.op(kind_ == Of::dict ? Op::setitems : Op::appends); }

  FrameWriter& out_;
  const Of kind_;
  const std::size_t count_;
  std::size_t done_ = 0;
};

}  // namespace cairn::pickle
