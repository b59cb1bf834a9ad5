"""The benchmark of walks by the ranks of an MPI job: entries per second on a server with latency, for 1 to 16 ranks.

The server is that of the tests (tests/support/synthetic.rs), built as an example: each request takes a millisecond, however many are
under way. Each rank has one thread, so each has one request under way; ranks that wait for each other would show at once. It needs a
fathom with MPI: cargo build --release --features mpi.
"""

import json
import os
import resource
import shutil
import subprocess
from statistics import median

from figures import grouped, table, times
from measure import ENVIRONMENT
from namespace import MNT_DETACH, MS_PRIVATE, in_namespace, libc
from pathsearches import example
from walks import say

COLUMNS = "bench case ranks trial entries directories requests seconds entries_per_second cpu least most load".split()
RANKS = 1, 2, 4, 8, 16
LATENCY = 1000  # microseconds
CASES = {"directories": (200, 100), "large": (1, 20_000)}  # directories, and files in each
FEW = 10  # times fewer files with --quick
GROWTH = 1.8  # of the rate, when the ranks double


def argv(fathom, ranks, root):
    mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(ranks)]
    return [*mpirun, fathom, "walk", root, "-j", "1", "--json"]


def cpu():
    """Seconds of processor time of all children that have ended: the job and the server."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def case(options, program, name):
    directories, files = CASES[name]
    files = files // FEW if options.quick else files
    root = os.path.join(options.work, "remote")
    for trial in range(options.trials):
        for ranks in RANKS:
            os.makedirs(root, exist_ok=True)
            words = [program, root, str(directories), str(files), str(LATENCY)]
            # A new mount each time: the kernel has cached nothing.
            server = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            if server.stdout.readline() != "ready\n":
                raise RuntimeError("the server does not serve")
            load, used = os.getloadavg()[0], cpu()
            command = argv(options.fathom, ranks, root)
            ran = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True)
            if ran.returncode != 0:
                raise RuntimeError(f"{' '.join(command)}: exit {ran.returncode}: {ran.stderr}")
            libc.umount2(os.fsencode(root), MNT_DETACH)
            server.stdin.close()
            requests = int(server.stdout.readline())
            server.wait()
            result = json.loads(ran.stdout)["result"]
            if result["ranks"] is None:
                raise RuntimeError("fathom was built without MPI: cargo build --release --features mpi")
            each = [rank["entries"] for rank in result["ranks"]]
            seconds, entries = result["seconds"], result["entries"]
            about = {"bench": "ranks", "case": name, "ranks": ranks, "trial": trial, "entries": entries}
            about |= {"directories": directories, "requests": requests}
            rate = {"seconds": round(seconds, 4), "entries_per_second": round(entries / seconds), "cpu": round(cpu() - used, 3)}
            yield about | rate | {"least": min(each), "most": max(each), "load": f"{load:.1f}"}


def bench_ranks(options):
    if shutil.which("mpirun") is None:
        say("ranks: no mpirun")
        return
    program = example("synthetic")
    for name in CASES:
        say(f"ranks: {name}")
        yield from in_namespace(MS_PRIVATE, lambda: list(case(options, program, name)))


# The summary


def read(run):
    """{case: {ranks: median entries per second}}"""
    rates = {}
    key = lambda row: (row["case"], int(row["ranks"]))
    for (name, ranks), rows in grouped(run / "ranks.csv", key).items():
        rates.setdefault(name, {})[ranks] = median(float(row["entries_per_second"]) for row in rows)
    return rates


def growth(rates):
    """{ranks: the rate divided by that of half as many}"""
    return {ranks: rate / rates[ranks // 2] for ranks, rate in rates.items() if ranks // 2 in rates}


def targets(run):
    """(what is asked, what was measured, whether it is met, whether this run can tell)"""
    for name, rates in read(run).items():
        each = growth(rates)
        shown = ", ".join(f"{ranks}: {times(ratio)}" for ranks, ratio in each.items())
        text = f"ranks, {name}: entries/s ÷ those of half as many ranks >= {GROWTH}"
        yield text, shown, min(each.values()) >= GROWTH, True


def tables(run):
    rates = read(run)
    if not rates:
        return
    yield "## Ranks"
    yield ""
    yield f"Entries per second on a server with {LATENCY / 1000:.0f} ms per request, one thread per rank; and against half as many ranks."
    yield ""
    head = ["ranks", *(f"{name}{what}" for name in rates for what in ("", ", growth"))]
    rows = []
    for ranks in RANKS:
        cells = [str(ranks)]
        for each in rates.values():
            ratio = growth(each).get(ranks)
            cells += [f"{each.get(ranks, 0):,.0f}", ratio and times(ratio)]
        rows.append(cells)
    yield from table(head, rows)
