//! The files that calls are about, by the names that they are given.

use super::subject::{Name, Subject, components};
use super::table::{Descriptor, NamedTask, to_fd};
use crate::call::{Call, LONGEST_NAME};
use crate::syscalls::{At, Syscall};

pub(super) const AT_FDCWD: i32 = -100;

const ENOENT: i32 = 2;

/// The descriptor that a call by an empty name is about (`AT_EMPTY_PATH`).
pub(super) fn itself(syscall: &Syscall, call: &Call<'_>) -> Option<u32> {
    let At::Fd(arg) = syscall.names.first()?.at else {
        return None;
    };
    let is_empty = call.name.is_none_or(<[u8]>::is_empty);
    is_empty.then(|| to_fd(call.args[arg])).flatten()
}

/// What a call is about, before it does anything.
pub(super) fn subject(task: &NamedTask, syscall: &Syscall, call: &Call<'_>) -> Subject {
    let names = syscall.names.iter().zip([call.name, call.other]);
    let mut found = names.filter_map(|(name, given)| look_up(task, syscall, name.at, given, call));
    if let Some(first) = found.next() {
        return Subject {
            other: found.next().and_then(|second| second.name),
            ..first
        };
    }
    let open = |at: usize| task.open(call.args[*syscall.fds.get(at)?]);
    match open(0) {
        Some(first) => Subject {
            other: open(1).map(|second| second.name),
            ..Subject::from(first)
        },
        None => Subject::default(),
    }
}

impl From<Descriptor> for Subject {
    fn from(open: Descriptor) -> Subject {
        Subject {
            name: Some(open.name),
            directory: open.directory,
            opened: Some(open.opened),
            real: open.real,
            ..Subject::default()
        }
    }
}

/// The file of a path argument that is `given`; `None` if the argument is not looked up.
fn look_up(
    task: &NamedTask,
    syscall: &Syscall,
    at: At,
    given: Option<&[u8]>,
    call: &Call<'_>,
) -> Option<Subject> {
    let dirfd = match at {
        At::Nowhere => return None,
        At::Here => None,
        At::Fd(arg) => Some(call.args[arg]).filter(|fd| *fd as i32 != AT_FDCWD),
    };
    let base = dirfd.and_then(|fd| task.open(fd));
    let place = task.place.borrow();
    let unknown = Subject {
        by_name: true,
        ..Subject::default()
    };
    Some(match (given, base) {
        // The descriptor itself, with AT_EMPTY_PATH, or without a name.
        (Some(b"") | None, base) if dirfd.is_some() && call.errno() != Some(ENOENT) => {
            Subject::from(base?)
        }
        (Some(b"") | None, _) => unknown,
        // RESOLVE_IN_ROOT of openat2, which is in the memory of the process, changes the root.
        (Some([b'/', ..]), _) if !place.has_commands_root || syscall.name == "openat2" => unknown,
        // There, `..` stays below the directory.
        (Some(name), _) if syscall.name == "openat2" && has_parent(name) => unknown,
        (Some(name @ [b'/', ..]), _) => join(b"", 0, name).unwrap_or(unknown),
        (Some(name), Some(base)) => match join(&base.name, base.real, name) {
            Some(joined) => Subject {
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

/// The file `dir/name`, without empty components and `.`; without `..` at the root and behind one
/// of the last `real` components of `dir`, which are directories. `None` if the name is too long.
pub(super) fn join(dir: &[u8], real: u32, name: &[u8]) -> Option<Subject> {
    let mut path = Vec::with_capacity(dir.len() + 1 + name.len());
    if dir != b"/" {
        path.extend_from_slice(dir);
    }
    let (mut real, mut may_be_link) = (real, false);
    for part in name.split(|&b| b == b'/') {
        match part {
            // A link before a slash is always followed.
            b"" | b"." if may_be_link => {
                (real, may_be_link) = (0, false);
                continue;
            }
            b"" | b"." => continue,
            b".." if path.is_empty() => continue,
            // The component before may be a link: what it refers to is unknown.
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
    (path.len() <= LONGEST_NAME).then(|| Subject {
        name: Some(Name::from(path)),
        by_name: true,
        real,
        may_be_link,
        ..Subject::default()
    })
}

/// The number of components of an absolute name without links.
pub(super) fn all_real(name: &[u8]) -> u32 {
    u32::try_from(components(name)).unwrap_or(0)
}
