//! What goes on outside of the kernel while a command is metered: the ring is read, and processes
//! that have ended are taken out of the maps, so that these need not grow.

use std::collections::HashSet;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use foldhash::{HashMap, HashMapExt};
use gate::bpf::Ring;
use gate::command::Running;
use gate::notify::{Event, poll};
use gate::process::{Ended, Shared};

use super::Maps;
use super::layout::{self, board, fork, kind, names, slot, sum, task};
use crate::call::{Call, Fork, Listener, Total};
use crate::error::WarningKind;
use crate::executable::file_of;
use crate::families::Families;
use crate::syscalls::NUMBERS;
use crate::totals::{Program, Totals};

/// How long to wait when there was something to read: then there will be more, and reading it a
/// little at a time costs more.
const BUSY: Duration = Duration::from_millis(1);
/// And when there was nothing: a ring that fills wakes earlier, and so does the end of the last
/// thread.
const IDLE: Duration = Duration::from_millis(100);
/// As many calls as can be told: the programs count down with a sign.
pub(super) const MOST_TOLD: u64 = i64::MAX as u64;

/// The names in a record, which stand from `at` on, one after the other and each with its NUL;
/// `lengths` says where their lengths are, 0 for none.
fn names_in(record: &[u8], at: i16, lengths: [i16; 2]) -> [Option<&[u8]>; 2] {
    let bytes = record.get(at as usize..).unwrap_or_default();
    let [first, second] = lengths.map(|at| word(record, at) as usize);
    let name = |from: usize, len: usize| bytes.get(from..from.checked_add(len.checked_sub(1)?)?);
    [name(0, first), name(first, second)]
}

/// The watch over a command and all that comes of it.
pub(super) struct Watch<'a> {
    words: &'a Shared,
    maps: &'a Maps,
    to: &'a mut dyn Listener,
    /// So many calls are to be told, and have been, but for those that were read beyond.
    tell: u64,
    reported: u64,
    read: u64,
    /// Names of the call that a thread is in, where they are long: the record that has them.
    names: HashMap<u32, Vec<u8>>,
    families: Families,
    totals: Totals,
    /// The program that began in a slot.
    programs: HashMap<u64, Program>,
    /// Slots and cells that were made until the last look.
    slots_then: u64,
    cells_then: u64,
    warnings: Vec<WarningKind>,
}

/// What came of it.
pub(super) struct Summary {
    pub(super) totals: Vec<Total>,
    pub(super) reported: u64,
    pub(super) lost: u64,
    pub(super) warnings: Vec<WarningKind>,
}

impl<'a> Watch<'a> {
    pub(super) fn new(
        words: &'a Shared,
        maps: &'a Maps,
        tell: u64,
        to: &'a mut dyn Listener,
    ) -> Watch<'a> {
        Watch {
            words,
            maps,
            to,
            tell,
            reported: 0,
            read: 0,
            names: HashMap::new(),
            families: Families::default(),
            totals: Totals::default(),
            programs: HashMap::new(),
            slots_then: 0,
            cells_then: 0,
            warnings: Vec::new(),
        }
    }

    fn board(&self, word: usize) -> u64 {
        self.words
            .get(word)
            .map_or(0, |word| word.load(Ordering::Acquire))
    }

    fn say(&self, word: usize, number: u64) {
        if let Some(word) = self.words.get(word) {
            word.store(number, Ordering::Release);
        }
    }

    /// Until no metered thread is left, or the command has ended and somebody says that it is
    /// enough.
    pub(super) fn until_the_end(
        &mut self,
        running: &mut Running,
        ring: &mut Ring,
    ) -> gate::Result<Ended> {
        let mut ended = None;
        loop {
            if ended.is_none() {
                ended = running.try_wait()?;
            }
            // Before the command has made itself known there is nobody either: whether it has is to
            // be looked at first. And all that was told is in the ring when the last one is no
            // more: what is there is to be looked at last.
            let begun = ended.is_some() || self.board(board::BEGUN) != 0;
            let nobody_is_left = begun && self.board(board::LIVE) == 0;
            let heard = self.listen(ring);
            if nobody_is_left {
                break;
            }
            if running.asked_to_stop() {
                let left = self.board(board::LIVE);
                self.warnings.push(WarningKind::StillRunning(left));
                break;
            }
            if self.is_full() {
                self.harvest(false)?;
            }
            if heard > 0 {
                std::thread::sleep(BUSY);
            } else {
                self.say(board::ASLEEP, 1);
                poll([(ring.as_fd(), Event::Readable)], Some(IDLE))?;
                self.say(board::ASLEEP, 0);
            }
        }
        match ended {
            Some(ended) => Ok(ended),
            None => running.wait(),
        }
    }

    /// Takes in what the ring has.
    fn listen(&mut self, ring: &mut Ring) -> usize {
        ring.drain(|record| self.record(record))
    }

    fn record(&mut self, record: &[u8]) {
        match word(record, 0).cast_signed() {
            kind::CALL => self.call(record, true),
            kind::UNFINISHED => self.call(record, false),
            kind::NAMES => drop(self.names.insert(word(record, names::TID), record.to_vec())),
            kind::FORK => {
                let shares = word(record, fork::SHARES).cast_signed();
                let fork = Fork {
                    parent: word(record, fork::PARENT),
                    pid: word(record, fork::PID),
                    tid: word(record, fork::TID),
                    shares_files: shares & fork::FILES != 0,
                    shares_fs: shares & fork::FS != 0,
                };
                self.families.fork(&fork);
                self.to.fork(&fork);
            }
            kind::EXEC => self.exec(record),
            kind::EXIT => {
                // Ids are the two words of an entry of `tasks`.
                let (pid, tid) = (word(record, 8), word(record, 12));
                self.names.remove(&tid);
                let to = &mut *self.to;
                self.families.exit(pid, tid, |pid, tid| to.exit(pid, tid));
            }
            _ => {}
        }
    }

    fn call(&mut self, record: &[u8], returned: bool) {
        self.read += 1;
        if self.reported >= self.tell {
            return;
        }
        let told = |field: i16| field - task::RECORD;
        let tid = word(record, told(task::TID));
        let number = word(record, told(task::NUMBER));
        let lengths = [task::FIRST, task::SECOND].map(told);
        let long = if self.names.is_empty() {
            None
        } else {
            self.names.remove(&tid)
        };
        // Not those of a call before, which itself the ring had no room for.
        let is_its_own =
            |long: &Vec<u8>| word(long, names::NUMBER) == number && double(record, lengths[0]) == 0;
        let long = long.filter(is_its_own);
        let [name, other] = match &long {
            Some(record) => names_in(record, names::BYTES, [names::FIRST, names::SECOND]),
            None => names_in(record, told(task::NAMES), lengths),
        };
        let row = record
            .get(told(task::REGISTERS) as usize..)
            .unwrap_or_default();
        self.to.call(&Call {
            pid: word(record, told(task::PID)),
            tid,
            number,
            args: layout::arguments(row),
            name,
            other,
            result: returned.then(|| double(record, told(task::RESULT)).cast_signed()),
            start: double(record, told(task::START)),
            nanos: if returned {
                double(record, told(task::NANOS))
            } else {
                0
            },
        });
        self.reported += 1;
        if self.reported == self.tell {
            self.names = HashMap::new();
        }
    }

    /// A program begins. The record is a slot, with a kind in the place of its threads.
    fn exec(&mut self, record: &[u8]) {
        let (pid, inode) = (word(record, slot::PID), double(record, slot::INODE));
        let file = file_of(pid, named(record), inode);
        let program = self.totals.program(&file);
        self.programs.insert(double(record, slot::PROGRAM), program);
        // The names of this very execve.
        if let Some(names) = self.names.remove(&word(record, slot::FORMER)) {
            self.names.insert(pid, names);
        }
        self.families.exec(pid);
        self.to.exec(pid, &file);
    }

    /// The maps are filling with what has ended.
    fn is_full(&self) -> bool {
        let made = |word: usize, then: u64| self.board(word).saturating_sub(then);
        made(board::SLOTS, self.slots_then) > u64::from(self.maps.slots.entries() / 4)
            || made(board::CELLS, self.cells_then) > u64::from(self.maps.cells.entries() / 4)
    }

    /// Adds up the cells of the slots that have ended, or of all, and takes them out of the maps.
    /// Says how many calls have begun and are to be told when they end, if it is all.
    fn harvest(&mut self, all: bool) -> gate::Result<u64> {
        (self.slots_then, self.cells_then) = (self.board(board::SLOTS), self.board(board::CELLS));
        let (mut ended, mut used) = (HashMap::new(), HashSet::new());
        let Watch {
            programs, totals, ..
        } = self;
        // Slots first: one that has ended then gets no further calls, and all of its cells will be
        // seen.
        self.maps.slots.each(|key, value| {
            let (key, began) = (double(key, 0), double(value, slot::PROGRAM));
            used.insert(began);
            if all || double(value, slot::LIVE) == 0 {
                // What the ring had no room for has the name that it was called by.
                let program = programs.get(&began).copied();
                let program = program.unwrap_or_else(|| totals.program(named(value)));
                ended.insert(key, (program, word(value, slot::PID)));
            }
        })?;
        let whose = |slot: u64| {
            let unlisted = (Program::default(), 0);
            ended
                .get(&slot)
                .copied()
                .or((all && slot == 0).then_some(unlisted))
                .filter(|_| slot != slot::FIRST)
        };
        let mut gone = Vec::new();
        self.maps.cells.each(|key, value| {
            let Some((program, pid)) = whose(double(key, 0)) else {
                return;
            };
            let errno = Some(word(key, 12).cast_signed()).filter(|errno| *errno != 0);
            totals.add(
                program,
                pid,
                word(key, 8),
                double(value, 0),
                double(value, 8),
                errno,
            );
            gone.extend_from_slice(key);
        })?;
        let mut begun = 0;
        if all {
            // What the threads that go on have not put into cells yet.
            let mut seats = Vec::new();
            self.maps.taken.each(|seat, _| seats.push(word(seat, 0)))?;
            let mut value = [0; task::LEN as usize];
            for seat in seats {
                self.maps.tasks.lookup(&seat.to_ne_bytes(), &mut value)?;
                let value = &value[..];
                begun += u64::from(word(value, task::FLAGS).cast_signed() & task::TOLD != 0);
                let Some((program, pid)) = whose(double(value, task::SLOT)) else {
                    continue;
                };
                for at in (task::SUMS..task::LEN).step_by(sum::LEN as usize) {
                    let (kind, calls) = (word(value, at + sum::KIND), word(value, at + sum::CALLS));
                    if calls > 0 {
                        let (number, errno) =
                            (kind % NUMBERS as u32, (kind >> sum::ERROR).cast_signed());
                        let nanos = double(value, at + sum::NANOS);
                        totals.add(
                            program,
                            pid,
                            number,
                            calls.into(),
                            nanos,
                            Some(errno).filter(|errno| *errno != 0),
                        );
                    }
                }
            }
        }
        self.maps.cells.delete(&gone)?;
        self.maps.slots.delete(
            &ended
                .keys()
                .flat_map(|key| key.to_ne_bytes())
                .collect::<Vec<u8>>(),
        )?;
        programs.retain(|began, _| used.contains(began));
        Ok(begun)
    }

    /// Reads what is left in the ring, and adds up all that is left in the maps. Nothing comes any
    /// more.
    pub(super) fn finish(mut self, ring: &mut Ring) -> gate::Result<Summary> {
        self.listen(ring);
        let begun = self.harvest(true)?;
        let mut spilt = 0;
        for number in 0..NUMBERS {
            let at = board::SPILL + 3 * number;
            let (calls, nanos, errors) = (self.board(at), self.board(at + 1), self.board(at + 2));
            let mut add = |calls, nanos, errno| {
                if calls > 0 {
                    self.totals
                        .add(Program::default(), 0, number as u32, calls, nanos, errno);
                }
            };
            add(calls.saturating_sub(errors), nanos, None);
            add(errors, 0, Some(0));
            spilt += calls;
        }
        // Each that was to be told was read, or has not ended yet, or is lost, however that came.
        let asked =
            (self.tell.min(MOST_TOLD) as i64).saturating_sub(self.board(board::LEFT).cast_signed());
        let wanted = |calls: u64| calls.min(self.tell);
        let dropped = wanted(asked.max(0) as u64).saturating_sub(wanted(self.read + begun));
        let unheard = self.board(board::UNHEARD);
        let (unfollowed, narrow) = (self.board(board::UNFOLLOWED), self.board(board::NARROW));
        let (totals, crowded) = self.totals.finish();
        let mut warnings = self.warnings;
        warnings.extend(crowded);
        let mut warn = |number: u64, kind: fn(u64) -> WarningKind| {
            warnings.extend((number > 0).then(|| kind(number)));
        };
        warn(spilt, WarningKind::Unattributed);
        warn(dropped, WarningKind::Unreported);
        warn(unheard, WarningKind::LostEvents);
        warn(unfollowed, WarningKind::UnfollowedThreads);
        warn(narrow, WarningKind::Calls32Bit);
        Ok(Summary {
            totals,
            reported: self.reported,
            lost: dropped + unheard + unfollowed,
            warnings,
        })
    }
}

/// The name in a slot, without its NUL.
fn named(value: &[u8]) -> &[u8] {
    let name = value.get(slot::NAME as usize..).unwrap_or_default();
    let len = (word(value, slot::NAMED) as usize).min(name.len());
    name.get(..len)
        .unwrap_or_default()
        .split(|&byte| byte == 0)
        .next()
        .unwrap_or_default()
}

fn word(bytes: &[u8], at: i16) -> u32 {
    let at = at as usize;
    bytes
        .get(at..at + 4)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u32::from_ne_bytes)
}

fn double(bytes: &[u8], at: i16) -> u64 {
    let at = at as usize;
    bytes
        .get(at..at + 8)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_without_their_nul() {
        let mut record = vec![0; names::BYTES as usize];
        record[names::FIRST as usize] = 4;
        record[names::SECOND as usize] = 1;
        record.extend(b"a/b\0\0");
        let both = |record: &[u8]| {
            names_in(record, names::BYTES, [names::FIRST, names::SECOND])
                .map(|name| name.map(<[u8]>::to_vec))
        };
        assert_eq!(both(&record), [Some(b"a/b".to_vec()), Some(Vec::new())]);
        // Lengths that are not so.
        record[names::FIRST as usize] = 9;
        assert_eq!(both(&record), [None, None]);
        assert_eq!(both(&record[..9]), [None, None]);
    }

    #[test]
    fn the_name_of_a_slot_ends_where_it_says() {
        let mut value = vec![0; slot::LEN as usize];
        value[slot::NAME as usize..][..9].copy_from_slice(b"/bin/true");
        value[slot::NAMED as usize] = 10;
        assert_eq!(named(&value), b"/bin/true");
        value[slot::NAMED as usize] = 5;
        assert_eq!(
            (named(&value), named(&value[..40]), named(b"")),
            (&b"/bin/"[..], &b"/bin/"[..], &b""[..])
        );
    }
}
