// SPDX-License-Identifier: BSD-3-Clause
// The opcodes of a protocol 4 pickle one after the other, in the frames that CPython's C pickler makes when
// it writes to a file (Modules/_pickle.c: _Pickler_OpcodeBoundary, _Pickler_write_bytes). For writers that
// know what they pickle: they say which objects are one object by the memo numbers that they keep. Local.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string_view>

#include "base/pool.hpp"
#include "pickle/numbers.hpp"
#include "pickle/opcodes.hpp"

namespace cairn::pickle {

class FrameWriter {
 public:
  /// Receives the pickle in order, in pieces of 64 KiB and a value more, or less.
  using Sink = std::function<void(std::span<const std::byte>)>;
  using MemoNumber = std::uint32_t;
  static constexpr MemoNumber kNoNumber = 0xffffffff;

  /// `sink` outlives the writer; what it throws passes through.
  explicit FrameWriter(const Sink& sink);

  /// Before every value, whatever it is, nested ones and those fetched from the memo included: frames end
  /// between values. The functions for whole values below do it themselves.
  void value() {
    if (size() >= kFrameBytes) [[unlikely]]
      close_frame();
  }
  template <class... Codes>
  void op(Codes... codes) {
    if (sizeof...(codes) > frame_.size() - size()) [[unlikely]]
      make_room();
    ((*at_++ = static_cast<std::byte>(codes)), ...);
  }
  /// The same and MEMOIZE. Returns the value's number. Throws unsupported past 2^32 - 1 of them.
  template <class... Codes>
  MemoNumber memoized(Codes... codes) {
    op(codes..., Op::memoize);
    if (next_ == kNoNumber) [[unlikely]]
      too_many();
    return next_++;
  }

  void get(MemoNumber number) {
    value();
    if (number < 256) {
      put(Op::binget, static_cast<std::uint8_t>(number));
    } else {
      put(Op::long_binget, number);
    }
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
    at_ += write_integer(number, at_);
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

  std::size_t size() const { return static_cast<std::size_t>(at_ - frame_.data()); }
  /// After value(): there is room for as much as a frame again.
  template <class Number>
  void put(Op code, Number number) {
    *at_++ = static_cast<std::byte>(code);
    std::memcpy(at_, &number, sizeof(number));
    at_ += sizeof(number);
  }
  void append(std::string_view text) {
    std::memcpy(at_, text.data(), text.size());
    at_ += text.size();
  }
  void clear() { at_ = frame_.all().data(); }
  void close_frame();
  void make_room();
  [[noreturn]] static void too_many();

  const Sink& sink_;
  Pool<std::byte> frame_;  // with room at the end
  std::byte* at_;
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
    if (in_batch_ == kBatch) close();
    if (in_batch_ == 0) out_.op(Op::mark);
    ++in_batch_;
  }
  void finish() {
    if (count_ == 1) return out_.op(kind_ == Of::dict ? Op::setitem : Op::append);
    if (count_ == 0) return;
    const bool full = in_batch_ == kBatch;
    close();
    if (kind_ == Of::list || !full) return;  // a full dict ends with an empty batch
    out_.op(Op::mark);
    close();
  }

 private:
  static constexpr std::size_t kBatch = 1000;
  void close() {
    out_.op(kind_ == Of::dict ? Op::setitems : Op::appends);
    in_batch_ = 0;
  }

  FrameWriter& out_;
  const Of kind_;
  const std::size_t count_;
  std::size_t in_batch_ = 0;
};

}  // namespace cairn::pickle
