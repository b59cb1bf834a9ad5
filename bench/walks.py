"""The cases of `fathom walk` and `fathom changed`: what runs against whom, on which tree."""

import contextlib
import os
import shutil
import subprocess
import sys
import time

from measure import Contender, measure, run, run_json, run_strace
from namespace import MS_PRIVATE, in_namespace, mount
from peers import program
from trees import FILE_SYSTEMS, SHAPES, Ground, Tree, mkfs

COLUMNS = (
    "bench case fs cache entries name_bytes contender trial real user sys maxrss_kib exit"
    " engine found digest stat_calls all_calls gates"
).split()
ENGINES = {"ext4": "ext4", "xfs": "bulkstat", "btrfs": "btrfs"}  # below the file API
JOBS = [1, 2, 8, 16]
ENTRIES, FEW = 1_000_000, 10_000
GROWTH = [10_000, 100_000, 1_000_000, 10_000_000]
CHANGED = {"0": 0, "0.1 %": 0.001, "1 %": 0.009}  # how many more are changed, of all entries
FORMATS = ["summary", "du", "paths", "ndjson", "csv"]
FIELDS = "%i %D %m %n %U %G %s %b %A@ %C@ %T@ %y %p %l\\n"  # as find -printf has them
NEVER = "+1000000G"  # no file has such a size: all are examined, none is printed
TRIALS = {  # how often at most: who is named in the targets, on many and on other shapes; the rest
    "warm": (5, 3, 2),
    "cold": (2, 2, 1),
}
FEW_TRIALS = 3


def say(text):
    print(text, file=sys.stderr, flush=True)


# Contenders


def peers(*commands):
    """Contenders of (name, words after the name, most trials), less those that are not here."""
    return [
        Contender(name, [program(name.split()[0].split("/")[0]), *words], most)
        for name, words, most in commands
        if program(name.split()[0].split("/")[0])
    ]


def engines_on(fs):
    return ["stat", "threads", *filter(None, [ENGINES.get(fs)]), "auto"]


def walk(fathom, top, engine, jobs=None, most=None):
    argv = [fathom, "walk", top, "--json", "--engine", engine]
    if jobs is None:
        return Contender(engine, argv, most)
    return Contender(f"{engine}/{jobs}", [*argv, "-j", str(jobs)], most)


def stat_peers(top, most=None):
    """Those that the targets are about: they examine every entry and print nothing."""
    return peers(
        ("find -size", [top, "-size", NEVER], most),
        ("bfs -size", [top, "-size", NEVER], most),
        ("bfs-4.1 -size", [top, "-size", NEVER], most),
    )


def other_peers(top, most=None):
    return peers(
        ("find -printf", [top, "-printf", FIELDS], most),
        ("fd -S", ["-u", "-S", "+1000t", ".", top], most),
        ("du -s", ["-s", top], most),
        ("dust", ["-P", "-d", "0", top], most),
        ("pdu", ["--max-depth", "1", top], most),
    )


def sweep(fathom, top, fs, most=None):
    """Thread by thread: our engines, and bfs."""
    for engine in [name for name in engines_on(fs) if name not in ("stat", "auto")]:
        for jobs in JOBS:
            yield walk(fathom, top, engine, jobs, most)
    for jobs in JOBS:
        yield from peers((f"bfs-4.1/{jobs}", [f"-j{jobs}", top, "-size", NEVER], most))


def walk_contenders(fathom, top, fs, cache, shape, whole):
    """`whole`: thread by thread as well, and cold not only those that the targets are about."""
    on_many, elsewhere, rest = TRIALS[cache]
    most = on_many if shape == "many" else elsewhere
    contenders = [walk(fathom, top, engine, most=most) for engine in engines_on(fs)]
    contenders += stat_peers(top, most)
    if whole or cache == "warm":
        contenders += other_peers(top, rest)
    if whole:
        contenders += sweep(fathom, top, fs, rest)
    return contenders


def output_contenders(fathom, top, work):
    argv = [fathom, "walk", top]
    catalog = [*argv, "--catalog", join(work, "catalog.parquet")]
    return [
        *(Contender(name, [*argv, "--format", name], FEW_TRIALS) for name in FORMATS),
        Contender("catalog", catalog, FEW_TRIALS),
    ]


def changed_contenders(fathom, top, work):
    catalog, state, copy = (join(work, name) for name in ("since.parquet", "state", "copy"))
    return [
        Contender("changed", [fathom, "changed", top, "--since", catalog, "--json"]),
        *peers(
            ("tar -g", ["-c", "-f", "/dev/null", "-g", state, "-C", top, "."], FEW_TRIALS),
            ("find -cnewer", [top, "-cnewer", join(work, "stamp")], FEW_TRIALS),
            ("rsync -n", ["-n", "-a", f"{top}/", f"{copy}/"], FEW_TRIALS),
        ),
    ]


def growth_contenders(fathom, top, fs, work, most):
    engines = [engine for engine in engines_on(fs) if engine != "auto"]
    catalog = [fathom, "walk", top, "--json", "--catalog", join(work, "catalog.parquet")]
    return [
        *(walk(fathom, top, engine, most=most) for engine in engines),
        Contender("auto --catalog", catalog, most),
        *stat_peers(top, most),
    ]


def join(*parts):
    return os.path.join(*parts)


def runner(argv):
    if "--json" not in argv:
        return run(argv)
    row, answer = run_json(argv)
    if argv[1] == "changed":
        return row | {"engine": answer.get("engine"), "found": found_changed(answer)}
    row["found"] = answer["entries"]
    return row | {key: answer[key] for key in ("engine", "digest")}


def found_changed(answer):
    kinds = [answer.get(kind, 0) for kind in ("added", "changed", "removed", "renamed")]
    return sum(len(kind) if isinstance(kind, list) else kind for kind in kinds)


def warmed_up(contenders):
    """Fill the caches with a run of each engine and of one peer; leave out what cannot work."""
    absent, peer_ran = set(), False
    for contender in contenders:
        ours = contender.argv[1] in ("walk", "changed")
        name, _, jobs = contender.name.partition("/")
        if jobs or (not ours and peer_ran):
            continue
        peer_ran |= not ours
        try:
            runner(contender.argv)
        except RuntimeError as error:
            say(f"left out: {contender.name}: {str(error).splitlines()[0]}")
            absent.add(name)
    return [c for c in contenders if c.name.partition("/")[0] not in absent]


# Cases


def on_ground(options, fs, tree, work):
    """What `work(ground)` returns, with the tree built in a mount namespace of its own."""

    def prepared():
        ground = Ground(fs, join(options.work, "tree"), options.scratch, tree)
        return work(ground)

    os.makedirs(join(options.work, "tree"), exist_ok=True)
    return in_namespace(MS_PRIVATE, prepared)


def about(bench, case, fs, tree, cache="warm"):
    known = {"entries": tree.entries, "name_bytes": tree.name_bytes()}
    return {"bench": bench, "case": case, "fs": fs, "cache": cache, **known}


def available(fs):
    return fs == "tmpfs" or shutil.which(mkfs(fs, 0)[0])


def file_systems(options, names):
    """Of those, the ones that can be made here and are asked for."""
    return [fs for fs in names if available(fs) and (not options.fs or fs in options.fs)]


def entries(options):
    return options.entries or (FEW if options.quick else ENTRIES)


def growth(options, counts):
    """How large trees get, of four sizes."""
    return counts if options.full else counts[:2] if options.quick else counts[:3]


def walk_case(options, fs, shape):
    tree = Tree(shape, entries(options))
    whole = options.full or shape == "many"

    def measured(ground):
        def fresh(argv):
            ground.remount()
            return runner(argv)

        contenders = walk_contenders(options.fathom, ground.top, fs, "warm", shape, whole)
        contenders = warmed_up(contenders)
        here = {contender.name for contender in contenders}
        row = about("walk", shape, fs, tree)
        rows = measure(contenders, options.trials, runner, warm_up=False, **row)
        rows.append(row | {"contender": "nothing", "trial": 0} | run(["true"]))
        if shape == "many":
            row = about("output", shape, fs, tree)
            contenders = warmed_up(output_contenders(options.fathom, ground.top, options.work))
            rows += measure(contenders, options.trials, run, warm_up=False, **row)
        # Deep and cold, nothing can be read ahead: minutes for each.
        if fs != "tmpfs" and (shape != "deep" or options.full):
            whole_cold = whole and not options.quick
            contenders = walk_contenders(options.fathom, ground.top, fs, "cold", shape, whole_cold)
            contenders = [contender for contender in contenders if contender.name in here]
            row = about("walk", shape, fs, tree, "cold")
            rows += measure(contenders, options.trials, fresh, warm_up=False, **row)
        return rows

    return on_ground(options, fs, tree, measured)


def calls_case(options, fs, shape):
    """The peers' system calls, on a smaller tree of the shape: strace takes its time."""
    tree = Tree(shape, FEW)

    def measured(ground):
        row = about("calls", shape, fs, tree) | {"trial": "calls"}
        contenders = stat_peers(ground.top) + other_peers(ground.top)
        counted = [(c.name, run_strace(c.argv, options.work)) for c in contenders]
        return [row | {"contender": name} | counts for name, counts in counted]

    return on_ground(options, fs, tree, measured)


def bench_walk(options):
    for fs in file_systems(options, FILE_SYSTEMS):
        for shape in SHAPES:
            say(f"walk: {fs}, {shape}")
            yield from walk_case(options, fs, shape)
    if shutil.which("strace"):
        for shape in SHAPES:
            say(f"walk: calls of the peers, {shape}")
            yield from calls_case(options, "tmpfs", shape)


def changed_case(options, fs):
    tree = Tree("many", entries(options))
    contenders = changed_contenders(options.fathom, join(options.work, "tree"), options.work)
    state, base = join(options.work, "state"), join(options.work, "base")

    def prepare(contender):
        """What a contender compares with, made as its users make it."""
        if contender.name == "changed":
            since = contender.argv[contender.argv.index("--since") + 1]
            with contextlib.suppress(RuntimeError):  # without a catalog, it is left out
                run([contender.argv[0], "walk", contender.argv[2], "--catalog", since])
        elif contender.name == "tar -g":
            run(contender.argv)
            os.rename(state, base)
        elif contender.name == "find -cnewer":
            open(contender.argv[-1], "w").close()
        elif contender.name == "rsync -n":
            source, copy = contender.argv[-2:]
            os.makedirs(copy, exist_ok=True)
            mount("tmpfs", copy, "tmpfs", data="nr_inodes=0,size=80%")
            subprocess.run(["cp", "-a", f"{source}.", copy], check=True)

    def anew(argv):
        if state in argv:  # tar writes what it saw into its state
            shutil.copyfile(base, state)
        return runner(argv)

    def measured(ground):
        time.sleep(1.1)  # so that nothing was changed within a second of what it is compared with
        for contender in contenders:
            prepare(contender)
        time.sleep(1.1)
        able, rows = warmed_up(contenders), []
        for seed, (case, share) in enumerate(CHANGED.items()):
            tree.change(ground.top, int(tree.entries * share), seed)
            os.sync()
            row = about("changed", case, fs, tree)
            rows += measure(able, options.trials, anew, warm_up=False, **row)
        return rows

    try:
        return on_ground(options, fs, tree, measured)
    finally:
        for path in (state, base):
            if os.path.exists(path):
                os.unlink(path)


def bench_changed(options):
    for fs in file_systems(options, FILE_SYSTEMS):
        say(f"changed: {fs}")
        yield from changed_case(options, fs)


def growth_case(options, fs, count):
    tree = Tree("many", count)
    most = 1 if count > ENTRIES else FEW_TRIALS

    def measured(ground):
        contenders = growth_contenders(options.fathom, ground.top, fs, options.work, most)
        contenders = warmed_up(contenders)
        row = about("growth", "many", fs, tree)
        rows = measure(contenders, options.trials, runner, warm_up=False, **row)
        return [*rows, row | {"contender": "nothing", "trial": 0} | run(["true"])]

    return on_ground(options, fs, tree, measured)


def bench_growth(options):
    for fs in file_systems(options, ENGINES):
        for count in [options.entries] if options.entries else growth(options, GROWTH):
            say(f"growth: {fs}, {count:,} entries")
            yield from growth_case(options, fs, count)


def commands():
    """Every command of these benchmarks, once."""
    fathom, top, work, seen = "fathom", "TOP", "WORK", set()
    for fs in FILE_SYSTEMS:
        for contender in [
            *walk_contenders(fathom, top, fs, "warm", "many", True),
            *output_contenders(fathom, top, work),
            *growth_contenders(fathom, top, fs, work, None),
            *changed_contenders(fathom, top, work),
        ]:
            if contender.name not in seen:
                seen.add(contender.name)
                yield contender
