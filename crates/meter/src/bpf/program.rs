//! The meter's BPF programs, at the raw tracepoints for entry and return of a call, and for fork,
//! exec and exit. What they share with user space is in the [layout](super::layout).
//!
//! ```text
//! sys_enter ── not metered, no announcement ──► end      (one lookup in `tasks`, by the address of the registers)
//!     │ not metered, but of the machine or the cgroup that is: metered from here on
//!     │ metered: store number and time; if calls are reported: registers, and long names to the ring
//! sys_exit ─── add to `cells` (slot, number, error); if calls are reported: the call to the ring
//! fork ─────── the child is metered, in the slot of its process or a new one
//! exec ─────── a new slot, with the name of the program; another tid, if it was not the main thread
//! exit ─────── no longer metered; one thread less in its slot
//! ```
//!
//! A *slot* is a process while it executes one program, the subject of a [`crate::call::Total`].
//! A slot without threads gets no further calls, so user space can move its cells out of the map.
//!
//! The command announces itself just before its execve(2), by a prctl(2) with an option that no
//! kernel knows and a secret. So its ids need not be known, which differ in each PID namespace.

use super::asm::{Helper, If, Label, Op, Reg, Size};
use super::draft::{Draft, FORCE_WAKEUP, Joins, NO_WAKEUP, Resources};
use super::frame::{self, adopt, enter, exec, exit, exit_call, fork};
use super::layout::{
    LOOKED, REGISTERS, adoption, fork as record, kind, scratch, shared, slot, sum, task,
};
use super::offsets::{Ends, Ids, Way};
use crate::syscalls::{self, NUMBERS};

use Reg::{R0, R1, R2, R3, R4, R6, R7, R8, R9, R10};
use Size::{Double, Word};

/// Runs at the entry of every call of every process.
pub(super) fn enter(resources: &Resources) -> Option<Vec<u64>> {
    let mut p = Draft::new(resources);
    let [unmetered, compat, clock, missed, entered] = p.labels();
    let out = p.out;
    p.copy(R6, R1);
    p.load(Double, R9, R6, 0);
    p.load(Double, R8, R6, 8);
    p.find_task(unmetered);
    p.load(Word, R1, R7, task::NUMBER);
    p.jump_if(R1, If::Below, NUMBERS as i32, missed);
    p.place(entered);
    p.store_number(Word, R7, task::NUMBER, task::IGNORED);
    p.load(Word, R1, R7, task::FLAGS);
    p.jump_if(R1, If::Common, task::COMPAT, compat);
    p.jump_if(R8, If::Above, NUMBERS as i32 - 1, out);
    p.class();
    p.jump_if(R9, If::Equal, 0, out);
    p.store(Word, R7, task::NUMBER, R8);
    p.store_number(Word, R7, task::FLAGS, 0);
    p.claim_report(clock);
    p.copy_registers();
    p.store_number(Word, R7, task::FLAGS, task::REPORTED);
    p.store_names(false);
    p.place(clock);
    p.call(Helper::KtimeGetNs);
    p.store(Double, R7, task::START, R0);
    p.jump(out);

    p.place(compat);
    p.shared_add(shared::COMPAT_CALLS, 1);
    p.jump(out);

    // The call before has not returned: the kernel has skipped its program, see [`kit::PROGRAMS`](super::kit).
    p.place(missed);
    p.load(Double, R1, R7, task::SLOT);
    p.jump_if(R1, If::Equal, slot::FIRST as i32, entered);
    p.shared_add(shared::MISSED, 1);
    p.load(Word, R1, R7, task::FLAGS);
    p.by(Op::And, R1, task::REPORTED);
    p.jump_if(R1, If::Equal, 0, entered);
    p.shared_add(shared::LEFT, 1); // another call is reported instead
    p.jump(entered);

    p.place(unmetered);
    if let (Some(joins), Some(ids)) = (resources.joins, resources.offsets.ids) {
        join(&mut p, joins, ids, entered);
    }
    admit_command(&mut p);
    p.finish()
}

/// A call of a thread that is not metered: if it is one of those that join, meters it from here on,
/// and goes on at `entered`. Ends the program if it is not, and goes on here before any may join.
fn join(p: &mut Draft<'_>, joins: Joins, ids: Ids, entered: Label) {
    let [admit, full, native, told] = p.labels();
    let (out, resources) = (p.out, p.resources);
    p.shared(R1, shared::OWN_PID);
    p.load(Double, R1, R1, 0);
    p.jump_if(R1, If::Equal, 0, admit);
    p.store(Double, R10, enter::OWN_PID, R1);
    p.store(Double, R10, enter::NUMBER, R8);
    if let Joins::Cgroup(map) = joins {
        p.map(R1, map);
        p.set(R2, 0);
        p.call(Helper::CurrentTaskUnderCgroup);
        p.jump_if(R0, If::Differ, 1, out);
    }
    p.call(Helper::GetCurrentPidTgid);
    p.by(Op::Right, R0, 32);
    p.load(Double, R1, R10, enter::OWN_PID);
    p.jump_if_reg(R0, If::Equal, R1, out);
    p.call(Helper::GetCurrentTask);
    p.copy(R8, R0);
    find_visible_id(p, enter::TID, ids);
    p.follow(R8, enter::ID, R8, ids.leader);
    find_visible_id(p, enter::PID, ids);

    p.new_task(full);
    p.copy(R7, R8);
    p.copy_memory(Word, (R7, task::PID), (R10, enter::PID));
    p.copy_memory(Word, (R7, task::TID), (R10, enter::TID));
    p.new_slot(enter::SLOT, enter::TID);
    let entry = p.scratch;
    p.store_number(Double, R10, enter::ID, entry);
    p.find(resources.scratch, enter::ID, out);
    p.copy(R8, R0);
    p.store_number(Double, R8, slot::LIVE, 1);
    p.copy_memory(Double, (R8, slot::PROGRAM), (R10, enter::SLOT));
    p.store_number(Double, R8, slot::INODE, 0);
    p.copy_memory(Word, (R8, slot::PID), (R10, enter::PID));
    p.address(R1, R8, slot::NAME);
    p.set(R2, COMM);
    p.call(Helper::GetCurrentComm);
    p.store_number(Word, R8, slot::NAME_LEN, COMM);
    list_slot(p, enter::SLOT);
    go_if_native(p, enter::ID, R9, native);
    p.store_number(Word, R7, task::FLAGS, task::COMPAT);
    p.place(native);
    // Woken, user space reads /proc/PID/exe before the thread ends.
    p.store_number(Word, R8, 0, kind::JOIN);
    p.copy_memory(Word, (R8, slot::FORMER), (R10, enter::TID));
    p.output((R8, 0), i32::from(slot::NAME) + COMM, FORCE_WAKEUP, told);
    let publish = p.label();
    p.jump(publish);
    p.place(told);
    p.shared_add(shared::LOST_EVENTS, 1);
    p.place(publish);
    p.copy(R8, R7);
    p.publish_task();
    p.load(Double, R8, R10, enter::NUMBER);
    p.jump(entered);

    // There is no room for its thread.
    p.place(full);
    p.shared_add(shared::MISSED, 1);
    p.jump(out);
    p.place(admit);
}

/// Enters the slot at `R8`, whose number is on the stack, into the map, and gives it to the task `R7`.
/// If there is no room, the task has the slot 0, which is never in the map.
fn list_slot(p: &mut Draft<'_>, number: i16) {
    let [unlisted, listed] = p.labels();
    p.update(p.resources.slots, number, (R8, 0), 0);
    p.jump_if(R0, If::Differ, 0, unlisted);
    p.shared_add(shared::SLOTS, 1);
    p.copy_memory(Double, (R7, task::SLOT), (R10, number));
    p.jump(listed);
    p.place(unlisted);
    p.store_number(Double, R7, task::SLOT, 0);
    p.place(listed);
}

/// Bytes of the name of a thread.
const COMM: i32 = 16;

/// Writes the id of the thread `R8` in our PID namespace to the stack. Ends the program if the thread is
/// not in it. Destroys `R7`. Uses [`enter::ID`].
fn find_visible_id(p: &mut Draft<'_>, to: i16, ids: Ids) {
    let out = p.out;
    p.follow(R7, enter::ID, R8, ids.thread_pid);
    p.store_number(Double, R10, enter::ID, 0);
    p.read_kernel(enter::ID, 4, R7, ids.level.cast_signed());
    p.load(Double, R1, R10, enter::ID);
    p.shared(R2, shared::LEVEL);
    p.load(Double, R2, R2, 0);
    p.jump_if_reg(R1, If::Below, R2, out);
    p.by(Op::Mul, R2, ids.size.cast_signed());
    p.with(Op::Add, R7, R2);
    p.read_kernel(to, 4, R7, ids.numbers.cast_signed());
    p.follow(R1, enter::ID, R7, ids.namespace);
    p.shared(R2, shared::NAMESPACE);
    p.load(Double, R2, R2, 0);
    p.jump_if_reg(R1, If::Differ, R2, out);
}

/// Runs at the entry of every call until this process has announced itself: from then on threads
/// join.
pub(super) fn begin_joins(resources: &Resources, ids: Ids) -> Option<Vec<u64>> {
    let mut p = Draft::new(resources);
    p.copy(R6, R1);
    p.load(Double, R8, R6, 8);
    p.require_announcement();
    p.call(Helper::GetCurrentTask);
    p.follow(R8, enter::ID, R0, ids.thread_pid);
    p.store_number(Double, R10, enter::ID, 0);
    p.read_kernel(enter::ID, 4, R8, ids.level.cast_signed());
    p.load(Double, R1, R10, enter::ID);
    p.by(Op::Mul, R1, ids.size.cast_signed());
    p.with(Op::Add, R8, R1);
    p.follow(R1, enter::ID, R8, ids.namespace);
    p.shared(R2, shared::NAMESPACE);
    p.store(Double, R2, 0, R1);
    p.call(Helper::GetCurrentPidTgid);
    p.by(Op::Right, R0, 32);
    p.shared(R1, shared::OWN_PID);
    p.store(Double, R1, 0, R0);
    p.finish()
}

/// A call of a thread that is not metered: ends the program unless it is the announcement of the
/// command, which is metered from here on.
fn admit_command(p: &mut Draft<'_>) {
    let (out, offsets) = (p.out, p.resources.offsets);
    p.require_announcement();
    p.call(Helper::GetCurrentTask);
    p.copy(R8, R0);
    p.follow(R1, enter::ID, R8, offsets.stack);
    p.copy(R2, R9);
    p.with(Op::Sub, R2, R1);
    p.shared(R1, shared::REGISTERS_OFFSET);
    p.store(Double, R1, 0, R2);
    // Its ids in our PID namespace, which is its own, are those at the deepest level.
    if let Some(ids) = offsets.ids {
        p.follow(R8, enter::ID, R8, ids.thread_pid);
        p.store_number(Double, R10, enter::ID, 0);
        p.read_kernel(enter::ID, 4, R8, ids.level.cast_signed());
        p.load(Word, R1, R10, enter::ID);
        p.shared(R2, shared::LEVEL);
        p.store(Double, R2, 0, R1);
        p.by(Op::Mul, R1, ids.size.cast_signed());
        p.with(Op::Add, R8, R1);
        p.read_kernel(enter::ID, 4, R8, ids.numbers.cast_signed());
    } else {
        p.call(Helper::GetCurrentPidTgid);
        p.store(Word, R10, enter::ID, R0);
    }
    p.new_task(out);
    p.copy_memory(Word, (R8, task::PID), (R10, enter::ID));
    p.store(Word, R8, task::TID, R1);
    p.store_number(Double, R8, task::SLOT, slot::FIRST as i32);
    p.publish_task();
    p.shared_add(shared::SEEN, 1);
}

/// Runs at the entry of every call while fathom attaches: of fathom's own announcement, meters the
/// thread of [`shared::ADOPT_FD`] from here on.
pub(super) fn adopt(resources: &Resources, way: Way) -> Option<Vec<u64>> {
    let mut p = Draft::new(resources);
    let [gone, unborn, absent, native, full] = p.labels();
    p.copy(R6, R1);
    p.load(Double, R8, R6, 8);
    p.require_announcement();
    p.call(Helper::GetCurrentTask);
    p.copy(R8, R0);
    for offset in [way.files, way.table, way.descriptors] {
        p.follow(R8, adopt::WORD, R8, offset);
    }
    p.shared(R1, shared::ADOPT_FD);
    p.load(Double, R1, R1, 0);
    p.by(Op::Left, R1, 3);
    p.with(Op::Add, R8, R1);
    for offset in [0, way.inode, way.pid.cast_unsigned(), way.tasks] {
        p.follow(R8, adopt::WORD, R8, offset);
    }
    p.jump_if(R8, If::Equal, 0, gone);
    p.by(Op::Add, R8, -way.links.cast_signed());
    p.store(Double, R10, adopt::THREAD, R8);
    go_if_exiting(&mut p, way, gone);
    p.read_kernel(adopt::WORD, 4, R8, way.state.cast_signed());
    p.load(Word, R1, R10, adopt::WORD);
    p.jump_if(R1, If::Common, adoption::TASK_NEW, unborn);
    p.find_registers();
    p.find_task(absent);
    answer(&mut p, adoption::BEFORE);

    p.place(absent);
    p.new_task(full);
    p.shared(R1, shared::ADOPT_IDS);
    p.load(Double, R1, R1, 0);
    p.store(Double, R8, task::PID, R1); // and the tid after it
    p.shared(R1, shared::ADOPT_SLOT);
    p.load(Double, R1, R1, 0);
    p.store(Double, R8, task::SLOT, R1);
    p.store(Double, R10, adopt::SLOT, R1);
    go_if_native(&mut p, adopt::WORD, R9, native);
    p.store_number(Word, R8, task::FLAGS, task::COMPAT);
    p.place(native);
    p.slot_add(adopt::SLOT, 1);
    p.publish_task();
    // A thread that has not begun to exit by now reaches the program at its exit later.
    p.copy(R7, R8);
    p.load(Double, R8, R10, adopt::THREAD);
    let ends = p.label();
    go_if_exiting(&mut p, way, ends);
    answer(&mut p, adoption::NOW);
    p.place(ends);
    p.load(Double, R1, R7, task::REGISTERS_AT);
    p.jump_if_reg(R1, If::Differ, R9, gone);
    p.slot_add(adopt::SLOT, -1);
    p.release_task();
    p.place(gone);
    answer(&mut p, adoption::GONE);
    p.place(unborn);
    answer(&mut p, adoption::UNBORN);
    p.place(full);
    answer(&mut p, adoption::FULL);
    p.finish()
}

/// Ends [`adopt`] with this answer.
fn answer(p: &mut Draft<'_>, answer: i32) {
    let out = p.out;
    p.shared(R1, shared::ADOPTED);
    p.store_number(Double, R1, 0, answer);
    p.jump(out);
}

/// Goes to `exiting` if the thread `R8` has begun to exit.
fn go_if_exiting(p: &mut Draft<'_>, way: Way, exiting: Label) {
    p.read_kernel(adopt::WORD, 4, R8, way.flags.cast_signed());
    p.load(Word, R1, R10, adopt::WORD);
    p.jump_if(R1, If::Common, adoption::EXITING, exiting);
}

/// Goes on at `native` unless these registers are of a program of 32 bits. Overwrites `word` on the stack.
fn go_if_native(p: &mut Draft<'_>, word: i16, registers: Reg, native: Label) {
    p.read_kernel(word, 8, registers, REGISTERS.mode);
    p.load(Double, R1, R10, word);
    p.by(Op::And, R1, REGISTERS.compat[0]);
    p.jump_if(R1, If::Differ, REGISTERS.compat[1], native);
}

/// The labels of [`exit_call`] that more than one of its steps needs.
struct Steps {
    not_counted: Label,
    unseen: Label,
    settle: Label,
    returned: Label,
    counted: Label,
    other_kind: Label,
    report: Label,
    read_names: Label,
    output: Label,
    clear: Label,
    check_mode: Label,
}

/// Runs at the return of every call of every process.
pub(super) fn exit_call(resources: &Resources) -> Option<Vec<u64>> {
    let mut p = Draft::new(resources);
    p.scratch = scratch::EXIT_CALL;
    let at = Steps {
        not_counted: p.label(),
        unseen: p.label(),
        settle: p.label(),
        returned: p.label(),
        counted: p.label(),
        other_kind: p.label(),
        report: p.label(),
        read_names: p.label(),
        output: p.label(),
        clear: p.label(),
        check_mode: p.label(),
    };
    let out = p.out;
    p.copy(R6, R1);
    p.load(Double, R9, R6, 0);
    p.find_task(out);
    p.load(Word, R8, R7, task::NUMBER);
    p.jump_if(R8, If::Above, NUMBERS as i32 - 1, at.not_counted);
    p.call(Helper::KtimeGetNs);
    p.copy(R9, R0);
    p.load(Double, R1, R7, task::START);
    p.with(Op::Sub, R9, R1);
    settle_result(&mut p, &at);
    add_to_sum(&mut p, &at);
    clear_call(&mut p, &at);
    output_to_ring(&mut p, &at);
    read_missing_names(&mut p, &at);
    replace_sum(&mut p, &at);
    enter_unseen_call(&mut p, &at);
    p.finish()
}

/// Stores the result and the time of the call. `R8` is the number and becomes the kind, `R9` has
/// the nanoseconds.
fn settle_result(p: &mut Draft<'_>, at: &Steps) {
    p.place(at.settle);
    p.store(Double, R7, task::NANOS, R9);
    p.load(Double, R1, R6, 8);
    p.store(Double, R7, task::RESULT, R1);
    p.jump_if(R1, If::Below, -4095, at.returned);
    p.negate(R1);
    p.copy(R2, R1);
    p.by(Op::Left, R2, sum::ERROR.cast_signed());
    p.with(Op::Or, R8, R2);
    if let Some(ends) = p.resources.offsets.ends {
        leave_if_killed(p, ends, at.returned);
    }
}

/// Goes to `returned` unless a signal that ends the thread has cut the call short, with the error
/// number in `R1`: then the program at the exit of the thread counts it as unfinished.
fn leave_if_killed(p: &mut Draft<'_>, ends: Ends, returned: Label) {
    let out = p.out;
    let cut = p.label();
    for errno in CUT_SHORT {
        p.jump_if(R1, If::Equal, errno, cut);
    }
    p.jump(returned);
    p.place(cut);
    p.call(Helper::GetCurrentTask);
    p.follow(R1, exit_call::WORD, R0, ends.pending);
    p.by(Op::And, R1, 1 << 8); // SIGKILL, which the kernel also sends when the whole process ends
    p.jump_if(R1, If::Equal, 0, returned);
    // A tracer sees the call return in the main thread if the process ends by another signal.
    p.load(Word, R1, R7, task::PID);
    p.load(Word, R2, R7, task::TID);
    p.jump_if_reg(R1, If::Differ, R2, out);
    p.call(Helper::GetCurrentTask);
    p.follow(R1, exit_call::WORD, R0, ends.signal);
    p.store_number(Double, R10, exit_call::WORD, 0);
    p.read_kernel(exit_call::WORD, 4, R1, ends.group_exit_code.cast_signed());
    p.load(Word, R1, R10, exit_call::WORD);
    p.by(Op::And, R1, 0x7f);
    p.jump_if(R1, If::Equal, 0, out);
    p.jump_if(R1, If::Equal, 9, out);
}

/// Adds the call to the sum of its kind.
fn add_to_sum(p: &mut Draft<'_>, at: &Steps) {
    p.place(at.returned);
    p.sum();
    p.load(Word, R1, R2, task::SUMS + sum::KIND);
    p.jump_if_reg(R1, If::Differ, R8, at.other_kind);
    p.load(Word, R1, R2, task::SUMS + sum::CALLS);
    p.jump_if(R1, If::Above, sum::MOST, at.other_kind);
    p.by(Op::Add, R1, 1);
    p.store(Word, R2, task::SUMS + sum::CALLS, R1);
    p.load(Double, R1, R2, task::SUMS + sum::NANOS);
    p.with(Op::Add, R1, R9);
    p.store(Double, R2, task::SUMS + sum::NANOS, R1);
}

/// The thread is in no call any more. After an execve(2) checks whether the new program is a 32-bit
/// program.
fn clear_call(p: &mut Draft<'_>, at: &Steps) {
    let out = p.out;
    p.place(at.counted);
    p.load(Word, R1, R7, task::FLAGS);
    p.jump_if(R1, If::Common, task::REPORTED, at.report);
    p.place(at.clear);
    p.store_number(Word, R7, task::NUMBER, task::NONE);
    p.place(at.check_mode);
    p.load(Word, R1, R7, task::FRESH);
    p.jump_if(R1, If::Equal, 0, out);
    p.store_number(Word, R7, task::FRESH, 0);
    p.store_number(Word, R7, task::FLAGS, 0);
    p.load(Double, R3, R6, 0);
    go_if_native(p, exit_call::WORD, R3, out);
    p.store_number(Word, R7, task::FLAGS, task::COMPAT);
    p.jump(out);
}

/// Outputs the call to the ring, and wakes user space if it sleeps and the ring fills. Names that
/// could not be read at the entry are read first, unless the program was replaced.
fn output_to_ring(p: &mut Draft<'_>, at: &Steps) {
    let enough = p.label();
    p.place(at.report);
    p.jump_if(R1, If::Common, task::NAMELESS, at.read_names);
    p.place(at.output);
    p.store_number(Word, R7, task::FLAGS, 0);
    p.shared(R1, shared::ASLEEP);
    p.load(Double, R1, R1, 0);
    p.set(R4, NO_WAKEUP);
    p.jump_if(R1, If::Equal, 0, enough);
    let ring = p.resources.ring;
    p.map(R1, ring);
    p.set(R2, 0); // BPF_RB_AVAIL_DATA
    p.call(Helper::RingbufQuery);
    p.set(R4, NO_WAKEUP);
    let watermark = p.resources.watermark;
    p.jump_if(R0, If::Below, watermark, enough);
    p.set(R4, FORCE_WAKEUP);
    p.place(enough);
    p.output_call(at.clear);
    p.jump(at.clear);
}

/// Reads the names that could not be read at the entry: the page is in memory now.
fn read_missing_names(p: &mut Draft<'_>, at: &Steps) {
    p.place(at.read_names);
    p.store_number(Word, R7, task::FLAGS, task::REPORTED);
    for name in ["execve", "execveat"] {
        if let Some(call) = syscalls::by_name(name) {
            p.load(Word, R1, R7, task::NUMBER);
            p.jump_if(R1, If::Equal, call.number.cast_signed(), at.output);
        }
    }
    p.load(Word, R8, R7, task::NUMBER);
    p.class();
    p.store(Double, R10, exit_call::CONTEXT, R6);
    p.store_names(true);
    p.load(Double, R6, R10, exit_call::CONTEXT);
    p.load(Word, R1, R7, task::FLAGS);
    p.jump_if(R1, If::Common, task::REPORTED, at.output);
    p.jump(at.clear);
}

/// The sum of this call has calls of another kind: flushes them to their cell.
fn replace_sum(p: &mut Draft<'_>, at: &Steps) {
    p.place(at.other_kind);
    p.flush();
    p.sum();
    p.store(Word, R2, task::SUMS + sum::KIND, R8);
    p.store_number(Word, R2, task::SUMS + sum::CALLS, 1);
    p.store(Double, R2, task::SUMS + sum::NANOS, R9);
    p.jump(at.counted);
}

/// The call is not counted, or its entry was not seen: then a seccomp filter has answered it.
fn enter_unseen_call(p: &mut Draft<'_>, at: &Steps) {
    let out = p.out;
    p.place(at.not_counted);
    p.store_number(Word, R7, task::NUMBER, task::NONE);
    p.set_wide(R1, u64::from(task::NONE.cast_unsigned()));
    p.jump_if_reg(R8, If::Equal, R1, at.unseen);
    p.jump(at.check_mode);

    p.place(at.unseen);
    p.load(Word, R1, R7, task::FLAGS);
    p.jump_if(R1, If::Common, task::COMPAT, out);
    p.load(Double, R3, R6, 0);
    p.read_kernel(exit_call::REGISTER, 4, R3, REGISTERS.number);
    p.load(Word, R8, R10, exit_call::REGISTER);
    p.jump_if(R8, If::Above, NUMBERS as i32 - 1, out);
    p.class();
    p.jump_if(R9, If::Equal, 0, out);
    p.store(Word, R7, task::NUMBER, R8);
    p.store_number(Word, R7, task::FLAGS, 0);
    p.call(Helper::KtimeGetNs);
    p.store(Double, R7, task::START, R0);
    p.set(R9, 0);
    p.claim_report(at.settle);
    p.copy_registers();
    if let Some(first) = REGISTERS.first {
        p.load(Double, R3, R6, 0);
        p.read_kernel(exit_call::REGISTER, 8, R3, first);
        p.copy_memory(
            Double,
            (R7, task::REGISTERS + REGISTERS.arguments[0]),
            (R10, exit_call::REGISTER),
        );
    }
    p.store_number(Word, R7, task::FLAGS, task::REPORTED | task::NAMELESS);
    p.jump(at.settle);
}

/// The errors of a call that a signal has cut short: EINTR, ERESTARTSYS, ERESTARTNOINTR,
/// ERESTARTNOHAND, ERESTART_RESTARTBLOCK.
const CUT_SHORT: [i32; 5] = [4, 512, 513, 514, 516];

/// Runs when a thread or a process is created, in its parent.
pub(super) fn fork(resources: &Resources) -> Option<Vec<u64>> {
    meter_child(Draft::new(resources), false)
}

/// [`fork`] for a child that is not metered: that program was skipped, or found no room.
pub(super) fn fork_again(resources: &Resources) -> Option<Vec<u64>> {
    let mut p = Draft::new(resources);
    let (unmetered, out) = (p.label(), p.out);
    p.copy(R6, R1);
    p.load(Double, R8, R6, 8);
    p.find_registers();
    p.find_task(unmetered);
    p.jump(out);
    p.place(unmetered);
    p.copy(R1, R6);
    meter_child(p, true)
}

/// Meters a child, and counts it as unfollowed if there is no room and this is the `last` attempt.
fn meter_child(mut p: Draft<'_>, last: bool) -> Option<Vec<u64>> {
    let [thread, entered, full] = p.labels();
    let out = p.out;
    let offsets = p.resources.offsets;
    p.copy(R6, R1);
    p.load(Double, R8, R6, 0);
    p.find_registers();
    p.find_task(out);
    p.load(Double, R8, R6, 8);
    p.read_kernel(fork::KERNEL_TID, 4, R8, offsets.pid.cast_signed());
    p.read_kernel(fork::KERNEL_PID, 4, R8, offsets.tgid.cast_signed());
    find_child_ids(&mut p);
    compare_shares(&mut p);
    p.copy_memory(Double, (R10, fork::PARENT), (R7, task::SLOT));
    p.load(Word, R1, R10, fork::KERNEL_TID);
    p.load(Word, R2, R10, fork::KERNEL_PID);
    p.jump_if_reg(R1, If::Differ, R2, thread);

    make_slot(&mut p, entered);
    p.jump(entered);

    p.place(thread);
    p.copy_memory(Word, (R10, fork::PID), (R7, task::PID));
    p.copy_memory(Double, (R10, fork::SLOT), (R10, fork::PARENT));
    p.slot_add(fork::PARENT, 1);
    if offsets.files.is_none() {
        p.store_number(Double, R10, fork::SHARES, record::FILES | record::FS);
    }

    p.place(entered);
    enter_child(&mut p, full);
    p.place(full);
    if last {
        p.shared_add(shared::UNFOLLOWED, 1);
    }
    p.finish()
}

/// Writes the child's tid in our PID namespace to [`fork::TID`], and leaves it in `R9`.
fn find_child_ids(p: &mut Draft<'_>) {
    p.load(Word, R9, R10, fork::KERNEL_TID);
    if let Some(ids) = p.resources.offsets.ids {
        p.follow(R9, fork::WORD, R8, ids.thread_pid);
        p.shared(R1, shared::LEVEL);
        p.load(Double, R1, R1, 0);
        p.by(Op::Mul, R1, ids.size.cast_signed());
        p.with(Op::Add, R9, R1);
        p.store_number(Double, R10, fork::WORD, 0);
        p.read_kernel(fork::WORD, 4, R9, ids.numbers.cast_signed());
        p.load(Word, R9, R10, fork::WORD);
    }
    p.store(Word, R10, fork::TID, R9);
}

/// Writes what the child shares with its parent to [`fork::SHARES`].
fn compare_shares(p: &mut Draft<'_>) {
    let offsets = p.resources.offsets;
    p.store_number(Double, R10, fork::SHARES, 0);
    for (at, bit) in [(offsets.files, record::FILES), (offsets.fs, record::FS)] {
        let Some(at) = at else { continue };
        let own = p.label();
        p.follow(R1, fork::WORD, R8, at);
        p.store(Double, R10, fork::PARENT, R1);
        p.load(Double, R1, R6, 0);
        p.follow(R1, fork::WORD, R1, at);
        p.load(Double, R2, R10, fork::PARENT);
        p.jump_if_reg(R1, If::Differ, R2, own);
        p.load(Double, R1, R10, fork::SHARES);
        p.by(Op::Or, R1, bit);
        p.store(Double, R10, fork::SHARES, R1);
        p.place(own);
    }
}

/// Makes a slot for a child process: a copy of its parent's with another id and one thread. If
/// there is no room, the slot is 0, which is never in the map, and this goes to `unlisted`.
fn make_slot(p: &mut Draft<'_>, unlisted: Label) {
    p.store(Word, R10, fork::PID, R9);
    p.store_number(Double, R10, fork::SLOT, 0);
    p.find(p.resources.slots, fork::PARENT, unlisted);
    p.copy(R8, R0);
    p.new_slot(fork::WORD, fork::KERNEL_TID);
    p.update(p.resources.slots, fork::WORD, (R8, 0), 0);
    p.jump_if(R0, If::Differ, 0, unlisted);
    p.find(p.resources.slots, fork::WORD, unlisted);
    p.store(Word, R0, slot::PID, R9);
    p.store_number(Double, R0, slot::LIVE, 1);
    p.shared_add(shared::SLOTS, 1);
    p.copy_memory(Double, (R10, fork::SLOT), (R10, fork::WORD));
}

/// Meters the child from now on, and reports it. Goes to `full` if there is no room.
fn enter_child(p: &mut Draft<'_>, full: Label) {
    let out = p.out;
    p.load(Double, R8, R6, 8);
    p.find_registers();
    p.new_task(full);
    p.copy_memory(Word, (R8, task::PID), (R10, fork::PID));
    p.copy_memory(Word, (R8, task::TID), (R10, fork::TID));
    p.copy_memory(Double, (R8, task::SLOT), (R10, fork::SLOT));
    p.load(Word, R1, R7, task::FLAGS);
    p.by(Op::And, R1, task::COMPAT);
    p.store(Word, R8, task::FLAGS, R1);
    p.publish_task();
    p.unless_reporting(out);
    p.store_number(Word, R10, fork::EVENT, kind::FORK);
    p.copy_memory(Word, (R10, fork::EVENT + record::PARENT), (R7, task::PID));
    p.copy_memory(Word, (R10, fork::EVENT + record::PID), (R10, fork::PID));
    p.copy_memory(Word, (R10, fork::EVENT + record::TID), (R10, fork::TID));
    p.copy_memory(
        Double,
        (R10, fork::EVENT + record::SHARES),
        (R10, fork::SHARES),
    );
    let dropped = p.label();
    p.output((R10, fork::EVENT), record::LEN.into(), NO_WAKEUP, dropped);
    p.jump(out);
    p.place(dropped);
    p.shared_add(shared::LOST_EVENTS, 1);
    p.jump(out);
}

/// Runs when a process has executed a program.
pub(super) fn exec(resources: &Resources) -> Option<Vec<u64>> {
    replace_program(Draft::new(resources), scratch::EXEC)
}

/// [`exec`], if that program was skipped.
pub(super) fn exec_again(resources: &Resources) -> Option<Vec<u64>> {
    replace_program(Draft::new(resources), scratch::EXEC_AGAIN)
}

fn replace_program(mut p: Draft<'_>, scratch: i32) -> Option<Vec<u64>> {
    p.scratch = scratch;
    let (out, resources) = (p.out, p.resources);
    p.copy(R6, R1);
    p.load(Double, R8, R6, 0);
    p.find_registers();
    p.find_task(out);
    if scratch == scratch::EXEC_AGAIN {
        p.load(Word, R1, R7, task::FRESH);
        p.jump_if(R1, If::Differ, 0, out);
    }
    p.flush_all();
    // A thread that was not the main thread is it now, and has its id.
    p.copy_memory(Word, (R10, exec::FORMER), (R7, task::TID));
    p.copy_memory(Word, (R7, task::TID), (R7, task::PID));
    p.call(Helper::GetCurrentPidTgid);
    p.store(Double, R10, exec::KERNEL_IDS, R0);
    p.store_number(Word, R7, task::FRESH, 1);
    p.copy_memory(Double, (R10, exec::SLOT), (R7, task::SLOT));
    p.slot_add(exec::SLOT, -1);

    p.store_number(Word, R10, exec::LEN, scratch);
    p.find(resources.scratch, exec::LEN, out);
    p.copy(R8, R0);
    p.new_slot(exec::SLOT, exec::KERNEL_PID); // the pid is the upper half of the ids
    p.load(Double, R9, R10, exec::SLOT);
    p.store_number(Double, R8, slot::LIVE, 1);
    p.store(Double, R8, slot::PROGRAM, R9);
    p.store_number(Double, R8, slot::INODE, 0);
    p.copy_memory(Word, (R8, slot::PID), (R7, task::PID));
    read_program_name(&mut p);
    p.store(Word, R8, slot::NAME_LEN, R1);
    p.copy(R9, R1);
    list_slot(&mut p, exec::SLOT);
    p.store_number(Word, R8, 0, kind::EXEC);
    p.copy_memory(Word, (R8, slot::FORMER), (R10, exec::FORMER));
    p.map(R1, resources.ring);
    p.copy(R2, R8);
    p.copy(R3, R9);
    p.by(Op::Add, R3, slot::NAME.into());
    p.set(R4, FORCE_WAKEUP); // so that /proc/PID/exe is read before the next exec
    p.call(Helper::RingbufOutput);
    p.jump_if(R0, If::Equal, 0, out);
    p.unless_reporting(out);
    p.shared_add(shared::LOST_EVENTS, 1);
    p.finish()
}

/// Reads the name and the inode of the program into the slot at `R8`. `R1` = the length of the
/// name, with its NUL.
fn read_program_name(p: &mut Draft<'_>) {
    let [none, some] = p.labels();
    let room = i32::from(slot::LEN - slot::NAME);
    if let Some(program) = p.resources.offsets.program {
        p.load(Double, R3, R6, 16);
        p.copy(R9, R3);
        p.follow(R3, exec::POINTER, R9, program.interp);
        p.address(R1, R8, slot::NAME);
        p.set(R2, room);
        p.call(Helper::ProbeReadKernelStr);
        p.store(Double, R10, exec::LEN, R0);
        p.follow(R9, exec::POINTER, R9, program.file);
        p.follow(R9, exec::POINTER, R9, program.inode);
        p.follow(R1, exec::POINTER, R9, program.ino);
        p.store(Double, R8, slot::INODE, R1);
        p.load(Double, R1, R10, exec::LEN);
    } else {
        p.address(R1, R8, slot::NAME);
        p.set(R2, 16);
        p.call(Helper::GetCurrentComm);
        p.set(R1, 16);
    }
    // A name that cannot be read is empty.
    p.jump_if(R1, If::AtMost, 0, none);
    p.jump_if(R1, If::Above, room, none);
    p.jump(some);
    p.place(none);
    p.set(R1, 1);
    p.store_number(Word, R8, slot::NAME, 0);
    p.place(some);
}

/// Runs when a thread ends, twice: after the first time it is not metered any more.
pub(super) fn exit(resources: &Resources) -> Option<Vec<u64>> {
    let mut p = Draft::new(resources);
    let [silent, report, gone, lost] = p.labels();
    let out = p.out;
    p.load(Double, R8, R1, 0);
    p.find_registers();
    p.find_task(out);
    p.flush_all();
    p.load(Word, R8, R7, task::NUMBER);
    p.jump_if(R8, If::Above, NUMBERS as i32 - 1, silent);
    p.shared_add(shared::UNFINISHED, 1);
    p.load(Word, R1, R7, task::FLAGS);
    p.jump_if(R1, If::Common, task::REPORTED, report);
    p.jump(silent);
    p.place(report);
    p.store_number(Word, R7, task::KIND, kind::UNFINISHED);
    p.set(R4, NO_WAKEUP);
    p.output_call(silent);
    p.place(silent);
    p.copy_memory(Double, (R10, exit::IDS), (R7, task::SLOT));
    p.slot_add(exit::IDS, -1);
    p.unless_reporting(gone);
    p.store_number(Double, R10, exit::EVENT, kind::EXIT);
    p.load(Double, R1, R7, task::PID); // and the tid after it
    p.store(Double, R10, exit::IDS, R1);
    p.output((R10, exit::EVENT), 16, NO_WAKEUP, lost);
    p.place(gone);
    p.release_task();
    p.shared(R1, shared::LIVE);
    p.load(Double, R1, R1, 0);
    p.jump_if(R1, If::Differ, 0, out);
    p.store_number(Double, R10, exit::EVENT, kind::LAST);
    p.output((R10, exit::EVENT), 8, FORCE_WAKEUP, out);
    p.jump(out);

    p.place(lost);
    p.shared_add(shared::LOST_EVENTS, 1);
    p.jump(gone);
    p.finish()
}

/// A program that does nothing, with a helper that needs the privileges of the others.
pub(super) fn attempt() -> Option<Vec<u64>> {
    let resources = Resources::default();
    let mut p = Draft::new(&resources);
    p.set(R6, 0);
    p.read_kernel(frame::BUCKET, 8, R6, 0);
    p.finish()
}

/// Runs at the entry of every call: of a thread that announces itself, outputs the ids in the first
/// PID namespace, the address of the registers, and [`LOOKED`] bytes of the `task_struct`.
pub(super) fn look(resources: &Resources, from: i32) -> Option<Vec<u64>> {
    let mut p = Draft::new(resources);
    let out = p.out;
    p.copy(R6, R1);
    p.load(Double, R8, R6, 8);
    p.require_announcement();
    p.store_number(Word, R10, frame::BUCKET, 0);
    p.find(resources.scratch, frame::BUCKET, out);
    p.copy(R8, R0);
    p.store_number(Double, R8, 0, kind::LOOK);
    p.call(Helper::GetCurrentPidTgid);
    p.store(Double, R8, 8, R0);
    p.copy_memory(Double, (R8, 16), (R6, 0));
    p.call(Helper::GetCurrentTask);
    p.copy(R3, R0);
    p.by(Op::Add, R3, from);
    p.address(R1, R8, 24);
    p.set(R2, LOOKED as i32);
    p.call(Helper::ProbeReadKernel);
    p.output((R8, 0), LOOKED as i32 + 24, FORCE_WAKEUP, out);
    p.finish()
}
