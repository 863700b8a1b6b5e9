// SPDX-License-Identifier: BSD-3-Clause
// A running MPI operation.
#pragma once

#include <mpi.h>

#include <cstdint>

#include "cairn/communicator.hpp"

namespace cairn {

/// Started with handle() as its last argument.
class MpiRequest : public Request {
 public:
  MpiRequest() = default;
  ~MpiRequest() override;
  MpiRequest(const MpiRequest&) = delete;
  MpiRequest& operator=(const MpiRequest&) = delete;

  MPI_Request* handle() { return &request_; }
  bool test() override;
  void wait() override;

 protected:
  virtual void completed(const MPI_Status&) {}

 private:
  MPI_Request request_ = MPI_REQUEST_NULL;
};

class AgreeRequest final : public MpiRequest {
 public:
  AgreeRequest(std::uint64_t word, std::uint64_t& result) : word_(word), result_(result) {}
  const std::uint64_t* word() const { return &word_; }
  std::uint64_t* combined() { return &combined_; }

 private:
  void completed(const MPI_Status&) override { result_ = combined_; }

  std::uint64_t word_, combined_ = 0;
  std::uint64_t& result_;
};

class ReceiveRequest final : public MpiRequest {
 public:
  explicit ReceiveRequest(int expected_bytes) : expected_bytes_(expected_bytes) {}

 private:
  void completed(const MPI_Status& status) override;

  int expected_bytes_;
};

}  // namespace cairn
