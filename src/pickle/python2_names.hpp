// SPDX-License-Identifier: BSD-3-Clause
// Names that protocols 0 to 2 spell as Python 2 did ("__builtin__ set"). The table is the behaviour of
// CPython 3.11's pickle with fix_imports (module _compat_pickle).
#pragma once

#include <string_view>

namespace cairn::pickle {

struct QualifiedName {
  std::string_view module, name;
  friend auto operator<=>(const QualifiedName&, const QualifiedName&) = default;
};

/// What a protocol 0 to 2 pickle's global is called in Python 3.
QualifiedName to_python3(QualifiedName name);
/// How a protocol 2 pickler spells a Python 3 global. Not always the inverse.
QualifiedName to_python2(QualifiedName name);

}  // namespace cairn::pickle
