//! Redundant patterns: calls that ask what is known already, or that come singly where one would do
//! for many.
//!
//! Each is found in the stream of calls as it comes, by what is remembered of each file and of each
//! opening of one; what is not remembered any more is not found, and nothing is found that was not
//! there. docs/account.md defines them for users; the words here are the same.

use std::hash::{DefaultHasher, Hasher};

use foldhash::HashMap;
use gate::Errno;

use crate::prices::{Sort, Work};
use meter::call::Call;
use meter::names::Subject;
use meter::names::components;
use meter::syscalls::{Kind, Syscall};

/// A redundant pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// A file is asked for by name, opened by the same name, and then its descriptor is asked: the
    /// first and the last say the same. If nothing else is done with the descriptor, the opening
    /// was in vain.
    StatOpenFstat,
    /// A file is asked for again, by the same process, and nobody metered has changed it.
    RepeatedStat,
    /// A look-up by name ends in `ENOENT` or `ENOTDIR`.
    Miss,
    /// A call for extended attributes finds none: `ENODATA`, `EOPNOTSUPP`, or an empty list.
    NoXattr,
    /// A directory with few entries is listed by two calls, the second of which says that there are
    /// no more.
    TinyDirectory,
    /// Reads of under 4 KiB, one behind the other.
    SmallReads,
    /// Writes of under 4 KiB, one behind the other.
    SmallWrites,
    /// fsync(2) after each few bytes.
    SmallSyncs,
    /// Many files of one directory are looked up by long names, by one process.
    LongNames,
}

impl Pattern {
    /// Every one, in the order of the enum.
    pub const ALL: [Pattern; 9] = [
        Pattern::StatOpenFstat,
        Pattern::RepeatedStat,
        Pattern::Miss,
        Pattern::NoXattr,
        Pattern::TinyDirectory,
        Pattern::SmallReads,
        Pattern::SmallWrites,
        Pattern::SmallSyncs,
        Pattern::LongNames,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Pattern::StatOpenFstat => "stat-open-fstat",
            Pattern::RepeatedStat => "repeated-stat",
            Pattern::Miss => "miss",
            Pattern::NoXattr => "no-xattr",
            Pattern::TinyDirectory => "tiny-directory",
            Pattern::SmallReads => "small-reads",
            Pattern::SmallWrites => "small-writes",
            Pattern::SmallSyncs => "small-syncs",
            Pattern::LongNames => "long-names",
        }
    }
}

/// Bytes under which a read, a write, or all that was written before an fsync is small: a page.
pub const SMALL: u64 = 4096;
/// Bytes of entries that a tiny directory has at most: about 30 short names.
pub const TINY: i64 = 1024;
/// Look-ups in one directory by long names from which on they are many.
pub const MANY: u32 = 8;
/// Components of a long name.
pub const LONG: u64 = 4;
/// Openings, and directories, that are remembered.
const MOST: usize = 16_384;

/// What was found of a pattern.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// How often.
    pub count: u64,
    /// Redundant calls in it.
    pub calls: u64,
    /// Time in them, as it was metered, in nanoseconds.
    pub nanos: u64,
    /// The name of one file with which it happened.
    pub example: Option<Vec<u8>>,
}

/// A change of a program that takes away what is redundant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Spare {
    /// One stat for stat, open, fstat and close.
    CombineStat,
    /// One question for all extended attributes of a file, by name.
    CombineXattr,
    /// What was asked is remembered.
    KeepStat,
    /// What is not there is remembered.
    CacheMisses,
    /// Reads and writes of a page at least.
    Buffer,
    /// One fsync for each opening.
    SyncOnce,
    /// Names that begin in an open directory.
    DirectoryFd,
}

impl Spare {
    /// Every one, in the order of the enum.
    pub const ALL: [Spare; 7] = [
        Spare::CombineStat,
        Spare::CombineXattr,
        Spare::KeepStat,
        Spare::CacheMisses,
        Spare::Buffer,
        Spare::SyncOnce,
        Spare::DirectoryFd,
    ];
}

/// Calls that would go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spared {
    /// Which.
    pub work: Work,
    /// Time in them, as it was metered, in nanoseconds.
    pub nanos: u64,
}

impl Spared {
    fn add(&mut self, it: &Once) {
        self.work.add(it.sort, 1, it.parts);
        self.nanos += it.nanos;
    }

    fn take(&mut self, it: &Once) {
        self.work.take(it.sort, 1, it.parts);
        self.nanos = self.nanos.saturating_sub(it.nanos);
    }
}

/// One call that was made.
#[derive(Clone, Copy, Debug)]
struct Once {
    sort: Sort,
    parts: u64,
    nanos: u64,
}

/// A question by name.
#[derive(Clone, Copy, Debug)]
struct Asked {
    pid: u32,
    call: Once,
    /// The file was opened after it.
    opened: bool,
    /// How often the file had changed by then.
    changes: u32,
}

/// What is remembered of a file.
#[derive(Clone, Copy, Debug, Default)]
struct File {
    /// It has been asked for by name, and nobody has changed it since.
    asked: Option<Asked>,
    /// It was not there.
    missed: bool,
    /// The process that has learned that it has no extended attributes, or not that one.
    no_xattr: Option<u32>,
    /// How often it has changed.
    changes: u32,
}

/// What is remembered of an opening.
#[derive(Clone, Debug, Default)]
struct Opening {
    /// The process has asked for it by name before it opened it so, and has not asked the
    /// descriptor yet: that call.
    asked: Option<Once>,
    /// That call, when it has asked the descriptor as well.
    chain: Option<Once>,
    /// The opening itself, if it was seen.
    open: Option<Once>,
    /// Its descriptor has been asked: that call.
    fstat: Option<Once>,
    /// How often the file had changed by then; `None` when it has been changed by this descriptor
    /// since.
    answered: Option<u32>,
    /// Calls for extended attributes on it.
    xattrs: u32,
    /// Something else was done with it.
    used: bool,
    /// Listings, and the bytes of the first.
    lists: u32,
    listed: i64,
    reads: SmallTransfers,
    writes: SmallTransfers,
    /// Where the next read or write begins that does not say where, as far as it was seen.
    at: u64,
    /// Bytes written since the last fsync, and fsyncs that came after few.
    unsynced: u64,
    syncs: u64,
}

/// Consecutive small reads or writes, each beginning where the one before ended.
#[derive(Clone, Copy, Debug, Default)]
struct SmallTransfers {
    calls: u64,
    bytes: u64,
    /// Where the next one would begin; only of those that say where they begin.
    next: Option<u64>,
}

impl SmallTransfers {
    /// Takes a small call, and gives how many there are now, and whether one more is redundant:
    /// with calls of a page, as many as there are pages would do.
    fn small(&mut self, bytes: u64, at: Option<u64>) -> (u64, bool) {
        if self.calls > 0 && at != self.next {
            *self = SmallTransfers::default();
        }
        let spared =
            |row: &SmallTransfers| row.calls.saturating_sub(row.bytes.div_ceil(SMALL).max(1));
        let before = spared(self);
        self.calls += 1;
        self.bytes += bytes;
        self.next = at.map(|at| at + bytes);
        (self.calls, spared(self) > before)
    }
}

/// A call, and what is known of its file.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The call.
    pub call: &'a Call<'a>,
    /// What it is.
    pub syscall: &'static Syscall,
    /// What it is about.
    pub about: &'a Subject,
    /// Its sort.
    pub sort: Sort,
    /// The number of its file, where it has one.
    pub file: Option<u32>,
    /// The number of the other file.
    pub other: Option<u32>,
    /// The number of the directory that the file is in, of a call that may change what is in it.
    pub parent: Option<u32>,
}

impl Seen<'_> {
    fn once(&self) -> Once {
        let name = self.call.name.filter(|_| self.about.by_name);
        let parts = name.map_or(0, |name| components(name).saturating_sub(1));
        Once {
            sort: self.sort,
            parts,
            nanos: self.call.nanos,
        }
    }

    fn done(&self) -> bool {
        self.call.result.is_some() && self.call.errno().is_none()
    }

    fn failed_with(&self, errnos: &[Errno]) -> bool {
        self.call
            .errno()
            .is_some_and(|errno| errnos.contains(&Errno(errno)))
    }

    /// The name of its file, as well as it is known.
    fn example(&self) -> Option<Vec<u8>> {
        self.about
            .name
            .as_deref()
            .or(self.call.name)
            .map(<[u8]>::to_vec)
    }
}

/// Finds patterns.
#[derive(Debug, Default)]
pub struct Patterns {
    found: [Found; Pattern::ALL.len()],
    spared: [Spared; Spare::ALL.len()],
    files: Vec<File>,
    /// Questions that other processes have asked since, by file and process: most files are asked
    /// for by one only.
    others: HashMap<(u32, u32), Asked>,
    openings: HashMap<u64, Opening>,
    /// Look-ups by long names and the time in them, by process and a hash of the directory.
    long: HashMap<(u32, u64), (u32, u64)>,
}

impl Patterns {
    /// What was found of each pattern.
    pub fn found(&self) -> impl Iterator<Item = (Pattern, &Found)> {
        Pattern::ALL.into_iter().zip(&self.found)
    }

    /// What each change would spare.
    pub fn spared(&self, by: Spare) -> &Spared {
        &self.spared[by as usize]
    }

    /// A process is no more: what it has looked up is forgotten.
    pub fn exit(&mut self, pid: u32) {
        if self.long.len() > MOST / 2 {
            self.long.retain(|(process, _), _| *process != pid);
        }
        if self.others.len() > MOST / 2 {
            self.others.retain(|(_, process), _| *process != pid);
        }
    }

    /// A call.
    pub fn call(&mut self, seen: &Seen<'_>) {
        if seen.sort == Sort::Miss {
            self.miss(seen);
        }
        self.long_name(seen);
        match seen.syscall.kind {
            // Its attributes are not what stat gives.
            Kind::Stat if seen.syscall.name != "file_getattr" => self.stat(seen),
            Kind::Open => self.open(seen),
            Kind::Close => self.close(seen),
            Kind::Xattr => self.xattr(seen),
            Kind::List => self.list(seen),
            Kind::Read => self.read(seen),
            Kind::Write => self.write(seen),
            Kind::Sync => self.sync(seen),
            Kind::Seek => self.seek(seen),
            Kind::Change | Kind::Copy | Kind::Mount => self.change(seen),
            // What sets up a descriptor does nothing with its file.
            Kind::Descriptor => {}
            _ => {
                self.uses(seen);
            }
        }
        if let Some(base) = seen.about.base {
            self.opening(base).used = true;
        }
    }

    fn find(&mut self, pattern: Pattern, seen: &Seen<'_>, count: u64) {
        let found = &mut self.found[pattern as usize];
        found.count += count;
        if found.example.is_none() {
            found.example = seen.example();
        }
    }

    fn redundant(&mut self, pattern: Pattern, it: &Once) {
        let found = &mut self.found[pattern as usize];
        found.calls += 1;
        found.nanos += it.nanos;
    }

    /// It was redundant in another way than it seemed.
    fn pardon(&mut self, pattern: Pattern, it: &Once) {
        let found = &mut self.found[pattern as usize];
        found.calls = found.calls.saturating_sub(1);
        found.nanos = found.nanos.saturating_sub(it.nanos);
    }

    fn spare(&mut self, by: Spare) -> &mut Spared {
        &mut self.spared[by as usize]
    }

    fn file(&mut self, file: u32) -> &mut File {
        let at = file as usize;
        if self.files.len() <= at {
            self.files.resize(at + 1, File::default());
        }
        &mut self.files[at]
    }

    fn opening(&mut self, opened: u64) -> &mut Opening {
        if self.openings.len() >= MOST && !self.openings.contains_key(&opened) {
            self.openings.clear();
        }
        self.openings.entry(opened).or_default()
    }

    fn uses(&mut self, seen: &Seen<'_>) -> Option<&mut Opening> {
        let opening = self.opening(seen.about.opened?);
        opening.used = true;
        Some(opening)
    }

    fn miss(&mut self, seen: &Seen<'_>) {
        let it = seen.once();
        self.find(Pattern::Miss, seen, 1);
        self.redundant(Pattern::Miss, &it);
        if let Some(file) = seen.file
            && std::mem::replace(&mut self.file(file).missed, true)
        {
            self.spare(Spare::CacheMisses).add(&it);
        }
    }

    /// Something became of a file: what was learned of it holds no longer.
    fn changed(&mut self, file: u32) {
        let file = self.file(file);
        *file = File {
            changes: file.changes.wrapping_add(1),
            ..File::default()
        };
    }

    /// A file was changed, or the directory that it is in.
    fn change(&mut self, seen: &Seen<'_>) {
        if let Some(opening) = self.uses(seen) {
            opening.answered = None;
        }
        if seen.done() {
            [seen.file, seen.other, seen.parent]
                .into_iter()
                .flatten()
                .for_each(|file| self.changed(file));
        }
    }

    fn stat(&mut self, seen: &Seen<'_>) {
        let (it, pid) = (seen.once(), seen.call.pid);
        if !seen.done() {
            return;
        }
        if seen.about.by_name {
            let Some(file) = seen.file else { return };
            let before = self.asked(file, pid).is_some();
            let held = self.file(file);
            held.missed = false;
            held.asked = Some(Asked {
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
            self.spare(Spare::CombineStat).add(&first);
        } else if again {
            self.repeated(seen, &it);
        }
    }

    /// What a process has asked of a file by its name, if that still holds: from now on in the file
    /// itself, in the place of what another one has asked.
    fn asked(&mut self, file: u32, pid: u32) -> Option<&mut Asked> {
        let (changes, last) = (self.file(file).changes, self.file(file).asked);
        if last.is_none_or(|last| last.pid != pid) {
            let before = self
                .others
                .remove(&(file, pid))
                .filter(|asked| asked.changes == changes);
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

    fn repeated(&mut self, seen: &Seen<'_>, it: &Once) {
        self.find(Pattern::RepeatedStat, seen, 1);
        self.redundant(Pattern::RepeatedStat, it);
        self.spare(Spare::KeepStat).add(it);
    }

    fn open(&mut self, seen: &Seen<'_>) {
        /// Where its flags say that it may change the file, and where they are not to be seen.
        const CHANGES: u64 = 0o1103; // O_WRONLY | O_RDWR | O_CREAT | O_TRUNC
        if !seen.done() {
            return;
        }
        let flags = match seen.syscall.name {
            "open" => seen.call.args[1],
            "openat" | "open_tree" => seen.call.args[2],
            _ => CHANGES,
        };
        let it = seen.once();
        let Some(file) = seen.file else { return };
        if flags & CHANGES != 0 {
            [Some(file), seen.parent]
                .into_iter()
                .flatten()
                .for_each(|file| self.changed(file));
        }
        self.file(file).missed = false;
        let asked = self
            .asked(file, seen.call.pid)
            .filter(|asked| !asked.opened);
        let asked = asked.map(|asked| {
            asked.opened = true;
            asked.call
        });
        if let Some(opened) = seen.about.opened {
            *self.opening(opened) = Opening {
                asked,
                open: Some(it),
                ..Opening::default()
            };
        }
    }

    fn close(&mut self, seen: &Seen<'_>) {
        let Some(opening) = seen
            .about
            .opened
            .and_then(|opened| self.openings.remove(&opened))
        else {
            return;
        };
        let Opening {
            open: Some(open),
            used: false,
            ..
        } = opening
        else {
            return;
        };
        let close = seen.once();
        match (opening.fstat, opening.chain) {
            // Opened to be asked, though it had been asked by name.
            (Some(fstat), Some(first)) if opening.xattrs == 0 => {
                self.pardon(Pattern::StatOpenFstat, &first);
                self.spare(Spare::CombineStat).take(&first);
                for it in [open, fstat, close] {
                    self.redundant(Pattern::StatOpenFstat, &it);
                    self.spare(Spare::CombineStat).add(&it);
                }
            }
            // Opened to be asked for attributes, which a name does as well.
            (None, _) if opening.xattrs > 0 => {
                for it in [open, close] {
                    self.spare(Spare::CombineXattr).add(&it);
                }
            }
            _ => {}
        }
    }

    fn xattr(&mut self, seen: &Seen<'_>) {
        if let Some(opened) = seen.about.opened {
            self.opening(opened).xattrs += 1;
        }
        let none = match seen.call.result {
            Some(0) => seen.syscall.name.contains("listxattr"),
            _ => seen.failed_with(&[Errno::ENODATA, Errno::EOPNOTSUPP]),
        };
        if !none {
            return;
        }
        let (it, pid) = (seen.once(), seen.call.pid);
        self.find(Pattern::NoXattr, seen, 1);
        self.redundant(Pattern::NoXattr, &it);
        if let Some(file) = seen.file
            && self.file(file).no_xattr.replace(pid) == Some(pid)
        {
            self.spare(Spare::CombineXattr).add(&it);
        }
    }

    fn list(&mut self, seen: &Seen<'_>) {
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
            self.redundant(Pattern::TinyDirectory, &seen.once());
        }
    }

    fn read(&mut self, seen: &Seen<'_>) {
        self.in_row(
            seen,
            Pattern::SmallReads,
            |opening| &mut opening.reads,
            |opening| &mut opening.writes,
        );
    }

    fn write(&mut self, seen: &Seen<'_>) {
        if let Some(file) = seen.file {
            self.changed(file);
        }
        self.in_row(
            seen,
            Pattern::SmallWrites,
            |opening| &mut opening.writes,
            |opening| &mut opening.reads,
        );
        if let Some(bytes) = seen
            .call
            .result
            .and_then(|result| u64::try_from(result).ok())
            && let Some(opened) = seen.about.opened
        {
            let opening = self.opening(opened);
            opening.answered = None;
            opening.unsynced = opening.unsynced.saturating_add(bytes);
        }
    }

    fn in_row(
        &mut self,
        seen: &Seen<'_>,
        pattern: Pattern,
        row: fn(&mut Opening) -> &mut SmallTransfers,
        other: fn(&mut Opening) -> &mut SmallTransfers,
    ) {
        let (asked, at) = match seen.syscall.name {
            "read" | "write" => (seen.call.args[2], None),
            "pread64" | "pwrite64" => (seen.call.args[2], Some(seen.call.args[3])),
            // The lengths are in memory that is not ours: what was done must do. Of the second of
            // each kind, -1 is no place.
            name => {
                let at = matches!(name, "preadv" | "pwritev" | "preadv2" | "pwritev2")
                    .then_some(seen.call.args[3]);
                (
                    seen.call.result.map_or(0, |result| result.max(0) as u64),
                    at.filter(|at| *at != u64::MAX),
                )
            }
        };
        let bytes = seen
            .call
            .result
            .and_then(|result| u64::try_from(result).ok())
            .filter(|bytes| *bytes > 0);
        let Some(opening) = self.uses(seen) else {
            return;
        };
        *other(opening) = SmallTransfers::default();
        if at.is_none() {
            opening.at = opening.at.saturating_add(bytes.unwrap_or_default());
        }
        let Some(bytes) = bytes.filter(|_| asked < SMALL && !is_device(seen)) else {
            *row(opening) = SmallTransfers::default();
            return;
        };
        let (calls, redundant) = row(opening).small(bytes, at);
        if calls > 1 {
            self.find(pattern, seen, if calls == 2 { 2 } else { 1 });
        }
        if redundant {
            let it = seen.once();
            self.redundant(pattern, &it);
            self.spare(Spare::Buffer).add(&it);
        }
    }

    /// What comes next may begin elsewhere: then it is in no row with what came before.
    fn seek(&mut self, seen: &Seen<'_>) {
        let to = seen
            .call
            .result
            .and_then(|result| u64::try_from(result).ok());
        let Some(opening) = self.uses(seen) else {
            return;
        };
        if let Some(to) = to.filter(|_| seen.syscall.name == "lseek")
            && std::mem::replace(&mut opening.at, to) != to
        {
            for row in [&mut opening.reads, &mut opening.writes]
                .into_iter()
                .filter(|row| row.next.is_none())
            {
                *row = SmallTransfers::default();
            }
        }
    }

    fn sync(&mut self, seen: &Seen<'_>) {
        let Some(opening) = self.uses(seen) else {
            return;
        };
        opening.writes = SmallTransfers::default();
        let bytes = std::mem::take(&mut opening.unsynced);
        if !matches!(seen.syscall.name, "fsync" | "fdatasync") || bytes == 0 || bytes >= SMALL {
            return;
        }
        opening.syncs += 1;
        let syncs = opening.syncs;
        if syncs > 1 {
            let it = seen.once();
            self.find(Pattern::SmallSyncs, seen, if syncs == 2 { 2 } else { 1 });
            self.redundant(Pattern::SmallSyncs, &it);
            self.spare(Spare::SyncOnce).add(&it);
        }
    }

    fn long_name(&mut self, seen: &Seen<'_>) {
        let looks = matches!(
            seen.syscall.kind,
            Kind::Open | Kind::Stat | Kind::Access | Kind::Xattr
        );
        let Some(name) = seen.call.name.filter(|_| looks && seen.about.by_name) else {
            return;
        };
        let parts = components(name);
        let Some(at) = name
            .iter()
            .rposition(|&b| b == b'/')
            .filter(|_| parts >= LONG)
        else {
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
        // When they turn out to be many, those before count as well.
        let (count, nanos) = match *times {
            MANY => (MANY, *nanos),
            more if more > MANY => (1, seen.call.nanos),
            _ => return,
        };
        self.find(Pattern::LongNames, seen, u64::from(count));
        let found = &mut self.found[Pattern::LongNames as usize];
        found.nanos += nanos;
        self.spare(Spare::DirectoryFd)
            .work
            .add(Sort::Other, 0, u64::from(count) * (parts - 1));
    }
}

/// Terminals and their like take what there is.
fn is_device(seen: &Seen<'_>) -> bool {
    seen.about
        .name
        .as_deref()
        .is_none_or(|name| name.starts_with(b"/dev/"))
}

#[cfg(test)]
mod tests;
