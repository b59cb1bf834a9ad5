//! Redundant patterns: calls for information that is known already, or many calls where one would
//! do. docs/account.md defines them.
//!
//! Patterns are found in the stream of calls, by remembering calls per file and per opening. If
//! memory is short, patterns may be missed, but there are no false ones.

mod kinds;
mod memory;

use std::hash::{DefaultHasher, Hasher};

use foldhash::HashMap;
use gate::Errno;

pub use self::kinds::{FoundPattern, Pattern, PatternFix};
pub(crate) use self::memory::{AvoidedCalls, SeenCall};
use self::memory::{
    CallCost, File, FileFrequencies, LastStat, OpenCount, OpenFileState, READS, SMALL,
    SmallTransfers, WRITES,
};
use crate::prices::PriceKind;
use meter::syscalls::Kind;

/// The maximum bytes of entries in a tiny directory: about 30 short names.
const TINY: i64 = 1024;
/// Minimum number of lookups in one directory by long paths that make a pattern; also of opens of
/// one file.
const MANY: u32 = 8;
/// Minimum number of components of a long path.
const LONG: u64 = 4;
/// The maximum number of opened files that are remembered; also of directories, and of stats.
const MOST: usize = 16_384;

/// Finds redundant patterns in a stream of calls.
#[derive(Debug, Default)]
pub struct Patterns {
    found: [FoundPattern; Pattern::ALL.len()],
    frequencies: [FileFrequencies; Pattern::ALL.len()],
    spared: [AvoidedCalls; PatternFix::ALL.len()],
    files: Vec<File>,
    /// The last stats of files by processes other than the last one, by file and process. Most
    /// files are used by one process only, whose stat is in `files`.
    others: HashMap<(u32, u32), LastStat>,
    openings: HashMap<u64, OpenFileState>,
    /// Lookups by long paths and their time, by process and a hash of the directory.
    long: HashMap<(u32, u64), (u32, u64)>,
}

impl Patterns {
    /// The patterns found, with their counts.
    pub fn found(&self) -> impl Iterator<Item = (Pattern, &FoundPattern)> {
        Pattern::ALL.into_iter().zip(&self.found)
    }

    pub(crate) fn get(&self, pattern: Pattern) -> &FoundPattern {
        &self.found[pattern as usize]
    }

    pub(crate) fn avoided_calls(&self, by: PatternFix) -> &AvoidedCalls {
        &self.spared[by as usize]
    }

    /// Multiplies all times by a factor.
    pub(crate) fn scale(&mut self, by: f64) {
        let scale = |nanos: &mut u64| *nanos = (*nanos as f64 * by).round() as u64;
        self.found
            .iter_mut()
            .for_each(|found| scale(&mut found.nanos));
        self.spared
            .iter_mut()
            .for_each(|spared| scale(&mut spared.nanos));
    }

    /// Forgets the lookups of a process that exits.
    pub(crate) fn exit(&mut self, pid: u32) {
        if self.long.len() > MOST / 2 {
            self.long.retain(|(process, _), _| *process != pid);
        }
        if self.others.len() > MOST / 2 {
            self.others.retain(|(_, process), _| *process != pid);
        }
    }

    pub(crate) fn call(&mut self, seen: &SeenCall<'_>) {
        if matches!(seen.sort, PriceKind::Miss | PriceKind::OpenMiss) {
            self.miss(seen);
        }
        self.long_name(seen);
        match seen.syscall.kind {
            // file_getattr(2) returns other attributes than stat.
            Kind::Stat if seen.syscall.name != "file_getattr" => self.stat(seen),
            Kind::Open => self.open(seen),
            Kind::Close => self.close(seen),
            Kind::Xattr => self.xattr(seen),
            Kind::List => self.list(seen),
            Kind::Read => self.transfer(seen, READS),
            Kind::Write => self.write(seen),
            Kind::Sync => self.sync(seen),
            Kind::Seek => self.seek(seen),
            Kind::Change | Kind::Copy | Kind::Mount => self.change(seen),
            // Calls that configure a descriptor without using its file.
            Kind::Descriptor => {}
            _ => {
                self.uses(seen);
            }
        }
        if let Some(base) = seen.about.base {
            self.opening(base).used = true;
        }
    }

    fn find(&mut self, pattern: Pattern, seen: &SeenCall<'_>, count: u64) {
        let found = &mut self.found[pattern as usize];
        found.count += count;
        let is_example = match seen.file {
            Some(file) => self.frequencies[pattern as usize].add(file, count),
            None => found.example.is_none(),
        };
        if is_example {
            let name = seen.about.name.as_deref().or(seen.call.name);
            found.example = name.map(<[u8]>::to_vec);
        }
    }

    fn redundant(&mut self, pattern: Pattern, it: &CallCost) {
        let found = &mut self.found[pattern as usize];
        found.calls += 1;
        found.nanos += it.nanos;
    }

    /// Subtracts a call that was counted as redundant, because other calls are counted in its
    /// place.
    fn not_redundant(&mut self, pattern: Pattern, it: &CallCost) {
        let found = &mut self.found[pattern as usize];
        found.calls = found.calls.saturating_sub(1);
        found.nanos = found.nanos.saturating_sub(it.nanos);
    }

    fn avoided_calls_mut(&mut self, by: PatternFix) -> &mut AvoidedCalls {
        &mut self.spared[by as usize]
    }

    fn file(&mut self, file: u32) -> &mut File {
        let at = file as usize;
        if self.files.len() <= at {
            if at >= self.files.capacity() {
                // Reserve room explicitly, because doubling copies three times as much.
                self.files.reserve((3 * at).max(MOST));
            }
            self.files.resize_with(at + 1, File::default);
        }
        &mut self.files[at]
    }

    fn opening(&mut self, opened: u64) -> &mut OpenFileState {
        if self.openings.len() >= MOST && !self.openings.contains_key(&opened) {
            self.openings.clear();
        }
        self.openings.entry(opened).or_default()
    }

    fn uses(&mut self, seen: &SeenCall<'_>) -> Option<&mut OpenFileState> {
        let opening = self.opening(seen.about.opened?);
        opening.used = true;
        Some(opening)
    }

    fn miss(&mut self, seen: &SeenCall<'_>) {
        let it = seen.cost();
        self.find(Pattern::Miss, seen, 1);
        self.redundant(Pattern::Miss, &it);
        if let Some(file) = seen.file
            && std::mem::replace(&mut self.file(file).missed, true)
        {
            self.avoided_calls_mut(PatternFix::CacheMisses).add(&it);
        }
    }

    /// Forgets the stats of a file when it changes. A descriptor of the file would still serve, so
    /// its opens remain.
    fn changed(&mut self, file: u32) {
        let file = self.file(file);
        *file = File {
            changes: file.changes.wrapping_add(1),
            opens: file.opens,
            ..File::default()
        };
    }

    /// Records a change of a file, or of an entry of its directory.
    fn change(&mut self, seen: &SeenCall<'_>) {
        if let Some(opening) = self.uses(seen) {
            opening.answered = None;
        }
        if seen.done() {
            let files = [seen.file, seen.other, seen.parent].into_iter().flatten();
            files.for_each(|file| {
                self.changed(file);
                self.file(file).opens = None; // a name may stand for a different file now
            });
        }
    }

    fn stat(&mut self, seen: &SeenCall<'_>) {
        let (it, pid) = (seen.cost(), seen.call.pid);
        if !seen.done() {
            return;
        }
        if seen.about.by_name {
            let Some(file) = seen.file else { return };
            let before = self.last_stat(file, pid).is_some();
            let held = self.file(file);
            held.missed = false;
            held.asked = Some(LastStat {
                pid,
                call: it,
                opened: false,
                changes: held.changes,
            });
            if before {
                self.repeated(seen, &it);
            }
            return;
        }
        let Some(opened) = seen.about.opened else {
            return;
        };
        let changes = seen.file.map_or(0, |file| self.file(file).changes);
        let opening = self.opening(opened);
        opening.fstat = Some(it);
        let again = opening.answered.replace(changes) == Some(changes);
        if let Some(first) = opening.asked.take() {
            opening.chain = Some(first);
            self.find(Pattern::StatOpenFstat, seen, 1);
            self.redundant(Pattern::StatOpenFstat, &first);
            self.avoided_calls_mut(PatternFix::CombineStat).add(&first);
        } else if again {
            self.repeated(seen, &it);
        }
    }

    /// The last stat by name of a file by a process, if the file has not changed since. Moves this
    /// stat into `files`, in exchange for the stat of a different process.
    fn last_stat(&mut self, file: u32, pid: u32) -> Option<&mut LastStat> {
        if self.file(file).asked.is_none() && self.others.is_empty() {
            return None; // the usual case; copying a just written value would stall on memory
        }
        let held = self.file(file);
        let (changes, last) = (held.changes, held.asked);
        if last.is_none_or(|last| last.pid != pid) {
            let before = self.others.remove(&(file, pid));
            let before = before.filter(|asked| asked.changes == changes);
            if let Some(last) = last {
                if self.others.len() >= MOST {
                    self.others.clear();
                }
                self.others.insert((file, last.pid), last);
            }
            self.file(file).asked = before;
        }
        self.file(file).asked.as_mut()
    }

    fn repeated(&mut self, seen: &SeenCall<'_>, it: &CallCost) {
        self.find(Pattern::RepeatedStat, seen, 1);
        self.redundant(Pattern::RepeatedStat, it);
        self.avoided_calls_mut(PatternFix::KeepStat).add(it);
    }

    fn open(&mut self, seen: &SeenCall<'_>) {
        /// O_WRONLY | O_RDWR | O_CREAT | O_TRUNC: the call may change the file.
        const CHANGES: u64 = 0o1103;
        /// O_TRUNC
        const TRUNCATES: u64 = 0o1000;
        if !seen.done() {
            return;
        }
        let flags = match seen.syscall.name {
            "open" => seen.call.args[1],
            "openat" | "open_tree" => seen.call.args[2],
            _ => CHANGES, // the flags of openat2 are in process memory
        };
        let it = seen.cost();
        let Some(file) = seen.file else { return };
        if flags & CHANGES != 0 {
            self.changed(file);
            seen.parent.into_iter().for_each(|dir| self.changed(dir));
        }
        self.file(file).missed = false;
        match flags & TRUNCATES {
            0 => self.count_open(file, seen),
            _ => self.file(file).opens = None,
        }
        let asked = self.last_stat(file, seen.call.pid);
        let asked = asked.filter(|asked| !asked.opened).map(|asked| {
            asked.opened = true;
            asked.call
        });
        if let Some(opened) = seen.about.opened {
            *self.opening(opened) = OpenFileState {
                asked,
                open: Some(it),
                ..OpenFileState::default()
            };
        }
    }

    /// Counts an open. From [`MANY`] opens on, each after the first is redundant. Fewer are common:
    /// each program that a process executes opens the same libraries.
    fn count_open(&mut self, file: u32, seen: &SeenCall<'_>) {
        if is_device(seen) {
            return;
        }
        let (pid, nanos) = (seen.call.pid, seen.call.nanos);
        let held = self.file(file);
        let before = held.opens.filter(|opens| opens.pid == pid);
        let opens = OpenCount {
            pid,
            times: before.map_or(1, |opens| opens.times.saturating_add(1)),
            nanos: before.map_or(0, |opens| opens.nanos + nanos),
        };
        held.opens = Some(opens);
        let (calls, nanos) = match opens.times {
            MANY => (MANY - 1, opens.nanos),
            more if more > MANY => (1, nanos),
            _ => return,
        };
        self.find(Pattern::RepeatedOpen, seen, calls.into());
        let found = &mut self.found[Pattern::RepeatedOpen as usize];
        found.calls += u64::from(calls);
        found.nanos += nanos;
    }

    fn close(&mut self, seen: &SeenCall<'_>) {
        let opening = seen.about.opened;
        let opening = opening.and_then(|opened| self.openings.remove(&opened));
        let Some(opening) = opening.filter(|opening| !opening.used) else {
            return;
        };
        let Some(open) = opening.open else { return };
        let close = seen.cost();
        match (opening.fstat, opening.chain) {
            // The file was opened for fstat only, after a stat by name.
            (Some(fstat), Some(first)) if opening.xattrs == 0 => {
                self.not_redundant(Pattern::StatOpenFstat, &first);
                self.avoided_calls_mut(PatternFix::CombineStat).take(&first);
                for it in [open, fstat, close] {
                    self.redundant(Pattern::StatOpenFstat, &it);
                    self.avoided_calls_mut(PatternFix::CombineStat).add(&it);
                }
            }
            // The file was opened for extended attributes only, which can be read by name.
            (None, _) if opening.xattrs > 0 => {
                for it in [open, close] {
                    self.avoided_calls_mut(PatternFix::CombineXattr).add(&it);
                }
            }
            _ => {}
        }
    }

    fn xattr(&mut self, seen: &SeenCall<'_>) {
        if let Some(opened) = seen.about.opened {
            self.opening(opened).xattrs += 1;
        }
        let none = match seen.call.result {
            Some(0) => seen.syscall.name.contains("listxattr"),
            _ => {
                let errno = seen.call.errno().map(Errno);
                matches!(errno, Some(Errno::ENODATA | Errno::EOPNOTSUPP))
            }
        };
        if !none {
            return;
        }
        let (it, pid) = (seen.cost(), seen.call.pid);
        self.find(Pattern::NoXattr, seen, 1);
        self.redundant(Pattern::NoXattr, &it);
        self.avoided_calls_mut(PatternFix::SkipXattr).add(&it);
        if let Some(file) = seen.file
            && self.file(file).no_xattr.replace(pid) == Some(pid)
        {
            self.avoided_calls_mut(PatternFix::CombineXattr).add(&it);
        }
    }

    fn list(&mut self, seen: &SeenCall<'_>) {
        let Some(listed) = seen.call.result.filter(|_| seen.done()) else {
            return;
        };
        let Some(opening) = self.uses(seen) else {
            return;
        };
        if listed > 0 {
            opening.lists += 1;
            opening.listed = listed;
        } else if std::mem::take(&mut opening.lists) == 1 && opening.listed <= TINY {
            self.find(Pattern::TinyDirectory, seen, 1);
            self.redundant(Pattern::TinyDirectory, &seen.cost());
        }
    }

    fn write(&mut self, seen: &SeenCall<'_>) {
        if let Some(file) = seen.file {
            self.changed(file);
        }
        self.transfer(seen, WRITES);
        if let Some(bytes) = seen.result()
            && let Some(opened) = seen.about.opened
        {
            let opening = self.opening(opened);
            opening.answered = None;
            opening.unsynced = opening.unsynced.saturating_add(bytes);
        }
    }

    /// Records a read or a write.
    fn transfer(&mut self, seen: &SeenCall<'_>, which: usize) {
        let pattern = [Pattern::SmallReads, Pattern::SmallWrites][which];
        let (asked, at) = match seen.syscall.name {
            "read" | "write" => (seen.call.args[2], None),
            "pread64" | "pwrite64" => (seen.call.args[2], Some(seen.call.args[3])),
            // Vector calls: the lengths are in process memory, so use the result. An offset of -1
            // in preadv2 and pwritev2 means the file offset.
            name => {
                let has_offset = matches!(name, "preadv" | "pwritev" | "preadv2" | "pwritev2");
                let at = seen.call.args[3];
                let at = (has_offset && at != u64::MAX).then_some(at);
                (seen.result().unwrap_or(0), at)
            }
        };
        let bytes = seen.result().filter(|bytes| *bytes > 0);
        let Some(opening) = self.uses(seen) else {
            return;
        };
        opening.transfers[1 - which] = SmallTransfers::default();
        if at.is_none() {
            opening.at = opening.at.saturating_add(bytes.unwrap_or_default());
        }
        let Some(bytes) = bytes.filter(|_| asked < SMALL && !is_device(seen)) else {
            opening.transfers[which] = SmallTransfers::default();
            return;
        };
        let (calls, redundant) = opening.transfers[which].small(bytes, at);
        if calls > 1 {
            self.find(pattern, seen, if calls == 2 { 2 } else { 1 });
        }
        if redundant {
            let it = seen.cost();
            self.redundant(pattern, &it);
            self.avoided_calls_mut(PatternFix::Buffer).add(&it);
        }
    }

    /// Records a seek: if it moves the file offset, the next transfer is not consecutive.
    fn seek(&mut self, seen: &SeenCall<'_>) {
        let Some(opening) = self.uses(seen) else {
            return;
        };
        if let Some(to) = seen.result().filter(|_| seen.syscall.name == "lseek")
            && std::mem::replace(&mut opening.at, to) != to
        {
            let transfers = opening.transfers.iter_mut();
            transfers
                .filter(|row| row.next.is_none())
                .for_each(|row| *row = SmallTransfers::default());
        }
    }

    fn sync(&mut self, seen: &SeenCall<'_>) {
        let Some(opening) = self.uses(seen) else {
            return;
        };
        opening.transfers[WRITES] = SmallTransfers::default();
        let bytes = std::mem::take(&mut opening.unsynced);
        if !matches!(seen.syscall.name, "fsync" | "fdatasync") || bytes == 0 || bytes >= SMALL {
            return;
        }
        opening.syncs += 1;
        let syncs = opening.syncs;
        if syncs > 1 {
            let it = seen.cost();
            self.find(Pattern::SmallSyncs, seen, if syncs == 2 { 2 } else { 1 });
            self.redundant(Pattern::SmallSyncs, &it);
            self.avoided_calls_mut(PatternFix::SyncOnce).add(&it);
        }
    }

    fn long_name(&mut self, seen: &SeenCall<'_>) {
        let looks = matches!(
            seen.syscall.kind,
            Kind::Open | Kind::Stat | Kind::Access | Kind::Xattr
        );
        let Some(name) = seen.call.name.filter(|_| looks && seen.about.by_name) else {
            return;
        };
        let slash = name.iter().rposition(|&b| b == b'/');
        let Some(at) = slash.filter(|_| seen.parts + 1 >= LONG) else {
            return;
        };
        if self.long.len() >= MOST {
            self.long.clear();
        }
        let mut hash = DefaultHasher::new();
        hash.write(name.get(..at).unwrap_or_default());
        let (times, nanos) = self.long.entry((seen.call.pid, hash.finish())).or_default();
        *times = times.saturating_add(1);
        *nanos += seen.call.nanos;
        // When the number of lookups reaches the threshold, count the earlier lookups too.
        let (count, nanos) = match *times {
            MANY => (MANY, *nanos),
            more if more > MANY => (1, seen.call.nanos),
            _ => return,
        };
        self.find(Pattern::LongNames, seen, u64::from(count));
        let found = &mut self.found[Pattern::LongNames as usize];
        found.nanos += nanos;
        self.avoided_calls_mut(PatternFix::DirectoryFd).work.add(
            PriceKind::Other,
            0,
            u64::from(count) * seen.parts,
        );
    }
}

/// Whether the file is a device such as a terminal, or has no known name. Small reads of a device
/// are not redundant, because it returns the data that is ready.
fn is_device(seen: &SeenCall<'_>) -> bool {
    let name = seen.about.name.as_deref();
    name.is_none_or(|name| name.starts_with(b"/dev/"))
}

#[cfg(test)]
mod tests;
