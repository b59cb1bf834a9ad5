"""One file out of a large archive: seconds, and what is read of the archive.

The tree has directories of 1,000 files of 10 KB whose data cannot be compressed; fathom archives it. The archive is in the page
cache, and each program takes the file in the middle.
"""

import os
import random
import re
import shutil
import subprocess
from pathlib import Path
from statistics import median

from figures import by_contender, grouped, table
from measure import ENVIRONMENT, Contender, measure, run
from walks import ENTRIES, FEW, join, say

COLUMNS = "bench case entries bytes contender trial real user sys maxrss_kib exit read_calls read_bytes".split()
SIZE, IN_DIRECTORY = 10_000, 1_000
ENOUGH = 5  # trials: the others read all of the archive each time


def contenders(fathom, archive, name, to):
    return {
        "restore": [
            Contender("fathom", [fathom, "restore", "-q", "--overwrite", archive, "-C", to, "--", name]),
            Contender("tar", ["tar", "--zstd", "-xf", archive, "-C", to, name], ENOUGH),
            Contender("tar, first only", ["tar", "--zstd", "--occurrence=1", "-xf", archive, "-C", to, name], ENOUGH),
            Contender("bsdtar", ["bsdtar", "-xf", archive, "-C", to, name], ENOUGH),
            Contender("zstd to tar", ["sh", "-c", f"zstd -qdc '{archive}' | tar -x -C '{to}' '{name}'"], ENOUGH),
        ],
        "list": [
            Contender("fathom", [fathom, "list", archive, "--", name]),
            Contender("tar", ["tar", "--zstd", "-tvf", archive, name], ENOUGH),
            Contender("bsdtar", ["bsdtar", "-tvf", archive, name], ENOUGH),
        ],
    }


def commands():
    return [c for case in contenders("fathom", "ARCHIVE", "NAME", "DIR").values() for c in case]


def grow(top, entries):
    """Each file has another part of the same random bytes, so that none is like another nearby."""
    noise = random.Random(1).randbytes(SIZE * 4096)
    for number in range(entries):
        directory = join(top, f"d{number // IN_DIRECTORY:04}")
        if number % IN_DIRECTORY == 0:
            os.makedirs(directory)
        at = number * 7919 % (len(noise) - SIZE)
        with open(join(directory, f"f{number % IN_DIRECTORY:04}"), "wb", buffering=0) as file:
            file.write(noise[at : at + SIZE])


def reads(argv, archive, scratch):
    """The calls that read the archive, and their bytes."""
    logs = Path(scratch, "strace")
    logs.mkdir()
    # A log for each process, so that no call is split into two lines.
    trace = ["strace", "-ff", "-y", "-qq", "-e", "trace=read,pread64", "-o", join(str(logs), "log"), *argv]
    subprocess.run(trace, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
    of_archive = re.compile(rf"\(\d+<{re.escape(archive)}>.*= (\d+)$")
    lines = (line for log in logs.iterdir() for line in log.read_text(errors="replace").splitlines())
    found = [int(match[1]) for line in lines if (match := of_archive.search(line))]
    shutil.rmtree(logs)
    return {"read_calls": len(found), "read_bytes": sum(found)}


def bench_member(options):
    entries = options.entries or (FEW if options.quick else ENTRIES)
    top, archive, to = (join(options.work, name) for name in ("tree", "a.tar.zst", "to"))
    say(f"member: {entries:,} files of {SIZE:,} bytes")
    os.mkdir(to)
    grow(top, entries)
    subprocess.run([options.fathom, "dump", "-q", "tree", "-o", archive], cwd=options.work, check=True)
    shutil.rmtree(top)
    name = f"tree/d{entries // 2 // IN_DIRECTORY:04}/f{entries // 2 % IN_DIRECTORY:04}"
    about = {"bench": "member", "entries": entries, "bytes": os.path.getsize(archive)}
    for case, programs in contenders(options.fathom, archive, name, to).items():
        say(f"member: {case}")
        programs = [program for program in programs if shutil.which(program.argv[0])]
        yield from measure(programs, options.trials, run, case=case, **about)
        for program in programs:
            row = about | {"case": case, "contender": program.name, "trial": "calls"}
            yield row | reads(program.argv, archive, options.work)


def load(run):
    """{(case, files, bytes of the archive): {contender: (seconds, calls, bytes read)}}, the medians."""
    path = Path(run) / "member.csv"
    found = {}
    for key, rows in grouped(path, lambda row: (row["case"], int(row["entries"]), int(row["bytes"]))).items():
        by = found.setdefault(key, {})
        for name, own in by_contender(rows):
            calls = next(row for row in own if row["trial"] == "calls")
            seconds = median(float(row["real"]) for row in own if row["trial"] != "calls")
            by[name] = seconds, int(calls["read_calls"]), int(calls["read_bytes"])
    return found


def targets(run):
    """(what is asked, what was measured, whether it is met, whether this run can tell)"""
    for (case, entries, size), by in load(run).items():
        part = by["fathom"][2] / size
        yield f"{case} one file: under 1 % of the archive is read", f"{100 * part:.2f} %", part < 0.01, entries >= 100_000


def tables(run):
    for (case, entries, size), by in load(run).items():
        yield f"## {case} one file of {entries:,}, archive of {size / 1e9:.2f} GB"
        yield ""
        rows = [
            [name, f"{seconds:.3f}", f"{calls:,}", f"{read:,}", f"{100 * read / size:.2f} %"]
            for name, (seconds, calls, read) in by.items()
        ]
        yield from table(["program", "s", "reads", "bytes read", "of the archive"], rows)
