"""Run a command and say what it took: one row of raw data per run."""

import json
import os
import subprocess
import time
from collections import namedtuple

STAT_FAMILY = ("statx", "newfstatat")
ENVIRONMENT = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C"}
SLOW, SLOW_TRIALS = 0.5, 5  # who takes longer than this many seconds runs only so often

# What to run; `most` bounds its trials.
Contender = namedtuple("Contender", "name argv most", defaults=[None])


def run(argv):
    """One run, its output thrown away: seconds, peak memory and exit status."""
    out = os.open(os.devnull, os.O_WRONLY)
    try:
        return run_into(out, argv)
    finally:
        os.close(out)


def run_into(out, argv):
    null = os.open(os.devnull, os.O_RDONLY)
    err = os.memfd_create("err")
    try:
        files = [(os.POSIX_SPAWN_DUP2, fd, to) for to, fd in enumerate((null, out, err))]
        start = time.perf_counter()
        pid = os.posix_spawnp(argv[0], argv, ENVIRONMENT, file_actions=files)
        _, status, usage = os.wait4(pid, 0)
        real = time.perf_counter() - start
        code = os.waitstatus_to_exitcode(status)
        if code not in (0, 1):
            raise RuntimeError(f"{' '.join(argv)}: exit {code}: {whole_file(err).decode()}")
    finally:
        os.close(err)
        os.close(null)
    return {
        "real": round(real, 6),
        "user": usage.ru_utime,
        "sys": usage.ru_stime,
        "maxrss_kib": usage.ru_maxrss,
        "exit": code,
    }


def whole_file(fd):
    return os.pread(fd, os.fstat(fd).st_size, 0)


def run_json(argv):
    """For a fathom command with --json: the row of `run` with the calls by gate; the answer."""
    out = os.memfd_create("out")
    try:
        row = run_into(out, argv)
        answer = json.loads(whole_file(out))
    finally:
        os.close(out)
    calls = {name: gate["calls"] for name, gate in answer["gates"].items()}
    return row | count(calls), answer["result"]


def report(run, fathom, command, *words):
    """What fathom writes with --json and -o, beside a command whose output is its own; `run` runs it."""
    file = os.memfd_create("report")
    os.set_inheritable(file, True)
    try:
        run([fathom, command, "--json", "-o", f"/proc/self/fd/{file}", *words])
        return json.loads(whole_file(file))["result"]
    finally:
        os.close(file)


def count(calls):
    return {
        "stat_calls": sum(calls.get(name, 0) for name in STAT_FAMILY),
        "all_calls": sum(calls.values()),
        "gates": " ".join(f"{name}={n}" for name, n in sorted(calls.items())),
    }


def run_strace(argv, scratch):
    """The system calls of a command, less those that it needs to say --version."""
    calls = strace(argv, scratch)
    for name, n in strace([argv[0], "--version"], scratch).items():
        calls[name] = max(0, calls.get(name, 0) - n)
    return count({name: n for name, n in calls.items() if n})


def strace(argv, scratch):
    report = os.path.join(scratch, "strace")
    subprocess.run(
        ["strace", "-f", "-c", "-U", "calls,name", "-o", report, *argv],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=ENVIRONMENT,
    )
    with open(report) as lines:
        words = [line.split() for line in lines]
    os.unlink(report)
    return {w[1]: int(w[0]) for w in words if len(w) == 2 and w[0].isdigit() and w[1] != "total"}


def untimed(row):
    return {k: v for k, v in row.items() if k not in ("real", "user", "sys", "maxrss_kib")}


def turns(contenders, trials, warm_up=True):
    """(trial, contender): each trial has every contender, a different one first each time; -1 warms up, and is not kept."""
    for trial in range(-1 if warm_up else 0, trials):
        turn = trial % len(contenders)
        for contender in contenders[turn:] + contenders[:turn]:
            yield trial, contender


def measure(contenders, trials, runner, warm_up=True, **about):
    """All rows of one case."""
    rows, slow = [], set()
    for trial, contender in turns(contenders, trials, warm_up):
        most = min(contender.most or trials, SLOW_TRIALS if contender.name in slow else trials)
        # Who takes minutes has what it needs in memory from those before it: so the first has to warm up.
        if trial >= most or trial < 0 and most == 1 and contender is not contenders[0]:
            continue
        row = runner(contender.argv)
        if row["real"] > SLOW:
            slow.add(contender.name)
        if trial >= 0:
            rows.append(about | {"contender": contender.name, "trial": trial} | row)
    return rows
