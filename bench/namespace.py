"""Private mount namespaces, mount(2) and loop devices, with no command in between.

Nothing here mounts in the namespace that the suite was started in: `in_namespace` makes a child
with its own, private one, and whatever the child mounts dies with it.
"""

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import signal
import struct
import subprocess
import sys
import time
import traceback

MS_RDONLY, MS_REMOUNT, MS_NOATIME, MS_BIND, MS_REC = 0x1, 0x20, 0x400, 0x1000, 0x4000
MS_STRICTATIME = 1 << 24
MS_PRIVATE, MS_SLAVE, MS_SHARED = 1 << 18, 1 << 19, 1 << 20
MNT_FORCE, MNT_DETACH = 1, 2
CLONE_NEWNS = 0x20000
PR_SET_PDEATHSIG = 1
LOOP_CONFIGURE, LOOP_CTL_REMOVE, LOOP_CTL_GET_FREE = 0x4C0A, 0x4C81, 0x4C82
LO_FLAGS_AUTOCLEAR, LO_FLAGS_DIRECT_IO = 4, 16

libc = ctypes.CDLL(None, use_errno=True)
libc.mount.argtypes = [ctypes.c_char_p] * 3 + [ctypes.c_ulong, ctypes.c_char_p]


def check(result, what):
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def mount(source, target, fstype=None, flags=0, data=None):
    words = [None if word is None else os.fsencode(word) for word in (source, target, fstype)]
    options = None if data is None else data.encode()
    check(libc.mount(*words, flags, options), f"mount {target}")


def umount(target):
    for _ in range(100):  # what a program left to the kernel to close keeps it busy for a while
        failed = libc.umount2(os.fsencode(target), 0)
        if not failed or ctypes.get_errno() != errno.EBUSY:
            break
        time.sleep(0.02)
    check(failed, f"umount {target}")


def set_propagation(kind):
    mount(None, "/", None, MS_REC | kind)


def in_namespace(propagation, work):
    """Run `work()` in a child with a mount namespace of its own; return what it returns."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(reader)
            check(libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL), "prctl")
            check(libc.unshare(CLONE_NEWNS), "unshare")
            set_propagation(propagation)
            with os.fdopen(writer, "w") as answer:
                json.dump(work(), answer)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writer)
    try:
        with os.fdopen(reader) as answer:
            text = answer.read()
    except BaseException:  # interrupted: leave nothing mounted behind
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
    if os.waitpid(pid, 0)[1] != 0:
        sys.exit("suite: a measurement failed; see above")
    return json.loads(text)


class Image:
    """A file system in a file without a name, mounted through a loop device.

    The loop device frees itself at unmount and reads past the page cache, so that each mount
    starts with caches of its own, empty. `mkfs` is the command that makes it, less the file.
    """

    def __init__(self, scratch, mebibytes, fstype, mkfs):
        self.fstype = fstype
        self.file = os.open(scratch, os.O_RDWR | os.O_TMPFILE, 0o600)
        os.truncate(self.file, mebibytes << 20)
        command = [*mkfs, f"/proc/self/fd/{self.file}"]
        made = subprocess.run(command, pass_fds=[self.file], capture_output=True, text=True)
        if made.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {made.stderr}")

    def free(self):
        """Frees its blocks, once it is unmounted."""
        os.close(self.file)

    def mount(self, target, flags=0):
        device = self._attach()
        try:
            mount(f"/proc/self/fd/{device}", target, self.fstype, flags | MS_NOATIME)
        finally:
            os.close(device)

    def _attach(self):
        flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO
        info = struct.pack("5Q4I192x", *[0] * 8, flags)
        config = struct.pack("2I", self.file, 0) + info + bytes(64)
        control = os.open("/dev/loop-control", os.O_RDWR)
        try:
            while True:
                number = fcntl.ioctl(control, LOOP_CTL_GET_FREE)
                device = os.open(f"/dev/loop{number}", os.O_RDWR)
                try:
                    fcntl.ioctl(device, LOOP_CONFIGURE, config)
                    return device
                except OSError as error:
                    os.close(device)
                    if error.errno != errno.EBUSY:  # somebody else took it: try the next
                        raise
        finally:
            os.close(control)


def loop_devices():
    return {name for name in os.listdir("/sys/block") if name.startswith("loop")}


@contextlib.contextmanager
def added_loop_devices_removed():
    """Remove, at the end, the unused loop devices that were not there at the start."""
    before = loop_devices()
    try:
        yield
    finally:
        added = loop_devices() - before
        for name in added:
            control = os.open("/dev/loop-control", os.O_RDWR)
            try:
                fcntl.ioctl(control, LOOP_CTL_REMOVE, int(name.removeprefix("loop")))
            except OSError:
                pass  # in use by somebody else
            finally:
                os.close(control)
