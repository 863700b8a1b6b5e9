// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/output_requests.hpp"

#include <span>

#include "base/byte_writer.hpp"
#include "base/fail.hpp"
#include "base/text.hpp"
#include "plan/names/ema.hpp"
#include "plan/names/output_rules.hpp"

namespace cairn {
namespace {

NameRules parse_rules(const NameOptions& options) {
  NameRules rules;
  for (const auto& text : options.select) rules.select.emplace_back(text);
  for (const auto& text : options.exclude) rules.exclude.emplace_back(text);
  rules.unwrap = options.unwrap;
  for (const auto& text : options.strip_prefix) rules.strip_prefix.push_back(parse_prefix(text));
  for (const auto& text : options.rename) rules.renames.push_back(parse_rename(text));
  for (const auto& text : options.cast) rules.casts.push_back(parse_cast(text));
  return rules;
}

void check_file(FileSystem& files, const OutputRequest& request, std::span<const OutputRequest> all) {
  if (request.file.ends_with('/'))
    fail(ErrorKind::invalid_argument, "{}: the name of a file expected", escape_name(request.file));
  const auto old = files.status(request.file);
  for (const OutputRequest& other : all) {
    if (&other != &request && other.file == request.file)
      fail(ErrorKind::invalid_argument, "{}: two outputs are to be this file", escape_name(request.file));
    const auto map = old && !other.map_file.empty() ? files.status(other.map_file) : std::nullopt;
    if (map && map->device == old->device && map->inode == old->inode)
      fail(ErrorKind::invalid_argument, "{}: the output would replace the map", escape_name(request.file));
  }
}

}  // namespace

std::string read_text(FileSystem& files, const std::string& path) {
  const auto file = files.open_read(path);
  Bytes text(file->size());
  file->read(0, text);
  return std::string(as_text(text));
}

bool OutputRequest::keeps_all() const {
  return rules.keeps_names() && rules.select.empty() && rules.exclude.empty() && rules.casts.empty();
}

std::vector<OutputRequest> output_requests(const ConsolidateOptions& options) {
  std::vector<OutputRequest> requests;
  requests.push_back({{}, parse_rules(options.names), options.names.map_file});
  if (options.ema) {
    requests.push_back({std::string(kEmaFp32File), ema_fp32_rules(), {}, true});
    requests.push_back({std::string(kEmaBf16File), ema_bf16_rules(), {}, true});
  }
  for (const std::string& text : options.more_outputs) {
    OutputRules parsed = parse_output_rules(text);
    requests.push_back({std::move(parsed.file), std::move(parsed.rules), parsed.map_file.value_or("")});
  }
  return requests;
}

void complete_requests(FileSystem& files, const std::string& main_file,
                       std::vector<OutputRequest>& requests) {
  const auto slash = main_file.rfind('/');
  const std::string directory = slash == std::string::npos ? "" : main_file.substr(0, slash + 1);
  requests[0].file = main_file;
  for (OutputRequest& request : requests) {
    if (request.beside_main) request.file = directory + request.file;
  }
  for (OutputRequest& request : requests) {
    check_file(files, request, requests);
    if (!request.map_file.empty())
      request.rules.map = NameMap::parse(read_text(files, request.map_file), request.map_file);
  }
}

}  // namespace cairn
