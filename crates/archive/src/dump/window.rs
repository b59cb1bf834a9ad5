//! Reads ahead of the writer of the archive, and keeps the order.
//!
//! ```text
//!          next rows                         in the order of the tickets
//! reader ◄──────────┐   ┌ slot 7: chunk, chunk, ... ┐
//! reader ◄────── window ┤ slot 8: chunk             ├──► writer
//! reader ◄──────────┘   └ slot 9:                   ┘
//! ```
//!
//! Each reader takes a few rows at a time, with a ticket: the position of these rows in the
//! archive. The reader's chunks wait in a slot until they are written. When the window is full, all
//! readers wait except the one whose ticket is next, so that the dump always proceeds.

use std::collections::VecDeque;
use std::ops::Range;

use gate::sync::{Condvar, Mutex, MutexGuard};

use super::load::{ArchiveChunk, DumpInput, WriterStopped};

/// Approximate capacity of the window, in bytes.
const ROOM: usize = 24 << 20;
/// Maximum rows written per ticket, beside a limit of bytes. Skipped rows between them are not
/// counted: an increment writes few rows, and each ticket has a cost.
const ROWS: usize = 128;
const BYTES: u64 = 256 << 10;
/// Bytes in the window at which the writer is woken.
const READY: usize = 2 << 20;
/// Number of chunks that the reader of the next ticket may be ahead of the writer, however full the
/// window is.
const AHEAD: usize = 4;

/// The archive chunks between the readers and the writer.
pub(crate) struct Window {
    rows: usize,
    state: Mutex<WindowState>,
    room: Condvar,
    ready: Condvar,
}

#[derive(Default)]
struct WindowState {
    next_row: usize,
    /// Ticket of the first slot, whose chunks are being written.
    turn: u64,
    slots: VecDeque<WindowSlot>,
    bytes: usize,
    /// Number of readers waiting for room.
    waiting: usize,
    is_writer_waiting: bool,
    is_stopped: bool,
    /// Buffers of written chunks, and their total capacity.
    spare: Vec<Vec<u8>>,
    spare_bytes: usize,
}

#[derive(Default)]
struct WindowSlot {
    loads: VecDeque<ArchiveChunk>,
    is_complete: bool,
}

impl WindowState {
    fn empty(&mut self) -> ArchiveChunk {
        let bytes = self.spare.pop().unwrap_or_default();
        self.spare_bytes -= bytes.capacity();
        ArchiveChunk::reuse(bytes)
    }

    fn slot(&mut self, ticket: u64) -> Option<&mut WindowSlot> {
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

    /// The next rows to read, and their ticket; `None` when there are no more rows.
    pub(crate) fn take(
        &self,
        DumpInput { rows, plan, .. }: DumpInput<'_>,
    ) -> Option<(u64, Range<usize>)> {
        let mut state = self.state.lock();
        while state.bytes >= ROOM && !state.slots.is_empty() && !state.is_stopped {
            state = self.wait_for_room(state);
        }
        let next = plan.next_written(state.next_row);
        let Some(from) = next.filter(|_| !state.is_stopped) else {
            state.next_row = self.rows;
            self.wake_writer(&mut state);
            return None;
        };
        let (mut to, mut written, mut bytes) = (from, 0, 0u64);
        while written < ROWS && bytes < BYTES {
            let Some(row) = plan.next_written(to) else {
                break;
            };
            bytes = bytes.saturating_add(plan.bytes(rows, row));
            (written, to) = (written + 1, row + 1);
        }
        state.next_row = to;
        let ticket = state.turn + state.slots.len() as u64;
        state.slots.push_back(WindowSlot::default());
        Some((ticket, from..to))
    }

    /// Adds a chunk to the slot of a ticket, and waits until the window has room. Returns an empty
    /// chunk.
    pub(crate) fn add(
        &self,
        ticket: u64,
        load: ArchiveChunk,
    ) -> Result<ArchiveChunk, WriterStopped> {
        let mut state = self.put(ticket, load, false);
        while !state.is_stopped && state.bytes >= ROOM {
            let is_next = state.turn == ticket;
            let slot = state.slot(ticket).filter(|_| is_next);
            if slot.is_some_and(|slot| slot.loads.len() < AHEAD) {
                break;
            }
            state = self.wait_for_room(state);
        }
        if state.is_stopped {
            return Err(WriterStopped);
        }
        Ok(state.empty())
    }

    /// Adds the last chunk of a ticket, without waiting.
    pub(crate) fn finish(&self, ticket: u64, load: ArchiveChunk) {
        drop(self.put(ticket, load, true));
    }

    fn put(&self, ticket: u64, load: ArchiveChunk, is_last: bool) -> MutexGuard<'_, WindowState> {
        let mut state = self.state.lock();
        state.bytes += load.bytes.len();
        if let Some(slot) = state.slot(ticket) {
            slot.loads.push_back(load);
            slot.is_complete = is_last;
        }
        let is_ready = |slot: &WindowSlot| slot.is_complete || !slot.loads.is_empty();
        let is_enough = state.bytes >= READY || state.next_row >= self.rows;
        if is_enough && state.slots.front().is_some_and(is_ready) {
            self.wake_writer(&mut state);
        }
        state
    }

    fn wake_writer(&self, state: &mut WindowState) {
        if std::mem::take(&mut state.is_writer_waiting) {
            self.ready.notify_all();
        }
    }

    fn wait_for_room<'s>(
        &self,
        mut state: MutexGuard<'s, WindowState>,
    ) -> MutexGuard<'s, WindowState> {
        state.waiting += 1;
        state = self.room.wait(state);
        state.waiting -= 1;
        state
    }

    fn wake_readers(&self, state: &WindowState) {
        if state.waiting > 0 {
            self.room.notify_all();
        }
    }

    /// An empty chunk, with a reused buffer if there is one.
    pub(crate) fn empty(&self) -> ArchiveChunk {
        self.state.lock().empty()
    }

    /// Waits for the next chunk in order. `None` after the last chunk, and when a reader panicked.
    pub(crate) fn next(&self) -> Option<ArchiveChunk> {
        let mut state = self.state.lock();
        loop {
            if state.is_stopped {
                return None;
            }
            if let Some(slot) = state.slots.front_mut() {
                if let Some(load) = slot.loads.pop_front() {
                    state.bytes -= load.bytes.len();
                    self.wake_readers(&state);
                    return Some(load);
                }
                if slot.is_complete {
                    state.slots.pop_front();
                    state.turn += 1;
                    self.wake_readers(&state);
                    continue;
                }
            } else if state.next_row >= self.rows {
                return None;
            }
            state.is_writer_waiting = true;
            state = self.ready.wait(state);
        }
    }

    /// Keeps the buffer of a written chunk for reuse.
    pub(crate) fn give_back(&self, mut bytes: Vec<u8>) {
        bytes.clear();
        let mut state = self.state.lock();
        if state.spare_bytes + bytes.capacity() <= ROOM {
            state.spare_bytes += bytes.capacity();
            state.spare.push(bytes);
        }
    }

    /// Wakes and ends all waiting threads: the writer failed, or a reader panicked.
    pub(crate) fn stop(&self) {
        self.state.lock().is_stopped = true;
        self.room.notify_all();
        self.ready.notify_all();
    }
}
