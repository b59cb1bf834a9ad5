"""Virtual machines, for tools/guest."""
import collections
import dataclasses
import glob
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import time

# name: that of the architecture in Rust and QEMU. output: a second serial port, which is attached by the options in serial.
Machine = collections.namedtuple("Machine", ["name", "model", "console", "output", "serial"])
# By the architecture's name in Debian.
MACHINES = {
    "amd64": Machine("x86_64", ["-machine", "q35", "-cpu", "max"], "ttyS0", "ttyS1", ["-serial", "chardev:out"]),
    # Emulating the standard algorithm of pointer authentication would take half of the time.
    "arm64": Machine("aarch64", ["-machine", "virt", "-cpu", "max,pauth-impdef=on"], "ttyAMA0", "ttyS0",
                     ["-device", "pci-serial,chardev=out"]),
}
HOST = next((arch for arch, machine in MACHINES.items() if machine.name == os.uname().machine), None)


@dataclasses.dataclass
class Hardware:
    """The options of tools/guest with these names."""
    cpus: int = 2
    memory: int = 1024
    accel: str | None = None
    icount: bool = False


class Impossible(Exception):
    """Why there is no guest."""


def run(command, **options):
    try:
        return subprocess.run(command, check=True, text=True, capture_output=True, **options).stdout
    except FileNotFoundError:
        packages = {"qemu-system-x86_64": "qemu-system-x86", "qemu-system-aarch64": "qemu-system-arm", "depmod": "kmod",
                    "mkfs.ext4": "e2fsprogs", "dpkg-deb": "dpkg"}
        raise Impossible(f"no {command[0]}; install {packages.get(command[0], command[0])}")
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip() or error.stdout.strip()).splitlines()[-3:]
        raise Impossible(f"{' '.join(command[:3])} failed: {'; '.join(last)}")


def say(text):
    print(f"guest: {text}", file=sys.stderr, flush=True)


def parse_kernel(name):
    """Version, architecture and flavour of a KERNEL."""
    parts = re.fullmatch(rf"([0-9.]+)(?:-({'|'.join(MACHINES)}))?(?:-(\d+k|generic))?", name)
    arch = parts and (parts[2] or HOST)
    if arch not in MACHINES:
        raise Impossible(f"the name of a kernel is VERSION[-ARCH][-PAGES|-generic], with an ARCH of {', '.join(MACHINES)}")
    flavours = {None: f"cloud-{arch}", "generic": arch}
    return parts[1], arch, flavours.get(parts[3], f"{arch}-{parts[3]}")


def version_of(name):
    return [int(part) for part in re.findall(r"\d+", name)]


def machine_of(name):
    return MACHINES[parse_kernel(name)[1]]


def start_hub(many, work):
    """A QEMU without a machine that passes each packet to all guests, and a socket for each of them."""
    os.mkdir(work)
    ours, theirs = zip(*(socket.socketpair() for _ in range(many)))
    command = ["qemu-system-" + MACHINES[HOST].name, "-machine", "none", "-nodefaults", "-display", "none"]
    for port, ending in enumerate(theirs):
        command += ["-netdev", f"socket,id=guest{port},fd={ending.fileno()}",
                    "-netdev", f"hubport,id=port{port},hubid=0,netdev=guest{port}"]
    with open(work + "/console", "w") as console:  # it warns that no machine is connected
        hub = start_qemu(command, theirs, console)
    for ending in theirs:
        ending.close()
    return hub, ours


def start(name, home, disks, work, hardware=Hardware(), share=None, link=None):
    """A machine with the kernel in the directory home, whose modules are its third disk. Its network is one end of a pair of
    sockets."""
    machine = machine_of(name)
    # Linux 7 patches __schedule() while the other processor runs it, and a processor in a thread of its own executes the
    # half-written instruction: "Oops: int3".
    accel = hardware.accel or ("tcg,thread=single" if version_of(name)[0] >= 7 else "tcg")
    command = ["qemu-system-" + machine.name, *machine.model, "-accel", accel, "-nodefaults", "-no-reboot",
               "-display", "none", "-smp", str(hardware.cpus), "-m", str(hardware.memory),
               "-kernel", home + "/vmlinuz", "-initrd", home + "/first", "-append", f"console={machine.console} panic=-1 quiet",
               "-serial", f"file:{work}/console", "-chardev", "stdio,id=out,signal=off", *machine.serial,
               "-device", "virtio-rng-pci"]
    if hardware.icount:
        # A guest that waits for another one needs the time that passes.
        command += ["-icount", "shift=0,sleep=" + ("on" if link else "off")]
    if link:  # each end has another number
        command += ["-netdev", f"socket,id=link,fd={link.fileno()}",
                    "-device", f"virtio-net-pci,netdev=link,mac=52:54:00:00:00:{link.fileno():02x},romfile="]
    if share:
        command += ["-virtfs", f"local,path={share},mount_tag=share,security_model=passthrough"]
    for path, option in [*disks[:2], (home + "/modules", "readonly=on"), *disks[2:]]:
        command += ["-drive", f"file={path},if=virtio,format=raw,{option}"]
    return start_qemu(command, [link] if link else [])


def start_qemu(command, links, stderr=None):
    links = [link.fileno() for link in links]
    try:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, pass_fds=links)
    except FileNotFoundError:
        raise Impossible(f"no {command[0]}; install qemu-system")


def end(*machines):
    for machine in machines:
        machine.kill()
        machine.wait()


class Output:
    """What the scripts have printed: the exit statuses of those that have ended, and whether any has begun."""

    def __init__(self, others):
        self.statuses, self.begun, self.others = [], False, others

    def read(self, line):
        """Reads a line, and stops or continues another guest if it says so."""
        if exited := re.match(r"== .*: exit (\d+)\r?$", line):
            self.statuses.append(int(exited[1]))
        if (told := re.match(r"-- (\w+): (stop|continue)\r?$", line)) and told[1] in self.others:
            self.others[told[1]].send_signal(signal.SIGSTOP if told[2] == "stop" else signal.SIGCONT)
        self.begun |= line.startswith("== ")


def watch(machine, console, patience, out=sys.stdout.buffer, others={}):
    """Prints what the scripts print until the machine stops; returns that Output, and why the machine was ended, if it was."""
    output, line, last, size = Output(others), b"", time.monotonic(), 0
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(machine.stdout, selectors.EVENT_READ)
            while time.monotonic() - last <= patience:
                if selector.select(timeout=1):
                    got = os.read(machine.stdout.fileno(), 65536)
                    if not got:
                        return output, None
                    last = time.monotonic()
                    out.write(got)
                    out.flush()
                    *lines, line = (line + got).split(b"\n")
                    for each in lines:
                        output.read(each.decode(errors="replace"))
                grown = os.path.getsize(console) if os.path.exists(console) else 0
                if grown != size:
                    last, size = time.monotonic(), grown
        return output, f"no output for {patience} s"
    finally:
        end(machine, *others.values())


def why_ended(ended, work):
    """The reason, with the last lines of the consoles of all guests."""
    reason = f"the guest {'was ended: ' + ended if ended else 'stopped'}"
    for path in sorted(glob.glob(f"{work}/**/console", recursive=True)):
        name = os.path.relpath(os.path.dirname(path), work)
        with open(path, errors="replace") as console:
            reason += f"; the last lines of the console{'' if name == '.' else ' of ' + name}:\n" + "".join(console.readlines()[-20:])
    return reason
