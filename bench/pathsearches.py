"""Cold starts on a slow file system, as `fathom pathsearch --rtt auto` predicts them there, and as they are.

That file system is the FUSE server of the tests (tests/support/slow_mirror.rs), built as an example: it shows this machine's tree, and takes
its time for each request. python3 and script are predicted and measured; order is the same script with the PATH that was proposed.
"""

import json
import os
import struct
import subprocess
import time
from pathlib import Path
from statistics import median

from figures import grouped, table, times
from measure import report
from namespace import MNT_DETACH, MNT_FORCE, MS_BIND, MS_PRIVATE, in_namespace, libc, mount
from walks import say

COLUMNS = "bench case latency_us trial rtt predicted real requests counted".split()
LATENCIES = 200, 1000, 5000  # microseconds
FAR = 0.2  # how far a prediction may be off
LEAST = 0.8  # of what was predicted for a better PATH
BINDS = "proc", "dev", "sys", "tmp"
PATH = "/nowhere/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
WORDS = """ls; cat /dev/null; id -u; uname; date; true; head -c0 /dev/null; tail -c0 /dev/null; wc -c /dev/null; sort /dev/null;
cut -c1 /dev/null; tr a b </dev/null; uniq /dev/null; basename x; dirname x; env; expr 1 + 1; seq 1; nproc; echo; exit 0"""
PYTHON = "/usr/bin/python3", "-c", "import json, decimal"
SCRIPT = "/bin/sh", "-c", WORDS.replace("\n", " ")


def example(name):
    """A program that serves, built."""
    build = f"cargo build --quiet -p fathom --example {name} --message-format json".split()
    said = subprocess.run(build, stdout=subprocess.PIPE, check=True, text=True).stdout
    built = [json.loads(line) for line in said.splitlines()]
    return next(row["executable"] for row in built if row.get("executable"))


class Far:
    """This machine's tree, so many microseconds away, mounted afresh: what is known of it is forgotten."""

    def __init__(self, program, root, latency):
        os.makedirs(root, exist_ok=True)
        words = [program, "/", root, str(latency)]
        self.root = root
        self.server = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        if self.server.stdout.readline() != "ready\n":
            raise RuntimeError("the server does not serve")

    def __enter__(self):
        for name in BINDS:
            mount(f"/{name}", os.path.join(self.root, name), None, MS_BIND)
        self.counts()
        return self

    def __exit__(self, *_):
        for name in BINDS:
            libc.umount2(os.fsencode(os.path.join(self.root, name)), MNT_DETACH)
        libc.umount2(os.fsencode(self.root), MNT_DETACH | MNT_FORCE)
        self.server.stdin.close()
        self.server.wait()

    def counts(self):
        """Requests since this was last asked."""
        self.server.stdin.write("\n")
        return {name: int(n) for name, n in (word.split("=") for word in self.server.stdout.readline().split())}

    def waited(self):
        """Those that somebody waits for; no network file system passes an ioctl on."""
        return sum(n for name, n in self.counts().items() if name not in ("RELEASE", "IOCTL"))

    def start(self, argv, path=PATH):
        """Starts a command there, and gives the seconds from its execve to its end."""
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                null = os.open(os.devnull, os.O_RDWR)
                for fd in range(3):
                    os.dup2(null, fd)
                os.chroot(self.root)
                os.chdir("/")
                os.write(writer, struct.pack("d", time.perf_counter()))
                os.execve(argv[0], argv, {"PATH": path, "LC_ALL": "C.UTF-8"})
            finally:
                os._exit(127)
        _, status, _ = os.wait4(pid, 0)
        ended = time.perf_counter()
        (begun,) = struct.unpack("d", os.read(reader, 8))
        os.close(reader)
        os.close(writer)
        if status != 0:
            raise RuntimeError(f"{argv}: status {status}")
        return ended - begun

    def predicted(self, fathom, argv):
        return report(self.start, fathom, "pathsearch", "--rtt", "auto", "--", *argv)


def rows(options, program, name, argv, latency, trial):
    # Server and command come before whatever else the machine has to do.
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    root = os.path.join(options.work, "far")

    def measured(path):
        with Far(program, root, latency) as far:
            return far.start(argv, path), far.waited()

    with Far(program, root, latency) as far:
        result = far.predicted(options.fathom, argv)
    guess = result["predicted"]
    real, counted = measured(PATH)
    about = {"bench": "pathsearch", "latency_us": latency, "trial": trial, "rtt": guess["rtt"]}
    asked = sum(row["cold"] for row in guess["requests"] if row["waited_for"])
    found = {"predicted": guess["seconds"], "real": real, "requests": asked, "counted": counted}
    yield about | {"case": name} | found
    fix = next((fix for fix in result["fixes"] if fix["kind"] == "PATH"), None)
    if fix and name == "script":
        better, fewer = measured(result["better_path"])
        saves = {"predicted": fix["saves_seconds"], "requests": fix["saves_requests"]}
        yield about | {"case": "order"} | saves | {"real": real - better, "counted": counted - fewer}


def bench_pathsearch(options):
    program = example("slow_mirror")
    for latency in LATENCIES:
        for name, argv in ("python3", PYTHON), ("script", SCRIPT):
            say(f"pathsearch: {name}, {latency} us")
            for trial in range(options.trials):
                case = options, program, name, list(argv), latency, trial
                yield from in_namespace(MS_PRIVATE, lambda: list(rows(*case)))


# The summary


def read(run):
    """{(case, microseconds): rows}"""
    return grouped(Path(run) / "pathsearch.csv", lambda row: (row["case"], int(row["latency_us"])))


def middle(rows, name):
    return median(float(row[name]) for row in rows)


def ratio(rows):
    """Of each trial the prediction and what came true: they were taken one right after the other."""
    return median(float(row["predicted"]) / float(row["real"]) for row in rows)


def targets(run):
    """(what is asked, what was measured, whether it is met, whether this run can tell)"""
    for (case, latency), rows in sorted(read(run).items()):
        if case == "order":
            share = middle(rows, "real") / middle(rows, "predicted")
            text = f"better PATH at {latency / 1000:g} ms: saves at least {LEAST:.0%} of what was predicted"
            yield text, f"{share:.0%}", share >= LEAST, True
        else:
            off = ratio(rows)
            text = f"cold start of {case} at {latency / 1000:g} ms: predicted ÷ measured within {FAR:.0%}"
            yield text, times(off), 1 - FAR <= off <= 1 + FAR, True


def tables(run):
    cases = read(run)
    if not cases:
        return
    yield "## Cold starts, far away: predicted and measured"
    yield ""
    yield "The medians; of the ratio, that of the trials' own. order: what the proposed PATH saves of script."
    yield ""
    rows = []
    for (case, latency), trials in sorted(cases.items()):
        seconds = [f"{middle(trials, name):.3f}" for name in ("predicted", "real")]
        requests = [f"{middle(trials, name):.0f}" for name in ("requests", "counted")]
        each = [float(row["predicted"]) / float(row["real"]) for row in trials]
        spread = f"{min(each):.2f} to {max(each):.2f}" if case != "order" else None
        rtt = f"{1000 * middle(trials, 'rtt'):.2f}"
        rows.append([case, f"{latency / 1000:g}", rtt, *requests, *seconds, times(ratio(trials)), spread, len(trials)])
    head = ["start", "latency ms", "look-up ms", "requests predicted", "counted", "predicted s", "measured s"]
    yield from table([*head, "ratio", "its range", "trials"], rows)
