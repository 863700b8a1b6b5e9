// SPDX-License-Identifier: BSD-3-Clause
#include "checkpoint/output_requests.hpp"

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

NameMap read_map(FileSystem& files, const std::string& path) {
  const auto file = files.open_read(path);
  Bytes text(file->size());
  file->read(0, text);
  return NameMap::parse(as_text(text), path);
}

}  // namespace

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
  for (std::size_t i = 0; i < requests.size(); ++i) {
    OutputRequest& request = requests[i];
    if (request.beside_main) request.file = directory + request.file;
    for (std::size_t before = 0; before < i; ++before) {
      if (requests[before].file != request.file) continue;
      fail(ErrorKind::invalid_argument, "{}: two outputs are to be this file", escape_name(request.file));
    }
    if (!request.map_file.empty()) request.rules.map = read_map(files, request.map_file);
  }
}

}  // namespace cairn
