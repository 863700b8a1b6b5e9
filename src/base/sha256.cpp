// SPDX-License-Identifier: BSD-3-Clause
#include "base/sha256.hpp"

#include <openssl/evp.h>

#include <array>

#include "base/fail.hpp"

namespace cairn {

struct Sha256::Context {
  EVP_MD_CTX* raw = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(raw); }
};

namespace {
void require(int result) {
  if (result != 1) fail(ErrorKind::io, "SHA-256: OpenSSL refuses it");
}
}  // namespace

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  require(EVP_DigestInit_ex(context_->raw, EVP_sha256(), nullptr));
}

Sha256::~Sha256() = default;

void Sha256::add(std::span<const std::byte> bytes) {
  require(EVP_DigestUpdate(context_->raw, bytes.data(), bytes.size()));
}

std::string Sha256::hex() {
  std::array<unsigned char, 32> digest{};
  unsigned length = 0;
  require(EVP_DigestFinal_ex(context_->raw, digest.data(), &length));
  std::string out;
  for (const unsigned char byte : digest) out += fmt::format("{:02x}", byte);
  return out;
}

}  // namespace cairn
