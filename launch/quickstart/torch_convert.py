# SPDX-License-Identifier: BSD-3-Clause
"""torch_convert.py SRC DST: PyTorch's own consolidation; prints the process's peak RSS as JSON.

VmHWM is this process's own high-water mark; ru_maxrss would start at what the parent held when it forked.
"""

import json
import re
import sys

from torch.distributed.checkpoint.format_utils import dcp_to_torch_save


def peak_rss_bytes():
    with open("/proc/self/status", encoding="ascii") as status:
        return int(re.search(r"VmHWM:\s+(\d+) kB", status.read())[1]) * 1024


if __name__ == "__main__":
    dcp_to_torch_save(sys.argv[1], sys.argv[2])
    print(json.dumps({"peak_rss_bytes": peak_rss_bytes()}))
