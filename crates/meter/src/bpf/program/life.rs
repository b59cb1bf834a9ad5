//! The programs at forks, execs and exits.

use super::super::asm::{Helper, If, Label, Op, Reg, Size};
use super::super::draft::{Draft, FORCE_WAKEUP, NO_WAKEUP, Resources};
use super::super::frame::{exec, exit, fork};
use super::super::layout::{fork as record, kind, scratch, shared, slot, task};
use super::list_slot;
use crate::syscalls::NUMBERS;

use Reg::{R0, R1, R2, R3, R4, R6, R7, R8, R9, R10};
use Size::{Double, Word};

/// Runs when a thread or a process is created, in its parent.
pub(crate) fn fork(resources: &Resources) -> Option<Vec<u64>> {
    meter_child(Draft::new(resources), false)
}

/// [`fork`], if there is no other program after it.
pub(crate) fn fork_once(resources: &Resources) -> Option<Vec<u64>> {
    meter_child(Draft::new(resources), true)
}

/// [`fork`] for a child that is not metered: that program was skipped, or found no room.
pub(crate) fn fork_again(resources: &Resources) -> Option<Vec<u64>> {
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
pub(crate) fn exec(resources: &Resources) -> Option<Vec<u64>> {
    replace_program(Draft::new(resources), scratch::EXEC)
}

/// [`exec`], if that program was skipped.
pub(crate) fn exec_again(resources: &Resources) -> Option<Vec<u64>> {
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
pub(crate) fn exit(resources: &Resources) -> Option<Vec<u64>> {
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
    // Also beyond the limit of calls: user space forgets the process.
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
    p.unless_reporting(gone);
    p.shared_add(shared::LOST_EVENTS, 1);
    p.jump(gone);
    p.finish()
}
