"""How often `fathom probe` is right: block and readahead on every make of file system with every readahead, and the page cache in groups
with a limit; all in an order of nobody's choice, while another process loads a processor and the disk."""

import contextlib
import csv
import fcntl
import os
import random
import shutil
import subprocess
import time
import uuid
from collections import Counter, namedtuple
from pathlib import Path

from figures import grouped, table
from measure import run_json
from namespace import MS_PRIVATE, Image, in_namespace, mount, umount
from walks import join, say

COLUMNS = "bench case fs setting trial seed finding expected found right by_time seconds".split()
KIB, MIB = 1 << 10, 1 << 20
PAGE = 4 * KIB
AHEAD = 16, 64, 128, 512, 1024, 4096  # KiB
LIMITS = 64, 128, 256, 512, 1024  # MiB
NEAR = 0.05  # how far the page cache may be off
READS = 64 * MIB  # what may be read from the device to find it
OTHERS, STAYS = 32 * MIB, 24 * MIB  # another process's file in memory; a few pages go by themselves on a busy machine
BY_TIME = 0.95  # the share of what rests on times that must be right
LOAD = "while :; do dd if=/dev/zero of=load bs=64k count=64 conv=fsync 2>/dev/null; done"
CGROUPS = Path("/sys/fs/cgroup")

# What is made and mounted; what a file grows by there, and what it is given at one time; what it may read ahead.
Make = namedtuple("Make", "name fstype words block cluster ahead", defaults=[AHEAD])


def ext4(name, block, cluster, *words):
    return Make(f"ext4 {name}", "ext4", ["mkfs.ext4", "-q", "-F", *words], block, cluster)


MAKES = [
    ext4("1K", KIB, KIB, "-b", "1024"),
    ext4("2K", 2 * KIB, 2 * KIB, "-b", "2048"),
    ext4("4K", PAGE, PAGE, "-b", "4096"),
    ext4("bigalloc", PAGE, 16 * KIB, "-b", "4096", "-O", "bigalloc", "-C", "16384"),
    ext4("inline_data", PAGE, PAGE, "-b", "4096", "-O", "inline_data"),
    Make("XFS 1K", "xfs", ["mkfs.xfs", "-q", "-f", "-b", "size=1024"], KIB, KIB),
    Make("XFS 4K", "xfs", ["mkfs.xfs", "-q", "-f", "-b", "size=4096"], PAGE, PAGE),
    Make("btrfs", "btrfs", ["mkfs.btrfs", "-q", "-f"], PAGE, PAGE),
    Make("overlay", "overlay", ["mkfs.ext4", "-q", "-F", "-b", "4096"], PAGE, PAGE),
    # The server decides what a file grows by; the kernel asks it for 128 KiB at most.
    Make("FUSE", "fuse", ["bindfs"], None, None, (16, 64, 128)),
    Make("tmpfs", "tmpfs", [], PAGE, PAGE, (None,)),
]


def expected(make, ahead):
    """What is there: {finding: value}; None where the answer must be that it cannot tell."""
    cached = make.fstype != "tmpfs"
    window = ahead and ahead * KIB
    there = {"page-cache-granule": PAGE if cached else None, "readahead-steady": window, "readahead-trigger": window}
    if make.block:
        there |= {"allocation-block": make.block, "cluster": make.cluster, "allocation-block-by-time": make.block}
    if cached:
        there |= {"page-cache-granule-by-time": PAGE, "readahead-steady-by-time": window}
    return there


@contextlib.contextmanager
def mounted(options, make, image):
    """The file system, mounted in this namespace; where files are made on it."""
    at, below = join(options.work, "at"), join(options.work, "below")
    for directory in at, below:
        os.makedirs(directory, exist_ok=True)
    if make.fstype == "tmpfs":
        mount("tmpfs", at, "tmpfs")
        yield at
    elif make.fstype == "fuse":
        mount("tmpfs", below, "tmpfs")
        subprocess.run(["bindfs", below, at], check=True)
        yield at
        umount(at)
    elif make.fstype == "overlay":
        image.mount(below)
        parts = {name: join(below, name) for name in ("lowerdir", "upperdir", "workdir")}
        for part in parts.values():
            os.makedirs(part, exist_ok=True)
        mount("overlay", at, "overlay", data=",".join(f"{name}={part}" for name, part in parts.items()))
        yield at
        umount(at)
        umount(below)
    else:
        image.mount(at)
        yield at
        umount(at)


def btrfs_uuid(at):
    """BTRFS_IOC_FS_INFO: two numbers, and then the UUID."""
    fd = os.open(at, os.O_RDONLY | os.O_DIRECTORY)
    try:
        info = bytearray(1024)
        fcntl.ioctl(fd, 0x8400941F, info)
        return str(uuid.UUID(bytes=bytes(info[16:32])))
    finally:
        os.close(fd)


def read_ahead(at, fstype):
    """The file of sysfs with the read_ahead_kb of a file system."""
    if fstype == "btrfs":
        return Path("/sys/fs/btrfs", btrfs_uuid(at), "bdi", "read_ahead_kb")
    device = os.stat(at).st_dev
    return Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb")


def set_ahead(options, make, kib):
    at = join(options.work, "below" if make.fstype == "overlay" else "at")
    read_ahead(at, make.fstype).write_text(str(kib))


def row(finding, want, found, right, by_time=False, seconds=""):
    return {"finding": finding, "expected": want, "found": found, "right": int(right), "by_time": int(by_time), "seconds": seconds}


def rows_of(answer, there, near=0.0):
    """A row for each finding that there is an expectation of."""
    findings = {found["name"]: found for found in answer["experiments"]}
    for name, want in there.items():
        found = findings.get(name, {"inferred": "missing", "by_time": False, "seconds": 0})
        value = found["inferred"]
        told = isinstance(value, (int, float)) and want is not None
        right = abs(value - want) <= near * want if told else value is want
        yield row(name, want, value, right, found["by_time"], round(found["seconds"], 3))


class Case(namedtuple("Case", "case fs setting trial make measure")):
    """One run of fathom on a file system of this make; `measure` gives its rows, of the image that is mounted."""

    def key(self):
        return tuple("" if part is None else str(part) for part in self[:4])


def probe(options, before, at, *words):
    """What fathom says; the samples are kept until it is known to be right. `before` comes before the command."""
    samples = join(options.work, "samples")
    shutil.rmtree(samples, ignore_errors=True)
    os.mkdir(samples)
    _, answer = run_json([*before, options.fathom, "probe", at, *words, "--csv", samples, "--json"])
    return answer


def units(options, make, image, ahead):
    with mounted(options, make, image) as at:
        if ahead:
            set_ahead(options, make, ahead)
        answer = probe(options, [], at, "block", "readahead")
    return list(rows_of(answer, expected(make, ahead)))


def read_only(options):
    """A squashfs: nothing can be made in it, and nothing is said of it."""
    tree, file, at = (join(options.work, name) for name in ("tree", "squashfs", "at"))
    for directory in tree, at:
        os.makedirs(directory, exist_ok=True)
    Path(tree, "file").write_text("content")
    subprocess.run(["mksquashfs", tree, file, "-quiet", "-noappend"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["mount", "-t", "squashfs", "-o", "ro,loop", file, at], check=True)
    answer = probe(options, [], at, "block", "readahead", "cache")
    umount(at)
    names = ["allocation-block", "cluster", "page-cache-granule", "readahead-steady", "cache-capacity"]
    return list(rows_of(answer, dict.fromkeys(names)))


class Group:
    """A memory cgroup with a limit."""

    def __init__(self, limit):
        v1 = CGROUPS / "memory"
        old = (v1 / "memory.limit_in_bytes").exists()
        self.dir = (v1 if old else CGROUPS) / f"fathom-bench-{os.getpid()}"
        self.dir.mkdir()
        (self.dir / ("memory.limit_in_bytes" if old else "memory.max")).write_text(str(limit))

    def enter(self):
        """The words before a command that is to run in it."""
        return ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(self.dir)]

    def kills(self):
        said = [self.dir / name for name in ("memory.oom_control", "memory.events")]
        words = next(path for path in said if path.exists()).read_text().split()
        return int(words[words.index("oom_kill") + 1])

    def remove(self):
        for _ in range(100):  # a process that has just ended may be in it for a moment longer
            with contextlib.suppress(OSError):
                return self.dir.rmdir()
            time.sleep(0.01)


def device_reads(make, at):
    if make.fstype == "btrfs":
        device = next(Path("/sys/fs/btrfs", btrfs_uuid(at), "devices").iterdir())
    else:
        number = os.stat(at).st_dev
        device = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    return int((device / "stat").read_text().split()[2]) * 512


def resident(file):
    said = subprocess.run(["fincore", "--bytes", "--noheadings", "--output", "RES", file], capture_output=True, check=True)
    return int(said.stdout)


def cache(options, make, image, limit, how):
    """The page cache in a group: one of fathom's own, or one that it is started in; by holes, or the paper's way."""
    group = Group(limit * MIB) if how == "given" else None
    words = {"own": ["--cache-limit", f"{limit}M"], "paper": ["--cache-limit", f"{limit}M", "--method", "paper"]}
    near = NEAR + (1 / 16 if how == "paper" else 0)  # a step of the search
    with mounted(options, make, image) as at:
        other = join(at, "another's")
        Path(other).write_bytes(b"x" * OTHERS)
        os.sync()
        subprocess.run(["cat", other], stdout=subprocess.DEVNULL, check=True)
        before = device_reads(make, at)
        answer = probe(options, group.enter() if group else [], at, "cache", *words.get(how, []))
        reads, stays = device_reads(make, at) - before, resident(other)
        os.unlink(other)
    rows = list(rows_of(answer, {"cache-capacity": limit * MIB}, near))
    if how != "paper":
        rows.append(row("device-reads", f"< {READS}", reads, reads < READS))
    rows.append(row("others-resident", f">= {STAYS}", stays, stays >= STAYS))
    if group:
        rows.append(row("oom-kills", 0, group.kills(), group.kills() == 0))
        group.remove()
    return rows


@contextlib.contextmanager
def loaded(options):
    """Another process wants a processor and the disk."""
    load = subprocess.Popen(["sh", "-c", LOAD], cwd=options.work, stdin=subprocess.DEVNULL)
    try:
        yield
    finally:
        load.kill()
        load.wait()


def cases(options):
    """All of them; `options.fs` names those file systems that are wanted, where not all are."""
    wanted = [make for make in MAKES if not options.fs or make.name in options.fs]
    makes = [make for make in wanted if not make.words or shutil.which(make.words[0])]
    passes = 1 if options.quick else 2

    def repeated(times, case, make, setting, measure, *about):
        for trial in range(times):
            yield Case(case, make.name, setting, trial, make, lambda image: measure(options, make, image, setting, *about))

    for make in makes:
        for ahead in make.ahead:
            yield from repeated(passes, "units", make, ahead, units)
    if shutil.which("mksquashfs") and not options.fs:
        yield Case("read-only", "squashfs", None, 0, None, lambda image: read_only(options))
    for make in (make for make in makes if make.name in ("ext4 4K", "XFS 4K", "btrfs")):
        for limit in LIMITS:
            for how in "own", "given":
                yield from repeated(passes, f"cache, {how} group", make, limit, cache, how)
        yield from repeated(3 * passes, "cache, paper", make, LIMITS[0], cache, "paper")


def known(options):
    """The cases that an earlier part of this run has done."""
    if not options.resume or not (options.out / "probe.csv").exists():
        return set()
    with open(options.out / "probe.csv", newline="") as table:
        return {tuple(row[name] for name in ("case", "fs", "setting", "trial")) for row in csv.DictReader(table)}


def keep(options, case, rows):
    """Has the samples stay of which something that is not right was found."""
    if options.samples and not all(row["right"] for row in rows):
        name = "-".join(case.key()).replace(" ", "_")
        shutil.copytree(join(options.work, "samples"), options.samples / name, dirs_exist_ok=True)
        (options.samples / name / "rows.txt").write_text("".join(f"{row}\n" for row in rows))


def bench_probe(options):
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    todo, images = [case for case in cases(options) if case.case.startswith(options.case)], {}
    random.Random(seed).shuffle(todo)
    done = known(options)
    say(f"probe: {len(todo)} cases, in the order of --seed {seed}; {len(done)} of them were done before")
    with loaded(options):
        for nth, case in enumerate(todo):
            if case.key() in done:
                continue
            say(f"probe: {nth + 1} of {len(todo)}: {case.case}, {case.fs}, {case.setting}")
            if case.make and case.make.fstype not in ("tmpfs", "fuse") and case.fs not in images:
                fstype = "ext4" if case.make.fstype == "overlay" else case.make.fstype
                images[case.fs] = Image(options.scratch, 1200, fstype, case.make.words)
            rows = in_namespace(MS_PRIVATE, lambda: case.measure(images.get(case.fs)))
            keep(options, case, rows)
            about = {"bench": "probe", "case": case.case, "fs": case.fs, "setting": case.setting}
            yield from (about | {"trial": case.trial, "seed": seed} | row for row in rows)


# The summary


def verdict(row):
    return "right" if row["right"] == "1" else "wrong" if row["found"] else "cannot tell"


def counts(rows):
    each = Counter(map(verdict, rows))
    return [each[word] for word in ("right", "wrong", "cannot tell")]


def read(run):
    return sum(grouped(run / "probe.csv", lambda row: row["case"]).values(), [])


def runs(rows, right):
    """Of each run of fathom, whether all rows that `right` picks out are right."""
    each = {}
    for row in filter(right, rows):
        key = tuple(row[name] for name in ("case", "fs", "setting", "trial"))
        each[key] = each.get(key, True) and row["right"] == "1"
    return list(each.values())


def is_by_time(row):
    return row["by_time"] == "1"


def targets(run):
    """(what is asked, what was measured, whether it is met, whether this run can tell)"""
    rows = read(run)
    asked = [
        ("block and steady readahead right", 100, lambda row: row["finding"] in ("allocation-block", "cluster", "readahead-steady")),
        ("whatever else is seen of the units right", 100, lambda row: row["case"] == "units" and not is_by_time(row)),
        ("page cache within 5 % of its limit", 20, lambda row: row["finding"] == "cache-capacity" and not is_by_time(row)),
        ("under 64 MiB read from the device for it", 20, lambda row: row["finding"] == "device-reads"),
        ("another process's file still in memory", 20, lambda row: row["finding"] == "others-resident"),
        ("nobody killed for want of memory", 10, lambda row: row["finding"] == "oom-kills"),
    ]
    for what, least, right in asked:
        each = runs(rows, right)
        if each:
            yield f"probe: {what}", f"{sum(each)} of {len(each)} runs", all(each), len(each) >= least
    timed = [row for row in rows if is_by_time(row)]
    if timed:
        right, wrong, silent = counts(timed)
        shown = f"{right} of {len(timed)}: {wrong} wrong, {silent} cannot tell"
        yield f"probe: by time alone right in {BY_TIME:.0%}", shown, right >= BY_TIME * len(timed), len(timed) >= 100


def tables(run):
    rows = read(run)
    if not rows:
        return
    seeds = ", ".join(dict.fromkeys(row["seed"] for row in rows))
    yield "## How often fathom probe is right"
    yield ""
    yield f"With a second process that wants a processor and the disk, in the order of `--seed {seeds}`. By time: what rests on"
    yield "times alone. A finding that is expected to be none is right when fathom says that it cannot tell."
    yield ""
    for title, key in ("finding", lambda row: row["finding"]), ("case", lambda row: f"{row['case']}: {row['fs']}"):
        groups = {}
        for row in rows:
            groups.setdefault((key(row), "time" if is_by_time(row) else "sight"), []).append(row)
        shown = [[*group, *counts(of), len(of)] for group, of in sorted(groups.items())]
        yield from table([title, "by", "right", "wrong", "cannot tell", "of"], shown)
    rest = [row for row in rows if row["right"] != "1"]
    if rest:
        yield "What was not right:"
        yield ""
        columns = ["case", "fs", "setting", "trial", "finding", "expected", "found"]
        yield from table(columns, [[row[name] for name in columns] for row in rest])
