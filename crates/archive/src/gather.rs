//! Collects the metadata of a tree before any file is read, by one of the four methods that the
//! 1974 memo on Multics' backup compares. All give the same rows.
//!
//! | method | calls | engines of [`walk`](mod@walk) |
//! |---|---|---|
//! | `percall` | one for each attribute | `percall` |
//! | `combined` | one for each entry | `threads` |
//! | `batched` | one for many entries | `bulkstat`, `btrfs` |
//! | `raw` | none for an entry: the file system's own tables | `ext4` |
//!
//! A mount without support for a method uses the next better one: `batched` instead of `raw`, and
//! `combined` instead of `batched`.

use std::sync::{Arc, OnceLock};

use base::path::or_dot;
use catalog::Options;
use catalog::rows::{Collector, Rows, Source};
use catalog::since::Evidence;
use gate::attribution::{self, Function};
use gate::fs::{AtFlags, Open, fstat};
use gate::long::{open_long, statx_long};
use gate::{Errno, Fd, Gate};
use listed::collect_listed;
pub use listed::{ListedSource, SortedNames};
use mounts::ErrorKind;
pub(crate) use together::{OF_OTHERS, RankRows, check_directories, collect_together};
use walk::{
    Diagnostics, EngineKind, EngineRefusal, Meta, Moment, PlanReason, ReachableMounts,
    WalkOptions as Walk, WalkReport, walk,
};

mod listed;
mod together;

base::named! {
    /// A method of gathering metadata. The costliest method is the first.
    #[derive(PartialOrd, Ord, Hash)]
    Gather {
        /// One system call per attribute.
        PerCall "percall",
        /// One system call per entry.
        Combined "combined",
        /// One system call for many entries.
        Batched "batched",
        /// Reads the file system's own tables from the device.
        Raw "raw",
    }
}

impl Gather {
    /// The gathering method that an engine implements.
    pub fn from_engine(by: EngineKind) -> Gather {
        match by {
            EngineKind::PerCall => Gather::PerCall,
            EngineKind::Threads | EngineKind::Stat => Gather::Combined,
            EngineKind::Bulkstat | EngineKind::Btrfs => Gather::Batched,
            EngineKind::Ext4 => Gather::Raw,
        }
    }

    /// The method's engines, followed by those of its fallbacks.
    pub fn engines(self) -> &'static [EngineKind] {
        use EngineKind::{Btrfs, Bulkstat, Ext4, PerCall, Threads};
        match self {
            Gather::PerCall => &[PerCall],
            Gather::Combined => &[Threads],
            Gather::Batched => &[Bulkstat, Btrfs, Threads],
            Gather::Raw => &[Ext4, Bulkstat, Btrfs, Threads],
        }
    }

    /// The method's engine on a mount, given which engines can work there.
    ///
    /// # Errors
    /// None of the method's engines can work there.
    pub fn engine_of(
        self,
        engines: &[(EngineKind, Result<(), EngineRefusal>)],
    ) -> Result<EngineKind, Refused> {
        // `percall` needs no support by the file system.
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

/// Why no engine of a gathering method can work on a mount.
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

/// Options for collecting the metadata of a tree.
#[derive(Clone, Debug, Default)]
pub struct CollectOptions {
    /// Directories and files, as given. A symlink is followed only if a slash ends its name.
    pub sources: Vec<Vec<u8>>,
    /// The gathering method; `None` for the best one of each mount.
    pub gather: Option<Gather>,
    /// Number of threads; `None` for one per processor.
    pub threads: Option<usize>,
    /// If set, only these names below the one SRC are collected, with their parent directories.
    pub listed: Option<Arc<SortedNames>>,
    /// Which entries to exclude; a SRC has depth 0.
    pub selection: Options,
    /// Set if a catalog is written: then dirty data is synced, the tokens of the file systems are
    /// read, and no entry is read within a tick of this moment, so that racy entries are
    /// recognized.
    pub for_catalog: Option<Moment>,
    /// Approximate number of entries, if known.
    pub expected: Option<u64>,
    /// The mounts around the sources, if they were read.
    pub around: Option<Arc<ReachableMounts>>,
}

/// A mount that was gathered.
#[derive(Clone, Debug)]
pub struct Gathered {
    /// The directory at which the walk entered the mount, beginning with SRC as given.
    pub path: Vec<u8>,
    /// The engine of the walk.
    pub engine: EngineKind,
    /// Why the method of this engine was used.
    pub why: GatherReason,
}

impl Gathered {
    /// The gathering method.
    pub fn method(&self) -> Gather {
        Gather::from_engine(self.engine)
    }
}

/// Why a mount was gathered by its method, or not gathered.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GatherReason {
    /// Requested by an option.
    #[error("requested")]
    Requested,
    /// The names are listed, so each was read with statx(2).
    #[error("listed names are examined one by one")]
    Listed,
    /// The requested method is unavailable.
    #[error("{} falls back to {}: {reason}", requested.name(), used.name())]
    FellBack {
        /// The requested method.
        requested: Gather,
        /// The method used.
        used: Gather,
        /// Why the engine was chosen.
        reason: PlanReason,
    },
    /// The engine was chosen for the mount.
    #[error(transparent)]
    Plan(PlanReason),
    /// The mount was not gathered: the file system proves that nothing has changed.
    #[error(transparent)]
    Untouched(Evidence),
    /// Only entries written since the base were gathered.
    #[error("{0}; other entries are taken from the catalog")]
    Written(Evidence),
    /// The tree was gathered, and its digest equals that of the base.
    #[error("{}; {}", Evidence::SameDigest, .0)]
    SameDigest(Box<GatherReason>),
}

pub(crate) fn engines(parts: &[Gathered]) -> impl Iterator<Item = EngineKind> {
    parts.iter().map(|part| part.engine)
}

/// Collects a tree, and returns the mounts gathered: none for a SRC that is no directory.
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

/// Collects a tree in any order; with `with_sum`, also sums up its entries.
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
        // Wait for a tick of the clock, and read the SRC again: a later change within the tick of
        // the first reading may not show in the file's times.
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

/// The walk options for collecting metadata, without the directories to begin with.
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

fn collect_names<'a>(
    options: &CollectOptions,
    listed: &SortedNames,
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
        engine: EngineKind::Threads,
        why: GatherReason::Listed,
    }];
    for report in reports {
        parts.extend(gathered(report, options.gather));
    }
    Ok((collector, parts))
}

/// The mounts walked, each with the reason for its method.
fn gathered(report: WalkReport, requested: Option<Gather>) -> impl Iterator<Item = Gathered> {
    report.parts.into_iter().map(move |part| {
        let used = Gather::from_engine(part.engine);
        let why = match requested {
            Some(requested) if requested == used => GatherReason::Requested,
            Some(requested) => GatherReason::FellBack {
                requested,
                used,
                reason: part.reason,
            },
            None => GatherReason::Plan(part.reason),
        };
        Gathered {
            path: part.path,
            engine: part.engine,
            why,
        }
    })
}

/// An empty collector that sums up entries, if there is exactly one SRC and it is a directory.
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
            .then(|| mounts::root::absolute(or_dot(path)))
            .flatten(),
        rows: 0..0,
        open: OnceLock::new(),
    }
}

fn stat(path: &[u8]) -> Result<Meta, walk::Error> {
    // The automount named by SRC is triggered by the walk, so its target is examined.
    let seen = statx_long(path, AtFlags::SYMLINK_NOFOLLOW, Meta::WANT);
    seen.map(|seen| Meta::from_statx(&seen))
        .map_err(|e| not_examined(path, e))
}

/// The metadata and a descriptor of the file at a path, without following a symlink.
fn open_itself(path: &[u8]) -> gate::Result<(Meta, Fd)> {
    let open = open_long(path, Open::PATH | Open::NOFOLLOW)?;
    let seen = fstat(&open, Meta::WANT)?;
    Ok((Meta::from_statx(&seen), open))
}

fn not_examined(path: &[u8], errno: Errno) -> walk::Error {
    mounts::Error::at(ErrorKind::ReadAttributes, path, Gate::Statx, errno).into()
}
