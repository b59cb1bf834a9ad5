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

mod adopt;
mod call_entry;
mod call_return;
mod life;

pub(super) use self::adopt::adopt;
pub(super) use self::call_entry::{begin_joins, enter};
pub(super) use self::call_return::{exit_call, exit_call_again};
pub(super) use self::life::{exec, exec_again, exit, fork, fork_again, fork_once};
use super::asm::{Helper, If, Label, Op, Reg, Size};
use super::draft::{Draft, FORCE_WAKEUP, Resources};
use super::frame;
use super::layout::{LOOKED, REGISTERS, kind, shared, task};

use Reg::{R0, R1, R2, R3, R6, R7, R8, R10};
use Size::{Double, Word};

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

/// Goes on at `native` unless these registers are of a program of 32 bits. Overwrites `word` on the stack.
fn go_if_native(p: &mut Draft<'_>, word: i16, registers: Reg, native: Label) {
    p.read_kernel(word, 8, registers, REGISTERS.mode);
    p.load(Double, R1, R10, word);
    p.by(Op::And, R1, REGISTERS.compat[0]);
    p.jump_if(R1, If::Differ, REGISTERS.compat[1], native);
}
