# SPDX-License-Identifier: BSD-3-Clause
"""torch_offer.py REQUIREMENT [PIP_ARG…]: says which build of torch pip is about to install, and its size.

Asks pip itself, so that its configuration decides. Exit 1 where the disk cannot hold that build.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request

# "Processing /x/torch-….whl", "Downloading torch-….whl (526.6 MB)", newer: "Downloading torch-….whl.metadata (30 kB)"
OFFER = re.compile(r"(?:Processing|Downloading|Using cached) (\S*torch-[^\s/]+\.whl)(\.metadata)?(?: \((.+)\))?$")
CUDA_MEGABYTES = 8000  # the wheel, its nvidia packages, and both unpacked


def pip_offer(requirement, pip_args):
    """(wheel, size in words) of what pip would install; None if nothing or if pip fails: pip install tells why."""
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-deps", "--no-input", "--report", report,
                   "--progress-bar=off", "--disable-pip-version-check", *pip_args, requirement]
        with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as pip:
            offer = next(filter(None, (OFFER.search(line.strip()) for line in pip.stdout)), None)
            if offer and offer[2]:
                pip.communicate()
                return os.path.basename(offer[1]), size_of_url(url_in(report))
            pip.terminate()  # older pips would download the whole wheel before they answer
    if not offer:
        return None
    return os.path.basename(offer[1]), offer[3] or size_of_file(offer[1])


def url_in(report):
    with open(report, encoding="utf-8") as file:
        return json.load(file)["install"][0]["download_info"]["url"]


def size_of_url(url):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=20) as answer:
            return f"{int(answer.headers['Content-Length']) / 1e6:.1f} MB"
    except (OSError, TypeError, ValueError):
        return "size unknown"


def size_of_file(path):
    path = urllib.parse.unquote(path.removeprefix("file://"))
    return f"{os.path.getsize(path) / 1e6:.1f} MB" if os.path.isfile(path) else "size unknown"


def is_cuda(wheel):
    version = wheel.split("-")[1]
    return "+cu" in version or ("+" not in version and wheel.endswith("linux_2_28_x86_64.whl"))


def main(requirement, *pip_args):
    offer = pip_offer(requirement, pip_args)
    if not offer:
        return 0
    wheel, size = offer
    kind = "the CUDA build, several GB with what it needs (README: the CPU build)" if is_cuda(wheel) else "no CUDA"
    print(f"setup: torch comes as {wheel}, {size}: {kind}", file=sys.stderr, flush=True)
    free = shutil.disk_usage(sys.prefix).free // 1_000_000
    if is_cuda(wheel) and free < CUDA_MEGABYTES:
        print(f"setup: that build needs about {CUDA_MEGABYTES} MB, {sys.prefix} has {free} MB free", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
