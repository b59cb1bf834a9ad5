//! The stack slots of the programs, as offsets from the frame pointer (`R10`). The kernel's
//! verifier gives each program 512 bytes.
//!
//! A method of [`Draft`](super::draft::Draft) uses the slots that its doc comment names. What a
//! program keeps across such a method has a slot of its own.

/// The number of a bucket: the key of the maps `tasks` and `taken`. 4 bytes, in every program.
pub(super) const BUCKET: i16 = -8;
/// The key of an entry of the map `scratch`. 4 bytes.
pub(super) const SCRATCH_KEY: i16 = -16;
/// The key of a cell: slot, number, errno. 16 bytes.
pub(super) const CELL: i16 = -24;
/// What is added to a cell: calls, nanoseconds. 16 bytes.
pub(super) const CELL_VALUE: i16 = CELL - 16;
/// The address of a thread's kernel stack. 8 bytes.
pub(super) const STACK_POINTER: i16 = -24;
/// The registers of the announcement. [`COPIED`](super::layout::COPIED) bytes.
pub(super) const ANNOUNCEMENT: i16 = -40 - super::layout::COPIED as i16;

/// The program at `sys_enter`.
pub(super) mod enter {
    /// A pointer, then the id of the command. 8 bytes.
    pub(crate) const ID: i16 = -16;
    // While a thread joins: the id of this process, the number of the call, the slot. 8 bytes each.
    pub(crate) const OWN_PID: i16 = -24;
    pub(crate) const NUMBER: i16 = -32;
    pub(crate) const SLOT: i16 = -40;
    /// Its tid and pid in our PID namespace. 4 bytes each.
    pub(crate) const TID: i16 = -44;
    pub(crate) const PID: i16 = -48;
}

/// The program at `sys_exit`.
pub(super) mod exit_call {
    /// A register. 8 bytes.
    pub(crate) const REGISTER: i16 = -16;
    /// A word of a kernel struct. 8 bytes.
    pub(crate) const WORD: i16 = -40;
    /// The context, while a method destroys `R6`. 8 bytes.
    pub(crate) const CONTEXT: i16 = -48;
    /// The address of an inode, then of its superblock. 8 bytes.
    pub(crate) const INODE: i16 = -56;
}

/// The program at `sys_enter` that attaches to threads.
pub(super) mod adopt {
    /// A pointer or a word of a kernel struct. 8 bytes.
    pub(crate) const WORD: i16 = -16;
    /// The thread. 8 bytes.
    pub(crate) const THREAD: i16 = -32;
    /// Its slot. 8 bytes.
    pub(crate) const SLOT: i16 = -40;
}

/// The program at `sched_process_fork`.
pub(super) mod fork {
    /// The child's tid and pid in the first PID namespace. 4 bytes each.
    pub(crate) const KERNEL_TID: i16 = -16;
    pub(crate) const KERNEL_PID: i16 = -12;
    /// A pointer, then the number of a new slot. 8 bytes.
    pub(crate) const WORD: i16 = -24;
    /// A pointer of the child, then the parent's slot. 8 bytes.
    pub(crate) const PARENT: i16 = -32;
    /// What the child shares with its parent. 8 bytes.
    pub(crate) const SHARES: i16 = -40;
    /// The child's tid and pid in our PID namespace. 4 bytes each.
    pub(crate) const TID: i16 = -44;
    pub(crate) const PID: i16 = -48;
    /// The child's slot. 8 bytes.
    pub(crate) const SLOT: i16 = -56;
    /// The record for the ring.
    pub(crate) const EVENT: i16 = SLOT - super::super::layout::fork::LEN;
}

/// The program at `sched_process_exec`.
pub(super) mod exec {
    /// The thread's tid and pid in the first PID namespace. 4 bytes each.
    pub(crate) const KERNEL_IDS: i16 = -16;
    pub(crate) const KERNEL_PID: i16 = -12;
    /// The old slot, then the new one. 8 bytes.
    pub(crate) const SLOT: i16 = -24;
    /// A pointer. 8 bytes.
    pub(crate) const POINTER: i16 = -32;
    /// The key of the map `scratch`, then the length of the program's name. 8 bytes.
    pub(crate) const LEN: i16 = -40;
    /// The tid that the thread had before. 4 bytes.
    pub(crate) const FORMER: i16 = -48;
}

/// The program at `sched_process_exit`.
pub(super) mod exit {
    /// The record for the ring: its kind, and the ids of the thread. 16 bytes.
    pub(crate) const EVENT: i16 = -24;
    /// The slot of the thread, then its ids. 8 bytes.
    pub(crate) const IDS: i16 = EVENT + 8;
}
