// SPDX-License-Identifier: BSD-3-Clause
// The stack machine of a pickle. What its opcodes make is up to a Store: Arena keeps values as nodes, a class
// derived from Arena may keep some of them in another form by hiding Arena's functions of the same names.
#pragma once

#include <bit>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_reader.hpp"
#include "base/byte_stream.hpp"
#include "pickle/fold.hpp"
#include "pickle/memo.hpp"
#include "pickle/opcodes.hpp"
#include "pickle/python2_names.hpp"
#include "pickle/reader.hpp"
#include "pickle/utf8.hpp"

namespace cairn::pickle {

template <class Store>
class Machine {
 public:
  Machine(Store& store, ByteStream& pickle, std::string_view where, ReadLimits limits)
      : store_(store), in_(pickle), where_(where), limits_(limits) {}

  /// As read() in pickle/reader.hpp; once.
  Value run(std::size_t* consumed = nullptr) {
    while (true) {
      at_ = in_.position();
      const auto op = static_cast<Op>(in_.read<std::uint8_t>());
      if (op == Op::stop) break;
      step(op);
    }
    if (!marks_.empty() || stack_.size() != 1) {
      corrupt("STOP with {} values and {} open marks on the stack, expected one value", stack_.size(),
              marks_.size());
    }
    if (consumed != nullptr) {
      *consumed = in_.position();
    } else if (in_.remaining() != 0) {
      fail_corrupt("{}: byte {}: {} bytes after the end of the pickle", where_, in_.position(),
                   in_.remaining());
    }
    return pop();
  }

 private:
  template <class... Args>
  [[noreturn]] void corrupt(fmt::format_string<Args...> text, Args&&... args) const {
    fail_corrupt("{}: byte {}: {}", where_, at_, fmt::format(text, std::forward<Args>(args)...));
  }
  template <class... Args>
  [[noreturn]] void unsupported(fmt::format_string<Args...> text, Args&&... args) const {
    fail(ErrorKind::unsupported, "{}: byte {}: {}", where_, at_,
         fmt::format(text, std::forward<Args>(args)...));
  }

  void step(Op op) {
    switch (op) {
      case Op::proto:
        return protocol();
      case Op::frame:
        return frame();
      case Op::mark:
        return mark();
      case Op::pop:
        return drop();
      case Op::pop_mark:
        return drop_mark();
      case Op::none:
        return push(store_.none());
      case Op::newtrue:
        return push(store_.boolean(true));
      case Op::newfalse:
        return push(store_.boolean(false));
      case Op::binint:
        return push(store_.integer(in_.read<std::int32_t>()));
      case Op::binint1:
        return push(store_.integer(in_.read<std::uint8_t>()));
      case Op::binint2:
        return push(store_.integer(in_.read<std::uint16_t>()));
      case Op::long1:
        return push(store_.big_integer(counted<std::uint8_t>()));
      case Op::long4:
        return push(store_.big_integer(counted<std::int32_t>()));
      case Op::binfloat:
        return push(store_.real(big_endian_double()));
      case Op::binstring:
        return push_new(unicode(counted<std::int32_t>()));
      case Op::short_binstring:
      case Op::short_binunicode:
        return push_new(unicode(counted<std::uint8_t>()));
      case Op::binunicode:
        return push_new(unicode(counted<std::uint32_t>()));
      case Op::binunicode8:
        return push_new(unicode(counted<std::uint64_t>()));
      case Op::short_binbytes:
        return push_new(store_.bytes(counted<std::uint8_t>()));
      case Op::binbytes:
        return push_new(store_.bytes(counted<std::uint32_t>()));
      case Op::binbytes8:
        return push_new(store_.bytes(counted<std::uint64_t>()));
      case Op::bytearray8:
        return push_new(store_.bytearray(counted<std::uint64_t>()));
      case Op::empty_list:
        return push_new(store_.list());
      case Op::empty_dict:
        return push_new(store_.dict());
      case Op::empty_set:
        return push_new(store_.set());
      case Op::empty_tuple:
        return push(store_.tuple({}));
      case Op::tuple1:
        return tuple(1);
      case Op::tuple2:
        return tuple(2);
      case Op::tuple3:
        return tuple(3);
      case Op::tuple:
        return from_mark([this](auto items) { return store_.tuple(items); });
      case Op::frozenset:
        return from_mark([this](auto items) { return store_.frozenset(items); });
      case Op::list:
        return from_mark([this](auto items) { return new_list(items); });
      case Op::dict:
        return from_mark([this](auto items) { return new_dict(items); });
      case Op::append:
        return append(1);
      case Op::appends:
        return append(since_mark());
      case Op::additems:
        return add_items(since_mark());
      case Op::setitem:
        return set_items(2);
      case Op::setitems:
        return set_items(since_mark());
      case Op::binget:
        return get(in_.read<std::uint8_t>());
      case Op::long_binget:
        return get(in_.read<std::uint32_t>());
      case Op::binput:
        return put(in_.read<std::uint8_t>());
      case Op::long_binput:
        return put(in_.read<std::uint32_t>());
      case Op::memoize:
        return put(memo_.size());
      case Op::global:
        return global();
      case Op::stack_global:
        return stack_global();
      case Op::reduce:
        return reduce();
      case Op::newobj:
        return newobj();
      case Op::newobj_ex:
        return newobj_ex();
      case Op::build:
        return build();
      case Op::binpersid:
        return push(store_.persistent(pop()));
      case Op::stop:
        break;
    }
    unsupported("opcode {:#04x} is none that protocols 2 to 5 write", static_cast<unsigned>(op));
  }

  // --- the stack: values above the last mark are in reach ------------------------------------------------
  std::size_t fence() const { return marks_.empty() ? 0 : marks_.back(); }
  void need(std::size_t count) const {
    if (stack_.size() - fence() < count) {
      corrupt("{} values needed on the stack, {} found", count, stack_.size() - fence());
    }
  }
  void push(Value value) { stack_.push(value); }
  // Picklers put what they have made into the memo at once: doing it here saves going through step(). What is
  // out of the ordinary is left to put().
  void push_new(Value value) {
    push(value);
    if (in_.next_is(Op::memoize)) {
      in_.skip_buffered(1);
      memo_.add(value);
    }
  }
  Value pop() {
    need(1);
    const Value top = stack_.back();
    stack_.shrink(stack_.size() - 1);
    return top;
  }
  std::span<const Value> top(std::size_t count) const {
    need(count);
    return stack_.span(stack_.size() - count, count);
  }
  void cut(std::size_t count) { stack_.shrink(stack_.size() - count); }

  void mark() {
    if (marks_.size() == limits_.open_marks) unsupported("more than {} open marks", limits_.open_marks);
    marks_.push_back(stack_.size());
  }
  /// Closes the mark; the number of values above it.
  std::size_t since_mark() {
    if (marks_.empty()) corrupt("no mark is open");
    const std::size_t first = marks_.back();
    marks_.pop_back();
    return stack_.size() - first;
  }

  // A call whose result is dropped at once (a state setter) would be lost. A recursive object's second copy
  // may go: the first one is fetched from the memo in its place.
  void drop() {
    if (!marks_.empty() && fence() == stack_.size()) return marks_.pop_back();
    const Value dropped = pop();
    const bool just_called = dropped.kind() == Kind::object && called_at_ + 1 == at_;
    if (just_called && !is_fetched_next(store_.object_view(dropped).callable)) {
      unsupported("the result of a call is dropped");
    }
  }
  bool is_fetched_next(Value callable) const {
    ByteReader next(in_.peek(5), where_);
    const auto op = static_cast<Op>(next.read<std::uint8_t>());
    if (op != Op::binget && op != Op::long_binget) return false;
    const std::size_t index = op == Op::binget ? next.read<std::uint8_t>() : next.read<std::uint32_t>();
    if (index >= memo_.size() || memo_[index].kind() != Kind::object) return false;
    return store_.object_view(memo_[index]).callable == callable;
  }
  void drop_mark() { cut(since_mark()); }

  void tuple(std::size_t count) {
    if (count == 1 && tuple_of_size()) return;
    const Value made = store_.tuple(top(count));
    cut(count);
    push_new(made);
  }
  // torch.Size((…)): the outer tuple, of arguments, is in the memo but never fetched by what picklers write.
  bool tuple_of_size() {
    if (!in_.next_is(Op::memoize, Op::reduce) || stack_.size() - fence() < 2) return false;
    const Value size = stack_.back();
    if (size.kind() != Kind::tuple || !is_size(stack_[stack_.size() - 2])) return false;
    in_.skip_buffered(2);
    memo_.add(argument_tuple(size));
    cut(2);
    push_new(size);
    return true;
  }
  template <class Make>
  void from_mark(Make make) {
    const std::size_t count = since_mark();
    const Value made = make(top(count));
    cut(count);
    push_new(made);
  }
  Value new_list(std::span<const Value> items) {
    const Value made = store_.list();
    store_.append_all(made, items);
    return made;
  }
  Value new_dict(std::span<const Value> items) {
    if (items.size() % 2 != 0) corrupt("a key without a value");
    const Value made = store_.dict();
    store_.set_all(made, items);
    return made;
  }

  // --- filling
  // ----------------------------------------------------------------------------------------------
  Value target(std::size_t count) const { return top(count + 1).front(); }

  [[noreturn]] void wrong_target(std::string_view expected, Value found) const {
    corrupt("{} expected, {} found", expected, to_string(found.kind()));
  }
  void check_no_state(Value container) const {
    if (container.kind() == Kind::object && store_.object_view(container).state) {
      unsupported("an object is changed after its state was set");
    }
  }

  void append(std::size_t count) {
    const Value list = target(count);
    if (list.kind() != Kind::list && list.kind() != Kind::object) wrong_target("list or object", list);
    check_no_state(list);
    store_.append_all(list, top(count));
    cut(count);
  }
  void add_items(std::size_t count) {
    const Value set = target(count);
    if (set.kind() != Kind::set) wrong_target("set", set);
    store_.append_all(set, top(count));
    cut(count);
  }
  void set_items(std::size_t count) {
    if (count % 2 != 0) corrupt("a key without a value");
    const Value dict = target(count);
    if (dict.kind() != Kind::dict && dict.kind() != Kind::object) wrong_target("dict or object", dict);
    check_no_state(dict);
    store_.set_all(dict, top(count));
    cut(count);
  }
  void build() {
    const Value object = target(1);
    if (object.kind() != Kind::object && object.kind() != Kind::row) wrong_target("object", object);
    check_no_state(object);
    store_.set_state(object, pop());
  }

  // --- scalars
  // ----------------------------------------------------------------------------------------------
  void protocol() {
    if (at_ != 0) corrupt("PROTO after the start");
    protocol_ = in_.read<std::uint8_t>();
    if (protocol_ > 5) unsupported("pickle protocol {}", protocol_);
  }
  void frame() {
    const auto length = in_.read<std::uint64_t>();
    if (length > in_.remaining())
      corrupt("a frame of {} bytes, {} left: the file is cut short", length, in_.remaining());
  }

  template <class Length>
  std::string_view counted() {
    const auto length = in_.read<Length>();
    if (std::cmp_less(length, 0)) corrupt("a negative length, {}", length);
    return in_.text(static_cast<std::uint64_t>(length));
  }
  Value unicode(std::string_view text) {
    if (!valid_utf8(text)) corrupt("a string that is not UTF-8");
    return store_.string(text);
  }
  double big_endian_double() { return std::bit_cast<double>(__builtin_bswap64(in_.read<std::uint64_t>())); }

  // --- memo
  // -------------------------------------------------------------------------------------------------
  void get(std::size_t index) {
    if (index >= memo_.size() || memo_[index] == kNothing)
      corrupt("nothing stored under memo index {}", index);
    Value value = memo_[index];
    if (value.kind() == Kind::dict) store_.dict_fetched(value);
    if (is_argument_tuple(value)) memo_.put(index, value = store_.tuple({{the_argument(value)}}));
    push(value);
  }
  void put(std::size_t index) {
    if (index >= in_.size()) corrupt("memo index {} in a pickle of {} bytes", index, in_.size());
    memo_.put(index, top(1).front());
  }

  // --- globals and calls
  // ------------------------------------------------------------------------------------
  std::string_view line() {
    const std::string_view name = in_.line();
    if (!valid_utf8(name)) corrupt("the name of a global is not UTF-8");
    return name;
  }
  void push_global(QualifiedName name) {
    if (protocol_ < 3) name = to_python3(name);
    push_new(store_.global(name.module, name.name));
  }
  void global() {
    const std::string module(line());
    push_global({module, line()});
  }
  void stack_global() {
    const auto names = top(2);
    if (names[0].kind() != Kind::string || names[1].kind() != Kind::string) {
      corrupt("two strings expected, {} and {} found", to_string(names[0].kind()),
              to_string(names[1].kind()));
    }
    const std::string module(store_.text(names[0])), name(store_.text(names[1]));
    cut(2);
    push_global({module, name});
  }

  void check_call(Value callable, Value args) const {
    if (callable.kind() != Kind::global && callable.kind() != Kind::object) {
      corrupt("something callable expected, {} found", to_string(callable.kind()));
    }
    if (args.kind() != Kind::tuple)
      corrupt("a tuple of arguments expected, {} found", to_string(args.kind()));
  }
  bool is_size(Value callable) {
    if (!limits_.sizes_as_tuples || callable.kind() != Kind::global) return false;
    if (!torch_size_) torch_size_ = store_.find_global("torch", "Size");
    return torch_size_ == callable;
  }
  Value call(Value callable, Value args) {
    const auto items = store_.items(args);
    if (items.size() == 1 && items[0].kind() == Kind::tuple && is_size(callable)) return items[0];
    const auto place = [this] { return fmt::format("{}: byte {}", where_, at_); };
    const auto plain = with_context(place, [&] { return fold_call(store_, callable, args, copies_left_); });
    return plain ? *plain : store_.object(Construct::reduce, callable, args);
  }
  void reduce() {
    const Value args = pop(), callable = pop();
    check_call(callable, args);
    const Value made = call(callable, args);
    called_at_ = at_;
    push_new(made);
  }
  void newobj() {
    const Value args = pop(), callable = pop();
    check_call(callable, args);
    called_at_ = at_;
    push_new(store_.object(Construct::newobj, callable, args));
  }
  void newobj_ex() {
    const Value kwargs = pop(), args = pop(), callable = pop();
    check_call(callable, args);
    if (kwargs.kind() != Kind::dict)
      corrupt("a dict of arguments expected, {} found", to_string(kwargs.kind()));
    push_new(store_.object(Construct::newobj_ex, callable, args, kwargs));
  }

  Store& store_;
  ByteStream& in_;
  std::string_view where_;
  ReadLimits limits_;
  std::optional<Value> torch_size_;
  std::uint64_t at_ = 0;         // of the opcode being read
  std::uint64_t called_at_ = 0;  // of the last REDUCE or NEWOBJ
  unsigned protocol_ = 0;
  std::size_t copies_left_ = 2 * in_.size();
  Pool<Value> stack_;
  Memo memo_;
  std::vector<std::size_t> marks_;
};

}  // namespace cairn::pickle
