//! Restrictions on the program under test: another user, a chroot, limits, failing system calls.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::chroot;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::build::{bind, dir};
use super::run::{fathom_path, program};

// These numbers are the same on every architecture.
pub(crate) const STATMOUNT: u32 = 457;
pub(crate) const LISTMOUNT: u32 = 458;

/// The calls that a [`Rule`] applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Calls {
    All,
    /// Calls whose argument of this index (its lower 32 bits) has this value.
    With(u32, u32),
    /// Calls whose argument of this index has one of these bits.
    WithBits(u32, u32),
}

/// Makes system calls fail with an error number; with 0 they succeed and do nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) number: u32,
    pub(crate) calls: Calls,
    pub(crate) errno: i32,
}

/// Makes all system calls of these numbers fail with `errno`.
pub(crate) fn fail_calls(command: &mut Command, calls: &[u32], errno: i32) {
    let rule = |&number: &u32| Rule {
        number,
        calls: Calls::All,
        errno,
    };
    apply(command, &calls.iter().map(rule).collect::<Vec<_>>());
}

/// Applies the rules with a seccomp filter, which child processes inherit. A filter sees numbers
/// and arguments, but not the memory that arguments point to, and can change only the error that a
/// call returns.
pub(crate) fn apply(command: &mut Command, rules: &[Rule]) {
    let filter = filter(rules);
    let install = move || {
        let len = u16::try_from(filter.len()).unwrap();
        let program = libc::sock_fprog {
            len,
            filter: filter.as_ptr().cast_mut(),
        };
        // SAFETY: both calls take plain numbers and a filter that outlives them.
        let done = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(
                    libc::PR_SET_SECCOMP,
                    libc::SECCOMP_MODE_FILTER,
                    &raw const program,
                ) == 0
        };
        if done {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    };
    // SAFETY: between fork and exec it makes two system calls, and allocates nothing.
    unsafe { command.pre_exec(install) };
}

fn filter(rules: &[Rule]) -> Vec<libc::sock_filter> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const IF_BITS: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    // Offsets in `struct seccomp_data`.
    const ARCH: u32 = 4;
    let argument = |index: u32| 16 + 8 * index;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };

    // System calls have other numbers in programs for other architectures.
    let mut steps = vec![
        step(LOAD, 0, 0, ARCH),
        step(IF_EQUAL, 1, 0, gate::seccomp::ARCH),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    for rule in rules {
        let fail = libc::SECCOMP_RET_ERRNO | rule.errno.cast_unsigned();
        steps.push(step(LOAD, 0, 0, 0));
        match rule.calls {
            Calls::All => steps.push(step(IF_EQUAL, 0, 1, rule.number)),
            Calls::With(index, value) => steps.extend([
                step(IF_EQUAL, 0, 3, rule.number),
                step(LOAD, 0, 0, argument(index)),
                step(IF_EQUAL, 0, 1, value),
            ]),
            Calls::WithBits(index, bits) => steps.extend([
                step(IF_EQUAL, 0, 3, rule.number),
                step(LOAD, 0, 0, argument(index)),
                step(IF_BITS, 0, 1, bits),
            ]),
        }
        steps.push(step(RETURN, 0, 0, fail));
    }
    steps.push(step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW));
    steps
}

/// Runs the command as an ordinary user.
pub(crate) fn as_nobody(command: &mut Command) {
    command.uid(1000).gid(1000);
}

/// The program, run by an ordinary user. It is mounted below `ground`, the directory of a
/// namespace, on the first call.
pub(crate) fn fathom_as_nobody<A: Into<OsString>>(
    ground: &Path,
    args: impl IntoIterator<Item = A>,
) -> Command {
    let bin = ground.join("bin");
    let mut here = bin.join("fathom");
    if !here.exists() {
        here = fathom_in(&bin);
    }
    let mut command = program(&here, args);
    as_nobody(&mut command);
    command
}

/// Bind-mounts the program into the directory `at`, where every user may execute it, and returns
/// its path.
pub(crate) fn fathom_in(at: &Path) -> PathBuf {
    bind(fathom_path(), dir(at).join("fathom"))
}

/// Binds the program, as `/fathom`, and the system's libraries into a directory.
pub(crate) fn populate_chroot(root: &Path) {
    for part in ["usr", "lib", "lib32", "lib64", "libx32"].map(|part| Path::new("/").join(part)) {
        let here = root.join(part.strip_prefix("/").unwrap());
        if let Ok(link) = std::fs::read_link(&part) {
            std::os::unix::fs::symlink(link, here).unwrap();
        } else if part.exists() {
            bind(&part, here);
        }
    }
    fathom_in(root);
}

/// The program in a chroot created by [`populate_chroot`].
pub(crate) fn in_chroot(root: &Path) -> Command {
    let mut command = Command::new("/fathom");
    let root = root.to_owned();
    // SAFETY: between fork and exec it makes two system calls; the path fits the buffer on the
    // stack.
    unsafe {
        command.pre_exec(move || {
            chroot(&root)?;
            std::env::set_current_dir("/")
        });
    }
    command
}

/// Limits the program's memory for data (RLIMIT_DATA: stacks and heaps, not mapped files).
pub(crate) fn limit_memory(command: &mut Command, mib: u64) {
    let install = move || {
        let limit = rustix::process::Rlimit {
            current: Some(mib << 20),
            maximum: Some(mib << 20),
        };
        Ok(rustix::process::setrlimit(
            rustix::process::Resource::Data,
            limit,
        )?)
    };
    // SAFETY: between fork and exec it makes one system call, and allocates nothing.
    unsafe { command.pre_exec(install) };
}

/// Limits the number of open files (RLIMIT_NOFILE).
pub(crate) fn limit_open_files(command: &mut Command, files: u64) -> &mut Command {
    let install = move || {
        let limit = rustix::process::Rlimit {
            current: Some(files),
            maximum: Some(files),
        };
        Ok(rustix::process::setrlimit(
            rustix::process::Resource::Nofile,
            limit,
        )?)
    };
    // SAFETY: between fork and exec it makes one system call, and allocates nothing.
    unsafe { command.pre_exec(install) }
}

/// Limits the size of the files that the program writes (RLIMIT_FSIZE).
pub(crate) fn limit_file_size(command: &mut Command, bytes: u64) -> &mut Command {
    let install = move || {
        let limit = rustix::process::Rlimit {
            current: Some(bytes),
            maximum: Some(bytes),
        };
        Ok(rustix::process::setrlimit(
            rustix::process::Resource::Fsize,
            limit,
        )?)
    };
    // SAFETY: between fork and exec it makes one system call, and allocates nothing.
    unsafe { command.pre_exec(install) }
}

/// Starts the program with standard output closed.
pub(crate) fn without_stdout(command: &mut Command) -> &mut Command {
    // SAFETY: between fork and exec it makes one system call.
    unsafe {
        command.pre_exec(|| {
            libc::close(libc::STDOUT_FILENO);
            Ok(())
        })
    }
}
