"""Snapshots in a restic repository: `fathom dump --restic`, with and without --state, against restic and rustic.

The tree is *small*, on ext4, XFS and btrfs; repositories and catalogs lie in the scratch directory. Before each run all is synced, and each
program's repository, cache and catalog are put back to what they were after its first snapshot. With --full, the last
snapshot and the first are also measured cold: the file system is mounted just before each run.
"""

import os
import shutil
import subprocess
import time
from pathlib import Path
from statistics import median

from dumps import SOON, TRIALS, on_ground, repository_tool
from figures import by_contender, grouped, table
from measure import Contender, measure, run, run_json, run_strace
from peers import program
from trees import Tree
from walks import FEW, file_systems, join, say

COLUMNS = (
    "bench case fs entries contender trial real user sys maxrss_kib exit engine unmodified bytes_added"
    " stat_calls all_calls gates"
).split()
FILE_SYSTEMS = ["ext4", "xfs", "btrfs"]
ENTRIES = 100_000
CHANGED = 0.01  # of the files
OURS = "dump --state"
# How many times as fast as restic.
LEAST = {fs: {"unchanged": unchanged, "1 % changed": 5, "first": 1} for fs, unchanged in (("ext4", 20), ("xfs", 8), ("btrfs", 8))}


def initialize(repository, password):
    """The command that makes an empty repository, and the file with its password."""
    return ["sh", "-c", f"echo word >'{password}' && restic -q -r '{repository}' -p '{password}' init"]


def fathom_tool(name, fathom, top, work, more):
    repository, state, password = (join(work, name.replace(" ", "") + end) for end in (".repo", ".state", ".word"))
    command = [fathom, "dump", top, "--restic", repository, "--password-file", password, "--json"]
    command += ["--state", state] if more else []
    yield from repository_tool(name, initialize(repository, password), command, repository, state)


def restic_tool(top, work):
    repository, cache, password = (join(work, f"restic.{end}") for end in ("repo", "cache", "word"))
    command = ["restic", "-q", "-r", repository, "-p", password, "--cache-dir", cache, "backup", top]
    yield from repository_tool("restic", initialize(repository, password), command, repository, cache)


def rustic_tool(top, work):
    repository, cache = join(work, "rustic.repo"), join(work, "rustic.cache")
    common = ["rustic", "--no-progress", "-r", repository, "--cache-dir", cache, "--password", "word"]
    yield from repository_tool("rustic", [*common, "init"], [*common, "backup", top], repository, cache)


def tools(fathom, top, work):
    yield from fathom_tool(OURS, fathom, top, work, True)
    yield from fathom_tool("dump", fathom, top, work, False)
    yield from restic_tool(top, work)
    if program("rustic"):
        yield from rustic_tool(top, work)


def runner(argv):
    if "--json" not in argv:
        return run(argv)
    row, answer = run_json(argv)
    row |= {"engine": answer["engine"], "unmodified": answer["files_unmodified"]}
    return row | {"bytes_added": answer["bytes_added"]}


def case_on(options, fs):
    tree, work = Tree("small", options.entries or (FEW if options.quick else ENTRIES)), join(options.work, "restic")

    def about(case):
        return {"bench": "restic", "case": case, "fs": fs, "entries": tree.entries}

    def measured(ground):
        top, beside = join(ground.top, "tree"), join(ground.top, "beside")
        open(beside, "w").close()  # creating it later would change the directory above the tree
        every = list(tools(options.fathom, top, work))

        def rows(case, which, before, cache="warm"):
            ready = {tuple(tool.first): before(tool) for tool in which}

            def one(argv):
                ready[tuple(argv)]()
                os.sync()
                if cache == "cold":
                    ground.remount()
                return runner(argv)

            name = case if cache == "warm" else f"{case}, cold"
            say(f"restic: {fs}, {name}")
            contenders = [Contender(tool.name, tool.first, TRIALS[cache][0]) for tool in which]
            return measure(contenders, options.trials, one, warm_up=name == "first", **about(name))

        found = rows("first", every, lambda tool: tool.fresh)
        time.sleep(SOON)
        for tool in every:
            # Afresh, since the catalog must be newer than all that the other programs did.
            tool.fresh()
            runner(tool.first)
            tool.keep()
        time.sleep(SOON)
        os.sync()
        found += rows("unchanged", every, lambda tool: tool.back)
        for tool in every:
            if tool.name == "restic" and shutil.which("strace"):
                tool.back()
                row = about("unchanged") | {"contender": tool.name, "trial": "calls"}
                found.append(row | run_strace(tool.first, work))

        def stirred(tool):
            def back():
                tool.back()
                with open(beside, "a") as file:
                    file.write("stirred\n")

            return back

        found += rows("unchanged, stirred", [tool for tool in every if tool.name == OURS], stirred)
        tree.change(top, int(tree.files * CHANGED), 1)
        os.sync()
        found += rows("1 % changed", every, lambda tool: tool.back)
        if options.full:
            found += rows("1 % changed", every, lambda tool: tool.back, "cold")
            found += rows("first", every, lambda tool: tool.fresh, "cold")
        subprocess.run(["restic", "-q", "-r", every[0].first[4], "-p", every[0].first[6], "--no-cache", "check"], check=True)
        return found

    return on_ground(options, fs, tree, work, measured)


def bench_restic(options):
    for fs in file_systems(options, FILE_SYSTEMS):
        yield from case_on(options, fs)


def commands():
    return [Contender(tool.name, tool.first) for tool in tools("fathom", "TOP", "WORK")]


def load(run):
    """{(case, file system, entries): {contender: {figure: median}}}"""
    found = {}
    key = lambda row: (row["case"], row["fs"], int(row["entries"]))
    for case, rows in grouped(Path(run) / "restic.csv", key).items():
        by = found.setdefault(case, {})
        for name, own in by_contender(rows):
            timed = [row for row in own if row["trial"] != "calls"]
            figures = {what: median(float(row[what]) for row in timed) for what in ("real", "user", "sys", "maxrss_kib")}
            calls = [int(row["all_calls"]) for row in own if row["all_calls"]]
            by[name] = figures | {"calls": median(calls) if calls else None}
    return found


def targets(run):
    """(what is asked, what was measured, whether it is met, whether this run can tell)"""
    for (case, fs, entries), by in load(run).items():
        least = LEAST.get(fs, {}).get(case)
        if least and {OURS, "restic"} <= by.keys():
            ratio = by["restic"]["real"] / by[OURS]["real"]
            text = f"snapshot, {fs}, {case}: restic ÷ fathom dump --state >= {least}"
            yield text, f"{ratio:.1f} (of {entries:,} entries)", ratio >= least, entries >= ENTRIES


def tables(run):
    for (case, fs, entries), by in load(run).items():
        yield f"## A snapshot of {entries:,} entries, {fs}, {case}"
        yield ""
        rows = []
        for name, figures in by.items():
            calls = None if figures["calls"] is None else f"{figures['calls']:,.0f}"
            seconds = [f"{figures[what]:.3f}" for what in ("real", "user", "sys")]
            rows.append([name, *seconds, f"{figures['maxrss_kib'] / 1024:.0f}", calls])
        yield from table(["program", "s", "user s", "system s", "peak MiB", "calls"], rows)
