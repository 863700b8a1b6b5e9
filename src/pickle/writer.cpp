// SPDX-License-Identifier: BSD-3-Clause
#include "pickle/writer.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "base/fail.hpp"
#include "pickle/numbers.hpp"
#include "pickle/opcodes.hpp"
#include "pickle/python2_names.hpp"
#include "pickle/utf8.hpp"
#include "pickle/value_map.hpp"

namespace cairn::pickle {
namespace {

constexpr std::size_t kBatch = 1000;
constexpr std::size_t kMaxDepth = 1000;
constexpr std::size_t kMaxGrowth = 64;
constexpr std::size_t kMaxNestedName = 1024;  // every prefix of a dotted name becomes a key
constexpr std::array kTupleOps{Op::empty_tuple, Op::tuple1, Op::tuple2, Op::tuple3};

template <class... Args>
[[noreturn]] void unsupported(fmt::format_string<Args...> text, Args&&... args) {
  fail(ErrorKind::unsupported, "pickle: {}", fmt::format(text, std::forward<Args>(args)...));
}

class Writer {
 public:
  Writer(const Arena& arena, ByteWriter& out, const PersistentId& persistent_id)
      : arena_(arena),
        out_(out),
        persistent_id_(persistent_id),
        limit_(out.size() + kMaxGrowth * (arena.memory_bytes() + 4096)) {}

  void run(Value root) {
    op(Op::proto);
    out_.write<std::uint8_t>(2);
    save(root);
    op(Op::stop);
  }

 private:
  void op(Op code) { out_.write(static_cast<std::uint8_t>(code)); }

  // --- memo
  // -------------------------------------------------------------------------------------------------
  bool get(Value value) {
    const auto index = memo_.find(value);
    if (!index) return false;
    numbered(Op::binget, Op::long_binget, *index);
    return true;
  }
  void put(Value value) {
    memo_.insert(value, next_);
    put_unnamed();
  }
  /// For an object that exists only while it is written (the argument tuple of a bytes value …).
  void put_unnamed() {
    if (next_ == std::numeric_limits<std::uint32_t>::max()) unsupported("more than 2^32 - 1 objects");
    numbered(Op::binput, Op::long_binput, next_++);
  }
  void numbered(Op narrow, Op wide, std::uint32_t number) {
    op(number < 256 ? narrow : wide);
    if (number < 256) return out_.write(static_cast<std::uint8_t>(number));
    out_.write(number);
  }
  /// After REDUCE or NEWOBJ: a recursive object was written meanwhile, its second copy goes. False then.
  bool put_new(Value value) {
    if (!memo_.find(value)) {
      put(value);
      return true;
    }
    op(Op::pop);
    get(value);
    return false;
  }

  // --- dispatch
  // ---------------------------------------------------------------------------------------------
  void save(Value value) {
    if (out_.size() > limit_) unsupported("the pickle grows past {} times its values", kMaxGrowth);
    switch (value.kind()) {
      case Kind::none:
        return op(Op::none);
      case Kind::boolean:
        return op(arena_.as_boolean(value) ? Op::newtrue : Op::newfalse);
      case Kind::integer:
        return save_integer(arena_.as_integer(value));
      case Kind::big_integer:
        return write_long(arena_.text(value), out_);
      case Kind::real:
        return save_real(arena_.as_real(value));
      default:
        break;
    }
    if (get(value)) return;
    if (++depth_ > kMaxDepth) unsupported("more than {} levels of nesting", kMaxDepth);
    save_node(value);
    --depth_;
  }

  void save_node(Value value) {
    switch (value.kind()) {
      case Kind::string:
        return save_string(value);
      case Kind::bytes:
        save_bytes(arena_.text(value));
        return put(value);
      case Kind::bytearray:
        return save_bytearray(value);
      case Kind::tuple:
        return save_tuple(value);
      case Kind::list:
        return save_list(value);
      case Kind::dict:
        return save_dict(value);
      case Kind::set:
        return save_set(value, "set");
      case Kind::frozenset:
        return save_set(value, "frozenset");
      case Kind::global:
        return save_global(value);
      case Kind::object:
        return save_object(value);
      case Kind::persistent:
        return save_persistent(value);
      default:
        unsupported("a value of kind {}", to_string(value.kind()));
    }
  }

  // --- scalars
  // ----------------------------------------------------------------------------------------------
  void save_integer(std::int64_t value) {
    std::array<std::byte, kIntegerBytes> bytes;
    out_.append(std::span(bytes).first(write_integer(value, bytes.data())));
  }
  void save_real(double value) {
    op(Op::binfloat);
    out_.write(__builtin_bswap64(std::bit_cast<std::uint64_t>(value)));
  }

  // --- text
  // -------------------------------------------------------------------------------------------------
  void save_string(Value value) {
    write_text(arena_.text(value));
    put(value);
  }
  void write_text(std::string_view text) {
    if (text.size() > 0xffffffff) unsupported("a string of {} bytes at protocol 2", text.size());
    op(Op::binunicode);
    out_.write(static_cast<std::uint32_t>(text.size()));
    out_.text(text);
  }
  /// A str made for the moment.
  void save_new_string(std::string_view text) {
    if (const auto shared = shared_string(text)) return save(*shared);
    write_text(text);
    put_unnamed();
  }
  /// Up to REDUCE; the caller puts it in the memo.
  void save_bytes(std::string_view bytes) {
    if (bytes.empty()) {
      save_name("builtins", "bytes");
      op(Op::empty_tuple);
      return op(Op::reduce);
    }
    save_name("_codecs", "encode");
    save_new_string(latin1_to_utf8(bytes));
    save_latin1();
    op(Op::tuple2);
    put_unnamed();
    op(Op::reduce);
  }
  void save_latin1() {
    const Value latin1 = arena_.find_latin1().value_or(outside_value(0));
    if (get(latin1)) return;
    write_text("latin1");
    put(latin1);
  }
  void save_bytearray(Value value) {
    const std::string_view bytes = arena_.text(value);
    save_name("builtins", "bytearray");
    if (bytes.empty()) {
      op(Op::empty_tuple);
    } else {
      save_bytes(bytes);
      put_unnamed();
      op(Op::tuple1);
      put_unnamed();
    }
    op(Op::reduce);
    put_new(value);
  }

  // --- containers
  // -------------------------------------------------------------------------------------------
  void save_tuple(Value value) {
    const auto items = arena_.items(value);
    if (items.empty()) return op(Op::empty_tuple);
    const bool marked = items.size() > 3;
    if (marked) op(Op::mark);
    for (const Value item : items) save(item);
    if (memo_.find(value)) {  // recursive: saving the items has saved it
      for (std::size_t i = 0; i < items.size() && !marked; ++i) op(Op::pop);
      if (marked) op(Op::pop_mark);
      get(value);
      return;
    }
    op(marked ? Op::tuple : kTupleOps[items.size()]);
    put(value);
  }

  void save_list(Value value) {
    op(Op::empty_list);
    put(value);
    save_exact(arena_.items(value), 1, Op::append, Op::appends);
  }
  void save_dict(Value value) {
    op(Op::empty_dict);
    put(value);
    save_exact(arena_.items(value), 2, Op::setitem, Op::setitems);
  }

  /// Items of an exact list (width 1) or dict (width 2): only a container of one item does without MARK.
  /// A dict whose size is a multiple of the batch ends with an empty batch, a list does not.
  void save_exact(std::span<const Value> items, std::size_t width, Op one, Op many) {
    if (items.empty()) return;
    if (items.size() == width) {
      save_all(items);
      return op(one);
    }
    const std::size_t step = kBatch * width;
    bool full = true;
    while (!items.empty() || (full && width == 2)) {
      const auto batch = items.first(std::min(items.size(), step));
      op(Op::mark);
      save_all(batch);
      op(many);
      full = batch.size() == step;
      items = items.subspan(batch.size());
    }
  }
  /// Items of anything else, which CPython iterates over: a last batch of one does without MARK.
  void save_iterated(std::span<const Value> items, std::size_t width, Op one, Op many) {
    while (!items.empty()) {
      const auto batch = items.first(std::min(items.size(), kBatch * width));
      if (batch.size() > width) op(Op::mark);
      save_all(batch);
      op(batch.size() > width ? many : one);
      items = items.subspan(batch.size());
    }
  }
  void save_all(std::span<const Value> items) {
    for (const Value item : items) save(item);
  }

  void save_set(Value value, std::string_view type) {
    save_name("builtins", type);
    op(Op::empty_list);
    put_unnamed();
    save_exact(arena_.items(value), 1, Op::append, Op::appends);
    op(Op::tuple1);
    put_unnamed();
    op(Op::reduce);
    put_new(value);
  }

  // --- objects
  // ----------------------------------------------------------------------------------------------
  void save_object(Value value) {
    const Arena::ObjectView object = arena_.object_view(value);
    if (object.how == Construct::newobj_ex) unsupported("NEWOBJ_EX (keyword arguments) at protocol 2");
    save(object.callable);
    save(object.args);
    op(object.how == Construct::reduce ? Op::reduce : Op::newobj);
    if (!put_new(value)) return;
    save_iterated(object.list_items, 1, Op::append, Op::appends);
    save_iterated(object.dict_items, 2, Op::setitem, Op::setitems);
    if (!object.state) return;
    save(*object.state);
    op(Op::build);
  }

  void save_persistent(Value value) {
    if (persistent_id_) return save_new_id(persistent_id_(value));
    const Value id = arena_.persistent_id(value);
    if (id.kind() == Kind::persistent) unsupported("a persistent id that is persistent itself");
    save(id);
    op(Op::binpersid);
  }
  void save_new_id(std::span<const Value> items) {
    const bool marked = items.size() > 3;
    if (marked) op(Op::mark);
    save_all(items);
    op(marked ? Op::tuple : kTupleOps[items.size()]);
    if (!items.empty()) put_unnamed();
    op(Op::binpersid);
  }

  // --- globals
  // ----------------------------------------------------------------------------------------------
  void save_global(Value value) {
    const auto [module, name] = arena_.global_name(value);
    write_global(value, module, name);
  }
  /// A global that the arena need not know.
  void save_name(std::string_view module, std::string_view name) {
    const std::optional<Value> known = arena_.find_global(module, name);
    const Value value = known ? *known : own_global(module, name);
    if (!get(value)) write_global(value, module, name);
  }
  Value own_global(std::string_view module, std::string_view name) {
    const auto key = std::pair(std::string(module), std::string(name));
    return own_globals_.try_emplace(key, outside_value(own_globals_.size() + 1)).first->second;
  }
  void write_global(Value value, std::string_view module, std::string_view name) {
    if (const std::size_t dot = name.rfind('.'); dot != std::string_view::npos) {
      if (name.size() > kMaxNestedName) unsupported("the name of a nested global has {} bytes", name.size());
      write_attribute(module, name.substr(0, dot), name.substr(dot + 1));
      return put(value);
    }
    const QualifiedName old = to_python2({module, name});
    for (const std::string_view part : {old.module, old.name}) {
      if (!std::all_of(part.begin(), part.end(), [](char c) { return c > 0 && c != '\n'; })) {
        unsupported("the global {}.{} has no name at protocol 2", module, name);
      }
    }
    op(Op::global);
    out_.text(old.module);
    out_.text("\n");
    out_.text(old.name);
    out_.text("\n");
    put(value);
  }
  /// A nested name: getattr(parent, name).
  void write_attribute(std::string_view module, std::string_view parent, std::string_view name) {
    if (++depth_ > kMaxDepth) unsupported("more than {} levels of nesting", kMaxDepth);
    save_name("builtins", "getattr");
    save_name(module, parent);
    save_new_string(name);
    op(Op::tuple2);
    put_unnamed();
    op(Op::reduce);
    --depth_;
  }

  const Arena& arena_;
  ByteWriter& out_;
  const PersistentId& persistent_id_;
  std::size_t limit_, depth_ = 0;
  std::uint32_t next_ = 0;
  ValueMap memo_;
  std::map<std::pair<std::string, std::string>, Value> own_globals_;
};

}  // namespace

void write_protocol2(const Arena& arena, Value root, ByteWriter& out) {
  write_protocol2(arena, root, out, {});
}

void write_protocol2(const Arena& arena, Value root, ByteWriter& out, const PersistentId& persistent_id) {
  Writer(arena, out, persistent_id).run(root);
}

}  // namespace cairn::pickle
