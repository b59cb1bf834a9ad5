"""Kernels and root file systems of Debian, for tools/guest."""
import contextlib
import glob
import hashlib
import io
import lzma
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

from guest_machine import HOST, Impossible, machine_of, parse_kernel, run, say, start, version_of, watch, why_ended

CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "fathom-guests")
KERNELS_FROM = ["bullseye", "bookworm", "trixie", "trixie-backports", "sid"]
ROOT_FROM = "bookworm"
ROOT_HAS = (
    "acl attr btrfs-progs busybox-static e2fsprogs iproute2 iptables jq kmod nfs-kernel-server procps python3-minimal strace "
    "xfsprogs zstd"
).split()
ROOT_SIZE = "1500M"
# What the first stage loads to find the disks. Kernels differ in which of these are built in.
FIRST_MODULES = ["virtio_pci", "virtio_blk", "ext4", "crc32c_generic", "crc32c_intel"]

FIRST_STAGE = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
for module in {modules}; do modprobe $module; done
until [ -b /dev/vdc ]; do sleep 0.1; done
mount /dev/vda /root && mount -t tmpfs -o size=64M guest /root/mnt && tar -x -f /dev/vdb -C /root/mnt &&
  mkdir -p /root/usr/lib/modules && mount -o ro /dev/vdc /root/usr/lib/modules || poweroff -f
umount /proc /sys
mount --move /dev /root/dev
exec switch_root /root /mnt/init
"""

# debootstrap cannot finish the root file system of another architecture on this machine: this does, in a guest.
INSTALL = """#!/bin/bash
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
exec </dev/null >/dev/{output} 2>&1
umount /usr/lib/modules
mount -o remount,rw /
/debootstrap/debootstrap --second-stage 2>&1 | cat
status=${{PIPESTATUS[0]}}
apt-get clean
sync
echo "== debootstrap: exit $status"
mount -t proc proc /proc
echo o >/proc/sysrq-trigger
sleep 60
"""


@contextlib.contextmanager
def finished(path):
    """A directory that gets its name when it is complete."""
    work = tempfile.mkdtemp(dir=CACHE, prefix="new-")
    try:
        yield work
        os.rename(work, path)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def mirror():
    for update in [False, True]:
        if update and os.geteuid() == 0:
            run(["apt-get", "update", "--quiet"])
        targets = run(["apt-get", "indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(REPO_URI)", "Created-By: Packages"])
        for line in targets.splitlines():
            origin, label, uri = line.split("|")
            if (origin, label) == ("Debian", "Debian"):
                return uri
    raise Impossible("apt of this machine has no Debian mirror, or has not read it: apt-get update")


def apt(arch):
    """The environment of an apt that knows all releases that have kernels, and nothing about this machine."""
    home = os.path.join(CACHE, "apt-" + arch)
    os.makedirs(home + "/lists/partial", exist_ok=True)
    os.makedirs(home + "/cache/archives/partial", exist_ok=True)
    environment = dict(os.environ, APT_CONFIG=home + "/apt.conf", LC_ALL="C")
    fresh = glob.glob(home + "/lists/*_Packages*")
    if fresh and time.time() - os.path.getmtime(home + "/lists") < 7 * 86400:
        return environment
    uri = mirror()
    with open(home + "/sources.list", "w") as sources:
        sources.writelines(f"deb {uri} {suite} main\n" for suite in KERNELS_FROM)
    with open(home + "/status", "w"), open(home + "/apt.conf", "w") as conf:
        conf.write(
            f'Dir::State "{home}"; Dir::State::status "{home}/status"; Dir::Cache "{home}/cache";\n'
            f'APT::Architecture "{arch}"; APT::Architectures {{ "{arch}"; }};\n'
            f'Dir::Etc::sourcelist "{home}/sources.list"; Dir::Etc::sourceparts "-"; Acquire::Languages "none";\n'
            'Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false"; APT::Sandbox::User "root";\n'
        )
    run(["apt-get", "update", "--quiet"], env=environment)
    return environment


def newest_package(version, flavour, environment):
    pattern = rf"^linux-image-{re.escape(version)}[.+-].*[0-9]-{flavour}$"
    names = [line.split()[0] for line in run(["apt-cache", "search", "--names-only", pattern], env=environment).splitlines()]
    if not names:
        raise Impossible(f"no package linux-image-{version}*-{flavour} in {', '.join(KERNELS_FROM)}")
    return max(names, key=version_of)


def kernel(name):
    """The directory of a kernel: vmlinuz, first (an initramfs), modules (an image)."""
    version, arch, flavour = parse_kernel(name)
    try:
        environment = apt(arch)
        package = newest_package(version, flavour, environment)
    except Impossible:
        cached = glob.glob(f"{CACHE}/linux-image-{version}[.+-]*[0-9]-{flavour}")
        if not cached:
            raise
        return max(cached, key=version_of)
    home = os.path.join(CACHE, package)
    if not os.path.exists(home):
        say(f"preparing {package}")
        # Since 7.1, image and modules are packages of their own.
        depends = run(["apt-cache", "depends", "--important", package], env=environment)
        parts = re.findall(r"Depends: (linux-(?:binary|modules)-\S+)", depends)
        with finished(home) as work:
            run(["apt-get", "download", "--quiet", package, *parts, "busybox-static/" + ROOT_FROM], env=environment, cwd=work)
            for deb in glob.glob(work + "/*.deb"):
                run(["dpkg-deb", "-x", deb, work + "/files"])
                os.remove(deb)
            unpack_kernel(work)
    return home


def unpack_kernel(work):
    files = work + "/files"
    images = glob.glob(files + "/boot/vmlinuz-*") + glob.glob(files + "/usr/lib/modules/*/vmlinuz")
    trees = glob.glob(files + "/lib/modules/*") + glob.glob(files + "/usr/lib/modules/*")
    if not images or not trees:
        raise Impossible("the kernel's packages have no vmlinuz or no modules")
    os.rename(images[0], work + "/vmlinuz")
    release = os.path.basename(trees[0])
    tree = work + "/tree/lib/modules/" + release
    os.makedirs(os.path.dirname(tree))
    os.rename(trees[0], tree)
    run(["depmod", "-b", work + "/tree", release])
    first_stage(work, files + "/bin/busybox", tree, release)
    make_image(work + "/modules", os.path.dirname(tree), None)
    shutil.rmtree(files)
    shutil.rmtree(work + "/tree")


def first_stage(work, busybox, tree, release):
    """An initramfs that finds the disks. Its modules are not compressed: busybox cannot read .xz."""
    ram = work + "/ram"
    for name in ["bin", "dev", "proc", "sys", "root"]:
        os.makedirs(f"{ram}/{name}")
    shutil.copy(busybox, ram + "/bin/busybox")
    first, needed = set(), set()
    with open(tree + "/modules.dep") as dependencies:
        for line in dependencies:
            module, needs = line.strip().split(":")
            name = re.sub(r"\.ko(\.xz)?$", "", os.path.basename(module)).replace("-", "_")
            if name in FIRST_MODULES:  # the others are built in
                first.add(name)
                needed.update([module, *needs.split()])
    for module in needed:
        target = f"{ram}/lib/modules/{release}/{module.removesuffix('.xz')}"
        os.makedirs(os.path.dirname(target), exist_ok=True)
        opened = lzma.open if module.endswith(".xz") else open
        with opened(f"{tree}/{module}", "rb") as source, open(target, "wb") as copy:
            shutil.copyfileobj(source, copy)
    run(["depmod", "-b", ram, release])
    with open(ram + "/init", "w") as init:
        init.write(FIRST_STAGE.format(modules=" ".join(filter(first.__contains__, FIRST_MODULES))))
    os.chmod(ram + "/init", 0o755)
    names = run(["find", ".", "-mindepth", "1"], cwd=ram)
    with open(work + "/first", "wb") as archive:
        subprocess.run(["cpio", "--quiet", "-o", "-H", "newc"], input=names.encode(), stdout=archive, cwd=ram, check=True)
    shutil.rmtree(ram)


def make_image(image, directory, size):
    if size is None:
        kib = int(run(["du", "-sk", directory]).split()[0])
        size = f"{kib * 5 // 4 + 16384}K"
    run(["mkfs.ext4", "-q", "-d", directory, "-E", "root_owner=0:0", image, size])


def root(name, more):
    """The image of the root file system for a kernel, which has more packages."""
    arch = parse_kernel(name)[1]
    packages = ROOT_HAS + more
    home = os.path.join(CACHE, f"root-{ROOT_FROM}-{arch}-{hashlib.sha256(' '.join(packages).encode()).hexdigest()[:8]}")
    if not os.path.exists(home):
        if os.geteuid() != 0:
            raise Impossible("debootstrap needs root")
        say(f"preparing the root file system of {arch}")
        with finished(home) as work:
            foreign = [] if arch == HOST else ["--foreign", "--arch=" + arch]
            include = "--include=" + ",".join(packages)
            run(["debootstrap", *foreign, "--variant=minbase", include, ROOT_FROM, work + "/files", mirror()])
            if not foreign:
                for bulk in ["var/cache/apt", "var/lib/apt/lists"]:
                    shutil.rmtree(f"{work}/files/{bulk}")
            os.makedirs(work + "/files/mnt", exist_ok=True)  # where a guest finds what it runs
            make_image(work + "/image", work + "/files", ROOT_SIZE)
            shutil.rmtree(work + "/files")
            if foreign:
                install(name, work)
    return home + "/image"


def install(name, work):
    """Has a guest finish its own root file system."""
    init = INSTALL.format(output=machine_of(name).output)
    payload(work + "/payload", {"init": init}, [])
    machine = start(name, kernel(name), [(work + "/image", "cache=unsafe"), (work + "/payload", "readonly=on")], work)
    output, ended = watch(machine, work + "/console", 900, sys.stderr.buffer)
    if output.statuses != [0]:
        raise Impossible(f"debootstrap --second-stage: {output.statuses or why_ended(ended, work)}")
    # Files that were replaced while they were in use still have their space.
    if subprocess.run(["e2fsck", "-fp", work + "/image"], capture_output=True).returncode > 1:
        raise Impossible("debootstrap --second-stage: the file system is damaged")
    os.remove(work + "/payload")
    os.remove(work + "/console")


def payload(path, texts, files):
    """A tar of executable texts by name, and of files, as a disk."""
    with tarfile.open(path, "w") as tar:
        for name, text in texts.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(text.encode()), 0o755
            tar.addfile(member, io.BytesIO(text.encode()))
        for name, file in files:
            tar.add(file, name)
