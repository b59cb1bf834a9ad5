//! Directories that programs fill with caches and logs, and the commands that empty them.

/// A directory that a command can empty.
#[derive(Clone, Copy, Debug)]
pub struct Cache {
    /// The absolute path of the directory.
    pub path: &'static str,
    /// The command that frees most of the directory's space.
    pub command: &'static str,
    /// The bytes that remain after the command.
    pub left: u64,
}

/// The caches, logs and core dumps of common distributions. The commands remove only files that can
/// be downloaded or created again, except for old logs and core dumps.
pub const CACHES: [Cache; 13] = [
    cache("/var/cache/apt", "apt-get clean"),
    cache("/var/cache/dnf", "dnf clean all"),
    cache("/var/cache/libdnf5", "dnf clean all"),
    cache("/var/cache/yum", "yum clean all"),
    cache("/var/cache/zypp", "zypper clean --all"),
    cache("/var/cache/pacman/pkg", "pacman -Sc"),
    cache("/var/cache/apk", "apk cache clean"),
    cache("/var/cache/PackageKit", "pkcon refresh force"),
    journal("/var/log/journal"),
    journal("/run/log/journal"),
    cache(
        "/var/lib/systemd/coredump",
        "find /var/lib/systemd/coredump -type f -mtime +7 -delete",
    ),
    cache("/var/crash", "find /var/crash -type f -mtime +7 -delete"),
    cache("/var/lib/docker/overlay2", "docker image prune"),
];

const fn cache(path: &'static str, command: &'static str) -> Cache {
    Cache {
        path,
        command,
        left: 0,
    }
}

const fn journal(path: &'static str) -> Cache {
    Cache {
        left: 100 << 20,
        ..cache(path, "journalctl --vacuum-size=100M")
    }
}
