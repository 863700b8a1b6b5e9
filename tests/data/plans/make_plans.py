# SPDX-License-Identifier: BSD-3-Clause
"""make_plans.py: what torch makes of random states, for the planner's tests.

flat.tsv   a nested state, then name=path of each flat entry. States: {key:value,...} dict, [..] list, (..) tuple,
           T a tensor, O another value. Paths: steps joined by "/", positions as #0.
saved.tsv  what each rank of a job holds ("name@offset+size" of a vector, "name" for an object; ranks end with ";"),
           then the entries of torch's metadata for de-duplication to the lowest rank, each with its chunks in order.
"""

import pathlib
import random

import torch
from torch.distributed.checkpoint import default_planner, metadata, planner
from torch.distributed.checkpoint._dedup_save_plans import dedup_save_plans
from torch.distributed.checkpoint._nested_dict import flatten_state_dict

HERE = pathlib.Path(__file__).parent
choice = random.Random(12)


def random_state(depth):
    kind = choice.choice("TTOO{[(" if depth else "{")
    size = choice.randint(0, 3) if depth else choice.randint(1, 4)
    if depth > 3 or kind in "TO":
        return "TO"[choice.randint(0, 1)]
    items = [random_state(depth + 1) for _ in range(size)]
    if kind == "{":
        return {key: item for key, item in zip(choice.sample(["a", "b", "0", "1", "a.b", "", "x y"], size), items)}
    return items if kind == "[" else tuple(items)


def spell(state):
    if isinstance(state, dict):
        return "{" + ",".join(f"{key}:{spell(item)}" for key, item in state.items()) + "}"
    if isinstance(state, list):
        return "[" + ",".join(map(spell, state)) + "]"
    if isinstance(state, tuple):
        return "(" + ",".join(map(spell, state)) + ")"
    return state


def real(state):
    if isinstance(state, dict):
        return {key: real(item) for key, item in state.items()}
    if isinstance(state, (list, tuple)):
        return type(state)(map(real, state))
    return torch.zeros(1) if state == "T" else 7


def flat_line(state):
    try:
        paths = flatten_state_dict(real(state))[1]
    except ValueError:
        return f"{spell(state)}\trefused"
    steps = lambda path: "/".join(f"#{step}" if isinstance(step, int) else step for step in path)
    return "\t".join([spell(state)] + [f"{name}={steps(path)}" for name, path in paths.items()])


def write_item(name, offset=None, size=0, whole=0):
    if offset is None:
        return planner.WriteItem(metadata.MetadataIndex(name), planner.WriteItemType.BYTE_IO)
    chunk = metadata.ChunkStorageMetadata(torch.Size([offset]), torch.Size([size]))
    data = planner.TensorWriteData(chunk, metadata.TensorProperties(dtype=torch.float32), torch.Size([whole]))
    return planner.WriteItem(metadata.MetadataIndex(name, chunk.offsets), planner.WriteItemType.SHARD, tensor_data=data)


def saved_line():
    ranks = choice.randint(1, 5)
    held = [[] for _ in range(ranks)]
    for number in range(choice.randint(1, 6)):
        name = f"n{number}"
        if choice.random() < 0.3:
            for rank in choice.sample(range(ranks), choice.randint(1, ranks)):
                held[rank].append((name,))
            continue
        whole = choice.randint(1, 12)
        cuts = sorted({0, whole, *(choice.randint(0, whole) for _ in range(choice.randint(0, 3)))})
        for begin, end in zip(cuts, cuts[1:]):
            for rank in choice.sample(range(ranks), choice.randint(1, ranks)):
                held[rank].append((name, begin, end - begin, whole))
    for items in held:
        names = list(dict.fromkeys(item[0] for item in items))
        choice.shuffle(names)
        items.sort(key=lambda item: names.index(item[0]))
    plans = [planner.SavePlan([write_item(*item) for item in items]) for items in held]
    merged = default_planner.create_default_global_save_plan(dedup_save_plans(plans, save_to_lowest_rank=True))[1]
    show = lambda item: item[0] if len(item) == 1 else f"{item[0]}@{item[1]}+{item[2]}"
    fields = ["".join(" ".join(map(show, items)) + ";" for items in held)]
    for name, entry in merged.state_dict_metadata.items():
        chunks = getattr(entry, "chunks", [])
        fields.append(" ".join([name] + [f"@{chunk.offsets[0]}+{chunk.sizes[0]}" for chunk in chunks]))
    return "\t".join(fields)


fixed = [{"a.b": "T", "a": {"b": "T"}}, {"a": {}, "b": []}, {"l": [[["T"]], ["O"], ("T",)]}, {"l": [{}]}, {"l": [["O"], ["O"]]}]
flat = [flat_line(state) for state in fixed + [random_state(0) for _ in range(300)]]
(HERE / "flat.tsv").write_text("\n".join(dict.fromkeys(flat)) + "\n", encoding="utf-8")
(HERE / "saved.tsv").write_text("\n".join(dict.fromkeys(saved_line() for _ in range(200))) + "\n", encoding="utf-8")
