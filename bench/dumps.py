"""The cases of `fathom dump`: first dumps and increments, against those that people use today."""

import os
import shutil
import subprocess
import time
from collections import namedtuple

from measure import Contender, measure, run, run_json, run_strace
from namespace import MS_NOATIME, MS_PRIVATE, MS_REMOUNT, MS_STRICTATIME, in_namespace, mount
from peers import program
from trees import FILE_SYSTEMS, Ground, LargeFiles, Tree
from walks import ENGINES, entries, file_systems, growth, join, say

COLUMNS = (
    "bench case fs cache entries name_bytes contender trial real user sys maxrss_kib exit"
    " engine found archive_bytes stat_calls all_calls gates"
).split()
FEW = 10_000
GROWTH = [10_000, 100_000, 1_000_000, 10_000_000]
BARE = "bare calls"
GATHERS = ["percall", "combined", "batched", "raw"]
CHANGED = 0.01  # of the files
# Who is measured after other programs have read the tree.
READERS = ["dump", BARE, "tar -g"]
# How often at most: ours and GNU tar; the others, that take minutes.
TRIALS = {"warm": (5, 2), "cold": (3, 1)}
SOON = 1.1  # seconds, so that nothing is changed within a second of what it is compared with

# A program that dumps. `first` is the command of a first dump, `fresh` makes ready for one, `keep`
# remembers the state after it; `later` is the command of an increment, `back` makes ready for one.
# What it has no increments of its own for, it has None for.
Tool = namedtuple("Tool", "name first fresh keep later back slow")


def nothing():
    pass


def remove(*paths):
    for path in paths:
        if os.path.isdir(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.unlink(path)


def replace(source, target):
    remove(target)
    subprocess.run(["cp", "-a", source, target], check=True)


# The programs


def fathom_tool(fathom, top, work, stir):
    """`stir` changes the file system beside the tree, so that it cannot say that nothing did."""
    full, base, later, after = (
        join(work, name) for name in ("full.tar", "base.parquet", "later.tar", "later.parquet")
    )
    first = [fathom, "dump", top, "-o", full, "--catalog", base, "--json"]
    increment = [fathom, "dump", top, "-o", later, "--since", base, "--catalog", after, "--json"]

    def back():
        remove(later, after)

    def stirred():
        back()
        stir()

    yield Tool("dump", first, lambda: remove(full, base), nothing, increment, back, False)
    yield Tool("dump, stirred", None, None, None, [*increment, "-q"], stirred, False)
    for gather in GATHERS:
        command = [*increment, "--gather", gather]
        yield Tool(f"dump {gather}", None, None, None, command, stirred, False)


def tar_tool(top, work):
    archive, state, base = (join(work, name) for name in ("tar.tar", "tar.state", "tar.base"))
    command = [program("tar"), "-c", "-f", archive, "-g", state, "-C", top, "."]

    def back():
        remove(archive)
        shutil.copyfile(base, state)

    def keep():
        shutil.copyfile(state, base)

    yield Tool("tar -g", command, lambda: remove(archive, state), keep, command, back, False)


def bsdtar_tool(top, work):
    archive, stamp = join(work, "bsdtar.tar"), join(work, "stamp")
    command = [program("bsdtar"), "-c", "--format", "pax", "-f", archive]
    later = [*command, "--newer-ctime-than", stamp, "-C", top, "."]

    def fresh():
        remove(archive)

    def keep():
        open(stamp, "w").close()

    yield Tool("bsdtar", [*command, "-C", top, "."], fresh, keep, later, fresh, True)


def repository_tool(name, init, command, repository, cache):
    """One with a repository: each increment finds it as the first dump left it."""
    kept = [(repository, f"{repository}.base"), (cache, f"{cache}.base")]

    def fresh():
        remove(repository, cache)
        os.mkdir(cache)
        subprocess.run(init, check=True, capture_output=True)

    def keep():
        for now, base in kept:
            replace(now, base)

    def back():
        for now, base in kept:
            replace(base, now)

    yield Tool(name, command, fresh, keep, command, back, True)


def restic_tool(top, work):
    repository, cache = join(work, "restic"), join(work, "restic-cache")
    common = [program("restic"), "-q", "-r", repository, "--cache-dir", cache]
    common += ["--password-command", "echo word"]
    command = [*common, "backup", top]
    yield from repository_tool("restic", [*common, "init"], command, repository, cache)


def rustic_tool(top, work):
    repository, cache = join(work, "rustic"), join(work, "rustic-cache")
    common = [program("rustic"), "--no-progress", "-r", repository, "--cache-dir", cache]
    common += ["--password", "word"]
    command = [*common, "backup", top]
    yield from repository_tool("rustic", [*common, "init"], command, repository, cache)


def borg_tool(top, work):
    repository, cache = join(work, "borg"), join(work, "borg-cache")
    accept = ["UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK", "RELOCATED_REPO_ACCESS_IS_OK"]
    common = ["env", f"BORG_BASE_DIR={cache}", *(f"BORG_{what}=yes" for what in accept)]
    common.append(program("borg"))
    init = [*common, "init", "-e", "none", repository]
    command = [*common, "create", f"{repository}::{{now:%H%M%S%f}}", top]
    yield from repository_tool("borg", init, command, repository, cache)


def bare_tool(fs, top, work):
    """The calls alone, by a program in C: the files that it reads are those that fathom has just dumped."""
    bare, listed, generation = (join(work, name) for name in ("bare", "bare.list", "bare.generation"))
    written = [join(work, name) for name in ("bare.archive", "bare.catalog")]
    base = join(work, "base.parquet")
    command = [bare, fs, top, listed, join(work, "bare.out"), generation, *written]

    def ready(names, *changed):
        remove(join(work, "bare.out"))
        for name, link in zip(names, written):
            remove(link)
            os.symlink(join(work, name), link)
        with open(listed, "wb") as file:
            having_data = ["-type", "f", "-size", "+0", *changed, "-printf", r"%P\n"]
            subprocess.run([program("find"), top, *having_data], stdout=file, check=True)

    def fresh():
        remove(generation)
        ready(["full.tar", "base.parquet"])

    def keep():
        if fs == "btrfs":
            with open(generation, "wb") as file:
                subprocess.run([bare, "generation", top], stdout=file, check=True)

    def back():
        ready(["later.tar", "later.parquet"], "-cnewer", base)

    source = join(os.path.dirname(os.path.abspath(__file__)), "bare_dump.c")
    if os.path.isdir(work):
        subprocess.run(["cc", "-O2", "-pthread", "-o", bare, source], check=True)
    yield Tool(BARE, command, fresh, keep, command, back, False)


OTHERS = {"bsdtar": bsdtar_tool, "restic": restic_tool, "rustic": rustic_tool, "borg": borg_tool}


def tools(fathom, fs, top, work, stir, all_of_them):
    yield from fathom_tool(fathom, top, work, stir)
    yield from bare_tool(fs, top, work)
    if program("tar"):
        yield from tar_tool(top, work)
    for name, tool in OTHERS.items():
        if all_of_them and program(name):
            yield from tool(top, work)


# Cases


class Beside:
    """A tree in a directory of its file system, with room for something else beside it."""

    def __init__(self, tree):
        self.tree, self.entries = tree, tree.entries

    def build(self, top):
        os.mkdir(join(top, "tree"))
        self.tree.build(join(top, "tree"))


def runner(argv):
    if "--json" not in argv:
        return run(argv)
    row, answer = run_json(argv)
    row |= {"engine": answer["gather"], "found": answer["dumped"]}
    return row | {"archive_bytes": answer["archive_bytes"]}


def runs(options, which, before, ground, cache, row):
    """The rows of one case: `which` are (tool, command)."""
    ours, theirs = TRIALS[cache]
    if options.quick:
        ours = theirs = 1
    contenders = [
        Contender(tool.name, command, theirs if tool.slow else ours) for tool, command in which
    ]
    ready = {tuple(command): before(tool) for tool, command in which}

    def one(argv):
        ready[tuple(argv)]()
        os.sync()
        if cache == "cold":
            ground.remount()
        return runner(argv)

    return measure(contenders, options.trials, one, warm_up=False, **row)


def able(every):
    """Without those that cannot do it here, such as a gathering that would be another one."""
    for tool in every:
        if not tool.name.startswith("dump "):
            yield tool
            continue
        tool.back()
        row = runner(tool.later)
        asked = tool.name.removeprefix("dump ")
        if asked not in GATHERS or row["engine"] == asked:
            yield tool
        else:
            say(f"left out: {asked}: it is {row['engine']} here")


def dump_case(options, fs, shape):
    """First dump, then increments: with nothing changed, and with one file in a hundred changed."""
    tree = Tree("small", entries(options)) if shape == "small" else LargeFiles(options.quick)
    work = join(options.work, "dump")
    all_of_them = not options.case and (options.full or fs == "ext4")

    def about(case, cache):
        known = {"entries": tree.entries, "name_bytes": tree.name_bytes()}
        return {"bench": "dump", "case": f"{case}, {shape}", "fs": fs, "cache": cache, **known}

    def measured(ground):
        top, beside = join(ground.top, "tree"), join(ground.top, "beside")

        def stir():
            with open(beside, "a") as file:
                file.write("stirred\n")

        every = list(tools(options.fathom, fs, top, work, stir, all_of_them))
        firsts = [tool for tool in every if tool.first]
        firsts[0].fresh()
        runner(firsts[0].first)  # the caches are warm after it

        def first(cache):
            which = [(tool, tool.first) for tool in firsts if cache == "warm" or not tool.slow]
            row = about("first", cache)
            return runs(options, which, lambda tool: tool.fresh, ground, cache, row)

        def later(case, cache, some):
            which = [(tool, tool.later) for tool in some]
            return runs(options, which, lambda tool: tool.back, ground, cache, about(case, cache))

        rows = first("warm")
        time.sleep(SOON)
        for tool in firsts:
            tool.keep()
        time.sleep(SOON)
        os.sync()
        # Before anything else is written to the file system.
        rows += later("unchanged", "warm", [tool for tool in every if tool.name == "dump"])
        some = list(able(every))
        is_warm_only = fs == "tmpfs" or options.case
        cold = [] if is_warm_only else [t for t in some if not t.slow or options.full]
        rows += later("unchanged", "warm", [tool for tool in some if tool.name != "dump"])
        read_all(ground.top, top)
        rows += later("read", "warm", [tool for tool in some if tool.name in READERS])
        rows += later("unchanged", "cold", cold) if cold else []
        tree.change(top, int(tree.files * CHANGED), 1)
        os.sync()
        rows += later("1 % changed", "warm", some)
        rows += later("1 % changed", "cold", cold) if cold else []
        rows += first("cold") if not is_warm_only else []
        rows.append(about("unchanged", "warm") | {"contender": "nothing", "trial": 0} | run(["true"]))
        return rows

    return on_ground(options, fs, tree, work, measured)


def read_all(mounted, top):
    """Read every file, so that its access time moves, and those of directories."""
    mount(None, mounted, flags=MS_REMOUNT | MS_STRICTATIME)
    archive = subprocess.Popen([program("tar"), "-c", "-C", top, "."], stdout=subprocess.PIPE)
    while archive.stdout.read(1 << 20):
        pass
    archive.wait()
    mount(None, mounted, flags=MS_REMOUNT | MS_NOATIME)
    os.sync()


def on_ground(options, fs, tree, work, measured):
    def prepared():
        ground = Ground(fs, join(options.work, "tree"), options.scratch, Beside(tree))
        return measured(ground)

    os.makedirs(join(options.work, "tree"), exist_ok=True)
    os.makedirs(work)
    try:
        return in_namespace(MS_PRIVATE, prepared)
    finally:
        remove(work)


def calls_case(options):
    """The peers' system calls, on a smaller tree: strace takes its time."""
    tree, work = Tree("small", FEW), join(options.work, "dump")

    def measured(ground):
        top = join(ground.top, "tree")
        rows = []
        for tool in tools(options.fathom, "tmpfs", top, work, nothing, True):
            if tool.first and tool.name not in ("dump", BARE):
                tool.fresh()
                for case, command in (("first", tool.first), ("unchanged", tool.later)):
                    row = {"bench": "calls", "case": case, "fs": "tmpfs", "cache": "warm"}
                    row |= {"entries": tree.entries, "contender": tool.name, "trial": "calls"}
                    rows.append(row | run_strace(command, work))
                    if case == "first":
                        tool.keep()
                        tool.back()
        return rows

    return on_ground(options, "tmpfs", tree, work, measured)


def growth_case(options, fs, count):
    """Peak memory of a first dump and of an increment, by number of entries."""
    tree, work = Tree("many", count), join(options.work, "dump")

    def measured(ground):
        top, rows = join(ground.top, "tree"), []
        dump = [options.fathom, "dump", top, "-o", "/dev/null", "--json"]
        base, after = join(work, "base.parquet"), join(work, "after.parquet")
        for case, more in (("first", ["--catalog", base]), ("unchanged", ["--since", base])):
            more = [*more, "--catalog", after] if case == "unchanged" else more
            open(join(ground.top, "beside"), "a").write("stirred\n")
            row = {"bench": "growth", "case": case, "fs": fs, "cache": "warm"}
            row |= {"entries": tree.entries, "name_bytes": tree.name_bytes()}
            rows.append(row | {"contender": "dump", "trial": 0} | runner([*dump, *more]))
        return rows

    return on_ground(options, fs, tree, work, measured)


def bench_dump(options):
    cases = [options.case] if options.case else ["small", "large", "calls", "memory"]
    for fs in file_systems(options, FILE_SYSTEMS):
        for shape in [case for case in cases if case in ("small", "large")]:
            say(f"dump: {fs}, {shape}")
            yield from dump_case(options, fs, shape)
    if "calls" in cases and shutil.which("strace"):
        say("dump: calls of the peers")
        yield from calls_case(options)
    for fs in file_systems(options, [*ENGINES, "tmpfs"]) if "memory" in cases else []:
        for count in growth(options, GROWTH):
            say(f"dump: memory, {fs}, {count:,} entries")
            yield from growth_case(options, fs, count)


def commands():
    """Every command of this benchmark, once."""
    for tool in tools("fathom", "FS", "TOP", "WORK", nothing, True):
        for what, argv in (("first", tool.first), ("later", tool.later)):
            if argv and not (what == "later" and argv == tool.first):
                yield Contender(f"{tool.name}: {what}", argv)
