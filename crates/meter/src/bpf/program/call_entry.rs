//! The programs at the entry of each call, and those that decide whether its thread is metered.

use super::super::asm::{Helper, If, Label, Op, Reg, Size};
use super::super::draft::{Draft, FORCE_WAKEUP, Joins, Resources};
use super::super::frame::enter;
use super::super::layout::{kind, shared, slot, task};
use super::super::offsets::Ids;
use super::{go_if_native, list_slot};
use crate::syscalls::NUMBERS;

use Reg::{R0, R1, R2, R6, R7, R8, R9, R10};
use Size::{Double, Word};

/// Runs at the entry of every call of every process.
pub(crate) fn enter(resources: &Resources) -> Option<Vec<u64>> {
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
pub(crate) fn begin_joins(resources: &Resources, ids: Ids) -> Option<Vec<u64>> {
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
