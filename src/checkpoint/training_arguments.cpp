// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/training_arguments.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "base/text.hpp"
#include "formats/layout/iteration_names.hpp"
#include "formats/layout/training_tree.hpp"
#include "parallel/agree.hpp"

namespace cairn {

void require_equal(Communicator& comm, std::string_view what, const Bytes& mine) {
  const Bytes first = on_root("comparing the arguments", comm, 0, [&] { return mine; });
  on_all_ranks("comparing the arguments", comm, [&] {
    if (mine != first) fail(ErrorKind::invalid_argument, "{}: the arguments are not those of rank 0", what);
  });
}

void check_names(const std::vector<std::string>& names) {
  if (names.empty()) fail(ErrorKind::invalid_argument, "no component is given");
  for (auto name = names.begin(); name != names.end(); ++name) {
    if (!layout::is_plain_name(*name) || name->starts_with('.') || layout::is_iteration_name(*name))
      fail(ErrorKind::invalid_argument, "'{}' is no name for a component's directory", escape_name(*name));
    if (std::find(names.begin(), name, *name) != name)
      fail(ErrorKind::invalid_argument, "two components are called '{}'", escape_name(*name));
  }
}

}  // namespace cairn
