#!/usr/bin/env python3
"""Write docs/claims.md, and its plots, from the raw rows of a run of bench/suite papers.

    bench/claimspage.py RUN       write them
    bench/claimspage.py --check   exit with 1 unless they are what the run that docs/claims.md names gives

claims.csv has the claims, claims.md the text. `now` of a claim is an expression over figures of the run, NAME or NAME@TRIAL, evaluated
for each trial that all of them have, and for each file system if it has FS in its place. Trials NAME.NUMBER are repetitions on the system
NAME, of which the median counts. `of` is what is shown of the results: median, mean, min, max, std (the standard deviation), spread (max
over min), fit (r squared of the line through two figures) or total (the sum of one figure over that of the other).

`rule` is a kind of figure, the same band for each of its kind (KINDS), or one or two conditions on the value: `> 1`, `< 10; < 30`, `= 16`.

    the first is met                       holds
    the second is met                      holds, with another factor
    none is met, or nothing was found      no longer
    the figure is not in the run           not measured
    the rule says why it cannot be there   not measurable here
    the rule is `machine`                  no verdict: a time or a size of this machine

In claims.md, `{{rows GROUP}}` is the table of a group, `{ID}` the figure of a claim, `{= EXPRESSION, UNIT}` another one; a paragraph
that begins with `[ID ...]` is left out unless one of these claims is not as it was. `{{unexplained}}` names the claims that no longer hold
and have no such paragraph.
"""

import sys

sys.dont_write_bytecode = True

import csv
import re
import textwrap
from collections import Counter
from pathlib import Path
from statistics import mean, median, quantiles, stdev

import plots
from claims import FILE_SYSTEMS, regression
from figures import grouped, table

TOP = Path(__file__).resolve().parent.parent
PAGE, PLOTS = TOP / "docs/claims.md", TOP / "docs/plots"
HOLDS, FACTOR, GONE, NOT_MEASURED, NOT_HERE, MACHINE = (
    "holds", "holds, with another factor", "no longer", "not measured", "not measurable here", "no verdict",
)  # fmt: skip
VERDICTS = [HOLDS, FACTOR, GONE, MACHINE, NOT_HERE, NOT_MEASURED]
NAME = r"\b[a-z]\w*(?:@\w+)?"
STATISTICS = {
    "median": median,
    "mean": mean,
    "min": min,
    "max": max,
    "std": lambda values: stdev(values) if len(values) > 1 else 0,
    "spread": lambda values: max(values) / min(values),
}
REPETITION = re.compile(r"([RS]\d+)\.\d+")  # a trial on a system
KINDS = {  # a rule by name: what holds, and what holds with another factor, of a value and the paper's
    "gain": (lambda now, then: now > 1.1 and is_within(1.5, now, then), lambda now, then: now > 1.1),
    "figure": (lambda now, then: is_within(1.5, now, then), lambda now, then: is_within(3, now, then)),
    "count": (lambda now, then: is_within(1.1, now, then), lambda now, then: is_within(3, now, then)),
    "more": (lambda now, then: now > 1.1,),
}
PAPERS = {"J": "journal paper of 1988", "R": "report of 1988", "M": "memo of 1974", "P": "pathwalk, 2012", "X": "Exploring and Measuring"}
TIMES = [(1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")]
SIZES = [(2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "bytes")]


def read_figures(run):
    """{figure: {trial: value, or None where nothing was found}}"""
    found = {}
    for name in ("papers.csv", "papers-guests.csv"):
        for figure, rows in grouped(run / name, lambda row: row["figure"]).items():
            found[figure] = {row["trial"]: float(row["value"]) if row["value"] else None for row in rows}
    return found


def results(expression, figures):
    """(trial, what an expression gives): None where one of its figures was not found. Nothing if the run lacks one."""
    names = set(re.findall(NAME, expression))
    values = {}
    for name in names:
        figure, _, trial = name.partition("@")
        values[name] = figures.get(figure, {})
        if trial:
            values[name] = {trial: values[name][trial]} if trial in values[name] else {}
    if not all(values.values()):
        return
    several = [set(each) for each in values.values() if len(each) > 1]
    trials = set.intersection(*several) if several else {None}
    one = {name: next(iter(each.values())) for name, each in values.items() if len(each) == 1}
    shown = re.sub(NAME, lambda name: f"v[{name[0]!r}]", expression)
    order = next((each for each in values.values() if len(each) > 1), [None])
    for trial in (trial for trial in order if trial in trials):
        at = {name: one[name] if name in one else each[trial] for name, each in values.items()}
        try:
            yield trial, eval(shown, {"__builtins__": {}}, {"v": at})
        except (TypeError, ZeroDivisionError):
            yield trial, None


def medians_of_systems(results):
    """The medians of the repetitions on each system; what is no repetition stays as it is. None where most were not found."""
    systems = {}
    for trial, value in results:
        system = REPETITION.fullmatch(trial or "")
        systems.setdefault(system[1] if system else trial, []).append(value)
    for values in systems.values():
        found = [value for value in values if value is not None]
        yield median(found) if 2 * len(found) > len(values) else None


class Measured:
    """A figure of a run: its value, None if nothing was found, and the spread over the trials."""

    def __init__(self, expression, of, figures):
        every = list(results(expression, figures)) if expression else []
        # Sums and lines take every run.
        every = [value for _, value in every] if of in ("fit", "total") else list(medians_of_systems(every))
        values = [value for value in every if value is not None]
        self.is_there, self.trials, self.lost = bool(every), len(every), len(every) - len(values)
        self.value = self.spread = None
        if of in ("fit", "total") and values:
            xs, ys = zip(*values)
            self.value = regression(values)[1] if of == "fit" else sum(xs) / sum(ys) if sum(ys) else None
        elif 2 * len(values) > len(every):
            self.value = STATISTICS[of or "median"](values)
            if len(values) > 1 and of in ("", "median", "mean"):
                self.spread = quantiles(values, n=4)[::2] if len(values) > 3 else (min(values), max(values))

    def show(self, unit, with_spread=True):
        if not self.is_there:
            return "" if with_spread else NOT_MEASURED
        if self.value is None:
            return "none"
        text = show(self.value, unit)
        if not with_spread:
            return text
        ends = self.spread and [show(end, unit) for end in self.spread]
        if ends and not ends[0] == ends[1] == text:
            text += f" ({' to '.join(ends)})"
        return text + (f"; none in {self.lost} of {self.trials}" if self.lost else "")


def show(value, unit):
    """A number to three significant digits, with a unit that fits."""
    for base, units in (("s", TIMES), ("bytes", SIZES)):
        if unit == base:
            scale, unit = next((each for each in units if abs(value) >= each[0]), units[-1])
            value /= scale
    digits = f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
    return f"{digits} {unit}".rstrip()


def is_within(factor, now, then):
    return now * then > 0 and max(now / then, then / now) <= factor


def conditions(rule):
    """What holds, and what holds with another factor, of a rule."""
    return KINDS.get(rule) or [condition(words) for words in rule.split("; ")]


def condition(words):
    kind, limit = words[0], float(words[1:])
    return {
        "=": lambda now, then: abs(now - limit) < 1e-9,
        ">": lambda now, then: now > limit,
        "<": lambda now, then: now < limit,
    }[kind]


class Claim:
    """A row of claims.csv with what a run says of it: one figure, or one for each file system if `now` has FS in their place."""

    def __init__(self, row, figures):
        self.__dict__ |= row
        places = FILE_SYSTEMS if "FS" in self.now else [""]
        self.measured = {fs: Measured(self.now.replace("FS", fs), self.of, figures) for fs in places}
        self.verdicts = {fs: self.judge(measured) for fs, measured in self.measured.items()}
        # The worst of them.
        self.verdict = max(self.verdicts.values(), key=VERDICTS.index)

    def judge(self, measured):
        if not self.now:
            return NOT_HERE
        if not measured.is_there:
            return NOT_MEASURED
        if self.rule == "machine":
            return MACHINE
        if measured.value is not None:
            for is_met, verdict in zip(conditions(self.rule), (HOLDS, FACTOR)):
                if is_met(measured.value, float(self.then or "nan")):
                    return verdict
        return GONE

    def shown_then(self):
        return show(float(self.then), self.unit) if self.then else ""

    def shown_now(self, with_spread=True):
        if not self.now:
            return self.rule
        return "; ".join(f"{fs} {measured.show(self.unit, with_spread)}".strip() for fs, measured in self.measured.items())

    def shown_verdict(self):
        """In bold, except what holds; the same for all file systems is said once."""
        by = {}
        for fs, verdict in self.verdicts.items():
            by.setdefault(verdict if verdict in (HOLDS, MACHINE) else f"**{verdict}**", []).append(fs)
        return next(iter(by)) if len(by) == 1 else "; ".join(f"{', '.join(each)}: {verdict}" for verdict, each in by.items())


def read_claims(figures):
    with open(TOP / "bench/claims.csv", newline="") as rows:
        return [Claim(row, figures) for row in csv.DictReader(rows)]


def rows_of(group, numbered):
    """The table of a group, and the commands by which its rows can be measured."""
    chosen = [(number, claim) for number, claim in numbered if claim.group == group]
    head = ["", "claim", "then", "now", "rule", "verdict"]
    rows = []
    for number, claim in chosen:
        words = f"{claim.claim} ({claim.paper}, {claim.place})"
        rule = claim.rule if claim.now and claim.rule != "machine" else ""
        rows.append([number, words, claim.shown_then(), claim.shown_now(), rule, claim.shown_verdict()])
    yield "| " + " | ".join(head) + " |"
    yield "|---:|---|---:|---:|---|---|"
    for row in rows:
        yield "| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |"
    yield ""
    commands = {}
    for number, claim in chosen:
        if claim.now:
            commands.setdefault(claim.command, []).append(number)
    for command, numbers in commands.items():
        places = " (FS: ext4, xfs or btrfs)" if re.search(r"\bFS\b", command) else ""
        yield f"- {ranges(numbers)}{places}: `{command}`"


def ranges(numbers):
    """1, 2, 3, 5 as 1-3, 5."""
    parts = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def summary(claims):
    counts = Counter((claim.paper, claim.verdict) for claim in claims)
    verdicts = [verdict for verdict in VERDICTS if any(counts[paper, verdict] for paper in PAPERS)]
    rows = [[f"{paper}: {name}", *(counts[paper, verdict] or "" for verdict in verdicts)] for paper, name in PAPERS.items()]
    yield from table(["paper", *verdicts], [*rows, ["all", *(sum(counts[p, v] for p in PAPERS) for v in verdicts)]])


def page(run, figures, claims):
    by_id, numbered = {claim.id: claim for claim in claims}, list(enumerate(claims, 1))
    explained = set()
    commands = (run / "commands.txt").read_text()
    is_partial = "--quick" in commands or "--case" in commands
    about = {"run": run.name, "kind": "runs in parts on a busy machine, until there is a full one" if is_partial else "this run"}

    def paragraph(text):
        if head := re.match(r"\[([a-z0-9 -]+)\]\s", text):
            named = [by_id[name] for name in head[1].split()]
            if all(claim.verdict in (HOLDS, MACHINE, NOT_MEASURED) for claim in named):
                return None
            explained.update(claim.id for claim in named)
            text = text[head.end() :]
        if text.startswith("{{rows "):
            return "\n".join(rows_of(text[7:-2], numbered)).rstrip()
        if text == "{{summary}}":
            return "\n".join(summary(claims)).rstrip()
        if text == "{{unexplained}}":
            unexplained = [number for number, claim in numbered if claim.verdict == GONE and claim.id not in explained]
            return f"Why rows {ranges(unexplained)} no longer hold is not known." if unexplained else None
        text = re.sub(r"{= (.*?), (\w*|%)}", lambda found: Measured(found[1], "median", figures).show(found[2], False), text)
        text = re.sub(r"{([a-z0-9-]+)}", lambda found: about.get(found[1]) or by_id[found[1]].shown_now(False), text)
        return textwrap.fill(text, 140, break_long_words=False, break_on_hyphens=False) if head else text

    text = (TOP / "bench/claims.md").read_text().strip()
    parts = [part for part in map(paragraph, re.split(r"\n\n+", text)) if part is not None]
    rows = [claim.group for claim in claims if f"{{{{rows {claim.group}}}}}" not in text]
    if rows:
        sys.exit(f"claims.md has no table for {sorted(set(rows))}")
    return "\n\n".join(parts) + "\n"


# Plots

SHOWN = {  # series: title, what is counted, the runs at which the paper has peaks
    "reads-ahead-256": ("Reads of 256 bytes: peaks", "read", range(1, 98, 16)),
    "reads-ahead-512": ("Reads of 512 bytes: peaks", "read", range(1, 98, 8)),
    "blocks-4096": ("Reads of a block: peaks", "read", [1, *range(15, 91, 15)]),
    "passes-4194304": ("Second pass over n steps: the rise", "step", [53]),
    "syncs-1048576": ("Write of 1 MiB and fsync: peaks", "write", [78, 162, 245, 329]),
}


def drawings(run, figures):
    source = f"bench/runs/{run.name}"
    samples = grouped(run / "samples.csv", lambda row: (row["series"], row["fs"]))
    for series, (title, unit, peaks) in SHOWN.items():
        of = {fs: {int(row["run"]): float(row["ns"]) for row in rows} for (name, fs), rows in samples.items() if name == series}
        if of:
            yield f"claims-{series}", plots.samples(f"{title} in the paper, and times here", of, list(peaks), unit, source)
    for pair in (("getmnt1", "getmnt2"), ("getmnt2", "getmnt3")):
        series = {}
        under_load = "normal_{}_{}".format(*pair)
        for name, label in (("random", "random trees"), (under_load, "under load"), ("fleet", "guests"), ("cold", "cold ext4")):
            ratios = medians_of_systems(results("{2}_{0}_real / {2}_{1}_real".format(*pair, name), figures))
            if (found := deciles([value for value in ratios if value])):
                series[label] = found
        series["the report"] = paper_ratios(*pair)
        title = f"{pair[0]} ÷ {pair[1]} in real time, over systems"
        yield f"claims-{pair[0]}-{pair[1]}", plots.lines(title, series, "percent of the systems with a lower ratio", "ratio", source)
    if curve := nfs_curve(figures):
        yield "claims-nfs", plots.lines("Lookups per second on one NFS server", curve, "clients", "lookups per second", source)


def deciles(values):
    return list(zip(range(10, 100, 10), quantiles(values, n=10, method="inclusive"))) if len(values) > 3 else None


def paper_ratios(first, second):
    number = 7 if second == "getmnt2" else 10
    with open(TOP / f"crates/account/data/getmnt-figure{number}.csv", newline="") as rows:
        return deciles([float(row[f"{first}_real"]) / float(row[f"{second}_real"]) for row in csv.DictReader(line for line in rows if line[0] != "#")])


CLIENTS = 1, 2, 4


def nfs_rates(figures, ms):
    """Lookups a second of 1, 2 and 4 clients, with a round trip of so many milliseconds; nothing without them."""
    measured = {n: Measured(f"{320 * n} / nfs_{n}_{ms}ms_seconds", "median", figures).value for n in CLIENTS}
    return None if None in measured.values() else measured


def closed_queue(think, service, clients):
    """Requests a second of clients with one request under way each: exact mean value analysis of a server and a delay."""
    waiting = 0.0
    for number in range(1, clients + 1):
        response = service * (1 + waiting)
        rate = number / (think + response)
        waiting = rate * response
    return rate


def nfs_model(rates):
    """The delay and the server's time for a request that give the measured rates of one client and of four."""
    low, high, total = 0.0, 1 / rates[1], 1 / rates[1]
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if closed_queue(total - middle, middle, 4) < rates[4] else (middle, high)
    return total - low, low


def nfs_curve(figures):
    curve = {}
    for ms in (0, 5, 20):
        if rates := nfs_rates(figures, ms):
            curve[f"{ms} ms, measured"] = list(rates.items())
            curve[f"{ms} ms, model"] = [(2**n, closed_queue(*nfs_model(rates), 2**n)) for n in range(11)]
    return curve


def write(run):
    """{path: contents} of all that is generated."""
    figures = read_figures(run)
    files = {PAGE: page(run, figures, read_claims(figures))}
    return files | {PLOTS / f"{name}.svg": drawing for name, drawing in drawings(run, figures)}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if sys.argv[1] != "--check":
        for path, contents in write(Path(sys.argv[1]).resolve()).items():
            path.write_text(contents)
        return
    run = re.search(r"\(\.\./(bench/runs/[\w.-]+)\)", PAGE.read_text())[1]
    different = [path.name for path, contents in write(TOP / run).items() if not path.exists() or path.read_text() != contents]
    if different:
        sys.exit(f"not what {run} gives: {', '.join(different)}; write them again by bench/claimspage.py {run}")


if __name__ == "__main__":
    main()
