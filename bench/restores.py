"""The restore benchmark: many small files, by fathom, GNU tar, bsdtar, and the bare calls in C."""

import os
import subprocess

from figures import divide, load, table, times
from measure import Contender, measure, run
from namespace import MS_PRIVATE, Image, in_namespace, mount, umount
from peers import program
from trees import FILE_SYSTEMS, Tree, mkfs
from walks import entries, file_systems, join, say

COLUMNS = "bench case fs cache entries contender trial real user sys maxrss_kib exit".split()
OURS, ALONE, BARE = "restore", "restore -j 1", "bare calls"
TRIALS = 3
AT_LEAST = 1.5  # times as fast as each
KIBIBYTES = 32  # of an image, for each entry: XFS reserves 20 KiB for a small file until it is written
ENOUGH = 250_000  # entries: with fewer, starting counts


def contenders(fathom, archive, top, bare, shape):
    ours = [fathom, "restore", "-q", archive, "-C", top]
    found = [Contender(OURS, ours, TRIALS), Contender(ALONE, [*ours, "-j", "1"], TRIALS)]
    for peer in ("tar", "bsdtar"):
        if program(peer):
            found.append(Contender(peer, [program(peer), "-x", "-p", "-f", archive, "-C", top], TRIALS))
    for threads in ("1", "2"):
        for how in ("unnamed", "named"):
            found.append(Contender(f"{BARE}, {how}, {threads}", [bare, top, how, threads, *shape], TRIALS))
    return found


def restore_case(options, fs, tree, archive, bare):
    top = join(options.work, "to")
    os.makedirs(top, exist_ok=True)
    shape = [str(tree.directories), str(tree.files // tree.directories)]

    def one(argv):
        image = None
        if fs == "tmpfs":
            mount("tmpfs", top, "tmpfs", data="nr_inodes=0,size=60%")
        else:
            image = Image(options.work, 4096 + tree.entries * KIBIBYTES // 1024, fs, mkfs(fs, tree.entries))
            image.mount(top)
        os.sync()
        row = run(argv)
        umount(top)
        if image:
            image.free()
        return row

    row = {"bench": "restore", "case": "small", "fs": fs, "cache": "warm", "entries": tree.entries}
    rivals = contenders(options.fathom, archive, top, bare, shape)
    return measure(rivals, options.trials, one, warm_up=False, **row)


def bench_restore(options):
    tree = Tree("small", entries(options))
    archive, bare = join(options.work, "archive.tar"), join(options.work, "bare")
    source = join(os.path.dirname(os.path.abspath(__file__)), "bare_restore.c")
    subprocess.run(["cc", "-O2", "-pthread", "-o", bare, source], check=True)

    def archived():
        top = join(options.work, "tree")
        os.mkdir(top)
        mount("tmpfs", top, "tmpfs", data="nr_inodes=0,size=60%")
        tree.build(top)
        subprocess.run([program("tar"), "-c", "-f", archive, "-C", top, "."], check=True)

    in_namespace(MS_PRIVATE, archived)
    for fs in file_systems(options, FILE_SYSTEMS):
        say(f"restore: {fs}")
        yield from in_namespace(MS_PRIVATE, lambda: restore_case(options, fs, tree, archive, bare))


def commands():
    return contenders("fathom", "ARCHIVE", "DIR", "bare_restore", ["DIRECTORIES", "FILES"])


# The summary


def read(run):
    """{file system: {contender: costs}}, and the number of entries."""
    cases = load(run / "restore.csv", "entries")
    return {case[2]: by for case, by in cases.items()}, max((case[4] for case in cases), default=0)


def targets(run):
    """(what is asked, what was measured, whether it is met, whether this run can tell)"""
    by, count = read(run)
    for peer in ("tar", "bsdtar"):
        ratios = {fs: divide(costs.get(peer), costs.get(OURS)) for fs, costs in by.items()}
        ratios = {fs: ratio for fs, ratio in ratios.items() if ratio}
        if ratios:
            shown = ", ".join(f"{fs} {times(ratio)}" for fs, ratio in ratios.items())
            met = min(ratios.values()) >= AT_LEAST
            yield f"restore: {peer} ÷ restore >= {AT_LEAST}", shown, met, count >= ENOUGH


def tables(run):
    by, count = read(run)
    if not by:
        return
    yield "## Restoring"
    yield ""
    yield f"{count:,} small files and directories onto a new file system, median seconds."
    yield ""
    names = list(dict.fromkeys(name for costs in by.values() for name in costs))
    rows = []
    for name in names:
        cells = [costs[name]["real"] if name in costs else None for costs in by.values()]
        rows.append([name, *(cell and f"{cell:.2f}" for cell in cells)])
    yield from table(["who", *by], rows)
    yield "Bare calls: a C program that makes as many files of 1,000 bytes by openat, pwrite64, futimens and close,"
    yield "unnamed (O_TMPFILE, then linkat) as fathom does, or by name; with one thread and two."
    yield ""
