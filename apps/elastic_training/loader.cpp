// SPDX-License-Identifier: BSD-3-Clause
#include "loader.hpp"

#include <ATen/ATen.h>

#include <string>

#include "cairn/error.hpp"
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

Object Loader::state() const {
  return Object::Dict{{{"micro_batches", options_.micro_batches}, {"seen", seen_}}};
}

void Loader::restore(const Object& state) {
  const auto& items = state.as<Object::Dict>().items;
  const auto number = [&](std::size_t i) { return items.at(i).second.as<std::int64_t>(); };
  if (number(0) != options_.micro_batches)
    throw cairn::Error(cairn::ErrorKind::mismatch, "the job was saved with " + std::to_string(number(0)) +
                                                       " micro-batches in a step, this one has " +
                                                       std::to_string(options_.micro_batches));
  seen_ = number(1);
}

}  // namespace elastic
