//! Finds the file that a call is about, from its path arguments and descriptors.

use super::subject::{CallFile, Name, components};
use super::table::{Descriptor, NamedTask, to_fd};
use crate::call::{Call, LONGEST_NAME};
use crate::syscalls::{PathBase, Syscall};

pub(super) const AT_FDCWD: i32 = -100;

const ENOENT: i32 = 2;

/// The descriptor that a call with an empty path refers to (`AT_EMPTY_PATH`).
pub(super) fn itself(syscall: &Syscall, call: &Call<'_>) -> Option<u32> {
    let PathBase::Fd(arg) = syscall.names.first()?.at else {
        return None;
    };
    let is_empty = call.name.is_none_or(<[u8]>::is_empty);
    is_empty.then(|| to_fd(call.args[arg])).flatten()
}

/// The file of a call, from the state before the call.
pub(super) fn subject(task: &NamedTask, syscall: &Syscall, call: &Call<'_>) -> CallFile {
    let names = syscall.names.iter().zip([call.name, call.other]);
    let mut found = names.filter_map(|(name, given)| look_up(task, syscall, name.at, given, call));
    if let Some(first) = found.next() {
        return CallFile {
            other: found.next().and_then(|second| second.name),
            ..first
        };
    }
    let open = |at: usize| task.open(call.args[*syscall.fds.get(at)?]);
    match open(0) {
        Some(first) => CallFile {
            other: open(1).map(|second| second.name),
            ..CallFile::from(first)
        },
        None => CallFile::default(),
    }
}

impl From<Descriptor> for CallFile {
    fn from(open: Descriptor) -> CallFile {
        CallFile {
            name: Some(open.name),
            directory: open.directory,
            opened: Some(open.opened),
            real: open.real,
            ..CallFile::default()
        }
    }
}

/// The file of a path argument with the value `given`; `None` if the argument is not looked up.
fn look_up(
    task: &NamedTask,
    syscall: &Syscall,
    at: PathBase,
    given: Option<&[u8]>,
    call: &Call<'_>,
) -> Option<CallFile> {
    let dirfd = match at {
        PathBase::Nowhere => return None,
        PathBase::Here => None,
        PathBase::Fd(arg) => Some(call.args[arg]).filter(|fd| *fd as i32 != AT_FDCWD),
    };
    let base = dirfd.and_then(|fd| task.open(fd));
    let place = task.place.borrow();
    let unknown = CallFile {
        by_name: true,
        ..CallFile::default()
    };
    Some(match (given, base) {
        // The call refers to the descriptor itself: AT_EMPTY_PATH, or a null path.
        (Some(b"") | None, base) if dirfd.is_some() && call.errno() != Some(ENOENT) => {
            CallFile::from(base?)
        }
        (Some(b"") | None, _) => unknown,
        // openat2(2) may have RESOLVE_IN_ROOT, which makes `/` a different directory. Its flags are
        // in the memory of the process, where the meter does not read them.
        (Some([b'/', ..]), _) if !place.has_commands_root || syscall.name == "openat2" => unknown,
        // With RESOLVE_IN_ROOT, `..` does not leave the directory.
        (Some(name), _) if syscall.name == "openat2" && has_parent(name) => unknown,
        (Some(name @ [b'/', ..]), _) => join(b"", 0, name).unwrap_or(unknown),
        (Some(name), Some(base)) => match join(&base.name, base.real, name) {
            Some(joined) => CallFile {
                base: Some(base.opened),
                ..joined
            },
            None => unknown,
        },
        (Some(name), None) => {
            let cwd = place.cwd.as_deref().filter(|_| dirfd.is_none());
            let joined = cwd.and_then(|cwd| join(cwd, place.real, name));
            joined.unwrap_or(unknown)
        }
    })
}

fn has_parent(name: &[u8]) -> bool {
    name.split(|&b| b == b'/').any(|part| part == b"..")
}

/// Joins `dir` and `name`: removes empty components and `.`, and `..` at the root or after one of
/// the last `real` components of `dir`, which are directories and no links. `None` if the result is
/// too long.
pub(super) fn join(dir: &[u8], real: u32, name: &[u8]) -> Option<CallFile> {
    let mut path = Vec::with_capacity(dir.len() + 1 + name.len());
    if dir != b"/" {
        path.extend_from_slice(dir);
    }
    let (mut real, mut may_be_link) = (real, false);
    for part in name.split(|&b| b == b'/') {
        match part {
            // The kernel always follows a symbolic link before a slash.
            b"" | b"." if may_be_link => {
                (real, may_be_link) = (0, false);
                continue;
            }
            b"" | b"." => continue,
            b".." if path.is_empty() => continue,
            // The component before may be a link, so the parent of its target is unknown.
            _ if may_be_link => real = 0,
            _ => {}
        }
        if part == b".." && real > 0 {
            path.truncate(path.iter().rposition(|&b| b == b'/').unwrap_or(0));
            real -= 1;
            continue;
        }
        path.push(b'/');
        path.extend_from_slice(part);
        may_be_link = part != b"..";
        real = if may_be_link { real + 1 } else { 0 };
    }
    if path.is_empty() {
        path.push(b'/');
    }
    (path.len() <= LONGEST_NAME).then(|| CallFile {
        name: Some(Name::from(path)),
        by_name: true,
        real,
        may_be_link,
        ..CallFile::default()
    })
}

/// The number of components of an absolute name, all of which are known to be no links.
pub(super) fn all_real(name: &[u8]) -> u32 {
    u32::try_from(components(name)).unwrap_or(0)
}
