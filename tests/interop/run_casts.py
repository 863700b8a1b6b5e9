# SPDX-License-Identifier: BSD-3-Clause
"""Casts by cairn against torch's `x.to(dtype)`: the same bits, NaNs the same sign and still NaN.

From float64, torch goes to the 16-bit types by way of float32 and so rounds twice. There the nearest value is
found by comparing torch's answer with its neighbours, in float64, where all of them are exact.
"""

import argparse
import itertools
import subprocess
import sys

import torch

TARGETS = [torch.float32, torch.float16, torch.bfloat16]
SOURCES = [torch.float64, *TARGETS]
SIGNED = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def every_16_bit(dtype):
    return torch.arange(-0x8000, 0x8000, dtype=torch.int32).to(torch.int16).view(dtype)


def wide_values(dtype):
    """Values and midpoints of the narrower types with their neighbours, specials, random bits."""
    bits = SIGNED[dtype.itemsize]
    narrow = torch.cat([every_16_bit(t).to(torch.float64) for t in (torch.float16, torch.bfloat16)])
    narrow = narrow[narrow.isfinite()].sort().values
    middles = (narrow[1:] + narrow[:-1]) / 2
    exact = torch.cat([narrow, middles]).to(dtype).view(bits)
    around = torch.cat([exact - 1, exact, exact + 1])
    random = torch.randint(torch.iinfo(bits).min, torch.iinfo(bits).max, (300_000,), dtype=bits)
    normal = torch.randn(300_000, dtype=torch.float64).to(dtype).view(bits)
    return torch.cat([around, random, normal]).view(dtype)


def run(program, source, target_dtype):
    names = [str(t).removeprefix("torch.") for t in (source.dtype, target_dtype)]
    done = subprocess.run([program, *names], input=source.view(torch.uint8).numpy().tobytes(),
                          stdout=subprocess.PIPE, check=True)
    return torch.frombuffer(bytearray(done.stdout), dtype=target_dtype)


def nearest(source, answer):
    """torch's answer moved to the neighbour that is nearer to the float64 source, ties to even."""
    bits = answer.view(torch.int16).to(torch.int32)
    magnitude, sign = bits & 0x7FFF, bits & 0x8000
    infinity = int(torch.tensor(torch.inf, dtype=answer.dtype).view(torch.int16))
    next_power = torch.frexp(torch.tensor(torch.finfo(answer.dtype).max, dtype=torch.float64)).exponent.item()
    best, best_distance = magnitude.clone(), torch.full_like(source, torch.inf)
    for step in (0, -1, 1):
        near = (magnitude + step).clamp(0, infinity)
        value = near.to(torch.int16).view(answer.dtype).to(torch.float64)
        # infinity stands where the next power of two would be
        value[near == infinity] = 2.0 ** next_power
        distance = (source.abs() - value).abs()
        better = (distance < best_distance) | ((distance == best_distance) & (near % 2 == 0))
        best, best_distance = torch.where(better, near, best), torch.where(better, distance, best_distance)
    special = ~source.isfinite()
    best = torch.where(special, magnitude, best)
    return (best | sign).to(torch.int16).view(answer.dtype)


def check(program, from_dtype, to_dtype):
    source = every_16_bit(from_dtype) if from_dtype.itemsize == 2 else wide_values(from_dtype)
    wanted, twice = source.to(to_dtype), 0
    if from_dtype == torch.float64 and to_dtype.itemsize == 2:
        once = nearest(source, wanted)
        twice = int((once.view(torch.int16) != wanted.view(torch.int16)).sum())
        wanted = once
    found, bits = run(program, source, to_dtype), SIGNED[to_dtype.itemsize]
    nan = source.isnan()
    assert torch.equal(found.isnan(), nan), "NaN"
    assert torch.equal(found.signbit(), source.signbit()), "sign"
    wrong = (found.view(bits) != wanted.view(bits)) & ~nan
    assert not wrong.any(), (source[wrong][:5], found[wrong][:5], wanted[wrong][:5])
    print(f"{from_dtype} to {to_dtype}: {len(source)} values, {twice} of which torch rounds twice")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    program = parser.parse_args().program
    torch.manual_seed(3)
    for from_dtype, to_dtype in itertools.product(SOURCES, TARGETS):
        check(program, from_dtype, to_dtype)
    return 0


if __name__ == "__main__":
    sys.exit(main())
