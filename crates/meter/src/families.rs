//! When a process is at its end. Its main thread may end before the others do, or before one of
//! them runs another program and takes its place; who listens wants to hear of its end last, and
//! only once.

use foldhash::HashMap;

use crate::call::Fork;

/// Threads of the processes that have had more than one.
#[derive(Debug, Default)]
pub(super) struct Families(HashMap<u32, Family>);

#[derive(Debug, Default)]
struct Family {
    /// Threads that live, but for the main one.
    others: u32,
    /// The main one has ended.
    orphaned: bool,
}

impl Families {
    /// A thread or process was made.
    pub(super) fn fork(&mut self, fork: &Fork) {
        if fork.pid == fork.tid {
            // Ids come again.
            self.0.remove(&fork.pid);
        } else {
            self.0.entry(fork.pid).or_default().others += 1;
        }
    }

    /// A process runs another program: only one of its threads is left, and is the main one.
    pub(super) fn exec(&mut self, pid: u32) {
        self.0.remove(&pid);
    }

    /// A thread has ended. Says which ends are to be told now: none for a main thread that is not
    /// the last one.
    pub(super) fn exit(&mut self, pid: u32, tid: u32, mut tell: impl FnMut(u32, u32)) {
        let Some(family) = self.0.get_mut(&pid) else {
            return tell(pid, tid);
        };
        if pid == tid {
            family.orphaned = true;
        } else {
            family.others = family.others.saturating_sub(1);
            tell(pid, tid);
        }
        if family.orphaned && family.others == 0 {
            self.0.remove(&pid);
            tell(pid, pid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(exits: &[(u32, u32)], families: &mut Families) -> Vec<(u32, u32)> {
        let mut told = Vec::new();
        for (pid, tid) in exits {
            families.exit(*pid, *tid, |pid, tid| told.push((pid, tid)));
        }
        told
    }

    fn three() -> Families {
        let mut families = Families::default();
        for tid in [8, 9] {
            families.fork(&Fork {
                parent: 7,
                pid: 7,
                tid,
                shares_files: true,
                shares_fs: true,
            });
        }
        families
    }

    #[test]
    fn the_end_of_the_process_is_the_last() {
        assert_eq!(
            told(&[(7, 7), (7, 8), (7, 9)], &mut three()),
            [(7, 8), (7, 9), (7, 7)]
        );
        assert_eq!(
            told(&[(7, 8), (7, 9), (7, 7)], &mut three()),
            [(7, 8), (7, 9), (7, 7)]
        );
        assert_eq!(told(&[(5, 5)], &mut three()), [(5, 5)]);
    }

    #[test]
    fn a_main_thread_whose_place_is_taken_has_not_ended() {
        let mut families = three();
        assert_eq!(told(&[(7, 9), (7, 7)], &mut families), [(7, 9)]);
        families.exec(7);
        assert_eq!(told(&[(7, 7)], &mut families), [(7, 7)]);
    }
}
