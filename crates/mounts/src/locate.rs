//! The question: which mount points are at or under a directory?

use std::fmt;

use crate::error::{Error, WarningKind};
use crate::kind;
use crate::method::search::SearchReason;
use crate::method::{Progress, SearchContext, getmnt1, getmnt2, getmnt3, naive, search};
use crate::pairs::Pairs;
use crate::path::below;
use crate::point::{Class, Point, classify_by_name};
use crate::reason::{Incompleteness, Loss, TableSource};
use crate::root::Root;
use crate::table::{self, Table, TableReason};
use crate::tree::Tree;
use crate::warning::Warning;

/// A method.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Method {
    /// listmount(2) and statmount(2).
    Kernel,
    /// /proc/self/mountinfo.
    Mountinfo,
    /// [`search`]
    Search,
    /// [`getmnt3`]
    Getmnt3,
    /// [`getmnt2`]
    Getmnt2,
    /// [`getmnt1`]
    Getmnt1,
    /// [`naive`]
    Naive,
}

impl Method {
    /// Every method, the costliest first.
    pub const ALL: [Method; 7] = [
        Method::Naive,
        Method::Getmnt1,
        Method::Getmnt2,
        Method::Getmnt3,
        Method::Search,
        Method::Mountinfo,
        Method::Kernel,
    ];

    /// Its name on the command line and in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Method::Kernel => "kernel",
            Method::Mountinfo => "mountinfo",
            Method::Search => "search",
            Method::Getmnt3 => "getmnt3",
            Method::Getmnt2 => "getmnt2",
            Method::Getmnt1 => "getmnt1",
            Method::Naive => "naive",
        }
    }
}

/// The extra information that getmnt2, getmnt3 and search go by.
#[derive(Clone, Debug, Default)]
pub enum Hints {
    /// The kernel's table: to search, with its names.
    #[default]
    Auto,
    /// Nothing.
    None,
    /// The kernel's table without its names.
    Ids,
    /// Names from elsewhere, which are looked at first; and the kernel's table without its names.
    File(Vec<Vec<u8>>),
}

/// What is asked.
#[derive(Clone, Debug)]
pub struct LocateOptions {
    /// The method; `None` for the cheapest that works.
    pub method: Option<Method>,
    /// The depth bound of getmnt1 to getmnt3; `None` for none.
    pub bound: Option<usize>,
    /// The extra information.
    pub hints: Hints,
}

/// Why a method was chosen, or what it went by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LocateReason {
    /// It was requested by name.
    Requested,
    /// The table was read from the cheaper source.
    Table(TableReason),
    /// The tree was searched.
    Search(SearchReason),
    /// The tree was searched, because no table can be read.
    NoTable {
        /// Why not.
        error: Error,
        /// What the search went by.
        search: SearchReason,
    },
    /// The tree was searched by a method of the papers.
    Historical {
        /// The depth bound.
        bound: Option<usize>,
        /// The table of device pairs, for the methods that use one.
        pairs: Option<PairSource>,
    },
}

impl fmt::Display for LocateReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LocateReason::Requested => f.write_str("asked for"),
            LocateReason::Table(reason) => reason.fmt(f),
            LocateReason::Search(reason) => reason.fmt(f),
            LocateReason::NoTable { error, search } => write!(
                f,
                "the kernel gives no mount table ({error}), so the tree was searched; {search}"
            ),
            LocateReason::Historical { bound, pairs } => {
                match bound {
                    Some(bound) => write!(f, "depth bound {bound}")?,
                    None => f.write_str("no depth bound")?,
                }
                if let Some(pairs) = pairs {
                    write!(f, ", {pairs}")?;
                }
                f.write_str(
                    "; goes by st_dev, so bind mounts of one device and mounts on files are not seen",
                )
            }
        }
    }
}

/// Where a table of device pairs comes from. Without one, a search stops where its predecessor
/// does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PairSource {
    /// The hints exclude it.
    Excluded,
    /// No table can be read.
    NoTable(Error),
    /// The parents in the table lead nowhere.
    Inconsistent,
    /// A table from this source.
    Table(TableSource),
}

impl fmt::Display for PairSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const STOPS: &str = "stops where getmnt1 does";
        match self {
            PairSource::Excluded => write!(f, "without a table of device pairs: {STOPS}"),
            PairSource::NoTable(error) => write!(f, "no table of device pairs ({error}): {STOPS}"),
            PairSource::Inconsistent => {
                write!(f, "the mount table does not hold together: {STOPS}")
            }
            PairSource::Table(TableSource::Kernel) => {
                f.write_str("pairs of devices from statmount(2)")
            }
            PairSource::Table(TableSource::Mountinfo) => {
                f.write_str("pairs of devices from /proc/self/mountinfo")
            }
        }
    }
}

/// What was found.
#[derive(Clone, Debug)]
pub struct LocateReport {
    /// The method that found it.
    pub method: Method,
    /// Why this method, or what it went by.
    pub reason: LocateReason,
    /// Type of the file system that the root itself is on; `None` where no table says.
    pub root_fstype: Option<Vec<u8>>,
    /// The mount points.
    pub points: Vec<Point>,
    /// Why mount points may be missing.
    pub incomplete: Vec<Incompleteness>,
    /// What was skipped or found wrong.
    pub warnings: Vec<Warning>,
    /// How much was searched, when anything was.
    pub search: Option<Progress>,
}

impl LocateReport {
    /// Whether no mount point is missing, as far as is known.
    pub fn is_complete(&self) -> bool {
        self.incomplete.is_empty()
    }
}

/// Finds every mount point at or under `root`. `tick` is called now and then while a search goes
/// on.
///
/// # Errors
/// When the table that was asked for by name cannot be read.
pub fn locate(
    root: &Root,
    options: &LocateOptions,
    tick: &mut dyn FnMut(&Progress, &[u8]),
) -> Result<LocateReport, Error> {
    let requested = |source| {
        Table::read(source).map(|table| report_table(root, table, LocateReason::Requested))
    };
    match options.method {
        Some(Method::Kernel) => requested(TableSource::Kernel),
        Some(Method::Mountinfo) => requested(TableSource::Mountinfo),
        Some(method) => Ok(search_tree(root, method, options, tick)),
        None => match table::read_either(false, root.anchor) {
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
    if !table.holds(root.anchor) {
        incomplete.push(Incompleteness::MissingRoot);
    }
    let tree = Tree::new(&table.mounts);
    let anchor = root.anchor.or_else(|| tree.anchor(&root.path));
    let visible = match anchor {
        Some(anchor) => tree.visible(&root.path, anchor),
        None => vec![false; table.mounts.len()],
    };
    let root_fstype = anchor.and_then(|anchor| Some(tree.row(anchor)?.content.fstype.clone()));
    let mut kinds = kind::Kinds::default();
    let traits: Vec<Option<(bool, Option<crate::Kind>, Class)>> = table
        .mounts
        .iter()
        .zip(visible)
        .map(|(row, visible)| {
            below(&root.path, row.target.as_deref()?)?;
            Some((
                !visible,
                kinds.find(row, &tree, visible),
                tree.class(row.id),
            ))
        })
        .collect();
    drop((tree, kinds));
    let mut points = Vec::with_capacity(table.mounts.len());
    for (mut row, traits) in table.mounts.into_iter().zip(traits) {
        if let (Some((hidden, kind, class)), Some(target)) = (traits, row.target.take()) {
            points.push(Point::from_row(row, target, kind, class, hidden));
        }
    }
    LocateReport {
        method,
        reason,
        root_fstype,
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
    tick: &mut dyn FnMut(&Progress, &[u8]),
) -> LocateReport {
    let mut context = SearchContext::new(Loss::MountPoints, tick);
    let mut root_fstype = None;
    let historical = |pairs| LocateReason::Historical {
        bound: options.bound.filter(|_| method != Method::Naive),
        pairs,
    };
    let (points, reason) = match method {
        Method::Search | Method::Kernel | Method::Mountinfo => {
            let found = search::find(root, &options.hints, &mut context);
            root_fstype = found.root_fstype;
            (found.points, LocateReason::Search(found.reason))
        }
        Method::Naive => (naive::find(root, &mut context), historical(None)),
        Method::Getmnt1 => (
            getmnt1::find(root, options.bound, &mut context),
            historical(None),
        ),
        Method::Getmnt2 => {
            let (pairs, source) = pairs(root, &options.hints);
            (
                getmnt2::find(root, options.bound, pairs.as_ref(), &mut context),
                historical(Some(source)),
            )
        }
        Method::Getmnt3 => {
            let (pairs, source) = pairs(root, &options.hints);
            (
                getmnt3::find(root, options.bound, pairs, &mut context),
                historical(Some(source)),
            )
        }
    };
    let mut report = LocateReport {
        method,
        reason,
        root_fstype,
        points,
        search: Some(context.progress),
        incomplete: std::mem::take(&mut context.incomplete),
        warnings: std::mem::take(&mut context.warnings),
    };
    if method != Method::Search {
        classify_by_name(&mut report.points);
    }
    report
        .warnings
        .extend(incomplete_warnings(&report.incomplete));
    report
}

/// Why a report is incomplete, as warnings.
fn incomplete_warnings(incomplete: &[Incompleteness]) -> impl Iterator<Item = Warning> {
    incomplete
        .iter()
        .map(|reason| Warning::general(WarningKind::Incomplete(*reason)))
}

/// The table of device pairs, and where it comes from.
fn pairs(root: &Root, hints: &Hints) -> (Option<Pairs>, PairSource) {
    if matches!(hints, Hints::None | Hints::File(_)) {
        return (None, PairSource::Excluded);
    }
    match table::read_either(true, root.anchor) {
        Err(error) => (None, PairSource::NoTable(error)),
        Ok((table, _)) => match Pairs::below(&table.mounts, root.anchor, root.dev) {
            Some(pairs) => (Some(pairs), PairSource::Table(table.source())),
            None => (None, PairSource::Inconsistent),
        },
    }
}
