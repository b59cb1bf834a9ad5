//! Kinds of descriptors without a path: pipes, sockets and others, as /proc/PID/fd shows them.

use std::ffi::{CStr, CString};

use gate::fs::{AtFlags, CWD, StatxMask, readlinkat, statx};

use crate::listing::list;

base::named! {
    /// The kind of the object that a descriptor refers to.
    #[derive(PartialOrd, Ord)]
    DescriptorKind {
        /// A file or a directory.
        File "file",
        /// A pipe, or a FIFO.
        Pipe "pipe",
        /// A socket.
        Socket "socket",
        /// A terminal.
        Terminal "terminal",
        /// An eventfd(2).
        Event "eventfd",
        /// A timerfd, of timerfd_create(2).
        Timer "timer",
        /// An inotify(7) or fanotify(7) instance.
        Watch "inotify",
        /// Some other kernel object: epoll, signalfd, pidfd, ...
        Other "other",
        /// The kind is unknown. No call has opened the descriptor by name, so it is hardly a file.
        Unknown "unknown",
    }
}

impl DescriptorKind {
    /// The kind according to the link in /proc/PID/fd, which is an absolute path for files.
    pub(super) fn of_link(link: &[u8]) -> DescriptorKind {
        use DescriptorKind::{Event, File, Other, Pipe, Socket, Timer, Watch};
        match link {
            [b'/', ..] => DescriptorKind::of_name(link),
            link if link.starts_with(b"pipe:") => Pipe,
            link if link.starts_with(b"socket:") => Socket,
            b"anon_inode:[eventfd]" => Event,
            b"anon_inode:[timerfd]" => Timer,
            b"anon_inode:inotify" | b"anon_inode:[fanotify]" => Watch,
            b"anon_inode:[io_uring]" => File,
            link if link.starts_with(b"anon_inode:") => Other,
            // A file whose path is outside of the root, or an unknown kind.
            _ => File,
        }
    }

    /// The kind to report for a call with several descriptors. For a short call: a file if one of
    /// the descriptors is a file. For a call that was long enough to have waited: the kind of the
    /// other descriptor, which may be a pipe.
    pub(crate) fn of_all(
        kinds: impl Iterator<Item = DescriptorKind>,
        is_long: bool,
    ) -> Option<DescriptorKind> {
        kinds.reduce(
            |first, other| match (other == DescriptorKind::File) == is_long {
                true => first,
                false => other,
            },
        )
    }

    /// The kind of a file that was opened by this absolute name: a terminal, or a file.
    pub(super) fn of_name(name: &[u8]) -> DescriptorKind {
        const TERMINALS: [&[u8]; 4] = [b"pts/", b"tty", b"console", b"ptmx"];
        match name.strip_prefix(b"/dev/") {
            Some(device) if TERMINALS.iter().any(|start| device.starts_with(start)) => {
                DescriptorKind::Terminal
            }
            _ => DescriptorKind::File,
        }
    }
}

/// The kind of a descriptor that no call has opened. `None` if /proc does not tell, or if it shows
/// a file: then the descriptor was closed meanwhile, and its number reused.
pub(super) fn of_descriptor(pid: u32, fd: u32) -> Option<DescriptorKind> {
    let (_, link) = shown(pid, fd)?;
    let is_path = link.first() == Some(&b'/') && !link.starts_with(b"/memfd:");
    let kind = DescriptorKind::of_link(&link);
    (!is_path || kind == DescriptorKind::Terminal).then_some(kind)
}

/// The kind of a descriptor according to /proc now; `None` if it is closed.
pub(crate) fn seen(pid: u32, fd: u32) -> Option<DescriptorKind> {
    let (path, link) = shown(pid, fd)?;
    let kind = DescriptorKind::of_link(&link);
    let is_pipe = kind == DescriptorKind::File && is_named_fifo(&path, &link);
    Some(if is_pipe { DescriptorKind::Pipe } else { kind })
}

/// Whether a descriptor that was opened by name is a FIFO.
pub(super) fn is_fifo(pid: u32, fd: u32) -> bool {
    shown(pid, fd).is_some_and(|(path, link)| is_named_fifo(&path, &link))
}

fn is_named_fifo(path: &CStr, link: &[u8]) -> bool {
    const S_IFMT: u32 = 0o170_000;
    const S_IFIFO: u32 = 0o010_000;
    // A link without a path is that of a pipe which has reused the number of a closed file.
    let is_named = link.first() == Some(&b'/');
    let seen = || statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxMask::TYPE);
    is_named && seen().is_ok_and(|file| file.mode & S_IFMT == S_IFIFO)
}

/// The path of a descriptor in /proc/PID/fd, and the target of that link; `None` if it is closed.
fn shown(pid: u32, fd: u32) -> Option<(CString, Vec<u8>)> {
    let path = gate::long::c_string(format!("/proc/{pid}/fd/{fd}").as_bytes()).ok()?;
    let link = readlinkat(CWD, &path).ok()?;
    Some((path, link))
}

/// The descriptor number in a path such as /dev/stdin or /proc/self/fd/3.
pub(super) fn named_descriptor(name: &[u8], pid: u32) -> Option<u32> {
    let name = str::from_utf8(name).ok()?;
    match name {
        "/dev/stdin" => return Some(0),
        "/dev/stdout" => return Some(1),
        "/dev/stderr" => return Some(2),
        _ => {}
    }
    let own = format!("/proc/{pid}/fd/");
    let dirs = ["/dev/fd/", "/proc/self/fd/", "/proc/thread-self/fd/", &own];
    let number = dirs.iter().find_map(|dir| name.strip_prefix(dir))?;
    number.parse().ok()
}

/// Descriptors without a path of a process that has just executed a program.
pub(super) fn of_descriptors(pid: u32) -> Vec<(u32, DescriptorKind)> {
    let links = links(&format!("/proc/{pid}/fd"), |_| true);
    let unnamed = links.into_iter().filter(|(_, link)| !is_file(link));
    unnamed
        .map(|(fd, link)| (fd, DescriptorKind::of_link(&link)))
        .collect()
}

/// The links in a directory of /proc, of the wanted descriptors.
pub(super) fn links(dir: &str, is_wanted: impl Fn(u32) -> bool) -> Vec<(u32, Vec<u8>)> {
    let mut links = Vec::new();
    let _ = list(dir.as_bytes(), |dir, entry| {
        let fd = entry.name.to_str().ok().and_then(|name| name.parse().ok());
        if let Some(fd) = fd.filter(|fd| is_wanted(*fd)) {
            links.extend(readlinkat(dir, entry.name).map(|link| (fd, link)));
        }
    });
    links
}

/// Whether the link of a descriptor is the name of an existing file.
pub(super) fn is_file(link: &[u8]) -> bool {
    link.first() == Some(&b'/') && !link.ends_with(b" (deleted)")
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, AsRawFd};

    use gate::fs::{Open, openat};

    use super::*;

    #[test]
    fn links_of_proc_tell_what_descriptors_are() {
        use DescriptorKind::{Event, File, Other, Pipe, Socket, Terminal, Timer, Watch};
        for (link, kind) in [
            (&b"pipe:[123]"[..], Pipe),
            (b"socket:[9]", Socket),
            (b"/dev/pts/3", Terminal),
            (b"/dev/tty", Terminal),
            (b"/dev/null", File),
            (b"/x (deleted)", File),
            (b"/memfd:x (deleted)", File),
            (b"anon_inode:[eventfd]", Event),
            (b"anon_inode:[timerfd]", Timer),
            (b"anon_inode:inotify", Watch),
            (b"anon_inode:[eventpoll]", Other),
            (b"anon_inode:[io_uring]", File),
            (b"net:[4026531840]", File),
        ] {
            assert_eq!(DescriptorKind::of_link(link), kind);
        }
    }

    #[test]
    fn names_of_descriptors_stand_for_them() {
        for (name, fd) in [
            ("/dev/stdin", Some(0)),
            ("/dev/stderr", Some(2)),
            ("/dev/fd/63", Some(63)),
            ("/proc/self/fd/4", Some(4)),
            ("/proc/77/fd/5", Some(5)),
            ("/proc/7/fd/5", None),
            ("/dev/fd", None),
            ("/dev/fd/", None),
            ("/dev/fd/x", None),
            ("/srv/dev/fd/1", None),
        ] {
            assert_eq!(named_descriptor(name.as_bytes(), 77), fd, "{name}");
        }
    }

    #[test]
    fn pipes_and_sockets_of_this_process_are_told_apart() {
        let (reader, _writer) = std::io::pipe().unwrap();
        let (socket, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
        let file = openat(CWD, c"/", Open::DIRECTORY).unwrap();
        let fd = |it: &dyn AsFd| it.as_fd().as_raw_fd() as u32;
        let kind = |fd| of_descriptor(std::process::id(), fd);
        assert_eq!(kind(fd(&reader)), Some(DescriptorKind::Pipe));
        assert_eq!(kind(fd(&socket)), Some(DescriptorKind::Socket));
        assert_eq!((kind(fd(&file)), kind(1 << 20)), (None, None));
        let all = of_descriptors(std::process::id());
        assert!(all.contains(&(fd(&reader), DescriptorKind::Pipe)));
        assert!(all.iter().all(|(other, _)| *other != fd(&file)));
    }
}
