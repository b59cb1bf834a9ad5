//! Collector: everything that is to be known of a tree before any of it is read, by one of four
//! ways, which the 1974 memo on Multics' backup weighs against each other. All give the same rows.
//!
//! | way | calls | engines of [`walk`](mod@walk) |
//! |---|---|---|
//! | `percall` | one for each attribute | `percall` |
//! | `combined` | one for each entry | `threads` |
//! | `batched` | one for many entries | `bulkstat`, `btrfs` |
//! | `raw` | none for an entry: the file system's own tables | `ext4` |
//!
//! What a mount does not offer falls back to the next better one: from `raw` to `batched`, and from
//! that to `combined`.

use crate::attribution::{self, Function};
use gate::Gate;
use gate::fs::At;
use gate::long::statx_long;
use mounts::ErrorKind;
use walk::{
    Diagnostics, EngineKind, EngineRefusal, Filter, Meta, Moment, WalkOptions as Walk, walk,
};

use crate::rows::{Collector, Rows, Source};

/// A way to gather.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Gather {
    /// One call for each attribute.
    PerCall,
    /// One call for each entry.
    Combined,
    /// One call for many entries.
    Batched,
    /// The file system's own tables.
    Raw,
}

impl Gather {
    /// All of them, costliest first.
    pub const ALL: [Gather; 4] = [
        Gather::PerCall,
        Gather::Combined,
        Gather::Batched,
        Gather::Raw,
    ];

    /// Its name: in `--gather`, in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Gather::PerCall => "percall",
            Gather::Combined => "combined",
            Gather::Batched => "batched",
            Gather::Raw => "raw",
        }
    }

    /// The way that an engine is of.
    pub fn from_engine(by: EngineKind) -> Gather {
        match by {
            EngineKind::PerCall => Gather::PerCall,
            EngineKind::Threads | EngineKind::Stat => Gather::Combined,
            EngineKind::Bulkstat | EngineKind::Btrfs => Gather::Batched,
            EngineKind::Ext4 => Gather::Raw,
        }
    }

    /// Its engines, and after them those of what it falls back to, in turn.
    pub fn engines(self) -> &'static [EngineKind] {
        match self {
            Gather::PerCall => &[EngineKind::PerCall],
            Gather::Combined => &[EngineKind::Threads],
            Gather::Batched => &[EngineKind::Bulkstat, EngineKind::Btrfs, EngineKind::Threads],
            Gather::Raw => &[
                EngineKind::Ext4,
                EngineKind::Bulkstat,
                EngineKind::Btrfs,
                EngineKind::Threads,
            ],
        }
    }

    /// Its engine on a mount, given which engines can work there.
    ///
    /// # Errors
    /// None of its engines can.
    pub fn engine_of(
        self,
        engines: &[(EngineKind, Result<(), EngineRefusal>)],
    ) -> Result<EngineKind, Refused> {
        // A call for each attribute works everywhere.
        let can = |by: &EngineKind| {
            *by == EngineKind::PerCall
                || engines.iter().any(|(engine, e)| engine == by && e.is_ok())
        };
        let is_own = |by: &EngineKind| Gather::from_engine(*by) == self;
        let own = self.engines().iter().find(|by| is_own(by) && can(by));
        own.copied().ok_or_else(|| {
            let refused = engines.iter().filter(|(by, _)| is_own(by));
            Refused(
                refused
                    .filter_map(|(by, e)| Some((*by, e.as_ref().err()?.clone())))
                    .collect(),
            )
        })
    }
}

/// Why no engine of a way can work on a mount: each with its reason.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}", self.to_text())]
pub struct Refused(pub Vec<(EngineKind, EngineRefusal)>);

impl Refused {
    fn to_text(&self) -> String {
        let reasons = self.0.iter();
        let reasons: Vec<String> = reasons
            .map(|(by, refusal)| format!("{}: {refusal}", by.name()))
            .collect();
        reasons.join("; ")
    }
}

/// What to collect, and how.
#[derive(Clone, Debug, Default)]
pub struct CollectOptions {
    /// Directories, and files of any kind, as they were given. A symlink is taken itself, unless a
    /// slash follows it.
    pub sources: Vec<Vec<u8>>,
    /// The way; `None` for what is best for each mount.
    pub gather: Option<Gather>,
    /// Threads; `None` for as many as are good.
    pub threads: Option<usize>,
    /// Stay on the device of each SRC.
    pub one_file_system: bool,
    /// What is left out, as [`Filter::new`] takes it.
    pub excludes: Vec<String>,
    /// Nothing deeper than this; a SRC itself is at 0.
    pub max_depth: Option<u32>,
    /// Set if a catalog is to be made of it: then the file systems are asked for their tokens, what
    /// is dirty is written before that, and what was at rest when it was read can be told from what
    /// was not. Nothing is read within a tick of this moment: the longer ago it is, the less there
    /// is to wait.
    pub for_catalog: Option<Moment>,
    /// About how many entries there are, if that is known.
    pub expected: Option<u64>,
}

/// A mount that was gathered.
#[derive(Clone, Debug)]
pub struct Gathered {
    /// Where it was entered, beginning with SRC as it was given.
    pub path: Vec<u8>,
    /// Type of the file system, where the mount table says.
    pub fstype: Option<Vec<u8>>,
    /// The way.
    pub gather: Gather,
    /// The engine.
    pub engine: EngineKind,
    /// Why this way.
    pub why: String,
}

/// What came of it, beside the rows.
#[derive(Clone, Debug, Default)]
pub struct CollectReport {
    /// The mounts that were gathered, in order; of a SRC that is no directory there is none.
    pub parts: Vec<Gathered>,
}

impl CollectReport {
    /// The engine of each mount.
    pub(crate) fn engines(&self) -> impl Iterator<Item = EngineKind> {
        self.parts.iter().map(|part| part.engine)
    }
}

/// Gathers. What was skipped is said at the desk.
///
/// # Errors
/// A SRC that is not there or cannot be read; a pattern that is none.
pub fn gather(
    options: &CollectOptions,
    desk: &Diagnostics,
) -> Result<(Rows, CollectReport), walk::Error> {
    let (gathering, report) = collect(options, false, desk)?;
    let rows = gathering.finish(report.engines());
    attribution::set_phase(Function::Other);
    Ok((rows, report))
}

/// Collects everything, in whatever order it comes. With `with_sum`, it is added up.
///
/// # Errors
/// As of [`gather`].
pub(crate) fn collect<'a>(
    options: &CollectOptions,
    with_sum: bool,
    desk: &'a Diagnostics,
) -> Result<(Collector<'a>, CollectReport), walk::Error> {
    attribution::set_phase(Function::Information);
    let filter = Filter::new(&options.excludes, options.max_depth)?;
    let looked: Vec<Meta> = options
        .sources
        .iter()
        .map(|path| look(path))
        .collect::<Result<_, _>>()?;
    let sources = options
        .sources
        .iter()
        .zip(&looked)
        .map(|(path, meta)| source(path, meta.is_dir()));
    let is_dir = |number: &u32| looked[*number as usize].is_dir();
    let (dirs, others): (Vec<u32>, Vec<u32>) = (0..looked.len() as u32).partition(is_dir);
    let walk_options = Walk {
        dirs: dirs
            .iter()
            .map(|&number| options.sources[number as usize].clone())
            .collect(),
        preferred: options.gather.map_or(&[], Gather::engines),
        threads: options.threads,
        one_file_system: options.one_file_system,
        filter,
        noatime: true,
        expected: options.expected,
        is_written: options.for_catalog.is_some(),
        ..Walk::default()
    };
    let mut gathering = Collector::new(sources.collect(), dirs, options.for_catalog, desk);
    if with_sum {
        gathering = gathering.with_sum(options.expected);
    }
    for number in others {
        // Once more, now that the time has come from which on changes show.
        gathering.wait(None);
        gathering.add(number, &look(&options.sources[number as usize])?);
    }
    let walked = walk(&walk_options, &gathering, desk)?;
    let parts = walked.parts.into_iter().map(|part| {
        let gather = Gather::from_engine(part.engine);
        let why = match options.gather {
            Some(wanted) if wanted == gather => "it was asked for".to_owned(),
            Some(wanted) => format!(
                "{} falls back to {}: {}",
                wanted.name(),
                gather.name(),
                part.reason
            ),
            None => part.reason.to_string(),
        };
        Gathered {
            path: part.path,
            fstype: part.fstype,
            gather,
            engine: part.engine,
            why,
        }
    });
    let report = CollectReport {
        parts: parts.collect(),
    };
    Ok((gathering, report))
}

/// Ready to take in, and to add up, what is in the one SRC; `None` if there are several, or it is
/// no directory.
pub(crate) fn directory_collector<'a>(
    options: &CollectOptions,
    desk: &'a Diagnostics,
) -> Option<Collector<'a>> {
    let [path] = &options.sources[..] else {
        return None;
    };
    let is_dir = look(path).is_ok_and(|meta| meta.is_dir());
    let new = || Collector::new(vec![source(path, true)], vec![0], options.for_catalog, desk);
    is_dir.then(|| new().with_sum(options.expected))
}

fn source(path: &[u8], is_dir: bool) -> Source {
    Source {
        path: path.to_vec(),
        absolute: is_dir.then(|| crate::absolute(path)).flatten(),
        rows: 0..0,
    }
}

fn look(path: &[u8]) -> Result<Meta, walk::Error> {
    let seen = statx_long(path, At::SYMLINK_NOFOLLOW | At::NO_AUTOMOUNT, Meta::WANT);
    seen.map(|seen| Meta::from_statx(&seen))
        .map_err(|e| mounts::Error::at(ErrorKind::ReadAttributes, path, Gate::Statx, e).into())
}
