"""The pathwalk benchmark: fathom's timed loop against the reference's, and two threads against one."""

import os
import re
import shutil
import subprocess
from statistics import median

from figures import grouped, table, times
from namespace import MS_PRIVATE, in_namespace, mount
from measure import ENVIRONMENT, Contender, turns

COLUMNS = "bench case fs contender trial directories files seconds lookups_per_second ns".split()
DIRECTORIES = 16
FILES, FEW = 25_000, 2_500  # in each; few with --quick
REFERENCE, LLNL = "reference", "LLNL's pathwalk"
ONE, TWO = "fathom -j 1", "fathom -j 2"
METHODS = ["statx", "access", "open", "dirfd"]
AT_MOST, AT_LEAST = 1.0, 1.7


def contenders(fathom, reference, root, files):
    """Whoever can search the tree, in the form in which each is called."""
    shape = ["-l", str(DIRECTORIES), "-f", str(files), root]
    ours = [fathom, "pathwalk", "-t", *shape]
    found = [Contender(REFERENCE, [reference, "-t", *shape])]
    if shutil.which("pathwalk"):
        found.append(Contender(LLNL, ["pathwalk", "-t", *shape]))
    found += [Contender(ONE, ours), Contender(TWO, [*ours, "-j", "2"])]
    return found + [Contender(f"fathom {m}", [*ours, "--method", m]) for m in METHODS]


def compiled(work):
    """The reference program, which the tests use as well."""
    program = os.path.join(work, "reference")
    source = os.path.join(os.path.dirname(__file__), "../tests/pathwalk/reference.c")
    subprocess.run(["cc", "-O2", "-o", program, source], check=True)
    return program


def seconds(argv):
    """What the program itself says that its search took."""
    ran = subprocess.run(argv, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    line = next(line for line in (ran.stdout + ran.stderr).splitlines() if ": Found " in line)
    return float(re.search(r" in ([0-9.]+)s$", line)[1])


def pathwalk_case(options, fs, root, reference, files):
    shape = ["-l", str(DIRECTORIES), "-f", str(files), root]
    subprocess.run([options.fathom, "pathwalk", "-c", *shape], check=True, stdout=subprocess.DEVNULL)
    rivals = contenders(options.fathom, reference, root, files)
    about = {"bench": "pathwalk", "case": "warm", "fs": fs, "directories": DIRECTORIES, "files": files}
    rows = []
    for trial, contender in turns(rivals, options.trials):
        took = seconds(contender.argv)
        if trial >= 0 and took > 0:
            rate = DIRECTORIES * files / took
            cost = {"seconds": took, "lookups_per_second": round(rate), "ns": round(1e9 / rate, 1)}
            rows.append(about | {"contender": contender.name, "trial": trial} | cost)
    subprocess.run([options.fathom, "pathwalk", "-r", *shape], check=True, stdout=subprocess.DEVNULL)
    return rows


def bench_pathwalk(options):
    files = FEW if options.quick else FILES
    reference = compiled(options.work)

    def on_tmpfs():
        place = os.path.join(options.work, "tmpfs")
        os.mkdir(place)
        mount("tmpfs", place, "tmpfs", data="nr_inodes=0")
        return pathwalk_case(options, "tmpfs", os.path.join(place, "tree"), reference, files)

    yield from in_namespace(MS_PRIVATE, on_tmpfs)
    yield from pathwalk_case(options, "scratch", os.path.join(options.work, "tree"), reference, files)


def commands():
    return contenders("fathom", "reference", "ROOT", FILES)


# The summary


def read(run):
    """{file system: {contender: median seconds}}, and how many look-ups each search made."""
    by, lookups = {}, 0
    for (fs, who, lookups), rows in grouped(
        run / "pathwalk.csv",
        lambda row: (row["fs"], row["contender"], int(row["directories"]) * int(row["files"])),
    ).items():
        by.setdefault(fs, {})[who] = [float(row["seconds"]) for row in rows]
    return {fs: {who: median(took) for who, took in each.items()} for fs, each in by.items()}, lookups


def targets(run):
    """(what is asked, what was measured, whether it is met, whether this run can tell)"""
    costs, lookups = read(run)
    can_tell = lookups >= DIRECTORIES * FILES
    for peer in (REFERENCE, LLNL):
        ratios = {fs: each[ONE] / each[peer] for fs, each in costs.items() if peer in each}
        if ratios:
            shown = ", ".join(f"{fs} {times(ratio)}" for fs, ratio in ratios.items())
            text = f"pathwalk: fathom ÷ {peer} <= {AT_MOST:.0f}"
            yield text, shown, max(ratios.values()) <= AT_MOST, can_tell
    ratios = {fs: each[ONE] / each[TWO] for fs, each in costs.items()}
    if ratios:
        shown = ", ".join(f"{fs} {times(ratio)}" for fs, ratio in ratios.items())
        text = f"pathwalk: look-ups/s of -j 2 ÷ those of one thread >= {AT_LEAST}"
        yield text, shown, min(ratios.values()) >= AT_LEAST, can_tell and os.cpu_count() > 1


def tables(run):
    costs, lookups = read(run)
    if not costs:
        return
    yield "## Path search"
    yield ""
    yield f"{lookups:,} look-ups, warm; ns for each, the median; against the reference."
    yield ""
    names = list(dict.fromkeys(who for each in costs.values() for who in each))
    head = ["who", *(f"{fs}{unit}" for fs in costs for unit in (", ns", " ÷ reference"))]
    rows = []
    for who in names:
        cells = []
        for each in costs.values():
            took = each.get(who)
            cells += [took and f"{took / lookups * 1e9:.0f}", took and times(took / each[REFERENCE])]
        rows.append([who, *cells])
    yield from table(head, rows)
