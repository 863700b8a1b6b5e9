# SPDX-License-Identifier: BSD-3-Clause
"""Prints random patterns and names with the verdict of Python's fnmatch: make_globs.py > globs.tsv"""

import fnmatch
import random

random.seed(4)
PIECES = ["a", "b", "c", "-", "!", "]", "[", "[!", "[a", "[b-", "a-b", "[]", "?", "*", "*", ".", "\\", "^", "\u00e9"]
LETTERS = "aabbc-!][.\\^\u00e9"

cases = {}
while len(cases) < 3000:
    pattern = "".join(random.choices(PIECES, k=random.randint(0, 6)))
    name = "".join(random.choices(LETTERS, k=random.randint(0, 5)))
    if random.random() < 0.5:  # a name that has a chance
        name = "".join(random.choice(LETTERS) if c in "?*" else c for c in pattern)
    verdict = fnmatch.fnmatchcase(name, pattern)
    if verdict or sum(not v for v in cases.values()) < 1500:
        cases[pattern, name] = verdict
for (pattern, name), verdict in cases.items():
    print(pattern, name, int(verdict), sep="\t")
