//! The meter's programs, in the words of the [`Draft`]; what they share with user space is in the
//! [layout](super::layout).
//!
//! ```text
//! sys_enter ── not one of ours, and no sign ──► end          (one look into `tasks`, by where the registers are: that is the filter)
//!     │ ours: remember number and time; if calls are told one by one: registers, and names to the ring
//! sys_exit ─── add to `cells` (slot, number, error); if calls are told one by one: the call to the ring
//! fork ─────── the child is one of ours, too, in the slot of its thread group or a new one
//! exec ─────── a new slot, with the program's name; another tid, if it was not the main thread
//! exit ─────── no longer one of ours; one less in its slot
//! ```
//!
//! A *slot* is a process while it runs one program: what [`crate::call::Total`] is about. A slot
//! without threads gets no further calls, so that user space can take its cells out of the map
//! without losing any.
//!
//! Whom to meter first is said by the command itself, just before its execve(2): a call that no
//! kernel knows, with a number that nobody can guess. So nobody need know how the kernel numbers
//! processes, which in a PID namespace is another way.

use super::asm::{Helper, If, Op, Reg, Size};
use super::draft::{Draft, FORCE_WAKEUP, NO_WAKEUP, Things};
use super::layout::{LOOKED, REGISTERS, board, fork, kind, slot, sum, task};
use crate::syscalls::{self, NUMBERS};

use Reg::{R0, R1, R2, R3, R4, R6, R7, R8, R9, R10};
use Size::{Double, Word};

/// At the beginning of every call, of everybody.
pub(super) fn enter(things: &Things) -> Option<Vec<u64>> {
    let mut p = Draft::new(things);
    let [stranger, narrow, clock] = p.asm.labels();
    let out = p.out;
    p.asm.copy(R6, R1);
    p.asm.load(Double, R9, R6, 0);
    p.asm.load(Double, R8, R6, 8);
    p.find_task(stranger);
    p.asm.store_number(Word, R7, task::NUMBER, task::IGNORED);
    p.asm.load(Word, R1, R7, task::FLAGS);
    p.asm.jump_if(R1, If::Common, task::NARROW, narrow);
    p.asm.jump_if(R8, If::Above, NUMBERS as i32 - 1, out);
    p.class();
    p.asm.jump_if(R9, If::Equal, 0, out);
    p.asm.store(Word, R7, task::NUMBER, R8);
    p.asm.store_number(Word, R7, task::FLAGS, 0);
    p.one_less_to_tell(clock);
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
    p.asm.call(Helper::GetCurrentTask);
    p.asm.copy(R8, R0);
    p.follow(R1, -16, R8, things.offsets.stack);
    p.asm.copy(R2, R9);
    p.asm.with(Op::Sub, R2, R1);
    p.board(R1, board::ABOVE);
    p.asm.store(Double, R1, 0, R2);
    // Its ids as we know them are those at the depth of its own PID namespace, which is ours.
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
    } else {
        p.asm.call(Helper::GetCurrentPidTgid);
        p.asm.store(Word, R10, -16, R0);
    }
    p.new_task(out);
    p.asm.load(Word, R1, R10, -16);
    p.asm.store(Word, R8, task::PID, R1);
    p.asm.store(Word, R8, task::TID, R1);
    p.asm
        .store_number(Double, R8, task::SLOT, slot::FIRST as i32);
    p.give_task();
    p.board_add(board::SEEN, 1);
    p.finish()
}

/// At the end of every call, of everybody.
pub(super) fn exit_call(things: &Things) -> Option<Vec<u64>> {
    let mut p = Draft::new(things);
    let [quiet, unseen, settle, whole, other, counted] = p.asm.labels();
    let [tell, named, again, enough, clear, begun] = p.asm.labels();
    let out = p.out;
    p.asm.copy(R6, R1);
    p.asm.load(Double, R9, R6, 0);
    p.find_task(out);
    p.asm.load(Word, R8, R7, task::NUMBER);
    p.asm.jump_if(R8, If::Above, NUMBERS as i32 - 1, quiet);
    p.asm.call(Helper::KtimeGetNs);
    p.asm.copy(R9, R0);
    p.asm.load(Double, R1, R7, task::START);
    p.asm.with(Op::Sub, R9, R1);

    // R8 has the kind, which is the number until it is known whether it failed; R9 the nanoseconds.
    p.asm.place(settle);
    p.asm.store(Double, R7, task::NANOS, R9);
    p.asm.load(Double, R1, R6, 8);
    p.asm.store(Double, R7, task::RESULT, R1);
    p.asm.jump_if(R1, If::Below, -4095, whole);
    p.asm.negate(R1);
    p.asm.copy(R2, R1);
    p.asm.by(Op::Left, R2, sum::ERROR.cast_signed());
    p.asm.with(Op::Or, R8, R2);
    if let Some(ends) = things.offsets.ends {
        // Cut short: by a signal that ends it? Then it is left as it is, and the end of the thread
        // sees to it.
        let cut = p.asm.label();
        for errno in CUT_SHORT {
            p.asm.jump_if(R1, If::Equal, errno, cut);
        }
        p.asm.jump(whole);
        p.asm.place(cut);
        p.asm.call(Helper::GetCurrentTask);
        p.follow(R1, -40, R0, ends.pending);
        p.asm.by(Op::And, R1, 1 << 8); // SIGKILL, which also stands for the end of the whole process
        p.asm.jump_if(R1, If::Equal, 0, whole);
        // A tracer would have seen the call return, if the process had got another signal and if it
        // was for this thread.
        p.asm.load(Word, R1, R7, task::PID);
        p.asm.load(Word, R2, R7, task::TID);
        p.asm.jump_if_reg(R1, If::Differ, R2, out);
        p.asm.call(Helper::GetCurrentTask);
        p.follow(R1, -40, R0, ends.signal);
        p.asm.store_number(Double, R10, -40, 0);
        p.read_kernel(-40, 4, R1, ends.group_exit_code.cast_signed());
        p.asm.load(Word, R1, R10, -40);
        p.asm.by(Op::And, R1, 0x7f);
        p.asm.jump_if(R1, If::Equal, 0, out);
        p.asm.jump_if(R1, If::Equal, 9, out);
    }
    p.asm.place(whole);
    p.sum();
    p.asm.load(Word, R1, R2, task::SUMS + sum::KIND);
    p.asm.jump_if_reg(R1, If::Differ, R8, other);
    p.asm.load(Word, R1, R2, task::SUMS + sum::CALLS);
    p.asm.jump_if(R1, If::Above, sum::MOST, other);
    p.asm.by(Op::Add, R1, 1);
    p.asm.store(Word, R2, task::SUMS + sum::CALLS, R1);
    p.asm.load(Double, R1, R2, task::SUMS + sum::NANOS);
    p.asm.with(Op::Add, R1, R9);
    p.asm.store(Double, R2, task::SUMS + sum::NANOS, R1);

    p.asm.place(counted);
    p.asm.load(Word, R1, R7, task::FLAGS);
    p.asm.jump_if(R1, If::Common, task::TOLD, tell);
    p.asm.place(clear);
    p.asm.store_number(Word, R7, task::NUMBER, task::NONE);
    // Of how many bits is the program that has just begun?
    p.asm.place(begun);
    p.asm.load(Word, R1, R7, task::FRESH);
    p.asm.jump_if(R1, If::Equal, 0, out);
    p.asm.store_number(Word, R7, task::FRESH, 0);
    p.asm.store_number(Word, R7, task::FLAGS, 0);
    p.asm.load(Double, R3, R6, 0);
    p.read_kernel(-40, 8, R3, REGISTERS.mode);
    p.asm.load(Double, R1, R10, -40);
    p.asm.by(Op::And, R1, REGISTERS.narrow[0]);
    p.asm.jump_if(R1, If::Differ, REGISTERS.narrow[1], out);
    p.asm.store_number(Word, R7, task::FLAGS, task::NARROW);
    p.asm.jump(out);

    // A name that could not be read when the call began can be now, unless the program is another
    // one since.
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
    p.output_call(clear);
    p.asm.jump(clear);

    p.asm.place(named);
    p.asm.store_number(Word, R7, task::FLAGS, task::TOLD);
    for name in ["execve", "execveat"] {
        if let Some(call) = syscalls::by_name(name) {
            p.asm.load(Word, R1, R7, task::NUMBER);
            p.asm
                .jump_if(R1, If::Equal, call.number.cast_signed(), again);
        }
    }
    p.asm.load(Word, R8, R7, task::NUMBER);
    p.class();
    p.asm.store(Double, R10, -48, R6);
    p.take_names(true);
    p.asm.load(Double, R6, R10, -48);
    p.asm.load(Word, R1, R7, task::FLAGS);
    p.asm.jump_if(R1, If::Common, task::TOLD, again);
    p.asm.jump(clear);

    // Other calls have the place of this one.
    p.asm.place(other);
    p.flush();
    p.sum();
    p.asm.store(Word, R2, task::SUMS + sum::KIND, R8);
    p.asm.store_number(Word, R2, task::SUMS + sum::CALLS, 1);
    p.asm.store(Double, R2, task::SUMS + sum::NANOS, R9);
    p.asm.jump(counted);

    p.asm.place(quiet);
    p.asm.store_number(Word, R7, task::NUMBER, task::NONE);
    p.asm.set_wide(R1, u64::from(task::NONE.cast_unsigned()));
    p.asm.jump_if_reg(R8, If::Equal, R1, unseen);
    p.asm.jump(begun);

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
    p.asm.set(R9, 0);
    p.one_less_to_tell(settle);
    p.take_registers();
    if let Some(first) = REGISTERS.first {
        p.asm.load(Double, R3, R6, 0);
        p.read_kernel(-16, 8, R3, first);
        p.asm.load(Double, R1, R10, -16);
        p.asm
            .store(Double, R7, task::REGISTERS + REGISTERS.arguments[0], R1);
    }
    p.asm
        .store_number(Word, R7, task::FLAGS, task::TOLD | task::NAMELESS);
    p.asm.jump(settle);
    p.finish()
}

/// Results of a call that a signal has cut short: EINTR, and those that begin again, ERESTARTSYS,
/// ERESTARTNOINTR, ERESTARTNOHAND, ERESTART_RESTARTBLOCK.
const CUT_SHORT: [i32; 5] = [4, 512, 513, 514, 516];

/// When a thread or a process is made, in the one that makes it.
pub(super) fn fork(things: &Things) -> Option<Vec<u64>> {
    let mut p = Draft::new(things);
    let [thread, entered, full] = p.asm.labels();
    let out = p.out;
    let offsets = things.offsets;
    p.asm.copy(R6, R1);
    p.asm.load(Double, R8, R6, 0);
    p.place_of_registers();
    p.find_task(out);
    p.asm.load(Double, R8, R6, 8);
    p.read_kernel(-16, 4, R8, offsets.pid.cast_signed());
    p.read_kernel(-12, 4, R8, offsets.tgid.cast_signed());
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
    p.asm.store(Word, R10, -44, R9);
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

    // A process: a slot of its own, as its parent's is, but for the id and the number of threads.
    // Where there is no room for it, the slot is 0, which has no entry.
    p.asm.store(Word, R10, -48, R9);
    p.asm.store_number(Double, R10, -56, 0);
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
    p.asm.store(Double, R10, -56, R1);
    p.asm.jump(entered);

    p.asm.place(thread);
    p.asm.load(Word, R1, R7, task::PID);
    p.asm.store(Word, R10, -48, R1);
    p.asm.load(Double, R1, R10, -32);
    p.asm.store(Double, R10, -56, R1);
    p.slot_add(-32, 1);
    if offsets.files.is_none() {
        p.asm.store_number(Double, R10, -40, fork::FILES | fork::FS);
    }

    p.asm.place(entered);
    p.asm.load(Double, R8, R6, 8);
    p.place_of_registers();
    p.new_task(full);
    p.asm.load(Word, R1, R10, -48);
    p.asm.store(Word, R8, task::PID, R1);
    p.asm.load(Word, R1, R10, -44);
    p.asm.store(Word, R8, task::TID, R1);
    p.asm.load(Double, R1, R10, -56);
    p.asm.store(Double, R8, task::SLOT, R1);
    p.asm.load(Word, R1, R7, task::FLAGS);
    p.asm.by(Op::And, R1, task::NARROW);
    p.asm.store(Word, R8, task::FLAGS, R1);
    p.give_task();
    p.unless_told(out);
    const EVENT: i16 = -56 - fork::LEN;
    p.asm.store_number(Word, R10, EVENT, kind::FORK);
    p.asm.load(Word, R1, R7, task::PID);
    p.asm.store(Word, R10, EVENT + fork::PARENT, R1);
    p.asm.load(Word, R1, R10, -48);
    p.asm.store(Word, R10, EVENT + fork::PID, R1);
    p.asm.load(Word, R1, R10, -44);
    p.asm.store(Word, R10, EVENT + fork::TID, R1);
    p.asm.load(Double, R1, R10, -40);
    p.asm.store(Double, R10, EVENT + fork::SHARES, R1);
    let dropped = p.asm.label();
    p.output((R10, EVENT), fork::LEN.into(), NO_WAKEUP, dropped);
    p.asm.jump(out);
    p.asm.place(dropped);
    p.board_add(board::UNHEARD, 1);
    p.asm.jump(out);

    p.asm.place(full);
    p.board_add(board::UNFOLLOWED, 1);
    p.finish()
}

/// When a process has begun to run another program.
pub(super) fn exec(things: &Things) -> Option<Vec<u64>> {
    let mut p = Draft::new(things);
    let [none, some, unlisted, listed] = p.asm.labels();
    let out = p.out;
    p.asm.copy(R6, R1);
    p.asm.load(Double, R8, R6, 0);
    p.place_of_registers();
    p.find_task(out);
    p.flush_all();
    // A thread that was not the main one is it now, and has its id.
    p.asm.load(Word, R1, R7, task::TID);
    p.asm.store(Word, R10, -48, R1);
    p.asm.load(Word, R1, R7, task::PID);
    p.asm.store(Word, R7, task::TID, R1);
    p.asm.call(Helper::GetCurrentPidTgid);
    p.asm.store(Double, R10, -16, R0);
    p.asm.store_number(Word, R7, task::FRESH, 1);
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
    p.unless_told(out);
    p.board_add(board::UNHEARD, 1);
    p.finish()
}

/// When a thread ends.
pub(super) fn exit(things: &Things) -> Option<Vec<u64>> {
    let mut p = Draft::new(things);
    let [silent, told, gone, lost] = p.asm.labels();
    let out = p.out;
    p.asm.load(Double, R8, R1, 0);
    p.place_of_registers();
    p.find_task(out);
    p.flush_all();
    p.asm.load(Word, R8, R7, task::NUMBER);
    p.asm.jump_if(R8, If::Above, NUMBERS as i32 - 1, silent);
    p.board_add(board::UNFINISHED, 1);
    p.asm.load(Word, R1, R7, task::FLAGS);
    p.asm.jump_if(R1, If::Common, task::TOLD, told);
    p.asm.jump(silent);
    p.asm.place(told);
    p.asm.store_number(Word, R7, task::KIND, kind::UNFINISHED);
    p.asm.set(R4, NO_WAKEUP);
    p.output_call(silent);
    p.asm.place(silent);
    p.asm.load(Double, R1, R7, task::SLOT);
    p.asm.store(Double, R10, -16, R1);
    p.slot_add(-16, -1);
    p.unless_told(gone);
    p.asm.store_number(Double, R10, -24, kind::EXIT);
    p.asm.load(Double, R1, R7, task::PID); // and the tid after it
    p.asm.store(Double, R10, -16, R1);
    p.output((R10, -24), 16, NO_WAKEUP, lost);
    p.asm.place(gone);
    p.take_task_back();
    p.board(R1, board::LIVE);
    p.asm.load(Double, R1, R1, 0);
    p.asm.jump_if(R1, If::Differ, 0, out);
    p.asm.store_number(Double, R10, -24, kind::LAST);
    p.output((R10, -24), 8, FORCE_WAKEUP, out);
    p.asm.jump(out);

    p.asm.place(lost);
    p.board_add(board::UNHEARD, 1);
    p.asm.jump(gone);
    p.finish()
}

/// Nothing, by means that the others need too: to see whether they are allowed.
pub(super) fn attempt() -> Option<Vec<u64>> {
    let mut p = Draft::new(&Things::NONE);
    p.asm.set(R6, 0);
    p.read_kernel(-8, 8, R6, 0);
    p.finish()
}

/// At the beginning of every call, of everybody: when somebody makes itself known, shows the first
/// [`LOOKED`] bytes of its `task_struct` from `from` on, after its ids as the kernel has them, and
/// where its registers are.
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
    p.asm.load(Double, R1, R6, 0);
    p.asm.store(Double, R8, 16, R1);
    p.asm.call(Helper::GetCurrentTask);
    p.asm.copy(R3, R0);
    p.asm.by(Op::Add, R3, from);
    p.asm.address(R1, R8, 24);
    p.asm.set(R2, LOOKED as i32);
    p.asm.call(Helper::ProbeReadKernel);
    p.output((R8, 0), LOOKED as i32 + 24, FORCE_WAKEUP, out);
    p.finish()
}
