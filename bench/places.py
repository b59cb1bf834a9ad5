"""Places to measure in, by name, each in a mount namespace of its own: the synthetic systems and new file systems.

    S1 ... S20           a system of systems.csv, each mount a tmpfs
    S16-ext4, S6-bare    the same: each mount an ext4 image; without the bushy directory
    R1 ... R40           a random system of 10 to 1,000 mounts
    tmpfs, ext4, xfs, btrfs         an empty file system of 3 GiB; read_ahead_kb is 128
    ext4-1k              an empty ext4 with blocks of 1 KiB
    ext4-tree, xfs-tree, btrfs-tree the same with 20,000 entries in tree/: small files, no two alike
"""

import os
import random

import probes
from namespace import Image, mount, umount
from systems import System, read_systems
from trees import Tree, mkfs

MEBIBYTES, ENTRIES, READ_AHEAD = 3072, 20_000, 128  # KiB
RANDOM_SYSTEMS = 40


def random_row(number):
    """A row like those of systems.csv; the same for a number in each run."""
    chance = random.Random(number)
    of = lambda low, high: round(low * (high / low) ** chance.random())
    mounts = of(10, 1000)
    holders = chance.randrange(0, 1 + min(8, mounts // 5))
    return {
        "name": f"R{number}", "mounts": mounts, "holders": holders, "nested": chance.randrange(holders, 1 + mounts // 2) if holders else 0,
        "nesting": chance.choice([2, 2, 3, 4]), "leaf_at": chance.choice([1, 1, 2, 3]), "files": of(1, 20_000 // mounts), "depth": chance.choice([2, 3, 4]),
        "fanout": chance.choice([2, 3, 4]) if mounts < 100 else 2, "root_dirs": of(5, 20), "root_files": of(5, 50), "bushy_files": of(100, 10_000),
        "bushy_depth": chance.choice([2, 3, 4]), "bushy_fanout": of(4, 8), "bushy_in": chance.choice(["root", "holder"] if holders else ["root"]),
        "bushy_when": chance.choice(["before", "after"]),
    }  # fmt: skip


def row_of(name):
    return random_row(int(name[1:])) if name[0] == "R" else next(row for row in read_systems() if row["name"] == name)


class Place:
    """What is mounted at `top`. `remount` empties the caches of its file systems, except those of a tmpfs."""

    def __init__(self, name, top, scratch):
        self.name, self.top = name, top
        kind, _, more = name.partition("-")
        bare = {"bushy_in": "none"} if more == "bare" else {}
        self.system = System(row_of(kind) | bare) if kind[0] in "SR" else None
        self.image = None
        if self.system and more == "ext4":
            self.system.build_images(top, scratch)
            self.system.mount_images(top)
        elif self.system:
            self.system.build_tmpfs(top)
        elif kind == "tmpfs":
            mount("tmpfs", top, "tmpfs", data="nr_inodes=0")
        else:
            small = ["-b", "1024"] if more == "1k" else []
            self.image = Image(scratch, MEBIBYTES, kind, mkfs(kind, 200_000) + small)
            self._mount()
            if more == "tree":
                os.mkdir(os.path.join(top, "tree"))
                Tree("small", ENTRIES).build(os.path.join(top, "tree"))
                self.remount()

    def _mount(self):
        self.image.mount(self.top)
        probes.read_ahead(self.top, self.image.fstype).write_text(str(READ_AHEAD))

    def remount(self):
        if self.image:
            umount(self.top)
            self._mount()
        elif self.name.endswith("-ext4"):
            self.system.umount(self.top)
            self.system.mount_images(self.top)
