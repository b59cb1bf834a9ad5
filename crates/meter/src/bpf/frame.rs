//! Slots of a program's stack, as offsets from the frame pointer (`R10`). The kernel's verifier
//! gives each program 512 bytes.
//!
//! A helper of the [`Draft`](super::draft::Draft) uses the slots that its doc comment names. What a
//! program keeps over such a helper has a slot of its own.

/// The number of a seat: the key of the maps `tasks` and `taken`. 4 bytes, of every program.
pub(super) const SEAT: i16 = -8;
/// The key of the only entry of the map `scratch`. 4 bytes.
pub(super) const SCRATCH_KEY: i16 = -16;
/// The key of a cell: slot, number, errno. 16 bytes.
pub(super) const CELL: i16 = -24;
/// What is added to a cell: calls, nanoseconds. 16 bytes.
pub(super) const CELL_VALUE: i16 = CELL - 16;
/// A pointer of the kernel that is followed to the registers of a thread. 8 bytes.
pub(super) const STACK_POINTER: i16 = -24;
/// The registers that hold the sign. [`TAKEN`](super::layout::TAKEN) bytes.
pub(super) const SIGN: i16 = -40 - super::layout::TAKEN as i16;

/// Of the program at `sys_enter`.
pub(super) mod enter {
    /// A pointer that is followed, and then the id of the command. 8 bytes.
    pub(in super::super) const ID: i16 = -16;
}

/// Of the program at `sys_exit`.
pub(super) mod exit_call {
    /// A word of the registers. 8 bytes.
    pub(in super::super) const REGISTER: i16 = -16;
    /// A word of a kernel struct. 8 bytes.
    pub(in super::super) const WORD: i16 = -40;
    /// The context, while a helper destroys `R6`. 8 bytes.
    pub(in super::super) const CONTEXT: i16 = -48;
}

/// Of the program at `sched_process_fork`.
pub(super) mod fork {
    /// The child's tid as the kernel has it, and its pid. 4 bytes each.
    pub(in super::super) const KERNEL_TID: i16 = -16;
    pub(in super::super) const KERNEL_PID: i16 = -12;
    /// A pointer that is followed; the number of a new slot. 8 bytes.
    pub(in super::super) const WORD: i16 = -24;
    /// A pointer of the child's, to be compared with the parent's; the parent's slot. 8 bytes.
    pub(in super::super) const PARENT: i16 = -32;
    /// What the child shares with its parent. 8 bytes.
    pub(in super::super) const SHARES: i16 = -40;
    /// The child's tid and pid in our PID namespace. 4 bytes each.
    pub(in super::super) const TID: i16 = -44;
    pub(in super::super) const PID: i16 = -48;
    /// The child's slot. 8 bytes.
    pub(in super::super) const SLOT: i16 = -56;
    /// The record for the ring.
    pub(in super::super) const EVENT: i16 = SLOT - super::super::layout::fork::LEN;
}

/// Of the program at `sched_process_exec`.
pub(super) mod exec {
    /// The thread's ids as the kernel has them: tid, pid. 4 bytes each.
    pub(in super::super) const KERNEL_IDS: i16 = -16;
    pub(in super::super) const KERNEL_PID: i16 = -12;
    /// The slot: the one before, then the new one. 8 bytes.
    pub(in super::super) const SLOT: i16 = -24;
    /// A pointer that is followed. 8 bytes.
    pub(in super::super) const POINTER: i16 = -32;
    /// The key of the map `scratch`; the length of the program's name. 8 bytes.
    pub(in super::super) const LEN: i16 = -40;
    /// The tid that the thread had before. 4 bytes.
    pub(in super::super) const FORMER: i16 = -48;
}

/// Of the program at `sched_process_exit`.
pub(super) mod exit {
    /// The record for the ring: its kind, and the ids of the thread. 16 bytes.
    pub(in super::super) const EVENT: i16 = -24;
    /// The ids; before them, the slot of the thread. 8 bytes.
    pub(in super::super) const IDS: i16 = EVENT + 8;
}
