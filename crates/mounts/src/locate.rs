//! The question: which mount points are at or under a directory?

use crate::method::{Hunt, Progress, getmnt1, getmnt2, getmnt3, naive, search};
use crate::pairs::Pairs;
use crate::path::below;
use crate::point::classify_by_name;
use crate::root::Root;
use crate::table::{self, Door, Refusal, Table};
use crate::tree::Tree;
use crate::{Class, Point, Warning, kind};

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
    pub by: Option<Method>,
    /// The depth bound of getmnt1 to getmnt3; `None` for none.
    pub bound: Option<usize>,
    /// The extra information.
    pub hints: Hints,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct LocateReport {
    /// The method that found it.
    pub by: Method,
    /// Why this method, or by what it went.
    pub why: String,
    /// Type of the file system that the root itself is on; `None` where no table says.
    pub root_fstype: Option<Vec<u8>>,
    /// The mount points.
    pub points: Vec<Point>,
    /// Why something may be lacking; empty when the answer is complete.
    pub lacking: Vec<String>,
    /// What was skipped or found wrong.
    pub warnings: Vec<Warning>,
    /// How much was searched, when anything was.
    pub search: Option<Progress>,
}

/// Finds every mount point at or under `root`. `tick` is called now and then while a search goes
/// on.
///
/// # Errors
/// When the table that was asked for by name cannot be read.
pub fn locate(
    root: &Root,
    question: &LocateOptions,
    tick: &mut dyn FnMut(&Progress, &[u8]),
) -> Result<LocateReport, Refusal> {
    match question.by {
        Some(Method::Kernel) => Ok(of_table(
            root,
            Table::read(Door::Kernel)?,
            "asked for".to_owned(),
        )),
        Some(Method::Mountinfo) => Ok(of_table(
            root,
            Table::read(Door::Mountinfo)?,
            "asked for".to_owned(),
        )),
        Some(by) => Ok(searched(root, by, question, tick)),
        None => match table::read_either(false, root.anchor) {
            Ok((table, why)) => Ok(of_table(root, table, why)),
            Err([a, b]) => {
                let mut answer = searched(root, Method::Search, question, tick);
                answer.why = format!(
                    "the kernel gives no mount table ({a}; {b}), so the tree was searched; {}",
                    answer.why
                );
                Ok(answer)
            }
        },
    }
}

fn of_table(root: &Root, table: Table, why: String) -> LocateReport {
    let by = if table.door() == Door::Kernel {
        Method::Kernel
    } else {
        Method::Mountinfo
    };
    let mut lacking = Vec::new();
    if !table.holds(root.anchor) {
        lacking.push(
            "the table does not hold the mount that the root is on; try --by search".to_owned(),
        );
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
            Some((!visible, kinds.of(row, &tree, visible), tree.class(row.id)))
        })
        .collect();
    drop((tree, kinds));
    let mut points = Vec::with_capacity(table.mounts.len());
    for (mut row, traits) in table.mounts.into_iter().zip(traits) {
        if let (Some((hidden, kind, class)), Some(target)) = (traits, row.target.take()) {
            points.push(Point::of_row(row, target, kind, class, hidden));
        }
    }
    LocateReport {
        by,
        why,
        root_fstype,
        points,
        warnings: incomplete(&lacking),
        lacking,
        search: None,
    }
}

fn searched(
    root: &Root,
    by: Method,
    question: &LocateOptions,
    tick: &mut dyn FnMut(&Progress, &[u8]),
) -> LocateReport {
    let mut hunt = Hunt::new("mount points in it are not seen", tick);
    let mut root_fstype = None;
    let (points, why) = match by {
        Method::Search | Method::Kernel | Method::Mountinfo => {
            let found = search::find(root, &question.hints, &mut hunt);
            root_fstype = found.root_fstype;
            (found.points, found.why)
        }
        Method::Naive => (naive::find(root, &mut hunt), "no bound".to_owned()),
        Method::Getmnt1 => (
            getmnt1::find(root, question.bound, &mut hunt),
            bounded(question.bound),
        ),
        Method::Getmnt2 => {
            let (pairs, why) = pairs(root, &question.hints);
            let why = format!("{}, {why}", bounded(question.bound));
            (
                getmnt2::find(root, question.bound, pairs.as_ref(), &mut hunt),
                why,
            )
        }
        Method::Getmnt3 => {
            let (pairs, why) = pairs(root, &question.hints);
            let why = format!("{}, {why}", bounded(question.bound));
            (getmnt3::find(root, question.bound, pairs, &mut hunt), why)
        }
    };
    let mut answer = LocateReport {
        by,
        why,
        root_fstype,
        points,
        search: Some(hunt.progress),
        lacking: std::mem::take(&mut hunt.lacking),
        warnings: std::mem::take(&mut hunt.warnings),
    };
    if by != Method::Search {
        classify_by_name(&mut answer.points);
        answer.why.push_str(
            "; goes by st_dev, so bind mounts of one device and mounts on files are not seen",
        );
    }
    answer.warnings.extend(incomplete(&answer.lacking));
    answer
}

/// Why an answer is incomplete, as warnings.
fn incomplete(lacking: &[String]) -> Vec<Warning> {
    lacking
        .iter()
        .map(|reason| Warning::general(format!("incomplete: {reason}")))
        .collect()
}

fn bounded(bound: Option<usize>) -> String {
    bound.map_or("no depth bound".to_owned(), |bound| {
        format!("depth bound {bound}")
    })
}

/// The table of device pairs, and what it was made from; without one, the search stops where its
/// predecessor does.
fn pairs(root: &Root, hints: &Hints) -> (Option<Pairs>, String) {
    if matches!(hints, Hints::None | Hints::File(_)) {
        return (
            None,
            "without a table of device pairs: stops where getmnt1 does".to_owned(),
        );
    }
    match table::read_either(true, root.anchor) {
        Err([a, b]) => (
            None,
            format!("no table of device pairs ({a}; {b}): stops where getmnt1 does"),
        ),
        Ok((table, _)) => match Pairs::below(&table.mounts, root.anchor, root.dev) {
            Some(pairs) => {
                let from = if table.door() == Door::Kernel {
                    "statmount(2)"
                } else {
                    "/proc/self/mountinfo"
                };
                (Some(pairs), format!("pairs of devices from {from}"))
            }
            None => (
                None,
                "the mount table does not hold together: stops where getmnt1 does".to_owned(),
            ),
        },
    }
}
