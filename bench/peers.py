#!/usr/bin/env python3
"""The programs that fathom is measured against: which are here, their versions, how to get them.

Peers are looked for in PATH. `bench/peers.py` prints one line each.
"""

import shutil
import subprocess
import sys
from pathlib import Path

PEERS = {  # name: (what it may be called, how to get it, what it is measured in)
    "findmnt": ("findmnt", "Debian package util-linux", "mounts: as a tree, and as a list with -l"),
    "find": ("find", "Debian package findutils", "root, walk, changed, growth"),
    "bfs": ("bfs", "Debian package bfs", "root, walk, growth"),
    "bfs-4.1": (
        "bfs-4.1",
        "https://github.com/tavianator/bfs, tag 4.1.4: ./configure --enable-release && make,"
        " then install bin/bfs as bfs-4.1",
        "walk, growth: the latest, beside Debian's",
    ),
    "fd": ("fd fdfind", "cargo install --locked fd-find, or Debian package fd-find", "walk"),
    "duckdb": (
        "duckdb",
        "pip install duckdb, or tools/setup test",
        "query: in Python, whose version is here",
    ),
    "du": ("du", "Debian package coreutils", "walk"),
    "dust": ("dust", "cargo install --locked du-dust", "walk"),
    "pdu": ("pdu", "cargo install --locked parallel-disk-usage", "walk"),
    "tar": ("tar", "Debian package tar", "changed, dump"),
    "bsdtar": ("bsdtar", "Debian package libarchive-tools", "dump"),
    "restic": ("restic", "Debian package restic", "dump, restic"),
    "rustic": ("rustic", "cargo install --locked rustic-rs", "dump, restic"),
    "borg": ("borg", "Debian package borgbackup", "dump"),
    "aws": ("aws", "Debian package awscli, or tools/setup test", "object"),
    "versitygw": ("versitygw", "tools/setup test", "object: the server"),
    "rsync": ("rsync", "Debian package rsync", "changed"),
    "strace": ("strace", "Debian package strace", "account; and it counts the calls of the peers"),
    "perf": ("perf", "Debian package linux-perf", "account"),
    "pathwalk": ("pathwalk", "https://github.com/chaos/pathwalk", "pathwalk: LLNL's own program"),
    "dwalk": ("dwalk", "https://github.com/hpc/mpifileutils: README.md says how to build it", "ranks"),
    "mkfs.ext4": ("mkfs.ext4", "Debian package e2fsprogs", "no contender: it makes images"),
    "mkfs.xfs": ("mkfs.xfs", "Debian package xfsprogs", "no contender: it makes images"),
    "mkfs.btrfs": ("mkfs.btrfs", "Debian package btrfs-progs", "no contender: it makes images"),
}


def program(name):
    """The file that `name` is here, or None."""
    return next(filter(None, map(shutil.which, PEERS[name][0].split())), None)


def tools():
    """The directory of what tools/setup installs, as tools/cache prints it."""
    command = Path(__file__).resolve().parent.parent / "tools/cache"
    return Path(subprocess.run([command], capture_output=True, text=True, check=True).stdout.strip())


def duckdb():
    """A Python with the module duckdb, and its version; or None."""
    beside = str(tools() / "venv/bin/python")
    script = "import duckdb; print('duckdb', duckdb.__version__)"
    for python in filter(shutil.which, (beside, sys.executable)):
        answer = subprocess.run([python, "-c", script], capture_output=True, text=True)
        if answer.returncode == 0:
            return python, answer.stdout.strip()
    return None


def version(name):
    if name == "duckdb":
        return duckdb()[1] if duckdb() else "not found"
    if program(name) is None:
        return "not found"
    if name == "dwalk":
        return "found"  # it does not say which version it is
    option = {"restic": "version", "mkfs.ext4": "-V", "mkfs.xfs": "-V"}.get(name, "--version")
    answer = subprocess.run([program(name), option], capture_output=True, text=True)
    return (answer.stdout + answer.stderr).strip().splitlines()[0]


if __name__ == "__main__":
    for name, (_, source, use) in PEERS.items():
        print(f"{name}: {version(name)} ({source}; {use})")
