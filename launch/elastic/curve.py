# SPDX-License-Identifier: BSD-3-Clause
"""curve.py OUT.svg NAME=LOG…: the loss against the step, of each log of apps/elastic_training. The logs before the last one are one
job, the last one is compared with them: exit status 1 where a step's losses differ by more than 1e-6 of the loss."""
import html
import pathlib
import re
import sys

INK, GRID, PAPER = "#222222", "#dedede", "#ffffff"
COLOURS = ("#D55E00", "#0072B2", "#767676")  # Okabe and Ito's
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 720, 360, 60, 24, 696, 316
TOLERANCE = 1e-6


def read(log):
    return {int(step): float(loss) for step, loss in re.findall(r"^step (\d+) loss (\S+)$", pathlib.Path(log).read_text(), re.M)}


def text(x, y, words, anchor="middle", colour=INK):
    return f"<text x='{x:.1f}' y='{y:.1f}' font-size='12' text-anchor='{anchor}' fill='{colour}'>{html.escape(words)}</text>"


def drawn(curves):
    steps = max(step for _, losses in curves for step in losses)
    top = max(loss for _, losses in curves for loss in losses.values()) * 1.05

    def at(step, loss):
        return LEFT + (RIGHT - LEFT) * step / steps, BOTTOM - (BOTTOM - TOP) * loss / top

    parts = [f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{HEIGHT}' font-family='DejaVu Sans, Helvetica, Arial, sans-serif'>",
             f"<rect width='{WIDTH}' height='{HEIGHT}' fill='{PAPER}'/>"]
    for loss in range(int(top) + 1):
        y = at(0, loss)[1]
        parts += [f"<line x1='{LEFT}' y1='{y:.1f}' x2='{RIGHT}' y2='{y:.1f}' stroke='{GRID}'/>", text(LEFT - 8, y + 4, str(loss), "end")]
    for step in range(0, steps + 1, max(1, steps // 6)):
        parts.append(text(at(step, 0)[0], BOTTOM + 18, str(step)))
    parts += [text((LEFT + RIGHT) / 2, HEIGHT - 8, "step"), text(LEFT, TOP - 8, "loss", "start")]
    # The curve to compare with lies below the others, and is wider.
    for i, (name, losses) in reversed(list(enumerate(curves))):
        points = " ".join("{:.1f},{:.1f}".format(*at(step, loss)) for step, loss in sorted(losses.items()))
        width = 7 if i == len(curves) - 1 else 2
        parts.append(f"<polyline points='{points}' fill='none' stroke='{COLOURS[i]}' stroke-width='{width}' stroke-opacity='{0.4 if width > 2 else 1}'/>")
        parts.append(text(RIGHT - 8, TOP + 20 + 18 * i, name, "end", COLOURS[i]))
    return "\n".join([*parts, "</svg>\n"])


def main(out, *arguments):
    curves = [(name, read(log)) for name, _, log in (argument.rpartition("=") for argument in arguments)]
    pathlib.Path(out).write_text(drawn(curves), encoding="utf-8")
    *job, (_, whole) = curves
    differences = [abs(loss - whole[step]) / whole[step] for _, losses in job for step, loss in losses.items()]
    again = sorted(set(job[0][1]) & set(job[1][1])) if len(job) > 1 else []
    print(f"{len(differences)} losses of the killed job ({len(again)} steps twice): at most {max(differences):.1e} from those of the other; {out}")
    return 0 if max(differences) <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
