// SPDX-License-Identifier: BSD-3-Clause
#include "formats/dcp/zstd_stream.hpp"

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "base/fail.hpp"

#ifdef CAIRN_HAVE_ZSTD
#include <zstd.h>
#include <zstd_errors.h>
#endif

namespace cairn::dcp {

#ifdef CAIRN_HAVE_ZSTD

bool has_zstd() { return true; }
std::string zstd_version() { return ZSTD_versionString(); }

struct ZstdStream::Context {
  struct Free {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };
  std::unique_ptr<ZSTD_DCtx, Free> decoder{ZSTD_createDCtx()};
  std::vector<std::byte> input;
  ZSTD_inBuffer in{nullptr, 0, 0};
};

ZstdStream::ZstdStream(Read read, std::uint64_t bytes, std::string where)
    : read_(std::move(read)), bytes_(bytes), where_(std::move(where)), context_(std::make_unique<Context>()) {
  if (!context_->decoder) throw std::bad_alloc();
  ZSTD_DCtx_setParameter(context_->decoder.get(), ZSTD_d_windowLogMax, kMostWindowLog);
  context_->input.resize(std::min<std::uint64_t>(ZSTD_DStreamInSize(), std::max<std::uint64_t>(bytes, 1)));
}

std::size_t ZstdStream::next(std::span<std::byte> into) {
  auto& in = context_->in;
  ZSTD_outBuffer out{into.data(), into.size(), 0};
  while (out.pos < out.size) {
    if (in.pos == in.size) refill();
    const bool is_at_end = in.pos == in.size;
    if (is_at_end && !frame_open_) break;
    if (!frame_open_) frame_begin_ = at_ - (in.size - in.pos);
    const std::size_t before = out.pos;
    const std::size_t result = ZSTD_decompressStream(context_->decoder.get(), &out, &in);
    if (ZSTD_isError(result)) fail_at_frame(result);
    frame_open_ = result != 0;
    if (is_at_end && frame_open_ && out.pos == before) fail_at_end();
  }
  position_ += out.pos;
  return out.pos;
}

void ZstdStream::refill() {
  const auto next =
      std::span(context_->input).first(std::min<std::uint64_t>(context_->input.size(), bytes_ - at_));
  if (!next.empty()) read_(at_, next);
  at_ += next.size();
  context_->in = {next.data(), next.size(), 0};
}

void ZstdStream::fail_at_frame(std::size_t code) const {
  if (ZSTD_getErrorCode(code) == ZSTD_error_frameParameter_windowTooLarge) {
    fail(ErrorKind::unsupported,
         "{}: the zstd frame at byte {} of the item needs a window of more than {} MiB", where_, frame_begin_,
         (1 << kMostWindowLog) >> 20);
  }
  const bool is_garbage = ZSTD_getErrorCode(code) == ZSTD_error_prefix_unknown;
  if (is_garbage && frame_begin_ > 0) {
    fail_corrupt("{}: after the zstd frames come {} bytes that are none, at byte {} of the item's {}", where_,
                 bytes_ - frame_begin_, frame_begin_, bytes_);
  }
  fail_corrupt("{}: zstd frame at byte {} of the item's {}: {}", where_, frame_begin_, bytes_,
               is_garbage ? "the bytes '28 b5 2f fd' expected" : ZSTD_getErrorName(code));
}

void ZstdStream::fail_at_end() const {
  fail_corrupt("{}: the zstd frame at byte {} of the item's {} is not complete", where_, frame_begin_,
               bytes_);
}

#else

bool has_zstd() { return false; }
std::string zstd_version() { return {}; }

struct ZstdStream::Context {};

ZstdStream::ZstdStream(Read, std::uint64_t, std::string where) : bytes_(0) {
  fail(ErrorKind::unsupported, "{}: compressed by zstd; this cairn was built without it", where);
}

std::size_t ZstdStream::next(std::span<std::byte>) { return 0; }

#endif

ZstdStream::~ZstdStream() = default;

}  // namespace cairn::dcp
