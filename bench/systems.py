"""The synthetic systems of the search benchmark: from a row of systems.csv to a mounted tree.

    ROOT/bin, etc, lib ...     root_dirs plain directories of root_files files each
    ROOT/cad | zoo             the bushy directory, bushy_in = root, before | after the mounts
    ROOT/u000 ...              the leaves, leaf_at = 1; at 2 home/u000, at 3 export/home/u000 ...
    ROOT/usr0 ...              the holders: file systems on which the nested ones are mounted
    ROOT/usr0/font | zoo       the bushy directory, bushy_in = holder
    ROOT/usr0/src000, ROOT/usr0/spool/news001, ROOT/usr0/src000/sub
                               the nested mounts; the last where nesting > 2

Each leaf holds `files` files, spread evenly over a tree of directories `depth` deep in which each
directory has `fanout` others. Files are empty. Entries are made so that readdir gives them in
the order of their names.
"""

import csv
import os
from pathlib import Path

from namespace import MS_RDONLY, Image, mount, umount

TEXT_COLUMNS = ("name", "bushy_in", "bushy_when", "shape")
ROOT_DIRS = ["bin", "boot", "etc", "lib", "lost+found", "mnt", "sbin", "stand", "tmp"]
ABOVE_LEAVES = ["", "home", "export/home", "export/site/home"]


def read_systems():
    with open(Path(__file__).with_name("systems.csv"), newline="") as table:
        rows = list(csv.DictReader(table))
    return [{k: v if k in TEXT_COLUMNS else int(v) for k, v in row.items()} for row in rows]


def join(*parts):
    return "/".join(part for part in parts if part)


class System:
    """The mounts of one system, each with the directories and files that it holds."""

    def __init__(self, row):
        self.row = row
        self.mounts = {"": (set(), set())}  # path: (directories, files), relative to ROOT
        self._lay_out()
        self.paths = sorted(self.mounts, key=lambda path: (path.count("/") + bool(path), path))

    def entries(self):
        return sum(len(dirs) + len(files) for dirs, files in self.mounts.values())

    def _lay_out(self):
        row = self.row
        holders = [f"usr{i}" for i in range(row["holders"])]
        for holder in holders:
            self._add_mount("", holder)
            for name in ("bin", "lib"):
                self._fill(holder, join(holder, name), row["root_files"], 0, 0)
        for i in range(row["nested"]):
            chain, link = divmod(i, row["nesting"] - 1)
            if link:
                parent, path = path, join(path, "sub")
            else:
                parent = holders[chain % len(holders)]
                odd = chain // len(holders) % 2
                path = join(parent, f"spool/news{i:03}" if odd else f"src{i:03}")
            self._add_mount(parent, path)
        above = ABOVE_LEAVES[min(row["leaf_at"], len(ABOVE_LEAVES)) - 1]
        above += "/more" * max(0, row["leaf_at"] - len(ABOVE_LEAVES))
        leaves = [join(above, f"u{i:03}") for i in range(row["mounts"] - len(self.mounts) + 1)]
        for leaf in leaves:
            self._add_mount("", leaf)
        for path in list(self.mounts):
            if path and path not in holders:
                self._fill(path, path, row["files"], row["depth"], row["fanout"])
        for i in range(row["root_dirs"]):
            name = ROOT_DIRS[i % len(ROOT_DIRS)] + str(i // len(ROOT_DIRS) or "")
            self._fill("", name, row["root_files"], 0, 0)
        inside = {"none": None, "root": "", "holder": "usr0", "leaf": leaves[0]}[row["bushy_in"]]
        if inside is not None:
            name = ("font" if inside else "cad") if row["bushy_when"] == "before" else "zoo"
            shape = row["bushy_files"], row["bushy_depth"], row["bushy_fanout"]
            self._fill(inside, join(inside, name), *shape)

    def _add_mount(self, parent, path):
        self._add_directory(parent, path)
        self.mounts[path] = (set(), set())

    def _add_directory(self, owner, path):
        """Add `path`, and what is missing above it, to the file system mounted on `owner`."""
        while path != owner:
            self.mounts[owner][0].add(path)
            path = path.rpartition("/")[0]

    def _fill(self, owner, top, files, depth, fanout):
        self._add_directory(owner, top)
        level, every = [top], [top]
        for _ in range(depth):
            level = [f"{path}/d{i:02}" for path in level for i in range(fanout)]
            every += level
        self.mounts[owner][0].update(every[1:])
        self.mounts[owner][1].update(f"{every[i % len(every)]}/f{i}" for i in range(files))

    def build(self, root, mount_one):
        """Mount and fill the system; `mount_one(number, path)` mounts one empty file system."""
        for number, path in enumerate(self.paths):
            mount_one(number, join(root, path))
            newest_first = lists_newest_first(join(root, path))
            directories, files = self.mounts[path]
            for name in in_making_order(directories, newest_first):
                os.mkdir(join(root, name))
            for name in in_making_order(files, newest_first):
                os.mknod(join(root, name))

    def build_tmpfs(self, root):
        self.build(root, lambda _, path: mount("tmpfs", path, "tmpfs", data="nr_inodes=0"))

    def build_images(self, root, scratch):
        """The same on ext4 images, left unmounted: `mount_images` mounts them, caches empty."""
        inodes = [len(dirs) + len(files) for dirs, files in map(self.mounts.get, self.paths)]
        self.images = [ext4_image(scratch, n) for n in inodes]

        def mount_empty(number, path):
            self.images[number].mount(path)
            os.rmdir(join(path, "lost+found"))

        self.build(root, mount_empty)
        self.umount(root)

    def mount_images(self, root):
        for image, path in zip(self.images, self.paths):
            image.mount(join(root, path), MS_RDONLY)

    def umount(self, root):
        for path in reversed(self.paths):
            umount(join(root, path))


def ext4_image(scratch, inodes):
    """`^dir_index` keeps directories in order of creation. mkfs rounds the number of inodes down, to full blocks in each group."""
    mkfs = ["mkfs.ext4", "-q", "-F", "-O", "^has_journal,^dir_index", "-N", str(inodes * 33 // 32 + 64)]
    mebibytes = 32 + inodes * 5 // 1024
    return Image(scratch, mebibytes, "ext4", [*mkfs, "-E", "lazy_itable_init=0"])


def in_making_order(names, newest_first):
    """Parents before children, and siblings so that readdir will give them sorted."""
    return sorted(sorted(names, reverse=newest_first), key=lambda name: name.count("/"))


def lists_newest_first(directory):
    """Whether readdir gives the newest entry first here (tmpfs, depending on the kernel)."""
    old, new = join(directory, ".0"), join(directory, ".1")
    os.mkdir(old)
    os.mkdir(new)
    names = [name for name in os.listdir(directory) if name in (".0", ".1")]
    os.rmdir(old)
    os.rmdir(new)
    return names[0] == ".1"
