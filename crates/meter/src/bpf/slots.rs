//! Reads the calls in the maps: slots of processes, cells of their calls, and sums of threads that
//! are not flushed to a cell yet.

use std::sync::atomic::Ordering;

use foldhash::{HashMap, HashMapExt};
use gate::process::SharedWords;

use super::kit::Maps;
use super::layout::{double, shared, slot, sum, task, word};
use super::record::program_name;
use crate::syscalls::NUMBERS;
use crate::totals::{ProgramIndex, Totals};

/// Calls, nanoseconds and errors of a system call that the map of cells had no room for.
pub(super) fn read_spilt(words: &SharedWords, number: usize) -> [u64; 3] {
    let at = shared::SPILL + 3 * number;
    [at, at + 1, at + 2].map(|word| words[word].load(Ordering::Acquire))
}

/// Receives calls with the same result: program, pid, number, calls, nanoseconds, error.
pub(super) type AddCalls<'a> = dyn FnMut(ProgramIndex, u32, u32, u64, u64, Option<i32>) + 'a;

/// The slots (a process while it executes one program) whose calls to sum up.
pub(super) struct SlotSelection {
    pub(super) ended: HashMap<u64, (ProgramIndex, u32)>,
    /// Sum up the calls of all slots, and calls without a slot.
    all: bool,
}

impl SlotSelection {
    /// Reads the slots of ended processes, or all. `seen` is called with the program slot of each
    /// slot in the map.
    pub(super) fn read(
        maps: &Maps,
        programs: &HashMap<u64, ProgramIndex>,
        totals: &mut Totals,
        all: bool,
        mut seen: impl FnMut(u64),
    ) -> gate::Result<SlotSelection> {
        let mut ended = HashMap::new();
        maps.slots.each(|key, value| {
            let began = double(value, slot::PROGRAM);
            seen(began);
            if all || double(value, slot::LIVE) == 0 {
                // If the ring had no room for the exec record, use the name passed to execve(2).
                let program = programs.get(&began).copied();
                let program = program.unwrap_or_else(|| totals.program(program_name(value)));
                let pid = word(value, slot::PID);
                ended.insert(double(key, 0), (program, pid));
            }
        })?;
        Ok(SlotSelection { ended, all })
    }

    /// The program and the process of a slot; `None` if its calls are not summed up.
    fn find(&self, slot: u64) -> Option<(ProgramIndex, u32)> {
        let no_slot = (self.all && slot == 0).then(Default::default);
        let found = self.ended.get(&slot).copied().or(no_slot);
        found.filter(|_| slot != slot::FIRST)
    }

    /// Sums up the cells (calls by number and error) of the slots, and passes their keys to `seen`.
    pub(super) fn each_cell(
        &self,
        maps: &Maps,
        add: &mut AddCalls<'_>,
        mut seen: impl FnMut(&[u8]),
    ) -> gate::Result<()> {
        maps.cells.each(|key, value| {
            let Some((program, pid)) = self.find(double(key, 0)) else {
                return;
            };
            let (number, errno) = (word(key, 8), errno(word(key, 12)));
            let (calls, nanos) = (double(value, 0), double(value, 8));
            add(program, pid, number, calls, nanos, errno);
            seen(key);
        })
    }

    /// Sums up the calls of live threads. Adds to `read` the number of calls to be reported that
    /// have not returned yet.
    pub(super) fn each_task(
        &self,
        maps: &Maps,
        add: &mut AddCalls<'_>,
        read: &mut u64,
    ) -> gate::Result<()> {
        let mut buckets = Vec::new();
        maps.taken.each(|bucket, _| buckets.push(word(bucket, 0)))?;
        let mut value = [0; task::LEN as usize];
        for bucket in buckets {
            maps.tasks.lookup(&bucket.to_ne_bytes(), &mut value)?;
            let flags = word(&value, task::FLAGS).cast_signed();
            *read += u64::from(flags & task::REPORTED != 0);
            let Some((program, pid)) = self.find(double(&value, task::SLOT)) else {
                continue;
            };
            for at in (task::SUMS..task::LEN).step_by(sum::LEN as usize) {
                let calls = word(&value, at + sum::CALLS);
                if calls > 0 {
                    let kind = word(&value, at + sum::KIND);
                    let (number, errno) = (kind % NUMBERS as u32, errno(kind >> sum::ERROR));
                    let nanos = double(&value, at + sum::NANOS);
                    add(program, pid, number, calls.into(), nanos, errno);
                }
            }
        }
        Ok(())
    }
}

fn errno(errno: u32) -> Option<i32> {
    (errno != 0).then_some(errno.cast_signed())
}
