"""What the papers claim, measured again: rows of a figure, a trial and a value, in the places of places.py.

claims.csv says which figures belong to which claim, and by which rule a verdict follows; claimspage.py writes docs/claims.md from
both. Counts and ratios of one run are kept as they are, times in seconds. A figure that an experiment could not find has no value.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from statistics import mean, median

from measure import ENVIRONMENT, STAT_FAMILY, run, run_json
from namespace import MS_BIND, MS_PRIVATE, PR_SET_PDEATHSIG, in_namespace, libc, mount
from places import RANDOM_SYSTEMS, Place
from probes import device_reads
from systems import read_systems
from walks import say

COLUMNS = "figure trial value".split()
TOP = Path(__file__).resolve().parent.parent
METHODS = "getmnt1", "getmnt2", "getmnt3"
FILE_SYSTEMS = "ext4", "xfs", "btrfs"
CALLS = {"stat": STAT_FAMILY, "read": ("getdents64",), "chdir": ("fchdir",), "open": ("openat", "openat2")}
# The journal paper has 17 systems; of ours those whose mounts can be images. The rest has a hundred mounts and more.
FEW_MOUNTS = 40
QUICK_SYSTEMS = "S2", "S12"


class Bench:
    """The options of a run, and where its rows go."""

    def __init__(self, options):
        self.options, self.fathom = options, options.fathom
        self.trials = min(options.trials, 5)

    def at(self, name, measured):
        """The rows of `measured(place)` in a new place."""
        say(f"papers: {name}: {measured.__name__}")

        def work():
            return list(measured(Place(name, self.options.work, self.options.scratch)))

        return in_namespace(MS_PRIVATE, work)

    def json(self, *words):
        """The row, the answer and the calls of a fathom command."""
        row, _ = ran = run_json([self.fathom, *map(str, words), "--json"])
        return *ran, {name: int(n) for name, n in (pair.split("=") for pair in row["gates"].split())}


def strace(directory, calls, command, more=()):
    """The lines of strace about some calls of a command in a directory."""
    report = os.path.join(directory, ".strace")
    variables = [word for pair in dict(more).items() for word in ("-E", "=".join(pair))]
    words = ["strace", "-f", "-qq", "-e", f"trace={calls}", *variables, "-o", report, *command]
    subprocess.run(words, cwd=directory, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    lines = Path(report).read_text().splitlines()
    os.unlink(report)
    return lines


# Mount points: the papers of 1988


def compared(bench, place, prefix, trial):
    """The rows of `fathom mounts --compare` on one system: times of the searches alone, and calls."""
    _, answer, _ = bench.json("mounts", place.top, "--compare", "--depth", 4, "--trials", bench.trials)
    for method in answer["compare"]["methods"]:
        name = f"{prefix}_{method['by']}"
        for key in ("real", "user", "sys"):
            yield f"{name}_{key}", trial, method[key]["mean" if key != "real" else "median"]
        yield f"{name}_stats", trial, method["stat_calls"]
        yield f"{name}_calls", trial, method["calls"]


def random_systems(bench):
    """The random systems while nothing else runs, and under load, two methods at once: so the report measured its Figures 7 and 10."""
    for number in range(1, 1 + (4 if bench.options.quick else RANDOM_SYSTEMS)):
        name = f"R{number}"

        def ratios(place):
            yield from compared(bench, place, "random", name)
            with busy_processes(os.cpu_count(), "while :; do find /usr -xdev; done"):
                for trial in range(min(3, bench.trials)):
                    for first, second in (METHODS[:2], METHODS[1:]):
                        for method, took in at_once({method: mounts(bench, place, method) for method in (first, second)}).items():
                            for key, value in took.items():
                                yield f"normal_{first}_{second}_{method}_{key}", f"{name}.{trial}", value

        yield from bench.at(name, ratios)


@contextlib.contextmanager
def busy_processes(count, script):
    """Shells that run `script` meanwhile, each with its children in a process group of its own."""

    def begin():
        os.setsid()
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    null = subprocess.DEVNULL
    busy = [subprocess.Popen(["sh", "-c", script], preexec_fn=begin, stdout=null, stderr=null) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def at_once(commands):
    """{name: {real, user, sys}} of commands that start together, by name."""
    null = os.open(os.devnull, os.O_RDWR)
    files = [(os.POSIX_SPAWN_DUP2, null, to) for to in range(3)]
    begun = time.perf_counter()
    running = {os.posix_spawnp(command[0], list(map(str, command)), ENVIRONMENT, file_actions=files): name for name, command in commands.items()}
    os.close(null)
    took = {}
    while running:
        # WNOWAIT leaves the status to wait4(2), which also tells the CPU time. The busy processes are children too.
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT).si_pid
        if ended not in running:
            raise RuntimeError("a busy process ended")
        _, status, usage = os.wait4(ended, 0)
        real = time.perf_counter() - begun
        name = running.pop(ended)
        if os.waitstatus_to_exitcode(status) not in (0, 1):
            raise RuntimeError(f"{' '.join(map(str, commands[name]))}: status {status}")
        took[name] = {"real": real, "user": usage.ru_utime, "sys": usage.ru_stime}
    return took


def warm_systems(bench):
    for row in read_systems():
        name = row["name"]

        def ratios(place):
            return compared(bench, place, "warm", name)

        if not bench.options.quick or name in QUICK_SYSTEMS or name == "S16":
            yield from bench.at(name, ratios)


def cold_systems(bench):
    """Each run finds its file systems newly mounted, as with the flushed buffers of the journal paper."""
    for row in read_systems():
        name = row["name"]

        def cold(place):
            for trial in range(min(3, bench.trials)):
                for method in METHODS:
                    place.remount()
                    ran, _, calls = bench.json("mounts", place.top, "--by", method, "--depth", 4)
                    for key in ("real", "user", "sys"):
                        yield f"cold_{method}_{key}", f"{name}.{trial}", ran[key]
                    yield f"cold_{method}_stats", f"{name}.{trial}", ran["stat_calls"]

        if row["mounts"] < FEW_MOUNTS and (not bench.options.quick or name in QUICK_SYSTEMS):
            yield from bench.at(f"{name}-ext4", cold)


def profiles(bench):
    """Shares, prices and numbers of the calls on S16: as the profiles of the report."""

    def profile(place, prefix, trials):
        for trial in range(trials):
            for method in METHODS:
                place.remount()
                said = profiled(mounts(bench, place, method))
                total = sum(gate["seconds"] for gate in said["gates"].values())
                for name, gates in CALLS.items():
                    found = [said["gates"][gate] for gate in gates if gate in said["gates"]]
                    calls, seconds = (sum(gate[key] for gate in found) for key in ("calls", "seconds"))
                    yield f"{prefix}_{method}_{name}_calls", trial, calls
                    yield f"{prefix}_{method}_{name}_share", trial, 100 * seconds / total
                    yield f"{prefix}_{method}_{name}_ms", trial, 1000 * seconds / calls if calls else ""
                yield f"{prefix}_{method}_directories", trial, said["result"]["search"]["directories"]

    def warm(place):
        return profile(place, "s16", 3 * bench.trials)

    def cold(place):
        yield from profile(place, "s16cold", bench.trials)
        contenders = {"find": ["find", place.top, "-depth"], **{name: mounts(bench, place, name) for name in ("getmnt1", "getmnt3")}}
        for trial in range(min(3, bench.trials)):
            for name, command in contenders.items():
                place.remount()
                yield f"s16cold_{name}_real", trial, run(command)["real"]

    yield from bench.at("S16", warm)
    yield from bench.at("S16-ext4", cold)


def mounts(bench, place, method, *more, depth=4):
    return [bench.fathom, "mounts", place.top, "--by", method, *(["--depth", str(depth)] if method != "naive" else []), *more]


def profiled(command):
    """What fathom says with --profile; also if it says that it is incomplete."""
    return json.loads(subprocess.run([*command, "--profile", "--json"], capture_output=True).stdout)


def details(bench):
    """The smaller claims, on S16 in memory."""

    def small(place):
        contenders = {
            "find": ["find", place.top, "-depth"],
            "naive": mounts(bench, place, "naive"),
            "unbounded": mounts(bench, place, "getmnt1", depth=0),
            **{method: mounts(bench, place, method) for method in METHODS},
            "blocks": mounts(bench, place, "getmnt2", "--hints", "none"),
        }
        for trial in range(-1, 2 * bench.trials):
            for name, command in contenders.items():
                took = run(command)["real"]
                if trial >= 0:
                    yield f"small_{name}_real", trial, took
        for trial in range(bench.trials):
            for name in ("naive", "unbounded"):
                stats = profiled(contenders[name])["gates"]["newfstatat"]
                yield f"small_{name}_stat_ms", trial, 1000 * stats["seconds"] / stats["calls"]
        calls = {name: bench.json(*command[1:]) for name, command in contenders.items() if name != "find"}
        for name, (_, _, gates) in calls.items():
            yield f"small_{name}_stats", 0, sum(gates.get(gate, 0) for gate in STAT_FAMILY)
            yield f"small_{name}_reads", 0, gates["getdents64"]
        yield "small_find_stats", 0, len(strace(place.top, ",".join(STAT_FAMILY), contenders["find"]))
        searched = {name: answer["search"] for name, (_, answer, _) in calls.items()}
        yield "small_entered", 0, searched["getmnt1"]["directories"]
        yield "small_examined", 0, searched["getmnt1"]["entries"]
        for method in METHODS:
            yield f"small_{method}_heap", 0, heap(place, mounts(bench, place, method))
        for name, depth in (("four", 4), ("unbounded", 0)):
            yield f"{name}_getmnt3_heap", 0, heap(place, mounts(bench, place, "getmnt3", "--hints", "none", depth=depth))
        targets = [os.path.join(place.top, path) for path in place.system.paths if path]
        yield "device_mounts", 0, 100 * mean(changes_device(target) for target in targets)
        yield "names_bytes", 0, sum(len(f"/{path}") + 1 if path else 1 for path in place.system.paths)
        _, table, _ = bench.json("mounts", place.top, "--by", "mountinfo")
        yield "table_found", 0, len(table["mounts"])
        yield "table_missing", 0, len(place.system.paths) - len(table["mounts"])
        yield from loaded(bench, place)

    def large(place):
        for count in (100, 100_000):
            directory = os.path.join(place.top, "files")
            os.makedirs(directory, exist_ok=True)
            for number in range(count):
                os.mknod(os.path.join(directory, f"file-{count}-{number}"))
            yield f"heap_{count}", 0, heap(place, mounts(bench, place, "getmnt3", "--hints", "none"))
        for method, *more in (("getmnt1",), ("getmnt2", "--hints", "none")):
            yield f"large_{method}_reads", 0, bench.json(*mounts(bench, place, method, *more)[1:])[2]["getdents64"]

    def aliases(place):
        """The device numbers at a bind mount, and at a subvolume that is mounted nowhere else."""
        directory, bound, subvolume = (os.path.join(place.top, name) for name in ("directory", "bound", "subvolume"))
        os.mkdir(directory)
        os.mkdir(bound)
        mount(directory, bound, flags=MS_BIND)
        run(["btrfs", "subvolume", "create", subvolume])
        yield "device_bind", 0, 100 * changes_device(bound)
        yield "device_subvolume", 0, 100 * changes_device(subvolume)

    yield from bench.at("S16", small)
    yield from bench.at("tmpfs", large)
    yield from bench.at("btrfs", aliases)
    for name, prefix in (("S6", "font"), ("S6-bare", "bare")):

        def bushy(place):
            for method in METHODS:
                yield f"{prefix}_{method}_stats", 0, bench.json(*mounts(bench, place, method)[1:])[0]["stat_calls"]

        yield from bench.at(name, bushy)
    yield from lines_of_code()
    yield from this_machine(bench)


def changes_device(path):
    return os.lstat(path).st_dev != os.lstat(os.path.dirname(path)).st_dev


def heap(place, command):
    """How far a program moves the end of its data segment, as the report measures it with sbrk(2). The C library takes all memory there."""
    settings = "glibc.malloc.top_pad=1:glibc.malloc.mmap_threshold=1073741824"
    lines = strace(place.top, "brk", command, {"GLIBC_TUNABLES": settings})
    ends = [int(line.rsplit("=", 1)[1], 16) for line in lines if "= 0x" in line]
    return max(ends) - ends[0]


def loaded(bench, place):
    """The gain while two busy processes share each processor."""
    with busy_processes(2 * os.cpu_count(), "while :; do :; done"):
        for trial in range(2 * bench.trials):
            for method in METHODS:
                yield f"loaded_{method}_real", trial, run(mounts(bench, place, method))["real"]


SOURCES = {
    "getmnt1": ["method/getmnt1.rs", "method/depth.rs"],
    "getmnt2": ["method/getmnt2.rs", "pairs.rs", "table.rs"],
    "getmnt3": ["method/getmnt3.rs", "method/breadth.rs"],
}


def lines_of_code():
    """Lines of the methods, with comments; each version adds files to those of the version before it."""
    total = 0
    for method, files in SOURCES.items():
        total += sum(len((TOP / "crates/mounts/src" / name).read_text().splitlines()) for name in files)
        yield f"lines_{method}", 0, total


def this_machine(bench):
    """Mounts and /dev of the machine that the suite runs on."""
    with open("/proc/self/mountinfo") as table:
        rows = [line.split() for line in table]
    targets, devices = [row[4] for row in rows], {row[0]: row[2] for row in rows}
    changed = [row[2] != devices[row[1]] for row in rows if row[1] in devices and row[1] != row[0]]
    yield "here_device_changes", 0, 100 * mean(changed) if changed else ""
    depths = [0 if target == "/" else target.count("/") for target in targets]
    yield "here_mounts", 0, len(targets)
    yield "here_near_root", 0, 100 * sum(depth <= 4 for depth in depths) / len(depths)
    yield "here_in_dev", 0, sum(target.startswith("/dev/") for target in targets)
    row, _, _ = bench.json("mounts", "/dev", "--by", "getmnt1", "--depth", 4)
    yield "here_dev_stats", 0, row["stat_calls"]


BUNCHED = {
    8: "for i in a b c d; do cd -P $i; cd -P ..; done",
    5: "cd -P a; for i in b c d; do cd -P ../$i; done; cd -P ..",
}


def bunching(bench):
    """Changes of the working directory, as the report's Figures 11 and 12."""

    def shells(place):
        for name in "abcd":
            os.mkdir(os.path.join(place.top, name))
        for count, script in BUNCHED.items():
            yield f"chdir_{count}", 0, len(strace(place.top, "chdir", ["sh", "-c", script]))
        paths = {8: ["a", "..", "b", "..", "c", "..", "d", ".."], 5: ["a", "../b", "../c", "../d", ".."]}
        os.chdir(place.top)
        for trial in range(3 * bench.trials):
            for count, names in paths.items():
                begun = time.perf_counter()
                for _ in range(2000):
                    for name in names:
                        os.chdir(name)
                yield f"chdir_{count}_seconds", trial, time.perf_counter() - begun
        os.chdir("/")
        for count in (4, 0):
            opened = bench.json("mounts", place.top, "--by", "getmnt3", "--hints", "none")[2]
            yield f"opens_of_{count}", 0, sum(opened.get(gate, 0) for gate in CALLS["open"] + CALLS["chdir"])
            for name in "abcd"[:count]:
                os.rmdir(os.path.join(place.top, name))

    yield from bench.at("tmpfs", shells)


# Backup: the memo of 1974

FUNCTIONS = {
    "copy files": "copy",
    "write archive": "write",
    "write map": "map",
    "gate calls for information": "information",
    "gate calls for effect": "effect",
    "other": "other",
}
WAYS = {"ext4": ("percall", "combined", "raw"), "xfs": ("percall", "combined", "batched"), "btrfs": ("percall", "combined", "batched")}


def accounts(bench):
    """The memo's tables for a dump of 20,000 small files, and what each way to read metadata saves of the CPU time."""
    for fs in FILE_SYSTEMS:

        def account(place):
            tree, archive, listing = (os.path.join(place.top, name) for name in ("tree", "tree.tar", "map"))
            run([bench.fathom, "dump", tree, "-o", archive])  # has all files read
            for trial in range(bench.trials):
                _, answer, _ = bench.json("dump", tree, "-o", archive, "--map", listing, "--gather", "percall", "--account")
                yield from account_rows(fs, trial, answer["account"])
                for way in WAYS[fs]:
                    ran = run([bench.fathom, "dump", tree, "-o", f"{archive}.{way}", "--gather", way])
                    yield f"{fs}_cpu_{way}", trial, ran["user"] + ran["sys"]
            sums = {subprocess.run(["sha256sum"], stdin=open(f"{archive}.{way}"), capture_output=True).stdout for way in WAYS[fs]}
            yield f"{fs}_archives", 0, len(sums)

        yield from bench.at(f"{fs}-tree", account)

    def without(place):
        tree, archive, listing = (os.path.join(place.top, name) for name in ("tree", "tree.tar", "map"))
        dump = [bench.fathom, "dump", tree, "--gather", "percall"]
        contenders = {
            "full": [*dump, "-o", archive, "--map", listing],
            "nomap": [*dump, "-o", archive],
            "nooutput": [*dump, "--no-output", "--map", listing],
        }
        for trial in range(-1, 2 * bench.trials):
            for name, command in contenders.items():
                ran = run(command)
                if trial >= 0:
                    yield f"cpu_{name}", trial, ran["user"] + ran["sys"]
                    yield f"real_{name}", trial, ran["real"]

    yield from bench.at("ext4-tree", without)
    yield from bench.at("ext4", bare_calls)
    yield from bench.at("tmpfs", tar_calls)


def compiled(place, source):
    program = os.path.join(place.top, "program")
    subprocess.run(["cc", "-O2", "-o", program, Path(__file__).with_name(source)], check=True)
    return program


def bare_calls(place):
    """Prices of single calls, and how far the processors' counters are apart: see calls.c."""
    program = compiled(place, "calls.c")
    for number in range(1000):
        Path(place.top, f"f{number}").touch()
    for trial in range(5):
        said = subprocess.run([program, place.top], capture_output=True, text=True, check=True).stdout
        for figure, value in map(str.split, said.splitlines()):
            yield f"{figure}_ns", trial, float(value)


INFORMATION = "newfstatat,fstat,lstat,stat,statx,getdents64,getxattr,lgetxattr,fgetxattr,listxattr,llistxattr,flistxattr,readlink,readlinkat"


def tar_calls(place):
    """Calls for information of GNU tar, with what the memo's backup saves: a thousand empty directories, and a thousand files."""
    made = {"dir": os.mkdir, "file": lambda path: Path(path).write_text("contents\n")}
    for kind, make in made.items():
        counts = {}
        for many in (0, 1000):
            tree = os.path.join(place.top, f"{kind}-{many}")
            os.mkdir(tree)
            for number in range(many):
                make(os.path.join(tree, f"{kind}{number}"))
            command = ["tar", "--acls", "--xattrs", "-cf", f"{tree}.tar", os.path.basename(tree)]
            counts[many] = len(strace(place.top, INFORMATION, command))
        yield f"tar_{kind}_calls", 0, (counts[1000] - counts[0]) / 1000


def account_rows(fs, trial, account):
    for function in account["functions"]:
        yield f"{fs}_{FUNCTIONS[function['name']]}_share", trial, function["percent"]
    information = [gate for gate in account["gates"] if gate["function"] == "gate calls for information"]
    for name in ("statx", "getdents64"):
        most = max((gate for gate in information if gate["gate"] == name), key=lambda gate: gate["calls"])
        yield f"{fs}_{name}_us", trial, 1000 * most["ms_per_call"]
    yield f"{fs}_fixed_us", trial, 1000 * account["fixed_ms"]
    points = {"dir": [], "file": []}
    for option in account["options"]:
        name, measured = f"{fs}_{option['name']}", option["measured"]
        for of in points:
            yield f"{name}_{of}_predicted", trial, 1000 * option["predicted"][of]["total"]
            if measured:
                yield f"{name}_{of}_us", trial, 1000 * measured[of]["total"]
                yield f"{name}_{of}_calls", trial, measured[of]["calls"]
                yield f"{name}_{of}_overhead", trial, 1000 * measured[of]["overhead"]
                points[of].append((measured[of]["calls"], 1000 * measured[of]["total"]))
        if measured:
            yield f"{name}_own", trial, 100 * measured["own_seconds"] / (measured["own_seconds"] + measured["gates_seconds"])
    for of, found in points.items():
        slope, fit = regression(found)
        yield f"{fs}_{of}_slope_us", trial, slope
        yield f"{fs}_{of}_fit", trial, fit


def regression(points):
    """The slope of the line through the points with the least squares, and r squared."""
    xs, ys = zip(*points)
    x, y = mean(xs), mean(ys)
    xx, yy = (sum((value - middle) ** 2 for value in values) for values, middle in ((xs, x), (ys, y)))
    xy = sum((a - x) * (b - y) for a, b in points)
    return xy / xx, xy * xy / (xx * yy)


# Path searches: the benchmark of 2012

PATH_DIRECTORIES = ["qt", "totalview", "local", "bin", "usr-bin", "local-sbin", "usr-sbin", "sbin"]
LIBRARY_PATH = 16


def searches(bench):
    """The benchmark with its default tree: after it was created, with empty caches, again, and for new names."""
    for fs in FILE_SYSTEMS:

        def search(place):
            root = os.path.join(place.top, "abc")

            def passes(*more):
                return bench.json("pathwalk", "-t", *more, root)[1]["test"]["passes"]

            for trial in range(min(3, bench.trials)):
                created = bench.json("pathwalk", "-c", root)[1]["created"]
                yield f"{fs}_create_seconds", trial, created["seconds"]
                yield f"{fs}_search_seconds", trial, passes()[0]["seconds"]
                place.remount()
                first, second = passes("--repeat", 2)
                yield f"{fs}_cold_seconds", trial, first["seconds"]
                yield f"{fs}_second_seconds", trial, second["seconds"]
                before = device_reads(place.image, place.top)
                new, again = passes("-F", "--repeat", 2)
                yield f"{fs}_new_reads", trial, device_reads(place.image, place.top) - before
                yield f"{fs}_new_seconds", trial, new["seconds"]
                yield f"{fs}_new_again_seconds", trial, again["seconds"]
                removed = bench.json("pathwalk", "-r", root)[1]["removed"]
                yield f"{fs}_remove_seconds", trial, removed["seconds"]
                short = os.path.join(place.top, "short")
                bench.json("pathwalk", "-c", "-l", 1, short)
                _, again = bench.json("pathwalk", "-t", "-l", 1, "--repeat", 2, short)[1]["test"]["passes"]
                yield f"{fs}_second_of_one_seconds", trial, again["seconds"]
                bench.json("pathwalk", "-r", "-l", 1, short)

        yield from bench.at(fs, search)
    yield from bench.at("tmpfs", loaders)


def loaders(place):
    """Lookups of a shell along PATH, and of the dynamic linker along LD_LIBRARY_PATH."""
    directories = [os.path.join(place.top, name) for name in PATH_DIRECTORIES]
    for directory in directories:
        os.mkdir(directory)
    program = os.path.join(directories[3], "hostname")
    Path(program).write_text("#!/bin/sh\n")
    os.chmod(program, 0o755)

    def named(script):
        calls = "execve,stat,newfstatat,access,faccessat,faccessat2"
        lines = strace(place.top, calls, ["bash", "-c", script], {"PATH": ":".join(directories)})
        paths = [found[1] for line in lines if (found := re.search(r'"([^"]*/hostname)"', line))]
        return len(set(paths)), sum(path != program for path in paths)

    tried, failed = named("hostname; :")
    yield "shell_tried", 0, tried
    yield "shell_failed", 0, failed
    yield "shell_failed_twice", 0, named("hostname; hostname; :")[1]
    yield "shell_failed_next", 0, named("hostname; $BASH -c 'hostname; :'; :")[1]
    for name, more in {"cache": {}, "path": {"LD_LIBRARY_PATH": ":".join(f"/lib/none-{n}" for n in range(LIBRARY_PATH))}}.items():
        lines = strace(place.top, "openat", ["/bin/true"], more)
        yield f"linker_{name}_failed", 0, sum("ENOENT" in line and ".so" in line and "preload" not in line for line in lines)
    for name, command in {"python": ["python3", "-c", "pass"], "perl": ["perl", "-MPOSIX", "-e", "1"]}.items():
        lines = strace(place.top, "openat,stat,newfstatat,lstat,readlink", command)
        yield f"{name}_failed", 0, sum("ENOENT" in line for line in lines)


# Experiments on file systems

SERIES = {  # samples of probe, and how many of them are kept
    "block-reads-ahead-256": 100,
    "block-reads-ahead-512": 100,
    "readahead-blocks-4096": 100,
    "cache-passes-4194304": 100,
    "extent-syncs-1048576": 350,
}


def keep_samples(directory, fs, out):
    """Adds the beginning of each series to samples.csv: medians over the trials."""
    with open(out / "samples.csv", "a") as kept:
        for series, most in SERIES.items():
            path = Path(directory, f"{series}.csv")
            lines = path.read_text().splitlines() if path.exists() else []
            numbers = [line.split(",") for line in lines if line[0].isdigit()]
            for run, *trials in numbers[:most]:
                kept.write(f"{series.split('-', 1)[1]},{fs},{run},{median(float(trial) for trial in trials if trial):.0f}\n")


def experiments(bench):
    """The four experiments on each file system, with their samples for the plots."""
    (bench.options.out / "samples.csv").write_text("series,fs,run,ns\n")
    for fs in FILE_SYSTEMS:

        def experiment(place):
            for trial in range(max(3, bench.trials)):
                # The time of a sync tells the same each time.
                names = ["block", "readahead", *(["extent"] if trial < 2 else [])]
                _, answer, _ = bench.json("probe", place.top, *names, "--csv", place.top)
                found = {finding["name"]: finding["inferred"] for finding in answer["experiments"]}
                initial, steady = found["readahead-initial"], found["readahead-steady"]
                by_time = {"reads_ahead": "paper-reads", "reads": "page-cache-granule-by-time", "window_by_time": "readahead-steady-by-time"}
                yield f"{fs}_initial", trial, initial and initial / 4096
                yield f"{fs}_window", trial, steady and steady / 4096
                for figure, name in by_time.items():
                    yield f"{fs}_{figure}", trial, found[name] or ""
                if "extent-by-time" in found:
                    yield f"{fs}_extent_by_time", trial, found["extent-by-time"] or ""
                    yield f"{fs}_extent_largest", trial, found["extent-largest"] / 2**20
            for trial in range(min(3, bench.trials)):
                for how, more in {"holes": [], "paper": ["--method", "paper"]}.items():
                    _, answer, _ = bench.json("probe", place.top, "cache", "--cache-limit", "64M", *more, "--csv", place.top)
                    found = {finding["name"]: finding for finding in answer["experiments"]}["cache-capacity"]
                    yield f"{fs}_cache_{how}", trial, found["inferred"] and 100 * found["inferred"] / (64 << 20)
                    yield f"{fs}_cache_{how}_read", trial, found["bytes_read"]
            yield f"{fs}_blocks", 0, os.statvfs(place.top).f_frsize
            keep_samples(place.top, fs, bench.options.out)

        yield from bench.at(fs, experiment)
    yield from bench.at("ext4", extents)

    def small_blocks(place):
        for trial in range(min(3, bench.trials)):
            _, answer, _ = bench.json("probe", place.top, "block")
            found = {finding["name"]: finding["inferred"] for finding in answer["experiments"]}
            yield "small_reads", trial, found["page-cache-granule-by-time"] or ""
            yield "small_writes", trial, found["allocation-block-by-time"] or ""

    yield from bench.at("ext4-1k", small_blocks)

    def timer(place):
        for trial in range(bench.trials):
            _, answer, _ = bench.json("probe", place.top, "timer")
            found = {finding["name"]: finding["inferred"] for finding in answer["experiments"]}
            yield "timer_drift", trial, found.get("drift-gettimeofday", "")
            begun = time.clock_gettime(time.CLOCK_MONOTONIC_RAW)
            time.sleep(1)
            yield "timer_sleep", trial, 1e6 * (time.clock_gettime(time.CLOCK_MONOTONIC_RAW) - begun)

    yield from bench.at("tmpfs", timer)


def extents(place):
    """The longest extent of a file that was written in one go, not merged with its neighbours."""
    file = os.path.join(place.top, "file")
    with open(file, "wb") as out:
        for _ in range(600):
            out.write(bytes(1 << 20))
        os.fsync(out.fileno())
    place.remount()  # has the journal written to its place, where debugfs looks
    image = place.image.file
    command = ["debugfs", "-R", "ex /file", f"/proc/self/fd/{image}"]
    said = subprocess.run(command, pass_fds=[image], capture_output=True, text=True, check=True).stdout
    leaves = re.findall(r"^ *(\d+)/ *\1 .* (\d+) *$", said, re.M)
    yield "extent_longest", 0, max(int(length) for _, length in leaves) * 4096 / 2**20


EXPERIMENTS = {
    "details": details,
    "bunching": bunching,
    "profiles": profiles,
    "warm": warm_systems,
    "random": random_systems,
    "cold": cold_systems,
    "accounts": accounts,
    "searches": searches,
    "experiments": experiments,
}
GUESTS = ["--install", "openmpi-bin", "--fathom"]
MACHINES = {  # options of tools/guest, kernels, a case of tests/guests
    "pathwalk-clients": (["--clients", "4", "--cpus", "1", "--memory", "512"], ["6.1"]),
    "fleet": ([], ["5.10", "6.1", "6.12", "7"]),
}


def guests(bench):
    """The figures that the cases of tests/guests print."""
    for case, (options, kernels) in MACHINES.items():
        for kernel in kernels:
            say(f"papers: {case} on {kernel}")
            command = [TOP / "tools/guest", *options, *GUESTS, bench.fathom, kernel, TOP / "tests/guests" / case]
            said = subprocess.run(command, stdout=subprocess.PIPE, text=True, errors="replace").stdout
            yield from (line.split(",")[1:] for line in said.splitlines() if line.startswith("papers,"))


def bench_papers(options):
    wanted = {"guests": guests} if options.guests else {k: v for k, v in EXPERIMENTS.items() if k.startswith(options.case)}
    for name, experiment in wanted.items():
        begun = time.monotonic()
        for figure, trial, value in experiment(Bench(options)):
            yield {"figure": figure, "trial": trial, "value": round(value, 9) if isinstance(value, float) else value}
        say(f"papers: {name} took {time.monotonic() - begun:.0f} s")
