//! Where the fields of the kernel's own structs are. The kernel says so itself (BTF); one that is
//! built without it is looked at: a thread whose ids are known is asked for its `task_struct`, and
//! they stand in it next to each other; and the stack is what its registers are on.

use gate::bpf::{Kind, Map, Program, Ring, Types, prctl_unknown, raw_tracepoint_open};
use gate::fs::{At, CWD, Open, Want, openat, read, statx};
use gate::{Errno, Fd};
use ondisk::btf::Btf;

use super::draft::Things;
use super::layout::{LOOKED, SCRATCH, SIGN};
use super::{LICENSE, program};
use crate::error::Unavailable;

/// Where what is needed is, in bytes. Without BTF only the ids and the stack are known, and the
/// rest does without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offsets {
    /// `task_struct.pid`, which is the tid, and `task_struct.tgid`, which is the pid.
    pub(super) pid: u32,
    pub(super) tgid: u32,
    /// `task_struct.stack`: that of the kernel, at the other end of which are the registers of a
    /// program that makes a call.
    pub(super) stack: u32,
    /// `task_struct.files` and `fs`: who has the same ones shares them.
    pub(super) files: Option<u32>,
    pub(super) fs: Option<u32>,
    pub(super) ids: Option<Ids>,
    pub(super) program: Option<Running>,
    pub(super) ends: Option<Ends>,
}

/// The ids of a thread in its PID namespaces, from the outermost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ids {
    /// `task_struct.thread_pid`, a `struct pid`.
    pub(super) thread_pid: u32,
    /// `pid.level`: how deep its own namespace is.
    pub(super) level: u32,
    /// `pid.numbers[0].nr`, and how many bytes further the next one is.
    pub(super) numbers: u32,
    pub(super) size: u32,
}

/// What a process begins to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Running {
    /// `linux_binprm.interp`: the name of the file; of a script, that of its interpreter.
    pub(super) interp: u32,
    /// `linux_binprm.file`, `file.f_inode`, `inode.i_ino`.
    pub(super) file: u32,
    pub(super) inode: u32,
    pub(super) ino: u32,
}

/// How a thread ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    /// `task_struct.pending.signal`: signals for this thread.
    pub(super) pending: u32,
    /// `task_struct.signal`, a `signal_struct`, and its `group_exit_code`.
    pub(super) signal: u32,
    pub(super) group_exit_code: u32,
}

impl Offsets {
    /// As this kernel says, if it does; else by looking.
    ///
    /// # Errors
    /// Why they cannot be found.
    pub(super) fn find() -> Result<Offsets, Unavailable> {
        said(Offsets::from_btf)
            .flatten()
            .map_or_else(Offsets::probe, Ok)
    }

    /// From the kernel's types.
    pub(super) fn from_btf(types: &[u8]) -> Option<Offsets> {
        let btf = Btf::parse(types)?;
        let [task, pid, upid, binprm, file, inode, sigpending, signal] = btf.structures([
            b"task_struct",
            b"pid",
            b"upid",
            b"linux_binprm",
            b"file",
            b"inode",
            b"sigpending",
            b"signal_struct",
        ]);
        let of = |structure: Option<u32>, name: &[u8]| Some(btf.member(structure?, name)?.offset);
        let field = |name: &[u8]| of(task, name);
        let ids = || {
            Some(Ids {
                thread_pid: field(b"thread_pid")?,
                level: of(pid, b"level")?,
                numbers: of(pid, b"numbers")?.checked_add(of(upid, b"nr")?)?,
                size: btf.size(upid?)?,
            })
        };
        let program = || {
            Some(Running {
                interp: of(binprm, b"interp")?,
                file: of(binprm, b"file")?,
                inode: of(file, b"f_inode")?,
                ino: of(inode, b"i_ino")?,
            })
        };
        let ends = || {
            Some(Ends {
                pending: field(b"pending")?.checked_add(of(sigpending, b"signal")?)?,
                signal: field(b"signal")?,
                group_exit_code: of(signal, b"group_exit_code")?,
            })
        };
        Some(Offsets {
            pid: field(b"pid")?,
            tgid: field(b"tgid")?,
            stack: field(b"stack")?,
            files: field(b"files"),
            fs: field(b"fs"),
            ids: ids(),
            program: program(),
            ends: ends(),
        })
    }

    /// By looking at the `task_struct` of a thread of our own that is not the main one, whose two
    /// ids therefore differ.
    ///
    /// # Errors
    /// Why they cannot be found.
    pub(super) fn probe() -> Result<Offsets, Unavailable> {
        /// Pieces overlap by this, so that no pair of ids is cut in two.
        const OVERLAP: usize = 8;
        const PIECES: usize = 6;
        /// The smallest page, and the largest stack.
        const PAGE: u64 = 4 << 10;
        const DEEPEST: u64 = 64 << 10;
        const ROOM: u32 = 64 << 10;
        let mut ring = Ring::new("fathom_look", ROOM).map_err(Unavailable::BpfMap)?;
        let scratch = Map::new(Kind::PercpuArray, "fathom_look", 4, SCRATCH, 1)
            .map_err(Unavailable::BpfMap)?;
        let mut stack = None;
        for piece in 0..PIECES {
            let from = piece * (LOOKED - OVERLAP);
            let cookie = super::cookie();
            let code = program::look(
                &Things {
                    ring: super::raw(&ring),
                    scratch: super::raw(&scratch),
                    cookie,
                    ..Things::NONE
                },
                from as i32,
            );
            let code = code.ok_or(Unavailable::BpfAssembly)?;
            let program = Program::load_raw_tracepoint("fathom_look", &code, LICENSE)?;
            let tracepoint = c"sys_enter";
            let attached = raw_tracepoint_open(tracepoint, &program)
                .map_err(|errno| Unavailable::Attach { tracepoint, errno })?;
            std::thread::scope(|scope| {
                scope.spawn(|| prctl_unknown(SIGN as u32, cookie[0], cookie[1]));
            });
            drop(attached);
            let mut pid = None;
            ring.drain(|record| {
                let (ids, task) = (
                    record.get(8..16).unwrap_or_default(),
                    record.get(24..).unwrap_or_default(),
                );
                let number = |word: &[u8]| word.try_into().map_or(0, u64::from_ne_bytes);
                let registers = record.get(16..24).map_or(0, number);
                let begins_below = |word: &[u8]| {
                    let word = number(word);
                    word.is_multiple_of(PAGE)
                        && (1..=DEEPEST).contains(&registers.wrapping_sub(word))
                };
                let below = task.chunks_exact(8).position(begins_below);
                stack = stack.or(below.map(|at| (from + 8 * at) as u32));
                // The lower half is the tid, which the kernel calls pid.
                pid = task
                    .windows(8)
                    .step_by(4)
                    .position(|pair| pair == ids)
                    .map(|at| (from + 4 * at) as u32);
            });
            if let (Some(pid), Some(stack)) = (pid, stack) {
                let (files, fs, ids, program, ends) = (None, None, None, None, None);
                return Ok(Offsets {
                    pid,
                    tgid: pid + 4,
                    stack,
                    files,
                    fs,
                    ids,
                    program,
                    ends,
                });
            }
        }
        Err(Unavailable::NoBtf)
    }
}

/// What is seen in what the kernel says of its types.
fn said<T>(see: impl FnOnce(&[u8]) -> T) -> Option<T> {
    let file = openat(CWD, c"/sys/kernel/btf/vmlinux", Open::NONBLOCK).ok()?;
    match mapped(&file) {
        Ok(types) => Some(see(&types)),
        Err(_) => Some(see(&copied(&file)?)),
    }
}

fn mapped(file: &Fd) -> Result<Types, Errno> {
    let len = statx(file, c"", At::EMPTY_PATH, Want::SIZE)?.size;
    Types::map(file, usize::try_from(len).map_err(|_| Errno::EFBIG)?)
}

/// A page at a time is all that older kernels give: more than a thousand calls.
fn copied(file: &Fd) -> Option<Vec<u8>> {
    const MOST: usize = 64 << 20;
    let (mut types, mut have) = (vec![0; 8 << 20], 0);
    loop {
        match read(file, types.get_mut(have..)?).ok()? {
            0 => break,
            n => have += n,
        }
        if have == types.len() && have < MOST {
            types.resize(have * 2, 0);
        }
    }
    types.truncate(have);
    Some(types)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_and_what_is_seen_are_the_same() {
        let (Some(said), Ok(seen)) = (said(Offsets::from_btf), Offsets::probe()) else {
            return eprintln!("SKIPPED: it takes a kernel with BTF, and permission for BPF");
        };
        let said = said.unwrap();
        assert_eq!(
            (said.pid, said.tgid, said.stack),
            (seen.pid, seen.tgid, seen.stack)
        );
        assert!(said.files.is_some() && said.fs.is_some(), "{said:?}");
        assert!(
            said.ids.is_some() && said.program.is_some() && said.ends.is_some(),
            "{said:?}"
        );
    }

    #[test]
    fn what_is_mapped_is_what_is_read() {
        let Ok(file) = openat(CWD, c"/sys/kernel/btf/vmlinux", Open::NONBLOCK) else {
            return eprintln!("SKIPPED: it takes a kernel with BTF");
        };
        match mapped(&file) {
            Ok(types) => assert!(copied(&file).unwrap() == *types),
            Err(errno) => eprintln!("SKIPPED: this kernel has it read only: {errno}"),
        }
    }

    #[test]
    fn what_is_no_description_says_nothing() {
        assert_eq!(Offsets::from_btf(b""), None);
        assert_eq!(Offsets::from_btf(&[0; 100]), None);
    }
}
