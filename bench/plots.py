"""Bars and lines as SVG, to be read on paper and on a dark screen alike.

What is ours is filled, what is others' is hatched; lines differ in marker and dash.
"""

from html import escape
from math import ceil, floor, log10

STYLE = """
  .line { stroke: #1a1a1a; fill: none } .paper { fill: #fff } .ink { fill: #1a1a1a }
  .grid { stroke: #1a1a1a; stroke-opacity: .18 } .faint { fill: #1a1a1a; fill-opacity: .65 }
  text { font: 12px sans-serif } .title { font-size: 15px; font-weight: bold }
  .small { font-size: 10px }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #16181c } .ink, .faint { fill: #e8e8e8 } .line, .grid { stroke: #e8e8e8 }
  }
"""
HATCH = (
    '<pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse"'
    ' patternTransform="rotate(45)"><path d="M0 0V6" class="line" stroke-width="2"/></pattern>'
)
DASHES = ["", "7 3", "2 3", "9 3 2 3", "4 2", "12 4", "1 4"]
WIDTH = 720


def svg(height, title, source, body):
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">'
    return "\n".join(
        [
            head,
            f"<title>{escape(title)}</title><style>{STYLE}</style><defs>{HATCH}</defs>",
            f'<rect class="paper" width="{WIDTH}" height="{height}" rx="6"/>',
            text(16, 26, title, "ink title"),
            text(WIDTH - 12, height - 10, source, "faint small", "end"),
            *body,
            "</svg>\n",
        ]
    )


def text(x, y, words, style="ink", anchor="start"):
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} class="{style}">{escape(words)}</text>'


def short(value):
    """A number to three figures, large ones with k and M."""
    for unit, name in ((1e6, " M"), (1e3, " k")):
        if value >= unit:
            return f"{value / unit:.3g}{name}"
    return f"{value:.3g}"


def decades(values):
    """The powers of ten around the values: from, to (exponents)."""
    first, last = floor(log10(min(values))), ceil(log10(max(values)))
    return first, max(last, first + 1)


def bars(title, groups, ours, source, log=False):
    """Horizontal bars, {group: {name: value}}, each with its value at its end."""
    values = [max(value, 1e-6) for group in groups.values() for value in group.values()]
    left, room = 130, WIDTH - 130 - 70
    low, high = decades(values)

    def length(value):
        part = (log10(max(value, 1e-6)) - low) / (high - low) if log else value / max(values)
        return max(1, room * part)

    body, y = [], 48
    for group, by in groups.items():
        body.append(text(16, y + 12, group, "ink title"))
        y += 20
        for name, value in by.items():
            style = 'class="ink"' if name in ours else 'class="line" style="fill: url(#hatch)"'
            body.append(text(left - 8, y + 11, name, "ink", "end"))
            size = f'width="{length(value):.1f}" height="13"'
            body.append(f'<rect x="{left}" y="{y}" {size} {style}/>')
            body.append(text(left + length(value) + 6, y + 11, short(value)))
            y += 18
        y += 8
    if log:
        body.append(text(16, y + 12, "The scale is logarithmic.", "faint small"))
    return svg(y + 24, title, source, body)


def marker(kind, x, y):
    shapes = [
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" class="ink"/>',
        f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" class="paper line"/>',
        f'<path d="M{x:.1f} {y - 5:.1f}l5 9h-10z" class="ink"/>',
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" class="paper line"/>',
        f'<path d="M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8" class="line"/>',
        f'<path d="M{x:.1f} {y - 5:.1f}l5 5l-5 5l-5 -5z" class="ink"/>',
        f'<path d="M{x:.1f} {y + 5:.1f}l5 -9h-10z" class="paper line"/>',
    ]
    return shapes[kind % len(shapes)]


def lines(title, series, across, up, source):
    """Lines on logarithmic axes, {name: [(x, y)]}; the key is at the right."""
    left, right, top, bottom = 64, WIDTH - 170, 50, 330
    xs = sorted({x for points in series.values() for x, _ in points})
    ys = [max(y, 1e-6) for points in series.values() for _, y in points]
    low, high = log10(min(ys) * 0.8), log10(max(ys) * 1.25)
    first, last = log10(xs[0]), log10(xs[-1]) if len(xs) > 1 else log10(xs[0]) + 1

    def place(x, y):
        along = left + 16 + (right - left - 32) * (log10(x) - first) / (last - first)
        return along, bottom - (bottom - top) * (log10(max(y, 1e-6)) - low) / (high - low)

    body = [text(left, top - 8, up, "faint")]
    body.append(text((left + right) / 2, bottom + 36, across, "faint", "middle"))
    for tick in (n * 10.0**e for e in range(floor(low), ceil(high)) for n in (1, 2, 5)):
        if low <= log10(tick) <= high:
            _, y = place(xs[0], tick)
            body.append(f'<path d="M{left} {y:.1f}H{right}" class="grid"/>')
            body.append(text(left - 6, y + 4, short(tick), "ink", "end"))
    for x in xs:
        body.append(text(place(x, 1)[0], bottom + 18, short(x), "ink", "middle"))
    for number, (name, points) in enumerate(series.items()):
        at = [place(x, y) for x, y in sorted(points)]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in at)
        dash = f'stroke-width="1.6" stroke-dasharray="{DASHES[number % len(DASHES)]}"'
        key = top + 10 + 20 * number
        body.append(f'<path d="M{path}" class="line" {dash}/>')
        body.append(f'<path d="M{right + 12} {key}h36" class="line" {dash}/>')
        body += [marker(number, x, y) for x, y in [*at, (right + 30, key)]]
        body.append(text(right + 56, key + 4, name))
    return svg(max(bottom + 48, top + 20 * len(series) + 40), title, source, body)


def samples(title, series, peaks, unit, source):
    """A panel for each series, {name: {run: nanoseconds}}, on a logarithmic scale of its own; above them a line at each of `peaks`."""
    left, right, room, y = 64, WIDTH - 24, 70, 48
    last = max(*peaks, *(max(values) for values in series.values()))
    body = []

    def along(run):
        return left + (right - left) * run / (last + 1)

    for name, values in {"paper": None, **series}.items():
        base = y + (30 if values is None else room)
        body.append(text(left - 8, base - 4, name, "ink", "end"))
        body.append(f'<path d="M{left} {base}H{right}" class="line"/>')
        if values is None:
            heights = {run: 22 for run in peaks}
            body += [text(along(run), base - 25, str(run), "faint small", "middle") for run in peaks]
        else:
            least, most = max(1, min(values.values())), max(values.values())
            scale = (room - 16) / (log10(most / least) or 1)
            heights = {run: 1 + scale * log10(max(value, least) / least) for run, value in values.items()}
            body.append(text(right, y + 8, f"{least / 1000:.3g} to {most / 1000:,.0f} µs", "faint small", "end"))
        body += [f'<path d="M{along(run):.1f} {base}v{-height:.1f}" class="line"/>' for run, height in heights.items()]
        y = base + 12
    body.append(text(left, y + 8, f"{unit} 1 to {last}; times on a logarithmic scale", "faint small"))
    return svg(y + 34, title, source, body)
