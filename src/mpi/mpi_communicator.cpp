// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/mpi_communicator.hpp"

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <new>
#include <stdexcept>

#include "base/fail.hpp"
#include "mpi/call.hpp"
#include "mpi/mpi_request.hpp"

namespace cairn {

namespace {

constexpr int tag_limit = 1000;  // of callers; the tags from here on are our own
constexpr int gather_tag = tag_limit;

int count_of(std::size_t bytes) { return static_cast<int>(bytes); }

MPI_Comm node_of(MPI_Comm comm) {
  MPI_Comm node = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node), "MPI_Comm_split_type");
  return node;
}

int count_node_ranks(MPI_Comm comm) {
  MPI_Comm node = node_of(comm);
  int size = 1;
  const int code = MPI_Comm_size(node, &size);
  MPI_Comm_free(&node);
  check_mpi(code, "MPI_Comm_size");
  return size;
}

/// Calls use(piece) for the pieces of `bytes`, each at most `most` long.
template <class Byte, class Use>
void for_each_piece(std::span<Byte> bytes, std::uint64_t most, Use use) {
  while (!bytes.empty()) {
    const auto piece = bytes.first(static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), most)));
    use(piece);
    bytes = bytes.subspan(piece.size());
  }
}

// MPI gives addresses that suit its numbers only: rank 0 says where a line of the cache begins.
class WindowMemory final : public SharedMemory {
 public:
  static constexpr std::size_t kLine = 64;

  WindowMemory(MPI_Win owned, Communicator& comm, std::size_t bytes) : window_(owned), size_(bytes) {
    MPI_Aint found = 0;
    int unit = 1;
    check_mpi(MPI_Win_shared_query(window_, 0, &found, &unit, &base_), "MPI_Win_shared_query");
    Bytes skipped{static_cast<std::byte>(-reinterpret_cast<std::uintptr_t>(base_) % kLine)};
    comm.broadcast(skipped, 0);
    base_ = static_cast<std::byte*>(base_) + std::to_integer<std::size_t>(skipped[0]);
  }
  ~WindowMemory() override {
    if (mpi_is_running()) MPI_Win_free(&window_);
  }
  std::span<std::byte> bytes() override { return {static_cast<std::byte*>(base_), size_}; }

 private:
  MPI_Win window_;
  void* base_ = nullptr;
  std::size_t size_;
};

void check_message(std::uint64_t length, int tag) {
  if (length > MpiCommunicator::most_message_bytes) {
    fail(ErrorKind::invalid_argument, "a message of {} bytes: at most {} are sent at once", length,
         MpiCommunicator::most_message_bytes);
  }
  if (tag < 0 || tag >= tag_limit) {
    fail(ErrorKind::invalid_argument, "message tag {}: 0 to {} expected", tag, tag_limit - 1);
  }
}

}  // namespace

MpiCommunicator::MpiCommunicator(MPI_Comm owned, std::uint64_t piece_bytes)
    : comm_(owned), piece_bytes_(piece_bytes) {
  check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
  ranks_on_node_ = count_node_ranks(comm_);
  int level = MPI_THREAD_SINGLE;
  check_mpi(MPI_Query_thread(&level), "MPI_Query_thread");
  any_thread_ = level == MPI_THREAD_MULTIPLE;
}

MpiCommunicator::~MpiCommunicator() {
  if (mpi_is_running()) MPI_Comm_free(&comm_);
}

std::unique_ptr<Request> MpiCommunicator::start_agree(std::uint64_t word, std::uint64_t& result) {
  auto request = std::make_unique<AgreeRequest>(word, result);
  check_mpi(MPI_Iallreduce(request->word(), request->combined(), 1, MPI_UINT64_T, MPI_BOR, comm_,
                           request->handle()),
            "MPI_Iallreduce");
  return request;
}

std::unique_ptr<Request> MpiCommunicator::start_barrier() {
  auto request = std::make_unique<MpiRequest>();
  check_mpi(MPI_Ibarrier(comm_, request->handle()), "MPI_Ibarrier");
  return request;
}

template <class Resize>
void MpiCommunicator::make_room(Resize resize) {
  bool full = false;
  try {
    resize();
  } catch (const std::bad_alloc&) {
    full = true;
  } catch (const std::length_error&) {
    full = true;
  }
  if (agree(*this, full ? 1 : 0) != 0) fail(ErrorKind::io, "out of memory for a message between ranks");
}

void MpiCommunicator::broadcast(Bytes& bytes, int root) {
  constexpr std::uint64_t surely_fits = 16 << 10;
  std::uint64_t length = bytes.size();
  MpiRequest announced;
  check_mpi(MPI_Ibcast(&length, 1, MPI_UINT64_T, root, comm_, announced.handle()), "MPI_Ibcast");
  announced.wait();
  if (length > surely_fits) {
    make_room([&] { bytes.resize(length); });
  } else {
    bytes.resize(length);
  }
  for_each_piece(std::span(bytes), piece_bytes_, [&](std::span<std::byte> piece) {
    MpiRequest request;
    check_mpi(MPI_Ibcast(piece.data(), count_of(piece.size()), MPI_BYTE, root, comm_, request.handle()),
              "MPI_Ibcast");
    request.wait();
  });
}

std::vector<Bytes> MpiCommunicator::gather(std::span<const std::byte> bytes, int root) {
  const auto lengths = gather_lengths(bytes.size(), root);
  std::vector<Bytes> parts;
  make_room([&] {
    parts.resize(lengths.size());
    for (std::size_t rank = 0; rank < lengths.size(); ++rank) parts[rank].resize(lengths[rank]);
  });
  if (rank_ == root) {
    std::copy(bytes.begin(), bytes.end(), parts[static_cast<std::size_t>(root)].begin());
    receive_pieces(parts, root);
  } else {
    send_pieces(bytes, root);
  }
  return parts;
}

std::vector<std::uint64_t> MpiCommunicator::gather_lengths(std::uint64_t length, int root) {
  std::vector<std::uint64_t> lengths(rank_ == root ? static_cast<std::size_t>(size_) : 0);
  MpiRequest request;
  check_mpi(
      MPI_Igather(&length, 1, MPI_UINT64_T, lengths.data(), 1, MPI_UINT64_T, root, comm_, request.handle()),
      "MPI_Igather");
  request.wait();
  return lengths;
}

void MpiCommunicator::send_pieces(std::span<const std::byte> bytes, int root) {
  for_each_piece(bytes, piece_bytes_, [&](auto piece) { post_send(piece, root, gather_tag)->wait(); });
}

void MpiCommunicator::receive_pieces(std::vector<Bytes>& parts, int root) {
  constexpr std::size_t most_at_once = 16;
  std::deque<std::unique_ptr<Request>> running;
  for (int from = 0; from < size_; ++from) {
    if (from == root) continue;
    for_each_piece(std::span(parts[static_cast<std::size_t>(from)]), piece_bytes_, [&](auto piece) {
      if (running.size() == most_at_once) {
        running.front()->wait();
        running.pop_front();
      }
      running.push_back(post_receive(piece, from, gather_tag));
    });
  }
  for (const auto& request : running) request->wait();
}

std::unique_ptr<Request> MpiCommunicator::post_send(std::span<const std::byte> bytes, int to, int tag) {
  auto request = std::make_unique<MpiRequest>();
  check_mpi(MPI_Isend(bytes.data(), count_of(bytes.size()), MPI_BYTE, to, tag, comm_, request->handle()),
            "MPI_Isend");
  return request;
}

std::unique_ptr<Request> MpiCommunicator::post_receive(std::span<std::byte> into, int from, int tag) {
  auto request = std::make_unique<ReceiveRequest>(count_of(into.size()));
  check_mpi(MPI_Irecv(into.data(), count_of(into.size()), MPI_BYTE, from, tag, comm_, request->handle()),
            "MPI_Irecv");
  return request;
}

std::unique_ptr<Request> MpiCommunicator::start_send(std::span<const std::byte> bytes, int to, int tag) {
  check_message(bytes.size(), tag);
  return post_send(bytes, to, tag);
}

std::unique_ptr<Request> MpiCommunicator::start_receive(std::span<std::byte> into, int from, int tag) {
  check_message(into.size(), tag);
  return post_receive(into, from, tag);
}

std::unique_ptr<Communicator> MpiCommunicator::split(int color, int key) {
  MPI_Comm part = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(comm_, color, key, &part), "MPI_Comm_split");
  return std::make_unique<MpiCommunicator>(part, piece_bytes_);
}

std::unique_ptr<Communicator> MpiCommunicator::duplicate() {
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(comm_, &copy), "MPI_Comm_dup");
  return std::make_unique<MpiCommunicator>(copy, piece_bytes_);
}

std::unique_ptr<Communicator> MpiCommunicator::on_node() {
  return std::make_unique<MpiCommunicator>(node_of(comm_), piece_bytes_);
}

// All of it is rank 0's part of a window: the others look it up.
std::unique_ptr<SharedMemory> MpiCommunicator::share_memory(std::size_t bytes) {
  const auto own = static_cast<MPI_Aint>(rank_ == 0 ? bytes + WindowMemory::kLine : 0);
  void* base = nullptr;
  MPI_Win window = MPI_WIN_NULL;
  const bool made = MPI_Win_allocate_shared(own, 1, MPI_INFO_NULL, comm_, &base, &window) == MPI_SUCCESS;
  if (agree(*this, made ? 0 : 1) != 0) {
    if (made) MPI_Win_free(&window);
    return nullptr;
  }
  auto memory = std::make_unique<WindowMemory>(window, *this, bytes);
  if (rank_ == 0) std::ranges::fill(memory->bytes(), std::byte{0});
  barrier(*this);
  return memory;
}

void MpiCommunicator::abort(int status) {
  MPI_Abort(comm_, status);
  std::_Exit(status);
}

}  // namespace cairn
