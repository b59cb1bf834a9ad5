//! A program while it is written: what several of the meter's programs do, on top of the
//! [assembler](super::asm).

mod sums;

use std::ops::{Deref, DerefMut};

use super::asm::{Asm, Helper, If, Label, Op, Reg, Size};
use super::frame;
use super::layout::{ANNOUNCEMENT, COPIED, REGISTERS};
use super::layout::{bucket, class, kind, names, scratch, shared, slot, sum, task};
use super::offsets::Offsets;
use crate::syscalls::NUMBERS;

use Reg::{R0, R1, R2, R3, R4, R6, R7, R8, R9, R10};
use Size::{Double, Word};

/// What the programs work with.
#[derive(Clone, Copy, Default)]
pub(super) struct Resources {
    /// The descriptors of the maps and of the ring.
    pub(super) shared: i32,
    pub(super) tasks: i32,
    pub(super) taken: i32,
    pub(super) slots: i32,
    pub(super) cells: i32,
    pub(super) scratch: i32,
    pub(super) ring: i32,
    /// The number of buckets of `tasks`: a power of two.
    pub(super) buckets: u32,
    /// Bytes in the ring from which on user space is woken.
    pub(super) watermark: i32,
    pub(super) offsets: Offsets,
    /// The secret by which the command announces itself.
    pub(super) cookie: [u64; 2],
    /// Which threads are metered that ran already.
    pub(super) joins: Option<Joins>,
}

/// Threads that join when they make a call.
#[derive(Clone, Copy)]
pub(super) enum Joins {
    /// All of our PID namespace.
    All,
    /// Those of the cgroup in the map with this descriptor, and of the cgroups below it.
    Cgroup(i32),
}

// BPF_RB_NO_WAKEUP, BPF_RB_FORCE_WAKEUP, BPF_NOEXIST
pub(super) const NO_WAKEUP: i32 = 1;
pub(super) const FORCE_WAKEUP: i32 = 2;
const NOEXIST: i32 = 1;

/// A program that is being written.
pub(super) struct Draft<'a> {
    asm: Asm,
    pub(super) resources: &'a Resources,
    /// The end of the program.
    pub(super) out: Label,
    /// The entry of the map `scratch` that only this program uses: another one may run on the same
    /// processor in between.
    pub(super) scratch: i32,
}

impl Deref for Draft<'_> {
    type Target = Asm;
    fn deref(&self) -> &Asm {
        &self.asm
    }
}

impl DerefMut for Draft<'_> {
    fn deref_mut(&mut self) -> &mut Asm {
        &mut self.asm
    }
}

impl Draft<'_> {
    pub(super) fn new(resources: &Resources) -> Draft<'_> {
        let mut asm = Asm::default();
        let out = asm.label();
        Draft {
            asm,
            resources,
            out,
            scratch: scratch::ENTER,
        }
    }

    pub(super) fn finish(mut self) -> Option<Vec<u64>> {
        let out = self.out;
        self.place(out);
        self.set(R0, 0);
        self.exit();
        self.asm.finish()
    }

    /// `R0` = the value of `map` for the key on the stack, or 0.
    pub(super) fn look_up(&mut self, map: i32, key: i16) {
        self.map(R1, map);
        self.address(R2, R10, key);
        self.call(Helper::MapLookupElem);
    }

    /// `R0` = the value of `map` for the key on the stack. Goes to `otherwise` if there is none.
    pub(super) fn find(&mut self, map: i32, key: i16, otherwise: Label) {
        self.look_up(map, key);
        self.jump_if(R0, If::Equal, 0, otherwise);
    }

    /// `[to] = [from]`, by way of `R1`.
    pub(super) fn copy_memory(&mut self, size: Size, to: (Reg, i16), from: (Reg, i16)) {
        self.load(size, R1, from.0, from.1);
        self.store(size, to.0, to.1, R1);
    }

    /// Writes a value to `map` for the key on the stack. `R0` = 0 if it was written.
    pub(super) fn update(&mut self, map: i32, key: i16, value: (Reg, i16), flags: i32) {
        self.map(R1, map);
        self.address(R2, R10, key);
        self.address(R3, value.0, value.1);
        self.set(R4, flags);
        self.call(Helper::MapUpdateElem);
    }

    /// Adds to a word of the shared map. Destroys `R1` and `R2`.
    pub(super) fn shared_add(&mut self, word: usize, number: i32) {
        self.shared(R1, word);
        self.set(R2, number);
        self.add_atomically(R1, 0, R2);
    }

    /// `to` = the address of a word of the shared map.
    pub(super) fn shared(&mut self, to: Reg, word: usize) {
        let map = self.resources.shared;
        self.map_value(to, map, (8 * word) as u32);
    }

    /// Reads `len` bytes of kernel memory at `from + offset` onto the stack; zeros if that fails.
    pub(super) fn read_kernel(&mut self, stack: i16, len: i32, from: Reg, offset: i32) {
        self.copy(R3, from);
        self.by(Op::Add, R3, offset);
        self.address(R1, R10, stack);
        self.set(R2, len);
        self.call(Helper::ProbeReadKernel);
    }

    /// `to` = the pointer in kernel memory at `from + offset`. Uses the stack at `stack`.
    pub(super) fn follow(&mut self, to: Reg, stack: i16, from: Reg, offset: u32) {
        self.read_kernel(stack, 8, from, offset.cast_signed());
        self.load(Double, to, R10, stack);
    }

    /// `R9` = the address of the registers of the thread `R8` while it makes a call. Uses
    /// [`frame::STACK_POINTER`].
    pub(super) fn find_registers(&mut self) {
        self.follow(R9, frame::STACK_POINTER, R8, self.resources.offsets.stack);
        self.shared(R1, shared::REGISTERS_OFFSET);
        self.load(Double, R1, R1, 0);
        self.with(Op::Add, R9, R1);
    }

    /// Writes a bucket for the thread whose registers are at `R9` to [`frame::BUCKET`].
    fn bucket(&mut self, attempt: i32) {
        let mask = self.resources.buckets.cast_signed() - 1;
        self.copy(R1, R9);
        self.by(Op::Right, R1, bucket::PAGE);
        self.by(Op::Mul, R1, bucket::FACTOR);
        self.by(Op::Right, R1, bucket::BIT + attempt * bucket::STEP);
        self.by(Op::And, R1, mask);
        self.store(Word, R10, frame::BUCKET, R1);
    }

    /// `R7` = the task whose registers are at `R9`. Goes to `otherwise` if it is not metered. The
    /// kernel inlines lookups in an array map, so this makes no helper call.
    pub(super) fn find_task(&mut self, otherwise: Label) {
        let found = self.label();
        for attempt in 0..bucket::TRIES {
            self.bucket(attempt);
            self.find(self.resources.tasks, frame::BUCKET, otherwise);
            self.load(Double, R1, R0, task::REGISTERS_AT);
            self.jump_if_reg(R1, If::Equal, R9, found);
            self.jump_if(R1, If::Equal, 0, otherwise);
        }
        self.jump(otherwise);
        self.place(found);
        self.copy(R7, R0);
    }

    /// `R8` = a new task for the thread whose registers are at `R9`, without ids and slot; it is
    /// found after [`Draft::publish_task`]. Goes to `full` if there is no free bucket.
    pub(super) fn new_task(&mut self, full: Label) {
        let taken = self.label();
        for attempt in 0..bucket::TRIES {
            self.bucket(attempt);
            self.update(
                self.resources.taken,
                frame::BUCKET,
                (R10, frame::BUCKET),
                NOEXIST,
            );
            self.jump_if(R0, If::Equal, 0, taken);
        }
        self.jump(full);
        self.place(taken);
        self.find(self.resources.tasks, frame::BUCKET, full);
        self.copy(R8, R0);
        self.copy_memory(Word, (R8, task::BUCKET), (R10, frame::BUCKET));
        self.store_number(Word, R8, task::KIND, kind::CALL);
        self.store_number(Word, R8, task::NUMBER, task::IGNORED);
        self.store_number(Double, R8, task::FLAGS, 0); // and FRESH
        for sum in 0..sum::WAYS {
            self.store_number(Word, R8, task::SUMS + sum * sum::LEN + sum::CALLS, 0);
        }
    }

    /// From now on the task `R8` is that of the thread whose registers are at `R9`.
    pub(super) fn publish_task(&mut self) {
        self.store(Double, R8, task::REGISTERS_AT, R9);
        self.shared_add(shared::LIVE, 1);
    }

    /// Frees the bucket of the task `R7`.
    pub(super) fn release_task(&mut self) {
        self.store_number(Double, R7, task::REGISTERS_AT, task::FREE);
        self.copy_memory(Word, (R10, frame::BUCKET), (R7, task::BUCKET));
        let taken = self.resources.taken;
        self.map(R1, taken);
        self.address(R2, R10, frame::BUCKET);
        self.call(Helper::MapDeleteElem);
        self.shared_add(shared::LIVE, -1);
    }

    /// Outputs `len` bytes at `from` to the ring. Goes to `dropped` if there is no room.
    pub(super) fn output(&mut self, from: (Reg, i16), len: i32, flags: i32, dropped: Label) {
        let ring = self.resources.ring;
        self.map(R1, ring);
        self.address(R2, from.0, from.1);
        self.set(R3, len);
        self.set(R4, flags);
        self.call(Helper::RingbufOutput);
        self.jump_if(R0, If::Differ, 0, dropped);
    }

    /// Ends the program, unless the call `R8`, whose registers the context `R6` points to, is the
    /// announcement of the command. Uses [`frame::ANNOUNCEMENT`].
    pub(super) fn require_announcement(&mut self) {
        let out = self.out;
        self.jump_if(R8, If::Differ, REGISTERS.prctl, out);
        self.load(Double, R3, R6, 0);
        self.read_kernel(frame::ANNOUNCEMENT, COPIED, R3, REGISTERS.copied);
        let [first, second] = self.resources.cookie;
        let expected = [ANNOUNCEMENT as u64, first, second];
        for (argument, expected) in REGISTERS.arguments.into_iter().zip(expected) {
            self.load(Double, R1, R10, frame::ANNOUNCEMENT + argument);
            self.set_wide(R2, expected);
            self.jump_if_reg(R1, If::Differ, R2, out);
        }
    }

    /// `R9` = the class of the call `R8`, which is below [`NUMBERS`].
    pub(super) fn class(&mut self) {
        self.shared(R2, shared::CLASSES);
        self.copy(R1, R8);
        self.by(Op::And, R1, NUMBERS as i32 - 1);
        self.by(Op::Left, R1, 3);
        self.with(Op::Add, R2, R1);
        self.load(Double, R9, R2, 0);
    }

    /// Goes to `enough` if no more calls are to be reported; otherwise this call is. Several
    /// processors at once may claim more than are left, never fewer.
    pub(super) fn claim_report(&mut self, enough: Label) {
        self.shared(R1, shared::LEFT);
        self.load(Double, R2, R1, 0);
        self.jump_if(R2, If::AtMost, 0, enough);
        self.set(R2, -1);
        self.add_atomically(R1, 0, R2);
    }

    /// Goes to `silent` if no more calls are to be reported: then forks are not either, and no name
    /// depends on execs and exits. Destroys `R1`.
    pub(super) fn unless_reporting(&mut self, silent: Label) {
        self.shared(R1, shared::LEFT);
        self.load(Double, R1, R1, 0);
        self.jump_if(R1, If::AtMost, 0, silent);
    }

    /// Copies the registers, which the context `R6` points to, to the task `R7`.
    pub(super) fn copy_registers(&mut self) {
        self.load(Double, R3, R6, 0);
        self.by(Op::Add, R3, REGISTERS.copied);
        self.address(R1, R7, task::REGISTERS);
        self.set(R2, COPIED);
        self.call(Helper::ProbeReadKernel);
    }

    /// Reads the names of the call of class `R9` to the task `R7`; if one of them is too long, both
    /// to a record in the ring. If one cannot be read, flags the task to try again when the call
    /// returns; the `last` time, keeps those that can be. The call is not reported if the ring has
    /// no room for its names. Uses [`frame::SCRATCH_KEY`], destroys `R6` and `R8`.
    pub(super) fn store_names(&mut self, last: bool) {
        let [missing, long, done] = self.labels();
        self.store_number(Double, R7, task::FIRST, 0); // and SECOND
        self.copy(R1, R9);
        self.by(Op::And, R1, class::NAME as i32);
        self.jump_if(R1, If::Equal, 0, done);
        let unread = |label| if last { label } else { missing };
        self.read_names(
            (R7, task::NAMES),
            [task::FIRST, task::SECOND],
            task::SHORT.into(),
            unread,
            Some(long),
        );
        self.jump(done);

        self.place(long);
        self.store_number(Double, R7, task::FIRST, 0);
        let entry = self.scratch;
        self.store_number(Word, R10, frame::SCRATCH_KEY, entry);
        self.find(self.resources.scratch, frame::SCRATCH_KEY, done);
        self.copy(R8, R0);
        self.store_number(Word, R8, 0, kind::NAMES);
        self.copy_memory(Word, (R8, names::TID), (R7, task::TID));
        self.load(Word, R1, R7, task::NUMBER);
        self.store(Double, R8, names::NUMBER, R1);
        self.store_number(Double, R8, names::FIRST, 0); // and SECOND
        self.read_names(
            (R8, names::BYTES),
            [names::FIRST, names::SECOND],
            names::LONGEST,
            unread,
            None,
        );
        let ring = self.resources.ring;
        self.map(R1, ring);
        self.copy(R2, R8);
        self.copy(R3, R6);
        self.by(Op::Add, R3, names::BYTES.into());
        self.set(R4, NO_WAKEUP);
        self.call(Helper::RingbufOutput);
        self.jump_if(R0, If::Equal, 0, done);
        self.store_number(Word, R7, task::FLAGS, 0);
        if !last {
            self.jump(done);
            self.place(missing);
            self.store_number(Double, R7, task::FIRST, 0);
            self.store_number(Word, R7, task::FLAGS, task::REPORTED | task::NAMELESS);
        }
        self.place(done);
    }

    /// Reads the names to `to`, one after the other, and their lengths to `lengths`. `R6` = the sum
    /// of the lengths. Goes to `unread(next)` if one cannot be read, where `next` skips it, and to
    /// `long` if one fills its `most` bytes.
    fn read_names(
        &mut self,
        (to, at): (Reg, i16),
        lengths: [i16; 2],
        most: i32,
        unread: impl Fn(Label) -> Label,
        long: Option<Label>,
    ) {
        self.set(R6, 0);
        for (flag, bit, len) in [(class::NAME, 8, lengths[0]), (class::OTHER, 16, lengths[1])] {
            let none = self.label();
            self.copy(R1, R9);
            self.by(Op::And, R1, flag as i32);
            self.jump_if(R1, If::Equal, 0, none);
            self.argument(bit);
            self.jump_if(R3, If::Equal, 0, none);
            self.address(R1, to, at);
            self.with(Op::Add, R1, R6);
            self.set(R2, most);
            self.call(Helper::ProbeReadUserStr);
            self.jump_if(R0, If::AtMost, 0, unread(none));
            match long {
                Some(long) => self.jump_if(R0, If::Above, most - 1, long),
                None => self.jump_if(R0, If::Above, most, unread(none)),
            }
            self.store(Word, to, len, R0);
            self.with(Op::Add, R6, R0);
            self.place(none);
        }
    }

    /// Outputs the call of the task `R7`, with its names and the flags `R4`. Goes to `dropped` if
    /// there is no room.
    pub(super) fn output_call(&mut self, dropped: Label) {
        self.load(Word, R3, R7, task::FIRST);
        self.load(Word, R1, R7, task::SECOND);
        self.with(Op::Add, R3, R1);
        self.jump_if(R3, If::Above, 2 * i32::from(task::SHORT), dropped);
        self.by(Op::Add, R3, (task::NAMES - task::RECORD).into());
        let ring = self.resources.ring;
        self.map(R1, ring);
        self.address(R2, R7, task::RECORD);
        self.call(Helper::RingbufOutput);
        self.jump_if(R0, If::Differ, 0, dropped);
    }

    /// `R3` = the argument of the task `R7` whose offset is in the class `R9`, from `bit` on.
    fn argument(&mut self, bit: i32) {
        self.copy(R1, R9);
        self.by(Op::Right, R1, bit);
        self.by(Op::And, R1, COPIED - 8);
        self.copy(R2, R7);
        self.with(Op::Add, R2, R1);
        self.load(Double, R3, R2, task::REGISTERS);
    }

    /// Writes a unique number for a slot to the stack at `to`: the pid, which is on the stack and
    /// has at most 22 bits (`PID_MAX_LIMIT`), and the time in microseconds, which wraps after 52
    /// days.
    pub(super) fn new_slot(&mut self, to: i16, pid: i16) {
        self.call(Helper::KtimeGetNs);
        self.by(Op::Right, R0, 10);
        self.by(Op::Left, R0, 22);
        self.load(Word, R1, R10, pid);
        self.with(Op::Or, R0, R1);
        self.store(Double, R10, to, R0);
    }

    /// Adds to the live threads of the slot whose number is on the stack, if it is in the map.
    pub(super) fn slot_add(&mut self, at: i16, number: i32) {
        let unlisted = self.label();
        self.find(self.resources.slots, at, unlisted);
        self.set(R1, number);
        self.add_atomically(R0, slot::LIVE, R1);
        self.place(unlisted);
    }
}
