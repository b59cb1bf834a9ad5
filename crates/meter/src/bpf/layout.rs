//! Data shared by the BPF programs and user space: the words of an array map, the values of the
//! other maps, the records in the ring buffer, and the layout of a thread's registers. `layout.h`
//! has the same definitions in C.

use gate::bpf::Map;

use crate::call::LONG_CALL;
use crate::syscalls::{self, Kind, NUMBERS, PRCTL};

/// Constants of the BPF programs, set before they are loaded.
#[derive(Clone, Copy, Default)]
pub(super) struct Config {
    /// The secret arguments by which fathom and the command announce themselves to the programs.
    pub(super) cookie: [u64; 2],
    /// The number of buckets of the map `tasks`: a power of two.
    pub(super) buckets: u32,
    /// Fill of the ring buffer in bytes at which user space is woken.
    pub(super) watermark: u32,
    pub(super) joins: Option<Joins>,
    /// Whether each BPF program has a `_2` duplicate, which runs if the kernel skips the first
    /// program.
    pub(super) has_second: bool,
    /// The offset in `task_struct` at which `fathom_look` starts to output.
    pub(super) look_from: u64,
}

impl Config {
    /// The number of 64-bit words of this struct.
    pub(super) const WORDS: usize = 20;

    /// Creates a map with this configuration (`struct config` in C).
    pub(super) fn to_map(self) -> gate::Result<Map> {
        let number = |offset: i32| u64::from(offset.cast_unsigned());
        let call = |name| syscalls::by_name(name).map_or(u64::MAX, |call| call.number.into());
        let [first, second, third, ..] = REGISTERS.arguments.map(|offset| offset as u64 / 8);
        let words: [u64; Config::WORDS] = [
            self.cookie[0],
            self.cookie[1],
            u64::from(self.buckets.saturating_sub(1)),
            self.watermark.into(),
            self.joins.map_or(0, |joins| joins as u64),
            self.has_second.into(),
            self.look_from,
            number(REGISTERS.copied),
            first,
            second,
            third,
            number(REGISTERS.first.unwrap_or(0)),
            number(REGISTERS.number),
            number(REGISTERS.mode),
            number(REGISTERS.compat[0]),
            number(REGISTERS.compat[1]),
            PRCTL.into(),
            call("execve"),
            call("execveat"),
            LONG_CALL,
        ];
        Map::constants("fathom_config", &words.map(u64::to_ne_bytes).concat())
    }
}

/// Which running threads are metered from their next call on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Joins {
    /// All threads of the PID namespace of fathom.
    All = 1,
    /// The threads of the cgroup in the map `cgroups`, and of its descendants.
    Cgroup = 2,
}

/// Offsets of a thread's registers during a system call: `struct pt_regs`.
pub(super) struct Registers {
    /// The offset of [`COPIED`] bytes that include all arguments.
    pub(super) copied: i32,
    /// The offset of each argument within the copied bytes.
    pub(super) arguments: [i16; 6],
    /// The offset of the first argument on return from the call, if the result has overwritten its
    /// register.
    pub(super) first: Option<i32>,
    /// The offset of the system call number.
    pub(super) number: i32,
    /// The register that tells a 32-bit program: its offset, a mask, and the value for 32 bits.
    pub(super) mode: i32,
    pub(super) compat: [i32; 2],
}

/// The registers from byte 56 of `struct pt_regs` on: r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs
/// (asm/ptrace.h of x86-64). The code segment of 32-bit programs is 0x23.
#[cfg(target_arch = "x86_64")]
pub(super) const REGISTERS: Registers = Registers {
    copied: 56,
    arguments: [56, 48, 40, 0, 16, 8],
    first: None,
    number: 120,
    mode: 136,
    compat: [0xffff, 0x23],
};

/// The registers: x0 to x30, sp, pc, then pstate, which has a bit for 32-bit programs; then the
/// original x0 and the system call number.
#[cfg(not(target_arch = "x86_64"))]
pub(super) const REGISTERS: Registers = Registers {
    copied: 0,
    arguments: [0, 8, 16, 24, 32, 40],
    first: Some(272),
    number: 280,
    mode: 264,
    compat: [0x10, 0x10],
};

/// The arguments of a call, from a copy of its registers.
pub(super) fn arguments(registers: &[u8]) -> [u64; 6] {
    REGISTERS.arguments.map(|at| double(registers, at))
}

/// The 4 bytes at an offset of a record or map value; 0 beyond the end.
pub(super) fn word(bytes: &[u8], at: i16) -> u32 {
    let bytes = bytes.get(at as usize..).and_then(<[u8]>::first_chunk);
    bytes.copied().map_or(0, u32::from_ne_bytes)
}

/// The 8 bytes at an offset of a record or map value; 0 beyond the end.
pub(super) fn double(bytes: &[u8], at: i16) -> u64 {
    let bytes = bytes.get(at as usize..).and_then(<[u8]>::first_chunk);
    bytes.copied().map_or(0, u64::from_ne_bytes)
}

/// Bits that describe a system call to the BPF programs; 0 for a call that is not counted.
pub(super) mod class {
    pub(crate) const COUNTED: u64 = 1;
    /// The call has a path argument, at the register offset in the second byte.
    pub(crate) const NAME: u64 = 4;
    /// The call has a second path argument, at the offset in the third byte.
    pub(crate) const OTHER: u64 = 8;
    /// Shifts of the positions of descriptors among the words of the record, from the result (0)
    /// through the registers; 0 also means none.
    pub(crate) const DESCRIPTORS: [u32; 2] = [24, 32];
    /// The result is a descriptor. (Arguments are at word 1 or later.)
    pub(crate) const RESULT: u64 = 0x80;
}

/// The class of each system call number.
pub(super) fn classes() -> impl Iterator<Item = u64> {
    (0..NUMBERS as u32).map(|number| {
        let Some(call) = syscalls::by_number(number) else {
            return 0;
        };
        let offset = |name: &syscalls::Name| REGISTERS.arguments[name.arg] as u64;
        let name = call.names.first().map(offset);
        let other = call.names.get(1).map(offset);
        let mut fds: Vec<u64> = call
            .fds
            .iter()
            .map(|arg| 1 + REGISTERS.arguments[*arg] as u64 / 8)
            .collect();
        if call.kind == Kind::Open {
            fds = vec![class::RESULT];
        }
        let fds = fds.into_iter().zip(class::DESCRIPTORS);
        let fds: u64 = fds.map(|(word, bit)| word << bit).sum();
        class::COUNTED
            | name.map_or(0, |at| class::NAME | at << 8)
            | other.map_or(0, |at| class::OTHER | at << 16)
            | fds
    })
}

/// Indexes of the words of the array map, which is mapped into user space.
pub(super) mod shared {
    use crate::syscalls::NUMBERS;

    /// Number of metered threads.
    pub(crate) const LIVE: usize = 0;
    /// Not 0 once the command has announced itself.
    pub(crate) const SEEN: usize = 1;
    /// Number of threads that the map had no room for.
    pub(crate) const UNFOLLOWED: usize = 2;
    /// Number of forks, execs and exits that the ring buffer had no room for.
    pub(crate) const LOST_EVENTS: usize = 3;
    /// Number of calls of 32-bit programs.
    pub(crate) const COMPAT_CALLS: usize = 4;
    /// Number of calls in which the calling thread ended.
    pub(crate) const UNFINISHED: usize = 5;
    /// Numbers of entries ever created in the maps of slots (processes) and cells (their calls).
    pub(crate) const SLOTS: usize = 6;
    pub(crate) const CELLS: usize = 7;
    /// Signed number of calls that are still to be reported. Each call decrements it at entry,
    /// whether or not the ring has room for its record on return.
    pub(crate) const LEFT: usize = 8;
    /// Nanoseconds of a metered empty call, measured by the child process before exec.
    pub(crate) const EMPTY_CALL: usize = 10;
    /// Not 0 while user space sleeps and wants to be woken.
    pub(crate) const ASLEEP: usize = 11;
    /// Not 0 when the child process has found `SEEN` set; from then on `LIVE` includes the child.
    pub(crate) const BEGUN: usize = 12;
    /// Number of calls of metered threads for whose return the kernel ran no BPF program.
    pub(crate) const MISSED: usize = 14;
    /// The running thread to meter, in words 15 to 17 (descriptor of its /proc directory, slot, pid
    /// and tid), and the result in word 18, see [`adoption`](super::adoption).
    pub(crate) const ADOPT_FD: usize = 15;
    pub(crate) const ADOPT_SLOT: usize = 16;
    pub(crate) const ADOPT_IDS: usize = 17;
    pub(crate) const ADOPTED: usize = 18;
    /// The PID of fathom in the initial PID namespace. Once it is set, running threads
    /// [join](super::kind::JOIN): they are metered from their next call on.
    pub(crate) const OWN_PID: usize = 19;
    /// Number of long calls beyond the report limit for which the ring had no room.
    pub(crate) const LOST_LONG: usize = 21;
    /// Start of the classes of all system calls.
    pub(crate) const CLASSES: usize = 22;
    /// Start of the sums (calls, nanoseconds, errors) per system call that the map of cells had no
    /// room for.
    pub(crate) const SPILL: usize = CLASSES + NUMBERS;
    pub(crate) const WORDS: usize = SPILL + 3 * NUMBERS;
}

/// Results of entering a running thread into the map `tasks`.
pub(super) mod adoption {
    pub(crate) const NOW: i32 = 1;
    pub(crate) const BEFORE: i32 = 2;
    /// The thread has not run yet.
    pub(crate) const UNBORN: i32 = 3;
    pub(crate) const GONE: i32 = 4;
    pub(crate) const FULL: i32 = 5;
}

/// A metered thread: the value of a [bucket](super::bucket) of the map `tasks`. Fields that each
/// call needs come first, to touch few cache lines.
pub(super) mod task {
    pub(crate) const FLAGS: i16 = 8;
    pub(crate) const SLOT: i16 = 16;
    /// Start of the record for the ring buffer, which ends with the names.
    pub(crate) const RECORD: i16 = 32;
    pub(crate) const NUMBER: i16 = RECORD + 4;
    pub(crate) const PID: i16 = RECORD + 8;
    pub(crate) const TID: i16 = RECORD + 12;
    pub(crate) const START: i16 = RECORD + 16;
    pub(crate) const NANOS: i16 = RECORD + 24;
    pub(crate) const RESULT: i16 = RECORD + 32;
    pub(crate) const REGISTERS: i16 = RECORD + 40;
    /// The lengths of the names, including NUL; 0 for none. Names longer than `SHORT` have a record
    /// of their own.
    pub(crate) const FIRST: i16 = RECORD + 104;
    pub(crate) const SECOND: i16 = RECORD + 108;
    pub(crate) const NAMES: i16 = RECORD + 112;
    pub(crate) const SHORT: i16 = 96;
    /// [Sums](super::sum) of calls that are not in a cell yet. Only the thread itself writes them,
    /// so a thread that repeats a few calls needs no atomic additions.
    pub(crate) const SUMS: i16 = NAMES + 2 * SHORT;
    pub(crate) const LEN: i16 = SUMS + super::sum::WAYS * super::sum::LEN;

    /// Flag: report the current call.
    pub(crate) const REPORTED: i32 = 1;
}

/// Constants of the map `tasks`, a hash table: see `tasks.h`.
pub(super) mod bucket {
    /// Hash buckets per thread.
    pub(crate) const PER_TASK: u32 = 2;
}

/// Calls of one kind (number and error) by a thread. Each kind has one place among the sums of the
/// thread. If a different kind occupies the place, that kind's sum is first flushed to its cell.
pub(super) mod sum {
    use crate::syscalls::NUMBERS;

    /// The system call number, and in the higher bits the error.
    pub(crate) const KIND: i16 = 0;
    pub(crate) const CALLS: i16 = 4;
    pub(crate) const NANOS: i16 = 8;
    pub(crate) const LEN: i16 = 16;
    /// The lowest bit of the error.
    pub(crate) const ERROR: u32 = NUMBERS.trailing_zeros();
    pub(crate) const WAYS: i16 = 8;
}

/// A process while it executes one program: the value of the map `slots`, whose keys are never
/// reused; and, with a kind instead of `LIVE`, the record of an exec or a join.
pub(super) mod slot {
    /// Number of metered threads of the process.
    pub(crate) const LIVE: i16 = 0;
    /// In an exec record, the former tid of the thread; in a join record, its tid.
    pub(crate) const FORMER: i16 = 4;
    /// The slot of the process that executed the program: a forked child refers to its parent's.
    pub(crate) const PROGRAM: i16 = 8;
    /// The inode number of the executable.
    pub(crate) const INODE: i16 = 16;
    pub(crate) const PID: i16 = 24;
    pub(crate) const NAME_LEN: i16 = 28;
    pub(crate) const NAME: i16 = 32;
    pub(crate) const LEN: i16 = 512;

    /// The slot of the command before its exec. The map has no such key, and its cells are dropped.
    pub(crate) const FIRST: u64 = 1;
}

/// The first word of each record in the ring.
pub(super) mod kind {
    pub(crate) const CALL: i32 = 1;
    pub(crate) const UNFINISHED: i32 = 2;
    pub(crate) const NAMES: i32 = 3;
    pub(crate) const FORK: i32 = 4;
    pub(crate) const EXEC: i32 = 5;
    pub(crate) const EXIT: i32 = 6;
    /// A running thread is metered from now on. Its record is a slot, as for an exec.
    pub(crate) const JOIN: i32 = 9;
    /// A call of [`LONG_CALL`](crate::call::LONG_CALL) or longer, beyond the report limit.
    pub(crate) const LONG: i32 = 10;
}

/// Fields of the record of a long call ([`kind::LONG`]): which descriptors it used. They are where
/// the records of other calls have names.
pub(super) mod long {
    use super::task;

    /// The slot of the calling process.
    pub(crate) const SLOT: i16 = task::NAMES;
    /// For each of two descriptors: inode mode, device, and file-system type (`statfs.f_type`);
    /// zeros for none.
    pub(crate) const DESCRIPTORS: [i16; 2] = [SLOT + 8, SLOT + 32];
    pub(crate) const DEVICE: i16 = 8;
    pub(crate) const MAGIC: i16 = 16;
}

/// Fields of the record of a fork.
pub(super) mod fork {
    pub(crate) const PARENT: i16 = 4;
    pub(crate) const PID: i16 = 8;
    pub(crate) const TID: i16 = 12;
    /// Flags of what the child shares with its parent: `FILES`, `FS`.
    pub(crate) const SHARES: i16 = 16;
    pub(crate) const FILES: i32 = 1;
    pub(crate) const FS: i32 = 2;
}

/// The record of long names, which precedes the record of their call: lengths including NUL, the
/// system call number, and the names.
pub(super) mod names {
    pub(crate) const TID: i16 = 4;
    pub(crate) const FIRST: i16 = 8;
    pub(crate) const SECOND: i16 = 12;
    pub(crate) const NUMBER: i16 = 16;
    pub(crate) const BYTES: i16 = 24;
    /// `PATH_MAX`, which includes the NUL.
    pub(crate) const LONGEST: i32 = 4096;
}

/// The map `scratch`, with one entry for each of several programs.
pub(super) mod scratch {
    use super::names;

    pub(crate) const ENTRIES: u32 = 5;
    /// Bytes of an entry: the largest record, with two names of maximum length.
    pub(crate) const LEN: usize = names::BYTES as usize + 2 * names::LONGEST as usize;
}

/// Bytes of a `task_struct` in a record of `fathom_look`, after 24 bytes: the kind, the ids of the
/// thread, and the address of its registers.
pub(super) const LOOKED: usize = 4096;

/// First arguments of the prctl(2) by which a thread announces itself to the programs; the next two
/// arguments are the cookie.
pub(super) mod announce {
    /// Meter the calling thread from now on.
    pub(crate) const COMMAND: u32 = 0x6661_7468;
    /// Meter the running thread that [`ADOPT_FD`](super::shared::ADOPT_FD) names.
    pub(crate) const THREAD: u32 = COMMAND + 1;
    /// Meter running threads from their next call on.
    pub(crate) const JOINS: u32 = COMMAND + 2;
    /// The program `fathom_look` outputs the caller's `task_struct`.
    pub(crate) const LOOK: u32 = COMMAND + 3;
}
