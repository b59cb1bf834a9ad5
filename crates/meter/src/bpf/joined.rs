//! What is known of processes whose threads [join](super::layout::kind::JOIN): they are metered from a call on, of
//! which the record reaches user space a little later.

use foldhash::{HashMap, HashSet};

use crate::attach::{Status, running, threads};
use crate::names::{Attached, OpenFiles};

/// What is known of the processes whose threads join.
#[derive(Default)]
pub(super) struct Joined {
    /// The programs of processes, and what they had open, when threads began to join.
    before: HashMap<u32, (Vec<u8>, OpenFiles)>,
    /// When each process began, and its threads.
    processes: HashMap<u32, (u64, HashSet<u32>)>,
}

impl Joined {
    /// Reads what these processes have open.
    pub(super) fn before(processes: &[u32]) -> Joined {
        /// Of further descriptors there are no names.
        const MOST: usize = 1 << 16;
        let mut joined = Joined::default();
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

    /// The program of a process, of which the first thread joins: if the process has ended by now,
    /// that which it executed before.
    pub(super) fn program(&self, pid: u32) -> Option<Vec<u8>> {
        let before = self.before.get(&pid).map(|(program, _)| program);
        Some(running(pid))
            .filter(|now| !now.is_empty())
            .or_else(|| before.filter(|before| !before.is_empty()).cloned())
    }

    /// A thread joins, of a process that executes this program.
    pub(super) fn join(&mut self, pid: u32, tid: u32, program: &[u8]) -> Newcomer {
        let start = Status::read(pid).map_or(0, |status| status.start);
        if let Some((began, known)) = self.processes.get_mut(&pid)
            && *began == start
        {
            return match known.insert(tid) {
                true => Newcomer::Thread,
                false => Newcomer::Known,
            };
        }
        let mut all = threads(pid);
        if !all.contains(&tid) {
            all.push(tid);
        }
        let known = all.iter().copied().collect();
        self.processes.insert(pid, (start, known));
        let (_, before) = self.before.remove(&pid).unwrap_or_default();
        Newcomer::Process(Attached {
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

/// A thread that has joined.
pub(super) enum Newcomer {
    /// The first one of a process.
    Process(Attached),
    /// Another one of a process that is known.
    Thread,
    Known,
}
