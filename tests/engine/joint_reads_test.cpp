// SPDX-License-Identifier: BSD-3-Clause
#include "engine/joint_reads.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <thread>

namespace cairn {
namespace {

/// Tensors of one chunk each, whose int32 elements are numbered.
Catalog catalog_of(const std::vector<std::vector<std::int64_t>>& shapes) {
  Catalog catalog;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const std::string name = "t" + std::to_string(i);
    catalog.add_tensor(catalog.add_string(name), DType::int32, shapes[i]);
    const Box whole{std::vector<std::int64_t>(shapes[i].size(), 0), shapes[i]};
    catalog.add_chunk(whole, kNoFile, 0, 0);
  }
  return catalog;
}

/// Zero at first, and aligned, as the ranks' memory is.
class Shared {
 public:
  explicit Shared(int ranks) : lines_(JointReads::shared_bytes(ranks) / sizeof(Line) + 1), ranks_(ranks) {}
  std::span<std::byte> bytes() { return {lines_[0].bytes, JointReads::shared_bytes(ranks_)}; }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> lines_;
  int ranks_;
};

std::int64_t number_of(std::span<const std::int64_t> shape, std::span<const std::int64_t> at) {
  const auto strides = contiguous_strides(shape);
  std::int64_t number = 0;
  for (std::size_t d = 0; d < at.size(); ++d) number += at[d] * strides[d];
  return number;
}

template <class Visit>
void for_each_place(const Box& box, const Visit& visit) {
  std::vector<std::int64_t> at = box.offsets;
  for (std::int64_t i = 0; i < element_count(box.sizes); ++i) {
    visit(at, i);
    for (std::size_t d = at.size(); d-- > 0;) {
      if (++at[d] < box.offsets[d] + box.sizes[d]) break;
      at[d] = box.offsets[d];
    }
  }
}

/// One rank: fills units with the elements' numbers, and notes what it takes.
class Player {
 public:
  Player(Shared& shared, const Catalog& catalog, const std::vector<JointChunk>& chunks,
         std::vector<JointPart> parts)
      : catalog_(catalog), reads_(shared.bytes(), catalog, chunks, std::move(parts)) {}

  void play() {
    JointReads::Claim claim;
    while (!reads_.is_lost() && !reads_.is_finished(claim)) {
      if (const auto taken = reads_.next_to_take()) {
        take(*taken);
        reads_.give_back(taken->unit);
      } else if (const auto unit = reads_.next_to_read(claim)) {
        if (read_ == reads_before_failure_) return reads_.give_up();
        ++read_;
        fill(*unit);
        reads_.publish(*unit);
      } else {
        std::this_thread::yield();
      }
    }
  }
  void fail_after(int reads) { reads_before_failure_ = reads; }

  JointReads& reads() { return reads_; }
  int read() const { return read_; }
  int wrong() const { return wrong_; }
  const std::multiset<std::pair<std::uint32_t, std::int64_t>>& taken() const { return taken_; }
  std::uint32_t pieces_of(std::uint32_t item) const {
    const auto found = pieces_.find(item);
    return found == pieces_.end() ? 0 : found->second;
  }

 private:
  std::span<const std::int64_t> shape(const JointReads::Unit& unit) const {
    return catalog_.shape(catalog_.tensors()[unit.chunk->tensor]);
  }
  void fill(const JointReads::Unit& unit) {
    for_each_place(unit.piece, [&](const auto& at, std::int64_t i) {
      const auto value = static_cast<std::int32_t>(number_of(shape(unit), at));
      std::memcpy(&unit.memory[static_cast<std::size_t>(i) * 4], &value, 4);
    });
  }
  void take(const JointReads::Taken& taken) {
    ++pieces_[taken.part->item];
    for_each_place(taken.box, [&](auto at, std::int64_t) {
      const std::int64_t expected = number_of(shape(taken.unit), at);
      for (std::size_t d = 0; d < at.size(); ++d) at[d] -= taken.unit.piece.offsets[d];
      std::int32_t value = -1;
      std::memcpy(&value,
                  &taken.unit.memory[static_cast<std::size_t>(number_of(taken.unit.piece.sizes, at)) * 4], 4);
      wrong_ += value != expected;
      taken_.emplace(taken.part->item, value);
    });
  }

  const Catalog& catalog_;
  JointReads reads_;
  int read_ = 0, wrong_ = 0, reads_before_failure_ = -1;
  std::multiset<std::pair<std::uint32_t, std::int64_t>> taken_;
  std::map<std::uint32_t, std::uint32_t> pieces_;
};

/// Some parts of some chunks, drawn; what is read is the smallest box around them.
struct Game {
  Game(unsigned seed, int ranks)
      : catalog(catalog_of({{700, 301}, {3, 5, 20000}, {1, 200000}, {90000}, {64, 64, 64}})), shared(ranks) {
    std::mt19937 random(seed);
    std::vector<std::vector<JointPart>> parts(static_cast<std::size_t>(ranks));
    for (std::uint32_t tensor = 0; tensor < catalog.tensors().size(); ++tensor) {
      JointChunk chunk{tensor, catalog.tensors()[tensor].first_chunk, {}, {}};
      for (std::size_t rank = 0; rank < parts.size(); ++rank) {
        for (unsigned i = random() % 3; i > 0; --i) {
          const Box box = draw(random, catalog.shape(catalog.tensors()[tensor]));
          parts[rank].push_back({chunks.size(), static_cast<std::uint32_t>(parts[rank].size()), box});
          chunk.parts.push_back(box);
        }
      }
      if (chunk.parts.empty()) continue;
      chunk.box = around(chunk.parts);
      chunks.push_back(std::move(chunk));
    }
    for (auto& own : parts)
      players.push_back(std::make_unique<Player>(shared, catalog, chunks, std::move(own)));
  }

  static Box draw(std::mt19937& random, std::span<const std::int64_t> shape) {
    Box box;
    for (const std::int64_t size : shape) {
      box.offsets.push_back(static_cast<std::int64_t>(random() % static_cast<unsigned>(size)));
      box.sizes.push_back(
          1 + static_cast<std::int64_t>(random() % static_cast<unsigned>(size - box.offsets.back())));
    }
    return box;
  }
  static Box around(const std::vector<Box>& parts) {
    Box box = parts[0];
    for (const Box& part : parts) {
      for (std::size_t d = 0; d < box.sizes.size(); ++d) {
        const auto end = std::max(box.offsets[d] + box.sizes[d], part.offsets[d] + part.sizes[d]);
        box.offsets[d] = std::min(box.offsets[d], part.offsets[d]);
        box.sizes[d] = end - box.offsets[d];
      }
    }
    return box;
  }

  void play() {
    std::vector<std::thread> threads;
    for (const auto& player : players) threads.emplace_back([&player] { player->play(); });
    for (std::thread& thread : threads) thread.join();
  }

  Catalog catalog;
  Shared shared;
  std::vector<JointChunk> chunks;
  std::vector<std::unique_ptr<Player>> players;
};

TEST(JointReads, EachRankTakesEachOfItsElementsOnce) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    Game game(seed, 1 + static_cast<int>(seed));
    game.play();
    for (const auto& player : game.players) {
      EXPECT_EQ(player->wrong(), 0);
      std::size_t wanted = 0;
      for (const JointPart& part : player->reads().mine()) {
        wanted += static_cast<std::size_t>(element_count(part.box.sizes));
        EXPECT_EQ(player->reads().unit_count(part), player->pieces_of(part.item));
      }
      EXPECT_EQ(player->taken().size(), wanted);
      EXPECT_EQ((std::set(player->taken().begin(), player->taken().end()).size()), wanted);
    }
  }
}

TEST(JointReads, EachUnitIsReadOnceByWhoeverComes) {
  Game game(7, 4);
  game.play();
  int read = 0;
  for (const auto& player : game.players) read += player->read();
  std::int64_t units = 0;
  for (const JointChunk& chunk : game.chunks) {
    const JointPart whole{static_cast<std::size_t>(&chunk - game.chunks.data()), 0, chunk.box};
    units += game.players[0]->reads().unit_count(whole);
  }
  EXPECT_EQ(read, units);
}

TEST(JointReads, WhenOneGivesUpNobodyWaits) {
  for (const int reads : {0, 1, 3}) {
    Game game(3, 3);
    game.players[1]->fail_after(reads);
    game.play();  // comes back
    EXPECT_TRUE(game.players[1]->reads().is_lost() || game.players[1]->read() <= reads);
  }
}

}  // namespace
}  // namespace cairn
