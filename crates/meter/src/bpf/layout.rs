//! What the programs and this side have in common: the board, the values of the maps, the records
//! in the ring, and where the registers of a call are.

use crate::syscalls::{self, NUMBERS};

/// Where the registers of a program are when it makes a call: `struct pt_regs`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registers {
    /// Where the row of [`TAKEN`] bytes begins that has all the arguments.
    pub(super) row: i32,
    /// Where in that row each argument is.
    pub(super) arguments: [i16; 6],
    /// Where the first argument is when the call has ended, if its place in the row has the result
    /// by then.
    pub(super) first: Option<i32>,
    /// The number of the call.
    pub(super) number: i32,
    /// Which registers say that a program is of 32 bits: where, the bits that count, and what they
    /// are then.
    pub(super) mode: i32,
    pub(super) narrow: [i32; 2],
    /// The number of prctl(2).
    pub(super) prctl: i32,
}

/// Bytes of the registers that are taken.
pub(super) const TAKEN: i32 = 64;

/// r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs: what asm/ptrace.h of x86-64 has from byte 56 on.
/// The code segment of programs of 32 bits is 0x23.
#[cfg(target_arch = "x86_64")]
pub(super) const REGISTERS: Registers = Registers {
    row: 56,
    arguments: [56, 48, 40, 0, 16, 8],
    first: None,
    number: 120,
    mode: 136,
    narrow: [0xffff, 0x23],
    prctl: 157,
};

/// x0 to x7 first; after x30, sp and pc comes pstate, which has a bit for programs of 32 bits; then
/// the original x0 and the number.
#[cfg(not(target_arch = "x86_64"))]
pub(super) const REGISTERS: Registers = Registers {
    row: 0,
    arguments: [0, 8, 16, 24, 32, 40],
    first: Some(272),
    number: 280,
    mode: 264,
    narrow: [0x10, 0x10],
    prctl: 167,
};

/// The arguments of a call, from the row of registers that was taken.
pub(super) fn arguments(row: &[u8]) -> [u64; 6] {
    REGISTERS.arguments.map(|at| {
        let at = at as usize;
        row.get(at..at + 8)
            .and_then(|bytes| bytes.try_into().ok())
            .map_or(0, u64::from_ne_bytes)
    })
}

/// What of a call's path arguments and so on the programs are told: one word of the [`board`] for
/// each number.
pub(super) mod class {
    /// Counted.
    pub(in super::super) const COUNTED: u64 = 1;
    /// It has a path argument; where in the row of registers is in the second byte.
    pub(in super::super) const NAME: u64 = 4;
    /// It has another one; where is in the third byte.
    pub(in super::super) const OTHER: u64 = 8;
}

/// The words for every number: [`NUMBERS`] of them.
pub(super) fn classes() -> impl Iterator<Item = u64> {
    (0..NUMBERS as u32).map(|number| {
        let Some(call) = syscalls::by_number(number) else {
            return 0;
        };
        let place = |n: usize| {
            call.names
                .get(n)
                .and_then(|name| REGISTERS.arguments.get(name.arg))
                .copied()
        };
        let mut class = class::COUNTED;
        if let Some(at) = place(0) {
            class |= class::NAME | (at as u64) << 8;
        }
        if let Some(at) = place(1) {
            class |= class::OTHER | (at as u64) << 16;
        }
        class
    })
}

/// The words that programs and user space share, in a map of one value that user space has mapped.
pub(super) mod board {
    use crate::syscalls::NUMBERS;

    /// Threads that are metered.
    pub(in super::super) const LIVE: usize = 0;
    /// The command has said that it is the one.
    pub(in super::super) const SEEN: usize = 1;
    /// Threads that there was no room for.
    pub(in super::super) const UNFOLLOWED: usize = 2;
    /// Forks, programs that begin and threads that end, which were to be told and which the ring
    /// had no room for.
    pub(in super::super) const UNHEARD: usize = 3;
    /// Calls of programs of 32 bits.
    pub(in super::super) const NARROW: usize = 4;
    /// Calls in which their thread ended.
    pub(in super::super) const UNFINISHED: usize = 5;
    /// Slots that were made, ever.
    pub(in super::super) const SLOTS: usize = 6;
    /// Cells that were made, ever.
    pub(in super::super) const CELLS: usize = 7;
    /// Calls that are still to be told, one by one; with a sign. Each that begins takes one away,
    /// whether or not the ring has room for it when it ends: so many are asked for, not so many
    /// that arrive.
    pub(in super::super) const LEFT: usize = 8;
    /// How deep our PID namespace is below the first one.
    pub(in super::super) const LEVEL: usize = 9;
    /// What a call that does nothing takes while it is metered, in nanoseconds; the command's
    /// process tries it.
    pub(in super::super) const TRIED: usize = 10;
    /// Not 0 while user space waits and wants to be woken.
    pub(in super::super) const ASLEEP: usize = 11;
    /// How far the registers of a program, while it makes a call, are from where the kernel's stack
    /// for its thread begins.
    pub(in super::super) const ABOVE: usize = 13;
    /// Not 0 when the command's process has found itself to be seen: written by itself, when `LIVE`
    /// has it already.
    pub(in super::super) const BEGUN: usize = 12;
    /// A word for each system call, see `classes`.
    pub(in super::super) const CLASSES: usize = 16;
    /// Calls, nanoseconds and errors for each system call, of what there was no cell for.
    pub(in super::super) const SPILL: usize = CLASSES + NUMBERS;
    /// How many words there are.
    pub(in super::super) const WORDS: usize = SPILL + 3 * NUMBERS;
}

/// A metered thread, in its [seat](super::seat) of the map `tasks`. What each call needs comes
/// first and together, so that it takes few lines of the processor's cache.
pub(super) mod task {
    /// Where the registers of its program are while it makes a call: of all that live, no other
    /// thread has them there. 0 where no thread ever was, and `LEFT` where one has been.
    pub(in super::super) const WHERE: i16 = 0;
    pub(in super::super) const FLAGS: i16 = 8;
    /// Not 0 when it has just begun another program.
    pub(in super::super) const FRESH: i16 = 12;
    pub(in super::super) const SLOT: i16 = 16;
    /// The number of the seat.
    pub(in super::super) const SEAT: i16 = 24;
    /// From here to the end of the names it is what is output to the ring.
    pub(in super::super) const RECORD: i16 = 32;
    pub(in super::super) const KIND: i16 = RECORD;
    pub(in super::super) const NUMBER: i16 = RECORD + 4;
    pub(in super::super) const PID: i16 = RECORD + 8;
    pub(in super::super) const TID: i16 = RECORD + 12;
    pub(in super::super) const START: i16 = RECORD + 16;
    pub(in super::super) const NANOS: i16 = RECORD + 24;
    pub(in super::super) const RESULT: i16 = RECORD + 32;
    pub(in super::super) const REGISTERS: i16 = RECORD + 40;
    /// Lengths of the names that stand here, with their NULs; 0 for none. Longer ones go to the
    /// ring by themselves.
    pub(in super::super) const FIRST: i16 = RECORD + 104;
    pub(in super::super) const SECOND: i16 = RECORD + 108;
    pub(in super::super) const NAMES: i16 = RECORD + 112;
    /// The longest of these, with its NUL.
    pub(in super::super) const SHORT: i16 = 96;
    /// Calls that are not in a cell yet: so many [sums](super::sum). Who makes the same few calls
    /// again and again finds them here, and none but the thread itself ever writes them.
    pub(in super::super) const SUMS: i16 = NAMES + 2 * SHORT;
    pub(in super::super) const LEN: i16 = SUMS + super::sum::WAYS * super::sum::LEN;

    /// In the place of an address.
    pub(in super::super) const LEFT: i32 = 1;

    /// In the place of a number: in no call that has been seen to begin.
    pub(in super::super) const NONE: i32 = -1;
    /// In the place of a number: in a call that is not counted.
    pub(in super::super) const IGNORED: i32 = -2;

    /// The call is to be told.
    pub(in super::super) const TOLD: i32 = 1;
    /// Its names could not be read when it began: the page was not in memory. When it ends it is.
    pub(in super::super) const NAMELESS: i32 = 2;
    /// It is a program of 32 bits, whose calls have other numbers.
    pub(in super::super) const NARROW: i32 = 4;
}

/// Which entry of `tasks` is a thread's: that of one of a few numbers which are made from the
/// address of its registers. So a program that begins with that address knows without calling any
/// helper whether the thread is one of ours. Who has which seat is in the map `taken`, which two
/// that want the same one at once ask first.
pub(super) mod seat {
    /// So many seats for each thread that there is to be room for.
    pub(in super::super) const EACH: u32 = 2;
    /// How many numbers are tried. When all threads that there is room for are there, of 256 one
    /// more finds no seat, and of half as many one of 65,536.
    pub(in super::super) const TRIES: i32 = 8;
    /// Addresses are of different pages. A number of the others is made of this product, from one
    /// bit on, then from two bits higher, and so on.
    pub(in super::super) const PAGE: i32 = 12;
    pub(in super::super) const TIMES: i32 = 0x61c8_8647;
    pub(in super::super) const BIT: i32 = 14;
    pub(in super::super) const STEP: i32 = 2;
}

/// Calls of one kind that a thread has made, in its entry of `tasks`. Each kind has one place where
/// it can be, and whatever else was there is put into its cell first.
pub(super) mod sum {
    use crate::syscalls::NUMBERS;

    /// The number of the call, and above it the error.
    pub(in super::super) const KIND: i16 = 0;
    pub(in super::super) const CALLS: i16 = 4;
    pub(in super::super) const NANOS: i16 = 8;
    pub(in super::super) const LEN: i16 = 16;
    /// By which one counts no further, since there is no room for many more.
    pub(in super::super) const MOST: i32 = 1 << 30;
    /// Where in the kind the error begins.
    pub(in super::super) const ERROR: u32 = NUMBERS.trailing_zeros();
    /// Places. The one of a kind is in three bits of it times this; so common calls and errors have
    /// places of their own.
    pub(in super::super) const WAYS: i16 = 8;
    pub(in super::super) const TIMES: i32 = 12_467;
    pub(in super::super) const BITS: u32 = 12;
}

/// A process while it runs one program: the value of the map `slots` by a number that is used once;
/// and, with a kind at its beginning, what is output to the ring when a program begins.
pub(super) mod slot {
    pub(in super::super) const LIVE: i16 = 0;
    /// In the ring: the tid that the thread had until now.
    pub(in super::super) const FORMER: i16 = 4;
    /// The slot in which its program began: a fork runs its parent's.
    pub(in super::super) const PROGRAM: i16 = 8;
    /// The inode of the program's file.
    pub(in super::super) const INODE: i16 = 16;
    pub(in super::super) const PID: i16 = 24;
    pub(in super::super) const NAMED: i16 = 28;
    pub(in super::super) const NAME: i16 = 32;
    pub(in super::super) const LEN: i16 = 512;

    /// The slot of the command before its program has begun. It has no entry, and what is counted
    /// in it is thrown away.
    pub(in super::super) const FIRST: u64 = 1;
}

/// What begins each record in the ring.
pub(super) mod kind {
    pub(in super::super) const CALL: i32 = 1;
    pub(in super::super) const UNFINISHED: i32 = 2;
    pub(in super::super) const NAMES: i32 = 3;
    pub(in super::super) const FORK: i32 = 4;
    pub(in super::super) const EXEC: i32 = 5;
    pub(in super::super) const EXIT: i32 = 6;
    /// No metered thread is left; to wake who waits.
    pub(in super::super) const LAST: i32 = 7;
    /// A piece of a `task_struct`, see `look`.
    pub(in super::super) const LOOK: i32 = 8;
}

/// A fork in the ring: kind, parent, pid, tid, and what it shares with its parent.
pub(super) mod fork {
    pub(in super::super) const PARENT: i16 = 4;
    pub(in super::super) const PID: i16 = 8;
    pub(in super::super) const TID: i16 = 12;
    pub(in super::super) const SHARES: i16 = 16;
    pub(in super::super) const LEN: i16 = 24;
    pub(in super::super) const FILES: i32 = 1;
    pub(in super::super) const FS: i32 = 2;
}

/// Names in the ring: kind, tid, lengths with their NULs, the number of the call that is to follow,
/// and the names.
pub(super) mod names {
    pub(in super::super) const TID: i16 = 4;
    pub(in super::super) const FIRST: i16 = 8;
    pub(in super::super) const SECOND: i16 = 12;
    pub(in super::super) const NUMBER: i16 = 16;
    pub(in super::super) const BYTES: i16 = 24;
    /// A path and its NUL.
    pub(in super::super) const LONGEST: i32 = 4096;
}

/// Bytes of the map `scratch`: the largest record, that with two names.
pub(super) const SCRATCH: usize = names::BYTES as usize + 2 * names::LONGEST as usize;
/// Bytes of a `task_struct` that [`look`] shows, after the kind, the ids of the thread and where
/// its registers are (8 bytes each).
pub(super) const LOOKED: usize = 4096;

/// The option of the prctl(2) by which the command makes itself known; the cookie are its other two
/// arguments.
pub(super) const SIGN: i32 = 0x6661_7468;
