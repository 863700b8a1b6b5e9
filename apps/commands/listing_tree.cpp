// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/text.hpp"
#include "commands/selection.hpp"

namespace cairn {
namespace {

// Deeper components stay together, so that no name makes many lines.
constexpr int kDeepest = 32;

struct Leaf {
  std::string_view name;
  std::uint64_t bytes;
  bool is_tensor;
};

// '.' before every other byte: what shares leading components lies together.
bool before(const Leaf& a, const Leaf& b) {
  const auto order = [](char c) { return c == '.' ? 0 : 1 + static_cast<unsigned char>(c); };
  return std::ranges::lexicographical_compare(a.name, b.name, {}, order, order);
}

std::vector<Leaf> sorted_leaves(const Selection& selection) {
  const auto& catalog = selection.listing.catalog;
  std::vector<Leaf> leaves;
  for (const auto& entry : selection.entries) {
    const auto bytes = entry.is_tensor ? catalog.byte_count(catalog.tensors()[entry.index]) : 0;
    leaves.push_back({catalog.name(entry), bytes, entry.is_tensor});
  }
  std::ranges::stable_sort(leaves, before);
  return leaves;
}

void print_sums(StandardOutput& out, std::span<const Leaf> leaves, int depth, std::string_view component) {
  const auto tensors = std::ranges::count_if(leaves, &Leaf::is_tensor);
  std::uint64_t bytes = 0;
  for (const auto& leaf : leaves) bytes += leaf.bytes;
  out.write(fmt::format("{:{}}{}\t{}\t{}\t{}\n", "", 2 * depth, escape_name(component), tensors,
                        std::ssize(leaves) - tensors, bytes));
}

// End of the component that begins at `at`.
std::size_t component_end(std::string_view name, std::size_t at, int depth) {
  return depth >= kDeepest ? name.size() : std::min(name.find('.', at), name.size());
}

// All leaves share the first `at` bytes, which are whole components.
void print_level(StandardOutput& out, std::span<const Leaf> leaves, std::size_t at, int depth) {
  while (!leaves.empty()) {
    const auto end = component_end(leaves[0].name, at, depth);
    const auto component = leaves[0].name.substr(at, end - at);
    std::size_t count = 1, whole = leaves[0].name.size() == end ? 1 : 0;
    while (count < leaves.size() && leaves[count].name.size() >= end &&
           component_end(leaves[count].name, at, depth) == end &&
           leaves[count].name.substr(at, end - at) == component) {
      whole += leaves[count].name.size() == end ? 1 : 0;
      ++count;
    }
    print_sums(out, leaves.first(count), depth, component);
    print_level(out, leaves.subspan(whole, count - whole), end + 1, depth + 1);
    leaves = leaves.subspan(count);
  }
}

}  // namespace

void print_tree(StandardOutput& out, const Selection& selection) {
  print_level(out, sorted_leaves(selection), 0, 0);
}

}  // namespace cairn
