// SPDX-License-Identifier: BSD-3-Clause
// A library that is loaded when it is asked for, and not linked. Local.
#pragma once

#include <span>
#include <string>

namespace cairn {

/// Stays loaded until the process ends: threads and handles of its own may.
class SharedLibrary {
 public:
  /// The first of `names` that the process has loaded already, as libtorch has; else the first that the
  /// dynamic loader finds. In place of them the file that the variable
  /// `variable` of the environment names, if it is set. Throws unsupported with `what`, the names, and the
  /// loader's words.
  SharedLibrary(const char* what, const char* variable, std::span<const char* const> names);

  /// Sets `function` to the function of this name. Throws unsupported with the library's name and this one.
  template <class Function>
  void find(const char* name, Function*& function) const {
    function = reinterpret_cast<Function*>(symbol(name));
  }

 private:
  bool open(const char* name, int flags);
  void* symbol(const char* name) const;

  void* handle_ = nullptr;
  std::string name_, words_;
};

}  // namespace cairn
