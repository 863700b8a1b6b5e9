// SPDX-License-Identifier: BSD-3-Clause
// gpu_check            the way to and from the ranks' GPUs, and between them: a line for each check, on rank
// 0 gpu_check --played   the same checks on devices that are played on the processors gpu_check --about one
// process: how many devices there are, and which NCCL
//
// CAIRN_GPU_CHECK_FAIL=N: the N-th copy of rank 0's played device fails. Status 0: all is fine; 1: a check
// failed; 77: the CUDA runtime, its driver or a device is missing.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <string_view>

#include "base/fail.hpp"
#include "cairn/async_save.hpp"
#include "cairn/consolidate_live.hpp"
#include "cairn/load.hpp"
#include "cairn/mpi.hpp"
#include "cairn/save.hpp"
#include "device_state.hpp"
#include "parallel/agree.hpp"
#include "played_devices.hpp"
#include "shared_directory.hpp"

namespace cairn {
namespace {

constexpr int kFailed = 1, kUnsupported = 77;
Communicator* the_world = nullptr;

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void require(bool is_so, std::string_view words) {
  if (!is_so) fail(ErrorKind::io, "{}", words);
}

/// The rank's GPU.
class RealDevice final : public DevicePlace {
 public:
  explicit RealDevice(int device)
      : shared(cuda_memory(device)), cuda_(dynamic_cast<CudaMemory&>(*shared).calls()), device_(device) {}
  ~RealDevice() override {
    for (void* const room : rooms_) cuda_.device_free(room);
  }
  RealDevice(const RealDevice&) = delete;
  RealDevice& operator=(const RealDevice&) = delete;

  DeviceMemory& device_memory() override { return *shared; }
  std::byte* allocate(std::size_t bytes) override {
    const OnCudaDevice here(cuda_, device_);
    void* room = nullptr;
    check_cuda(cuda_, cuda_.device_malloc(&room, bytes + 1), "cudaMalloc", device_);
    rooms_.push_back(room);
    return static_cast<std::byte*>(room);
  }
  void put(std::span<const std::byte> bytes, std::byte* at) override { shared->copy_in(bytes, at); }
  void get(const std::byte* at, std::span<std::byte> into) override { shared->copy_out(at, into); }

  const std::shared_ptr<DeviceMemory> shared;

 private:
  const CudaCalls& cuda_;
  int device_;
  std::vector<void*> rooms_;
};

/// What the checks need.
struct Job {
  DevicePlace& place;
  std::function<std::unique_ptr<DeviceLink>()> make_link;
  std::int64_t rows;  // of the large tensors, of 4 KiB each
  const SharedDirectory& directory;
  std::unique_ptr<DeviceLink> link = {};

  std::string path(const char* name) const { return directory.path() + "/" + name; }
  template <class State>
  void fill(State& state, bool filled, std::size_t dim) const {
    const int n = world().size();
    state.add("replicated", DType::float32, TensorLayout::replicated({rows, 1'024}, n), 1, filled);
    state.add("sharded", DType::bfloat16, TensorLayout::sharded({2 * rows, 1'024}, dim, n), 2, filled);
    state.add("small", DType::int16, TensorLayout::replicated({77}, n), 3, filled);
  }
};

void require_filled(DeviceState& state) {
  for (std::size_t entry = 0; entry < state.live.size(); ++entry)
    require(state.wrong_bytes(entry, entry + 1) == 0, "bytes on the device are wrong");
}

Bytes content(const std::string& path) {
  const auto file = posix_file_system().open_read(path);
  Bytes bytes(file->size());
  file->read(0, bytes);
  return bytes;
}

void require_same_shards(const std::string& a, const std::string& b) {
  for (const std::string& name : posix_file_system().list(a)) {
    if (name.ends_with(".distcp"))
      require(content(a + "/" + name) == content(b + "/" + name), "the files differ: " + name);
  }
}

SaveOptions unsynced() {
  SaveOptions options;
  options.sync = false;
  return options;
}

// --- the checks: what they tell beside their success; they throw when they fail ---------------------------

std::string check_copies(Job& job) {
  const std::size_t bytes = static_cast<std::size_t>(job.rows) * 4'096 + 13;
  std::byte* const at = job.place.allocate(bytes);
  Bytes from(bytes), into(bytes);
  for (std::size_t i = 0; i < bytes; ++i) from[i] = iota_byte(i, 9);
  DeviceMemory& memory = job.place.device_memory();
  const auto begin = Clock::now();
  memory.copy_in(from, at);
  const double in_s = seconds_since(begin);
  const auto middle = Clock::now();
  memory.copy_out(at, into);
  const double out_s = seconds_since(middle);
  require(from == into, "what was copied to the device did not come back");
  for (const std::size_t length : {std::size_t{1}, std::size_t{524'287}, std::size_t{524'289}}) {
    Bytes part(length);
    memory.start_copy_out(at + 3, length)->finish(part);
    require(std::equal(part.begin(), part.end(), from.begin() + 3), "a part is wrong");
  }
  const double gigabytes = static_cast<double>(bytes) / 1e9;
  return fmt::format("{:.2f} GB/s to the device, {:.2f} GB/s from it, by one thread", gigabytes / in_s,
                     gigabytes / out_s);
}

std::string check_save(Job& job) {
  DeviceState state(job.place, world().rank());
  job.fill(state, true, 0);
  save(world(), posix_file_system(), state.on_processor(), job.path("processor"), unsynced());
  const SaveReport report = save(world(), posix_file_system(), state.live, job.path("device"), unsynced());
  require_same_shards(job.path("device"), job.path("processor"));
  return fmt::format("{:.2f} GB in {:.2f} s", static_cast<double>(report.written_bytes) / 1e9,
                     report.seconds);
}

std::string check_background_save(Job& job) {
  for (const bool over_cap : {false, true}) {
    DeviceState state(job.place, world().rank());
    job.fill(state, true, 0);
    AsyncSaveOptions options;
    if (over_cap) options.staging_bytes = 2 << 20;
    AsyncSaver saver(world(), posix_file_system(), options);
    const std::string path = job.path(over_cap ? "drained" : "background");
    AsyncSave pending = saver.save(state.live, path, unsynced());
    state.clear();
    require(pending.staging().over_cap == over_cap, "the cap is not what it should be");
    pending.wait();
    require_same_shards(path, job.path("processor"));
  }
  return "the device was overwritten after the call; with and without room for all copies";
}

LoadReport load_device(Job& job, DeviceLink* link) {
  DeviceState state(job.place, world().rank());
  job.fill(state, false, 1);
  LoadOptions options;
  options.read_once = ReadOnce::on;
  options.device_link = link;
  const LoadReport report = load(world(), posix_file_system(), job.path("device"), state.live, options);
  require_filled(state);
  return report;
}

std::string check_load(Job& job) {
  const LoadReport report = load_device(job, nullptr);
  require(report.device_received_bytes == 0, "there was no link");
  return fmt::format("{:.2f} GB read in {:.2f} s, columns where rows were saved",
                     static_cast<double>(report.read_bytes) / 1e9, report.seconds);
}

std::string check_link(Job& job) {
  job.link = job.make_link();
  require(job.link->reaches(job.place.device_memory()), "the link does not reach the device");
  return fmt::format("{} ranks", job.link->size());
}

std::string check_broadcast(Job& job) {
  const LoadReport report = load_device(job, job.link.get());
  const auto wanted =
      static_cast<std::uint64_t>(world().size() - 1) * (static_cast<std::uint64_t>(job.rows) * 4'096 + 154);
  require(report.device_received_bytes == wanted, "not all came over the link");
  return fmt::format("{:.2f} GB received over the link", static_cast<double>(wanted) / 1e9);
}

std::string check_gather(Job& job) {
  DeviceState state(job.place, world().rank());
  job.fill(state, true, 0);
  ConsolidateOptions options;
  options.write = WriteMode::gather;
  options.sync = false;
  consolidate(world(), posix_file_system(), state.on_processor(), job.path("processor-file/out.pth"),
              options);
  const auto begin = Clock::now();
  consolidate(world(), posix_file_system(), state.live, job.path("device-file/out.pth"), options,
              job.link.get());
  const double seconds = seconds_since(begin);
  if (world().rank() == 0)
    require(content(job.path("device-file/out.pth")) == content(job.path("processor-file/out.pth")),
            "the files differ");
  return fmt::format("the same file as without, in {:.2f} s", seconds);
}

std::string check_breaking_off(Job& job) {
  std::byte* const at = job.place.allocate(1'000);
  Bytes into(1'000);
  const int next = (world().rank() + 1) % world().size();
  {
    const auto never = job.link->start_receive(into, next);
    never->is_done();
  }
  bool is_broken = false;
  try {
    job.link->start_send({at, 1'000}, next);
  } catch (const Error& error) {
    is_broken = error.kind() == ErrorKind::io;
  }
  require(is_broken, "a transfer was given up, and the link is whole");
  job.link = job.make_link();
  load_device(job, job.link.get());
  return "and a new link made";
}

struct Check {
  const char* name;
  std::string (*run)(Job&);
};
constexpr Check kChecks[] = {
    {"copies through pinned buffers", check_copies},
    {"save", check_save},
    {"save in the background", check_background_save},
    {"load", check_load},
    {"link by NCCL", check_link},
    {"load with broadcasts by NCCL", check_broadcast},
    {"one file by sends and receives of NCCL", check_gather},
    {"a link broken off", check_breaking_off},
};

/// Collective. What a check needs of those before that have failed is missing: it fails, too.
bool passes(const Check& check, Job& job) {
  std::string line;
  bool is_fine = true;
  try {
    on_all_ranks(check.name, world(), [&] { line = check.run(job); });
  } catch (const Error& error) {
    is_fine = false;
    line = error.what();
  }
  if (world().rank() == 0)
    std::cout << (is_fine ? "ok    " : "FAIL  ") << check.name << ": " << line << std::endl;
  return is_fine;
}

int run_checks(DevicePlace& place, const std::function<std::unique_ptr<DeviceLink>()>& make_link,
               std::int64_t rows) {
  const SharedDirectory directory([](const TempDir&) {});
  Job job{place, make_link, rows, directory};
  bool is_fine = true;
  for (const Check& check : kChecks) {
    is_fine = passes(check, job) && is_fine;
    if (!is_fine) break;  // a device that has failed once may answer nothing any more
  }
  return is_fine ? 0 : kFailed;
}

// --- the program ------------------------------------------------------------------------------------------

int run_played() {
  PlayedDevices devices(96 << 20);
  const char* const failing = std::getenv("CAIRN_GPU_CHECK_FAIL");
  if (failing != nullptr && world().rank() == 0) devices.cuda.fail_copy(std::atoi(failing));
  return run_checks(
      devices, [&] { return devices.link(); }, 1'024);
}

int device_count() {
  int count = 0;
  const CudaMemory probe(cuda_runtime(), 0);  // throws where there is none
  check_cuda(cuda_runtime(), cuda_runtime().get_device_count(&count), "cudaGetDeviceCount", 0);
  return count;
}

int run_real() {
  std::unique_ptr<RealDevice> device;
  on_all_ranks("looking for the device", world(), [&] {
    const auto node = world().on_node();
    device = std::make_unique<RealDevice>(node->rank() % device_count());
  });
  return run_checks(
      *device, [&] { return nccl_link(world(), device->shared, UseNccl::on); }, 32 * 1'024);
}

int tell_about() {
  int version = 0;
  const int devices = device_count();
  try {
    check_nccl(nccl_library(), nccl_library().get_version(&version), "ncclGetVersion");
  } catch (const Error& error) {
    std::cerr << error.what() << std::endl;
  }
  std::cout << "devices " << devices << " nccl " << version << std::endl;
  return 0;
}

int run_on_ranks(int argc, char** argv, bool played) {
  MpiSession session(argc, argv);
  const auto comm = session.world();
  the_world = comm.get();
  return played ? run_played() : run_real();
}

}  // namespace

Communicator& world() { return *the_world; }

int main_of_checks(int argc, char** argv) {
  const std::string_view option = argc > 1 ? argv[1] : "";
  try {
    return option == "--about" ? tell_about() : run_on_ranks(argc, argv, option == "--played");
  } catch (const Error& error) {
    std::cerr << "gpu_check: " << error.what() << std::endl;
    return error.kind() == ErrorKind::unsupported ? kUnsupported : kFailed;
  }
}

}  // namespace cairn

int main(int argc, char** argv) { return cairn::main_of_checks(argc, argv); }
