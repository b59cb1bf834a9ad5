//! A program while it is written: what several of the meter's programs do, on top of the
//! [assembler](super::asm).

use super::asm::{Asm, Helper, If, Label, Op, Reg, Size};
use super::frame;
use super::layout::{REGISTERS, SIGN, TAKEN, board, class, kind, names, seat, slot, sum, task};
use super::offsets::Offsets;
use crate::syscalls::NUMBERS;

use Reg::{R0, R1, R2, R3, R4, R6, R7, R8, R9, R10};
use Size::{Double, Word};

/// What the programs work with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Things {
    /// Descriptors of the maps and of the ring.
    pub(super) board: i32,
    pub(super) tasks: i32,
    pub(super) taken: i32,
    pub(super) slots: i32,
    pub(super) cells: i32,
    pub(super) scratch: i32,
    pub(super) ring: i32,
    /// How many seats `tasks` has: a power of two.
    pub(super) seats: u32,
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
        taken: -1,
        slots: -1,
        cells: -1,
        scratch: -1,
        ring: -1,
        seats: 1,
        watermark: 0,
        offsets: Offsets {
            pid: 0,
            tgid: 0,
            stack: 0,
            files: None,
            fs: None,
            ids: None,
            program: None,
            ends: None,
        },
        cookie: [0; 2],
    };
}

pub(super) const NO_WAKEUP: i32 = 1;
pub(super) const FORCE_WAKEUP: i32 = 2;
/// Update an entry only if it is not there.
pub(super) const NOEXIST: i32 = 1;

/// A program that is being written, and what it works with.
pub(super) struct Draft<'a> {
    pub(super) asm: Asm,
    pub(super) things: &'a Things,
    /// The end, with 0 in `R0`.
    pub(super) out: Label,
}

impl Draft<'_> {
    pub(super) fn new(things: &Things) -> Draft<'_> {
        let mut asm = Asm::new();
        let out = asm.label();
        Draft { asm, things, out }
    }

    pub(super) fn finish(mut self) -> Option<Vec<u64>> {
        self.asm.place(self.out);
        self.asm.set(R0, 0);
        self.asm.exit();
        self.asm.finish()
    }

    /// `R0` = the entry of `map` for the key on the stack; none: 0.
    pub(super) fn look_up(&mut self, map: i32, key: i16) {
        self.asm.map(R1, map);
        self.asm.address(R2, R10, key);
        self.asm.call(Helper::MapLookupElem);
    }

    /// Writes the entry of `map` for the key on the stack, whose value is at `value`.
    pub(super) fn update(&mut self, map: i32, key: i16, value: (Reg, i16), flags: i32) {
        self.asm.map(R1, map);
        self.asm.address(R2, R10, key);
        self.asm.address(R3, value.0, value.1);
        self.asm.set(R4, flags);
        self.asm.call(Helper::MapUpdateElem);
    }

    /// Adds to a word of the board. Destroys `R1` and `R2`.
    pub(super) fn board_add(&mut self, word: usize, number: i32) {
        self.board(R1, word);
        self.asm.set(R2, number);
        self.asm.add_atomically(R1, 0, R2);
    }

    pub(super) fn board(&mut self, to: Reg, word: usize) {
        self.asm.map_value(to, self.things.board, (8 * word) as u32);
    }

    /// Reads `len` bytes of the kernel's at `from + offset` onto the stack; zeros where it cannot.
    pub(super) fn read_kernel(&mut self, stack: i16, len: i32, from: Reg, offset: i32) {
        self.asm.copy(R3, from);
        self.asm.by(Op::Add, R3, offset);
        self.asm.address(R1, R10, stack);
        self.asm.set(R2, len);
        self.asm.call(Helper::ProbeReadKernel);
    }

    /// `to` = the kernel's pointer at `from + offset`. Uses the stack at `stack`.
    pub(super) fn follow(&mut self, to: Reg, stack: i16, from: Reg, offset: u32) {
        self.read_kernel(stack, 8, from, offset.cast_signed());
        self.asm.load(Double, to, R10, stack);
    }

    /// `R9` = where the registers of the thread `R8` are while it makes a call. Uses
    /// [`frame::STACK_POINTER`].
    pub(super) fn place_of_registers(&mut self) {
        self.follow(R9, frame::STACK_POINTER, R8, self.things.offsets.stack);
        self.board(R1, board::ABOVE);
        self.asm.load(Double, R1, R1, 0);
        self.asm.with(Op::Add, R9, R1);
    }

    /// Writes one of the seats for the thread whose registers are at `R9` to [`frame::SEAT`].
    fn seat(&mut self, number: i32) {
        self.asm.copy(R1, R9);
        self.asm.by(Op::Right, R1, seat::PAGE);
        self.asm.by(Op::Mul, R1, seat::TIMES);
        self.asm.by(Op::Right, R1, seat::BIT + number * seat::STEP);
        self.asm
            .by(Op::And, R1, self.things.seats.cast_signed() - 1);
        self.asm.store(Word, R10, frame::SEAT, R1);
    }

    /// `R7` = the entry of the thread whose registers are at `R9`, if it is metered. Goes to
    /// `otherwise` if not. Nothing here is a call in the end: the kernel puts the looks into an
    /// array into the program itself.
    pub(super) fn find_task(&mut self, otherwise: Label) {
        let found = self.asm.label();
        for number in 0..seat::TRIES {
            self.seat(number);
            self.look_up(self.things.tasks, frame::SEAT);
            self.asm.jump_if(R0, If::Equal, 0, otherwise);
            self.asm.load(Double, R1, R0, task::WHERE);
            self.asm.jump_if_reg(R1, If::Equal, R9, found);
            self.asm.jump_if(R1, If::Equal, 0, otherwise);
        }
        self.asm.jump(otherwise);
        self.asm.place(found);
        self.asm.copy(R7, R0);
    }

    /// `R8` = a new entry for the thread whose registers are at `R9`, which has yet to be told its
    /// ids and its slot, and to be given to that thread by [`Draft::give_task`]. Goes to `full` if
    /// there is none.
    pub(super) fn new_task(&mut self, full: Label) {
        let taken = self.asm.label();
        for number in 0..seat::TRIES {
            self.seat(number);
            self.update(self.things.taken, frame::SEAT, (R10, frame::SEAT), NOEXIST);
            self.asm.jump_if(R0, If::Equal, 0, taken);
        }
        self.asm.jump(full);
        self.asm.place(taken);
        self.look_up(self.things.tasks, frame::SEAT);
        self.asm.jump_if(R0, If::Equal, 0, full);
        self.asm.copy(R8, R0);
        self.asm.load(Word, R1, R10, frame::SEAT);
        self.asm.store(Word, R8, task::SEAT, R1);
        self.asm.store_number(Word, R8, task::KIND, kind::CALL);
        self.asm.store_number(Word, R8, task::NUMBER, task::IGNORED);
        self.asm.store_number(Double, R8, task::FLAGS, 0); // and FRESH
        for sum in 0..sum::WAYS {
            self.asm
                .store_number(Word, R8, task::SUMS + sum * sum::LEN + sum::CALLS, 0);
        }
    }

    /// From now on the entry `R8` is that of the thread whose registers are at `R9`.
    pub(super) fn give_task(&mut self) {
        self.asm.store(Double, R8, task::WHERE, R9);
        self.board_add(board::LIVE, 1);
    }

    /// The thread of the entry at `R7` is no more.
    pub(super) fn take_task_back(&mut self) {
        self.asm.store_number(Double, R7, task::WHERE, task::LEFT);
        self.asm.load(Word, R1, R7, task::SEAT);
        self.asm.store(Word, R10, frame::SEAT, R1);
        self.asm.map(R1, self.things.taken);
        self.asm.address(R2, R10, frame::SEAT);
        self.asm.call(Helper::MapDeleteElem);
        self.board_add(board::LIVE, -1);
    }

    /// Outputs `len` bytes at `from` to the ring; goes to `dropped` if there is no room.
    pub(super) fn output(&mut self, from: (Reg, i16), len: i32, flags: i32, dropped: Label) {
        self.asm.map(R1, self.things.ring);
        self.asm.address(R2, from.0, from.1);
        self.asm.set(R3, len);
        self.asm.set(R4, flags);
        self.asm.call(Helper::RingbufOutput);
        self.asm.jump_if(R0, If::Differ, 0, dropped);
    }

    /// Ends the program, unless the call `R8`, whose registers the context at `R6` leads to, is the
    /// sign.
    pub(super) fn heed_sign(&mut self) {
        let out = self.out;
        self.asm.jump_if(R8, If::Differ, REGISTERS.prctl, out);
        self.asm.load(Double, R3, R6, 0);
        self.read_kernel(frame::SIGN, TAKEN, R3, REGISTERS.row);
        let said = [SIGN as u64, self.things.cookie[0], self.things.cookie[1]];
        for (argument, said) in REGISTERS.arguments.into_iter().zip(said) {
            self.asm.load(Double, R1, R10, frame::SIGN + argument);
            self.asm.set_wide(R2, said);
            self.asm.jump_if_reg(R1, If::Differ, R2, out);
        }
    }

    /// `R9` = the class of the call `R8`, which is below [`NUMBERS`].
    pub(super) fn class(&mut self) {
        self.board(R2, board::CLASSES);
        self.asm.copy(R1, R8);
        self.asm.by(Op::And, R1, NUMBERS as i32 - 1);
        self.asm.by(Op::Left, R1, 3);
        self.asm.with(Op::Add, R2, R1);
        self.asm.load(Double, R9, R2, 0);
    }

    /// Goes to `enough` when no more calls are to be told; else this is one of them. Several
    /// processors at once may take some more than there are; never fewer.
    pub(super) fn one_less_to_tell(&mut self, enough: Label) {
        self.board(R1, board::LEFT);
        self.asm.load(Double, R2, R1, 0);
        self.asm.jump_if(R2, If::AtMost, 0, enough);
        self.asm.set(R2, -1);
        self.asm.add_atomically(R1, 0, R2);
    }

    /// Goes to `silent` when no more calls are to be told: then nobody wants to know of forks and
    /// ends either. Destroys `R1`.
    pub(super) fn unless_told(&mut self, silent: Label) {
        self.board(R1, board::LEFT);
        self.asm.load(Double, R1, R1, 0);
        self.asm.jump_if(R1, If::AtMost, 0, silent);
    }

    /// Takes the registers, to which the context at `R6` leads, into the entry at `R7`.
    pub(super) fn take_registers(&mut self) {
        self.asm.load(Double, R3, R6, 0);
        self.asm.by(Op::Add, R3, REGISTERS.row);
        self.asm.address(R1, R7, task::REGISTERS);
        self.asm.set(R2, TAKEN);
        self.asm.call(Helper::ProbeReadKernel);
    }

    /// Takes the names of the call in the entry at `R7`, of class `R9`, into the entry, or, if one
    /// of them is too long for it, to the ring. When one cannot be read, marks the entry, to try
    /// again when the call ends; if this is the `last` time, takes those that can. Takes the call
    /// out of what is to be told when the ring has no room for its names. Destroys `R6` and `R8`.
    pub(super) fn take_names(&mut self, last: bool) {
        let [missing, long, done] = self.asm.labels();
        self.asm.store_number(Double, R7, task::FIRST, 0); // and SECOND
        self.asm.copy(R1, R9);
        self.asm.by(Op::And, R1, class::NAME as i32);
        self.asm.jump_if(R1, If::Equal, 0, done);
        let unread = |label| if last { label } else { missing };
        self.read_names(
            (R7, task::NAMES),
            [task::FIRST, task::SECOND],
            task::SHORT.into(),
            unread,
            Some(long),
        );
        self.asm.jump(done);

        self.asm.place(long);
        self.asm.store_number(Double, R7, task::FIRST, 0);
        self.asm.store_number(Word, R10, frame::SCRATCH_KEY, 0);
        self.look_up(self.things.scratch, frame::SCRATCH_KEY);
        self.asm.jump_if(R0, If::Equal, 0, done);
        self.asm.copy(R8, R0);
        self.asm.store_number(Word, R8, 0, kind::NAMES);
        self.asm.load(Word, R1, R7, task::TID);
        self.asm.store(Word, R8, names::TID, R1);
        self.asm.load(Word, R1, R7, task::NUMBER);
        self.asm.store(Double, R8, names::NUMBER, R1);
        self.asm.store_number(Double, R8, names::FIRST, 0); // and SECOND
        self.read_names(
            (R8, names::BYTES),
            [names::FIRST, names::SECOND],
            names::LONGEST,
            unread,
            None,
        );
        self.asm.map(R1, self.things.ring);
        self.asm.copy(R2, R8);
        self.asm.copy(R3, R6);
        self.asm.by(Op::Add, R3, names::BYTES.into());
        self.asm.set(R4, NO_WAKEUP);
        self.asm.call(Helper::RingbufOutput);
        self.asm.jump_if(R0, If::Equal, 0, done);
        self.asm.store_number(Word, R7, task::FLAGS, 0);
        if !last {
            self.asm.jump(done);
            self.asm.place(missing);
            self.asm.store_number(Double, R7, task::FIRST, 0);
            self.asm
                .store_number(Word, R7, task::FLAGS, task::TOLD | task::NAMELESS);
        }
        self.asm.place(done);
    }

    /// Reads the names one after the other to `to`, and their lengths beside them; `R6` is what
    /// they take together. Goes to `unread` of what follows when one cannot be read, and to `long`
    /// when one fills its room of `most` bytes.
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

    /// Outputs the call in the entry at `R7`, with its names; goes to `dropped` if there is no
    /// room. `R4` has the flags.
    pub(super) fn output_call(&mut self, dropped: Label) {
        self.asm.load(Word, R3, R7, task::FIRST);
        self.asm.load(Word, R1, R7, task::SECOND);
        self.asm.with(Op::Add, R3, R1);
        self.asm
            .jump_if(R3, If::Above, 2 * i32::from(task::SHORT), dropped);
        self.asm
            .by(Op::Add, R3, (task::NAMES - task::RECORD).into());
        self.asm.map(R1, self.things.ring);
        self.asm.address(R2, R7, task::RECORD);
        self.asm.call(Helper::RingbufOutput);
        self.asm.jump_if(R0, If::Differ, 0, dropped);
    }

    /// `R2` = the sum in the entry at `R7` where calls of the kind `R8` are.
    pub(super) fn sum(&mut self) {
        self.asm.copy(R1, R8);
        self.asm.by(Op::Mul, R1, sum::TIMES);
        self.asm.by(Op::Right, R1, sum::BITS.cast_signed());
        self.asm.by(Op::And, R1, i32::from(sum::WAYS) - 1);
        self.asm.by(Op::Mul, R1, sum::LEN.into());
        self.asm.copy(R2, R7);
        self.asm.with(Op::Add, R2, R1);
    }

    /// Adds the calls of all sums in the entry at `R7` to their cells. Destroys `R9`, and the stack
    /// as [`Draft::flush`] does.
    pub(super) fn flush_all(&mut self) {
        let [next, done] = self.asm.labels();
        self.asm.set(R9, 0);
        self.asm.place(next);
        self.asm.jump_if(
            R9,
            If::Above,
            i32::from(sum::LEN) * (i32::from(sum::WAYS) - 1),
            done,
        );
        self.asm.copy(R2, R7);
        self.asm.with(Op::Add, R2, R9);
        self.flush();
        self.asm.by(Op::Add, R9, sum::LEN.into());
        self.asm.jump(next);
        self.asm.place(done);
    }

    /// Adds the calls of the sum at `R2`, in the entry at `R7`, to their cell. Uses
    /// [`frame::CELL`] and [`frame::CELL_VALUE`].
    pub(super) fn flush(&mut self) {
        let [found, make, done] = self.asm.labels();
        let cells = self.things.cells;
        self.asm.load(Word, R1, R2, task::SUMS + sum::CALLS);
        self.asm.jump_if(R1, If::Equal, 0, done);
        self.asm.store(Double, R10, frame::CELL_VALUE, R1);
        self.asm.store_number(Word, R2, task::SUMS + sum::CALLS, 0);
        self.asm.load(Double, R1, R2, task::SUMS + sum::NANOS);
        self.asm.store(Double, R10, frame::CELL_VALUE + 8, R1);
        self.asm.load(Double, R1, R7, task::SLOT);
        self.asm.store(Double, R10, frame::CELL, R1);
        self.asm.load(Word, R1, R2, task::SUMS + sum::KIND);
        self.asm.copy(R3, R1);
        self.asm.by(Op::And, R3, NUMBERS as i32 - 1);
        self.asm.store(Word, R10, frame::CELL + 8, R3);
        self.asm.by(Op::Right, R1, sum::ERROR.cast_signed());
        self.asm.store(Word, R10, frame::CELL + 12, R1);
        self.look_up(cells, frame::CELL);
        self.asm.jump_if(R0, If::Equal, 0, make);
        self.asm.place(found);
        for at in [0, 8] {
            self.asm.load(Double, R1, R10, frame::CELL_VALUE + at);
            self.asm.add_atomically(R0, at, R1);
        }
        self.asm.jump(done);

        self.asm.place(make);
        self.update(cells, frame::CELL, (R10, frame::CELL_VALUE), NOEXIST);
        let there = self.asm.label();
        self.asm.jump_if(R0, If::Differ, 0, there);
        self.board_add(board::CELLS, 1);
        self.asm.jump(done);
        // Another thread was faster, or there is no room.
        self.asm.place(there);
        self.look_up(cells, frame::CELL);
        self.asm.jump_if(R0, If::Differ, 0, found);
        self.asm.load(Word, R1, R10, frame::CELL + 8);
        self.asm.by(Op::And, R1, NUMBERS as i32 - 1);
        self.asm.by(Op::Mul, R1, 24);
        self.board(R2, board::SPILL);
        self.asm.with(Op::Add, R2, R1);
        self.asm.load(Double, R1, R10, frame::CELL_VALUE);
        self.asm.add_atomically(R2, 0, R1);
        self.asm.load(Double, R3, R10, frame::CELL_VALUE + 8);
        self.asm.add_atomically(R2, 8, R3);
        self.asm.load(Word, R3, R10, frame::CELL + 12);
        self.asm.jump_if(R3, If::Equal, 0, done);
        self.asm.add_atomically(R2, 16, R1);
        self.asm.place(done);
    }

    /// `R3` = the argument whose place in the row of registers is in the byte of `R9` that begins
    /// at `bit`.
    fn argument(&mut self, bit: i32) {
        self.asm.copy(R1, R9);
        self.asm.by(Op::Right, R1, bit);
        self.asm.by(Op::And, R1, TAKEN - 8);
        self.asm.copy(R2, R7);
        self.asm.with(Op::Add, R2, R1);
        self.asm.load(Double, R3, R2, task::REGISTERS);
    }

    /// A number that no other slot has had, onto the stack at `to`: the process, from the lower
    /// half of the word at `pid`, which has 22 bits at most (`PID_MAX_LIMIT`), and the time in
    /// microseconds, which comes again after 52 days.
    pub(super) fn new_slot(&mut self, to: i16, pid: i16) {
        self.asm.call(Helper::KtimeGetNs);
        self.asm.by(Op::Right, R0, 10);
        self.asm.by(Op::Left, R0, 22);
        self.asm.load(Word, R1, R10, pid);
        self.asm.with(Op::Or, R0, R1);
        self.asm.store(Double, R10, to, R0);
    }

    /// Adds `number` to the threads of the slot whose number is on the stack at `at`, if it has an
    /// entry.
    pub(super) fn slot_add(&mut self, at: i16, number: i32) {
        let unlisted = self.asm.label();
        self.look_up(self.things.slots, at);
        self.asm.jump_if(R0, If::Equal, 0, unlisted);
        self.asm.set(R1, number);
        self.asm.add_atomically(R0, slot::LIVE, R1);
        self.asm.place(unlisted);
    }
}
