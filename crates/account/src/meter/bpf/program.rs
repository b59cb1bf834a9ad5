//! The meter's programs, and what they and user space have in common.
//!
//! ```text
//! sys_enter ── not one of ours, and no sign ──► end          (one look into `tasks`: that is the filter)
//!     │ ours: remember number and time; if calls are told one by one: registers, and names to the ring
//! sys_exit ─── add to `cells` (slot, number, error); if calls are told one by one: the call to the ring
//! fork ─────── the child is one of ours, too, in the slot of its thread group or a new one
//! exec ─────── a new slot, with the program's name; another tid, if it was not the main thread
//! exit ─────── no longer one of ours; one less in its slot
//! ```
//!
//! A *slot* is a process while it runs one program: what [`crate::call::Total`] is about. A slot without threads gets no further
//! calls, so that user space can take its cells out of the map without losing any.
//!
//! Whom to meter first is said by the command itself, just before its execve(2): a call that no kernel knows, with a number
//! that nobody can guess. So nobody need know how the kernel numbers processes, which in a PID namespace is another way.

use super::asm::{Asm, Helper, If, Label, Op, Reg, Size};
use super::offsets::Offsets;
use crate::syscalls::{self, NUMBERS};

use Reg::{R0, R1, R2, R3, R4, R6, R7, R8, R9, R10};
use Size::{Double, Word};

/// Where the registers of a program are when it makes a call: `struct pt_regs`.
#[derive(Clone, Copy, Debug)]
struct Registers {
    /// Where the row of [`TAKEN`] bytes begins that has all the arguments.
    row: i32,
    /// Where in that row each argument is.
    arguments: [i16; 6],
    /// The number of the call.
    number: i32,
    /// The bit in `thread_info.flags` of a program of 32 bits.
    narrow: u32,
    /// The number of prctl(2).
    prctl: i32,
}

/// Bytes of the registers that are taken.
const TAKEN: i32 = 64;

/// r10 r9 r8 rax rcx rdx rsi rdi orig_rax: what linux/ptrace.h of x86-64 has from byte 56 on. TIF_ADDR32 is bit 29.
#[cfg(target_arch = "x86_64")]
const REGISTERS: Registers =
    Registers { row: 56, arguments: [56, 48, 40, 0, 16, 8], number: 120, narrow: 1 << 29, prctl: 157 };

/// x0 to x7 first; after x30, sp, pc, pstate and the original x0 comes the number. TIF_32BIT is bit 22.
#[cfg(not(target_arch = "x86_64"))]
const REGISTERS: Registers =
    Registers { row: 0, arguments: [0, 8, 16, 24, 32, 40], number: 280, narrow: 1 << 22, prctl: 167 };

/// The arguments of a call, from the row of registers that was taken.
pub(super) fn arguments(row: &[u8]) -> [u64; 6] {
    REGISTERS.arguments.map(|at| {
        let at = at as usize;
        row.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes)
    })
}

/// What of a call's path arguments and so on the programs are told: one word of the [`board`] for each number.
mod class {
    /// Counted.
    pub(super) const COUNTED: u64 = 1;
    /// Told one by one.
    pub(super) const TOLD: u64 = 2;
    /// It has a path argument; where in the row of registers is in the second byte.
    pub(super) const NAME: u64 = 4;
    /// It has another one; where is in the third byte.
    pub(super) const OTHER: u64 = 8;
}

/// The words for every number: [`NUMBERS`] of them.
pub(super) fn classes(told: bool) -> impl Iterator<Item = u64> {
    (0..NUMBERS as u32).map(move |number| {
        let Some(call) = syscalls::of(number) else { return 0 };
        let place = |n: usize| call.names.get(n).and_then(|name| REGISTERS.arguments.get(name.arg)).copied();
        let mut class = class::COUNTED | if told { class::TOLD } else { 0 };
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
    /// Calls that were to be told, and that the ring had no room for.
    pub(in super::super) const DROPPED: usize = 3;
    /// Calls of programs of 32 bits.
    pub(in super::super) const NARROW: usize = 4;
    /// Calls in which their thread ended.
    pub(in super::super) const UNFINISHED: usize = 5;
    /// Slots that were made, ever.
    pub(in super::super) const SLOTS: usize = 6;
    /// Cells that were made, ever.
    pub(in super::super) const CELLS: usize = 7;
    /// Not 0 while forks and ends are to be told.
    pub(in super::super) const EVENTS: usize = 8;
    /// How deep our PID namespace is below the first one.
    pub(in super::super) const LEVEL: usize = 9;
    /// Not 0 while user space waits and wants to be woken.
    pub(in super::super) const ASLEEP: usize = 11;
    /// What a call that does nothing takes while it is metered, in nanoseconds; the command's process tries it.
    pub(in super::super) const TRIED: usize = 10;
    /// A word for each system call, see `classes`.
    pub(in super::super) const CLASSES: usize = 16;
    /// Calls, nanoseconds and errors for each system call, of what there was no cell for.
    pub(in super::super) const SPILL: usize = CLASSES + NUMBERS;
    /// How many words there are.
    pub(in super::super) const WORDS: usize = SPILL + 3 * NUMBERS;
}

/// A metered thread, the value of the map `tasks` by the kernel's tid; up to the end of the names, what is output to the ring.
pub(super) mod task {
    pub(in super::super) const KIND: i16 = 0;
    pub(in super::super) const NUMBER: i16 = 4;
    pub(in super::super) const PID: i16 = 8;
    pub(in super::super) const TID: i16 = 12;
    pub(in super::super) const RESULT: i16 = 16;
    pub(in super::super) const START: i16 = 24;
    pub(in super::super) const NANOS: i16 = 32;
    pub(in super::super) const REGISTERS: i16 = 40;
    /// Lengths of the names that stand here, with their NULs; 0 for none. Longer ones go to the ring by themselves.
    pub(in super::super) const FIRST: i16 = 104;
    pub(in super::super) const SECOND: i16 = 108;
    pub(in super::super) const NAMES: i16 = 112;
    /// The longest of these, with its NUL.
    pub(in super::super) const SHORT: i16 = 96;
    /// No longer output.
    pub(in super::super) const SLOT: i16 = NAMES + 2 * SHORT;
    pub(in super::super) const FLAGS: i16 = SLOT + 8;
    /// Calls that are not in a cell yet: number and error, how many, and their nanoseconds. Who makes the same call again and again
    /// finds them here, and none but the thread itself ever writes them.
    pub(in super::super) const SAME: i16 = SLOT + 16;
    pub(in super::super) const CALLS: i16 = SLOT + 24;
    pub(in super::super) const TOGETHER: i16 = SLOT + 32;
    pub(in super::super) const LEN: i16 = SLOT + 40;

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

/// A process while it runs one program: the value of the map `slots` by a number that is used once; and, with a kind at its
/// beginning, what is output to the ring when a program begins.
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

    /// The slot of the command before its program has begun. It has no entry, and what is counted in it is thrown away.
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

/// Names in the ring: kind, tid, lengths with their NULs, and the names.
pub(super) mod names {
    pub(in super::super) const TID: i16 = 4;
    pub(in super::super) const FIRST: i16 = 8;
    pub(in super::super) const SECOND: i16 = 12;
    pub(in super::super) const BYTES: i16 = 16;
    /// A path and its NUL.
    pub(in super::super) const LONGEST: i32 = 4096;
}

/// Bytes of the map `scratch`: the largest record, that with two names.
pub(super) const SCRATCH: usize = names::BYTES as usize + 2 * names::LONGEST as usize;
/// Bytes of a `task_struct` that [`look`] shows, after the kind (8 bytes) and the ids of the thread (8 bytes).
pub(super) const LOOKED: usize = 4096;

/// What the programs work with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Things {
    /// Descriptors of the maps and of the ring.
    pub(super) board: i32,
    pub(super) tasks: i32,
    pub(super) slots: i32,
    pub(super) cells: i32,
    pub(super) scratch: i32,
    pub(super) ring: i32,
    /// Bytes in the ring at which user space is woken.
    pub(super) watermark: i32,
    /// Where the fields of the kernel's structs are.
    pub(super) offsets: Offsets,
    /// What the command says to be known by.
    pub(super) cookie: [u64; 2],
}

impl Things {
    /// Nothing at all.
    pub(super) const NONE: Things = Things {
        board: -1,
        tasks: -1,
        slots: -1,
        cells: -1,
        scratch: -1,
        ring: -1,
        watermark: 0,
        offsets: Offsets { pid: 0, tgid: 0, files: None, fs: None, ids: None, program: None, ends: None },
        cookie: [0; 2],
    };
}

/// The option of the prctl(2) by which the command makes itself known; the cookie are its other two arguments.
pub(super) const SIGN: i32 = 0x6661_7468;

const NO_WAKEUP: i32 = 1;
const FORCE_WAKEUP: i32 = 2;
/// Update an entry only if it is not there.
const NOEXIST: i32 = 1;

/// A program that is being written, and what it works with.
struct Draft<'a> {
    asm: Asm,
    things: &'a Things,
    /// The end, with 0 in `R0`.
    out: Label,
}

impl Draft<'_> {
    fn new(things: &Things) -> Draft<'_> {
        let mut asm = Asm::new();
        let out = asm.label();
        Draft { asm, things, out }
    }

    fn finish(mut self) -> Option<Vec<u64>> {
        self.asm.place(self.out);
        self.asm.set(R0, 0);
        self.asm.exit();
        self.asm.finish()
    }

    /// `R0` = the entry of `map` for the key on the stack; none: 0.
    fn look_up(&mut self, map: i32, key: i16) {
        self.asm.map(R1, map);
        self.asm.address(R2, R10, key);
        self.asm.call(Helper::MapLookupElem);
    }

    /// Writes the entry of `map` for the key on the stack, whose value is at `value`.
    fn update(&mut self, map: i32, key: i16, value: (Reg, i16), flags: i32) {
        self.asm.map(R1, map);
        self.asm.address(R2, R10, key);
        self.asm.address(R3, value.0, value.1);
        self.asm.set(R4, flags);
        self.asm.call(Helper::MapUpdateElem);
    }

    /// Adds to a word of the board. Destroys `R1` and `R2`.
    fn board_add(&mut self, word: usize, number: i32) {
        self.board(R1, word);
        self.asm.set(R2, number);
        self.asm.add_atomically(R1, 0, R2);
    }

    fn board(&mut self, to: Reg, word: usize) {
        self.asm.map_value(to, self.things.board, (8 * word) as u32);
    }

    /// Reads `len` bytes of the kernel's at `from + offset` onto the stack; zeros where it cannot.
    fn read_kernel(&mut self, stack: i16, len: i32, from: Reg, offset: i32) {
        self.asm.copy(R3, from);
        self.asm.by(Op::Add, R3, offset);
        self.asm.address(R1, R10, stack);
        self.asm.set(R2, len);
        self.asm.call(Helper::ProbeReadKernel);
    }

    /// `to` = the kernel's pointer at `from + offset`. Uses the stack at `stack`.
    fn follow(&mut self, to: Reg, stack: i16, from: Reg, offset: u32) {
        self.read_kernel(stack, 8, from, offset.cast_signed());
        self.asm.load(Double, to, R10, stack);
    }

    /// `R7` = the current thread's entry of `tasks`, if it is metered; its tid is at -8 of the stack. Goes to `otherwise` if
    /// not.
    fn current_task(&mut self, otherwise: Label) {
        self.asm.call(Helper::GetCurrentPidTgid);
        self.asm.store(Word, R10, -8, R0);
        self.look_up(self.things.tasks, -8);
        self.asm.jump_if(R0, If::Equal, 0, otherwise);
        self.asm.copy(R7, R0);
    }

    /// Outputs `len` bytes at `from` to the ring; goes to `dropped` if there is no room.
    fn output(&mut self, from: (Reg, i16), len: i32, flags: i32, dropped: Label) {
        self.asm.map(R1, self.things.ring);
        self.asm.address(R2, from.0, from.1);
        self.asm.set(R3, len);
        self.asm.set(R4, flags);
        self.asm.call(Helper::RingbufOutput);
        self.asm.jump_if(R0, If::Differ, 0, dropped);
    }

    /// Ends the program, unless the call `R8`, whose registers the context at `R6` leads to, is the sign.
    fn heed_sign(&mut self) {
        const SAID: i16 = -40 - TAKEN as i16;
        let out = self.out;
        self.asm.jump_if(R8, If::Differ, REGISTERS.prctl, out);
        self.asm.load(Double, R3, R6, 0);
        self.read_kernel(SAID, TAKEN, R3, REGISTERS.row);
        let said = [SIGN as u64, self.things.cookie[0], self.things.cookie[1]];
        for (argument, said) in REGISTERS.arguments.into_iter().zip(said) {
            self.asm.load(Double, R1, R10, SAID + argument);
            self.asm.set_wide(R2, said);
            self.asm.jump_if_reg(R1, If::Differ, R2, out);
        }
    }

    /// `R9` = the class of the call `R8`, which is below [`NUMBERS`].
    fn class(&mut self) {
        self.board(R2, board::CLASSES);
        self.asm.copy(R1, R8);
        self.asm.by(Op::And, R1, NUMBERS as i32 - 1);
        self.asm.by(Op::Left, R1, 3);
        self.asm.with(Op::Add, R2, R1);
        self.asm.load(Double, R9, R2, 0);
    }

    /// Takes the registers, to which the context at `R6` leads, into the entry at `R7`.
    fn take_registers(&mut self) {
        self.asm.load(Double, R3, R6, 0);
        self.asm.by(Op::Add, R3, REGISTERS.row);
        self.asm.address(R1, R7, task::REGISTERS);
        self.asm.set(R2, TAKEN);
        self.asm.call(Helper::ProbeReadKernel);
    }

    /// Takes the names of the call in the entry at `R7`, of class `R9`, into the entry, or, if one of them is too long for it, to
    /// the ring. When one cannot be read, marks the entry, to try again when the call ends; if this is the `last` time, takes
    /// those that can. Takes the call out of what is to be told when the ring has no room for its names. Destroys `R6` and `R8`.
    fn take_names(&mut self, last: bool) {
        let [missing, long, done] = self.asm.labels();
        self.asm.store_number(Double, R7, task::FIRST, 0); // and SECOND
        self.asm.copy(R1, R9);
        self.asm.by(Op::And, R1, class::NAME as i32);
        self.asm.jump_if(R1, If::Equal, 0, done);
        let unread = |label| if last { label } else { missing };
        self.read_names((R7, task::NAMES), [task::FIRST, task::SECOND], task::SHORT.into(), unread, Some(long));
        self.asm.jump(done);

        self.asm.place(long);
        self.asm.store_number(Double, R7, task::FIRST, 0);
        self.asm.store_number(Word, R10, -16, 0);
        self.look_up(self.things.scratch, -16);
        self.asm.jump_if(R0, If::Equal, 0, done);
        self.asm.copy(R8, R0);
        self.asm.store_number(Word, R8, 0, kind::NAMES);
        self.asm.load(Word, R1, R7, task::TID);
        self.asm.store(Word, R8, names::TID, R1);
        self.asm.store_number(Double, R8, names::FIRST, 0); // and SECOND
        self.read_names((R8, names::BYTES), [names::FIRST, names::SECOND], names::LONGEST, unread, None);
        self.asm.map(R1, self.things.ring);
        self.asm.copy(R2, R8);
        self.asm.copy(R3, R6);
        self.asm.by(Op::Add, R3, names::BYTES.into());
        self.asm.set(R4, NO_WAKEUP);
        self.asm.call(Helper::RingbufOutput);
        self.asm.jump_if(R0, If::Equal, 0, done);
        self.asm.store_number(Word, R7, task::FLAGS, 0);
        self.board_add(board::DROPPED, 1);
        if !last {
            self.asm.jump(done);
            self.asm.place(missing);
            self.asm.store_number(Double, R7, task::FIRST, 0);
            self.asm.store_number(Word, R7, task::FLAGS, task::TOLD | task::NAMELESS);
        }
        self.asm.place(done);
    }

    /// Reads the names one after the other to `to`, and their lengths beside them; `R6` is what they take together. Goes to
    /// `unread` of what follows when one cannot be read, and to `long` when one fills its room of `most` bytes.
    fn read_names(
        &mut self,
        (to, at): (Reg, i16),
        lengths: [i16; 2],
        most: i32,
        unread: impl Fn(Label) -> Label,
        long: Option<Label>,
    ) {
        self.asm.set(R6, 0);
        for (flag, bit, len) in [(class::NAME, 8, lengths[0]), (class::OTHER, 16, lengths[1])] {
            let none = self.asm.label();
            self.asm.copy(R1, R9);
            self.asm.by(Op::And, R1, flag as i32);
            self.asm.jump_if(R1, If::Equal, 0, none);
            self.argument(bit);
            self.asm.jump_if(R3, If::Equal, 0, none);
            self.asm.address(R1, to, at);
            self.asm.with(Op::Add, R1, R6);
            self.asm.set(R2, most);
            self.asm.call(Helper::ProbeReadUserStr);
            self.asm.jump_if(R0, If::AtMost, 0, unread(none));
            match long {
                Some(long) => self.asm.jump_if(R0, If::Above, most - 1, long),
                None => self.asm.jump_if(R0, If::Above, most, unread(none)),
            }
            self.asm.store(Word, to, len, R0);
            self.asm.with(Op::Add, R6, R0);
            self.asm.place(none);
        }
    }

    /// Outputs the call in the entry at `R7`, with its names; goes to `dropped` if there is no room. `R4` has the flags.
    fn output_call(&mut self, dropped: Label) {
        self.asm.load(Word, R3, R7, task::FIRST);
        self.asm.load(Word, R1, R7, task::SECOND);
        self.asm.with(Op::Add, R3, R1);
        self.asm.jump_if(R3, If::Above, 2 * i32::from(task::SHORT), dropped);
        self.asm.by(Op::Add, R3, task::NAMES.into());
        self.asm.map(R1, self.things.ring);
        self.asm.copy(R2, R7);
        self.asm.call(Helper::RingbufOutput);
        self.asm.jump_if(R0, If::Differ, 0, dropped);
    }

    /// Adds the calls that wait in the entry at `R7` to their cell. Uses the stack from [`KEY`] - 16 to -8.
    fn flush(&mut self) {
        const VALUE: i16 = KEY - 16;
        let [found, make, done] = self.asm.labels();
        let cells = self.things.cells;
        self.asm.load(Double, R1, R7, task::CALLS);
        self.asm.jump_if(R1, If::Equal, 0, done);
        self.asm.store(Double, R10, VALUE, R1);
        for (from, to) in [(task::TOGETHER, VALUE + 8), (task::SLOT, KEY), (task::SAME, KEY + 8)] {
            self.asm.load(Double, R1, R7, from);
            self.asm.store(Double, R10, to, R1);
        }
        self.asm.store_number(Double, R7, task::CALLS, 0);
        self.look_up(cells, KEY);
        self.asm.jump_if(R0, If::Equal, 0, make);
        self.asm.place(found);
        for at in [0, 8] {
            self.asm.load(Double, R1, R10, VALUE + at);
            self.asm.add_atomically(R0, at, R1);
        }
        self.asm.jump(done);

        self.asm.place(make);
        self.update(cells, KEY, (R10, VALUE), NOEXIST);
        let there = self.asm.label();
        self.asm.jump_if(R0, If::Differ, 0, there);
        self.board_add(board::CELLS, 1);
        self.asm.jump(done);
        // Another thread was faster, or there is no room.
        self.asm.place(there);
        self.look_up(cells, KEY);
        self.asm.jump_if(R0, If::Differ, 0, found);
        self.asm.load(Word, R1, R10, KEY + 8);
        self.asm.by(Op::And, R1, NUMBERS as i32 - 1);
        self.asm.by(Op::Mul, R1, 24);
        self.board(R2, board::SPILL);
        self.asm.with(Op::Add, R2, R1);
        self.asm.load(Double, R1, R10, VALUE);
        self.asm.add_atomically(R2, 0, R1);
        self.asm.load(Double, R3, R10, VALUE + 8);
        self.asm.add_atomically(R2, 8, R3);
        self.asm.load(Word, R3, R10, KEY + 12);
        self.asm.jump_if(R3, If::Equal, 0, done);
        self.asm.add_atomically(R2, 16, R1);
        self.asm.place(done);
    }

    /// `R3` = the argument whose place in the row of registers is in the byte of `R9` that begins at `bit`.
    fn argument(&mut self, bit: i32) {
        self.asm.copy(R1, R9);
        self.asm.by(Op::Right, R1, bit);
        self.asm.by(Op::And, R1, TAKEN - 8);
        self.asm.copy(R2, R7);
        self.asm.with(Op::Add, R2, R1);
        self.asm.load(Double, R3, R2, task::REGISTERS);
    }

    /// Puts a new entry for `tasks` on the stack at [`TASK`], all zeros but for the kind and the number.
    fn blank_task(&mut self) {
        for at in (TASK..TASK + task::LEN).step_by(8) {
            self.asm.store_number(Double, R10, at, 0);
        }
        self.asm.store_number(Word, R10, TASK + task::KIND, kind::CALL);
        self.asm.store_number(Word, R10, TASK + task::NUMBER, task::IGNORED);
    }

    /// A number that no other slot has had, onto the stack at `to`: the process, from the lower half of the word at `pid`, and
    /// the time in microseconds.
    fn new_slot(&mut self, to: i16, pid: i16) {
        self.asm.call(Helper::KtimeGetNs);
        self.asm.by(Op::Right, R0, 10);
        self.asm.by(Op::Left, R0, 32);
        self.asm.load(Word, R1, R10, pid);
        self.asm.with(Op::Or, R0, R1);
        self.asm.store(Double, R10, to, R0);
    }

    /// Adds `number` to the threads of the slot whose number is on the stack at `at`, if it has an entry.
    fn slot_add(&mut self, at: i16, number: i32) {
        let unlisted = self.asm.label();
        self.look_up(self.things.slots, at);
        self.asm.jump_if(R0, If::Equal, 0, unlisted);
        self.asm.set(R1, number);
        self.asm.add_atomically(R0, slot::LIVE, R1);
        self.asm.place(unlisted);
    }
}

/// Where on the stack the programs that make entries of `tasks` have them: below the 40 bytes that they use otherwise.
const TASK: i16 = -40 - task::LEN;

/// At the beginning of every call, of everybody.
pub(super) fn enter(things: &Things) -> Option<Vec<u64>> {
    let mut p = Draft::new(things);
    let [stranger, narrow, clock] = p.asm.labels();
    let out = p.out;
    p.asm.copy(R6, R1);
    p.asm.load(Double, R8, R6, 8);
    p.current_task(stranger);
    p.asm.store_number(Word, R7, task::NUMBER, task::IGNORED);
    p.asm.load(Word, R1, R7, task::FLAGS);
    p.asm.jump_if(R1, If::Common, task::NARROW, narrow);
    p.asm.jump_if(R8, If::Above, NUMBERS as i32 - 1, out);
    p.class();
    p.asm.jump_if(R9, If::Equal, 0, out);
    p.asm.store(Word, R7, task::NUMBER, R8);
    p.asm.store_number(Word, R7, task::FLAGS, 0);
    p.asm.copy(R1, R9);
    p.asm.by(Op::And, R1, class::TOLD as i32);
    p.asm.jump_if(R1, If::Equal, 0, clock);
    p.take_registers();
    p.asm.store_number(Word, R7, task::FLAGS, task::TOLD);
    p.take_names(false);
    p.asm.place(clock);
    p.asm.call(Helper::KtimeGetNs);
    p.asm.store(Double, R7, task::START, R0);
    p.asm.jump(out);

    p.asm.place(narrow);
    p.board_add(board::NARROW, 1);
    p.asm.jump(out);

    // Somebody else. Is it the command that makes itself known?
    p.asm.place(stranger);
    p.heed_sign();
    p.blank_task();
    // Its ids as we know them are those at the depth of its own PID namespace, which is ours.
    p.asm.call(Helper::GetCurrentTask);
    p.asm.copy(R8, R0);
    p.asm.load(Word, R9, R10, -8);
    if let Some(ids) = things.offsets.ids {
        p.follow(R8, -16, R8, ids.thread_pid);
        p.asm.store_number(Double, R10, -16, 0);
        p.read_kernel(-16, 4, R8, ids.level.cast_signed());
        p.asm.load(Word, R1, R10, -16);
        p.board(R2, board::LEVEL);
        p.asm.store(Double, R2, 0, R1);
        p.asm.by(Op::Mul, R1, ids.size.cast_signed());
        p.asm.with(Op::Add, R8, R1);
        p.read_kernel(-16, 4, R8, ids.numbers.cast_signed());
        p.asm.load(Word, R9, R10, -16);
    }
    p.asm.store(Word, R10, TASK + task::PID, R9);
    p.asm.store(Word, R10, TASK + task::TID, R9);
    p.asm.set(R1, slot::FIRST as i32);
    p.asm.store(Double, R10, TASK + task::SLOT, R1);
    p.update(things.tasks, -8, (R10, TASK), 0);
    p.asm.jump_if(R0, If::Differ, 0, out);
    p.board_add(board::LIVE, 1);
    p.board_add(board::SEEN, 1);
    p.finish()
}

/// At the end of every call, of everybody.
pub(super) fn exit_call(things: &Things) -> Option<Vec<u64>> {
    let mut p = Draft::new(things);
    let [quiet, unseen, settle, whole, other, counted] = p.asm.labels();
    let [tell, named, again, enough, dropped, clear] = p.asm.labels();
    let out = p.out;
    p.asm.copy(R6, R1);
    p.current_task(out);
    p.asm.load(Word, R8, R7, task::NUMBER);
    p.asm.jump_if(R8, If::Above, NUMBERS as i32 - 1, quiet);
    p.asm.call(Helper::KtimeGetNs);
    p.asm.copy(R9, R0);
    p.asm.load(Double, R1, R7, task::START);
    p.asm.with(Op::Sub, R9, R1);

    // R8 has the number, and in its upper half the error; R9 the nanoseconds.
    p.asm.place(settle);
    p.asm.store(Double, R7, task::NANOS, R9);
    p.asm.load(Double, R1, R6, 8);
    p.asm.store(Double, R7, task::RESULT, R1);
    p.asm.jump_if(R1, If::Below, -4095, whole);
    p.asm.negate(R1);
    p.asm.copy(R2, R1);
    p.asm.by(Op::Left, R2, 32);
    p.asm.with(Op::Or, R8, R2);
    if let Some(ends) = things.offsets.ends {
        // Cut short: by a signal that ends it? Then it is left as it is, and the end of the thread sees to it.
        let cut = p.asm.label();
        for errno in CUT_SHORT {
            p.asm.jump_if(R1, If::Equal, errno, cut);
        }
        p.asm.jump(whole);
        p.asm.place(cut);
        p.asm.call(Helper::GetCurrentTask);
        p.asm.copy(R6, R0);
        p.follow(R1, -40, R6, ends.pending);
        p.asm.by(Op::And, R1, 1 << 8); // SIGKILL, which also stands for the end of the whole process
        p.asm.jump_if(R1, If::Equal, 0, whole);
        // A tracer would have seen the call return, if the process had got another signal and if it was for this thread.
        p.asm.load(Word, R1, R7, task::PID);
        p.asm.load(Word, R2, R7, task::TID);
        p.asm.jump_if_reg(R1, If::Differ, R2, out);
        p.follow(R6, -40, R6, ends.signal);
        p.asm.store_number(Double, R10, -40, 0);
        p.read_kernel(-40, 4, R6, ends.group_exit_code.cast_signed());
        p.asm.load(Word, R1, R10, -40);
        p.asm.by(Op::And, R1, 0x7f);
        p.asm.jump_if(R1, If::Equal, 0, out);
        p.asm.jump_if(R1, If::Equal, 9, out);
    }
    p.asm.place(whole);
    p.asm.load(Double, R1, R7, task::SAME);
    p.asm.jump_if_reg(R1, If::Differ, R8, other);
    p.asm.load(Double, R1, R7, task::CALLS);
    p.asm.by(Op::Add, R1, 1);
    p.asm.store(Double, R7, task::CALLS, R1);
    p.asm.load(Double, R1, R7, task::TOGETHER);
    p.asm.with(Op::Add, R1, R9);
    p.asm.store(Double, R7, task::TOGETHER, R1);

    p.asm.place(counted);
    p.asm.load(Word, R1, R7, task::FLAGS);
    p.asm.jump_if(R1, If::Common, task::TOLD, tell);
    p.asm.place(clear);
    p.asm.store_number(Word, R7, task::NUMBER, task::NONE);
    p.asm.jump(out);

    // A name that could not be read when the call began can be now, unless the program is another one since.
    p.asm.place(tell);
    p.asm.jump_if(R1, If::Common, task::NAMELESS, named);
    p.asm.place(again);
    p.asm.store_number(Word, R7, task::FLAGS, 0);
    p.board(R1, board::ASLEEP);
    p.asm.load(Double, R1, R1, 0);
    p.asm.set(R4, NO_WAKEUP);
    p.asm.jump_if(R1, If::Equal, 0, enough);
    p.asm.map(R1, things.ring);
    p.asm.set(R2, 0); // BPF_RB_AVAIL_DATA
    p.asm.call(Helper::RingbufQuery);
    p.asm.set(R4, NO_WAKEUP);
    p.asm.jump_if(R0, If::Below, things.watermark, enough);
    p.asm.set(R4, FORCE_WAKEUP);
    p.asm.place(enough);
    p.output_call(dropped);
    p.asm.jump(clear);
    p.asm.place(dropped);
    p.board_add(board::DROPPED, 1);
    p.asm.jump(clear);

    p.asm.place(named);
    p.asm.store_number(Word, R7, task::FLAGS, task::TOLD);
    for name in ["execve", "execveat"] {
        if let Some(call) = syscalls::named(name) {
            p.asm.load(Word, R1, R7, task::NUMBER);
            p.asm.jump_if(R1, If::Equal, call.number.cast_signed(), again);
        }
    }
    p.asm.load(Word, R8, R7, task::NUMBER);
    p.class();
    p.take_names(true);
    p.asm.load(Word, R1, R7, task::FLAGS);
    p.asm.jump_if(R1, If::Common, task::TOLD, again);
    p.asm.jump(clear);

    // Not the same call as before.
    p.asm.place(other);
    p.flush();
    p.asm.store(Double, R7, task::SAME, R8);
    p.asm.store_number(Double, R7, task::CALLS, 1);
    p.asm.store(Double, R7, task::TOGETHER, R9);
    p.asm.jump(counted);

    p.asm.place(quiet);
    p.asm.store_number(Word, R7, task::NUMBER, task::NONE);
    p.asm.set_wide(R1, u64::from(task::NONE.cast_unsigned()));
    p.asm.jump_if_reg(R8, If::Equal, R1, unseen);
    p.asm.jump(out);

    // It was not seen to begin: a filter (seccomp) has answered in the place of the kernel.
    p.asm.place(unseen);
    p.asm.load(Word, R1, R7, task::FLAGS);
    p.asm.jump_if(R1, If::Common, task::NARROW, out);
    p.asm.load(Double, R3, R6, 0);
    p.read_kernel(-16, 4, R3, REGISTERS.number);
    p.asm.load(Word, R8, R10, -16);
    p.asm.jump_if(R8, If::Above, NUMBERS as i32 - 1, out);
    p.class();
    p.asm.jump_if(R9, If::Equal, 0, out);
    p.asm.store(Word, R7, task::NUMBER, R8);
    p.asm.store_number(Word, R7, task::FLAGS, 0);
    p.asm.call(Helper::KtimeGetNs);
    p.asm.store(Double, R7, task::START, R0);
    let uncounted = p.asm.label();
    p.asm.copy(R1, R9);
    p.asm.by(Op::And, R1, class::TOLD as i32);
    p.asm.set(R9, 0);
    p.asm.jump_if(R1, If::Equal, 0, uncounted);
    p.take_registers();
    p.asm.store_number(Word, R7, task::FLAGS, task::TOLD | task::NAMELESS);
    p.asm.place(uncounted);
    p.asm.jump(settle);
    p.finish()
}

/// Where on the stack the key of a cell is: slot, number, errno.
const KEY: i16 = -32 + 8;

/// Results of a call that a signal has cut short: EINTR, and those that begin again, ERESTARTSYS, ERESTARTNOINTR,
/// ERESTARTNOHAND, ERESTART_RESTARTBLOCK.
const CUT_SHORT: [i32; 5] = [4, 512, 513, 514, 516];

/// When a thread or a process is made, in the one that makes it.
pub(super) fn fork(things: &Things) -> Option<Vec<u64>> {
    let mut p = Draft::new(things);
    let [thread, entered, full] = p.asm.labels();
    let out = p.out;
    let offsets = things.offsets;
    p.asm.copy(R6, R1);
    p.current_task(out);
    p.asm.load(Double, R8, R6, 8);
    p.read_kernel(-16, 4, R8, offsets.pid.cast_signed());
    p.read_kernel(-12, 4, R8, offsets.tgid.cast_signed());
    p.blank_task();
    p.asm.load(Word, R1, R7, task::FLAGS);
    p.asm.by(Op::And, R1, task::NARROW);
    p.asm.store(Word, R10, TASK + task::FLAGS, R1);
    // Its tid as we know it.
    p.asm.load(Word, R9, R10, -16);
    if let Some(ids) = offsets.ids {
        p.follow(R9, -24, R8, ids.thread_pid);
        p.board(R1, board::LEVEL);
        p.asm.load(Double, R1, R1, 0);
        p.asm.by(Op::Mul, R1, ids.size.cast_signed());
        p.asm.with(Op::Add, R9, R1);
        p.asm.store_number(Double, R10, -24, 0);
        p.read_kernel(-24, 4, R9, ids.numbers.cast_signed());
        p.asm.load(Word, R9, R10, -24);
    }
    p.asm.store(Word, R10, TASK + task::TID, R9);
    // What it shares with its maker.
    p.asm.store_number(Double, R10, -40, 0);
    for (at, bit) in [(offsets.files, fork::FILES), (offsets.fs, fork::FS)] {
        let Some(at) = at else { continue };
        let own = p.asm.label();
        p.follow(R1, -24, R8, at);
        p.asm.store(Double, R10, -32, R1);
        p.asm.load(Double, R1, R6, 0);
        p.follow(R1, -24, R1, at);
        p.asm.load(Double, R2, R10, -32);
        p.asm.jump_if_reg(R1, If::Differ, R2, own);
        p.asm.load(Double, R1, R10, -40);
        p.asm.by(Op::Or, R1, bit);
        p.asm.store(Double, R10, -40, R1);
        p.asm.place(own);
    }
    p.asm.load(Double, R1, R7, task::SLOT);
    p.asm.store(Double, R10, -32, R1);
    p.asm.load(Word, R1, R10, -16);
    p.asm.load(Word, R2, R10, -12);
    p.asm.jump_if_reg(R1, If::Differ, R2, thread);

    // A process: a slot of its own, as its parent's is, but for the id and the number of threads. Where there is no room for
    // it, the slot is 0, which has no entry.
    p.asm.store(Word, R10, TASK + task::PID, R9);
    p.look_up(things.slots, -32);
    p.asm.jump_if(R0, If::Equal, 0, entered);
    p.asm.copy(R8, R0);
    p.new_slot(-24, -16);
    p.update(things.slots, -24, (R8, 0), 0);
    p.asm.jump_if(R0, If::Differ, 0, entered);
    p.look_up(things.slots, -24);
    p.asm.jump_if(R0, If::Equal, 0, entered);
    p.asm.store(Word, R0, slot::PID, R9);
    p.asm.store_number(Double, R0, slot::LIVE, 1);
    p.board_add(board::SLOTS, 1);
    p.asm.load(Double, R1, R10, -24);
    p.asm.store(Double, R10, TASK + task::SLOT, R1);
    p.asm.jump(entered);

    p.asm.place(thread);
    p.asm.load(Word, R1, R7, task::PID);
    p.asm.store(Word, R10, TASK + task::PID, R1);
    p.asm.load(Double, R1, R10, -32);
    p.asm.store(Double, R10, TASK + task::SLOT, R1);
    p.slot_add(-32, 1);
    if offsets.files.is_none() {
        p.asm.store_number(Double, R10, -40, fork::FILES | fork::FS);
    }

    p.asm.place(entered);
    p.update(things.tasks, -16, (R10, TASK), 0);
    p.asm.jump_if(R0, If::Differ, 0, full);
    p.board_add(board::LIVE, 1);
    p.board(R1, board::EVENTS);
    p.asm.load(Double, R1, R1, 0);
    p.asm.jump_if(R1, If::Equal, 0, out);
    // The entry has been copied; its place on the stack is free.
    const EVENT: i16 = TASK - fork::LEN;
    p.asm.store_number(Word, R10, EVENT, kind::FORK);
    p.asm.load(Word, R1, R7, task::PID);
    p.asm.store(Word, R10, EVENT + fork::PARENT, R1);
    p.asm.load(Word, R1, R10, TASK + task::PID);
    p.asm.store(Word, R10, EVENT + fork::PID, R1);
    p.asm.store(Word, R10, EVENT + fork::TID, R9);
    p.asm.load(Double, R1, R10, -40);
    p.asm.store(Double, R10, EVENT + fork::SHARES, R1);
    let dropped = p.asm.label();
    p.output((R10, EVENT), fork::LEN.into(), NO_WAKEUP, dropped);
    p.asm.jump(out);
    p.asm.place(dropped);
    p.board_add(board::DROPPED, 1);
    p.asm.jump(out);

    p.asm.place(full);
    p.board_add(board::UNFOLLOWED, 1);
    p.finish()
}

/// When a process has begun to run another program.
pub(super) fn exec(things: &Things) -> Option<Vec<u64>> {
    let mut p = Draft::new(things);
    let [same, wide, none, some, unlisted, listed, full] = p.asm.labels();
    let out = p.out;
    p.asm.copy(R6, R1);
    // Which tid it had: that of a thread that was not the main one is now the process's.
    p.asm.load(Double, R1, R6, 8);
    p.asm.store(Word, R10, -8, R1);
    p.look_up(things.tasks, -8);
    p.asm.jump_if(R0, If::Equal, 0, out);
    p.asm.copy(R7, R0);
    p.flush();
    p.asm.load(Word, R1, R7, task::TID);
    p.asm.store(Word, R10, -48, R1);
    p.asm.call(Helper::GetCurrentPidTgid);
    p.asm.store(Double, R10, -16, R0);
    p.asm.load(Word, R1, R10, -16);
    p.asm.load(Word, R2, R10, -8);
    p.asm.jump_if_reg(R1, If::Equal, R2, same);
    p.asm.load(Word, R1, R7, task::PID);
    p.asm.store(Word, R7, task::TID, R1);
    p.update(things.tasks, -16, (R7, 0), 0);
    p.asm.jump_if(R0, If::Differ, 0, full);
    p.asm.map(R1, things.tasks);
    p.asm.address(R2, R10, -8);
    p.asm.call(Helper::MapDeleteElem);
    p.look_up(things.tasks, -16);
    p.asm.jump_if(R0, If::Equal, 0, out);
    p.asm.copy(R7, R0);
    p.asm.place(same);

    // `thread_info` is the first field of `task_struct`, and its flags are its first.
    p.asm.call(Helper::GetCurrentTask);
    p.asm.copy(R3, R0);
    p.read_kernel(-24, 8, R3, 0);
    p.asm.load(Word, R2, R7, task::FLAGS);
    p.asm.by(Op::And, R2, !task::NARROW);
    p.asm.load(Double, R1, R10, -24);
    p.asm.by(Op::And, R1, REGISTERS.narrow.cast_signed());
    p.asm.jump_if(R1, If::Equal, 0, wide);
    p.asm.by(Op::Or, R2, task::NARROW);
    p.asm.place(wide);
    p.asm.store(Word, R7, task::FLAGS, R2);

    p.asm.load(Double, R1, R7, task::SLOT);
    p.asm.store(Double, R10, -24, R1);
    p.slot_add(-24, -1);

    p.asm.store_number(Word, R10, -40, 0);
    p.look_up(things.scratch, -40);
    p.asm.jump_if(R0, If::Equal, 0, out);
    p.asm.copy(R8, R0);
    p.new_slot(-24, -12); // the upper half of the ids: the process
    p.asm.load(Double, R9, R10, -24);
    p.asm.store_number(Double, R8, slot::LIVE, 1);
    p.asm.store(Double, R8, slot::PROGRAM, R9);
    p.asm.store_number(Double, R8, slot::INODE, 0);
    p.asm.load(Word, R1, R7, task::PID);
    p.asm.store(Word, R8, slot::PID, R1);
    let room = i32::from(slot::LEN - slot::NAME);
    if let Some(program) = things.offsets.program {
        p.asm.load(Double, R3, R6, 16);
        p.asm.copy(R9, R3);
        p.follow(R3, -32, R9, program.interp);
        p.asm.address(R1, R8, slot::NAME);
        p.asm.set(R2, room);
        p.asm.call(Helper::ProbeReadKernelStr);
        p.asm.store(Double, R10, -40, R0);
        p.follow(R9, -32, R9, program.file);
        p.follow(R9, -32, R9, program.inode);
        p.follow(R1, -32, R9, program.ino);
        p.asm.store(Double, R8, slot::INODE, R1);
        p.asm.load(Double, R1, R10, -40);
    } else {
        p.asm.address(R1, R8, slot::NAME);
        p.asm.set(R2, 16);
        p.asm.call(Helper::GetCurrentComm);
        p.asm.set(R1, 16);
    }
    // A name that could not be read is none.
    p.asm.jump_if(R1, If::AtMost, 0, none);
    p.asm.jump_if(R1, If::Above, room, none);
    p.asm.jump(some);
    p.asm.place(none);
    p.asm.set(R1, 1);
    p.asm.store_number(Word, R8, slot::NAME, 0);
    p.asm.place(some);
    p.asm.store(Word, R8, slot::NAMED, R1);
    p.asm.copy(R9, R1);
    p.update(things.slots, -24, (R8, 0), 0);
    p.asm.jump_if(R0, If::Differ, 0, unlisted);
    p.board_add(board::SLOTS, 1);
    p.asm.load(Double, R1, R10, -24);
    p.asm.store(Double, R7, task::SLOT, R1);
    p.asm.jump(listed);
    p.asm.place(unlisted);
    p.asm.store_number(Double, R7, task::SLOT, 0);
    p.asm.place(listed);
    p.asm.store_number(Word, R8, 0, kind::EXEC);
    p.asm.load(Word, R1, R10, -48);
    p.asm.store(Word, R8, slot::FORMER, R1);
    p.asm.map(R1, things.ring);
    p.asm.copy(R2, R8);
    p.asm.copy(R3, R9);
    p.asm.by(Op::Add, R3, slot::NAME.into());
    p.asm.set(R4, FORCE_WAKEUP); // the process is to be looked at while it runs this program
    p.asm.call(Helper::RingbufOutput);
    p.asm.jump_if(R0, If::Equal, 0, out);
    p.board(R1, board::EVENTS);
    p.asm.load(Double, R1, R1, 0);
    p.asm.jump_if(R1, If::Equal, 0, out);
    p.board_add(board::DROPPED, 1);
    p.asm.jump(out);

    p.asm.place(full);
    p.board_add(board::UNFOLLOWED, 1);
    p.finish()
}

/// When a thread ends.
pub(super) fn exit(things: &Things) -> Option<Vec<u64>> {
    let mut p = Draft::new(things);
    let [silent, told, gone, dropped, lost] = p.asm.labels();
    let out = p.out;
    p.current_task(out);
    p.flush();
    p.asm.load(Word, R8, R7, task::NUMBER);
    p.asm.jump_if(R8, If::Above, NUMBERS as i32 - 1, silent);
    p.board_add(board::UNFINISHED, 1);
    p.asm.load(Word, R1, R7, task::FLAGS);
    p.asm.jump_if(R1, If::Common, task::TOLD, told);
    p.asm.jump(silent);
    p.asm.place(told);
    p.asm.store_number(Word, R7, task::KIND, kind::UNFINISHED);
    p.asm.set(R4, NO_WAKEUP);
    p.output_call(dropped);
    p.asm.place(silent);
    p.asm.load(Double, R1, R7, task::SLOT);
    p.asm.store(Double, R10, -16, R1);
    p.slot_add(-16, -1);
    p.board(R1, board::EVENTS);
    p.asm.load(Double, R1, R1, 0);
    p.asm.jump_if(R1, If::Equal, 0, gone);
    p.asm.store_number(Double, R10, -24, kind::EXIT);
    p.asm.load(Double, R1, R7, task::PID); // and the tid after it
    p.asm.store(Double, R10, -16, R1);
    p.output((R10, -24), 16, NO_WAKEUP, lost);
    p.asm.place(gone);
    p.asm.map(R1, things.tasks);
    p.asm.address(R2, R10, -8);
    p.asm.call(Helper::MapDeleteElem);
    p.board_add(board::LIVE, -1);
    p.board(R1, board::LIVE);
    p.asm.load(Double, R1, R1, 0);
    p.asm.jump_if(R1, If::Differ, 0, out);
    p.asm.store_number(Double, R10, -24, kind::LAST);
    p.output((R10, -24), 8, FORCE_WAKEUP, out);
    p.asm.jump(out);

    p.asm.place(lost);
    p.board_add(board::DROPPED, 1);
    p.asm.jump(gone);
    p.asm.place(dropped);
    p.board_add(board::DROPPED, 1);
    p.asm.jump(silent);
    p.finish()
}

/// Nothing, by means that the others need too: to see whether they are allowed.
pub(super) fn attempt() -> Option<Vec<u64>> {
    let mut p = Draft::new(&Things::NONE);
    p.asm.set(R6, 0);
    p.read_kernel(-8, 8, R6, 0);
    p.finish()
}

/// At the beginning of every call, of everybody: when somebody makes itself known, shows the first [`LOOKED`] bytes of its
/// `task_struct` from `from` on, after its ids as the kernel has them.
pub(super) fn look(things: &Things, from: i32) -> Option<Vec<u64>> {
    let mut p = Draft::new(things);
    let out = p.out;
    p.asm.copy(R6, R1);
    p.asm.load(Double, R8, R6, 8);
    p.heed_sign();
    p.asm.store_number(Word, R10, -8, 0);
    p.look_up(things.scratch, -8);
    p.asm.jump_if(R0, If::Equal, 0, out);
    p.asm.copy(R8, R0);
    p.asm.store_number(Double, R8, 0, kind::LOOK);
    p.asm.call(Helper::GetCurrentPidTgid);
    p.asm.store(Double, R8, 8, R0);
    p.asm.call(Helper::GetCurrentTask);
    p.asm.copy(R3, R0);
    p.asm.by(Op::Add, R3, from);
    p.asm.address(R1, R8, 16);
    p.asm.set(R2, LOOKED as i32);
    p.asm.call(Helper::ProbeReadKernel);
    p.output((R8, 0), LOOKED as i32 + 16, FORCE_WAKEUP, out);
    p.finish()
}
