"""The benchmark of walks by the ranks of an MPI job: entries per second on a server with latency, for 1 to 16 ranks.

The server is that of the tests (tests/support/synthetic.rs), built as an example: each request takes a millisecond, however many are
under way. With one thread per rank (-j 1), each has one request under way; ranks that wait for each other would show at once. By default
a rank has more threads. dwalk of mpiFileUtils, if it is in PATH, has one request per rank under way. It needs a fathom with MPI: cargo
build --release --features mpi.
"""

import itertools
import json
import os
import re
import resource
import shutil
import subprocess
from statistics import median

from figures import grouped, table, times
from measure import ENVIRONMENT
from namespace import MNT_DETACH, MS_PRIVATE, in_namespace, libc
from pathsearches import example
from peers import program
from walks import say

COLUMNS = "bench case contender ranks trial entries directories requests seconds entries_per_second cpu least most load".split()
RANKS = 1, 2, 4, 8, 16
LATENCY = 1000  # microseconds
MPIRUN = "mpirun --allow-run-as-root --oversubscribe".split()
CASES = {"directories": (200, 100), "large": (1, 20_000)}  # directories, and files in each
FEW = 10  # times fewer files with --quick
LONG = 2  # ranks, up to which a walk takes so long that it is run once
GROWTH = 1.8  # of the rate, when the ranks double
SINGLE = "fathom -j 1"
PEER, FASTER = "dwalk", 2  # by this factor, by the most ranks


def contenders(fathom, root):
    """{name: the command of each rank}"""
    walk = [fathom, "walk", root, "--json"]
    found = {SINGLE: [*walk, "-j", "1"], "fathom": walk}
    return found | ({PEER: [program(PEER), "--verbose", root]} if program(PEER) else {})


def walked(name, said):
    """Seconds, entries, files and directories of a walk, and the entries of each rank if it says them."""
    if name == PEER:
        number = lambda what: int(re.search(rf" {what}: (\d+)", said)[1])
        seconds = float(re.search(r"Walked \d+ items in ([\d.]+) seconds", said)[1])
        return seconds, number("Items"), number("Files"), number("Directories"), []
    result = json.loads(said)["result"]
    if result["ranks"] is None:
        raise RuntimeError("fathom was built without MPI: cargo build --release --features mpi")
    each = [rank["entries"] for rank in result["ranks"]]
    return *(result[key] for key in ("seconds", "entries", "files", "directories")), each


def cpu():
    """Seconds of processor time of all children that have ended: the job and the server."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def case(options, server, name):
    directories, files = CASES[name]
    files = files // FEW if options.quick else files
    root = os.path.join(options.work, "remote")
    os.makedirs(root, exist_ok=True)
    expected = [1 + directories * (1 + files), directories * files, 1 + directories]
    commands = contenders(options.fathom, root)
    for trial, ranks, contender in itertools.product(range(options.trials), RANKS, commands):
        if trial > 0 and ranks <= LONG:
            continue
        # A new mount each time: the kernel has cached nothing.
        words = [server, root, str(directories), str(files), str(LATENCY)]
        serving = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if serving.stdout.readline() != "ready\n":
            raise RuntimeError("the server does not serve")
        load, used = os.getloadavg()[0], cpu()
        command = [*MPIRUN, "-np", str(ranks), *commands[contender]]
        ran = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True)
        if ran.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: exit {ran.returncode}: {ran.stderr}")
        libc.umount2(os.fsencode(root), MNT_DETACH)
        serving.stdin.close()
        requests = int(serving.stdout.readline())
        serving.wait()
        seconds, *counts, each = walked(contender, ran.stdout)
        if counts != expected:
            raise RuntimeError(f"{contender} has found {counts} entries, files and directories of {expected}")
        entries = counts[0]
        about = {"bench": "ranks", "case": name, "contender": contender, "ranks": ranks, "trial": trial, "entries": entries}
        about |= {"directories": directories, "requests": requests}
        rate = {"seconds": round(seconds, 4), "entries_per_second": round(entries / seconds), "cpu": round(cpu() - used, 3)}
        yield about | rate | {"least": min(each, default=""), "most": max(each, default=""), "load": f"{load:.1f}"}


def bench_ranks(options):
    if shutil.which("mpirun") is None:
        say("ranks: no mpirun")
        return
    server = example("synthetic")
    for name in CASES:
        say(f"ranks: {name}")
        yield from in_namespace(MS_PRIVATE, lambda: list(case(options, server, name)))


# The summary


def read(run):
    """{case: {contender: {ranks: median entries per second}}}"""
    rates = {}
    key = lambda row: (row["case"], row["contender"], int(row["ranks"]))
    for (name, contender, ranks), rows in grouped(run / "ranks.csv", key).items():
        rate = median(float(row["entries_per_second"]) for row in rows)
        rates.setdefault(name, {}).setdefault(contender, {})[ranks] = rate
    return rates


def growth(rates):
    """{ranks: the rate divided by that of half as many}"""
    return {ranks: rate / rates[ranks // 2] for ranks, rate in rates.items() if ranks // 2 in rates}


def targets(run):
    """(what is asked, what was measured, whether it is met, whether this run can tell)"""
    for name, by in read(run).items():
        each = growth(by[SINGLE])
        shown = ", ".join(f"{ranks}: {times(ratio)}" for ranks, ratio in each.items())
        text = f"ranks, {name}: entries/s ÷ those of half as many ranks >= {GROWTH}"
        yield text, shown, min(each.values()) >= GROWTH, True
        if PEER in by:
            most = max(by[PEER])
            ratio = by["fathom"][most] / by[PEER][most]
            yield f"ranks, {name}: entries/s of {most} ranks ÷ those of {PEER} >= {FASTER}", times(ratio), ratio >= FASTER, True


def tables(run):
    rates = read(run)
    if rates:
        yield "## Ranks"
        yield ""
        yield f"Entries per second on a server with {LATENCY / 1000:.0f} ms per request, and against half as many ranks."
        yield ""
    for name, by in rates.items():
        yield f"### {name}"
        yield ""
        rows = []
        for ranks in RANKS:
            cells = ((each[ranks], growth(each).get(ranks)) for each in by.values())
            rows.append([str(ranks), *(cell for rate, ratio in cells for cell in (f"{rate:,.0f}", times(ratio)))])
        yield from table(["ranks", *(cell for contender in by for cell in (contender, "growth"))], rows)
