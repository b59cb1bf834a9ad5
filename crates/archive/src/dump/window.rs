//! Reads ahead of the writer, and keeps the order.
//!
//! ```text
//!          next rows                        in the order of the tickets
//! reader ◄──────────┐   ┌ slot 7: load, load, ... ┐
//! reader ◄────── window ┤ slot 8: load            ├──► writer
//! reader ◄──────────┘   └ slot 9:                 ┘
//! ```
//!
//! Each reader takes a few rows at a time, and a ticket with them: the place of what it makes of
//! them among all else. The loads that it hands in wait in a slot until it is their turn. A reader
//! waits when there are more bytes in the window than it is to hold, save the one whose turn it is,
//! so that there is always one who goes on.

use std::collections::VecDeque;
use std::ops::Range;

use super::load::{Load, PIECE, Stopped};
use gate::sync::{Condvar, Mutex, MutexGuard};

/// Bytes that are read ahead, about.
const ROOM: usize = 24 << 20;
/// Rows of which something is to be done that are taken at once, at most; and bytes that they are
/// to come to. The rows between them cost nothing, but each turn does: in an increment there is
/// little to be done, here and there.
const ROWS: usize = 128;
const BYTES: u64 = 256 << 10;
/// Loads that the reader whose turn it is may be ahead of the writer, however full the window is.
const AHEAD: usize = 4;

/// What is between the readers and the writer.
pub(crate) struct Window {
    rows: usize,
    state: Mutex<State>,
    room: Condvar,
    ready: Condvar,
}

#[derive(Default)]
struct State {
    next_row: usize,
    /// The ticket of the first slot.
    turn: u64,
    slots: VecDeque<Slot>,
    bytes: usize,
    is_stopped: bool,
    spare: Vec<Vec<u8>>,
}

#[derive(Default)]
struct Slot {
    loads: VecDeque<Load>,
    is_whole: bool,
}

impl State {
    fn slot(&mut self, ticket: u64) -> Option<&mut Slot> {
        self.slots
            .get_mut(usize::try_from(ticket.checked_sub(self.turn)?).ok()?)
    }
}

impl Window {
    pub(crate) fn new(rows: usize) -> Window {
        Window {
            rows,
            state: Mutex::default(),
            room: Condvar::new(),
            ready: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The next rows to be read, and the ticket for them; `None` when there are no more. `next`
    /// gives the first row from one on that there is anything to be done for, and `weight` says how
    /// many bytes that may come to.
    pub(crate) fn take(
        &self,
        next: impl Fn(usize) -> Option<usize>,
        weight: impl Fn(usize) -> u64,
    ) -> Option<(u64, Range<usize>)> {
        let mut state = self.state();
        while state.bytes >= ROOM && !state.slots.is_empty() && !state.is_stopped {
            state = self.room.wait(state);
        }
        let Some(from) = next(state.next_row).filter(|_| !state.is_stopped) else {
            state.next_row = self.rows;
            self.ready.notify_all();
            return None;
        };
        let (mut to, mut some, mut bytes) = (from, 0, 0u64);
        while some < ROWS && bytes < BYTES {
            let Some(row) = next(to) else { break };
            (some, bytes, to) = (some + 1, bytes.saturating_add(weight(row)), row + 1);
        }
        state.next_row = to;
        let ticket = state.turn + state.slots.len() as u64;
        state.slots.push_back(Slot::default());
        Some((ticket, from..to))
    }

    /// Hands in what is ready of a ticket, and waits for room. Gives a load to be filled.
    pub(crate) fn hand_in(&self, ticket: u64, load: Load) -> Result<Load, Stopped> {
        let mut state = self.put(ticket, load, false);
        while !state.is_stopped && state.bytes >= ROOM {
            let is_next = state.turn == ticket;
            if is_next
                && state
                    .slot(ticket)
                    .is_some_and(|slot| slot.loads.len() < AHEAD)
            {
                break;
            }
            state = self.room.wait(state);
        }
        if state.is_stopped {
            Err(Stopped)
        } else {
            Ok(Load::reuse(state.spare.pop()))
        }
    }

    /// Hands in the last of a ticket.
    pub(crate) fn finish(&self, ticket: u64, load: Load) {
        drop(self.put(ticket, load, true));
    }

    fn put(&self, ticket: u64, load: Load, is_last: bool) -> MutexGuard<'_, State> {
        let mut state = self.state();
        state.bytes += load.bytes.len();
        if let Some(slot) = state.slot(ticket) {
            slot.loads.push_back(load);
            slot.is_whole = is_last;
        }
        if state.turn == ticket {
            self.ready.notify_all();
        }
        state
    }

    /// A load to be filled.
    pub(crate) fn empty(&self) -> Load {
        Load::reuse(self.state().spare.pop())
    }

    /// The next load in order; waits for it. `None` at the end of all, and when a reader has died.
    pub(crate) fn next(&self) -> Option<Load> {
        let mut state = self.state();
        loop {
            if state.is_stopped {
                return None;
            }
            if let Some(slot) = state.slots.front_mut() {
                if let Some(load) = slot.loads.pop_front() {
                    state.bytes -= load.bytes.len();
                    self.room.notify_all();
                    return Some(load);
                }
                if slot.is_whole {
                    state.slots.pop_front();
                    state.turn += 1;
                    self.room.notify_all();
                    continue;
                }
            } else if state.next_row >= self.rows {
                return None;
            }
            state = self.ready.wait(state);
        }
    }

    /// Gives back the memory of a load that is written.
    pub(crate) fn give_back(&self, mut bytes: Vec<u8>) {
        const MOST: usize = 32;
        if bytes.capacity() <= 2 * PIECE {
            bytes.clear();
            let mut state = self.state();
            if state.spare.len() < MOST {
                state.spare.push(bytes);
            }
        }
    }

    /// The writer gives up, or a reader has died: whoever waits is to end.
    pub(crate) fn stop(&self) {
        self.state().is_stopped = true;
        self.room.notify_all();
        self.ready.notify_all();
    }
}
