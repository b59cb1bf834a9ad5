//! The kernel's structs whose fields the BPF programs read, from BTF, the kernel's type
//! information.

use gate::bpf::Types as Mapped;
use gate::fs::{CWD, Open, StatxMask, fstat, openat, read};
use gate::{Errno, Fd};
use ondisk::btf::{self, Btf, Field};

/// The structs whose fields `kernel.h` names.
const STRUCTS: [&[u8]; 12] = [
    b"task_struct",
    b"pid",
    b"upid",
    b"linux_binprm",
    b"file",
    b"inode",
    b"super_block",
    b"files_struct",
    b"fdtable",
    b"sigpending",
    b"signal_struct",
    b"proc_inode",
];

/// Types of the kernel, as BTF.
pub(super) struct Types {
    pub(super) btf: Vec<u8>,
    /// The types are the kernel's own BTF. Otherwise only the ids and the stack pointer are known,
    /// and the programs use no other field.
    pub(super) are_complete: bool,
}

impl Types {
    /// Reads the types of this kernel; `None` if it has no BTF.
    pub(super) fn read() -> Option<Types> {
        let file = openat(CWD, c"/sys/kernel/btf/vmlinux", Open::NONBLOCK).ok()?;
        let extract = |bytes: &[u8]| Btf::parse(bytes)?.extract(STRUCTS);
        let btf = match map_types(&file) {
            Ok(types) => extract(&types),
            Err(_) => extract(&read_types(&file)?),
        };
        Some(Types {
            btf: btf?,
            are_complete: true,
        })
    }

    /// The required fields of `task_struct` at these offsets.
    pub(super) fn at(pid: u32, tgid: u32, stack: u32) -> Types {
        let fields = [
            Field::Number(b"pid", pid),
            Field::Number(b"tgid", tgid),
            Field::Pointer(b"stack", stack),
        ];
        Types {
            btf: btf::describe(b"task_struct", &fields),
            are_complete: false,
        }
    }
}

fn map_types(file: &Fd) -> Result<Mapped, Errno> {
    let len = fstat(file, StatxMask::SIZE)?.size;
    Mapped::map(file, usize::try_from(len).map_err(|_| Errno::EFBIG)?)
}

/// Reads /sys/kernel/btf/vmlinux. Before Linux 6.16 that file cannot be mapped, and a read returns
/// at most a page, so this takes more than a thousand calls.
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
}
