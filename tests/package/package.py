# SPDX-License-Identifier: BSD-3-Clause
"""package.py --dir DIR install … | consume NAME …: installs Cairn, moves the tree, and builds projects against it."""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys

TREE = "moved tree"  # a space: paths are quoted everywhere, or it shows


def run(*words, **options):
    result = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if result.returncode:
        sys.exit(f"failed ({result.returncode}): {' '.join(map(str, words))}\n{result.stdout}")
    return result.stdout


def expect(holds, claim):
    if not holds:
        sys.exit(f"not so: {claim}")


def check_tree(tree, arguments):
    package = next(tree.rglob("cairnConfig.cmake")).parent
    for path in package.iterdir():
        for place in (arguments.source, arguments.build, arguments.dir):
            expect(str(place) not in path.read_text(), f"{path.name} is free of {place}")
    exported = {path.stem.removeprefix("cairn_") for path in package.glob("cairn_*.cmake") if "-" not in path.stem}
    expect(exported == set(arguments.parts), f"exported: {exported}")
    headers = {path.name for path in (tree / "include/cairn").iterdir()}
    here = {path.name for path in (arguments.source / "include/cairn").iterdir()}
    left_out = {f"{part}.hpp" for part in ("mpi", "torch") if part not in arguments.parts}
    expect(headers == here - left_out, f"headers: {sorted(headers ^ here)}")
    expect(any(tree.rglob("LICENSE")), "the licence is there")
    expect("cairn" in run(tree / "bin/cairn", "version"), "the program runs")
    if arguments.readelf:
        expect("torch" not in run(arguments.readelf, "-d", tree / "bin/cairn"), "the program does not need libtorch")
    return package


def install(arguments):
    shutil.rmtree(arguments.dir, ignore_errors=True)
    first = arguments.dir / "first"
    run("cmake", "--install", arguments.build, "--prefix", first)
    first.rename(arguments.dir / TREE)
    check_tree(arguments.dir / TREE, arguments)


def write_blocks(page, folder):
    """The blocks of code of a page whose first line is a comment with a file's name, as these files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rest in re.findall(r"^```\w+\n(?://|#) (\w+\.\w+)\n(.*?)^```$", page.read_text(), re.M | re.S):
        (folder / name).write_text(rest)


def consume(arguments):
    build = arguments.dir / arguments.name
    shutil.rmtree(build, ignore_errors=True)
    if arguments.page:
        write_blocks(arguments.page, build)
        if arguments.source:
            shutil.copy(arguments.source / "CMakeLists.txt", build)
        arguments.source, build = build, build / "build"
    package = next((arguments.dir / TREE).rglob("cairnConfig.cmake")).parent
    run("cmake", "-G", "Ninja", "-S", arguments.source, "-B", build, f"-Dcairn_DIR={package}", *arguments.hints)
    run("cmake", "--build", build)
    plugin = build / "libplugin.so"
    if plugin.exists() and arguments.readelf:
        symbols = run(arguments.readelf, "--wide", "--dyn-syms", plugin)
        expect("main" in symbols and "list_checkpoint" not in symbols, "a shared library keeps Cairn's symbols to itself")
    print(run(*filter(None, arguments.launcher.split(",")), build / arguments.program, build / "checkpoint", timeout=120))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", type=pathlib.Path, required=True)
    parser.add_argument("--readelf", default="")
    verbs = parser.add_subparsers(required=True)
    verb = verbs.add_parser("install")
    verb.add_argument("--build", type=pathlib.Path)
    verb.add_argument("--source", type=pathlib.Path)
    verb.add_argument("--parts", nargs="+")
    verb.set_defaults(call=install)
    verb = verbs.add_parser("consume")
    verb.add_argument("name")
    verb.add_argument("--source", type=pathlib.Path)
    verb.add_argument("--page", type=pathlib.Path, help="its blocks are the sources; CMakeLists.txt of --source if given")
    verb.add_argument("--program", default="consumer")
    verb.add_argument("--launcher", default="")
    verb.set_defaults(call=consume)
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)  # behind it: arguments of cmake
    arguments = parser.parse_args(words[:end])
    arguments.hints = words[end + 1:]
    arguments.call(arguments)


if __name__ == "__main__":
    main()
