"""The trees that are walked: how they look, how they are built fast, and how they are changed.

    many    directories of 0 to 52 files, 27 entries for each directory, 32 directories in each
            that has any: 1,000,000 entries are in 36,672 directories
    huge    four directories with all the files
    deep    chains of 200 directories, each with four files
    small   as many, and every file has data

Of the files one in 16 has data, up to 5,000 bytes, one in 64 is a symbolic link and one in 64 a
second name of another. The rest are empty; in small they have up to 1,500 bytes each, no two alike.
LargeFiles are a few large ones.
"""

import os
import random
from bisect import bisect_right

from namespace import Image, mount, umount

SHAPES = ["many", "huge", "deep"]
FILE_SYSTEMS = ["ext4", "xfs", "btrfs", "tmpfs"]
FANOUT, CHAIN, HUGE = 32, 200, 4
DIRECTORY_NAME, FILE_NAME = "dir-{:05}", "file-{:06}.dat"


class Tree:
    """A tree of `entries` entries, its top among them."""

    def __init__(self, shape, entries):
        self.shape, self.entries = shape, entries
        many = max(1, entries * 36672 // 1_000_000)
        self.directories = {
            "many": many,
            "small": many,
            "huge": HUGE,
            "deep": max(CHAIN, entries // 5),
        }[shape]
        self.files = entries - self.directories - 1
        # Directory i of a cycle has i shares of the files; the others have one share each.
        self.cycle = range(11) if shape in ("many", "small") else [1]
        self.data = os.urandom(1 << 16) if shape == "small" else None
        self.starts = [sum(self.cycle[:i]) for i in range(len(self.cycle) + 1)]
        self.shares = self._shares_before(self.directories)

    def name_bytes(self):
        """The bytes of all names, without the directories that they are in."""
        directory, file = len(DIRECTORY_NAME.format(0)), len(FILE_NAME.format(0))
        return self.directories * directory + self.files * file

    def _shares_before(self, directory):
        cycles, rest = divmod(directory, len(self.cycle))
        return cycles * self.starts[-1] + self.starts[rest]

    def first_file(self, directory):
        """The number of the first file in a directory, counted over the tree."""
        return self.files * self._shares_before(directory) // self.shares

    def parent(self, directory):
        """The directory above, or -1 for the top."""
        if self.shape == "deep":
            return directory - 1 if directory % CHAIN else -1
        return directory // FANOUT - 1

    def children(self, directory):
        """The directories in a directory, or in the top, which is -1."""
        if self.shape != "deep":
            first = FANOUT * (directory + 1)
            return range(first, min(first + FANOUT, self.directories))
        if directory == -1:
            return range(0, self.directories, CHAIN)
        last = (directory + 1) % CHAIN == 0 or directory + 1 == self.directories
        return range(0) if last else range(directory + 1, directory + 2)

    def path(self, directory):
        """The path of a directory, relative to the top; with a slash at the end."""
        path = ""
        while directory != -1:
            path = f"{DIRECTORY_NAME.format(directory)}/{path}"
            directory = self.parent(directory)
        return path

    def build(self, top, processes=None):
        """Make all of it in `top`, the directories in `top` dealt out to processes."""
        processes = processes or os.cpu_count()
        children = []
        for turn in range(processes):
            pid = os.fork()
            if pid == 0:
                status = 1
                try:
                    fd = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
                    for directory in self.children(-1)[turn::processes]:
                        self._build_directory(fd, directory)
                    status = 0
                finally:
                    os._exit(status)
            children.append(pid)
        if any([os.waitpid(pid, 0)[1] for pid in children]):
            raise RuntimeError(f"cannot build {self.entries} entries in {top}")

    def _build_directory(self, above, directory):
        name = DIRECTORY_NAME.format(directory)
        os.mkdir(name, dir_fd=above)
        fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=above)
        first, end = self.first_file(directory), self.first_file(directory + 1)
        last = None
        for number in range(first, end):
            name = FILE_NAME.format(number - first)
            if number % 16 == 3:
                self._write(fd, name, bytes(1 + number * 37 % 5000))
            elif number % 64 == 7:
                os.symlink("file-000000.dat", name, dir_fd=fd)
            elif number % 64 == 9 and last:
                os.link(last, name, src_dir_fd=fd, dst_dir_fd=fd)
            elif self.data:
                place = number * 4099 % (len(self.data) - 1500)
                content = self.data[place : place + 1 + number * 37 % 1500]
                self._write(fd, name, b"%d " % number + content)
                last = name
            else:
                os.mknod(name, dir_fd=fd)
                last = name
        for child in self.children(directory):
            self._build_directory(fd, child)
        os.close(fd)

    @staticmethod
    def _write(fd, name, content):
        file = os.open(name, os.O_WRONLY | os.O_CREAT, dir_fd=fd)
        os.write(file, content)
        os.close(file)

    def some_files(self, count, seed):
        """The paths of `count` files from all over the tree."""
        firsts = [self.first_file(directory) for directory in range(self.directories)]
        for number in sorted(random.Random(seed).sample(range(self.files), count)):
            directory = bisect_right(firsts, number) - 1
            yield self.path(directory) + FILE_NAME.format(number - firsts[directory])

    def change(self, top, count, seed):
        """Change `count` entries: of ten, four are written to, two get another mode, two are new,
        one is removed and one renamed."""
        kinds = ["write"] * 4 + ["chmod"] * 2 + ["create"] * 2 + ["unlink", "rename"]
        for index, path in enumerate(self.some_files(count, seed)):
            path = os.path.join(top, path)
            kind = kinds[index % len(kinds)]
            if kind == "create" or not os.path.isfile(path):
                os.mknod(f"{path}.{seed}")
            elif kind == "write":
                with open(path, "ab") as file:
                    file.write(b"changed")
            elif kind == "chmod":
                os.chmod(path, 0o600)
            elif kind == "unlink":
                os.unlink(path)
            else:
                os.rename(path, f"{path}.renamed")


class LargeFiles:
    """Sixteen files of 128 MiB that do not compress, and the directory that they are in."""

    def __init__(self, quick):
        self.files, self.mebibytes = 16, 4 if quick else 128
        self.entries = self.files + 1

    def name_bytes(self):
        return self.files * len(FILE_NAME.format(0))

    def build(self, top):
        piece = os.urandom(1 << 20)
        for number in range(self.files):
            with open(os.path.join(top, FILE_NAME.format(number)), "wb") as file:
                for at in range(self.mebibytes):
                    file.write(b"%16d" % (number << 20 | at) + piece[16:])

    def change(self, top, count, seed):
        """One file in a hundred is none: a hundredth of one is written anew, in its middle."""
        path = os.path.join(top, FILE_NAME.format(seed % self.files))
        with open(path, "r+b") as file:
            file.seek(self.mebibytes << 19)
            file.write(os.urandom((self.mebibytes << 20) // 100))


def mkfs(fs, entries):
    """What makes a file system with room for `entries` entries; its tables written at once."""
    return {
        "ext4": ["mkfs.ext4", "-q", "-F", "-N", str(entries * 21 // 20 + 1024)]
        + ["-E", "lazy_itable_init=0,lazy_journal_init=0"],
        "xfs": ["mkfs.xfs", "-q", "-f"],
        "btrfs": ["mkfs.btrfs", "-q", "-f"],
    }[fs]


class Ground:
    """A mounted file system for one tree: an image on a loop device, or a tmpfs."""

    def __init__(self, fs, top, scratch, tree):
        self.top, self.fs = top, fs
        if fs == "tmpfs":
            mount("tmpfs", top, "tmpfs", data="nr_inodes=0,size=80%")
        else:
            mebibytes = 4096 + tree.entries * 8 // 1024
            self.image = Image(scratch, mebibytes, fs, mkfs(fs, tree.entries))
            self.image.mount(top)
        if fs == "ext4":
            os.rmdir(os.path.join(top, "lost+found"))
        tree.build(top)
        self.remount()

    def remount(self):
        """Empty the caches of this file system, and of no other. A tmpfs is nothing but cache."""
        if self.fs != "tmpfs":
            umount(self.top)
            self.image.mount(self.top)
