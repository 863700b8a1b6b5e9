// SPDX-License-Identifier: BSD-3-Clause
#include "device/shared_library.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

#include "base/fail.hpp"

namespace cairn {

SharedLibrary::SharedLibrary(const char* what, const char* variable, std::span<const char* const> names) {
  std::vector<const char*> tried(names.begin(), names.end());
  const char* const chosen = std::getenv(variable);
  if (chosen != nullptr && *chosen != '\0') tried = {chosen};
  for (const int flags : {RTLD_NOLOAD, 0}) {
    words_.clear();
    for (const char* const name : tried) {
      if (open(name, flags)) return;
    }
  }
  throw Error(ErrorKind::unsupported,
              fmt::format("{} was not found: looked for {}: {}", what, fmt::join(tried, ", "), words_),
              fmt::format("the variable {} may name the file", variable));
}

// The loader's words about the first name are kept: the others are older versions.
bool SharedLibrary::open(const char* name, int flags) {
  handle_ = dlopen(name, RTLD_NOW | RTLD_LOCAL | flags);
  name_ = name;
  if (handle_ != nullptr) return true;
  const char* const words = dlerror();
  if (words_.empty() && words != nullptr) words_ = words;
  return false;
}

void* SharedLibrary::symbol(const char* name) const {
  void* const found = dlsym(handle_, name);
  if (found != nullptr) return found;
  const char* const words = dlerror();
  fail(ErrorKind::unsupported, "{} has no {}: {}", name_, name, words != nullptr ? words : "");
}

}  // namespace cairn
