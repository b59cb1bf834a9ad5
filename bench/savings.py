"""What `fathom account` says that a change would save, against what it saves: each pair of commands does the same in two ways.

buffer          dd of a file with blocks of 512 bytes; or of 4 KiB
cache-misses    xargs that runs a program past 1,000 directories of PATH without it; or by its full name
directory-fd    ls -l of a directory with a long name; or of the working directory
keep-stat       a shell loop that tests whether a file exists; or whether its name is empty
skip-xattr      tar --xattrs --acls of files that have none; or plain tar
combine-stat    stat, open, fstat and close of each file; or one statx
cache-misses    stat of names that are not there; or nothing
batch-uring     statx of each file; or the same through io_uring
raw-tables      a walk of an ext4 by statx; or by its tables
batch-bulkstat  a walk of an XFS by statx; or by bulkstat

What is measured is CPU time, the least of several runs each way: whoever shares the machine adds to it, and takes nothing away.
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

COLUMNS = "bench case fs entries trial predicted now then measured".split()
WAYS = Path(__file__).resolve().parent.parent / "tests/account/ways.c"
NAMES, ROUNDS = 100, 20_000
PROGRAMS = [("combine-stat", "three", "one"), ("cache-misses", "miss", "none"), ("batch-uring", "one", "uring")]
LONG, FILES, LOOPS, EMPTY = "/".join("abcdefghijkl"), 20_000, 100_000, 1000
REAL = "tmpfs, a real program"
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
    return [about | {"trial": trial} | trial_of(options, change, now, then) for trial in range(options.trials)]


def trial_of(options, change, now, then):
    seconds = {
        "predicted": predicted(options.fathom, change, now),
        "now": cpu(now),
        "then": cpu(then),
    }
    seconds["measured"] = seconds["now"] - seconds["then"]
    return {name: round(value, 6) for name, value in seconds.items()}


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


def real_programs(top):
    """(change, what it is now, what it would be), each a command of a program that others wrote"""
    data, copy, long = join(top, "data"), join(top, "copy"), join(top, LONG)
    empty = ":".join(join(top, f"none{number}") for number in range(EMPTY))
    count, body = f"i=0; while [ $i -lt {LOOPS} ]; do i=$((i + 1)); ", "; done"

    def sh(text):
        return ["sh", "-c", text]

    yield "buffer", *(["dd", f"if={data}", f"of={copy}", "conv=notrunc", "status=none", f"bs={size}"] for size in (512, 4096))
    run_true = "seq 60 | xargs -n 1"
    loops = [sh(f"export PATH={empty}:$PATH; {run_true} {name}") for name in ("true", "/usr/bin/true")]
    yield "cache-misses", *loops
    yield "directory-fd", sh(f"ls -lnU {long}"), sh(f"cd {long} && ls -lnU")
    yield "keep-stat", sh(f"{count}[ -e {data} ]{body}"), sh(f"{count}[ -n {data} ]{body}")
    tar = ["tar", "-cf", "-", "--posix", "-C", long]
    yield "skip-xattr", [*tar, "--xattrs", "--acls", "."], [*tar, "."]


def real_case(options):
    def measured():
        top = join(options.work, "tree")
        os.makedirs(top, exist_ok=True)
        mount("tmpfs", top, "tmpfs")
        os.makedirs(join(top, LONG))
        Path(top, "data").write_bytes(bytes(32 << 20))
        for name in range(FILES):
            Path(top, LONG, str(name)).write_text("x")
        for number in range(EMPTY):
            os.mkdir(join(top, f"none{number}"))
        found = []
        for change, now, then in real_programs(top):
            say(f"savings: {change}, {now[0]}")
            try:
                found += rows(options, change, REAL, ROUNDS, now, then)
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
    yield from real_case(options)
    yield from programs_case(options)
    for change, fs, engine in WALKS:
        say(f"savings: {change}, {entries:,}")
        yield from walks_case(options, change, fs, engine, entries)


def load(run):
    """{(change, file system, entries): (predicted, measured)}"""
    cases = grouped(run / "savings.csv", lambda row: (row["case"], row["fs"], int(row["entries"])))
    return {key: (median(numbers(rows, "predicted")), saved(rows)) for key, rows in cases.items()}


def numbers(rows, name):
    return [float(row[name]) for row in rows]


def saved(rows):
    """The least CPU time of each way; older runs have only the difference of each trial."""
    if "now" not in rows[0]:
        return median(numbers(rows, "measured"))
    return min(numbers(rows, "now")) - min(numbers(rows, "then"))


def targets(run):
    """(what is asked, what was measured, whether it is met, whether this run can tell)"""
    for (change, fs, entries), (said, saved) in load(run).items():
        if change == "skip-xattr":  # tar also saves what it does with the answers
            both = f"{1000 * said:.1f} of {1000 * saved:.1f} ms"
            yield f"{change}: predicted at most what was measured", both, said <= 1.25 * saved, True
        elif change != "batch-bulkstat":  # hardly saves anything: nothing to be 25 % of
            off = said / saved - 1 if saved else 1.0
            real = ", a real program" if fs == REAL else ""
            yield f"{change}{real}: predicted within 25 % of measured", f"{100 * off:+.0f} %", abs(off) <= 0.25, entries >= ROUNDS


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
