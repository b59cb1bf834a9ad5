"""A dump of large files to an S3 server on this machine, against the same dump to a file, and the AWS CLI.

The server is versitygw, on a directory of the scratch directory, where the files and archives also are. Client and server share
the processors, so the CPU time of the server belongs to the result: no client can be faster than that lets it.
"""

import os
import random
import shutil
import subprocess
import time
from pathlib import Path
from statistics import median

from figures import by_contender, grouped, table
from measure import Contender, measure, run
from peers import tools
from walks import join, say

COLUMNS = "bench bytes contender trial real user sys maxrss_kib exit server_cpu".split()
HERE = Path(__file__).resolve().parent
MIB = 1 << 20
FILES, SIZE = 12, 256 * MIB
LEAST, MOST_MIB = 0.8, 256
ADDRESS = "127.0.0.1:7474"
NAME, SECRET = "benchmark", "benchmark-secret"
CLIENT = [
    f"AWS_ACCESS_KEY_ID={NAME}",
    f"AWS_SECRET_ACCESS_KEY={SECRET}",
    "AWS_REGION=us-east-1",
    "AWS_DEFAULT_REGION=us-east-1",
    f"AWS_ENDPOINT_URL=http://{ADDRESS}",
    "AWS_ALLOW_HTTP=true",
    "AWS_EC2_METADATA_DISABLED=true",
]
FILE, OBJECT, UNSIGNED, AWS = "file", "object", "object, unsigned", "aws s3 cp"


def tool(name):
    """A program that tools/setup installs, or of PATH; None if there is neither."""
    places = [str(tools() / "bin" / name), str(tools() / "venv/bin" / name), name]
    return next(filter(None, map(shutil.which, places)), None)


def contenders(fathom, tree, work, aws):
    dump = [fathom, "dump", "-q", tree, "-o"]
    at_server = [*dump, "s3://bucket/a.tar"]
    every = [
        Contender(FILE, [*dump, join(work, "a.tar")]),
        Contender(OBJECT, ["env", *CLIENT, *at_server]),
        Contender(UNSIGNED, ["env", *CLIENT, "AWS_UNSIGNED_PAYLOAD=true", *at_server]),
    ]
    if aws:
        copy = [aws, "s3", "cp", "--quiet", join(work, "ready.tar"), "s3://bucket/a.tar"]
        every.append(Contender(AWS, ["env", *CLIENT, *copy]))
    return every


def commands():
    return contenders("fathom", "TREE", "WORK", "aws")


def bench_object(options):
    server = tool("versitygw")
    if server is None:
        say("object: versitygw is not here; tools/setup test builds it")
        return
    tree, store = (join(options.work, name) for name in ("tree", "store"))
    for directory in (tree, join(store, "bucket")):
        os.makedirs(directory)
    noise = random.Random(1)
    files = FILES // 4 if options.quick else FILES
    for number in range(files):
        with open(join(tree, f"f{number:02}"), "wb") as file:
            for _ in range(SIZE // MIB):
                file.write(noise.randbytes(MIB))
    subprocess.run([options.fathom, "dump", "-q", tree, "-o", join(options.work, "ready.tar")], check=True)
    serve = [server, "--port", ADDRESS, "--access", NAME, "--secret", SECRET, "posix", store]
    process = subprocess.Popen(serve, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(2)

        def cpu():
            words = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

        def one(argv):
            for old in [join(options.work, "a.tar"), join(store, "bucket/a.tar")]:
                Path(old).unlink(missing_ok=True)
            os.sync()
            before = cpu()
            row = run(argv)
            return row | {"server_cpu": round(cpu() - before, 2)}

        say(f"object: {files} files of {SIZE // MIB} MiB")
        every = contenders(options.fathom, tree, options.work, tool("aws"))
        yield from measure(every, options.trials, one, bench="object", bytes=files * SIZE)
    finally:
        process.terminate()
        process.wait()


def load(run_directory):
    """{bytes: {contender: {figure: median}}}"""
    found = {}
    for size, rows in grouped(Path(run_directory) / "object.csv", lambda row: int(row["bytes"])).items():
        by = found.setdefault(size, {})
        for name, own in by_contender(rows):
            figures = ("real", "user", "sys", "maxrss_kib", "server_cpu")
            by[name] = {what: median(float(row[what]) for row in own) for what in figures}
    return found


def targets(run_directory):
    """(what is asked, what was measured, whether it is met, whether this run can tell)"""
    for by in load(run_directory).values():
        ratio = by[FILE]["real"] / by[OBJECT]["real"]
        yield f"large files: dump to a file ÷ to an S3 server here >= {LEAST}", f"{ratio:.2f}", ratio >= LEAST, True
        peak = by[OBJECT]["maxrss_kib"] / 1024
        yield f"large files to an S3 server: peak memory < {MOST_MIB} MiB", f"{peak:.0f}", peak < MOST_MIB, True


def tables(run_directory):
    for size, by in load(run_directory).items():
        yield f"## A dump of {size / 2**30:.0f} GiB of large files to an S3 server"
        yield ""
        rows = []
        for name, figures in by.items():
            seconds = [f"{figures[what]:.2f}" for what in ("real", "user", "sys", "server_cpu")]
            rows.append([name, *seconds, f"{figures['maxrss_kib'] / 1024:.0f}"])
        yield from table(["program", "s", "user s", "system s", "CPU s of the server", "peak MiB"], rows)
