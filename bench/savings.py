"""What `fathom account` says that a change would save, against what it saves: each pair of commands does the same in two ways.

combine-stat    stat, open, fstat and close of each file; or one statx
cache-misses    stat of names that are not there; or nothing
batch-uring     statx of each file; or the same through io_uring
raw-tables      a walk of an ext4 by statx; or by its tables
batch-bulkstat  a walk of an XFS by statx; or by bulkstat
"""

import os
import subprocess
from pathlib import Path
from statistics import median

from figures import grouped, table
from measure import report, run
from namespace import MS_PRIVATE, in_namespace, mount
from trees import Ground, Tree
from walks import ENTRIES, FEW, join, say

COLUMNS = "bench case fs entries trial predicted measured".split()
WAYS = Path(__file__).resolve().parent.parent / "tests/account/ways.c"
NAMES, ROUNDS = 100, 20_000
PROGRAMS = [("combine-stat", "three", "one"), ("cache-misses", "miss", "none"), ("batch-uring", "one", "uring")]
WALKS = [("raw-tables", "ext4", "ext4"), ("batch-bulkstat", "xfs", "bulkstat")]


def cpu(command):
    row = run(command)
    return row["user"] + row["sys"]


def predicted(fathom, change, command):
    def quietly(words):
        subprocess.run(words, check=True, close_fds=False, stdout=subprocess.DEVNULL)

    answer = report(quietly, fathom, "account", "--calls", str(1 << 62), "--", *command)
    return {row["change"]: row["saves_seconds"] for row in answer["what_if"]}[change]


def rows(options, change, fs, entries, now, then):
    """A row for each trial: CPU seconds, predicted and measured."""
    about = {"bench": "savings", "case": change, "fs": fs, "entries": entries}
    for command in (now, then):
        run(command)  # all is in memory
    return [
        about
        | {
            "trial": trial,
            "predicted": round(predicted(options.fathom, change, now), 6),
            "measured": round(cpu(now) - cpu(then), 6),
        }
        for trial in range(options.trials)
    ]


def programs_case(options):
    def measured():
        top = join(options.work, "tree")
        os.makedirs(top, exist_ok=True)
        mount("tmpfs", top, "tmpfs")
        ways, files = join(top, "ways"), join(top, "files")
        subprocess.run(["cc", "-O2", "-o", ways, WAYS], check=True)
        os.mkdir(files)
        for name in range(NAMES):
            Path(files, str(name)).write_text("x")
        found = []
        for change, now, then in PROGRAMS:
            say(f"savings: {change}")
            both = [[ways, way, str(ROUNDS), files] for way in (now, then)]
            try:
                found += rows(options, change, "tmpfs", ROUNDS, *both)
            except RuntimeError as error:
                say(f"left out: {str(error).splitlines()[0]}")
        return found

    return in_namespace(MS_PRIVATE, measured)


def walks_case(options, change, fs, engine, entries):
    def measured():
        top = join(options.work, "tree")
        os.makedirs(top, exist_ok=True)
        Ground(fs, top, options.work, Tree("many", entries))
        walk = [options.fathom, "walk", "-q", "--jobs", "1", "--engine"]
        return rows(options, change, fs, entries, [*walk, "stat", top], [*walk, engine, top])

    return in_namespace(MS_PRIVATE, measured)


def bench_savings(options):
    entries = options.entries or (FEW if options.quick else ENTRIES)
    yield from programs_case(options)
    for change, fs, engine in WALKS:
        say(f"savings: {change}, {entries:,}")
        yield from walks_case(options, change, fs, engine, entries)


def load(run):
    """{(change, file system, entries): (predicted, measured)}, the medians."""
    cases = grouped(run / "savings.csv", lambda row: (row["case"], row["fs"], int(row["entries"])))
    return {
        key: tuple(median(float(row[name]) for row in rows) for name in ("predicted", "measured"))
        for key, rows in cases.items()
    }


def targets(run):
    """(what is asked, what was measured, whether it is met, whether this run can tell)"""
    for (change, _, entries), (said, saved) in load(run).items():
        if change != "batch-bulkstat":  # hardly saves anything: nothing to be 25 % of
            off = said / saved - 1 if saved else 1.0
            yield f"{change}: predicted within 25 % of measured", f"{100 * off:+.0f} %", abs(off) <= 0.25, entries >= ROUNDS


def tables(run):
    cases = load(run)
    if cases:
        yield "## What changes save: fathom account, CPU ms"
        yield ""
        rows = [
            [change, fs, f"{entries:,}", f"{1000 * said:.2f}", f"{1000 * saved:.2f}"]
            for (change, fs, entries), (said, saved) in cases.items()
        ]
        yield from table(["change", "on", "files", "predicted", "measured"], rows)
