#!/usr/bin/env python3
"""What the profiles of cargo cost and give: the time of a first build, and the speed of the program.

    bench/builds.py OUT    about 15 minutes on two cores

OUT/builds.csv has a row per profile, OUT/units.csv the crates that take longest (cargo build --timings), and
OUT/speed.csv the least CPU time of 12 runs of each command on 100,000 small files in /dev/shm, the profiles in turn.
"""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROFILES = {
    "fat, 1 unit": {"LTO": "fat", "CODEGEN_UNITS": "1"},
    "thin": {"LTO": "thin"},
    "release": {},
}
COMMANDS = ["walk DIR --engine threads -j 1", "walk DIR", "walk DIR --catalog OUT", "walk DIR --json", "dump DIR -o OUT"]
TRIALS, UNITS = 12, 20


def build(settings, scratch):
    """Builds from nothing; gives the program, its seconds and CPU seconds, and the crates that take longest."""
    target = scratch / "target"
    shutil.rmtree(target, ignore_errors=True)
    env = os.environ | {f"CARGO_PROFILE_RELEASE_{key}": value for key, value in settings.items()}
    env["CARGO_TARGET_DIR"] = str(target)
    command = "cargo build --release --locked --package fathom --timings".split()
    wall, cpu = run(command, cwd=ROOT, env=env)
    page = (target / "cargo-timings/cargo-timing.html").read_text()
    units = json.loads(re.search(r"const UNIT_DATA = (\[.*?\]);", page, re.S)[1])
    return target / "release/fathom", wall, cpu, sorted(units, key=lambda unit: -unit["duration"])[:UNITS]


def run(command, **options):
    start = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"builds: {' '.join(map(str, command))} failed: status {status}")
    return time.monotonic() - start, usage.ru_utime + usage.ru_stime


def speed(programs, scratch):
    """For each command, the least CPU seconds of each program."""
    tree = scratch / "tree"
    for directory in range(1000):
        (tree / str(directory)).mkdir(parents=True)
        for file in range(100):
            (tree / str(directory) / str(file)).write_bytes(b"x" * (file * 37 % 300))
    for command in COMMANDS:
        words = [{"DIR": str(tree), "OUT": str(scratch / "out")}.get(word, word) for word in command.split()]
        least = dict.fromkeys(programs, float("inf"))
        for _ in range(TRIALS):
            for name, program in programs.items():
                (scratch / "out").unlink(missing_ok=True)
                least[name] = min(least[name], run([program, *words])[1])
        yield from ([command, name, f"{seconds:.3f}"] for name, seconds in least.items())


def write(file, heads, rows):
    with open(file, "w", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows([heads, *rows])


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as tree, tempfile.TemporaryDirectory() as scratch:
        programs, builds, units = {}, [], []
        for name, settings in PROFILES.items():
            binary, wall, cpu, longest = build(settings, Path(scratch))
            programs[name] = shutil.copy(binary, Path(scratch) / f"fathom-{len(programs)}")
            builds.append([name, f"{wall:.1f}", f"{cpu:.1f}", binary.stat().st_size])
            units += [[name, unit["name"], unit["target"].strip(), f"{unit['duration']:.1f}"] for unit in longest]
        write(out / "builds.csv", "profile wall cpu bytes".split(), builds)
        write(out / "units.csv", "profile crate target seconds".split(), units)
        write(out / "speed.csv", "command profile cpu".split(), speed(programs, Path(tree)))


main()
