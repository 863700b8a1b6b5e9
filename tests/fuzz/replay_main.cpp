// SPDX-License-Identifier: BSD-3-Clause
// Runs one fuzz entry over every file of a corpus folder, whole and mutated: cut at each length, and with
// changed bytes. Deterministic, so that ctest can run it; a decoder fails by crashing, throwing, or hanging.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));

namespace {

using Input = std::vector<std::uint8_t>;

// Positions tried per file and mutation; larger files are sampled evenly.
constexpr std::size_t position_limit = 2048;

std::string running;  // what to name when the entry throws or dies

void name_running() {
  if (write(STDERR_FILENO, running.data(), running.size()) < 0 || write(STDERR_FILENO, "\n", 1) < 0) return;
}

void name_running_on_death() {
  std::signal(SIGABRT, [](int) { name_running(); });
  if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(name_running);
}

std::size_t run(const std::string& what, const Input& input) {
  running = what;
  const Input exact(input);  // no spare capacity: a read past the end leaves the allocation
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
  return 1;
}

std::size_t run_cut(const std::string& name, const Input& input) {
  const std::size_t step = input.size() / position_limit + 1;
  std::size_t count = 0;
  for (std::size_t size = 0; size < input.size(); size += step) {
    const auto end = input.begin() + static_cast<std::ptrdiff_t>(size);
    count += run(name + " cut to " + std::to_string(size) + " bytes", Input(input.begin(), end));
  }
  return count;
}

std::size_t run_changed(const std::string& name, Input input) {
  const std::size_t step = input.size() / position_limit + 1;
  std::size_t count = 0;
  for (std::size_t at = 0; at < input.size(); at += step) {
    const std::uint8_t old = input[at];
    for (const int value : {0x00, 0x7f, 0xff, old ^ 0x01, old ^ 0x80}) {
      input[at] = static_cast<std::uint8_t>(value);
      count += run(name + " with byte " + std::to_string(at) + " = " + std::to_string(value), input);
    }
    input[at] = old;
  }
  return count;
}

Input read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::vector<std::filesystem::path> files_of(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::size_t replay(const std::filesystem::path& folder) {
  std::size_t count = run("the empty input", {});
  for (const auto& file : files_of(folder)) {
    const Input input = read_file(file);
    const std::string name = file.filename().string();
    count += run(name, input) + run_cut(name, input) + run_changed(name, input);
  }
  return count;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s CORPUS_FOLDER\n", argv[0]);
    return 2;
  }
  name_running_on_death();
  try {
    std::printf("%zu inputs\n", replay(argv[1]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", running.c_str(), error.what());
    return 1;
  }
}
