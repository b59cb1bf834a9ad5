//! Who reads what: pieces of the trees, claimed in the order of inode numbers, so that a directory
//! is mostly known before what is in it.

use std::collections::VecDeque;
use std::sync::Arc;

use gate::sync::{Condvar, Mutex, MutexGuard};
use ondisk::btrfs::{FIRST_INODE, LAST_INODE};

use super::tree::Tree;

/// Inode numbers in a piece, where most of them are in use.
const STEP: u64 = 4096;

/// Some of the inode numbers of a tree.
#[derive(Clone, Debug)]
pub(super) struct Piece<'a> {
    pub(super) tree: Arc<Tree<'a>>,
    pub(super) first: u64,
    pub(super) last: u64,
}

/// How reading a piece has ended.
#[derive(Debug)]
pub(super) enum End {
    /// It was read, and so many inodes found.
    Rows(u64),
    /// It holds very much; from this inode on, it is left to whoever has time.
    Rest(u64),
    /// There was nothing in it, and the next inode is this.
    Gap(u64),
    /// There was nothing in it, nor is there beyond it.
    Nothing,
}

/// A tree that is not gone through yet.
#[derive(Debug)]
struct Ahead<'a> {
    tree: Arc<Tree<'a>>,
    next: u64,
    step: u64,
}

#[derive(Debug, Default)]
struct State<'a> {
    ahead: VecDeque<Ahead<'a>>,
    left: Vec<Piece<'a>>,
    busy: usize,
}

/// What is to be read.
#[derive(Debug, Default)]
pub(super) struct Work<'a> {
    state: Mutex<State<'a>>,
    changed: Condvar,
}

impl<'a> Work<'a> {
    /// All of some trees.
    pub(super) fn new(trees: Vec<Arc<Tree<'a>>>) -> Work<'a> {
        let ahead = trees
            .into_iter()
            .map(|tree| Ahead {
                tree,
                next: FIRST_INODE,
                step: STEP,
            })
            .collect();
        Work {
            state: Mutex::new(State {
                ahead,
                ..State::default()
            }),
            changed: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock()
    }

    /// The next piece; waits while somebody may yet leave some. `None` when all is done.
    pub(super) fn claim(&self) -> Option<Piece<'a>> {
        let mut state = self.state();
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

    /// A piece has been read.
    pub(super) fn done(&self, piece: Piece<'a>, end: &End) {
        let mut state = self.state();
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
                state.left.push(Piece {
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

    /// There is no use in going on.
    pub(super) fn stop(&self) {
        let mut state = self.state();
        state.ahead.clear();
        state.left.clear();
        self.changed.notify_all();
    }
}

impl<'a> State<'a> {
    fn next(&mut self) -> Option<Piece<'a>> {
        if let Some(mut piece) = self.left.pop() {
            if piece.last - piece.first >= STEP {
                self.left.push(Piece {
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
        Some(Piece { tree, first, last })
    }
}
