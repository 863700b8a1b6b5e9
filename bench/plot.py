# SPDX-License-Identifier: BSD-3-Clause
"""plot.py DATA.json OUT.svg: time and peak RSS against size, from what bench/scaling.py measured. Both axes are logarithmic."""
import html
import json
import math
import pathlib
import statistics
import sys

GIB, MIB = 1 << 30, 1 << 20
INK, SOFT, GRID, PAPER = "#222222", "#5a5a5a", "#dedede", "#ffffff"
FONT = "font-family='DejaVu Sans, Helvetica, Arial, sans-serif'"
# Okabe and Ito's colours; shape and dash tell the series apart without them.
SERIES = {
    "torch": ("PyTorch, dcp_to_torch_save", "#D55E00", "square", ""),
    "cairn": ("Cairn, 2 threads", "#0072B2", "circle", ""),
    "cat": ("cat of the shards", "#767676", "triangle", "6 4"),
}
WIDTH, HEIGHT = 956, 456
TOP, BOTTOM, PANEL, LEFTS = 96, 376, 330, (78, 548)


class Axis:
    """A logarithmic axis from pixel `begin` to pixel `end`."""

    def __init__(self, values, ticks, begin, end):
        low = max((t for t in ticks if t <= min(values)), default=min(values))
        high = min((t for t in ticks if t >= max(values)), default=max(values))
        if low == high:
            low, high = low / 2, high * 2
        self.low, self.high, self.begin, self.end = low, high, begin, end
        self.ticks = [tick for tick in ticks if low <= tick <= high]

    def at(self, value):
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return round(self.begin + share * (self.end - self.begin), 1)


def one_two_five(unit=1.0):
    return [unit * digit * 10.0**power for power in range(-6, 8) for digit in (1, 2, 5)]


def thinned(axis):
    """At most eight labels: 1, 2, 5 while there is room, else the powers of ten."""
    if len(axis.ticks) > 8:
        axis.ticks = [t for t in axis.ticks if abs(math.log10(t) - round(math.log10(t))) < 1e-6] or axis.ticks
    return axis


def size_text(size):
    return f"{size / GIB:g}" if size >= GIB / 1024 else f"{size / GIB:.2g}"


def number(value):
    return f"{value:,.0f}".replace(",", " ") if value >= 10 else f"{value:g}"


def text(x, y, words, size=12, anchor="middle", colour=INK, extra=""):
    return f"<text x='{x}' y='{y}' font-size='{size}' text-anchor='{anchor}' fill='{colour}' {extra}>{html.escape(words)}</text>"


def line(x1, y1, x2, y2, colour, width=1.0, extra=""):
    return f"<line x1='{x1}' y1='{y1}' x2='{x2}' y2='{y2}' stroke='{colour}' stroke-width='{width}' {extra}/>"


def marker(x, y, shape, colour):
    style = f"fill='{colour}' stroke='{PAPER}' stroke-width='1.5'"
    if shape == "circle":
        return f"<circle cx='{x}' cy='{y}' r='5' {style}/>"
    if shape == "square":
        return f"<rect x='{x - 4.5:.1f}' y='{y - 4.5:.1f}' width='9' height='9' {style}/>"
    return f"<path d='M{x:.1f} {y - 5.5:.1f} L{x + 5.5:.1f} {y + 4.5:.1f} L{x - 5.5:.1f} {y + 4.5:.1f} Z' {style}/>"


def panel(left, title, unit, sizes, series):
    """series: {who: [(size, middle, low, high)]}"""
    right = left + PANEL
    x = Axis(sizes, sizes, left + 18, right - 6)
    values = [value for points in series.values() for point in points for value in (point[2] / 1.2, point[3] * 1.05)]
    y = thinned(Axis(values, one_two_five(), BOTTOM, TOP))
    out = [text(left, TOP - 14, title, 14, "start", extra="font-weight='bold'")]
    for tick in y.ticks:
        out += [line(left, y.at(tick), right, y.at(tick), GRID), text(left - 8, y.at(tick) + 4, number(tick), anchor="end", colour=SOFT)]
    for tick in x.ticks:
        out += [line(x.at(tick), BOTTOM, x.at(tick), BOTTOM + 5, SOFT), text(x.at(tick), BOTTOM + 20, size_text(tick), colour=SOFT)]
    out += [line(left, BOTTOM, right, BOTTOM, SOFT), text((left + right) / 2, BOTTOM + 42, "size of the checkpoint, GiB")]
    out.append(text(left - 52, (TOP + BOTTOM) / 2, unit, extra=f"transform='rotate(-90 {left - 52} {(TOP + BOTTOM) / 2})'"))
    labels = spread({who: y.at(points[-1][1]) for who, points in series.items()})
    for who, points in reversed(series.items()):
        out += drawn(who, [(x.at(size), *map(y.at, rest)) for size, *rest in points], labels[who])
    return out


def drawn(who, points, label_y):
    _, colour, shape, dash = SERIES[who]
    path = " ".join(f"{x},{middle}" for x, middle, _, _ in points)
    out = [line(x, low, x, high, colour, 1.5) for x, _, low, high in points if low != high]
    out.append(f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='2.2' stroke-dasharray='{dash}'/>")
    out += [marker(x, middle, shape, colour) for x, middle, _, _ in points]
    short = {"torch": "PyTorch", "cairn": "Cairn", "cat": "cat"}[who]
    return [*out, text(points[-1][0] + 14, label_y + 4, short, 12, "start", colour, "font-weight='bold'")]


def spread(wanted, room=15):
    """Labels keep their order, at least `room` apart."""
    placed, last = {}, -math.inf
    for who, y in sorted(wanted.items(), key=lambda item: item[1]):
        last = placed[who] = max(y, last + room)
    return placed


def legend(names):
    out, x = [], LEFTS[0]
    for who in names:
        name, colour, shape, dash = SERIES[who]
        out += [line(x, 52, x + 34, 52, colour, 2.2, f"stroke-dasharray='{dash}'"), marker(x + 17, 52, shape, colour), text(x + 42, 56, name, anchor="start")]
        x += 72 + 7.2 * len(name)
    return out


def times(points, who):
    return [(p["bytes"], statistics.median(p[who]["all_seconds"]), min(p[who]["all_seconds"]), max(p[who]["all_seconds"])) for p in points]


def peaks(points, who):
    return [(p["bytes"], *[p[who]["peak_rss_bytes"] / MIB] * 3) for p in points]


def figure(data):
    points, machine = data["points"], data["machine"]
    sizes = [p["bytes"] for p in points]
    names = [who for who in SERIES if all(who in p for p in points)]
    about = (f"Whole commands, source cached, not synced; {data['ranks']} shards; {machine['cores']} cores, {machine['file_system']}; "
             f"median of {data['rounds']}, whiskers: least and most")
    body = [text(LEFTS[0], 28, "Consolidating a sharded checkpoint into one file", 16, "start", extra="font-weight='bold'"), *legend(names),
            *panel(LEFTS[0], "Time", "seconds", sizes, {who: times(points, who) for who in names}),
            *panel(LEFTS[1], "Peak memory of the largest process", "MiB", sizes, {who: peaks(points, who) for who in names if who != "cat"}),
            text(LEFTS[0], HEIGHT - 8, about, 11, "start", SOFT)]
    return "\n".join([
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' width='{WIDTH}' height='{HEIGHT}' {FONT} role='img'>",
        "<title>Time and peak memory of consolidation against the size of the checkpoint</title>",
        f"<rect width='{WIDTH}' height='{HEIGHT}' fill='{PAPER}'/>", *body, "</svg>", ""])


def main(data, out):
    pathlib.Path(out).write_text(figure(json.loads(pathlib.Path(data).read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
