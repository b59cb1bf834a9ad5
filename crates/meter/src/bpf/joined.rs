//! State of processes whose threads [join](super::layout::kind::JOIN): metering begins at a call,
//! whose record reaches user space a little later.

use foldhash::{HashMap, HashSet};

use crate::attach::{Status, running, threads};
use crate::names::{AttachedProcess, OpenFiles};

/// State of processes whose threads are metered from their next call on.
#[derive(Default)]
pub(super) struct JoinedProcesses {
    /// Executable and open files of each process when metering began.
    before: HashMap<u32, (Vec<u8>, OpenFiles)>,
    /// Start time and threads of each process.
    processes: HashMap<u32, (u64, HashSet<u32>)>,
}

impl JoinedProcesses {
    /// Reads the open files of these processes.
    pub(super) fn before(processes: &[u32]) -> JoinedProcesses {
        /// Maximum number of descriptors whose names are kept.
        const MOST: usize = 1 << 16;
        let mut joined = JoinedProcesses::default();
        let mut room = MOST;
        for &pid in processes {
            if room == 0 {
                break;
            }
            let open = OpenFiles::read(pid);
            room = room.saturating_sub(open.len());
            joined.before.insert(pid, (running(pid), open));
        }
        joined
    }

    /// The executable of a process whose first metered thread is reported; if the process has
    /// ended, the executable read when metering began.
    pub(super) fn program(&self, pid: u32) -> Option<Vec<u8>> {
        let before = self.before.get(&pid).map(|(program, _)| program);
        Some(running(pid))
            .filter(|now| !now.is_empty())
            .or_else(|| before.filter(|before| !before.is_empty()).cloned())
    }

    /// Records that a running thread of a process with this executable is metered.
    pub(super) fn join(&mut self, pid: u32, tid: u32, program: &[u8]) -> JoinedThread {
        let start = Status::read(pid).map_or(0, |status| status.start);
        if let Some((began, known)) = self.processes.get_mut(&pid)
            && *began == start
        {
            return match known.insert(tid) {
                true => JoinedThread::Thread,
                false => JoinedThread::Known,
            };
        }
        let mut all = threads(pid);
        if !all.contains(&tid) {
            all.push(tid);
        }
        let known = all.iter().copied().collect();
        self.processes.insert(pid, (start, known));
        let (_, before) = self.before.remove(&pid).unwrap_or_default();
        JoinedThread::Process(AttachedProcess {
            pid,
            threads: all,
            program: program.to_vec(),
            open: OpenFiles::read(pid).since(&before),
        })
    }

    pub(super) fn exit(&mut self, pid: u32, tid: u32) {
        if pid == tid {
            self.processes.remove(&pid);
        } else if let Some((_, known)) = self.processes.get_mut(&pid) {
            known.remove(&tid);
        }
    }
}

/// A running thread that is metered from now on, and its process if that is new.
pub(super) enum JoinedThread {
    /// The first thread of a process.
    Process(AttachedProcess),
    /// Another thread of a known process.
    Thread,
    Known,
}
