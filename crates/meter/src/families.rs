//! Decides which thread exit is the exit of a process. A main thread may exit before other threads,
//! or before another thread calls execve(2) and takes over its id; listeners are told of the exit
//! of a process once, after all its threads.

use foldhash::HashMap;

use crate::call::Fork;

/// The processes that have or had several threads.
#[derive(Debug, Default)]
pub(crate) struct Families(HashMap<u32, Family>);

#[derive(Debug, Default)]
struct Family {
    /// Number of live threads except the main thread.
    others: u32,
    main_has_exited: bool,
}

impl Families {
    pub(crate) fn fork(&mut self, fork: &Fork) {
        if fork.pid == fork.tid {
            self.0.remove(&fork.pid); // the kernel reuses ids
        } else {
            self.0.entry(fork.pid).or_default().others += 1;
        }
    }

    /// A process executes a program: the calling thread becomes its main and only thread.
    pub(crate) fn exec(&mut self, pid: u32) {
        self.0.remove(&pid);
    }

    /// Reports the exits that are due: a main thread's exit waits for that of the last thread.
    pub(crate) fn exit(&mut self, pid: u32, tid: u32, mut report: impl FnMut(u32, u32)) {
        let Some(family) = self.0.get_mut(&pid) else {
            return report(pid, tid);
        };
        if pid == tid {
            family.main_has_exited = true;
        } else {
            family.others = family.others.saturating_sub(1);
            report(pid, tid);
        }
        if family.main_has_exited && family.others == 0 {
            self.0.remove(&pid);
            report(pid, pid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(exits: &[(u32, u32)], families: &mut Families) -> Vec<(u32, u32)> {
        let mut reported = Vec::new();
        for (pid, tid) in exits {
            families.exit(*pid, *tid, |pid, tid| reported.push((pid, tid)));
        }
        reported
    }

    fn three() -> Families {
        let mut families = Families::default();
        for tid in [8, 9] {
            families.fork(&Fork::thread(7, tid));
        }
        families
    }

    #[test]
    fn the_end_of_a_process_is_reported_last() {
        assert_eq!(
            reported(&[(7, 7), (7, 8), (7, 9)], &mut three()),
            [(7, 8), (7, 9), (7, 7)]
        );
        assert_eq!(
            reported(&[(7, 8), (7, 9), (7, 7)], &mut three()),
            [(7, 8), (7, 9), (7, 7)]
        );
        assert_eq!(reported(&[(5, 5)], &mut three()), [(5, 5)]);
    }

    #[test]
    fn a_process_whose_main_thread_is_replaced_by_exec_has_not_ended() {
        let mut families = three();
        assert_eq!(reported(&[(7, 9), (7, 7)], &mut families), [(7, 9)]);
        families.exec(7);
        assert_eq!(reported(&[(7, 7)], &mut families), [(7, 7)]);
    }
}
