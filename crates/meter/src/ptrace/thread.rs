//! State of a traced thread and its process.

use gate::usage::RunDelay;

use crate::call::Call;
use crate::totals::ProgramIndex;

/// The system call that a thread is inside.
#[derive(Clone, Copy)]
pub(super) struct CallInProgress {
    pub(super) number: u32,
    pub(super) args: [u64; 6],
    /// Which of the thread's path buffers belong to this call.
    pub(super) has_names: [bool; 2],
    pub(super) start: u64,
    /// Run delay ([`RunDelay`]) of the thread at entry; `None` while no other thread can delay it.
    pub(super) delay: Option<u64>,
}

pub(super) struct Thread {
    pub(super) pid: u32,
    pub(super) call: Option<CallInProgress>,
    /// The thread is inside a call, and stops on return. Before Linux 5.3 only this flag tells an
    /// entry stop from a return stop.
    pub(super) is_inside: bool,
    /// The thread is in a call that installs a seccomp filter.
    pub(super) installs_filter: bool,
    /// Strings of the call's path arguments; reused, so that calls do not allocate.
    pub(super) names: [Vec<u8>; 2],
    /// Run delay file of the thread, read at its calls while there are other threads.
    pub(super) delay: Option<RunDelay>,
}

impl Thread {
    pub(super) fn new(pid: u32) -> Thread {
        Thread {
            pid,
            call: None,
            is_inside: false,
            installs_filter: false,
            names: [Vec::new(), Vec::new()],
            delay: None,
        }
    }

    pub(super) fn call<'a>(
        &'a self,
        tid: u32,
        entered: &CallInProgress,
        result: Option<i64>,
        nanos: u64,
    ) -> Call<'a> {
        let name = |at: usize| entered.has_names[at].then_some(&self.names[at][..]);
        Call {
            pid: self.pid,
            tid,
            number: entered.number,
            args: entered.args,
            name: name(0),
            other: name(1),
            result,
            start: entered.start,
            nanos,
        }
    }
}

#[derive(Default)]
pub(super) struct Process {
    pub(super) program: ProgramIndex,
    /// PID and serial number of the parent: the kernel reuses PIDs.
    pub(super) parent: (u32, u64),
    pub(super) serial: u64,
    /// Number of live child processes.
    pub(super) children: u32,
    /// The process has its own seccomp filter, which may answer calls before the meter's filter
    /// sees them, so it stops at all calls.
    pub(super) is_filtered: bool,
}
