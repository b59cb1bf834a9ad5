//! Collects the metadata of a tree before any file is read, in one of the four ways that the 1974
//! memo on Multics' backup compares. All give the same rows.
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

use std::sync::{Arc, OnceLock};

use catalog::Options;
use catalog::rows::{Collector, Rows, Source};
use catalog::since::Evidence;
use gate::attribution::{self, Function};
use gate::fs::{At, Open, statx};
use gate::long::{open_long, statx_long};
use gate::{Errno, Fd, Gate};
use listed::collect_listed;
pub use listed::{Listed, ListedSource};
use mounts::ErrorKind;
pub(crate) use together::{OF_OTHERS, Share, check_directories, collect_together};
use walk::{
    Around, Diagnostics, EngineKind, EngineRefusal, Meta, Moment, PlanReason, WalkOptions as Walk,
    WalkReport, walk,
};

mod listed;
mod together;

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

    /// The way of an engine.
    pub fn from_engine(by: EngineKind) -> Gather {
        match by {
            EngineKind::PerCall => Gather::PerCall,
            EngineKind::Threads | EngineKind::Stat => Gather::Combined,
            EngineKind::Bulkstat | EngineKind::Btrfs => Gather::Batched,
            EngineKind::Ext4 => Gather::Raw,
        }
    }

    /// Its engines, followed by those that it falls back to.
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
            let refused = refused.filter_map(|(by, e)| Some((*by, e.as_ref().err()?.clone())));
            Refused(refused.collect())
        })
    }
}

/// Why no engine of a way can work on a mount.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}", self.to_text())]
pub struct Refused(pub Vec<(EngineKind, EngineRefusal)>);

impl Refused {
    fn to_text(&self) -> String {
        let reasons = self.0.iter();
        let reasons = reasons.map(|(by, refusal)| format!("{}: {refusal}", by.name()));
        reasons.collect::<Vec<_>>().join("; ")
    }
}

/// What to collect, and how.
#[derive(Clone, Debug, Default)]
pub struct CollectOptions {
    /// Directories and files, as they were given. A symlink is taken itself, unless a slash follows
    /// it.
    pub sources: Vec<Vec<u8>>,
    /// The way; `None` for the best one of each mount.
    pub gather: Option<Gather>,
    /// Threads; `None` for one per processor.
    pub threads: Option<usize>,
    /// If set, only these names below the one SRC are collected, with the directories above them.
    pub listed: Option<Arc<Listed>>,
    /// What is left out; a SRC itself is at depth 0.
    pub selection: Options,
    /// Set if a catalog is made of the tree: then dirty data is written, the file systems are asked
    /// for their tokens, and nothing is read within a tick of this moment, so that racy entries are
    /// recognized.
    pub for_catalog: Option<Moment>,
    /// The approximate number of entries, if it is known.
    pub expected: Option<u64>,
    /// The mounts around the sources, if they were asked.
    pub around: Option<Arc<Around>>,
}

/// A mount that was gathered.
#[derive(Clone, Debug)]
pub struct Gathered {
    /// The directory at which it was entered, beginning with SRC as it was given.
    pub path: Vec<u8>,
    /// The way.
    pub gather: Gather,
    /// The engine.
    pub engine: EngineKind,
    /// Why this way.
    pub why: GatherReason,
}

/// Why a mount was gathered in its way, or not gathered.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GatherReason {
    /// By an option.
    #[error("requested")]
    Requested,
    /// Each name was examined by itself.
    #[error("listed names are examined one by one")]
    Listed,
    /// The requested way is unavailable.
    #[error("{} falls back to {}: {reason}", requested.name(), used.name())]
    FellBack {
        /// The requested way.
        requested: Gather,
        /// The way that was used.
        used: Gather,
        /// Why its engine was chosen.
        reason: PlanReason,
    },
    /// The engine was chosen for the mount.
    #[error(transparent)]
    Plan(PlanReason),
    /// Nothing was gathered: the file system proves that nothing has changed.
    #[error(transparent)]
    Untouched(Evidence),
    /// Only what was written since the base was gathered.
    #[error("{0}; other entries are taken from the catalog")]
    Written(Evidence),
    /// The tree was gathered, and its digest is that of the base.
    #[error("{}; {}", Evidence::SameDigest, .0)]
    SameDigest(Box<GatherReason>),
}

/// The engine of each mount.
pub(crate) fn engines(parts: &[Gathered]) -> impl Iterator<Item = EngineKind> {
    parts.iter().map(|part| part.engine)
}

/// Collects a tree, and reports the mounts that were gathered: none for a SRC that is no directory.
///
/// # Errors
/// A SRC does not exist or cannot be read; a pattern is invalid.
pub fn gather(
    options: &CollectOptions,
    diagnostics: &Diagnostics,
) -> Result<(Rows, Vec<Gathered>), walk::Error> {
    let (collector, parts) = collect(options, false, diagnostics)?;
    let rows = collector.finish(engines(&parts));
    attribution::set_phase(Function::Other);
    Ok((rows, parts))
}

/// Collects a tree in any order; `with_sum` adds up its entries.
pub(crate) fn collect<'a>(
    options: &CollectOptions,
    with_sum: bool,
    diagnostics: &'a Diagnostics,
) -> Result<(Collector<'a>, Vec<Gathered>), walk::Error> {
    attribution::set_phase(Function::Information);
    let mut walk_options = walk_options(options);
    if let Some(listed) = &options.listed {
        return collect_names(options, listed, &walk_options, diagnostics);
    }
    let paths = &options.sources;
    let metas = paths.iter().map(|path| stat(path));
    let metas = metas.collect::<Result<Vec<Meta>, _>>()?;
    let sources = paths.iter().zip(&metas);
    let sources = sources.map(|(path, meta)| source(path, meta.is_dir()));
    let is_dir = |number: &u32| metas[*number as usize].is_dir();
    let (dirs, others): (Vec<u32>, Vec<u32>) = (0..metas.len() as u32).partition(is_dir);
    let walked = dirs.iter().map(|&number| paths[number as usize].clone());
    let identities = dirs.iter().map(|&number| &metas[number as usize]);
    let identities = identities.map(|meta| (meta.dev, meta.ino));
    walk_options = Walk {
        dirs: walked.collect(),
        identities: identities.collect(),
        expected: options.expected,
        sink_syncs_first: options.for_catalog.is_some(),
        ..walk_options
    };
    let mut collector = Collector::new(sources.collect(), dirs, options.for_catalog, diagnostics);
    if with_sum {
        collector = collector.with_sum(options.expected);
    }
    for number in others {
        // Again, because the tick from which on changes show has passed only now.
        collector.wait(None);
        let path = &paths[number as usize];
        let (meta, open) = open_itself(path).map_err(|e| not_examined(path, e))?;
        if meta.is_dir() {
            return Err(walk::Error::Replaced(path.clone()));
        }
        collector.add(number, &meta, open);
    }
    let report = walk(&walk_options, &collector, diagnostics)?;
    Ok((collector, gathered(report, options.gather).collect()))
}

/// How to walk what is collected, whichever directories that begins with.
fn walk_options(options: &CollectOptions) -> Walk {
    Walk {
        preferred: options.gather.map_or(&[], Gather::engines),
        threads: options.threads,
        one_file_system: options.selection.one_file_system,
        filter: options.selection.filter(),
        noatime: true,
        around: options.around.clone(),
        ..Walk::default()
    }
}

/// Collects the names of a list.
fn collect_names<'a>(
    options: &CollectOptions,
    listed: &Listed,
    walk_options: &Walk,
    diagnostics: &'a Diagnostics,
) -> Result<(Collector<'a>, Vec<Gathered>), walk::Error> {
    let root = options.sources.first().cloned().unwrap_or_default();
    let above = source(&root, true);
    let for_catalog = options.for_catalog;
    let (collector, reports) =
        collect_listed(listed, above, walk_options, for_catalog, diagnostics)?;
    let mut parts = vec![Gathered {
        path: root,
        gather: Gather::Combined,
        engine: EngineKind::Threads,
        why: GatherReason::Listed,
    }];
    for report in reports {
        parts.extend(gathered(report, options.gather));
    }
    Ok((collector, parts))
}

/// The mounts that were walked, each with the reason for its way.
fn gathered(report: WalkReport, requested: Option<Gather>) -> impl Iterator<Item = Gathered> {
    report.parts.into_iter().map(move |part| {
        let gather = Gather::from_engine(part.engine);
        let why = match requested {
            Some(requested) if requested == gather => GatherReason::Requested,
            Some(requested) => GatherReason::FellBack {
                requested,
                used: gather,
                reason: part.reason,
            },
            None => GatherReason::Plan(part.reason),
        };
        Gathered {
            path: part.path,
            gather,
            engine: part.engine,
            why,
        }
    })
}

/// An empty collector that adds up entries, if there is one SRC and it is a directory.
pub(crate) fn directory_collector<'a>(
    options: &CollectOptions,
    diagnostics: &'a Diagnostics,
) -> Option<Collector<'a>> {
    let [path] = &options.sources[..] else {
        return None;
    };
    stat(path).ok().filter(Meta::is_dir)?;
    let sources = vec![source(path, true)];
    let collector = Collector::new(sources, vec![0], options.for_catalog, diagnostics);
    Some(collector.with_sum(options.expected))
}

fn source(path: &[u8], is_dir: bool) -> Source {
    Source {
        path: path.to_vec(),
        absolute: is_dir
            .then(|| mounts::root::absolute(if path.is_empty() { b"." } else { path }))
            .flatten(),
        rows: 0..0,
        open: OnceLock::new(),
    }
}

fn stat(path: &[u8]) -> Result<Meta, walk::Error> {
    // An automount that is named is entered, so it is examined as what it leads to.
    let seen = statx_long(path, At::SYMLINK_NOFOLLOW, Meta::WANT);
    seen.map(|seen| Meta::from_statx(&seen))
        .map_err(|e| not_examined(path, e))
}

/// The metadata of what has a path, a symlink itself, and a descriptor of it.
fn open_itself(path: &[u8]) -> gate::Result<(Meta, Fd)> {
    let open = open_long(path, Open::PATH | Open::NOFOLLOW)?;
    let seen = statx(&open, c"", At::EMPTY_PATH, Meta::WANT)?;
    Ok((Meta::from_statx(&seen), open))
}

fn not_examined(path: &[u8], errno: Errno) -> walk::Error {
    mounts::Error::at(ErrorKind::ReadAttributes, path, Gate::Statx, errno).into()
}
