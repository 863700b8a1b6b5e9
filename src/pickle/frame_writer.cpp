// SPDX-License-Identifier: BSD-3-Clause
#include "pickle/frame_writer.hpp"

#include <array>

#include "base/byte_writer.hpp"
#include "base/fail.hpp"
#include "base/text.hpp"
#include "pickle/utf8.hpp"

namespace cairn::pickle {

FrameWriter::FrameWriter(const Sink& sink) : sink_(sink) {
  frame_.extend(2 * kFrameBytes + 4096);  // a text of nearly kFrameBytes, then opcodes up to the next value
  clear();
  const std::array head{static_cast<std::byte>(Op::proto), std::byte{4}};
  sink_(head);
}

FrameWriter::MemoNumber FrameWriter::text(std::string_view utf8) {
  if (!valid_utf8(utf8)) fail(ErrorKind::invalid_argument, "'{}' is no UTF-8", escape_name(utf8));
  value();
  // long texts stand between frames
  const bool apart = utf8.size() >= kFrameBytes;
  if (apart) close_frame();
  if (utf8.size() < 256)
    put(Op::short_binunicode, static_cast<std::uint8_t>(utf8.size()));
  else if (utf8.size() <= 0xffffffff)
    put(Op::binunicode, static_cast<std::uint32_t>(utf8.size()));
  else
    put(Op::binunicode8, static_cast<std::uint64_t>(utf8.size()));
  if (apart) {
    sink_({frame_.data(), size()});
    clear();
    sink_(as_bytes(utf8));
  } else {
    append(utf8);
  }
  return memoized();
}

void FrameWriter::finish() {
  op(Op::stop);
  close_frame();
}

void FrameWriter::close_frame() {
  if (size() >= kLeastFrame) {
    ByteWriter head;
    head.write(static_cast<std::uint8_t>(Op::frame));
    head.write(static_cast<std::uint64_t>(size()));
    sink_(head.view());
  }
  if (size() > 0) sink_({frame_.data(), size()});
  clear();
}

void FrameWriter::make_room() {
  const std::size_t used = size();
  frame_.extend(frame_.size());
  at_ = frame_.all().data() + used;
}

void FrameWriter::too_many() { fail(ErrorKind::unsupported, "pickle: more than 2^32 - 1 objects"); }

}  // namespace cairn::pickle
