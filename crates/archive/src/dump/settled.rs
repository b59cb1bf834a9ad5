//! What has become of rows, for the catalog: that is written while the archive still is.
//!
//! ```text
//! writer ─ what came of each row ─► portion, portion, ... ─► catalog, as many rows at a time
//! ```

use std::collections::VecDeque;

use gate::sync::{Condvar, Mutex, MutexGuard};
use walk::Meta;

use crate::catalog::rows_of_group;

/// What has become of some rows. What is not named is as it was gathered, and has no checksum of
/// its own.
#[derive(Debug, Default)]
pub(crate) struct Portion {
    /// Checksums of what the archive has.
    pub(crate) hashes: Vec<(usize, [u8; 32])>,
    /// Rows that are not what they were when they were gathered.
    pub(crate) amended: Vec<(usize, Meta)>,
    /// Rows that the catalog is to have as something unknown, so that the next increment dumps
    /// them.
    pub(crate) missing: Vec<usize>,
}

/// What lies between the writer of an archive and that of its catalog.
pub(crate) struct Settled {
    rows: usize,
    /// Rows of a portion: of a row group of the catalog.
    size: usize,
    state: Mutex<State>,
    more: Condvar,
}

#[derive(Default)]
struct State {
    /// Those that have been handed over; taken ones leave `None`.
    portions: VecDeque<Option<Portion>>,
    /// Whether there will be no more.
    is_over: bool,
    /// Portions that have been made use of, or whether nobody takes any more.
    used: usize,
    is_left: bool,
}

impl Settled {
    /// Of so many rows.
    pub(crate) fn new(rows: usize) -> Settled {
        Settled {
            rows,
            size: rows_of_group(rows),
            state: Mutex::default(),
            more: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.more.wait(state)
    }

    /// What has become of the rows of the row group of the catalog that begins with this one, when
    /// that is settled. `None` if the writer has given up.
    pub(crate) fn take(&self, row: usize) -> Option<Portion> {
        let nth = row / self.size;
        let mut state = self.state();
        while state.portions.len() <= nth && !state.is_over {
            state = self.wait(state);
        }
        state.portions.get_mut(nth)?.take()
    }

    /// A portion that was taken has been made use of.
    pub(crate) fn use_up(&self) {
        self.state().used += 1;
        self.more.notify_all();
    }

    /// Nobody takes any more.
    pub(crate) fn leave(&self) {
        self.state().is_left = true;
        self.more.notify_all();
    }

    /// Waits until all has been made use of, or nobody takes any more.
    pub(crate) fn wait_until_used(&self) {
        let mut state = self.state();
        while !state.is_left && state.used < state.portions.len() {
            state = self.wait(state);
        }
    }
}

/// The writer's end of it. When it goes, whoever waits for more waits no longer.
pub(crate) struct Settling<'a> {
    to: &'a Settled,
    nth: usize,
    portion: Portion,
}

impl<'a> Settling<'a> {
    pub(crate) fn new(to: &'a Settled) -> Settling<'a> {
        Settling {
            to,
            nth: 0,
            portion: Portion::default(),
        }
    }

    /// Where what becomes of a row is to be entered. What becomes of those before it is settled.
    pub(crate) fn at(&mut self, row: usize) -> &mut Portion {
        while self.nth < row / self.to.size {
            self.hand_over();
        }
        &mut self.portion
    }

    fn hand_over(&mut self) {
        self.to
            .state()
            .portions
            .push_back(Some(std::mem::take(&mut self.portion)));
        self.nth += 1;
        self.to.more.notify_all();
    }

    /// All rows are settled.
    pub(crate) fn finish(mut self) {
        while self.nth < self.to.rows.div_ceil(self.to.size) {
            self.hand_over();
        }
    }
}

impl Drop for Settling<'_> {
    fn drop(&mut self) {
        self.to.state().is_over = true;
        self.to.more.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_settled_comes_in_portions() {
        let settled = Settled::new(100);
        let size = settled.size;
        assert!(3 * size < 100 && 7 * size >= 100, "{size}");
        let mut settling = Settling::new(&settled);
        for row in [3, size - 1, 2 * size] {
            settling.at(row).missing.push(row);
        }
        let taken = |nth| {
            settled
                .take(nth * size)
                .map(|portion: Portion| portion.missing)
        };
        assert_eq!(
            (taken(0), taken(1)),
            (Some(vec![3, size - 1]), Some(vec![]))
        );
        std::thread::scope(|scope| {
            let last = scope.spawn(|| (taken(2), taken(6), taken(7)));
            settling.finish();
            assert_eq!(
                last.join().unwrap(),
                (Some(vec![2 * size]), Some(vec![]), None)
            );
        });
        (0..7).for_each(|_| settled.use_up());
        settled.wait_until_used();
    }

    #[test]
    fn who_gives_up_holds_nobody_up() {
        let settled = Settled::new(1);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| settled.take(0).is_none());
            drop(Settling::new(&settled));
            assert!(waits.join().unwrap());
            let settling = Settling::new(&settled);
            let waits = scope.spawn(|| settled.wait_until_used());
            settling.finish();
            settled.leave();
            waits.join().unwrap();
        });
    }
}
