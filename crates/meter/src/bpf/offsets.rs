//! The offsets of fields of the kernel's structs, from BTF, the kernel's description of its types.

use gate::bpf::Types;
use gate::fs::{At, CWD, Open, Want, openat, read, statx};
use gate::{Errno, Fd};
use ondisk::btf::Btf;

/// Offsets in bytes. Without BTF only the ids and the stack are known; the programs do without the
/// rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Offsets {
    /// `task_struct.pid`, which is the tid, and `task_struct.tgid`, which is the pid.
    pub(super) pid: u32,
    pub(super) tgid: u32,
    /// `task_struct.stack`: the kernel's stack, at whose other end the registers are.
    pub(super) stack: u32,
    /// `task_struct.files` and `fs`: threads with the same pointers share them.
    pub(super) files: Option<u32>,
    pub(super) fs: Option<u32>,
    pub(super) ids: Option<Ids>,
    pub(super) program: Option<Running>,
    pub(super) ends: Option<Ends>,
    pub(super) open: Option<OpenFile>,
}

/// The way from a thread to the inode of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OpenFile {
    /// `task_struct.files`, `files_struct.fdt`, `fdtable.fd`, `file.f_inode`.
    pub(super) files: u32,
    pub(super) table: u32,
    pub(super) descriptors: u32,
    pub(super) inode: u32,
    /// `inode.i_mode`, `inode.i_rdev`, `inode.i_sb`, `super_block.s_magic`.
    pub(super) mode: u32,
    pub(super) device: u32,
    pub(super) superblock: u32,
    pub(super) magic: u32,
}

/// The ids of a thread in each of its PID namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ids {
    /// `task_struct.thread_pid`, a `struct pid`.
    pub(super) thread_pid: u32,
    /// `pid.level`: the depth of its own namespace.
    pub(super) level: u32,
    /// `pid.numbers[0].nr`, and the distance to the next one.
    pub(super) numbers: u32,
    pub(super) size: u32,
    /// `pid.numbers[0].ns`.
    pub(super) namespace: u32,
    /// `task_struct.group_leader`: the main thread.
    pub(super) leader: u32,
}

/// The program that a process executes.
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
    /// The offsets in this kernel; `None` if it has no BTF.
    pub(super) fn read() -> Option<Offsets> {
        with_btf(Offsets::from_btf)
    }

    fn from_btf(btf: &Btf<'_>) -> Option<Offsets> {
        let [
            task,
            pid,
            upid,
            binprm,
            file,
            inode,
            sigpending,
            signal,
            files,
            table,
            superblock,
        ] = btf.structures([
            b"task_struct",
            b"pid",
            b"upid",
            b"linux_binprm",
            b"file",
            b"inode",
            b"sigpending",
            b"signal_struct",
            b"files_struct",
            b"fdtable",
            b"super_block",
        ]);
        let of = |structure: Option<u32>, name: &[u8]| Some(btf.member(structure?, name)?.offset);
        let field = |name: &[u8]| of(task, name);
        let ids = || {
            Some(Ids {
                thread_pid: field(b"thread_pid")?,
                level: of(pid, b"level")?,
                numbers: of(pid, b"numbers")?.checked_add(of(upid, b"nr")?)?,
                size: btf.size(upid?)?,
                namespace: of(pid, b"numbers")?.checked_add(of(upid, b"ns")?)?,
                leader: field(b"group_leader")?,
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
        let open = || {
            Some(OpenFile {
                files: field(b"files")?,
                table: of(files, b"fdt")?,
                descriptors: of(table, b"fd")?,
                inode: of(file, b"f_inode")?,
                mode: of(inode, b"i_mode")?,
                device: of(inode, b"i_rdev")?,
                superblock: of(inode, b"i_sb")?,
                magic: of(superblock, b"s_magic")?,
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
            open: open(),
        })
    }
}

/// The offsets of the fields between this process and the `task_struct` of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    /// From the inode of an entry of /proc to `proc_inode.pid`.
    pub(super) pid: i32,
    /// `pid.tasks[PIDTYPE_PID]`, and `task_struct.pid_links[PIDTYPE_PID]`, to which it points.
    pub(super) tasks: u32,
    pub(super) links: u32,
    /// `task_struct.flags` and `task_struct.__state`.
    pub(super) flags: u32,
    pub(super) state: u32,
}

impl Way {
    /// `None` if this kernel has no BTF, or another layout.
    pub(super) fn read() -> Option<Way> {
        with_btf(|btf| {
            let [task, entry, pid] = btf.structures([b"task_struct", b"proc_inode", b"pid"]);
            let of = |structure: Option<u32>, name: &[u8]| {
                let member = btf.member(structure?, name)?;
                Some(member.offset)
            };
            let inode = of(entry, b"vfs_inode")?;
            Some(Way {
                pid: of(entry, b"pid")?.cast_signed() - inode.cast_signed(),
                tasks: of(pid, b"tasks")?,
                links: of(task, b"pid_links")?,
                flags: of(task, b"flags")?,
                // Linux 5.14 gave it this name.
                state: of(task, b"__state").or_else(|| of(task, b"state"))?,
            })
        })
    }
}

/// Looks something up in this kernel's BTF; `None` if it has none.
fn with_btf<T>(look_up: impl FnOnce(&Btf<'_>) -> Option<T>) -> Option<T> {
    let file = openat(CWD, c"/sys/kernel/btf/vmlinux", Open::NONBLOCK).ok()?;
    match map_types(&file) {
        Ok(types) => look_up(&Btf::parse(&types)?),
        Err(_) => look_up(&Btf::parse(&read_types(&file)?)?),
    }
}

fn map_types(file: &Fd) -> Result<Types, Errno> {
    let len = statx(file, c"", At::EMPTY_PATH, Want::SIZE)?.size;
    Types::map(file, usize::try_from(len).map_err(|_| Errno::EFBIG)?)
}

/// Before Linux 6.16 the file cannot be mapped, and a read returns a page at most: this takes more
/// than a thousand calls.
fn read_types(file: &Fd) -> Option<Vec<u8>> {
    const MOST: usize = 64 << 20;
    let (mut types, mut len) = (vec![0; 8 << 20], 0);
    loop {
        match read(file, types.get_mut(len..)?).ok()? {
            0 => break,
            n => len += n,
        }
        if len == types.len() && len < MOST {
            types.resize(len * 2, 0);
        }
    }
    types.truncate(len);
    Some(types)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapping_and_reading_btf_give_the_same_bytes() {
        let Ok(file) = openat(CWD, c"/sys/kernel/btf/vmlinux", Open::NONBLOCK) else {
            return crate::skip::skip("a kernel with BTF is needed");
        };
        match map_types(&file) {
            Ok(types) => assert!(read_types(&file).unwrap() == *types),
            Err(errno) => eprintln!("SKIPPED: this kernel cannot map it: {errno}"),
        }
    }

    #[test]
    fn bytes_that_are_no_btf_have_no_offsets() {
        let offsets = |bytes: &[u8]| Btf::parse(bytes).and_then(|btf| Offsets::from_btf(&btf));
        assert_eq!(offsets(b""), None);
        assert_eq!(offsets(&[0; 100]), None);
    }
}
