//! The program at the return of each call.

use super::super::asm::{Helper, If, Label, Op, Reg, Size};
use super::super::draft::{Draft, FORCE_WAKEUP, NO_WAKEUP, Resources};
use super::super::frame::exit_call;
use super::super::layout::{REGISTERS, class, kind, long, scratch, shared, sum, task};
use super::super::offsets::{Ends, OpenFile};
use super::go_if_native;
use crate::call::LONG_CALL;
use crate::syscalls::{self, NUMBERS};

use Reg::{R0, R1, R2, R3, R4, R6, R7, R8, R9, R10};
use Size::{Double, Word};

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
    long: Label,
    clear: Label,
    check_mode: Label,
}

/// Runs at the return of every call of every process.
pub(crate) fn exit_call(resources: &Resources) -> Option<Vec<u64>> {
    count_return(Draft::new(resources), scratch::EXIT_CALL)
}

/// [`exit_call`], if that program was skipped.
pub(crate) fn exit_call_again(resources: &Resources) -> Option<Vec<u64>> {
    count_return(Draft::new(resources), scratch::EXIT_CALL_AGAIN)
}

fn count_return(mut p: Draft<'_>, scratch: i32) -> Option<Vec<u64>> {
    p.scratch = scratch;
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
        long: p.label(),
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
    output_long_call(&mut p, &at);
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
    p.jump_if(R9, If::Above, LONG_CALL as i32 - 1, at.long);
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

/// Copies the registers, of which the result may have replaced the first argument.
fn copy_registers_at_return(p: &mut Draft<'_>) {
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
}

/// Outputs a long call that is not to be reported, with what its descriptors are: user space may look
/// for them after they are closed.
fn output_long_call(p: &mut Draft<'_>, at: &Steps) {
    let [done, lost] = p.labels();
    p.place(at.long);
    p.class();
    copy_registers_at_return(p);
    p.store_number(Word, R7, task::KIND, kind::LONG);
    p.copy_memory(Double, (R7, long::SLOT), (R7, task::SLOT));
    for at in (8..long::LEN as i16).step_by(8) {
        p.store_number(Double, R7, long::SLOT + at, 0);
    }
    if let Some(open) = p.resources.offsets.open {
        p.call(Helper::GetCurrentTask);
        p.copy(R8, R0);
        for offset in [open.files, open.table, open.descriptors] {
            p.follow(R8, exit_call::WORD, R8, offset);
        }
        for (bit, to) in class::DESCRIPTORS.into_iter().zip(long::DESCRIPTORS) {
            describe(p, open, bit, to);
        }
    }
    p.store_number(Word, R7, task::FIRST, long::LEN);
    p.store_number(Word, R7, task::SECOND, 0);
    p.set(R4, NO_WAKEUP);
    p.output_call(lost);
    p.place(done);
    p.store_number(Word, R7, task::KIND, kind::CALL);
    p.jump(at.clear);
    p.place(lost);
    p.shared_add(shared::LOST_LONG, 1);
    p.jump(done);
}

/// Writes what a descriptor is to the record, if the class `R9` has one from `bit` on. `R8` is the
/// address of the table of descriptors.
fn describe(p: &mut Draft<'_>, open: OpenFile, bit: u32, to: i16) {
    let [argument, known, none] = p.labels();
    p.copy(R1, R9);
    p.by(Op::Right, R1, bit.cast_signed());
    p.by(Op::And, R1, 0xff);
    p.jump_if(R1, If::Equal, 0, none);
    p.jump_if(R1, If::Differ, class::RESULT as i32, argument);
    p.load(Double, R1, R7, task::RESULT);
    p.jump(known);
    p.place(argument);
    p.by(Op::Left, R1, 3);
    p.by(Op::And, R1, 0x78);
    p.copy(R2, R7);
    p.with(Op::Add, R2, R1);
    p.load(Double, R1, R2, task::RESULT);
    p.place(known);
    p.jump_if(R1, If::Above, MOST_DESCRIPTORS, none);
    p.by(Op::Left, R1, 3);
    p.copy(R3, R8);
    p.with(Op::Add, R3, R1);
    p.follow(R3, exit_call::WORD, R3, 0);
    p.follow(R3, exit_call::WORD, R3, open.inode);
    p.store(Double, R10, exit_call::INODE, R3);
    let field = |p: &mut Draft<'_>, len, offset: u32, at| {
        p.load(Double, R3, R10, exit_call::INODE);
        p.store_number(Double, R10, exit_call::WORD, 0);
        p.read_kernel(exit_call::WORD, len, R3, offset.cast_signed());
        p.copy_memory(Double, (R7, to + at), (R10, exit_call::WORD));
    };
    field(p, 2, open.mode, 0);
    field(p, 4, open.device, long::DEVICE);
    p.load(Double, R3, R10, exit_call::INODE);
    p.follow(R3, exit_call::WORD, R3, open.superblock);
    p.store(Double, R10, exit_call::INODE, R3);
    field(p, 8, open.magic, long::MAGIC);
    p.place(none);
}

/// `NR_OPEN` may be raised up to this, on 64-bit machines.
const MOST_DESCRIPTORS: i32 = 0x3fff_ffff;

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
    if p.scratch == scratch::EXIT_CALL_AGAIN {
        p.jump_if_reg(R8, If::Equal, R1, out); // the first program has done it
    }
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
    copy_registers_at_return(p);
    p.store_number(Word, R7, task::FLAGS, task::REPORTED | task::NAMELESS);
    p.jump(at.settle);
}

/// The errors of a call that a signal has cut short: EINTR, ERESTARTSYS, ERESTARTNOINTR,
/// ERESTARTNOHAND, ERESTART_RESTARTBLOCK.
const CUT_SHORT: [i32; 5] = [4, 512, 513, 514, 516];
