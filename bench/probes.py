"""How often `fathom probe` is right: block and readahead on every make of file system with every readahead, in an order of nobody's
choice, and the page cache in groups with a limit; while another process loads a processor and the disk."""

import contextlib
import fcntl
import os
import random
import shutil
import subprocess
import uuid
from collections import namedtuple
from pathlib import Path

from figures import grouped, table
from measure import run_json
from namespace import MS_PRIVATE, Image, in_namespace, mount, umount
from walks import join, say

COLUMNS = "bench case fs setting trial finding expected found right by_time seconds".split()
KIB, MIB = 1 << 10, 1 << 20
PAGE = 4 * KIB
AHEAD = 16, 64, 128, 512, 1024, 4096  # KiB
LIMITS = 64, 128, 256, 512, 1024  # MiB
NEAR = 0.05  # how far the page cache may be off
BY_TIME = 0.95  # the share of what rests on times that must be right
LOAD = "while :; do dd if=/dev/zero of=load bs=64k count=64 conv=fsync 2>/dev/null; done"

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
        there |= {"allocation-block": make.block, "cluster": make.cluster}
    if make.fstype not in ("tmpfs", "fuse", "overlay"):
        there |= {"allocation-block-by-time": make.block, "page-cache-granule-by-time": PAGE}
        there["readahead-steady-by-time"] = window
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


def set_ahead(options, make, kib):
    at = join(options.work, "below" if make.fstype == "overlay" else "at")
    if make.fstype == "btrfs":
        bdi = Path("/sys/fs/btrfs", btrfs_uuid(at), "bdi")
    else:
        device = os.stat(at).st_dev
        bdi = Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}")
    (bdi / "read_ahead_kb").write_text(str(kib))


def rows_of(answer, about, there, near=0.0):
    """A row for each finding that there is an expectation of."""
    for found in answer["experiments"]:
        name, value = found["name"], found["inferred"]
        if name in there:
            want = there[name]
            told = isinstance(value, (int, float)) and want is not None
            right = abs(value - want) <= near * want if told else value is want
            row = {"finding": name, "expected": want, "found": value, "right": int(right)}
            yield about | row | {"by_time": int(found["by_time"]), "seconds": round(found["seconds"], 3)}


def units(options, make, ahead, image, trial):
    def measured():
        with mounted(options, make, image) as at:
            if ahead:
                set_ahead(options, make, ahead)
            _, answer = run_json([options.fathom, "probe", at, "block", "readahead", "--json"])
        about = {"bench": "probe", "case": "units", "fs": make.name, "setting": ahead, "trial": trial}
        return list(rows_of(answer, about, expected(make, ahead)))

    return in_namespace(MS_PRIVATE, measured)


def read_only(options):
    """A squashfs: nothing can be made in it, and nothing is said of it."""

    def measured():
        tree, file, at = (join(options.work, name) for name in ("tree", "squashfs", "at"))
        for directory in tree, at:
            os.makedirs(directory, exist_ok=True)
        Path(tree, "file").write_text("content")
        subprocess.run(["mksquashfs", tree, file, "-quiet", "-noappend"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["mount", "-t", "squashfs", "-o", "ro,loop", file, at], check=True)
        _, answer = run_json([options.fathom, "probe", at, "block", "readahead", "cache", "--json"])
        umount(at)
        names = ["allocation-block", "cluster", "page-cache-granule", "readahead-steady", "cache-capacity"]
        about = {"bench": "probe", "case": "read-only", "fs": "squashfs", "trial": 0}
        return list(rows_of(answer, about, dict.fromkeys(names)))

    return in_namespace(MS_PRIVATE, measured)


def cache(options, make, image, limit, trial, paper):
    def measured():
        how = ["--method", "paper"] if paper else []
        with mounted(options, make, image) as at:
            words = [options.fathom, "probe", at, "cache", "--cache-limit", f"{limit}M", *how, "--json"]
            _, answer = run_json(words)
        about = {"bench": "probe", "case": "cache, paper" if paper else "cache", "fs": make.name, "setting": limit}
        near = NEAR + (1 / 16 if paper else 0)  # a step of the search
        return list(rows_of(answer, about | {"trial": trial}, {"cache-capacity": limit * MIB}, near))

    return in_namespace(MS_PRIVATE, measured)


@contextlib.contextmanager
def loaded(options):
    """Another process wants a processor and the disk."""
    load = subprocess.Popen(["sh", "-c", LOAD], cwd=options.work, stdin=subprocess.DEVNULL)
    try:
        yield
    finally:
        load.kill()
        load.wait()


def bench_probe(options):
    passes = 1 if options.quick else 2
    makes = [make for make in MAKES if not make.words or shutil.which(make.words[0])]
    images = {make.name: Image(options.scratch, 1200, make.fstype if make.fstype != "overlay" else "ext4", make.words)
              for make in makes if make.fstype not in ("tmpfs", "fuse")}
    with loaded(options):
        for trial in range(passes):
            cases = [(make, ahead) for make in makes for ahead in make.ahead]
            random.Random(trial).shuffle(cases)
            for done, (make, ahead) in enumerate(cases):
                say(f"probe: {make.name}, {ahead} KiB ahead; {done} of {len(cases)}")
                yield from units(options, make, ahead, images.get(make.name), trial)
        if shutil.which("mksquashfs"):
            yield from read_only(options)
        for make in (make for make in makes if make.name in ("ext4 4K", "XFS 4K")):
            for limit in LIMITS:
                say(f"probe: cache of {limit} MiB on {make.name}")
                for trial in range(2 * passes):
                    yield from cache(options, make, images[make.name], limit, trial, paper=False)
            for trial in range(5 * passes):
                yield from cache(options, make, images[make.name], LIMITS[0], trial, paper=True)


# The summary


def read(run):
    """{(case, file system, by time alone): whether each was right}, the case being cache or the units."""
    groups = grouped(run / "probe.csv", lambda row: (row["case"], row["fs"], row["by_time"] == "1"))
    return {key: [row["right"] == "1" for row in rows] for key, rows in groups.items()}


def told(run):
    """Of what rests on times, and says something: whether each was right."""
    rows = grouped(run / "probe.csv", lambda row: row["case"]).get("units", [])
    return [row["right"] == "1" for row in rows if row["by_time"] == "1" and row["found"]]


def targets(run):
    """(what is asked, what was measured, whether it is met, whether this run can tell)"""
    cases = read(run)
    if not cases:
        return
    for case, what in ("units", "block and readahead"), ("cache", "page cache within 5 % of its limit"):
        each = [right for (of, _, by_time), all in cases.items() if of == case and not by_time for right in all]
        if each:
            yield f"probe: {what} right", f"{sum(each)} of {len(each)}", all(each), len(each) >= 20
    each = told(run)
    if each:
        share = sum(each) / len(each)
        text = f"probe: by time alone right in {BY_TIME:.0%} of what it tells"
        yield text, f"{sum(each)} of {len(each)}", share >= BY_TIME, len(each) >= 100


def tables(run):
    cases = read(run)
    if not cases:
        return
    yield "## How often fathom probe is right"
    yield ""
    yield "With a second process that wants a processor and the disk. By time: what rests on times alone; there"
    yield "it may also say that it cannot tell, which counts as not right here."
    yield ""
    rows = []
    for case, fs in dict.fromkeys((case, fs) for case, fs, _ in cases):
        seen, timed = cases.get((case, fs, False)), cases.get((case, fs, True))
        rows.append([f"{case}: {fs}", *(each and f"{sum(each)} of {len(each)}" for each in (seen, timed))])
    yield from table(["what", "right", "right by time"], rows)
    wrong = [row for row in sum(grouped(run / "probe.csv", lambda row: row["case"]).values(), []) if row["right"] != "1"]
    if wrong:
        columns = ["fs", "setting", "finding", "expected", "found"]
        yield from table(columns, [[row[name] for name in columns] for row in wrong])
