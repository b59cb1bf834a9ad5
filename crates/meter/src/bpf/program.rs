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

use super::asm::{Helper, If, Label, Op, Reg, Size};
use super::draft::{Draft, FORCE_WAKEUP, NO_WAKEUP, Things};
use super::frame::{self, enter, exec, exit, exit_call, fork};
use super::layout::{LOOKED, REGISTERS, board, fork as record, kind, slot, sum, task};
use super::offsets::Ends;
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

    p.asm.place(stranger);
    admit_command(&mut p);
    p.finish()
}

/// A call of a thread that is not metered: ends the program unless it is the one by which the
/// command makes itself known; then meters the command from here on.
fn admit_command(p: &mut Draft<'_>) {
    let (out, offsets) = (p.out, p.things.offsets);
    p.heed_sign();
    p.asm.call(Helper::GetCurrentTask);
    p.asm.copy(R8, R0);
    p.follow(R1, enter::ID, R8, offsets.stack);
    p.asm.copy(R2, R9);
    p.asm.with(Op::Sub, R2, R1);
    p.board(R1, board::ABOVE);
    p.asm.store(Double, R1, 0, R2);
    // Its ids as we know them are those at the depth of its own PID namespace, which is ours.
    if let Some(ids) = offsets.ids {
        p.follow(R8, enter::ID, R8, ids.thread_pid);
        p.asm.store_number(Double, R10, enter::ID, 0);
        p.read_kernel(enter::ID, 4, R8, ids.level.cast_signed());
        p.asm.load(Word, R1, R10, enter::ID);
        p.board(R2, board::LEVEL);
        p.asm.store(Double, R2, 0, R1);
        p.asm.by(Op::Mul, R1, ids.size.cast_signed());
        p.asm.with(Op::Add, R8, R1);
        p.read_kernel(enter::ID, 4, R8, ids.numbers.cast_signed());
    } else {
        p.asm.call(Helper::GetCurrentPidTgid);
        p.asm.store(Word, R10, enter::ID, R0);
    }
    p.new_task(out);
    p.asm.load(Word, R1, R10, enter::ID);
    p.asm.store(Word, R8, task::PID, R1);
    p.asm.store(Word, R8, task::TID, R1);
    p.asm
        .store_number(Double, R8, task::SLOT, slot::FIRST as i32);
    p.give_task();
    p.board_add(board::SEEN, 1);
}

/// The labels of [`exit_call`] that more than one of its steps needs.
struct Steps {
    quiet: Label,
    unseen: Label,
    settle: Label,
    whole: Label,
    counted: Label,
    other: Label,
    tell: Label,
    named: Label,
    again: Label,
    clear: Label,
    begun: Label,
}

/// At the end of every call, of everybody.
pub(super) fn exit_call(things: &Things) -> Option<Vec<u64>> {
    let mut p = Draft::new(things);
    let [quiet, unseen, settle, whole, counted, other] = p.asm.labels();
    let [tell, named, again, clear, begun] = p.asm.labels();
    let at = Steps {
        quiet,
        unseen,
        settle,
        whole,
        counted,
        other,
        tell,
        named,
        again,
        clear,
        begun,
    };
    let out = p.out;
    p.asm.copy(R6, R1);
    p.asm.load(Double, R9, R6, 0);
    p.find_task(out);
    p.asm.load(Word, R8, R7, task::NUMBER);
    p.asm.jump_if(R8, If::Above, NUMBERS as i32 - 1, at.quiet);
    p.asm.call(Helper::KtimeGetNs);
    p.asm.copy(R9, R0);
    p.asm.load(Double, R1, R7, task::START);
    p.asm.with(Op::Sub, R9, R1);
    settle_result(&mut p, &at);
    add_to_sum(&mut p, &at);
    clear_call(&mut p, &at);
    output_to_ring(&mut p, &at);
    read_missing_names(&mut p, &at);
    replace_sum(&mut p, &at);
    enter_unseen_call(&mut p, &at);
    p.finish()
}

/// Writes the result and the time of the call to the entry of the thread.
fn settle_result(p: &mut Draft<'_>, at: &Steps) {
    // R8 has the kind, which is the number until it is known whether it failed; R9 the nanoseconds.
    p.asm.place(at.settle);
    p.asm.store(Double, R7, task::NANOS, R9);
    p.asm.load(Double, R1, R6, 8);
    p.asm.store(Double, R7, task::RESULT, R1);
    p.asm.jump_if(R1, If::Below, -4095, at.whole);
    p.asm.negate(R1);
    p.asm.copy(R2, R1);
    p.asm.by(Op::Left, R2, sum::ERROR.cast_signed());
    p.asm.with(Op::Or, R8, R2);
    if let Some(ends) = p.things.offsets.ends {
        leave_if_killed(p, ends, at.whole);
    }
}

/// Goes to `whole` when the call, with the error number in `R1`, returns. Otherwise a signal that
/// cut it short ends the thread, and the program at its exit counts the call as unfinished.
fn leave_if_killed(p: &mut Draft<'_>, ends: Ends, whole: Label) {
    let out = p.out;
    // Cut short: by a signal that ends it? Then it is left as it is, and the end of the thread
    // sees to it.
    let cut = p.asm.label();
    for errno in CUT_SHORT {
        p.asm.jump_if(R1, If::Equal, errno, cut);
    }
    p.asm.jump(whole);
    p.asm.place(cut);
    p.asm.call(Helper::GetCurrentTask);
    p.follow(R1, exit_call::WORD, R0, ends.pending);
    p.asm.by(Op::And, R1, 1 << 8); // SIGKILL, which also stands for the end of the whole process
    p.asm.jump_if(R1, If::Equal, 0, whole);
    // A tracer would have seen the call return, if the process had got another signal and if it
    // was for this thread.
    p.asm.load(Word, R1, R7, task::PID);
    p.asm.load(Word, R2, R7, task::TID);
    p.asm.jump_if_reg(R1, If::Differ, R2, out);
    p.asm.call(Helper::GetCurrentTask);
    p.follow(R1, exit_call::WORD, R0, ends.signal);
    p.asm.store_number(Double, R10, exit_call::WORD, 0);
    p.read_kernel(exit_call::WORD, 4, R1, ends.group_exit_code.cast_signed());
    p.asm.load(Word, R1, R10, exit_call::WORD);
    p.asm.by(Op::And, R1, 0x7f);
    p.asm.jump_if(R1, If::Equal, 0, out);
    p.asm.jump_if(R1, If::Equal, 9, out);
}

/// Adds the call to the sum of its kind.
fn add_to_sum(p: &mut Draft<'_>, at: &Steps) {
    p.asm.place(at.whole);
    p.sum();
    p.asm.load(Word, R1, R2, task::SUMS + sum::KIND);
    p.asm.jump_if_reg(R1, If::Differ, R8, at.other);
    p.asm.load(Word, R1, R2, task::SUMS + sum::CALLS);
    p.asm.jump_if(R1, If::Above, sum::MOST, at.other);
    p.asm.by(Op::Add, R1, 1);
    p.asm.store(Word, R2, task::SUMS + sum::CALLS, R1);
    p.asm.load(Double, R1, R2, task::SUMS + sum::NANOS);
    p.asm.with(Op::Add, R1, R9);
    p.asm.store(Double, R2, task::SUMS + sum::NANOS, R1);
}

/// The thread is in no call any more.
fn clear_call(p: &mut Draft<'_>, at: &Steps) {
    let out = p.out;
    p.asm.place(at.counted);
    p.asm.load(Word, R1, R7, task::FLAGS);
    p.asm.jump_if(R1, If::Common, task::TOLD, at.tell);
    p.asm.place(at.clear);
    p.asm.store_number(Word, R7, task::NUMBER, task::NONE);
    // Of how many bits is the program that has just begun?
    p.asm.place(at.begun);
    p.asm.load(Word, R1, R7, task::FRESH);
    p.asm.jump_if(R1, If::Equal, 0, out);
    p.asm.store_number(Word, R7, task::FRESH, 0);
    p.asm.store_number(Word, R7, task::FLAGS, 0);
    p.asm.load(Double, R3, R6, 0);
    p.read_kernel(exit_call::WORD, 8, R3, REGISTERS.mode);
    p.asm.load(Double, R1, R10, exit_call::WORD);
    p.asm.by(Op::And, R1, REGISTERS.narrow[0]);
    p.asm.jump_if(R1, If::Differ, REGISTERS.narrow[1], out);
    p.asm.store_number(Word, R7, task::FLAGS, task::NARROW);
    p.asm.jump(out);
}

/// Outputs the call to the ring, and wakes user space when it sleeps and the ring fills.
fn output_to_ring(p: &mut Draft<'_>, at: &Steps) {
    let enough = p.asm.label();
    // A name that could not be read when the call began can be now, unless the program is another
    // one since.
    p.asm.place(at.tell);
    p.asm.jump_if(R1, If::Common, task::NAMELESS, at.named);
    p.asm.place(at.again);
    p.asm.store_number(Word, R7, task::FLAGS, 0);
    p.board(R1, board::ASLEEP);
    p.asm.load(Double, R1, R1, 0);
    p.asm.set(R4, NO_WAKEUP);
    p.asm.jump_if(R1, If::Equal, 0, enough);
    p.asm.map(R1, p.things.ring);
    p.asm.set(R2, 0); // BPF_RB_AVAIL_DATA
    p.asm.call(Helper::RingbufQuery);
    p.asm.set(R4, NO_WAKEUP);
    p.asm.jump_if(R0, If::Below, p.things.watermark, enough);
    p.asm.set(R4, FORCE_WAKEUP);
    p.asm.place(enough);
    p.output_call(at.clear);
    p.asm.jump(at.clear);
}

/// Reads the names that could not be read when the call began: the page is in memory now.
fn read_missing_names(p: &mut Draft<'_>, at: &Steps) {
    p.asm.place(at.named);
    p.asm.store_number(Word, R7, task::FLAGS, task::TOLD);
    for name in ["execve", "execveat"] {
        if let Some(call) = syscalls::by_name(name) {
            p.asm.load(Word, R1, R7, task::NUMBER);
            p.asm
                .jump_if(R1, If::Equal, call.number.cast_signed(), at.again);
        }
    }
    p.asm.load(Word, R8, R7, task::NUMBER);
    p.class();
    p.asm.store(Double, R10, exit_call::CONTEXT, R6);
    p.take_names(true);
    p.asm.load(Double, R6, R10, exit_call::CONTEXT);
    p.asm.load(Word, R1, R7, task::FLAGS);
    p.asm.jump_if(R1, If::Common, task::TOLD, at.again);
    p.asm.jump(at.clear);
}

/// Calls of another kind have the place of this one's sum: flushes them to their cell.
fn replace_sum(p: &mut Draft<'_>, at: &Steps) {
    p.asm.place(at.other);
    p.flush();
    p.sum();
    p.asm.store(Word, R2, task::SUMS + sum::KIND, R8);
    p.asm.store_number(Word, R2, task::SUMS + sum::CALLS, 1);
    p.asm.store(Double, R2, task::SUMS + sum::NANOS, R9);
    p.asm.jump(at.counted);
}

/// The call was not seen to begin, or is not counted.
fn enter_unseen_call(p: &mut Draft<'_>, at: &Steps) {
    let out = p.out;
    p.asm.place(at.quiet);
    p.asm.store_number(Word, R7, task::NUMBER, task::NONE);
    p.asm.set_wide(R1, u64::from(task::NONE.cast_unsigned()));
    p.asm.jump_if_reg(R8, If::Equal, R1, at.unseen);
    p.asm.jump(at.begun);

    // It was not seen to begin: a filter (seccomp) has answered in the place of the kernel.
    p.asm.place(at.unseen);
    p.asm.load(Word, R1, R7, task::FLAGS);
    p.asm.jump_if(R1, If::Common, task::NARROW, out);
    p.asm.load(Double, R3, R6, 0);
    p.read_kernel(exit_call::REGISTER, 4, R3, REGISTERS.number);
    p.asm.load(Word, R8, R10, exit_call::REGISTER);
    p.asm.jump_if(R8, If::Above, NUMBERS as i32 - 1, out);
    p.class();
    p.asm.jump_if(R9, If::Equal, 0, out);
    p.asm.store(Word, R7, task::NUMBER, R8);
    p.asm.store_number(Word, R7, task::FLAGS, 0);
    p.asm.call(Helper::KtimeGetNs);
    p.asm.store(Double, R7, task::START, R0);
    p.asm.set(R9, 0);
    p.one_less_to_tell(at.settle);
    p.take_registers();
    if let Some(first) = REGISTERS.first {
        p.asm.load(Double, R3, R6, 0);
        p.read_kernel(exit_call::REGISTER, 8, R3, first);
        p.asm.load(Double, R1, R10, exit_call::REGISTER);
        p.asm
            .store(Double, R7, task::REGISTERS + REGISTERS.arguments[0], R1);
    }
    p.asm
        .store_number(Word, R7, task::FLAGS, task::TOLD | task::NAMELESS);
    p.asm.jump(at.settle);
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
    p.read_kernel(fork::KERNEL_TID, 4, R8, offsets.pid.cast_signed());
    p.read_kernel(fork::KERNEL_PID, 4, R8, offsets.tgid.cast_signed());
    find_child_ids(&mut p);
    compare_shares(&mut p);
    p.asm.load(Double, R1, R7, task::SLOT);
    p.asm.store(Double, R10, fork::PARENT, R1);
    p.asm.load(Word, R1, R10, fork::KERNEL_TID);
    p.asm.load(Word, R2, R10, fork::KERNEL_PID);
    p.asm.jump_if_reg(R1, If::Differ, R2, thread);

    make_slot(&mut p, entered);
    p.asm.jump(entered);

    p.asm.place(thread);
    p.asm.load(Word, R1, R7, task::PID);
    p.asm.store(Word, R10, fork::PID, R1);
    p.asm.load(Double, R1, R10, fork::PARENT);
    p.asm.store(Double, R10, fork::SLOT, R1);
    p.slot_add(fork::PARENT, 1);
    if offsets.files.is_none() {
        p.asm
            .store_number(Double, R10, fork::SHARES, record::FILES | record::FS);
    }

    p.asm.place(entered);
    enter_child(&mut p, full);
    p.asm.place(full);
    p.board_add(board::UNFOLLOWED, 1);
    p.finish()
}

/// Writes the child's tid in our PID namespace to [`fork::TID`], and leaves it in `R9`.
fn find_child_ids(p: &mut Draft<'_>) {
    p.asm.load(Word, R9, R10, fork::KERNEL_TID);
    if let Some(ids) = p.things.offsets.ids {
        p.follow(R9, fork::WORD, R8, ids.thread_pid);
        p.board(R1, board::LEVEL);
        p.asm.load(Double, R1, R1, 0);
        p.asm.by(Op::Mul, R1, ids.size.cast_signed());
        p.asm.with(Op::Add, R9, R1);
        p.asm.store_number(Double, R10, fork::WORD, 0);
        p.read_kernel(fork::WORD, 4, R9, ids.numbers.cast_signed());
        p.asm.load(Word, R9, R10, fork::WORD);
    }
    p.asm.store(Word, R10, fork::TID, R9);
}

/// Writes what the child shares with its parent to [`fork::SHARES`].
fn compare_shares(p: &mut Draft<'_>) {
    let offsets = p.things.offsets;
    p.asm.store_number(Double, R10, fork::SHARES, 0);
    for (at, bit) in [(offsets.files, record::FILES), (offsets.fs, record::FS)] {
        let Some(at) = at else { continue };
        let own = p.asm.label();
        p.follow(R1, fork::WORD, R8, at);
        p.asm.store(Double, R10, fork::PARENT, R1);
        p.asm.load(Double, R1, R6, 0);
        p.follow(R1, fork::WORD, R1, at);
        p.asm.load(Double, R2, R10, fork::PARENT);
        p.asm.jump_if_reg(R1, If::Differ, R2, own);
        p.asm.load(Double, R1, R10, fork::SHARES);
        p.asm.by(Op::Or, R1, bit);
        p.asm.store(Double, R10, fork::SHARES, R1);
        p.asm.place(own);
    }
}

/// Makes a slot for a child that is a process, as its parent's is, but for the id and the number of
/// threads. Where there is no room for it the slot is 0, which has no entry, and this goes to
/// `unlisted`.
fn make_slot(p: &mut Draft<'_>, unlisted: Label) {
    p.asm.store(Word, R10, fork::PID, R9);
    p.asm.store_number(Double, R10, fork::SLOT, 0);
    p.look_up(p.things.slots, fork::PARENT);
    p.asm.jump_if(R0, If::Equal, 0, unlisted);
    p.asm.copy(R8, R0);
    p.new_slot(fork::WORD, fork::KERNEL_TID);
    p.update(p.things.slots, fork::WORD, (R8, 0), 0);
    p.asm.jump_if(R0, If::Differ, 0, unlisted);
    p.look_up(p.things.slots, fork::WORD);
    p.asm.jump_if(R0, If::Equal, 0, unlisted);
    p.asm.store(Word, R0, slot::PID, R9);
    p.asm.store_number(Double, R0, slot::LIVE, 1);
    p.board_add(board::SLOTS, 1);
    p.asm.load(Double, R1, R10, fork::WORD);
    p.asm.store(Double, R10, fork::SLOT, R1);
}

/// Enters the child among the metered threads, and reports it. Goes to `full` if there is no room.
fn enter_child(p: &mut Draft<'_>, full: Label) {
    let out = p.out;
    p.asm.load(Double, R8, R6, 8);
    p.place_of_registers();
    p.new_task(full);
    p.asm.load(Word, R1, R10, fork::PID);
    p.asm.store(Word, R8, task::PID, R1);
    p.asm.load(Word, R1, R10, fork::TID);
    p.asm.store(Word, R8, task::TID, R1);
    p.asm.load(Double, R1, R10, fork::SLOT);
    p.asm.store(Double, R8, task::SLOT, R1);
    p.asm.load(Word, R1, R7, task::FLAGS);
    p.asm.by(Op::And, R1, task::NARROW);
    p.asm.store(Word, R8, task::FLAGS, R1);
    p.give_task();
    p.unless_told(out);
    p.asm.store_number(Word, R10, fork::EVENT, kind::FORK);
    p.asm.load(Word, R1, R7, task::PID);
    p.asm.store(Word, R10, fork::EVENT + record::PARENT, R1);
    p.asm.load(Word, R1, R10, fork::PID);
    p.asm.store(Word, R10, fork::EVENT + record::PID, R1);
    p.asm.load(Word, R1, R10, fork::TID);
    p.asm.store(Word, R10, fork::EVENT + record::TID, R1);
    p.asm.load(Double, R1, R10, fork::SHARES);
    p.asm.store(Double, R10, fork::EVENT + record::SHARES, R1);
    let dropped = p.asm.label();
    p.output((R10, fork::EVENT), record::LEN.into(), NO_WAKEUP, dropped);
    p.asm.jump(out);
    p.asm.place(dropped);
    p.board_add(board::UNHEARD, 1);
    p.asm.jump(out);
}

/// When a process has begun to run another program.
pub(super) fn exec(things: &Things) -> Option<Vec<u64>> {
    let mut p = Draft::new(things);
    let [unlisted, listed] = p.asm.labels();
    let out = p.out;
    p.asm.copy(R6, R1);
    p.asm.load(Double, R8, R6, 0);
    p.place_of_registers();
    p.find_task(out);
    p.flush_all();
    // A thread that was not the main one is it now, and has its id.
    p.asm.load(Word, R1, R7, task::TID);
    p.asm.store(Word, R10, exec::FORMER, R1);
    p.asm.load(Word, R1, R7, task::PID);
    p.asm.store(Word, R7, task::TID, R1);
    p.asm.call(Helper::GetCurrentPidTgid);
    p.asm.store(Double, R10, exec::KERNEL_IDS, R0);
    p.asm.store_number(Word, R7, task::FRESH, 1);
    p.asm.load(Double, R1, R7, task::SLOT);
    p.asm.store(Double, R10, exec::SLOT, R1);
    p.slot_add(exec::SLOT, -1);

    p.asm.store_number(Word, R10, exec::LEN, 0);
    p.look_up(things.scratch, exec::LEN);
    p.asm.jump_if(R0, If::Equal, 0, out);
    p.asm.copy(R8, R0);
    p.new_slot(exec::SLOT, exec::KERNEL_PID); // the upper half of the ids: the process
    p.asm.load(Double, R9, R10, exec::SLOT);
    p.asm.store_number(Double, R8, slot::LIVE, 1);
    p.asm.store(Double, R8, slot::PROGRAM, R9);
    p.asm.store_number(Double, R8, slot::INODE, 0);
    p.asm.load(Word, R1, R7, task::PID);
    p.asm.store(Word, R8, slot::PID, R1);
    read_program_name(&mut p);
    p.asm.store(Word, R8, slot::NAMED, R1);
    p.asm.copy(R9, R1);
    p.update(things.slots, exec::SLOT, (R8, 0), 0);
    p.asm.jump_if(R0, If::Differ, 0, unlisted);
    p.board_add(board::SLOTS, 1);
    p.asm.load(Double, R1, R10, exec::SLOT);
    p.asm.store(Double, R7, task::SLOT, R1);
    p.asm.jump(listed);
    p.asm.place(unlisted);
    p.asm.store_number(Double, R7, task::SLOT, 0);
    p.asm.place(listed);
    p.asm.store_number(Word, R8, 0, kind::EXEC);
    p.asm.load(Word, R1, R10, exec::FORMER);
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

/// Reads the name and the inode of the program that begins into the slot at `R8`. The length of the
/// name, with its NUL, is in `R1`.
fn read_program_name(p: &mut Draft<'_>) {
    let [none, some] = p.asm.labels();
    let room = i32::from(slot::LEN - slot::NAME);
    if let Some(program) = p.things.offsets.program {
        p.asm.load(Double, R3, R6, 16);
        p.asm.copy(R9, R3);
        p.follow(R3, exec::POINTER, R9, program.interp);
        p.asm.address(R1, R8, slot::NAME);
        p.asm.set(R2, room);
        p.asm.call(Helper::ProbeReadKernelStr);
        p.asm.store(Double, R10, exec::LEN, R0);
        p.follow(R9, exec::POINTER, R9, program.file);
        p.follow(R9, exec::POINTER, R9, program.inode);
        p.follow(R1, exec::POINTER, R9, program.ino);
        p.asm.store(Double, R8, slot::INODE, R1);
        p.asm.load(Double, R1, R10, exec::LEN);
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
    p.asm.store(Double, R10, exit::IDS, R1);
    p.slot_add(exit::IDS, -1);
    p.unless_told(gone);
    p.asm.store_number(Double, R10, exit::EVENT, kind::EXIT);
    p.asm.load(Double, R1, R7, task::PID); // and the tid after it
    p.asm.store(Double, R10, exit::IDS, R1);
    p.output((R10, exit::EVENT), 16, NO_WAKEUP, lost);
    p.asm.place(gone);
    p.take_task_back();
    p.board(R1, board::LIVE);
    p.asm.load(Double, R1, R1, 0);
    p.asm.jump_if(R1, If::Differ, 0, out);
    p.asm.store_number(Double, R10, exit::EVENT, kind::LAST);
    p.output((R10, exit::EVENT), 8, FORCE_WAKEUP, out);
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
    p.read_kernel(frame::SEAT, 8, R6, 0);
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
    p.asm.store_number(Word, R10, frame::SEAT, 0);
    p.look_up(things.scratch, frame::SEAT);
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
