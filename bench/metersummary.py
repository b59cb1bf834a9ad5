"""The table and the targets of account.csv."""

from figures import divide, load, ms, table, times

MOST = {"bpf": 1.25, "perf": 1.7}  # times as long as without a meter
LARGE = {"find": 1_000_000, "opens": 500_000, "compile": 100}  # so many can tell
PEER = "strace --seccomp-bpf -c"


def read(run):
    return load(run / "account.csv", "entries")


def targets(cases):
    """(what is asked, what was measured, whether it is met, whether this run can tell)"""
    for (_, case, _, _, entries), by in cases.items():
        plain, large = by.get("plain"), entries >= LARGE.get(case, 0)
        if case == "find":
            for meter, most in MOST.items():
                ratio = divide(by.get(meter), plain)
                if ratio:
                    text = f"find over 1 M files: {meter} ÷ plain <= {most}"
                    yield text, times(ratio), ratio <= most, large
        ratio = divide(by.get("ptrace"), by.get(PEER))
        if ratio:
            text = f"{case}: ptrace ÷ {PEER}, same calls, <= 1"
            yield text, times(ratio), ratio <= 1, large


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
            [name, ms(cost["real"]), times(divide(cost, plain)), f"{cost['maxrss']:.1f}", cost["trials"]]
            for name, cost in by.items()
        ]
        yield from table(["who", "real ms", "÷ plain", "peak MiB", "trials"], rows)
