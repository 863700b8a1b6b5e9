# SPDX-License-Identifier: BSD-3-Clause
"""Small training trees."""
import tiny_checkpoint

COMPONENTS = ("model", "optim", "trainer")


def name(number):
    return f"iter_{number:09}"


def tree(root, numbers, pointer=None, components=COMPONENTS):
    """ROOT/iter_… of these numbers; the pointer names the last one, or is `pointer`."""
    for number in numbers:
        for component in components:
            tiny_checkpoint.small(root / name(number) / component)
    (root / "latest_checkpoint.txt").write_text(name(max(numbers)) if pointer is None else pointer)
    return root


def flip_last_byte_of_payload(shard, text=b"text"):
    content = bytearray(shard.read_bytes())
    content[content.rindex(text)] ^= 1
    shard.write_bytes(content)
