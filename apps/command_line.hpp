// SPDX-License-Identifier: BSD-3-Clause
// What a command's words mean. Everything here throws invalid_argument (a URL: unsupported) for words that it
// does not accept; these errors end the program with status 2.
#pragma once

#include <boost/program_options.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

using Words = std::vector<std::string>;

/// The options of every command, told by their spelling alone, so that even words that cannot be parsed are
/// answered in the form they ask for.
struct CommonFlags {
  bool help = false, json = false, quiet = false, mpi = false, no_mpi = false;
};
CommonFlags common_flags(const Words& words);

struct Parsed {
  boost::program_options::variables_map options;
  std::vector<std::string> operands;  ///< words that are no options, in order

  bool has(const char* option) const { return options.count(option) > 0; }
  const std::string& text(const char* option) const { return options[option].as<std::string>(); }
  Words texts(const char* option) const { return has(option) ? options[option].as<Words>() : Words(); }
};

/// What one command accepts.
class Grammar {
 public:
  /// `operands` as in "PATH [GLOB…]".
  Grammar(std::string_view command, std::string_view operands, std::string_view summary);

  /// For the command's own options.
  boost::program_options::options_description_easy_init add() { return own_.add_options(); }

  const std::string& command() const { return command_; }
  const std::string& summary() const { return summary_; }
  std::string help() const;
  Parsed parse(const Words& words) const;
  /// Throws invalid_argument that points to --help.
  [[noreturn]] void refuse(const std::string& message) const;
  /// Refuses fewer or more operands.
  void expect_operands(const Parsed& parsed, std::size_t least, std::size_t most) const;

 private:
  std::string command_, operands_, summary_;
  boost::program_options::options_description own_;
};

/// A switch without a value.
inline boost::program_options::typed_value<bool>* flag() { return boost::program_options::bool_switch(); }
/// An option with a word as its value; `word` is its name in --help.
boost::program_options::typed_value<std::string>* word(const char* word);
/// One that may be given several times.
boost::program_options::typed_value<Words>* words(const char* word);

/// The path that an operand names: "file://" is taken off, other URLs are refused.
std::string path_operand(const std::string& operand);

/// A whole number from `least` to `most`.
int number_option(std::string_view option, const std::string& text, int least, int most);
/// A SIZE above 0.
std::uint64_t size_option(std::string_view option, const std::string& text);

}  // namespace cairn
