"""The cases of `fathom account`: what metering costs, by each meter and by its peers.

find     find over a tree that has all it can want in memory: `-size` of each of N entries
start    true: what a meter needs for itself
opens    a loop of half as many opens, each of which fails: nothing but calls
compile  a `make -j` of small C files: processes, and calls that do something
machine  the same on all processors, alone and while `--system` counts the whole machine
"""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

from measure import Contender, measure, run
from namespace import MS_PRIVATE, in_namespace, mount
from peers import program
from trees import Tree
from walks import ENTRIES, FEW, NEVER, join, say

COLUMNS = (
    "bench case fs cache entries contender trial real user sys maxrss_kib exit"
).split()
METERS = ["bpf", "ptrace"]
HERE = Path(__file__).resolve().parent
CRATE = HERE.parent / "crates/meter"
# What the kernel's interfaces cost without a meter: see floor.c.
FLOORS = ["bpf", "clock", "ptrace"]
UNITS, FEW_UNITS = 100, 10
# So long a build that the first calls, which are reported one by one, are few of all.
MACHINE_UNITS = 1000
FEWER = 100_000  # entries, over which the start of a meter shows more
PAUSE = 0.3  # seconds, in which the kernel takes down what the meter before had
SLOW_TRIALS = 1  # of who stops the command at each call: minutes each


def metered_calls():
    """The calls that fathom meters: (number on x86-64 or _, number on aarch64 or _, name)"""
    line = re.compile(r"^    (\S+) (\S+) (\w+) [A-Z]\w* \w+ \w+;$", re.MULTILINE)
    return line.findall((CRATE / "src/syscalls.rs").read_text())


def same_calls():
    """These calls, as strace is told them: a question mark where it may not know one."""
    return "trace=" + ",".join(f"?{name}" for _, _, name in metered_calls())


def numbers():
    """These calls, as floor.c is told them."""
    at = 0 if os.uname().machine == "x86_64" else 1
    return ",".join(call[at] for call in metered_calls() if call[at] != "_")


def contenders(fathom, command, floor=None):
    """The command as it is, under each meter, under what people use, and under the bare interfaces."""
    account = [fathom, "account", "-o", "/dev/null", "--meter"]
    strace, perf = program("strace"), program("perf")
    yield Contender("plain", command)
    for meter in METERS:
        trials = [SLOW_TRIALS] if meter == "ptrace" else []
        yield Contender(meter, [*account, meter, "--", *command], *trials)
    if strace:
        to = ["-o", "/dev/null"]
        yield Contender("strace -c", [strace, "-f", "-c", *to, *command], SLOW_TRIALS)
        filtered = [strace, "-f", "--seccomp-bpf", "-e", same_calls()]
        yield Contender("strace --seccomp-bpf", [*filtered, *to, *command], SLOW_TRIALS)
        yield Contender("strace --seccomp-bpf -c", [*filtered, "-c", *to, *command], SLOW_TRIALS)
    if perf:
        yield Contender("perf trace -s", [perf, "trace", "-s", "-o", "/dev/null", *command], SLOW_TRIALS)
    for name in FLOORS if floor else []:
        calls, trials = ([numbers()], [SLOW_TRIALS]) if name == "ptrace" else ([], [])
        yield Contender(f"floor {name}", [floor, name, *calls, *command], *trials)


def possible(candidates):
    """Less those that cannot work here, which say why."""
    for contender in candidates:
        try:
            run(contender.argv[: -len(candidates[0].argv)] + ["true"])
        except RuntimeError as error:
            say(f"left out: {contender.name}: {str(error).splitlines()[0]}")
        else:
            yield contender


def run_apart(argv):
    time.sleep(PAUSE)
    return run(argv)


MACHINE = "bpf --system"


def run_in_metered_machine(fathom, argv):
    """A command, begun when `fathom account --system` counts, and ended before it is told to end."""
    words = [fathom, "account", "--system", "-o", "/dev/null"]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as meter:
        try:
            if not any("ttached" in line for line in meter.stderr):
                raise RuntimeError(f"{' '.join(words)} has not attached")
            return run_apart(argv)
        finally:
            meter.send_signal(signal.SIGTERM)  # a background job ignores SIGINT


def case(options, name, entries, prepare):
    """The rows of one case; `prepare` makes what the command works on, and gives the command."""

    def measured():
        top = join(options.work, "tree")
        os.makedirs(top, exist_ok=True)
        mount("tmpfs", top, "tmpfs", data="nr_inodes=0,size=80%")
        command, runner = prepare(top), run_apart
        if name != "machine":
            floor = join(options.work, "floor")
            subprocess.run(["cc", "-O2", "-w", HERE / "floor.c", "-o", floor], check=True)
            able = list(possible(list(contenders(options.fathom, command, floor))))
        else:
            able = [Contender("plain", command), Contender(MACHINE, [MACHINE, *command])]

            def runner(argv):
                if argv[0] == MACHINE:
                    return run_in_metered_machine(options.fathom, argv[1:])
                return run_apart(argv)

        about = {"bench": "account", "case": name, "fs": "tmpfs", "cache": "warm", "entries": entries}
        return measure(able, options.trials, runner, **about)

    return in_namespace(MS_PRIVATE, measured)


def find_case(entries):
    def prepare(top):
        Tree("many", entries).build(top)
        return ["find", top, "-size", NEVER]

    return prepare


def opens_case(calls):
    def prepare(top):
        busy = join(top, "busy")
        source = CRATE / "src/meters/busy.c"
        subprocess.run(["cc", "-O1", "-w", "-pthread", source, "-o", busy], check=True)
        return [busy, "many", str(calls)]

    return prepare


def compile_case(units):
    def prepare(top):
        rules = "%.o: %.c\n\tcc -c -o /dev/null $<\n"
        targets = " ".join(f"u{unit}.o" for unit in range(units))
        Path(top, "Makefile").write_text(f"all: {targets}\n{rules}")
        for unit in range(units):
            text = f"#include <stdio.h>\n#include <stdlib.h>\nint u{unit}(void) {{ return {unit}; }}\n"
            Path(top, f"u{unit}.c").write_text(text)
        return ["make", "-s", "-r", f"-j{os.cpu_count()}", "-C", top]

    return prepare


def cases(options):
    entries = options.entries or (FEW if options.quick else ENTRIES)
    units = FEW_UNITS if entries < ENTRIES else UNITS
    yield "find", entries, find_case(entries)
    if entries > FEWER:
        yield "find", FEWER, find_case(FEWER)
    yield "start", 1, lambda top: ["true"]
    yield "opens", entries // 2, opens_case(entries // 2)
    yield "compile", units, compile_case(units)
    units = FEW_UNITS if entries < ENTRIES else MACHINE_UNITS
    yield "machine", units, compile_case(units)


def bench_account(options):
    some = [case for case in cases(options) if case[0].startswith(options.case)]
    for name, entries, prepare in some:
        say(f"account: {name}, {entries:,}")
        yield from case(options, name, entries, prepare)


def commands():
    """Every command of this benchmark, once."""
    return contenders("fathom", ["COMMAND"], "floor")
