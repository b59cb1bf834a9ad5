//! What the programs and user space share: the words of an array map, the values of the other maps,
//! the records in the ring buffer, and the layout of a thread's registers. The programs have it in `layout.h`.

use gate::bpf::Map;

use crate::call::LONG_CALL;
use crate::syscalls::{self, Kind, NUMBERS, PRCTL};

/// The constants of the programs.
#[derive(Clone, Copy, Default)]
pub(super) struct Config {
    /// The secret by which this process and the command announce themselves.
    pub(super) cookie: [u64; 2],
    /// The number of buckets of `tasks`: a power of two.
    pub(super) buckets: u32,
    /// Bytes in the ring from which on user space is woken.
    pub(super) watermark: u32,
    pub(super) joins: Option<Joins>,
    /// Skipped programs have a second one.
    pub(super) has_second: bool,
    /// The offset in the `task_struct` of the piece that is output.
    pub(super) look_from: u64,
}

impl Config {
    /// The number of its words.
    pub(super) const WORDS: usize = 20;

    /// A map with `struct config`.
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

/// Threads that join when they make a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Joins {
    /// All of our PID namespace.
    All = 1,
    /// Those of the cgroup in the map `cgroups`, and of the cgroups below it.
    Cgroup = 2,
}

/// Where the registers of a thread are while it makes a call: `struct pt_regs`.
pub(super) struct Registers {
    /// The offset of the [`COPIED`] bytes that have all the arguments.
    pub(super) copied: i32,
    /// The offset of each argument in those bytes.
    pub(super) arguments: [i16; 6],
    /// The offset of the first argument when the call has returned, if the result has taken its
    /// place by then.
    pub(super) first: Option<i32>,
    /// The number of the call.
    pub(super) number: i32,
    /// The register that tells a 32-bit program, the bits that count, and their value then.
    pub(super) mode: i32,
    pub(super) compat: [i32; 2],
}

/// r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs: asm/ptrace.h of x86-64 from byte 56 on. The code
/// segment of 32-bit programs is 0x23.
#[cfg(target_arch = "x86_64")]
pub(super) const REGISTERS: Registers = Registers {
    copied: 56,
    arguments: [56, 48, 40, 0, 16, 8],
    first: None,
    number: 120,
    mode: 136,
    compat: [0xffff, 0x23],
};

/// x0 to x30, sp, pc, then pstate, which has a bit for 32-bit programs; then the original x0 and
/// the number.
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

/// The 4 bytes at an offset of a record or a value; 0 beyond its end.
pub(super) fn word(bytes: &[u8], at: i16) -> u32 {
    let bytes = bytes.get(at as usize..).and_then(<[u8]>::first_chunk);
    bytes.copied().map_or(0, u32::from_ne_bytes)
}

/// The 8 bytes at an offset of a record or a value; 0 beyond its end.
pub(super) fn double(bytes: &[u8], at: i16) -> u64 {
    let bytes = bytes.get(at as usize..).and_then(<[u8]>::first_chunk);
    bytes.copied().map_or(0, u64::from_ne_bytes)
}

/// What the programs need to know of a system call; 0 for one that is not counted.
pub(super) mod class {
    pub(crate) const COUNTED: u64 = 1;
    /// It has a path argument, at the offset in the second byte.
    pub(crate) const NAME: u64 = 4;
    /// It has another one, at the offset in the third byte.
    pub(crate) const OTHER: u64 = 8;
    /// The lowest bits of where its descriptors are: in words from the result on, which is before the
    /// registers; 0 for none.
    pub(crate) const DESCRIPTORS: [u32; 2] = [24, 32];
    /// The result is a descriptor. (The word of an argument is 1 or more.)
    pub(crate) const RESULT: u64 = 0x80;
}

/// The class of every number.
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

/// The words of the array map, which user space has mapped.
pub(super) mod shared {
    use crate::syscalls::NUMBERS;

    /// Metered threads.
    pub(crate) const LIVE: usize = 0;
    /// The command has announced itself.
    pub(crate) const SEEN: usize = 1;
    /// Threads that there was no room for.
    pub(crate) const UNFOLLOWED: usize = 2;
    /// Forks, execs and exits that the ring had no room for.
    pub(crate) const LOST_EVENTS: usize = 3;
    /// Calls of 32-bit programs.
    pub(crate) const COMPAT_CALLS: usize = 4;
    /// Calls in which their thread ended.
    pub(crate) const UNFINISHED: usize = 5;
    /// Slots and cells that were ever created.
    pub(crate) const SLOTS: usize = 6;
    pub(crate) const CELLS: usize = 7;
    /// Calls that are still to be reported; signed. Each entry takes one away, whether or not the
    /// ring has room for the call when it returns.
    pub(crate) const LEFT: usize = 8;
    /// Nanoseconds of an empty call while it is metered, which the command's process measures.
    pub(crate) const EMPTY_CALL: usize = 10;
    /// Not 0 while user space sleeps, and is to be woken.
    pub(crate) const ASLEEP: usize = 11;
    /// Not 0 when the command's process has found `SEEN` set; then `LIVE` counts it already.
    pub(crate) const BEGUN: usize = 12;
    /// Calls of metered threads whose return was not seen.
    pub(crate) const MISSED: usize = 14;
    /// The thread that is to be metered: the descriptor of its directory in /proc, its slot, its
    /// pid and its tid; and what became of it, see [`adoption`](super::adoption).
    pub(crate) const ADOPT_FD: usize = 15;
    pub(crate) const ADOPT_SLOT: usize = 16;
    pub(crate) const ADOPT_IDS: usize = 17;
    pub(crate) const ADOPTED: usize = 18;
    /// The id of this process in the first PID namespace. Threads [join](super::kind::JOIN) from when it is
    /// not 0.
    pub(crate) const OWN_PID: usize = 19;
    /// Long calls that were not to be reported, and that the ring had no room for.
    pub(crate) const LOST_LONG: usize = 21;
    /// The class of each system call.
    pub(crate) const CLASSES: usize = 22;
    /// Calls, nanoseconds and errors of each system call that there was no cell for.
    pub(crate) const SPILL: usize = CLASSES + NUMBERS;
    pub(crate) const WORDS: usize = SPILL + 3 * NUMBERS;
}

/// What became of a thread that ran already.
pub(super) mod adoption {
    pub(crate) const NOW: i32 = 1;
    pub(crate) const BEFORE: i32 = 2;
    /// It has not run yet.
    pub(crate) const UNBORN: i32 = 3;
    pub(crate) const GONE: i32 = 4;
    pub(crate) const FULL: i32 = 5;
}

/// A metered thread: the value of a [bucket](super::bucket) of the map `tasks`. What each call
/// needs comes first, to touch few cache lines.
pub(super) mod task {
    pub(crate) const FLAGS: i16 = 8;
    pub(crate) const SLOT: i16 = 16;
    /// The record for the ring begins here, and ends with the names.
    pub(crate) const RECORD: i16 = 32;
    pub(crate) const NUMBER: i16 = RECORD + 4;
    pub(crate) const PID: i16 = RECORD + 8;
    pub(crate) const TID: i16 = RECORD + 12;
    pub(crate) const START: i16 = RECORD + 16;
    pub(crate) const NANOS: i16 = RECORD + 24;
    pub(crate) const RESULT: i16 = RECORD + 32;
    pub(crate) const REGISTERS: i16 = RECORD + 40;
    /// The lengths of the names, with their NULs; 0 for none. Names that are longer than `SHORT`
    /// have a record of their own.
    pub(crate) const FIRST: i16 = RECORD + 104;
    pub(crate) const SECOND: i16 = RECORD + 108;
    pub(crate) const NAMES: i16 = RECORD + 112;
    pub(crate) const SHORT: i16 = 96;
    /// [Sums](super::sum) of calls that are not in a cell yet. Only the thread itself writes them,
    /// so a thread that repeats a few calls needs no atomic additions.
    pub(crate) const SUMS: i16 = NAMES + 2 * SHORT;
    pub(crate) const LEN: i16 = SUMS + super::sum::WAYS * super::sum::LEN;

    /// Flag: the call is to be reported.
    pub(crate) const REPORTED: i32 = 1;
}

/// The map `tasks` is a hash table: see `tasks.h`.
pub(super) mod bucket {
    /// Buckets for each thread that there is to be room for.
    pub(crate) const PER_TASK: u32 = 2;
}

/// Calls of one kind (number and error) of a thread. A kind has one place among the sums of a
/// thread; the kind that was there before is flushed to its cell.
pub(super) mod sum {
    use crate::syscalls::NUMBERS;

    /// The number of the call, and above it the error.
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
    /// Metered threads.
    pub(crate) const LIVE: i16 = 0;
    /// In the record of an exec: the tid that the thread had before; in that of a join: its tid.
    pub(crate) const FORMER: i16 = 4;
    /// The slot in which its program was executed: a child executes its parent's.
    pub(crate) const PROGRAM: i16 = 8;
    /// The inode of the program's file.
    pub(crate) const INODE: i16 = 16;
    pub(crate) const PID: i16 = 24;
    pub(crate) const NAME_LEN: i16 = 28;
    pub(crate) const NAME: i16 = 32;
    pub(crate) const LEN: i16 = 512;

    /// The slot of the command before its program is executed. It is not in the map, and its cells
    /// are dropped.
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
    /// A thread that ran already is metered from now on. Its record is a slot, as that of an exec.
    pub(crate) const JOIN: i32 = 9;
    /// A call that took [`LONG_CALL`](crate::call::LONG_CALL) or longer, and is not to be reported.
    pub(crate) const LONG: i32 = 10;
}

/// What the record of a long call has in place of names.
pub(super) mod long {
    use super::task;

    /// The slot of its process.
    pub(crate) const SLOT: i16 = task::NAMES;
    /// For each of its two descriptors: the mode of the inode, its device, and the number of its kind of
    /// file system (`statfs.f_type`); zeros for none.
    pub(crate) const DESCRIPTORS: [i16; 2] = [SLOT + 8, SLOT + 32];
    pub(crate) const DEVICE: i16 = 8;
    pub(crate) const MAGIC: i16 = 16;
}

/// The record of a fork.
pub(super) mod fork {
    pub(crate) const PARENT: i16 = 4;
    pub(crate) const PID: i16 = 8;
    pub(crate) const TID: i16 = 12;
    /// What the child shares with its parent: `FILES`, `FS`.
    pub(crate) const SHARES: i16 = 16;
    pub(crate) const FILES: i32 = 1;
    pub(crate) const FS: i32 = 2;
}

/// The record of long names, which comes before that of their call: lengths with NULs, the number
/// of the call, and the names.
pub(super) mod names {
    pub(crate) const TID: i16 = 4;
    pub(crate) const FIRST: i16 = 8;
    pub(crate) const SECOND: i16 = 12;
    pub(crate) const NUMBER: i16 = 16;
    pub(crate) const BYTES: i16 = 24;
    /// `PATH_MAX`, which includes the NUL.
    pub(crate) const LONGEST: i32 = 4096;
}

/// The map `scratch`, with an entry for each of some programs.
pub(super) mod scratch {
    use super::names;

    pub(crate) const ENTRIES: u32 = 5;
    /// Bytes of an entry: the largest record, that of two names.
    pub(crate) const LEN: usize = names::BYTES as usize + 2 * names::LONGEST as usize;
}

/// Bytes of a `task_struct` in a record of `fathom_look`. Before them are the kind, the ids of
/// the thread, and the address of its registers, of 8 bytes each.
pub(super) const LOOKED: usize = 4096;

/// The option of the prctl(2) by which a thread announces itself to the programs; its other two arguments are
/// the cookie.
pub(super) mod announce {
    /// The thread is metered from now on.
    pub(crate) const COMMAND: u32 = 0x6661_7468;
    /// The thread of [`ADOPT_FD`](super::shared::ADOPT_FD) is.
    pub(crate) const THREAD: u32 = COMMAND + 1;
    /// Threads join from now on.
    pub(crate) const JOINS: u32 = COMMAND + 2;
    /// The program `fathom_look` outputs its `task_struct`.
    pub(crate) const LOOK: u32 = COMMAND + 3;
}
