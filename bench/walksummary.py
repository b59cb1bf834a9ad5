"""The tables, targets and plots of walk.csv, changed.csv and growth.csv."""

from figures import divide, load, table, times
from plots import bars, lines
from walks import CHANGED, ENGINES, ENTRIES, FORMATS, JOBS

BFS = ["bfs -size", "bfs-4.1 -size"]
PEERS = ["find -printf", "find -size", *BFS, "fd -S", "du -s", "dust", "pdu"]
CHANGED_PEERS = ["tar -g", "find -cnewer", "rsync -n"]
LEAST = {  # times as fast as bfs -size: warm, cold
    "threads": (2, 1.5),
    "bulkstat": (3, 2),
    "btrfs": (4, 4),
    "ext4": (12, 8),
}
LEAST_CHANGED = {"ext4": 20, "xfs": 6, "btrfs": 200, "tmpfs": 4}  # times as fast as tar -g
CATALOG_MS, MOST_MIB, MOST_BYTES = 400, 400, 60


def engines(by):
    return [name for name in ("stat", "threads", *ENGINES.values(), "auto") if name in by]


def fastest(by, names):
    return min((by[name] for name in names if name in by), key=lambda c: c["real"], default=None)


def per_entry(costs, key="all_calls"):
    return costs[key] / costs["entries"] if costs.get(key) is not None else None


def catalog_ms(by):
    """What the catalog costs beside the summary, in milliseconds per million entries."""
    return (by["catalog"]["real"] - by["summary"]["real"]) / by["summary"]["entries"] * 1e9


def bytes_beside_names(costs):
    """All of the peak memory, less the names, by entry."""
    return (costs["maxrss"] * 2**20 - costs["name_bytes"]) / costs["entries"]


def whole(seconds):
    return None if seconds is None else f"{seconds * 1000:,.{0 if seconds >= 0.1 else 1}f}"


def number(value, digits=2):
    return None if value is None else f"{value:,.{digits}f}"


# Targets


def against(least, ratios):
    """The ratios with those in bold that are too small, and whether none is."""
    met = all(ratio >= least for _, ratio in ratios)
    marks = ("" if ratio >= least else "**" for _, ratio in ratios)
    shown = (f"{what} {mark}{ratio:.2f}{mark}" for mark, (what, ratio) in zip(marks, ratios))
    return ", ".join(shown), met


def targets(walks, changed, growth):
    """(what is asked, what was measured, whether it is met, whether this run can tell)"""
    for engine, asked in LEAST.items():
        for cache, least in zip(("warm", "cold"), asked):
            here = {c: by for c, by in walks.items() if c[0] == "walk" and c[3] == cache}
            here = {c: by for c, by in here.items() if engine in by and fastest(by, BFS)}
            if here:
                ratios = [
                    (f"{c[2]} {c[1]}", divide(fastest(by, BFS), by[engine]))
                    for c, by in here.items()
                ]
                large = min(c[4] for c in here) >= ENTRIES
                yield f"{cache}: bfs -size ÷ {engine} >= {least}", *against(least, ratios), large
    here = {c: by for c, by in walks.items() if c[0] == "output" and "catalog" in by}
    if here:
        cost = [(c[2], catalog_ms(by)) for c, by in here.items()]
        shown = ", ".join(f"{fs} {ms:.0f}" for fs, ms in cost)
        text = f"the catalog costs at most {CATALOG_MS} ms per million entries"
        large = min(c[4] for c in here) >= ENTRIES
        yield text, shown, all(ms <= CATALOG_MS for _, ms in cost), large
    for (_, case, fs, _, count), by in changed.items():
        ratio = divide(by.get("tar -g"), by.get("changed"))
        if case == "0" and ratio:
            least = LEAST_CHANGED[fs]
            text = f"nothing changed, {fs}: tar -g ÷ changed >= {least}"
            yield text, times(ratio), ratio >= least, count >= ENTRIES
    yield from memory_targets(growth)
    digests = {
        c: set().union(*(costs["digest"] for costs in by.values())) for c, by in walks.items()
    }
    if any(digests.values()):
        wrong = [" ".join(c[1:4]) for c, different in digests.items() if len(different) > 1]
        shown = "not on " + ", ".join(wrong) if wrong else "on all trees"
        yield "all engines give one digest", shown, not wrong, True


def memory_targets(growth):
    for fs in dict.fromkeys(c[2] for c in growth):
        count, case = max((c[4], c) for c in growth if c[2] == fs)
        large = growth[case]
        for engine in engines(large):
            if engine in ("stat", "threads"):
                peak = large[engine]["maxrss"]
                text = f"{engine}, {fs}: at most {MOST_MIB} MiB at 10 M entries"
                shown = f"{peak:.0f} MiB at {count:,}"
                yield text, shown, peak <= MOST_MIB, count >= 10 * ENTRIES
            else:
                bytes_each = bytes_beside_names(large[engine])
                text = f"{engine}, {fs}: at most {MOST_BYTES} bytes an entry beside the names"
                shown = f"{bytes_each:.0f} at {count:,}"
                yield text, shown, bytes_each <= MOST_BYTES, count >= ENTRIES


# Tables


def tables(walks, changed, growth):
    walked = {c: by for c, by in walks.items() if c[0] == "walk"}
    if walked:
        yield f"## Walking {max(c[4] for c in walked):,} entries"
        yield ""
        for cache in dict.fromkeys(c[3] for c in walked):
            here = {c: by for c, by in walked.items() if c[3] == cache}
            yield from times_table(here, cache)
            yield from ratios_table(here, cache)
        yield from threads_table(walked)
        yield from calls_table(walked, walks)
        yield from outputs_table({c: by for c, by in walks.items() if c[0] == "output"})
    if changed:
        yield f"## What has changed, of {max(c[4] for c in changed):,} entries"
        yield ""
        yield from changed_table(changed)
    if growth:
        yield "## Growth"
        yield ""
        yield from growth_tables(growth)


def times_table(here, cache):
    yield f"### {cache}, median ms"
    yield ""
    peers = [name for name in PEERS if any(name in by for by in here.values())]
    rows = []
    for (_, shape, fs, _, _), by in here.items():
        below, auto = ENGINES.get(fs), by.get("auto")
        ours = [by.get(name, {}).get("real") for name in ("stat", "threads", below, "auto")]
        theirs = [by.get(name, {}).get("real") for name in peers]
        chosen = " ".join(sorted(auto["engine"])) if auto else None
        rows.append([fs, shape, *map(whole, ours), chosen, *map(whole, theirs)])
    head = ["file system", "shape", "stat", "threads", "below", "auto", "auto is", *peers]
    yield from table(head, rows)
    yield "below: the engine below the file API, bulkstat on XFS, btrfs and ext4 on theirs."
    yield ""


def ratios_table(here, cache):
    yield f"### {cache}, many: the peers' times ÷ each engine's"
    yield ""
    for (_, shape, fs, _, _), by in here.items():
        if shape == "many":
            names = engines(by)
            rows = [
                [name, *(times(divide(by[name], by[engine])) for engine in names)]
                for name in PEERS
                if name in by
            ]
            yield from table([fs, *(f"÷ {name}" for name in names)], rows)


def threads_table(walked):
    rows = []
    for (_, shape, fs, cache, _), by in walked.items():
        for who in ("threads", *ENGINES.values(), "bfs-4.1"):
            costs = [by.get(f"{who}/{jobs}") for jobs in JOBS]
            if any(costs):
                default = by.get(who) or by.get(f"{who} -size")
                shown = [whole(c["real"]) if c else None for c in [*costs, default]]
                rows.append([who, fs, shape, cache, *shown])
    if rows:
        yield "### By number of threads, median ms"
        yield ""
        head = ["who", "file system", "shape", "cache", *map(str, JOBS), "by itself"]
        yield from table(head, rows)


def calls_table(walked, walks):
    yield "### Calls per entry, and peak memory; warm"
    yield ""
    rows = []
    for (_, shape, fs, cache, _), by in walked.items():
        if cache == "warm":
            calls = [by.get(name, {}) for name in ("stat", "threads", ENGINES.get(fs), "auto")]
            calls = [number(per_entry(costs), 4) if costs else None for costs in calls]
            rows.append([fs, shape, *calls])
    yield from table(["calls per entry", "shape", "stat", "threads", "below", "auto"], rows)
    counted = {c[1]: by for c, by in walks.items() if c[0] == "calls"}
    if counted:
        rows = [
            [name, *(number(per_entry(by[name])) for by in counted.values() if name in by)]
            for name in PEERS
            if any(name in by for by in counted.values())
        ]
        yield from table(["calls per entry", *counted], rows)
        count = next(c[4] for c in walks if c[0] == "calls")
        yield f"By strace, on trees of {count:,} entries, less what `--version` takes."
        yield ""
    here = {c: by for c, by in walked.items() if c[1] == "many" and c[3] == "warm"}
    names = ["stat", "threads", *ENGINES.values(), "auto", *PEERS, "nothing"]
    names = [n for n in names if any(n in by for by in here.values())]
    rows = [
        [name, *(number(by[name]["maxrss"], 0) if name in by else None for by in here.values())]
        for name in names
    ]
    yield from table(["peak MiB, many", *(c[2] for c in here)], rows)


def outputs_table(here):
    rows = []
    for (_, _, fs, _, _), by in here.items():
        costs = [by.get(name) for name in [*FORMATS, "catalog"]]
        more = number(catalog_ms(by), 0) if {"catalog", "summary"} <= set(by) else None
        rows.append([fs, *(whole(c["real"]) if c else None for c in costs), more])
    if rows:
        yield "### What the output costs; many, warm, median ms"
        yield ""
        head = ["file system", *FORMATS, "catalog", "catalog: more ms per million entries"]
        yield from table(head, rows)
        yield "All but the catalog go to /dev/null; that is written to the disk."
        yield ""


def changed_table(changed):
    rows = []
    for (_, case, fs, _, _), by in changed.items():
        costs = [by.get(name) for name in ("changed", *CHANGED_PEERS)]
        shown = [whole(c["real"]) if c else None for c in costs]
        ratios = [times(divide(c, costs[0])) for c in costs[1:]]
        ours = costs[0] or {}
        found = number(ours.get("found"), 0)
        rows.append([fs, case, found, number(ours.get("all_calls"), 0), *shown, *ratios])
    head = ["file system", "changed", "found", "calls", "fathom changed ms"]
    head += [f"{name} ms" for name in CHANGED_PEERS]
    yield from table([*head, *(f"{name} ÷ changed" for name in CHANGED_PEERS)], rows)


def growth_tables(growth):
    here = {name for by in growth.values() for name in by}
    names = ["stat", "threads", *ENGINES.values(), "auto --catalog", *PEERS]
    names = [name for name in names if name in here]
    for key, what in (("real", "Median ms"), ("maxrss", "Peak MiB")):
        yield f"### {what}"
        yield ""
        rows = []
        for (_, _, fs, _, count), by in growth.items():
            values = [by.get(name, {}).get(key) for name in names]
            shown = map(whole, values) if key == "real" else (number(v, 0) for v in values)
            floor = [] if key == "real" else [number(by["nothing"]["maxrss"], 0)]
            rows.append([fs, f"{count:,}", *shown, *floor])
        floor = [] if key == "real" else ["(floor)"]
        yield from table(["file system", "entries", *names, *floor], rows)


# Plots


def plots(run):
    """(name, SVG) of each plot that this run has the figures for."""
    source = run.resolve().name
    walks = load(run / "walk.csv", "entries")
    changed = load(run / "changed.csv", "entries")
    growth = load(run / "growth.csv", "entries")
    for cache in ("warm", "cold"):
        groups = {
            f"{c[2]}": {
                name: by[name]["real"]
                for name in ["stat", "threads", ENGINES.get(c[2]), *PEERS]
                if name in by
            }
            for c, by in walks.items()
            if c[0] == "walk" and c[1] == "many" and c[3] == cache
        }
        if groups:
            count = max(c[4] for c in walks)
            title = f"Walking {count:,} entries, {cache}: seconds"
            yield f"walk-{cache}", bars(title, groups, OURS, source)
        series = {}
        for c, by in walks.items():
            if c[0] == "walk" and c[1] == "many" and c[3] == cache:
                for who in ("threads", ENGINES.get(c[2])):
                    points = [(j, by[f"{who}/{j}"]["real"]) for j in JOBS if f"{who}/{j}" in by]
                    if points:
                        series[f"{who}, {c[2]}" if who == "threads" else who] = points
        if series:
            title = f"The same by number of threads, {cache}"
            yield f"threads-{cache}", lines(title, series, "threads", "seconds", source)
    if changed:
        groups = {}
        for (_, case, fs, _, _), by in changed.items():
            if case in ("0", list(CHANGED)[-1]):
                title = f"{fs}, {'nothing' if case == '0' else case} changed"
                names = ["changed", *CHANGED_PEERS]
                groups[title] = {name: by[name]["real"] for name in names if name in by}
        count = max(c[4] for c in changed)
        title = f"What has changed among {count:,} entries: seconds"
        yield "changed", bars(title, groups, ["changed"], source, log=True)
    for key, unit in (("real", "seconds"), ("maxrss", "MiB")):
        for fs in dict.fromkeys(c[2] for c in growth):
            series = {}
            for c, by in sorted(growth.items()):
                if c[2] == fs:
                    older = BFS[0] if BFS[1] in by else None
                    for name in (n for n in by if n not in ("nothing", older)):
                        series.setdefault(name, []).append((c[4], by[name][key]))
            title = f"{fs}: {'time' if key == 'real' else 'peak memory'} by number of entries"
            yield f"growth-{unit.lower()}-{fs}", lines(title, series, "entries", unit, source)


OURS = ["stat", "threads", *ENGINES.values()]
