//! Finds the entries added, changed, removed and renamed since a catalog was written: see
//! docs/changed.md. [`crate::since`] chooses the cheapest way to compare; this module names the
//! changes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use base::Warning;
use compare::{Compare, DifferingEntries, path_below};
use metadata::ComparedMeta;
use resolve::{EntryOutcome, resolve};
use walk::entry::joined;
use walk::predicate::Predicates;
use walk::predicate::select::is_empty_directory;
use walk::{
    Diagnostics, EngineKind, Fields, Filter, KeptPath, ReachableMounts, Sink, SinkPair, Summary,
    WalkOptions, WalkReport, open_top, walk,
};

use crate::error::{Action, Error, ErrorKind};
use crate::format::columns::{DIR, NAME, SIZE};
use crate::format::{About, Catalog, Options, Reader, RowColumns, SealedCatalog, ShardOfRun};
use crate::hidden::Hidden;
use crate::part::Part;
use crate::query::DataSet;
use crate::since::index::{Index, RowMatch, by_group};
use crate::since::{
    ComparedTree, EngineStep, Evidence, GoneMount, OtherRoot, Proof, Reason, TreeNow, Written,
    check_root, find_changes, gone_mounts,
};
use crate::warning::WarningKind;

mod catalogs;
mod changes;
mod compare;
mod metadata;
mod resolve;

pub use catalogs::{CatalogPair, PairWarning};
pub use changes::Changes;
pub use metadata::{MetadataChange, MetadataField, MetadataValues};

/// Options for comparing a directory with a catalog.
#[derive(Clone, Debug, Default)]
pub struct ChangedOptions {
    /// The directory, as given.
    pub dir: Vec<u8>,
    /// The path of the catalog.
    pub since: Vec<u8>,
    /// The engine; `None` for the best one of each mount.
    pub by: Option<EngineKind>,
    /// Number of threads; `None` for the engine's default.
    pub threads: Option<usize>,
    /// The mounts around the directory, if they were read.
    pub around: Option<Arc<ReachableMounts>>,
    /// Replace the catalog by a catalog of the current directory, regardless of the predicates.
    pub update: bool,
    /// Predicates for the changes to report; removed entries are tested by their metadata in the
    /// catalog.
    pub predicates: Predicates,
    /// Globs of entries to skip, besides those of the catalog.
    pub excludes: Vec<Vec<u8>>,
    /// Report how the metadata of each changed entry differs, and the size of each entry.
    pub metadata: bool,
}

impl ChangedOptions {
    /// The filter of the walk: the exclude patterns of the catalog, and those of the options.
    pub fn filter(&self, of_catalog: &Options) -> Filter {
        let more = self.excludes.iter().cloned();
        let all = Options {
            excludes: of_catalog.excludes.iter().cloned().chain(more).collect(),
            ..of_catalog.clone()
        };
        all.filter()
    }
}

/// What happened to an entry since the catalog was written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Change {
    /// The path is new, and so is the file.
    Added,
    /// The path is the same, but the file differs.
    Changed,
    /// The path no longer exists, and neither does the file.
    Removed,
    /// The file had a different path.
    Renamed,
}

/// An entry that was added, changed, removed or renamed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ChangedEntry {
    /// Path relative to DIR; `.` for DIR itself. For a removed entry, the former path.
    pub path: Vec<u8>,
    /// The kind of change.
    pub change: Change,
    /// The former path of a renamed entry.
    pub from: Option<Vec<u8>>,
    /// Whether the entry is, or was, a directory.
    pub is_dir: bool,
    /// Size in bytes, if metadata was requested; of a removed entry, the former size.
    pub size: Option<u64>,
    /// How the metadata of a changed entry differs, if that was requested. `None` for an entry that
    /// was also moved with its directory.
    pub metadata: Option<MetadataChange>,
}

/// The changes since a catalog, and how they were found.
#[derive(Debug)]
pub struct ChangedReport {
    /// The engine that found the changes.
    pub engine: EngineKind,
    /// Why the comparison was done in this way.
    pub reason: Reason,
    /// The entries that have changed.
    pub changes: Changes,
    /// Warnings about entries skipped or found wrong.
    pub warnings: Vec<Warning>,
    /// With [`ChangedOptions::update`], the new catalog, unless the old one is still current.
    /// Publish it only after printing the report: the changes cannot be found again afterwards.
    pub update: Option<SealedCatalog>,
}

impl ChangedReport {
    /// A report without changes.
    pub fn new(engine: EngineKind, reason: Reason) -> ChangedReport {
        ChangedReport {
            engine,
            reason,
            changes: Changes::default(),
            warnings: Vec::new(),
            update: None,
        }
    }

    /// Removes changes that count entries in unreadable directories as removed, because these
    /// entries may still exist. If there are any, the catalog is not replaced: a new catalog would
    /// not contain the entries.
    fn spare_hidden(&mut self, ChangedOptions { dir, since, .. }: &ChangedOptions) {
        let hidden = Hidden::new(&self.warnings);
        let removed = self.changes.count(Change::Removed);
        let is_certain = |entry: &ChangedEntry| {
            entry.change != Change::Removed || !hidden.may_have(&joined(dir, &entry.path))
        };
        self.changes.retain(is_certain);
        let spared = (removed - self.changes.count(Change::Removed)) as u64;
        if spared > 0 && self.update.take().is_some() {
            let kept = WarningKind::CatalogKept(spared);
            self.warnings.push(Warning::about(since, kept));
        }
    }

    /// Creates a report on a walk, without changes yet.
    fn walked(walked: &WalkReport, evidence: Evidence) -> ChangedReport {
        let part = walked.parts.first();
        let reason = Reason {
            evidence,
            walk: part.map(|part| part.reason.clone()),
        };
        ChangedReport::new(part.map_or(EngineKind::Stat, |part| part.engine), reason)
    }
}

/// Finds the changes since a catalog; `reader` is the open catalog.
///
/// # Errors
/// The catalog or the directory cannot be read. The catalog is unchanged.
pub fn changed(
    options: &ChangedOptions,
    reader: Reader,
    diagnostics: &Diagnostics,
) -> Result<ChangedReport, Error> {
    let about = reader.about();
    if options.update && reader.is_in_parts() {
        return Err(Error::new(
            Action::WriteCatalog,
            &options.since,
            ErrorKind::InParts,
        ));
    }
    let top = open_top(&options.dir, 0).map_err(walk::Error::from)?;
    let tree = ComparedTree::new(vec![top]);
    check_catalog(about, options, &tree)?;
    let scan = CatalogScan {
        reader: &reader,
        options,
        filter: options.filter(&about.options),
        diagnostics,
    };
    let accepts = |step, by| scan.accepts(step, by);
    let few = |_, entries| 20 + entries / 50;
    let mut report = match find_changes(&reader, &tree, accepts, few, |_, _| Some(()))? {
        Proof::Untouched { by, evidence, .. } => ChangedReport::new(by, evidence.into()),
        Proof::Written((), written) => scan.compare_written(written)?,
        Proof::Unknown => {
            drop(tree); // the walk opens the directory again
            scan.compare_digest()?
                .map_or_else(|| scan.compare_all(), Ok)?
        }
    };
    report.spare_hidden(options);
    if !options.excludes.is_empty() {
        let is_kept = |path: &[u8]| path == b"." || scan.filter.keeps_all(&options.dir, path);
        report.changes.retain(|it| is_kept(&it.path));
        report.changes.retain_carried(|path, _| is_kept(path));
    }
    if !options.predicates.is_all() {
        select_the_rest(&mut report.changes, reader, options, diagnostics)?;
    }
    Ok(report)
}

/// Applies the predicates where the comparison cannot: to removed entries, which only the catalog
/// has, and to directories, which may be empty.
fn select_the_rest(
    changes: &mut Changes,
    reader: Reader,
    options: &ChangedOptions,
    diagnostics: &Diagnostics,
) -> Result<(), Error> {
    let predicates = &options.predicates;
    let old = DataSet::from_reader(&options.since, reader, &options.dir);
    changes.retain_removed(&old, 0, predicates)?;
    if predicates.empty {
        let dirs = [options.dir.clone()];
        let has_none = is_empty_directory(&dirs, diagnostics);
        let is_empty = |path: &[u8]| has_none(&joined(&options.dir, path), None);
        changes.retain(|it| it.change == Change::Removed || !it.is_dir || is_empty(&it.path));
        changes.retain_carried(|path, is_dir| !is_dir || is_empty(path));
    }
    Ok(())
}

/// Scans the directory with the same options as the catalog.
struct CatalogScan<'a> {
    reader: &'a Reader,
    options: &'a ChangedOptions,
    filter: Filter,
    diagnostics: &'a Diagnostics,
}

impl CatalogScan<'_> {
    fn accepts(&self, step: EngineStep, by: EngineKind) -> bool {
        // An update needs all entries, so only tokens can avoid the walk.
        let is_wanted = step == EngineStep::Token || !self.options.update;
        is_wanted && self.options.by.is_none_or(|only| only == by)
    }

    /// Reads only the entries written since the catalog.
    fn compare_written(&self, written: Written<'_>) -> Result<ChangedReport, Error> {
        let (by, mut differing) = (written.by, written.differing);
        let dir = &self.options.dir;
        let index = Index::load_some(self.reader, std::mem::take(&mut differing.places))?;
        let compare = Compare::new(&index, dir, &self.reader.about().parts);
        let compare = compare.with_predicates(&self.options.predicates);
        let compare = compare.with_metadata(self.options.metadata);
        compare.begin(&written.context, by);
        differing.emit(dir, &compare);
        Ok(ChangedReport {
            changes: Changes::resolve(self.reader, &index, &compare.into_found())?,
            ..ChangedReport::new(by, written.evidence.into())
        })
    }

    /// Walks, and compares the digest with that of the catalog. `None` if the digests differ, or if
    /// equal digests would prove nothing.
    fn compare_digest(&self) -> Result<Option<ChangedReport>, Error> {
        let about = self.reader.about();
        // The digest does not reveal changes of racy entries. An update walks only once, to compare
        // and to write.
        let is_all = self.options.excludes.is_empty();
        if about.racy > 0 || self.options.update || !is_all {
            return Ok(None);
        }
        let sum = Summary::default();
        let walked = self.walk_to(&sum)?;
        let report = ChangedReport {
            warnings: self.diagnostics.take_warnings(),
            ..ChangedReport::walked(&walked, Evidence::SameDigest)
        };
        Ok((sum.totals().digest.to_string() == about.digest).then_some(report))
    }

    fn walk_to(&self, sink: &dyn Sink) -> Result<WalkReport, Error> {
        let about = self.reader.about();
        let walk_options = WalkOptions {
            dirs: vec![self.options.dir.clone()],
            engine: self.options.by,
            threads: self.options.threads,
            one_file_system: about.options.one_file_system,
            filter: self.filter.clone(),
            expected: Some(about.entries),
            around: self.options.around.clone(),
            ..WalkOptions::default()
        };
        walk(&walk_options, sink, self.diagnostics).map_err(Error::from)
    }

    /// Walks and compares entry by entry; for an update, also writes the new catalog.
    fn compare_all(&self) -> Result<ChangedReport, Error> {
        let (about, options) = (self.reader.about(), self.options);
        let index = Index::load(self.reader)?;
        let compare = Compare::new(&index, &options.dir, &about.parts);
        let compare = compare.with_predicates(&options.predicates);
        let compare = compare.with_metadata(options.metadata);
        let (walked, mut warnings, update) = if options.update {
            let catalog = Catalog::create(&options.since, &options.dir, about.options.clone())?;
            let walked = self.walk_to(&SinkPair(&compare, &catalog))?;
            let warnings = self.diagnostics.take_warnings();
            let sealed = catalog.seal(&walked, warnings.is_empty())?;
            (walked, warnings, Some(sealed))
        } else {
            (
                self.walk_to(&compare)?,
                self.diagnostics.take_warnings(),
                None,
            )
        };
        let parts = compare.parts();
        let changes = Changes::resolve(self.reader, &index, &compare.into_found())?;
        let is_removed = |row: u32, _, _: &[u8]| index.row(row).row_match() == RowMatch::Missing;
        let dir = |_| options.dir.clone();
        let (parts, roots) = (&parts, None);
        let gone = gone_mounts(self.reader, TreeNow { parts, roots }, dir, is_removed)?;
        warnings.extend(gone.iter().map(GoneMount::warning));
        Ok(ChangedReport {
            changes,
            warnings,
            update,
            ..ChangedReport::walked(&walked, Evidence::Compared)
        })
    }
}

impl Changes {
    /// Converts differing entries to changes. Only row groups with a needed path are read.
    fn resolve(reader: &Reader, index: &Index, found: &DifferingEntries) -> Result<Changes, Error> {
        let mut changes = Changes::default();
        let outcomes = resolve(reader, index, found)?;
        let mut metadata = metadata_changes(reader, index, found, &outcomes)?;
        let row = |outcome: &EntryOutcome| match *outcome {
            EntryOutcome::Renamed(_, row) | EntryOutcome::Removed(row) => Some(index.place(row)),
            _ => None,
        };
        let mut places: Vec<u32> = outcomes.iter().filter_map(row).collect();
        places.sort_unstable();
        let mut names: BTreeMap<u32, (KeptPath, Option<u64>)> = BTreeMap::new();
        for (group, first, here) in by_group(reader, &places) {
            let (dirs, files) = (reader.read(DIR, group)?, reader.read(NAME, group)?);
            let sizes = match found.keeps_metadata {
                true => Some(reader.read(SIZE, group)?),
                false => None,
            };
            for &place in here {
                let at = (u64::from(place) - first) as usize;
                let path = changes.keep(&path_below(&dirs[at], &files[at]));
                names.insert(place, (path, sizes.as_ref().map(|sizes| sizes[at])));
            }
        }
        for outcome in outcomes {
            let mut name = |row: u32| names.remove(&index.place(row));
            let (at, change, from) = match outcome {
                EntryOutcome::Added(at) => (at, Change::Added, None),
                EntryOutcome::Changed(at, _) => (at, Change::Changed, None),
                EntryOutcome::Renamed(at, row) => {
                    (at, Change::Renamed, name(row).map(|(path, _)| path))
                }
                EntryOutcome::Carried(at) => {
                    let entry = &found.entries[at];
                    if entry.is_selected {
                        changes.add_carried(&found.path(entry), entry.is_dir);
                    }
                    continue;
                }
                EntryOutcome::Removed(row) => {
                    let is_dir = index.row(row).is_dir();
                    if let Some((path, size)) = name(row) {
                        changes.add_kept(path, Change::Removed, None, is_dir);
                        changes.set_last_size(size);
                    }
                    continue;
                }
            };
            let entry = &found.entries[at];
            if entry.is_selected {
                let path = changes.keep(&found.path(entry));
                changes.add_kept(path, change, from, entry.is_dir);
                changes.set_last_size(found.metadata(entry).map(ComparedMeta::size));
                if let Some(metadata) = metadata.remove(&at) {
                    changes.describe_last(metadata);
                }
            }
        }
        changes.sort();
        Ok(changes)
    }
}

/// How the metadata of changed entries differs from the catalog, by index of the entry. Only entries
/// whose metadata was kept are looked up.
fn metadata_changes(
    reader: &Reader,
    index: &Index,
    found: &DifferingEntries,
    outcomes: &[EntryOutcome],
) -> Result<HashMap<usize, MetadataChange>, Error> {
    let place = |outcome: &EntryOutcome| match *outcome {
        EntryOutcome::Changed(at, row) => {
            let entry = &found.entries[at];
            found.metadata(entry)?;
            // Not for an entry that moved with its directory: whether a row with its new path is
            // loaded depends on the engine.
            (entry.row() == Some(row)).then(|| (index.place(row), at))
        }
        _ => None,
    };
    let mut changed: Vec<(u32, usize)> = outcomes.iter().filter_map(place).collect();
    changed.sort_unstable();
    let places: Vec<u32> = changed.iter().map(|(place, _)| *place).collect();
    let mut entries = changed.iter().map(|(_, at)| *at);
    let mut changes = HashMap::with_capacity(changed.len());
    let unread = Fields::ATIME | Fields::BTIME | Fields::BLOCKS | Fields::REST;
    for (group, first, here) in by_group(reader, &places) {
        let columns = RowColumns::new(reader, group);
        let metas = columns.metas(Fields::all() - unread)?;
        for (&place, entry) in here.iter().zip(&mut entries) {
            let old = metas((u64::from(place) - first) as usize);
            if let Some(new) = found.metadata(&found.entries[entry]) {
                let old = ComparedMeta::new(&old, index.is_by_name());
                changes.insert(entry, new.since(&old));
            }
        }
    }
    Ok(changes)
}

/// Checks that a catalog is of the given directory.
fn check_catalog(
    about: &About,
    options: &ChangedOptions,
    tree: &ComparedTree,
) -> Result<(), Error> {
    let refused = |kind| Err(Error::new(Action::UseCatalog, &options.since, kind));
    let (Some(old), [top]) = (about.parts.first(), &tree.tops[..]) else {
        return refused(ErrorKind::DamagedCatalog);
    };
    let [root] = &about.roots[..] else {
        return refused(ErrorKind::SeveralRoots {
            roots: about.roots.len(),
        });
    };
    if about.options.files_from {
        return refused(ErrorKind::OnlyListed);
    }
    let part_of_run = about.options.shard.as_ref();
    if let Some(refusal) = part_of_run.and_then(ShardOfRun::refusal) {
        return refused(refusal);
    }
    let part = Part::from_context(&options.dir, &tree.mount_context(top), EngineKind::Stat);
    if let Err(other) = check_root(root, old, &part, || mounts::root::absolute(&options.dir)) {
        let dir = options.dir.clone();
        let root = root.absolute.as_ref().unwrap_or(&root.path).clone();
        return refused(match other {
            OtherRoot::FileSystem => ErrorKind::OtherFileSystem {
                root,
                recorded: Box::new(old.file_system_id()),
                dir,
                current: Box::new(part.file_system_id()),
            },
            OtherRoot::Directory => ErrorKind::OtherDirectory { root, dir },
        });
    }
    if about
        .options
        .excludes
        .iter()
        .any(|glob| glob.contains(&b'/'))
        && root.path != options.dir
    {
        return refused(ErrorKind::OtherNameForExcludes {
            root: root.path.clone(),
        });
    }
    Ok(())
}
