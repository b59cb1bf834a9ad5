"""The cases of pathsearch: the cold start of Python, and of a shell script with twenty commands, on a file system that is far
away, predicted by `fathom pathsearch --rtt auto` and measured. That file system is the tests' (tests/support/far.rs): a FUSE
server that shows this machine's tree, and takes its time for each request."""

import csv
import os
import subprocess
from collections import defaultdict
from statistics import median

from figures import table, times

COLUMNS = "bench case latency_us trial rtt predicted real".split()
FAR = 0.2  # how far a prediction may be off


def bench_pathsearch(options):
    """The rows of the test that measures."""
    test = "--test pathsearch -- --ignored --exact far::seconds --nocapture"
    argv = ["cargo", "test", "--quiet", "-p", "fathom", *test.split()]
    env = dict(os.environ, FATHOM_TRIALS=str(min(options.trials, 5)))
    output = subprocess.run(argv, stdout=subprocess.PIPE, env=env, check=True, text=True).stdout
    for line in output.splitlines():
        if line.startswith("row,"):
            yield dict(zip(COLUMNS, ["pathsearch", *line.split(",")[1:]]))


def read(run):
    """{(case, microseconds): rows}"""
    cases = defaultdict(list)
    path = run / "pathsearch.csv"
    if path.exists():
        with open(path, newline="") as rows:
            for row in csv.DictReader(rows):
                cases[row["case"], int(row["latency_us"])].append(row)
    return cases


def ratio(rows):
    return median(float(row["predicted"]) for row in rows) / median(float(row["real"]) for row in rows)


def targets(run):
    """(what is asked, what was measured, whether it is met, whether this run can tell)"""
    for (case, latency), rows in read(run).items():
        off = ratio(rows)
        text = f"cold start of {case} at {latency / 1000:g} ms: predicted ÷ measured within {FAR:.0%}"
        yield text, times(off), 1 - FAR <= off <= 1 + FAR, True


def tables(run):
    cases = read(run)
    if not cases:
        return
    yield "## Cold starts, far away: predicted and measured"
    yield ""
    rows = []
    for (case, latency), trials in cases.items():
        middle = [f"{median(float(row[name]) for row in trials):.3f}" for name in ("predicted", "real")]
        rows.append([case, f"{latency / 1000:g}", *middle, times(ratio(trials)), len(trials)])
    yield from table(["start", "latency ms", "predicted s", "measured s", "ratio", "trials"], rows)
