"""The raw rows of a run, case by case, and tables of them."""

import csv
from collections import defaultdict
from statistics import mean, median


COUNTS = ["stat_calls", "all_calls", "found", "archive_bytes", "mounts", "entries", "name_bytes"]


class Costs(dict):
    """What one contender took in one case, over its trials.

    real is the median. user and sys are means, as the kernel's clock for them ticks coarsely.
    Calls are the same in each trial.
    """

    def __init__(self, rows):
        timed = [row for row in rows if row["real"]]
        for key in ("real", "user", "sys"):
            if timed:
                self[key] = (median if key == "real" else mean)(float(r[key]) for r in timed)
        for key in COUNTS:
            values = [int(row[key]) for row in rows if row.get(key)]
            if values:
                self[key] = median(values)
        for key in ("engine", "digest"):
            self[key] = {row[key] for row in rows if row.get(key)}
        self["maxrss"] = max((int(row["maxrss_kib"]) / 1024 for row in timed), default=None)
        self["trials"] = len(timed)


def grouped(path, key):
    """{key(row): rows} of a file of raw rows; nothing where there is none."""
    groups = defaultdict(list)
    if path.exists():
        with open(path, newline="") as table:
            for row in csv.DictReader(table):
                groups[key(row)].append(row)
    return groups


def by_contender(rows):
    """(contender, its rows), in the order in which they come first."""
    for name in dict.fromkeys(row["contender"] for row in rows):
        yield name, [row for row in rows if row["contender"] == name]


def load(path, count):
    """{(bench, case, fs, cache, count): {contender: Costs}}; `count` is a column."""

    def key(row):
        return tuple(row[k] for k in ("bench", "case", "fs", "cache")), int(row[count]), row["contender"]

    cases = defaultdict(dict)
    for (case, n, contender), rows in grouped(path, key).items():
        cases[(*case, n)][contender] = Costs(rows)
    return cases


def table(head, rows):
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" + "---:|" * (len(head) - 1)
    for row in rows:
        yield "| " + " | ".join("" if cell is None else str(cell) for cell in row) + " |"
    yield ""


def ms(seconds):
    return f"{seconds * 1000:,.2f}"


def divide(a, b, key="real"):
    return a[key] / b[key] if a and b and a.get(key) and b.get(key) else None


def times(ratio):
    return None if ratio is None else f"{ratio:.2f}"
