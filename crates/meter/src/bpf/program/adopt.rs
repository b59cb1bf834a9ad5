//! The program that meters threads that run already.

use super::super::asm::{Helper, If, Label, Op, Reg, Size};
use super::super::draft::{Draft, Resources};
use super::super::frame::adopt;
use super::super::layout::{adoption, shared, task};
use super::super::offsets::Way;
use super::go_if_native;

use Reg::{R0, R1, R6, R7, R8, R9, R10};
use Size::{Double, Word};

/// Runs at the entry of every call while fathom attaches: of fathom's own announcement, meters the
/// thread of [`shared::ADOPT_FD`] from here on.
pub(crate) fn adopt(resources: &Resources, way: Way) -> Option<Vec<u64>> {
    let mut p = Draft::new(resources);
    let [gone, unborn, absent, native, full] = p.labels();
    let open = resources.offsets.open?;
    p.copy(R6, R1);
    p.load(Double, R8, R6, 8);
    p.require_announcement();
    p.call(Helper::GetCurrentTask);
    p.copy(R8, R0);
    for offset in [open.files, open.table, open.descriptors] {
        p.follow(R8, adopt::WORD, R8, offset);
    }
    p.shared(R1, shared::ADOPT_FD);
    p.load(Double, R1, R1, 0);
    p.by(Op::Left, R1, 3);
    p.with(Op::Add, R8, R1);
    for offset in [0, open.inode, way.pid.cast_unsigned(), way.tasks] {
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
