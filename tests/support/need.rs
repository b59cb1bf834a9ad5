//! Requirements of a test on the machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A requirement that a machine may not meet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Need {
    /// Root, for mounting.
    Root,
    /// Loop devices.
    Loop,
    /// `/dev/fuse`.
    Fuse,
    /// Unprivileged user namespaces.
    UserNamespaces,
    /// A memory cgroup whose memory can be reclaimed.
    MemoryCgroup,
    /// A program on the search path.
    Program(&'static str),
    /// A file that `tools/setup` installs: see [`tool_path`].
    Tool(&'static str),
    /// A file of the system.
    File(&'static str),
    /// This version of Linux, or a newer one.
    Linux(u32, u32),
    /// A file system in `/proc/filesystems`.
    FileSystem(&'static str),
    /// The standard library of Rust for static programs, and a C compiler for them.
    Musl,
}

/// The target of static programs on this machine.
pub(crate) fn musl() -> String {
    format!("{}-unknown-linux-musl", std::env::consts::ARCH)
}

/// A path in the directory of the tools that `tools/setup` installs. That directory outlives the
/// target directory.
pub(crate) fn tool_path(path: impl AsRef<Path>) -> PathBuf {
    let of = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let cache = || {
        of("XDG_CACHE_HOME").map_or_else(
            || PathBuf::from(of("HOME").unwrap_or_default()).join(".cache"),
            PathBuf::from,
        )
    };
    let tools = of("FATHOM_TOOLS").map_or_else(|| cache().join("fathom-tools"), PathBuf::from);
    tools.join(path)
}

/// A path in the target directory.
pub(crate) fn built(path: impl AsRef<Path>) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let target = test.ancestors().nth(3);
    target.expect("target/debug/deps/test").join(path)
}

impl Need {
    fn met(self) -> bool {
        match self {
            Need::Root => rustix::process::geteuid().is_root(),
            Need::Loop => Path::new("/dev/loop-control").exists(),
            Need::Fuse => Path::new("/dev/fuse").exists(),
            Need::UserNamespaces => {
                succeeds(Command::new("unshare").args(["--user", "--map-root-user", "true"]))
            }
            Need::MemoryCgroup => {
                new_memory_cgroup().is_some_and(|group| std::fs::remove_dir(group).is_ok())
            }
            Need::Program(name) => std::env::var_os("PATH").is_some_and(|path| {
                std::env::split_paths(&path).any(|dir| dir.join(name).is_file())
            }),
            Need::Tool(path) => tool_path(path).exists(),
            Need::File(path) => Path::new(path).exists(),
            Need::Linux(major, minor) => {
                let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
                let mut numbers = release.trim_end().split(['.', '-']);
                let mut next = || numbers.next().and_then(|number| number.parse().ok());
                next().zip(next()) >= Some((major, minor))
            }
            Need::FileSystem(name) => std::fs::read_to_string("/proc/filesystems")
                .is_ok_and(|list| list.split_whitespace().any(|word| word == name)),
            Need::Musl => {
                let found = Command::new("rustc")
                    .args(["--print=target-libdir", "--target", &musl()])
                    .output();
                let std = found.is_ok_and(|found| {
                    Path::new(String::from_utf8_lossy(&found.stdout).trim_end()).exists()
                });
                std && Need::Program("musl-gcc").met()
            }
        }
    }
}

/// Whether the machine has all of `needs`. If not, the test must return at once: it is skipped, or fails
/// under `CI=true`.
pub(crate) fn require(needs: &[Need]) -> bool {
    let missing: Vec<_> = needs.iter().filter(|need| !need.met()).collect();
    if missing.is_empty() {
        return true;
    }
    super::skip::skip(format_args!("it needs {missing:?}"));
    false
}

/// Creates a memory cgroup whose memory can be reclaimed. The caller removes it.
pub(crate) fn new_memory_cgroup() -> Option<PathBuf> {
    let v1 = Path::new("/sys/fs/cgroup/memory");
    let top = if v1.join("memory.force_empty").exists() {
        v1
    } else {
        Path::new("/sys/fs/cgroup")
    };
    let group = top.join(format!("fathom-test-{}", std::process::id()));
    std::fs::create_dir(&group).ok()?;
    if ["memory.force_empty", "memory.reclaim"]
        .iter()
        .any(|file| group.join(file).exists())
    {
        return Some(group);
    }
    let _ = std::fs::remove_dir(group);
    None
}

fn succeeds(command: &mut Command) -> bool {
    let quiet = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}
