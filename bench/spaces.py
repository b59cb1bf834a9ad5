"""Where the space of a file system is: fathom space and the summary of fathom walk, against du and dust on the same tree."""

from pathlib import Path

from figures import Costs, by_contender, grouped, table
from measure import Contender, measure, run, run_json, untimed
from namespace import MS_PRIVATE, in_namespace
from trees import Ground, Tree
from walks import ENTRIES, FEW, available, join, peers, say

COLUMNS = "bench fs entries contender trial real user sys maxrss_kib exit stat_calls all_calls gates".split()
FILE_SYSTEMS = ("ext4", "xfs", "btrfs", "tmpfs")


def contenders(fathom, top):
    ours = [Contender("fathom space", [fathom, "space", top]), Contender("fathom walk", [fathom, "walk", top])]
    return ours + peers(("du", ["-x", "-d", "1", top], None), ("dust", ["-P", "-x", "-d", "1", top], None))


def commands():
    return contenders("fathom", "TREE")


def bench_space(options):
    entries = options.entries or (FEW if options.quick else ENTRIES)
    Path(options.work, "tree").mkdir(exist_ok=True)

    def measured(fs):
        say(f"space: {entries:,} entries on {fs}")
        ground = Ground(fs, join(options.work, "tree"), options.scratch, Tree("many", entries))
        about = {"bench": "space", "fs": fs, "entries": entries}
        all_here = contenders(options.fathom, ground.top)
        rows = [*measure(all_here, options.trials, run, **about)]
        for one in all_here[:2]:
            counted, _ = run_json([*one.argv, "--json"])
            rows.append(about | {"contender": one.name, "trial": "calls"} | untimed(counted))
        return rows

    for fs in FILE_SYSTEMS:
        if available(fs) and (not options.fs or fs in options.fs):
            yield from in_namespace(MS_PRIVATE, lambda fs=fs: measured(fs))


def load(run):
    """{(file system, entries): {contender: Costs}}"""
    key = lambda row: (row["fs"], int(row["entries"]))
    return {key: {name: Costs(own) for name, own in by_contender(rows)} for key, rows in grouped(Path(run) / "space.csv", key).items()}


def targets(run):
    """(what is asked, what was measured, whether it is met, whether this run can tell)"""
    for (fs, entries), by in load(run).items():
        if fs == "ext4":
            seconds = by["fathom space"]["real"] * ENTRIES / entries
            yield "space: 1 M entries on ext4 in 0.2 s, warm", f"{seconds:.3f} s", seconds <= 0.2, entries >= ENTRIES


def tables(run):
    for (fs, entries), by in load(run).items():
        yield f"## Where the space is: {entries:,} entries on {fs}, warm"
        yield ""
        ours = by["fathom space"]["real"]
        rows = [
            [name, f"{c['real']:.3f}", f"{c['user'] + c['sys']:.3f}", f"{c['real'] / ours:.1f}", f"{c['maxrss']:.0f}", c.get("all_calls", "")]
            for name, c in by.items()
        ]
        yield from table(["program", "s", "CPU s", "x fathom space", "MiB", "calls"], rows)
