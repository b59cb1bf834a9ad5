//! The kinds of a long call's descriptors, from inode fields that a BPF program has read.

use super::layout::{double, long, task};
use crate::call::Call;
use crate::names::{self, DescriptorKind};
use crate::syscalls::{self, Kind};

const S_IFMT: u64 = 0o170_000;
const S_IFIFO: u64 = 0o010_000;
const S_IFSOCK: u64 = 0o140_000;
const S_IFCHR: u64 = 0o020_000;
/// `ANON_INODE_FS_MAGIC` of linux/magic.h
const ANONYMOUS: u64 = 0x0904_1934;
/// Major numbers of terminals: `tty`, `pts`, and the consoles of hypervisors, on USB and on boards.
const TERMINALS: [u64; 13] = [4, 5, 136, 137, 138, 139, 140, 141, 142, 143, 166, 188, 204];

/// The kind of the descriptor that a call used or opened, from its record; `None` if unknown.
pub(super) fn descriptor_in(record: &[u8], call: &Call<'_>) -> Option<DescriptorKind> {
    let syscall = syscalls::by_number(call.number)?;
    let descriptor = |(n, at): (usize, i16)| {
        let fd = match syscall.kind {
            Kind::Open => u32::try_from(call.result?).ok()?,
            _ => call.args[*syscall.fds.get(n)?] as u32,
        };
        let field = |field: i16| double(record, at + field - task::RECORD);
        let [mode, device, magic] = [0, long::DEVICE, long::MAGIC].map(field);
        (mode != 0).then(|| {
            kind(mode, device, magic)
                .unwrap_or_else(|| names::seen(call.pid, fd).unwrap_or(DescriptorKind::Other))
        })
    };
    let all = long::DESCRIPTORS.into_iter().enumerate();
    DescriptorKind::of_all(all.filter_map(descriptor), true)
}

/// The kind of a descriptor; `None` for kernel objects that share one anonymous inode, such as
/// eventfd(2).
fn kind(mode: u64, device: u64, magic: u64) -> Option<DescriptorKind> {
    /// Number of bits of the minor number in the kernel's `dev_t`.
    const MINOR: u32 = 20;
    match mode & S_IFMT {
        _ if magic == ANONYMOUS => None,
        S_IFIFO => Some(DescriptorKind::Pipe),
        S_IFSOCK => Some(DescriptorKind::Socket),
        S_IFCHR if TERMINALS.contains(&(device >> MINOR)) => Some(DescriptorKind::Terminal),
        _ => Some(DescriptorKind::File),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inodes_tell_what_descriptors_are() {
        use DescriptorKind::{File, Pipe, Socket, Terminal};
        const EXT4: u64 = 0xef53;
        for (mode, device, magic, expected) in [
            (0o010_600, 0, 0x5049_5045, Some(Pipe)),
            (0o010_644, 0, EXT4, Some(Pipe)),
            (0o140_777, 0, 0x534f_434b, Some(Socket)),
            (0o020_620, 136 << 20 | 3, 0x1cd1, Some(Terminal)),
            (0o020_666, 1 << 20 | 3, 0x0102_1994, Some(File)),
            (0o100_644, 0, EXT4, Some(File)),
            // Modes of the anonymous inode before and since Linux 6.16.
            (0o600, 0, ANONYMOUS, None),
            (0o100_600, 0, ANONYMOUS, None),
        ] {
            assert_eq!(kind(mode, device, magic), expected, "{mode:o}");
        }
    }
}
