//! Distributes ranges of inode numbers to threads, in ascending order, so that a directory is
//! mostly known before its entries.

use std::collections::VecDeque;
use std::sync::Arc;

use gate::sync::{Condvar, Mutex};
use ondisk::btrfs::{FIRST_INODE, LAST_INODE};

use super::tree::SubvolumeTree;

/// Number of inode numbers in a range, as long as most of them are in use.
const STEP: u64 = 4096;

#[derive(Clone, Debug)]
pub(super) struct InodeRange<'a> {
    pub(super) tree: Arc<SubvolumeTree<'a>>,
    pub(super) first: u64,
    pub(super) last: u64,
}

/// How reading a range of inode numbers has ended.
#[derive(Debug)]
pub(super) enum End {
    /// The range was read, and had this many inodes.
    Rows(u64),
    /// The range has very many items; the rest, from this inode on, is left to other threads.
    Rest(u64),
    /// The range was empty, and this is the next inode.
    Gap(u64),
    /// The range was empty, and there are no more inodes.
    Nothing,
}

/// A subvolume tree, part of whose inode numbers no thread has claimed yet.
#[derive(Debug)]
struct UnclaimedInodes<'a> {
    tree: Arc<SubvolumeTree<'a>>,
    next: u64,
    step: u64,
}

#[derive(Debug, Default)]
struct WorkState<'a> {
    ahead: VecDeque<UnclaimedInodes<'a>>,
    left: Vec<InodeRange<'a>>,
    busy: usize,
}

#[derive(Debug, Default)]
pub(super) struct InodeWork<'a> {
    state: Mutex<WorkState<'a>>,
    changed: Condvar,
}

impl<'a> InodeWork<'a> {
    pub(super) fn new(trees: Vec<Arc<SubvolumeTree<'a>>>) -> InodeWork<'a> {
        let ahead = trees.into_iter().map(|tree| UnclaimedInodes {
            tree,
            next: FIRST_INODE,
            step: STEP,
        });
        InodeWork {
            state: Mutex::new(WorkState {
                ahead: ahead.collect(),
                ..WorkState::default()
            }),
            changed: Condvar::new(),
        }
    }

    /// Claims the next range of inode numbers; waits while other threads may still leave the rest
    /// of theirs. `None` when the walk is done.
    pub(super) fn claim(&self) -> Option<InodeRange<'a>> {
        let mut state = self.state.lock();
        loop {
            if let Some(piece) = state.next() {
                state.busy += 1;
                return Some(piece);
            }
            if state.busy == 0 {
                self.changed.notify_all();
                return None;
            }
            state = self.changed.wait(state);
        }
    }

    pub(super) fn done(&self, piece: InodeRange<'a>, end: &End) {
        let mut state = self.state.lock();
        state.busy -= 1;
        let at = state
            .ahead
            .iter()
            .position(|ahead| Arc::ptr_eq(&ahead.tree, &piece.tree));
        let ahead = at.and_then(|at| state.ahead.get_mut(at));
        match (end, ahead) {
            (End::Rows(rows), Some(ahead)) if rows.saturating_mul(4) < piece.last - piece.first => {
                ahead.step = ahead.step.saturating_mul(2);
            }
            (End::Gap(next), Some(ahead)) => ahead.next = ahead.next.max(*next),
            (End::Rest(first), ahead) => {
                if let Some(ahead) = ahead {
                    ahead.step = STEP;
                }
                state.left.push(InodeRange {
                    first: *first,
                    ..piece
                });
            }
            (End::Nothing, _) => {
                at.and_then(|at| state.ahead.remove(at));
            }
            _ => {}
        }
        self.changed.notify_all();
    }

    pub(super) fn stop(&self) {
        let mut state = self.state.lock();
        state.ahead.clear();
        state.left.clear();
        self.changed.notify_all();
    }
}

impl<'a> WorkState<'a> {
    fn next(&mut self) -> Option<InodeRange<'a>> {
        if let Some(mut piece) = self.left.pop() {
            if piece.last - piece.first >= STEP {
                self.left.push(InodeRange {
                    first: piece.first + STEP,
                    ..piece.clone()
                });
                piece.last = piece.first + STEP - 1;
            }
            return Some(piece);
        }
        let ahead = self.ahead.front_mut()?;
        let first = ahead.next;
        let last = first.saturating_add(ahead.step - 1).min(LAST_INODE);
        let tree = ahead.tree.clone();
        ahead.next = last + 1;
        if last == LAST_INODE {
            self.ahead.pop_front();
        }
        Some(InodeRange { tree, first, last })
    }
}
