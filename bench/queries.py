"""Questions to a catalog: fathom query against DuckDB on the same file, and against fd, bfs and find on the tree; and what predicates cost.

DuckDB answers the same: names selected by find's rounding of sizes, and in groups a file with several names counts once, in the group
with the least key. It runs in Python, from the environment that tools/setup makes; what its start takes is measured apart.
"""

import json
import os
import subprocess
import time
from pathlib import Path
from statistics import median

from figures import grouped, table
from measure import ENVIRONMENT, Contender, measure, run
from namespace import MS_PRIVATE, in_namespace
from peers import duckdb
from trees import Ground, Tree
from walks import ENGINES, ENTRIES, FEW, join, peers, say

COLUMNS = "bench case fs entries bytes contender trial real user sys maxrss_kib exit found".split()
NAME, SIZE = "*7.dat", "+7"  # more than seven units of 512 bytes

# One row for each file: rows of files with several names are grouped by their inode.
ONE = """
    SELECT {key} AS key, count(*) AS n, sum(size) AS bytes, sum(blocks) * 512 AS allocated FROM c
    WHERE nlink = 1 OR mode >> 12 = 4 GROUP BY key
    UNION ALL
    SELECT key, count(*), sum(bytes), sum(blocks) * 512 FROM (
        SELECT min({key}) AS key, any_value(size) AS bytes, any_value(blocks) AS blocks FROM c
        WHERE nlink > 1 AND mode >> 12 <> 4 GROUP BY dev_major, dev_minor, ino) GROUP BY key
"""
# Directories count in themselves, down to a depth of 2; everything else in its directory. Only then are paths cut.
OWN = """CASE WHEN mode >> 12 = 4 AND name <> '' AND NOT contains(decode(dir), '/')
    THEN ltrim(decode(dir) || '/' || decode(name), '/') ELSE decode(dir) END"""
SUMS = "sum(n) AS n, sum(bytes) AS bytes, sum(allocated) AS allocated"
SQL = {
    "name and size": "SELECT dir, name FROM c WHERE size > 3584 AND suffix(decode(name), '7.dat')",
    "owner": f"SELECT key, {SUMS} FROM ({ONE.format(key='uid')}) GROUP BY key",
    "dir:2": f"SELECT array_to_string(string_split(key, '/')[:2], '/') AS top, {SUMS} FROM ({ONE.format(key=OWN)}) GROUP BY top",
}
OURS = {
    "name and size": ["--name", NAME, "--size", SIZE, "--format", "paths0"],
    "owner": ["--group-by", "owner"],
    "dir:2": ["--group-by", "dir:2"],
}
DUCKDB = """
import duckdb, sys
duckdb.sql("SET enable_progress_bar = false")
duckdb.sql("CREATE VIEW c AS SELECT * FROM '" + sys.argv[1] + "'")
print(len(duckdb.sql(sys.argv[2]).fetchall()) if sys.argv[2:] else 0)
"""


def on_catalog(fathom, catalog):
    """{case: contenders}"""
    known = duckdb()
    for case, words in OURS.items():
        programs = [Contender("fathom query", [fathom, "query", catalog, "-q", *words])]
        if known:
            python = [known[0], "-c", DUCKDB, catalog]
            programs.append(Contender("duckdb", [*python, SQL[case]]))
            programs.append(Contender("duckdb start", python))
        yield case, programs


def on_tree(fathom, top):
    walk = [fathom, "walk", top, "-q", "--format", "paths0", "--name", NAME]
    names = [Contender("fathom walk threads", [*walk, "--engine", "threads"]), Contender("fathom walk", walk)]
    few = 2  # who calls statx for every name
    yield "name, on the tree", names + peers(
        ("fd", ["-u", "-0", "--glob", NAME, top], None),
        ("bfs", [top, "-name", NAME, "-print0"], None),
        ("find", [top, "-name", NAME, "-print0"], None),
    )
    yield "name and size, on the tree", [Contender("fathom walk", [*walk, "--size", SIZE])] + peers(
        ("fd", ["-u", "-0", "--glob", NAME, "--size", "+3585b", top], few),
        ("bfs", [top, "-name", NAME, "-size", SIZE, "-print0"], few),
        ("find", [top, "-name", NAME, "-size", SIZE, "-print0"], few),
    )


def with_predicates(fathom, top, engine):
    """A walk, and the same with predicates that test each entry."""
    walk = [fathom, "walk", top, "-q", "--engine", engine, "--format", "summary"]
    return [Contender("all", walk), Contender("predicates", [*walk, "--name", NAME, "--size", SIZE])]


def commands():
    cases = [*on_catalog("fathom", "CATALOG"), *on_tree("fathom", "TREE")]
    cases += [("predicates", with_predicates("fathom", "TREE", "ENGINE"))]
    return [Contender(c.name, ["python3 -c ..."]) if "duckdb" in c.name else c for _, some in cases for c in some]


def first_byte(argv):
    """One run, as measure.run; real is until the first byte of its output."""
    out, into = os.pipe()
    start = time.perf_counter()
    with subprocess.Popen(argv, stdout=into, stderr=subprocess.DEVNULL, env=ENVIRONMENT) as process:
        os.close(into)
        found = os.read(out, 1)
        real = time.perf_counter() - start
        while os.read(out, 1 << 16):
            pass
        os.close(out)
    return {"real": round(real, 6), "exit": process.returncode, "found": len(found)}


def found(argv):
    """How many rows a program finds."""
    out = subprocess.run(argv, capture_output=True, env=ENVIRONMENT, check=True).stdout
    if argv[1] == "query" and "--group-by" in argv:
        out = subprocess.run([*argv, "--json"], capture_output=True, env=ENVIRONMENT, check=True).stdout
        return len(json.loads(out)["result"]["groups"])
    return out.count(b"\0") or int(out or 0)


def measured(options, about, cases):
    for case, programs in cases:
        say(f"query: {case}")
        counts = {c.name: found(c.argv) for c in programs if c.name != "duckdb start"}
        if len(set(counts.values())) != 1:
            raise RuntimeError(f"{case}: they find {counts}")
        for row in measure(programs, options.trials, run, case=case, **about):
            yield row | {"found": counts.get(row["contender"], "")}


def bench_query(options):
    entries = options.entries or (FEW if options.quick else 10_000_000 if options.full else ENTRIES)
    top, catalog = join(options.work, "tree"), join(options.work, "c.parquet")
    os.mkdir(top)

    def all_cases():
        say(f"query: a tree of {entries:,} entries on ext4")
        ground = Ground("ext4", top, options.scratch, Tree("many", entries))
        subprocess.run([options.fathom, "walk", ground.top, "-q", "--catalog", catalog], check=True, stdout=subprocess.DEVNULL)
        about = {"bench": "query", "fs": "ext4", "entries": entries, "bytes": os.path.getsize(catalog)}
        rows = [*measured(options, about, on_catalog(options.fathom, catalog))]
        first = [Contender("fathom query", [options.fathom, "query", catalog, "-q", *OURS["name and size"]])]
        rows += measure(first, options.trials, first_byte, case="first row", **about)
        return rows + [*measured(options, about, on_tree(options.fathom, ground.top))]

    def predicates(fs, engine):
        say(f"query: predicates by {engine}")
        count = min(entries, ENTRIES)
        ground = Ground(fs, top, options.scratch, Tree("many", count))
        about = {"bench": "query", "case": f"predicates by {engine}", "fs": fs, "entries": count, "bytes": ""}
        return measure(with_predicates(options.fathom, ground.top, engine), options.trials, run, **about)

    yield from in_namespace(MS_PRIVATE, all_cases)
    for fs, engine in ENGINES.items():
        yield from in_namespace(MS_PRIVATE, lambda fs=fs, engine=engine: predicates(fs, engine))


def load(run):
    """{(entries, bytes of the catalog, if one is read): {case: {contender: (seconds, CPU seconds, MiB, found)}}}, the medians."""
    runs = {}
    for key, rows in grouped(Path(run) / "query.csv", lambda row: (int(row["entries"]), int(row["bytes"] or 0))).items():
        cases = runs.setdefault(key, {})
        for case, name in dict.fromkeys((row["case"], row["contender"]) for row in rows):
            own = [row for row in rows if (row["case"], row["contender"]) == (case, name)]
            real = median(float(row["real"]) for row in own)
            cpu = median(float(row["user"] or 0) + float(row["sys"] or 0) for row in own)
            memory = max(int(row["maxrss_kib"] or 0) for row in own) / 1024
            cases.setdefault(case, {})[name] = real, cpu, memory, own[0]["found"]
    return runs


def duckdb_seconds(by):
    """Without its start."""
    return by["duckdb"][0] - by["duckdb start"][0]


def targets(run):
    """(what is asked, what was measured, whether it is met, whether this run can tell)"""
    for (entries, size), cases in load(run).items():
        if not size:
            yield from targets_of_predicates(entries, cases)
            continue
        enough = entries >= 10_000_000
        for case, most in {"name and size": 1.0, "owner": 1.0, "dir:2": 1.2}.items():
            by = cases[case]
            if "duckdb" in by:
                share = by["fathom query"][0] / duckdb_seconds(by)
                yield f"query {case}: at most {most:g} times DuckDB's time", f"{share:.2f}", share <= most, enough
        seconds = cases["first row"]["fathom query"][0]
        yield "query: the first row of a selective query within 50 ms", f"{1000 * seconds:.0f} ms", seconds <= 0.05, enough
        memory = max(by["fathom query"][2] for by in cases.values() if "fathom query" in by)
        yield "query: at most 128 MiB", f"{memory:.0f} MiB", memory <= 128, enough
        for peer in ("fd", "bfs"):
            by = cases["name, on the tree"]
            if peer in by:
                share = by["fathom walk threads"][0] / by[peer][0]
                yield f"walk --name by threads: at most the time of {peer}", f"{share:.2f}", share <= 1.05, entries >= ENTRIES


def targets_of_predicates(entries, cases):
    for case, by in cases.items():
        share = by["predicates"][0] / by["all"][0]
        yield f"walk with {case}: at most 1.10 times the walk without", f"{share:.2f}", share <= 1.1, entries >= ENTRIES


def tables(run):
    for (entries, size), cases in load(run).items():
        what = f"Questions to a catalog of {entries:,} entries, {size / 1e6:.0f} MB" if size else f"A walk of {entries:,} entries, with predicates and without"
        yield f"## {what}"
        yield ""
        rows = [
            [case, name, f"{real:.3f}", f"{cpu:.3f}", f"{memory:.0f}", count]
            for case, by in cases.items()
            for name, (real, cpu, memory, count) in by.items()
        ]
        yield from table(["question", "program", "s", "CPU s", "MiB", "found"], rows)
