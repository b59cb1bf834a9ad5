"""The table and the targets of account.csv."""

from figures import divide, load, ms, table, times

# Times as long as without a meter, by the entries that find examines.
MOST = {1_000_000: {"bpf": 1.20}, 100_000: {"bpf": 1.25}}
LARGE = {"find": 100_000, "opens": 500_000, "compile": 100, "machine": 1000}  # so many can tell
PEER, OF_PEER = "strace --seccomp-bpf -c", 0.55
FLOORS = {"bpf": "floor clock", "ptrace": "floor ptrace"}  # of floor.c
START = 25  # ms of CPU time
MACHINE, MACHINE_MOST = "bpf --system", 1.03


def read(run):
    return load(run / "account.csv", "entries")


def cpu(cost):
    """Seconds of CPU time."""
    return cost["user"] + cost["sys"]


def with_floor(by, meter, peer, ratio):
    """A ratio to a peer, and that of the meter's floor, if this run has it."""
    floor = divide(by.get(FLOORS[meter]), by.get(peer))
    return times(ratio) + (f" (floor {times(floor)})" if floor else "")


def targets(cases):
    """(what is asked, what was measured, whether it is met, whether this run can tell)"""
    for (_, case, _, _, entries), by in cases.items():
        plain, large = by.get("plain"), entries >= LARGE.get(case, 0)
        for meter, most in MOST.get(entries, {}).items() if case == "find" else ():
            ratio = divide(by.get(meter), plain)
            if ratio:
                text = f"find over {entries:,} files: {meter} ÷ plain <= {most:.2f}"
                yield text, with_floor(by, meter, "plain", ratio), ratio <= most, large
        if case == "start" and "bpf" in by:
            took = (cpu(by["bpf"]) - cpu(plain)) * 1000
            yield f"true: bpf - plain <= {START} ms of CPU time", f"{took:.1f} ms", took <= START, True
        ratio = divide(by.get(MACHINE), plain)
        if ratio:
            text = f"build on all processors: {MACHINE} ÷ plain <= {MACHINE_MOST}"
            yield text, times(ratio), ratio <= MACHINE_MOST, large
        ratio = divide(by.get("ptrace"), by.get(PEER)) if case in ("find", "opens") else None
        if ratio:
            text = f"{case}, {entries:,}: ptrace ÷ {PEER}, same calls, <= {OF_PEER}"
            yield text, with_floor(by, "ptrace", PEER, ratio), ratio <= OF_PEER, large


def tables(cases):
    if not cases:
        return
    yield "## What metering costs: fathom account"
    yield ""
    for (_, case, _, _, entries), by in cases.items():
        yield f"### {case}, {entries:,}, on a tmpfs"
        yield ""
        plain = by.get("plain")
        rows = [
            [name, ms(cost["real"]), ms(cpu(cost)), times(divide(cost, plain)), f"{cost['maxrss']:.1f}", cost["trials"]]
            for name, cost in by.items()
        ]
        yield from table(["who", "real ms", "CPU ms", "÷ plain", "peak MiB", "trials"], rows)
