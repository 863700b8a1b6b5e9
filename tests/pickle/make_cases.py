# SPDX-License-Identifier: BSD-3-Clause
"""Writes tests/data/pickle/<case>.p<protocol>.pkl with this Python's own C pickler.

Made with CPython 3.11: python3 tests/pickle/make_cases.py tests/data/pickle
Every protocol of a case is the pickle of one and the same object, so that the object structure (identities
included) agrees and whatever is read from protocol 3, 4 or 5 must come out as the protocol 2 file.
"""

import collections
import datetime
import decimal
import enum
import fractions
import io
import pathlib
import pickle
import sys
import types


class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y


class Slots:
    __slots__ = ("left", "right")

    def __init__(self, left, right):
        self.left, self.right = left, right


class NamedList(list):
    pass


class NamedDict(dict):
    pass


class Colour(enum.Enum):
    RED = 1
    GREEN = "green"


class Attribute:  # reduces to getattr(Outer, "member")
    def __reduce__(self):
        return getattr, (Outer, "member")


class Outer:
    member = Attribute()

    class Inner:
        class Innermost:
            pass


class Call:
    def __init__(self, *parts):
        self.parts = parts

    def __reduce__(self):
        return self.parts


class Storage:
    def __init__(self, id):
        self.id = id


def rebuild(*args):
    return args


def publish():
    module = types.ModuleType("cases")
    for thing in (Point, Slots, NamedList, NamedDict, Colour, Outer, rebuild):
        thing.__module__ = "cases"
        setattr(module, thing.__name__, thing)
    Outer.Inner.__module__ = Outer.Inner.Innermost.__module__ = "cases"
    sys.modules["cases"] = module


class Pickler(pickle.Pickler):
    def persistent_id(self, value):
        return value.id if isinstance(value, Storage) else None


def fresh(text):
    """A str object of its own, or CPython's singleton of one character (a literal may be another, interned object)."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "surrogatepass")


def shared():
    text, numbers, pair = fresh("shared text"), [1, 2], (fresh("left"), fresh("right"))
    return [text, text, fresh("shared text"), numbers, numbers, pair, pair, (), (), ("", ""), fresh("a"), fresh("a"), "\xe9", "\xe9"]


def cycles():
    itself = []
    itself.append(itself)
    mapping = {}
    mapping["self"] = mapping
    pair = ([],)
    pair[0].append(pair)
    four = ([], 1, 2, 3)
    four[0].append(four)
    point = Point(None, None)
    point.x = point
    group = Point(None, None)
    group.x = {group, 5}
    inner = Point(None, None)
    inner.x = frozenset([inner])
    called = []
    call = Call(rebuild, (called,))
    called.append(call)
    return [itself, mapping, pair, four, point, group.x, inner.x, call]


def cases():
    for count in (254, 255, 256, 257):
        yield f"memo_{count}", [fresh(f"string {i}") for i in range(count)]
    for count in (0, 1, 2, 999, 1000, 1001, 1002, 2000, 2001):
        yield f"list_{count}", [None] * count
        yield f"dict_{count}", {i: None for i in range(count)}
    for count in (0, 1, 2, 1000, 1001, 1002):
        yield f"ordered_{count}", collections.OrderedDict((i, None) for i in range(count))
        yield f"listitems_{count}", NamedList([None] * count)
    yield "sets", [set(), {1}, set(range(1001)), frozenset(), frozenset([2]), frozenset(range(3))]
    yield "shared", shared()
    yield "cycles", cycles()
    edges = [2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**53, 2**54, -(2**54) - 1, 2**63 - 1, 2**63, -(2**63)]
    edges += [-(2**63) - 1, 2**200, -(2**200), 2**2031, 2**2039, -(2**2039), 2**2040, 0, 1, -1, 255, 256, 65535, 65536]
    yield "integers", edges + [-128, -(2**39), -(2**39) - 1, 2**39, 2**55, -(2**55)]
    yield "reals", [0.0, -0.0, 1.5, float("inf"), float("-inf"), float("nan"), 5e-324]
    yield "scalars", [None, True, False, complex(1, 2), Ellipsis, NotImplemented, type(None), int, range(3)]
    texts = ["", "a", "\x7f", "\x80", "\xff", "\u0100", "\ud800", "a\udfffz", "\U0001f600", "x" * 255, "x" * 256, "\0", "\n"]
    texts = [fresh(text) for text in texts]
    yield "texts", texts + texts[::-1] + ["latin1", sys.intern("latin1")]
    payload = b"\x00\x7f\x80\xff payload"
    blobs = [b"", b"a", fresh("a"), b"\xff", "\xff", payload, payload, bytes(bytearray(payload)), b"", b"a", b"x" * 300]
    yield "bytes", blobs
    yield "interned_latin1", [payload, "latin1"]
    grown = bytearray(b"grown")
    yield "bytearrays", [bytearray(), bytearray(b"a"), b"a", fresh("a"), grown, grown, bytearray(payload), bytearray(b"\xff")]
    slots = Slots(1, fresh("right"))
    yield "objects", [Point(1, 2), Point(3, [4]), slots, slots, NamedDict(one=1), NamedDict({1: 2, 3: 4})]
    yield "enums", [Colour.RED, Colour.GREEN, Colour.RED]
    yield "getattr", [Outer.member, Outer, Attribute()]
    yield "nested_names", [Outer.Inner, Outer.Inner, Outer.Inner.Innermost, Outer, Outer.Inner.Innermost, "Inner"]
    key, location = fresh("0"), fresh("cpu")
    one, two = Storage(("storage", key, location, 4)), Storage(("storage", key, location, 8))
    tensor = Call(rebuild, (one, 0, (2, 2), (2, 1), False, collections.OrderedDict()))
    yield "persistent", {"weight": tensor, "bias": Call(rebuild, (two, 0, (8,), (1,), False)), "id": one.id, "again": one}
    yield "persistent_number", [Storage(7), Storage(fresh("seven"))]
    moved = [range, map, zip, str, int, OSError, ValueError, ImportError, io.StringIO]
    moved += [collections.Counter("aab"), collections.UserDict, collections.UserList, collections.defaultdict(list)]
    yield "renamed", moved + [pickle.PickleError, __import__("functools").reduce, __import__("queue").Queue]
    library = [datetime.datetime(2024, 2, 29, 1, 2, 3), decimal.Decimal("1.50"), fractions.Fraction(1, 3)]
    yield "library", library + [pathlib.PurePosixPath("ab/cd"), slice(1, 2), io.BytesIO(b"abc")]
    state = Call(rebuild, (1,), {"one": 1}, iter([1, 2, 3]), iter({"key": "value"}.items()))
    yield "everything", [state, state, Call(rebuild, (), None, iter([1])), Call(rebuild, (), (1, 2))]


def main(folder):
    publish()
    for name, value in cases():
        spent = name in ("everything",)  # iterators: one use
        large = name.split("_")[-1] in ("999", "1000", "1001", "1002", "2000", "2001")
        protocols = (2, 4) if large else (2, 3, 4, 5)
        if name == "interned_latin1":  # one object with the codec's name, which only protocol 2 writes
            protocols = (2,)
        for protocol in protocols:
            if spent:
                value = dict(cases())[name]
            stream = io.BytesIO()
            Pickler(stream, protocol=protocol).dump(value)
            (pathlib.Path(folder) / f"{name}.p{protocol}.pkl").write_bytes(stream.getvalue())


if __name__ == "__main__":
    main(sys.argv[1])
