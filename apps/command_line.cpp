// SPDX-License-Identifier: BSD-3-Clause
#include "command_line.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <sstream>

#include "base/fail.hpp"
#include "base/text.hpp"
#include "cairn/storage.hpp"

namespace cairn {
namespace {

namespace po = boost::program_options;

constexpr unsigned kHelpWidth = 100;

po::options_description common_options() {
  po::options_description common("Options of every command", kHelpWidth);
  auto add = common.add_options();
  add("help,h", flag(), "this text");
  add("json", flag(), "the result, or the error, as JSON on standard output");
  add("quiet", flag(), "no notes and warnings");
  add("mpi", flag(), "initialise MPI although no launcher is seen");
  add("no-mpi", flag(), "never initialise MPI; refused where a launcher started several processes");
  return common;
}

}  // namespace

CommonFlags common_flags(const Words& words) {
  CommonFlags flags;
  for (const auto& word : words) {
    if (word == "--") break;
    flags.help |= word == "--help" || word == "-h";
    flags.json |= word == "--json";
    flags.quiet |= word == "--quiet";
    flags.mpi |= word == "--mpi";
    flags.no_mpi |= word == "--no-mpi";
  }
  return flags;
}

Grammar::Grammar(std::string_view command, std::string_view operands, std::string_view summary)
    : command_(command), operands_(operands), summary_(summary), own_("Options", kHelpWidth) {}

std::string Grammar::help() const {
  std::ostringstream text;
  text << "usage: cairn " << command_ << " [OPTION…]" << (operands_.empty() ? "" : " ") << operands_ << "\n\n"
       << summary_ << "\n\n";
  if (!own_.options().empty()) text << own_ << "\n";
  text << common_options() << "\nExit status: 0 fine, 1 the data or the machine, 2 the command line.\n";
  return text.str();
}

Parsed Grammar::parse(const Words& words) const {
  constexpr int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
  po::options_description all;
  all.add(own_).add(common_options());
  Parsed parsed;
  try {
    const auto found = po::command_line_parser(words).options(all).style(style).run();
    for (const auto& option : found.options) {
      if (option.string_key.empty()) {
        parsed.operands.insert(parsed.operands.end(), option.value.begin(), option.value.end());
      }
    }
    po::store(found, parsed.options);
  } catch (const po::error& error) {
    refuse(error.what());
  }
  return parsed;
}

void Grammar::refuse(const std::string& message) const {
  throw Error(ErrorKind::invalid_argument, message, fmt::format("see cairn {} --help", command_));
}

void Grammar::expect_operands(const Parsed& parsed, std::size_t least, std::size_t most) const {
  const auto count = parsed.operands.size();
  if (count < least) refuse(fmt::format("{} needs {}", command_, operands_));
  if (count > most)
    refuse(fmt::format("'{}' is one operand too many: {} takes {}", parsed.operands[most], command_,
                       operands_.empty() ? "none" : operands_));
}

po::typed_value<std::string>* word(const char* name) { return po::value<std::string>()->value_name(name); }
po::typed_value<Words>* words(const char* name) { return po::value<Words>()->value_name(name); }

std::string path_operand(const std::string& operand) {
  constexpr std::string_view local = "file://";
  if (operand.empty()) fail(ErrorKind::invalid_argument, "an empty path");
  if (operand.starts_with(local) && operand.size() > local.size()) return operand.substr(local.size());
  require_path(operand);
  return operand;
}

int number_option(std::string_view option, const std::string& text, int least, int most) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < least || number > most) {
    fail(ErrorKind::invalid_argument, "{} '{}': a number from {} to {} is needed", option, text, least, most);
  }
  return number;
}

std::uint64_t size_option(std::string_view option, const std::string& text) {
  const auto size = parse_size(text);
  if (!size || *size == 0) {
    fail(ErrorKind::invalid_argument, "{} '{}': a size such as 64MiB, 1GB or 1000000 (bytes) is needed",
         option, text);
  }
  return *size;
}

}  // namespace cairn
