"""The tables, targets and plots of dump.csv."""

from dumps import BARE, GATHERS
from figures import divide, load, table, times
from plots import bars
from trees import FILE_SYSTEMS
from walks import ENTRIES
from walksummary import against, number, per_entry, whole

PEERS = ["tar -g", "bsdtar", "restic", "rustic", "borg"]
OURS = ["dump", "dump, stirred"]
LEAST_UNCHANGED = {"ext4": 15, "xfs": 5, "btrfs": 100, "tmpfs": 3}  # times as fast as tar -g
LEAST_OTHERS = {"restic": 50, "rustic": 50, "borg": 150}  # on ext4
# After other programs have read the tree; with btrfs's search of a tree in which all was written, 30 is out of reach.
LEAST_READ = {"ext4": 15, "xfs": 8, "btrfs": 30}
LEAST_CHANGED = {"ext4": 5, "xfs": 4, "btrfs": 4, "tmpfs": 3}
LEAST_FIRST = {"ext4": 3, "xfs": 2.5, "btrfs": 2.5}
MOST_MIB, MOST_BYTES, FEWER_CALLS = 300, 150, 5
MANY, MOST_MIB_OF_MANY = 10_000_000, 2048
ENOUGH = 250_000  # entries: with fewer, starting and ending count


def read(run):
    return load(run / "dump.csv", "entries")


def of_case(dumps, case, cache="warm", shape="small"):
    """{file system: contenders} of one case."""
    asked = ("dump", f"{case}, {shape}", cache)
    return {c[2]: by for c, by in dumps.items() if (c[0], c[1], c[3]) == asked}


def is_large(dumps):
    counts = [c[4] for c in dumps if c[0] == "dump" and c[1].endswith("small")]
    return bool(counts) and min(counts) >= ENOUGH


# Targets


def targets(dumps):
    """(what is asked, what was measured, whether it is met, whether this run can tell)"""
    large, unchanged = is_large(dumps), of_case(dumps, "unchanged")
    for fs, least in LEAST_UNCHANGED.items():
        by = unchanged.get(fs, {})
        ratios = [(name, divide(by.get("tar -g"), by.get(name))) for name in OURS]
        ratios = [(name, ratio) for name, ratio in ratios if ratio]
        if ratios:
            yield f"nothing changed, {fs}: tar -g ÷ dump >= {least}", *against(least, ratios), large
    by = unchanged.get("ext4", {})
    for peer, least in LEAST_OTHERS.items():
        ratios = [(name, divide(by.get(peer), by.get(name))) for name in OURS]
        ratios = [(name, ratio) for name, ratio in ratios if ratio]
        if ratios:
            yield f"nothing changed, ext4: {peer} ÷ dump >= {least}", *against(least, ratios), large
    for case, leasts in (("read", LEAST_READ), ("1 % changed", LEAST_CHANGED), ("first", LEAST_FIRST)):
        here = of_case(dumps, case)
        for fs, least in leasts.items():
            by = here.get(fs, {})
            ratio = divide(by.get("tar -g"), by.get("dump"))
            floor = divide(by.get("tar -g"), by.get(BARE))
            if ratio:
                shown, met = against(least, [(fs, ratio)])
                shown += f" (bare calls {floor:.2f})" if floor else ""
                yield f"{case}, {fs}: tar -g ÷ dump >= {least}", shown, met, large
    ratios = []
    for fs, by in unchanged.items():
        if "dump percall" in by and "dump raw" in by:
            ratios.append((fs, divide(by["dump percall"], by["dump raw"], "all_calls")))
    if ratios:
        text = f"calls of percall ÷ calls of raw >= {FEWER_CALLS}"
        yield text, *against(FEWER_CALLS, ratios), True
    yield from memory_targets(dumps)


def memory_targets(dumps):
    for (fs, case), by_count in growth(dumps).items():
        counts = sorted(by_count)
        million = by_count.get(ENTRIES)
        if million:
            shown, met = f"{million['maxrss']:.0f} MiB", million["maxrss"] < MOST_MIB
            yield f"memory, {case}, {fs}: under {MOST_MIB} MiB at 1 M files", shown, met, True
        if MANY in by_count:
            shown = f"{by_count[MANY]['maxrss']:.0f} MiB"
            met = by_count[MANY]["maxrss"] < MOST_MIB_OF_MANY
            yield f"memory, {case}, {fs}: under {MOST_MIB_OF_MANY} MiB at 10 M files", shown, met, True
        if len(counts) > 1:
            low, high = counts[-2:]
            more = by_count[high]["maxrss"] - by_count[low]["maxrss"]
            each = more * 2**20 / (high - low)
            text = f"memory, {case}, {fs}: at most {MOST_BYTES} bytes for each further file"
            shown = f"{each:.0f} from {low:,} to {high:,}"
            yield text, shown, each <= MOST_BYTES, high >= ENTRIES


def growth(dumps):
    """{(file system, case): {entries: costs of ours}}"""
    found = {}
    for (bench, case, fs, _, count), by in dumps.items():
        if bench == "growth":
            found.setdefault((fs, case), {})[count] = by["dump"]
    return found


# Tables


def tables(dumps):
    if not dumps:
        return
    yield "## Dumping"
    yield ""
    for shape in ("small", "large"):
        counts = [c[4] for c in dumps if c[0] == "dump" and c[1].endswith(shape)]
        if counts:
            yield f"### {shape.capitalize()} files, median ms"
            yield ""
            yield from times_table(dumps, shape)
    yield from calls_table(dumps)
    yield from gathers_table(dumps)
    yield from memory_table(dumps)


def times_table(dumps, shape):
    here = [c for c in dumps if c[0] == "dump" and c[1].endswith(f", {shape}")]
    names = [name for name in [*OURS, BARE, *PEERS] if any(name in dumps[c] for c in here)]
    rows = []
    for c in here:
        by = dumps[c]
        ours = by.get("dump")
        shown = [whole(by[name]["real"]) if name in by else None for name in names]
        ratios = [times(divide(by.get(name), ours)) for name in names if name in PEERS]
        found = number(ours.get("found"), 0) if ours else None
        rows.append([c[2], c[1].rpartition(",")[0], c[3], f"{c[4]:,}", found, *shown, *ratios])
    head = ["file system", "what", "cache", "entries", "dumped", *names]
    yield from table([*head, *(f"{name} ÷ dump" for name in names if name in PEERS)], rows)
    yield "dump, stirred: something else on the file system has been written since, so that it"
    yield "cannot say that nothing was, and all is looked through; on btrfs what has been written, on XFS the inodes."
    yield "bare calls: a program in C that makes the calls of dump alone: it gathers the metadata (on ext4 from the inode"
    yield "tables, without names; on XFS names only where something has changed), reads the files that were dumped, and writes as many bytes as the archive and the catalog have."
    yield "read: other programs have read every file since the dump before, and its access time has moved."
    yield "bsdtar is told the time of the dump before (--newer-ctime-than): it sees neither"
    yield "removals nor renames."
    yield ""


def calls_table(dumps):
    counted = {c[1]: by for c, by in dumps.items() if c[0] == "calls"}
    rows = []
    for case in ("first", "unchanged"):
        ours = of_case(dumps, case)
        for fs, by in ours.items():
            names = OURS if case == "unchanged" else OURS[:1]
            costs = [by.get(name) for name in names]
            shown = [number(per_entry(cost), 4) if cost else None for cost in costs]
            rows.append([case, fs, *shown, *[None] * (len(OURS) - len(shown) + len(PEERS))])
        if case in counted:
            by = counted[case]
            shown = [number(per_entry(by[name]), 2) if name in by else None for name in PEERS]
            rows.append([case, "(strace)", *[None] * len(OURS), *shown])
    if rows:
        yield "### Calls per entry, small files, warm"
        yield ""
        yield from table(["what", "file system", *OURS, *PEERS], rows)
        yield "Ours by its own count on the tree itself; the peers' by strace on a small tree."
        yield ""


def gathers_table(dumps):
    rows = []
    for fs, by in of_case(dumps, "unchanged").items():
        for gather in GATHERS:
            costs = by.get(f"dump {gather}")
            if costs:
                cells = [whole(costs["real"]), number(costs["user"] * 1000, 0)]
                cells += [number(costs["sys"] * 1000, 0), number(per_entry(costs), 4)]
                rows.append([fs, gather, *cells])
    if rows:
        yield "### The four gatherings: nothing changed, small files, warm"
        yield ""
        head = ["file system", "gather", "median ms", "user ms", "sys ms", "calls per entry"]
        yield from table(head, rows)


def memory_table(dumps):
    found = growth(dumps)
    counts = sorted({count for by_count in found.values() for count in by_count})
    rows = []
    for (fs, case), by_count in found.items():
        shown = [number(by_count[n]["maxrss"], 0) if n in by_count else None for n in counts]
        rows.append([fs, case, *shown])
    if rows:
        yield "### Peak MiB by number of entries, *many*"
        yield ""
        yield from table(["file system", "what", *(f"{count:,}" for count in counts)], rows)
    rows = []
    for (bench, case, fs, cache, _), by in dumps.items():
        if bench == "dump" and cache == "warm" and case.endswith("small"):
            names = ["dump", *PEERS, "nothing"]
            shown = [number(by[name]["maxrss"], 0) if name in by else None for name in names]
            rows.append([fs, case.rpartition(",")[0], *shown])
    if rows:
        yield "### Peak MiB, small files, warm"
        yield ""
        yield from table(["file system", "what", "dump", *PEERS, "(floor)"], rows)


# Plots


def plots(run):
    """(name, SVG) of each plot that this run has the figures for."""
    dumps, source = read(run), run.resolve().name
    for case, name in (("first", "first"), ("unchanged", "unchanged"), ("1 % changed", "changed")):
        groups = {
            f"{fs}, {cache}": {who: by[who]["real"] for who in OURS + PEERS if who in by}
            for fs in FILE_SYSTEMS
            for cache in ("warm", "cold")
            for by in [of_case(dumps, case, cache).get(fs)]
            if by
        }
        if groups:
            title = {"first": "A first dump", "unchanged": "Nothing changed"}.get(case, case)
            title = f"{title}, small files: seconds"
            yield f"dump-{name}", bars(title, groups, OURS, source, log=True)
