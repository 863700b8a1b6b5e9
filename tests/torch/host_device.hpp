// SPDX-License-Identifier: BSD-3-Clause
// A device of libtorch in the memory of the host, so that the way to a GPU is tested without one: libtorch's
// "privateuseone" with the few operators that tensors need to lie there and be copied.
#pragma once

#include <ATen/ATen.h>

namespace cairn {

inline at::Device host_device() { return {at::kPrivateUse1, 0}; }

/// Contiguous there, with the values of a tensor of the processor.
at::Tensor on_host_device(const at::Tensor& tensor);

/// Where the elements lie, as a tensor of the processor: the other side of the device, for a test to look at.
at::Tensor elements_of(const at::Tensor& tensor);

/// How often the device was waited for.
int waits_for_host_device();

}  // namespace cairn
