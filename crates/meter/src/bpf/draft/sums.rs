//! The sums of a thread's calls, and how they come to the cells.

use super::super::asm::{If, Op, Reg, Size};
use super::super::frame;
use super::super::layout::{shared, sum, task};
use super::{Draft, NOEXIST};
use crate::syscalls::NUMBERS;

use Reg::{R0, R1, R2, R3, R7, R8, R9, R10};
use Size::{Double, Word};

impl Draft<'_> {
    /// `R2` = the task `R7` plus the offset of the sum for calls of the kind `R8`.
    pub(in super::super) fn sum(&mut self) {
        self.copy(R1, R8);
        self.by(Op::Mul, R1, sum::FACTOR);
        self.by(Op::Right, R1, sum::BITS.cast_signed());
        self.by(Op::And, R1, i32::from(sum::WAYS) - 1);
        self.by(Op::Mul, R1, sum::LEN.into());
        self.copy(R2, R7);
        self.with(Op::Add, R2, R1);
    }

    /// Flushes all sums of the task `R7`. Destroys `R9`, and what [`Draft::flush`] does.
    pub(in super::super) fn flush_all(&mut self) {
        let [next, done] = self.labels();
        self.set(R9, 0);
        self.place(next);
        self.jump_if(
            R9,
            If::Above,
            i32::from(sum::LEN) * (i32::from(sum::WAYS) - 1),
            done,
        );
        self.copy(R2, R7);
        self.with(Op::Add, R2, R9);
        self.flush();
        self.by(Op::Add, R9, sum::LEN.into());
        self.jump(next);
        self.place(done);
    }

    /// Moves the calls of the sum at `R2`, of the task `R7`, to their cell. Uses [`frame::CELL`]
    /// and [`frame::CELL_VALUE`].
    pub(in super::super) fn flush(&mut self) {
        let [found, make, done] = self.labels();
        let cells = self.resources.cells;
        self.load(Word, R1, R2, task::SUMS + sum::CALLS);
        self.jump_if(R1, If::Equal, 0, done);
        self.store(Double, R10, frame::CELL_VALUE, R1);
        self.store_number(Word, R2, task::SUMS + sum::CALLS, 0);
        self.copy_memory(
            Double,
            (R10, frame::CELL_VALUE + 8),
            (R2, task::SUMS + sum::NANOS),
        );
        // Calls of the same kind may follow: of the next program, or of the next thread with this bucket.
        self.store_number(Double, R2, task::SUMS + sum::NANOS, 0);
        self.copy_memory(Double, (R10, frame::CELL), (R7, task::SLOT));
        self.load(Word, R1, R2, task::SUMS + sum::KIND);
        self.copy(R3, R1);
        self.by(Op::And, R3, NUMBERS as i32 - 1);
        self.store(Word, R10, frame::CELL + 8, R3);
        self.by(Op::Right, R1, sum::ERROR.cast_signed());
        self.store(Word, R10, frame::CELL + 12, R1);
        self.find(cells, frame::CELL, make);
        self.place(found);
        for at in [0, 8] {
            self.load(Double, R1, R10, frame::CELL_VALUE + at);
            self.add_atomically(R0, at, R1);
        }
        self.jump(done);

        self.place(make);
        self.update(cells, frame::CELL, (R10, frame::CELL_VALUE), NOEXIST);
        let there = self.label();
        self.jump_if(R0, If::Differ, 0, there);
        self.shared_add(shared::CELLS, 1);
        self.jump(done);
        // Another thread has made the cell, or there is no room for it.
        self.place(there);
        self.look_up(cells, frame::CELL);
        self.jump_if(R0, If::Differ, 0, found);
        self.load(Word, R1, R10, frame::CELL + 8);
        self.by(Op::And, R1, NUMBERS as i32 - 1);
        self.by(Op::Mul, R1, 24);
        self.shared(R2, shared::SPILL);
        self.with(Op::Add, R2, R1);
        self.load(Double, R1, R10, frame::CELL_VALUE);
        self.add_atomically(R2, 0, R1);
        self.load(Double, R3, R10, frame::CELL_VALUE + 8);
        self.add_atomically(R2, 8, R3);
        self.load(Word, R3, R10, frame::CELL + 12);
        self.jump_if(R3, If::Equal, 0, done);
        self.add_atomically(R2, 16, R1);
        self.place(done);
    }
}
