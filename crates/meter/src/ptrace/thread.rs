//! What is known of a traced thread and its process.

use gate::usage::RunDelay;

use crate::call::Call;
use crate::totals::ProgramIndex;

/// The call that a thread is in.
#[derive(Clone, Copy)]
pub(super) struct Entered {
    pub(super) number: u32,
    pub(super) args: [u64; 6],
    /// Which of the thread's names are this call's.
    pub(super) has_names: [bool; 2],
    pub(super) start: u64,
    /// [`RunDelay`] of the thread then; `None` while no other thread can hold it up.
    pub(super) delay: Option<u64>,
}

pub(super) struct Thread {
    pub(super) pid: u32,
    pub(super) call: Option<Entered>,
    /// It has entered a call, and stops when that returns. Only this tells entry from return before
    /// Linux 5.3.
    pub(super) is_inside: bool,
    /// It is in a call that installs a seccomp filter.
    pub(super) installs_filter: bool,
    /// What the path arguments of the call point to; kept, so that calls do not allocate.
    pub(super) names: [Vec<u8>; 2],
    /// Read at its calls while there are other threads.
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
        entered: &Entered,
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
    /// Its parent's id and serial number: the kernel reuses ids.
    pub(super) parent: (u32, u64),
    pub(super) serial: u64,
    /// Live processes that it has created.
    pub(super) children: u32,
    /// It has a seccomp filter of its own, which may answer calls before ours sees them: it stops
    /// at all calls.
    pub(super) is_filtered: bool,
}
