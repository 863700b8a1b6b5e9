# SPDX-License-Identifier: BSD-3-Clause
"""measure.py RESULT WHO OUTPUT COMMAND…: times a whole command that prints JSON with its peak_rss_bytes.

OUTPUT is removed first. RESULT becomes JSON with who, output, seconds, peak_rss_bytes.
"""

import json
import pathlib
import subprocess
import sys
import time


def main(result, who, output, *command):
    pathlib.Path(output).unlink(missing_ok=True)
    begin = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    seconds = time.monotonic() - begin
    if done.returncode != 0:
        sys.exit(f"{done.stdout}{who}: exit status {done.returncode}")
    peak = json.loads(done.stdout)["peak_rss_bytes"]
    row = {"who": who, "output": output, "seconds": seconds, "peak_rss_bytes": peak}
    pathlib.Path(result).write_text(json.dumps(row), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
