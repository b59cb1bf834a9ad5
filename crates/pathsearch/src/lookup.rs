//! Lookups by name: which calls are lookups, and the directory that a name is looked up in.

use base::path::{components, without_slashes};
use gate::Errno;
use meter::call::Call;
use meter::syscalls;

/// The purpose of a lookup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LookupPurpose {
    Exec,
    Open,
    /// Open the file, or create it if it does not exist.
    Create,
    Stat,
    Access,
    Readlink,
}

/// `AT_SYMLINK_NOFOLLOW`
const NOFOLLOW: u64 = 0x100;
/// `O_NOFOLLOW`, which differs between architectures.
#[cfg(target_arch = "x86_64")]
const OPEN_NOFOLLOW: u64 = 0o400_000;
#[cfg(not(target_arch = "x86_64"))]
const OPEN_NOFOLLOW: u64 = 0o100_000;
const OPEN_CREATE: u64 = 0o100;

/// The purpose of a call's lookup, and whether it follows a symbolic link in the last component;
/// `None` for a call other than execve, open, stat, access, readlink and their variants.
pub(crate) fn parse(call: &Call<'_>) -> Option<(LookupPurpose, bool)> {
    let known = syscalls::by_number(call.number)?;
    let flags = |arg: usize| call.args[arg];
    let open = |flags: u64| match flags & OPEN_CREATE {
        0 => (LookupPurpose::Open, flags & OPEN_NOFOLLOW == 0),
        _ => (LookupPurpose::Create, flags & OPEN_NOFOLLOW == 0),
    };
    Some(match known.name {
        "execve" => (LookupPurpose::Exec, true),
        "execveat" => (LookupPurpose::Exec, flags(4) & NOFOLLOW == 0),
        "open" => open(flags(1)),
        "openat" => open(flags(2)),
        "openat2" => (LookupPurpose::Open, true), // the flags of openat2 are in process memory
        "creat" => (LookupPurpose::Create, true),
        "stat" => (LookupPurpose::Stat, true),
        "lstat" => (LookupPurpose::Stat, false),
        "newfstatat" => (LookupPurpose::Stat, flags(3) & NOFOLLOW == 0),
        "statx" => (LookupPurpose::Stat, flags(2) & NOFOLLOW == 0),
        "access" | "faccessat" => (LookupPurpose::Access, true),
        "faccessat2" => (LookupPurpose::Access, flags(3) & NOFOLLOW == 0),
        "readlink" | "readlinkat" => (LookupPurpose::Readlink, false),
        _ => return None,
    })
}

/// The outcome of a lookup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Found,
    /// The name exists, or may exist, but cannot be used: permission is denied, or the file is no
    /// program. It counts as a hit, but execvp(3), shells and ld.so continue the search.
    Refused,
    Missed,
}

impl Outcome {
    pub(crate) fn new(op: LookupPurpose, errno: Option<i32>) -> Outcome {
        match errno.map(Errno) {
            None | Some(Errno::EEXIST) => Outcome::Found,
            Some(Errno::ENOENT | Errno::ENOTDIR) => Outcome::Missed,
            // readlink(2) of a file that is no link fails with EINVAL.
            Some(Errno::EINVAL) if op == LookupPurpose::Readlink => Outcome::Found,
            // Shells and execvp(3) interpret the file as a script, and search no further.
            Some(Errno::ENOEXEC) => Outcome::Found,
            Some(_) => Outcome::Refused,
        }
    }
}

/// The directory part and the last component of an absolute path, both without trailing slashes.
pub(crate) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    let path = without_slashes(path);
    match path.iter().rposition(|&b| b == b'/') {
        None => (b"", path),
        Some(at) => (without_slashes(&path[..at.max(1)]), &path[at + 1..]),
    }
}

/// An absolute path without doubled slashes, trailing slashes and `.` components: the form in which
/// lookups are recorded.
pub(crate) fn normalize(path: &[u8]) -> Vec<u8> {
    let parts: Vec<&[u8]> = components(path).collect();
    [b"/", &parts.join(&b'/')[..]].concat()
}

/// The search path of shells and execvp(3) without PATH: the standard directories of programs.
pub(crate) const DEFAULT_PATH: &[u8] =
    b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The absolute directories of a search path such as the value of PATH.
pub(crate) fn absolute_dirs(list: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let dirs = list.split(|&b| b == b':');
    dirs.filter(|dir| dir.starts_with(b"/")).map(normalize)
}

/// The absolute path of `name`, which is relative to `base` unless it is absolute.
pub(crate) fn join(base: &[u8], name: &[u8]) -> Vec<u8> {
    if name.starts_with(b"/") {
        return name.to_vec();
    }
    base::path::join(base, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_the_one_that_the_last_component_is_looked_up_in() {
        let cases: [(&str, &str, &str); 8] = [
            ("/usr/bin/ls", "/usr/bin", "ls"),
            ("/usr/bin//ls", "/usr/bin", "ls"),
            ("/ls", "/", "ls"),
            ("//ls", "/", "ls"),
            ("/usr/lib/", "/usr", "lib"),
            ("/a/../b", "/a/..", "b"),
            ("/", "/", ""),
            ("", "", ""),
        ];
        for (path, dir, name) in cases {
            assert_eq!(
                split(path.as_bytes()),
                (dir.as_bytes(), name.as_bytes()),
                "{path}"
            );
        }
    }

    #[test]
    fn normalizing_removes_doubled_slashes_and_dots() {
        for (path, expected) in [
            ("/usr//bin/", "/usr/bin"),
            ("/./a/.", "/a"),
            ("//", "/"),
            ("/a/../b", "/a/../b"),
        ] {
            assert_eq!(normalize(path.as_bytes()), expected.as_bytes(), "{path}");
        }
    }

    #[test]
    fn lookups_are_recognized_with_their_flags() {
        let call = |name: &str, args: [u64; 6]| Call {
            pid: 1,
            tid: 1,
            number: syscalls::by_name(name).unwrap().number,
            args,
            name: Some(b"x"),
            other: None,
            result: Some(0),
            start: 0,
            nanos: 0,
        };
        assert_eq!(
            parse(&call("newfstatat", [0, 0, 0, NOFOLLOW, 0, 0])),
            Some((LookupPurpose::Stat, false))
        );
        assert_eq!(
            parse(&call("openat", [0, 0, OPEN_CREATE, 0, 0, 0])),
            Some((LookupPurpose::Create, true))
        );
        assert_eq!(
            parse(&call("faccessat", [0; 6])),
            Some((LookupPurpose::Access, true))
        );
        assert_eq!(
            parse(&call("execve", [0; 6])),
            Some((LookupPurpose::Exec, true))
        );
        for other in [
            "unlinkat",
            "mkdirat",
            "getxattr",
            "chdir",
            "open_tree",
            "read",
        ] {
            assert_eq!(parse(&call(other, [0; 6])), None, "{other}");
        }
    }
}
