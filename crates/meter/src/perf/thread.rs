//! What is known of a metered thread.

use ondisk::perf::Task as Ids;

use crate::call::Call;
use crate::syscalls::{self, Kind};
use crate::totals::Program;

/// The call that a thread is in.
#[derive(Clone, Copy)]
pub(super) struct Entered {
    pub(super) number: u32,
    pub(super) args: [u64; 6],
    pub(super) start: u64,
}

impl Entered {
    pub(super) fn call(&self, by: Ids, result: Option<i64>, nanos: u64) -> Call<'static> {
        Call {
            pid: by.pid,
            tid: by.tid,
            number: self.number,
            args: self.args,
            name: None,
            other: None,
            result,
            start: self.start,
            nanos,
        }
    }

    pub(super) fn is_exec(&self) -> bool {
        syscalls::by_number(self.number).is_some_and(|call| call.kind == Kind::Exec)
    }
}

#[derive(Clone)]
pub(super) struct Thread {
    pub(super) pid: u32,
    pub(super) call: Option<Entered>,
    /// A call that a signal has cut short, its result, and its nanoseconds. If the thread makes
    /// another call, it has returned; if the thread ends, it has not.
    pub(super) cut_short: Option<(Entered, i64, u64)>,
    /// The flags of the clone(2) that it is in.
    pub(super) clone: Option<u64>,
    pub(super) program: Program,
    /// It executes a 32-bit program, whose calls have other numbers.
    pub(super) is_compat: bool,
    /// It did so until the execve(2) that it is in, which therefore does not count.
    pub(super) was_compat: bool,
    /// It may be in a call that it has begun before it was metered, which does not count.
    pub(super) is_attached: bool,
}

impl Thread {
    pub(super) fn new(pid: u32) -> Thread {
        Thread {
            pid,
            call: None,
            cut_short: None,
            clone: None,
            program: Program::default(),
            is_compat: false,
            was_compat: false,
            is_attached: false,
        }
    }
    pub(super) fn ids(&self, tid: u32) -> Ids {
        Ids { pid: self.pid, tid }
    }
}
