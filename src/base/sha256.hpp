// SPDX-License-Identifier: BSD-3-Clause
// SHA-256, by OpenSSL. Local.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace cairn {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  void add(std::span<const std::byte> bytes);
  /// 64 hexadecimal digits. Called once, last.
  std::string hex();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace cairn
