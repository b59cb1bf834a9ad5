//! Finds every mount point at or under a directory.

use base::path::below;
use base::warning::Warning;
use ondisk::Mount;

use crate::error::{Error, Incompleteness, MissingPart, TableSource, WarningKind};
use crate::kind::Kinds;
use crate::method::search::{Hints, SearchReason};
use crate::method::{SearchContext, SearchProgress, getmnt1, getmnt2, getmnt3, naive, search};
use crate::pairs::Pairs;
use crate::point::{MountClass, Point, PointKind, classify_by_name};
use crate::root::Root;
use crate::table::{Table, TableReason, read_either};
use crate::tree::Tree;

base::named! {
    /// A method of finding mount points. The costliest method is the first.
    #[derive(Hash)]
    Method {
        /// The method [`naive`].
        Naive "naive",
        /// The method [`getmnt1`].
        Getmnt1 "getmnt1",
        /// The method [`getmnt2`].
        Getmnt2 "getmnt2",
        /// The method [`getmnt3`].
        Getmnt3 "getmnt3",
        /// The method [`search`].
        Search "search",
        /// /proc/self/mountinfo.
        Mountinfo "mountinfo",
        /// listmount(2) and statmount(2).
        Kernel "kernel",
    }
}

/// Options for finding mount points.
#[derive(Clone, Debug)]
pub struct LocateOptions {
    /// The method; `None` for the cheapest one that works.
    pub method: Option<Method>,
    /// Maximum depth for getmnt1 to getmnt3; `None` for no limit.
    pub bound: Option<usize>,
    /// The hints for getmnt2, getmnt3 and search.
    pub hints: Hints,
}

/// Why a method was chosen, or its source of information.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum LocateReason {
    #[error("as requested")]
    Requested,
    #[error("{0}")]
    Table(TableReason),
    #[error("{0}")]
    Search(SearchReason),
    #[error("no mount table is available ({error}), so the tree was searched; {search}")]
    NoTable { error: Error, search: SearchReason },
    /// The tree was searched by a method that compares st_dev.
    #[error(
        "{}{}; compares st_dev, so bind mounts on the same device and mounts on files are not found",
        bound.map_or("no depth limit".to_owned(), |bound| format!("depth limit {bound}")),
        pairs.as_ref().map_or(String::new(), |pairs| format!(", {pairs}"))
    )]
    Historical {
        bound: Option<usize>,
        pairs: Option<PairSource>,
    },
}

/// The source of a table of device pairs.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum PairSource {
    #[error("without a table of device pairs, so it stops where getmnt1 does")]
    Excluded,
    #[error("no table of device pairs ({0}), so it stops where getmnt1 does")]
    NoTable(Error),
    #[error("the mount table is inconsistent, so it stops where getmnt1 does")]
    Inconsistent,
    #[error("table of device pairs from {}", match .0 {
        TableSource::Kernel => "statmount(2)",
        TableSource::Mountinfo => "/proc/self/mountinfo",
    })]
    Table(TableSource),
}

/// The mount points, and how they were found.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct LocateReport {
    pub method: Method,
    pub reason: LocateReason,
    /// The mount that contains the root of the search; `None` if no table has it.
    pub root_mount: Option<Mount>,
    pub points: Vec<Point>,
    pub incomplete: Vec<Incompleteness>,
    pub warnings: Vec<Warning>,
    /// How much of the file tree was searched; `None` if the mount table sufficed.
    pub search: Option<SearchProgress>,
}

impl LocateReport {
    /// Type of the file system that contains the root of the search; `None` if no table has it.
    pub fn root_fstype(&self) -> Option<&[u8]> {
        self.root_mount
            .as_ref()
            .map(|mount| &mount.content.fstype[..])
    }

    /// Whether no mount point is missing, as far as known.
    pub fn is_complete(&self) -> bool {
        self.incomplete.is_empty()
    }
}

/// Finds every mount point at or under `root`. `tick` is called now and then during a search.
///
/// # Errors
/// The requested mount table cannot be read.
pub fn locate(
    root: &Root,
    options: &LocateOptions,
    tick: &mut dyn FnMut(&SearchProgress, &[u8]),
) -> Result<LocateReport, Error> {
    let requested = |source| {
        Table::read(source).map(|table| report_table(root, table, LocateReason::Requested))
    };
    match options.method {
        Some(Method::Kernel) => requested(TableSource::Kernel),
        Some(Method::Mountinfo) => requested(TableSource::Mountinfo),
        Some(method) => Ok(search_tree(root, method, options, tick)),
        None => match read_either(false, root.anchor) {
            Ok((table, reason)) => Ok(report_table(root, table, LocateReason::Table(reason))),
            Err(error) => {
                let mut report = search_tree(root, Method::Search, options, tick);
                if let LocateReason::Search(search) = report.reason {
                    report.reason = LocateReason::NoTable { error, search };
                }
                Ok(report)
            }
        },
    }
}

fn report_table(root: &Root, table: Table, reason: LocateReason) -> LocateReport {
    let method = match table.source() {
        TableSource::Kernel => Method::Kernel,
        TableSource::Mountinfo => Method::Mountinfo,
    };
    let mut incomplete = Vec::new();
    if !table.has_anchor(root.anchor) {
        incomplete.push(Incompleteness::MissingRoot);
    }
    let tree = Tree::new(&table.mounts);
    let anchor = root.anchor.or_else(|| tree.anchor(&root.path));
    let visible = match anchor {
        Some(anchor) => tree.visible(&root.path, anchor),
        None => vec![false; table.mounts.len()],
    };
    let root_mount = anchor.and_then(|anchor| tree.row(anchor).cloned());
    let mut kinds = Kinds::default();
    let found = table.mounts.iter().zip(visible).map(|(row, visible)| {
        below(&root.path, row.target.as_deref()?)?;
        let kind = kinds.find(row, &tree, visible);
        Some((!visible, kind, tree.class(row.id)))
    });
    let found: Vec<Option<(bool, Option<PointKind>, MountClass)>> = found.collect();
    drop((tree, kinds));
    let mut points = Vec::with_capacity(table.mounts.len());
    for (mut row, found) in table.mounts.into_iter().zip(found) {
        if let (Some((hidden, kind, class)), Some(target)) = (found, row.target.take()) {
            points.push(Point::from_row(row, target, kind, class, hidden));
        }
    }
    LocateReport {
        method,
        reason,
        root_mount,
        points,
        warnings: incomplete_warnings(&incomplete).collect(),
        incomplete,
        search: None,
    }
}

fn search_tree(
    root: &Root,
    method: Method,
    options: &LocateOptions,
    tick: &mut dyn FnMut(&SearchProgress, &[u8]),
) -> LocateReport {
    let mut context = SearchContext::new(MissingPart::MountPoints, tick);
    let bound = options.bound.filter(|_| method != Method::Naive);
    let mut root_mount = None;
    let historical = |pairs| LocateReason::Historical { bound, pairs };
    let (mut points, reason) = match method {
        Method::Search | Method::Kernel | Method::Mountinfo => {
            let found = search::find(root, &options.hints, &mut context);
            root_mount = found.root_mount;
            (found.points, LocateReason::Search(found.reason))
        }
        Method::Naive => (naive::find(root, &mut context), historical(None)),
        Method::Getmnt1 => {
            let points = getmnt1::find(root, bound, &mut context);
            (points, historical(None))
        }
        Method::Getmnt2 => {
            let (pairs, source) = pairs(root, &options.hints);
            let points = getmnt2::find(root, bound, pairs.as_ref(), &mut context);
            (points, historical(Some(source)))
        }
        Method::Getmnt3 => {
            let (pairs, source) = pairs(root, &options.hints);
            let points = getmnt3::find(root, bound, pairs, &mut context);
            (points, historical(Some(source)))
        }
    };
    if method != Method::Search {
        classify_by_name(&mut points);
    }
    let mut warnings = context.warnings;
    warnings.extend(incomplete_warnings(&context.incomplete));
    LocateReport {
        method,
        reason,
        root_mount,
        points,
        incomplete: context.incomplete,
        warnings,
        search: Some(context.progress),
    }
}

fn incomplete_warnings(incomplete: &[Incompleteness]) -> impl Iterator<Item = Warning> {
    incomplete
        .iter()
        .map(|reason| Warning::general(WarningKind::Incomplete(*reason)))
}

/// The papers' table of device pairs, and its source.
fn pairs(root: &Root, hints: &Hints) -> (Option<Pairs>, PairSource) {
    if matches!(hints, Hints::None | Hints::File(_)) {
        return (None, PairSource::Excluded);
    }
    match read_either(true, root.anchor) {
        Err(error) => (None, PairSource::NoTable(error)),
        Ok((table, _)) => match Pairs::below(&table.mounts, root.anchor, root.dev) {
            Some(pairs) => (Some(pairs), PairSource::Table(table.source())),
            None => (None, PairSource::Inconsistent),
        },
    }
}
