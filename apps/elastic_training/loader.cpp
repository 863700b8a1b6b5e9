// SPDX-License-Identifier: BSD-3-Clause
#include "loader.hpp"

#include <ATen/ATen.h>

#include <string>

#include "text.hpp"

namespace elastic {

using cairn::Object;

Loader::Loader(const Options& options, int rank, int ranks)
    : options_(options),
      first_(options.micro_batches * rank / ranks),
      end_(options.micro_batches * (rank + 1) / ranks) {}

at::Tensor Loader::tokens(std::int64_t step, int number) {
  const int length = options_.model.context + 1;
  at::Tensor tokens = at::empty({options_.micro_size, length}, at::kLong);
  auto* to = tokens.mutable_data_ptr<std::int64_t>();
  const auto first =
      static_cast<std::uint64_t>((step * options_.micro_batches + number) * options_.micro_size);
  for (int i = 0; i < options_.micro_size; ++i)
    for (const char character : sample_text(first + static_cast<std::uint64_t>(i), length))
      *to++ = token_of(character);
  seen_ += options_.micro_size;
  return tokens;
}

Object Loader::state() const { return Object::Dict{{{"seen", seen_}}}; }

void Loader::restore(const Object& state) {
  seen_ = state.as<Object::Dict>().items.at(0).second.as<std::int64_t>();
}

}  // namespace elastic
