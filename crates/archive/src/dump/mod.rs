//! Dumps: a tree written into an archive, whole or what has changed of it. docs/dump.md says what holds.
//!
//! ```text
//! gather ─► plan ─► readers ─► window ─► writer ─► output ─────────────┬► published: archive, then catalog
//!   rows     step    load       order     settled   file, zstd           │
//!                                         └──► catalog, rows at a time ──┘
//! ```
//!
//! | room | what is in it |
//! |---|---|
//! | [`plan`] | what is to be written, row by row |
//! | `read` | makes members of rows, reading what they hold |
//! | `places` | opens what rows are of |
//! | `holes` | where in a file there is data |
//! | `member` | what a member's headers say, and its name |
//! | `users` | names of users and groups |
//! | `settled` | what has become of rows, for the catalog |
//! | `window` | reads ahead of the writer, and keeps the order |
//! | `write` | writes in order, and keeps account |
//! | `output` | where an archive goes |

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use gate::account::{self, Function, Whom, about, during};
use gate::fs::{At, FileType, Want};
use gate::long::statx_long;
use mounts::Warning;
use ondisk::Dev;
use walk::{Desk, Meta, Moment, NoWalk, Type};

mod holes;
mod member;
mod output;
mod places;
pub mod plan;
mod read;
mod settled;
mod users;
mod window;
mod write;

use crate::beside::{begin, both};
use crate::catalog::{Draft, Fault, Later, Options};
use crate::gather::{self, Gather, Gathered, collect, gather};
use crate::increment::levels::Level;
use crate::increment::regather::Regathered;
use crate::increment::{Base, spare_unseen};
use crate::rows::Rows;
use crate::{OnPanic, shown};
pub use member::member_name;
use output::Output;
pub use plan::{Plan, Step};
use read::{Load, Reader};
use settled::{Portion, Settled, Settling};
use users::Users;
use window::{Stopped, Window};
pub use write::Map;
use write::Writer;

/// What is asked.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// Directories and files, as they were given.
    pub sources: Vec<Vec<u8>>,
    /// Where the archive goes; `-` is standard output. `None` to do everything but write it.
    pub archive: Option<Vec<u8>>,
    /// The catalog that an increment goes on from.
    pub since: Option<Vec<u8>>,
    /// Where a catalog goes, if there is to be one.
    pub catalog: Option<Vec<u8>>,
    /// Says which catalogs these two are.
    pub level: Option<Level>,
    /// The way of gathering; `None` for what is best for each mount.
    pub gather: Option<Gather>,
    /// Threads; `None` for as many as are good.
    pub threads: Option<usize>,
    /// What is left out.
    pub options: Options,
    /// Files that are left out besides: what else is being written.
    pub own: Vec<Vec<u8>>,
}

/// What came of a dump.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The mounts that were gathered, or would have been.
    pub parts: Vec<Gathered>,
    /// The catalog that it goes on from.
    pub since: Option<Vec<u8>>,
    /// Entries that were found.
    pub entries: u64,
    /// Entries that were gathered.
    pub gathered: u64,
    /// Of them, directories.
    pub directories: u64,
    /// What came into the archive.
    pub counts: Counts,
    /// What was written, compressed if it is.
    pub archive_bytes: u64,
    /// Entries of the base that are gone.
    pub removed: u64,
    /// Directories of the base that have another name.
    pub renamed: u64,
    /// Entries that are as they were in the base.
    pub unchanged: u64,
    /// What is worth saying, and no warning.
    pub notes: Vec<String>,
    /// What was skipped or found wrong.
    pub warnings: Vec<Warning>,
}

/// Why a dump was not done.
#[derive(Clone, Debug)]
pub enum Failure {
    /// An archive or a catalog that cannot be written or read.
    Fault(Fault),
    /// A tree that cannot be walked.
    Walk(NoWalk),
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Failure {
        Failure::Fault(fault)
    }
}

impl From<NoWalk> for Failure {
    fn from(no: NoWalk) -> Failure {
        Failure::Walk(no)
    }
}

/// Dumps. The archive appears under its name when it is whole and durable; then the map, then the catalog.
///
/// # Errors
/// Nothing is left behind then; if it is the map or the catalog that cannot get its name, what comes before it is there.
pub fn dump(
    question: &Question,
    desk: &Desk,
    progress: &Progress,
    mut map: Option<&mut (dyn Map + 'static)>,
) -> Result<Answer, Failure> {
    let begun = Moment::now();
    let chain = Chain::of(question)?;
    set_apart(question, &chain)?;
    // Before anything is gathered, so that what cannot be written is known before hours of reading.
    let output = Output::create(question.archive.as_deref())?;
    let untouched = chain.base.as_ref().and_then(|base| Some((base, base.untouched(question)?)));
    let mut answer = match untouched {
        Some((base, (engine, why))) => {
            let path = question.sources.first().cloned().unwrap_or_default();
            let part = Gathered { path, fstype: None, gather: Gather::of(engine), engine, why };
            sources_only(question, &chain, base, output, (desk, progress, map.as_deref_mut()), vec![part])?
        }
        None => everything(question, &chain, begun, output, (desk, progress, map))?,
    };
    answer.notes.splice(0..0, stripped(question).into_iter().chain(uncompressed(question)).chain(chain.note.clone()));
    answer.since = chain.since;
    Ok(answer)
}

/// Who is to be told how it goes.
type Watched<'a> = (&'a Desk, &'a Progress, Option<&'a mut (dyn Map + 'static)>);

/// Dumps whatever the plan says.
fn everything(
    question: &Question,
    chain: &Chain,
    begun: Moment,
    mut output: Output,
    (desk, progress, mut map): Watched<'_>,
) -> Result<Answer, Failure> {
    let has_catalog = chain.catalog.is_some();
    let asked = asked(question, has_catalog.then_some(begun));
    let (rows, gathered, mut plan) = match &chain.base {
        None => {
            let (rows, gathered) = gather(&asked, desk)?;
            let plan = Plan::full(&rows);
            (rows, gathered, plan)
        }
        Some(base) => {
            let asked = gather::Question { expected: Some(base.entries()), ..asked };
            let (gathering, mut gathered, index) = match base.regather(&asked, &question.options, desk)? {
                Some(Regathered::Nothing(gathered)) => {
                    return sources_only(question, chain, base, output, (desk, progress, map), gathered.parts);
                }
                Some(Regathered::All(all)) => (all.0, all.1, Some(all.2)),
                None => {
                    let (gathering, gathered) = collect(&asked, true, desk)?;
                    (gathering, gathered, None)
                }
            };
            if !desk.has_warnings() && gathering.seen(&gathered).is_some_and(|seen| base.is_all(&seen, question)) {
                let known = "the digest of all entries is that of the catalog";
                gathered.parts.iter_mut().for_each(|part| part.why = format!("{known}; {}", part.why));
                let answer = sources_only(question, chain, base, output, (desk, progress, map), gathered.parts)?;
                return Ok(Answer { gathered: base.entries(), ..answer });
            }
            let (rows, index) = both(|| gathering.finish(&gathered), || index.map_or_else(|| base.index(), Ok));
            account::phase(Function::Other);
            let plan = base.plan(&rows, index?)?;
            (rows, gathered, plan)
        }
    };
    let skipped = desk.take_warnings();
    spare_unseen(&rows, &skipped, &mut plan);
    skipped.into_iter().for_each(|warning| desk.warn(warning));
    let mut notes = leave_out_own(question, chain, &output, &rows, &mut plan);
    let copy = |settling| {
        let whom = (progress, map.as_deref_mut());
        let counts = copy((&rows, &plan, desk), &mut output, whom, settling, question.threads)?;
        Ok::<_, Fault>((counts, output.finish()?))
    };
    let (counts, archive_bytes) = if let Some(catalog) = &chain.catalog {
        let known = Known::new(&rows, &plan, chain.base.as_ref());
        let draft = Draft::create(catalog)?;
        let write = || {
            let _watch = OnPanic(|| known.settled.leave());
            let is_kept = |row| plan.step(row) != Step::LeftOut;
            let is_complete = || !desk.has_warnings();
            let sealed = draft.write(&rows, question.options.clone(), is_kept, |some| known.of(some), is_complete);
            known.settled.leave();
            sealed
        };
        let (archived, sealed) = std::thread::scope(|scope| {
            let mut writing = begin(scope, write);
            let copied = copy(Some(Settling::new(&known.settled)));
            writing.now();
            let archived = copied.and_then(|(counts, whole)| {
                // What cannot be read of the base is known before the archive has its name.
                known.settled.wait_until_used();
                known.fault().map_or(Ok(()), Err)?;
                Ok((counts, whole.publish()?))
            });
            (archived, writing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        let (archived, sealed) = (archived?, sealed?);
        publish(map)?;
        chain.forget_higher()?;
        sealed.publish()?;
        if known.lacks.into_inner() {
            notes.push("the catalog has no checksums of some files, as it goes on from one that has none".to_owned());
        }
        archived
    } else {
        let (counts, whole) = copy(None)?;
        let archive_bytes = whole.publish()?;
        publish(map)?;
        (counts, archive_bytes)
    };
    Ok(Answer {
        parts: gathered.parts,
        entries: rows.len() as u64,
        gathered: rows.len() as u64,
        directories: rows.directories().len() as u64,
        counts,
        archive_bytes,
        removed: plan.removed,
        renamed: plan.renamed,
        unchanged: plan.unchanged(),
        notes,
        warnings: desk.take_warnings(),
        ..Answer::default()
    })
}

/// What a catalog is to say of rows besides what was gathered.
struct Known<'a> {
    rows: &'a Rows,
    plan: &'a Plan,
    base: Option<&'a Base>,
    settled: Settled,
    /// Whether there is a file whose checksum is not known.
    lacks: AtomicBool,
    /// What was wrong with the base.
    fault: Mutex<Option<Fault>>,
}

impl<'a> Known<'a> {
    fn new(rows: &'a Rows, plan: &'a Plan, base: Option<&'a Base>) -> Known<'a> {
        let (settled, lacks, fault) = (Settled::of(rows.len()), AtomicBool::new(false), Mutex::default());
        Known { rows, plan, base, settled, lacks, fault }
    }

    fn fault(&self) -> Option<Fault> {
        self.fault.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }

    /// Of the rows of a row group, when what becomes of them is settled.
    ///
    /// # Errors
    /// The base cannot be read, or nothing more will be settled.
    fn of(&self, rows: Range<usize>) -> Result<Later, Fault> {
        let Some(portion) = self.settled.take(rows.start) else {
            // Why, the other one tells.
            return Err(Fault { doing: "cannot write catalog", path: Vec::new(), error: String::new(), next: "" });
        };
        let hashes = self.hashes(rows.clone(), &portion);
        if let Err(fault) = &hashes {
            self.fault.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(fault.clone());
        }
        self.settled.use_up();
        let mut amended: HashMap<usize, Meta> = portion.amended.into_iter().collect();
        // What the archive lacks has been told of in it, and an older copy may be left where it is restored: so there is something
        // there, but no file that it could be taken for.
        for row in portion.missing.into_iter().chain(self.plan.blind(rows)) {
            let meta = amended.entry(row).or_insert_with(|| self.rows.meta(row));
            *meta = Meta { ino: 0, generation: None, btime: None, ..*meta };
        }
        Ok(Later { hashes: hashes?, amended })
    }

    /// The checksums of what has been dumped, and of what is kept.
    fn hashes(&self, rows: Range<usize>, portion: &Portion) -> Result<Vec<Option<[u8; 32]>>, Fault> {
        let mut hashes = vec![None; rows.len()];
        for (row, hash) in &portion.hashes {
            hashes[row - rows.start] = Some(*hash);
        }
        if let Some(base) = self.base {
            let mut wanted = Vec::new();
            for (nth, row) in rows.clone().enumerate() {
                let as_row = match self.plan.step(row) {
                    Step::Unchanged => row,
                    Step::Link(to) if hashes[nth].is_none() && self.plan.step(to) == Step::Unchanged => to,
                    _ => continue,
                };
                let old = self.plan.kept_as.get(as_row).and_then(|old| old.checked_sub(1));
                wanted.extend(old.map(|old| (old, nth)));
            }
            base.hashes(wanted, |nth, hash| hashes[nth] = Some(hash))?;
        }
        let lacks = |(row, hash): (usize, &Option<_>)| {
            hash.is_none() && self.plan.step(row) == Step::Unchanged && self.rows.kind(row) == Type::File
        };
        if rows.zip(&hashes).any(lacks) {
            self.lacks.store(true, Relaxed);
        }
        Ok(hashes)
    }
}

/// Sees that nothing that is written would take the place of something else that is, or of the catalog that is gone on from, or of
/// what is to be dumped.
fn set_apart(question: &Question, chain: &Chain) -> Result<(), Fault> {
    // Where a file is, or is to be: its directory, and its name there. What is no file is written straight.
    let place = |path: &[u8]| {
        let (dir, name) = (path != b"-").then(|| gate::file::Writer::place(path).ok().flatten()).flatten()?;
        Some((dir.dev, dir.ino, name))
    };
    let written: Vec<_> = question.archive.iter().chain(&question.own).collect();
    // (A catalog may take the place of the one before it.)
    let catalogs: Vec<_> = chain.since.iter().chain(&chain.catalog).collect();
    for (nth, path) in written.iter().enumerate() {
        let mut others = written[..nth].iter().chain(&catalogs).filter_map(|other| place(other));
        if place(path).is_some_and(|place| others.any(|other| other == place)) {
            let error = "archive, map and catalogs must each have a file of their own".to_owned();
            return Err(Fault { doing: "cannot dump to", path: path.to_vec(), error, next: "" });
        }
    }
    const ITSELF: At = At::SYMLINK_NOFOLLOW.union(At::NO_AUTOMOUNT);
    let is_file = |path: &&Vec<u8>| {
        statx_long(path, ITSELF, Want::BASIC_STATS).is_ok_and(|seen| seen.file_type == FileType::Regular)
    };
    let sources: Vec<_> = question.sources.iter().filter(is_file).filter_map(|source| place(source)).collect();
    for path in written.into_iter().chain(&chain.catalog) {
        if place(path).is_some_and(|place| sources.contains(&place)) {
            let error = "it is to be dumped, and would be replaced".to_owned();
            return Err(Fault { doing: "cannot dump to", path: path.to_vec(), error, next: "give another name" });
        }
    }
    Ok(())
}

/// Gives a map its name.
fn publish(map: Option<&mut (dyn Map + 'static)>) -> Result<(), Fault> {
    map.map_or(Ok(()), |map| during(Function::Map, || map.publish()))
}

/// Dumps nothing but each SRC itself, since nothing has changed since the base.
fn sources_only(
    question: &Question,
    chain: &Chain,
    base: &Base,
    mut output: Output,
    (desk, progress, mut map): Watched<'_>,
    parts: Vec<Gathered>,
) -> Result<Answer, Failure> {
    // One call each: what to gather them by need not be thought over.
    let asked = gather::Question { max_depth: Some(0), gather: Some(Gather::Combined), ..asked(question, None) };
    let (rows, _) = gather(&asked, desk)?;
    // Without the names of what is in them: nothing is to be removed.
    let plan = Plan::full(&rows);
    let counts = copy((&rows, &plan, desk), &mut output, (progress, map.as_deref_mut()), None, question.threads)?;
    let archive_bytes = output.finish()?.publish()?;
    publish(map)?;
    if let Some(catalog) = &chain.catalog {
        chain.forget_higher()?;
        base.copy_to(catalog)?;
    }
    Ok(Answer {
        parts,
        entries: base.entries(),
        gathered: rows.len() as u64,
        directories: rows.directories().len() as u64,
        counts,
        archive_bytes,
        unchanged: base.entries().saturating_sub(rows.len() as u64),
        warnings: desk.take_warnings(),
        ..Answer::default()
    })
}

/// The catalogs that a dump goes by.
struct Chain {
    since: Option<Vec<u8>>,
    base: Option<Base>,
    catalog: Option<Vec<u8>>,
    level: Option<Level>,
    note: Option<String>,
}

impl Chain {
    fn of(question: &Question) -> Result<Chain, Fault> {
        let (since, catalog) = match &question.level {
            Some(level) => (level.base()?, Some(level.catalog())),
            None => (question.since.clone(), question.catalog.clone()),
        };
        let base = since.as_deref().map(|since| Base::open(since, &question.sources)).transpose()?;
        let alone = question.level.as_ref().filter(|level| level.number > 0 && since.is_none());
        let note =
            alone.map(|level| format!("there is no dump of a level below {}: everything is dumped", level.number));
        Ok(Chain { since, base, catalog, level: question.level.clone(), note })
    }

    fn forget_higher(&self) -> Result<(), Fault> {
        self.level.as_ref().map_or(Ok(()), Level::forget_higher)
    }
}

/// What is asked of the gathering; for a catalog, since when.
pub fn asked(question: &Question, for_catalog: Option<Moment>) -> gather::Question {
    gather::Question {
        sources: question.sources.clone(),
        gather: question.gather,
        threads: question.threads,
        one_file_system: question.options.one_file_system,
        excludes: question.options.excludes.clone(),
        for_catalog,
        max_depth: question.options.max_depth,
        expected: None,
    }
}

/// Says whose names are not what they were given as.
fn stripped(question: &Question) -> Vec<String> {
    let mut prefixes: Vec<&[u8]> = question
        .sources
        .iter()
        .map(|path| &path[..path.len() - member_name(path).len()])
        .filter(|prefix| !prefix.is_empty())
        .collect();
    prefixes.sort_unstable();
    prefixes.dedup();
    prefixes.into_iter().map(|prefix| format!("'{}' is left out of names in the archive", shown(prefix))).collect()
}

/// Says that an archive is not what its name says.
fn uncompressed(question: &Question) -> Option<String> {
    const OTHERS: [&[u8]; 9] = [b".gz", b".tgz", b".bz2", b".tbz2", b".xz", b".txz", b".lz4", b".lzma", b".tzst"];
    let path = question.archive.as_deref()?;
    let is_meant = OTHERS.iter().any(|end| path.ends_with(end));
    is_meant.then(|| format!("'{}' is not compressed: give it a name that ends in .tar.zst to have it so", shown(path)))
}

/// Leaves out what is being written: the archive does not hold itself, nor what it takes the place of.
fn leave_out_own(question: &Question, chain: &Chain, output: &Output, rows: &Rows, plan: &mut Plan) -> Vec<String> {
    let paths = question.archive.iter().chain(&chain.catalog).chain(&question.own);
    let named = paths.filter_map(|path| statx_long(path, At::NO_AUTOMOUNT, Want::BASIC_STATS).ok());
    let own: Vec<(Dev, u64)> = named
        .chain(output.statx())
        .filter(|seen| seen.file_type == FileType::Regular)
        .map(|seen| (seen.dev.into(), seen.ino))
        .filter(|(dev, _)| rows.are_on(*dev))
        .collect();
    let mut notes = Vec::new();
    // Mostly it is all somewhere else.
    let all = if own.is_empty() { 0 } else { rows.len() };
    for row in 0..all {
        let is_own = |meta: Meta| own.contains(&(meta.dev, meta.ino));
        // Most are not: that is to be known at once.
        let may_be = own.iter().any(|(_, ino)| *ino == rows.ino(row));
        if may_be && rows.kind(row) == Type::File && is_own(rows.meta(row)) {
            plan.set(row, Step::LeftOut);
            let mut path = Vec::new();
            rows.path(row, &mut path);
            notes.push(format!("'{}' is being written, and is left out", shown(&path)));
        }
    }
    notes
}

/// What came into the archive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Members.
    pub dumped: u64,
    /// Of them, plain files,
    pub files: u64,
    /// directories,
    pub directories: u64,
    /// symlinks,
    pub symlinks: u64,
    /// further names of files,
    pub links: u64,
    /// and all else.
    pub other: u64,
    /// Sizes of the files together, holes included.
    pub bytes: u64,
}

/// A line of the map: what came into the archive, as it is there.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// What is known of it.
    pub meta: &'a Meta,
    /// Whether it is but another name.
    pub is_link: bool,
    /// Its name in the archive, without the slash at the end of a directory's.
    pub path: &'a [u8],
}

/// How far a dump is, for whoever watches.
#[derive(Debug, Default)]
pub struct Progress {
    entries: AtomicU64,
    bytes: AtomicU64,
    all_entries: AtomicU64,
    all_bytes: AtomicU64,
}

/// See [`Progress::far`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Far {
    /// Entries that are done, and all that there are to do.
    pub entries: (u64, u64),
    /// Bytes that are written, before they are compressed, and about how many it will be.
    pub bytes: (u64, u64),
}

impl Progress {
    /// How far it is; `None` while it is being found out what there is.
    pub fn far(&self) -> Option<Far> {
        let of = |done: &AtomicU64, all: &AtomicU64| (done.load(Relaxed), all.load(Relaxed));
        let far = Far { entries: of(&self.entries, &self.all_entries), bytes: of(&self.bytes, &self.all_bytes) };
        (far.entries.1 > 0).then_some(far)
    }

    /// Says what there is to do.
    fn begin(&self, rows: &Rows, plan: &Plan) {
        /// What headers come to, about.
        const HEADERS: u64 = 3 * 512;
        let weights = plan.busy().map(|row| Reader::weight(rows, plan, row));
        let (entries, bytes) = weights.fold((0, 0u64), |(n, sum), bytes| (n + 1, sum.saturating_add(bytes + HEADERS)));
        self.all_bytes.store(bytes, Relaxed);
        self.all_entries.store(entries, Relaxed);
    }

    fn add_entry(&self) {
        self.entries.fetch_add(1, Relaxed);
    }

    fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
    }
}

/// What is being dumped, as all who work on it see it.
#[derive(Clone, Copy)]
pub(crate) struct Work<'a> {
    pub(crate) rows: &'a Rows,
    pub(crate) plan: &'a Plan,
    pub(crate) users: &'a Users,
    pub(crate) desk: &'a Desk,
}

/// Reads and writes everything that the plan says; with one thread, in turns.
fn copy(
    work: (&Rows, &Plan, &Desk),
    output: &mut Output,
    (progress, map): (&Progress, Option<&mut (dyn Map + 'static)>),
    settling: Option<Settling<'_>>,
    threads: Option<usize>,
) -> Result<Counts, Fault> {
    account::phase(Function::Write);
    let (rows, plan, desk) = work;
    progress.begin(rows, plan);
    let users = Users::read();
    let work = Work { rows, plan, users: &users, desk };
    let map = map.map(|map| map as &mut dyn Map);
    let mut writer = Writer::new(work, output, progress, map, settling);
    match threads.unwrap_or_else(gate::machine::processors) {
        1 => during(Function::Copy, || alone(work, &mut writer)),
        readers => together(work, &mut writer, readers),
    }?;
    writer.finish()
}

fn alone(work: Work<'_>, writer: &mut Writer<'_>) -> Result<(), Fault> {
    let mut reader = Reader::new(work);
    let mut load = Load::default();
    let mut failed = None;
    for row in 0..work.rows.len() {
        let mut hand = |load| {
            let take = || writer.take(load).map(|bytes| Load::of(Some(bytes)));
            about(Whom::All, || during(Function::Write, take)).map_err(|e| {
                failed = Some(e);
                Stopped
            })
        };
        if reader.put(row, &mut load, &mut hand).is_err() {
            break;
        }
    }
    match failed {
        Some(e) => Err(e),
        None => during(Function::Write, || writer.take(load)).map(drop),
    }
}

fn together(work: Work<'_>, writer: &mut Writer<'_>, readers: usize) -> Result<(), Fault> {
    let window = Window::new(work.rows.len());
    std::thread::scope(|scope| {
        let begin = || {
            let run = || {
                during(Function::Copy, || read(work, &window));
                gate::meter::hand_in();
            };
            std::thread::Builder::new().spawn_scoped(scope, run).is_ok()
        };
        if (0..readers).take_while(|_| begin()).count() == 0 {
            return alone(work, writer);
        }
        while let Some(load) = window.next() {
            match writer.take(load) {
                Ok(bytes) => window.give_back(bytes),
                Err(e) => {
                    window.stop();
                    return Err(e);
                }
            }
        }
        Ok(())
    })
}

/// What each thread does that reads.
fn read(work: Work<'_>, window: &Window) {
    let _watch = OnPanic(|| window.stop());
    let mut reader = Reader::new(work);
    let next = |row| work.plan.next_busy(row);
    while let Some((ticket, rows)) = window.take(next, |row| Reader::weight(work.rows, work.plan, row)) {
        let mut load = window.empty();
        for row in rows {
            if reader.put(row, &mut load, &mut |load| window.hand_in(ticket, load)).is_err() {
                return;
            }
        }
        window.finish(ticket, load);
    }
}
