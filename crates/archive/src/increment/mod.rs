//! Plans an increment: the entries to dump so that restoring the earlier dumps and then this one
//! gives the current tree. The rules are those by which GNU tar restores increments: see
//! docs/dump.md.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::iter;

use ondisk::pax::dumpdir::Code;
use walk::entry::joined;
use walk::{Diagnostics, FileType, MountContext, Top, open_top, path_id};

pub mod automatic;
mod base;
pub mod history;
pub mod levels;
pub mod pruning;
pub mod record;
pub mod retention;
mod scan;
pub mod unread;

use crate::error::{Action, Error, ErrorKind};
use crate::gather::{self, CollectOptions, GatherReason, Gathered, engines};
use crate::list::is_within;
use crate::plan::{LinkedFiles, ListedName, Plan, PlanStep};
use ::base::path::components;
use ::base::pool::both;
pub(crate) use base::Base;
use catalog::Options;
use catalog::compare::{CurrentEntry, EntryTreatment, Rename, TreeOutcome, compare, merge_renames};
use catalog::hidden::Hidden;
use catalog::part::Part;
use catalog::rows::{Collector, Rows, Source};
use catalog::since::index::{Identity, Index, NO_PART, fingerprint};
use catalog::since::{ComparedTree, Proof, find_changes};
use gate::attribution::{self, Function};
use scan::DumpScan;

/// The collected tree, compared with its base.
pub(crate) enum Collected {
    /// Nothing has changed since the base.
    Unchanged(Unchanged),
    /// Something may have changed, so there is a plan.
    Changed(Box<Planned>),
    /// A SRC is a different directory than in the base, or on a different file system; there is no
    /// plan.
    OtherSource(Box<Rows>, Vec<Gathered>, Error),
}

/// A tree without changes since its base.
pub(crate) struct Unchanged {
    pub(crate) parts: Vec<Gathered>,
    /// Number of entries read to find that nothing has changed.
    pub(crate) looked_at: u64,
    /// The file systems with their current tokens; empty if the base's tokens are still current.
    pub(crate) renewed: Vec<Part>,
}

/// A collected tree, and the plan of its dump.
pub(crate) struct Planned {
    pub(crate) rows: Rows,
    pub(crate) parts: Vec<Gathered>,
    pub(crate) plan: Plan,
}

/// Collects the current tree, or finds that nothing has changed since the base.
pub(crate) fn collect(
    base: &Base,
    request: &CollectOptions,
    options: &Options,
    diagnostics: &Diagnostics,
) -> Result<Collected, Error> {
    Ok(match scan(base, request, options, diagnostics)? {
        Scanned::Unchanged(unchanged) => Collected::Unchanged(unchanged),
        Scanned::Differing(collector, parts) => {
            let (rows, index) = both(
                || collector.finish(engines(&parts)),
                || Index::load(&base.reader),
            );
            attribution::set_phase(Function::Other);
            let hidden = diagnostics.with_warnings(Hidden::new);
            match plan(base, &rows, index?, &hidden) {
                Err(e) if e.kind.other_file_system().is_some() => {
                    Collected::OtherSource(Box::new(rows), parts, e)
                }
                plan => Collected::Changed(Box::new(Planned {
                    rows,
                    parts,
                    plan: plan?,
                })),
            }
        }
    })
}

/// The collected tree, not yet compared entry by entry.
pub(crate) enum Scanned<'a> {
    /// Nothing has changed since the base.
    Unchanged(Unchanged),
    /// The tree may have changed since the base: its entries must be compared.
    Differing(Box<Collector<'a>>, Vec<Gathered>),
}

/// Collects the current tree, or finds that nothing has changed since the base, without comparing
/// entries.
pub(crate) fn scan<'a>(
    base: &'a Base,
    request: &'a CollectOptions,
    options: &Options,
    diagnostics: &'a Diagnostics,
) -> Result<Scanned<'a>, Error> {
    let about = base.reader.about();
    // Tokens cover a whole file system, and so cannot prove that a list of names is unchanged.
    let is_all = request.listed.is_none();
    let has_same_options = is_all && about.options == *options && about.complete;
    let mut tops = Vec::new();
    if has_same_options {
        let sources = request.sources.iter().enumerate();
        let opened = sources.map(|(nth, source)| open_top(source, nth));
        tops = opened.collect::<Result<Vec<Top>, _>>().unwrap_or_default();
    }
    let scan = DumpScan {
        base,
        request,
        has_same_options,
        diagnostics,
    };
    let tree = ComparedTree::new(tops);
    let accepts = |step, by| scan.accepts(step, by);
    let start = |mount: &MountContext<'_>, by| scan.start(mount, by);
    let found = find_changes(&base.reader, &tree, accepts, DumpScan::few, start)?;
    let (collector, mut parts) = match found {
        Proof::Untouched {
            by,
            evidence,
            started,
        } => {
            return Ok(Scanned::Unchanged(Unchanged {
                parts: vec![scan.part(by, GatherReason::Untouched(evidence))],
                looked_at: 0,
                renewed: started.map_or_else(Vec::new, |started| started.parts(iter::once(by))),
            }));
        }
        Proof::Written(collector, written) => {
            let part = scan.scan_written(&collector, written)?;
            (collector, vec![part])
        }
        Proof::Unknown => {
            drop(tree); // the walk opens the directories again
            gather::collect(request, true, diagnostics)?
        }
    };
    if !scan.is_same(&collector, &parts) {
        return Ok(Scanned::Differing(Box::new(collector), parts));
    }
    let renewed = collector.parts(engines(&parts));
    for part in &mut parts {
        part.why = GatherReason::SameDigest(Box::new(part.why.clone()));
    }
    Ok(Scanned::Unchanged(Unchanged {
        parts,
        looked_at: base.entries(),
        renewed,
    }))
}

/// For each row, whether the entry or anything below it has changed since the base. `None` if the
/// base is incomplete, has different options, or has a SRC that is now a different directory.
pub(crate) fn changed_rows(
    base: &Base,
    rows: &Rows,
    options: &Options,
) -> Result<Option<Vec<bool>>, Error> {
    let about = base.about();
    if !about.complete || about.options != *options {
        return Ok(None);
    }
    let plan = match plan_since(base, rows, &Hidden::default()) {
        Ok(plan) => plan,
        Err(e) if e.action == Action::UseBase => return Ok(None),
        Err(e) => return Err(e),
    };
    let is_changed = |row| plan.step(row) != PlanStep::Unchanged;
    let mut changed: Vec<bool> = (0..rows.len()).map(is_changed).collect();
    for row in (0..rows.len()).rev() {
        if let Some(parent) = rows.parent(row) {
            changed[parent] |= changed[row];
        }
    }
    Ok(Some(changed))
}

/// Plans an increment of a tree that was collected as a whole.
pub(crate) fn plan_since(base: &Base, rows: &Rows, hidden: &Hidden) -> Result<Plan, Error> {
    plan(base, rows, Index::load(&base.reader)?, hidden)
}

/// Plans an increment by comparing all rows with an index of the base.
fn plan(base: &Base, rows: &Rows, index: Index, hidden: &Hidden) -> Result<Plan, Error> {
    base.check_sources(rows.sources(), rows.parts())?;
    base.check_source_types(rows, &index)?;
    let parts = Part::match_all(rows.parts(), &base.reader.about().parts, NO_PART);
    let entry = |row: u32| {
        let row = row as usize;
        let meta = rows.meta(row);
        let part = parts.get(rows.part(row)).copied().unwrap_or(NO_PART);
        let identity = Identity::from_meta(part, &meta);
        CurrentEntry {
            parent: rows.parent(row).map(|parent| parent as u32),
            name: rows.name(row),
            identity,
            fingerprint: fingerprint(identity.who, &meta),
            is_dir: meta.is_dir(),
            nlink: meta.nlink,
        }
    };
    let top = |row: u32| path_id::top(rows.top(row as usize));
    let names = |wanted: &[u32]| base.names(wanted);
    let (len, directories) = (rows.len() as u32, rows.directories());
    let mut outcome = compare(len, entry, directories, top, &index, names)?;
    let sources = rows.sources().iter().map(|source| &source.path[..]);
    let sources: Vec<&[u8]> = sources.collect();
    outcome.removed -= hidden.rows(&base.reader, &index, &sources)?;
    drop(index);
    let mut plan = plan_outcome(rows, outcome);
    list_other_sources(base, rows, &mut plan)?;
    Ok(plan)
}

/// Converts the outcome of a comparison to a plan.
fn plan_outcome(rows: &Rows, outcome: TreeOutcome) -> Plan {
    let mut plan = Plan::increment(rows.len());
    // The first dumped name of a hard-linked file becomes a member with the data, and further names
    // become links to it.
    let mut files = LinkedFiles::default();
    for (row, fate) in outcome.fates.iter().enumerate() {
        match fate {
            EntryTreatment::Kept => {}
            EntryTreatment::Link => plan.set_link(row, outcome.links[&(row as u32)] as usize),
            EntryTreatment::Dumped | EntryTreatment::Replaces => {
                let is_linked = rows.is_linked(row);
                match is_linked.then(|| files.first_name(rows, row)).flatten() {
                    Some(first) => plan.set_link(row, first),
                    None => plan.set(row, PlanStep::Whole),
                }
            }
        }
        if *fate == EntryTreatment::Replaces {
            plan.replacing.insert(row);
        }
    }
    let mut of_tops: BTreeMap<(Vec<u8>, u32), Vec<Rename>> = BTreeMap::new();
    for step in &outcome.steps {
        let top = unread::name(&rows.sources()[rows.top(step.top as usize)].path);
        let rename = (joined(&top, &step.from), joined(&top, &step.to));
        of_tops.entry((top, step.top)).or_default().push(rename);
    }
    // Two SRCs that overlap give the same renames, which must be carried out once.
    let (renames, repeated) = merge_renames(of_tops.into_values());
    let mut sources = rows.sources().iter().map(|source| source.rows.start);
    let carrier = sources.find(|&row| row < rows.len() && rows.is_dir(row));
    plan.renames = carrier.map(|carrier| (carrier, renames));
    plan.removed = outcome.removed;
    plan.renamed = outcome.renamed.saturating_sub(repeated);
    plan.is_unchanged = outcome.is_unchanged;
    plan.kept_as = outcome.rows;
    plan
}

/// Adds to the directories of each SRC the names of other SRCs that are inside it in the archive: a
/// restore removes unlisted names.
///
/// # Errors
/// Two different directories have the same member name.
pub(crate) fn list_other_sources(base: &Base, rows: &Rows, plan: &mut Plan) -> Result<(), Error> {
    let identity = |row| (rows.meta(row).dev, rows.ino(row));
    for nested in nested_sources(rows) {
        if !rows.is_dir(nested.row) {
            continue;
        }
        let (row, other_row) = (nested.row, nested.inner.rows.start);
        if let Some((part, is_last)) = nested.missing {
            let is_directory = !is_last || rows.is_dir(other_row);
            let code = if is_directory { Code::D } else { Code::Y };
            let list = plan.unread.entry(row).or_default();
            if list.iter().all(|(_, known)| *known != part) {
                list.push((code, part));
            }
        } else if identity(row) != identity(other_row) {
            let [one, other] = [nested.outer, nested.inner].map(|source| source.path.clone());
            return Err(base.refused(ErrorKind::SameName(one, other)));
        }
    }
    Ok(())
}

/// Checks that no SRC has a member name below a symlink of another SRC: it could not be restored.
///
/// # Errors
/// A SRC has such a name.
pub(crate) fn check_nested_sources(rows: &Rows) -> Result<(), Error> {
    for nested in nested_sources(rows) {
        if nested.missing.is_some() && rows.kind(nested.row) == FileType::Symlink {
            let symlink = rows.full_path(nested.row);
            let kind = ErrorKind::SourceBehindSymlink { symlink };
            return Err(Error::new(Action::DumpSource, &nested.inner.path, kind));
        }
    }
    Ok(())
}

/// A SRC (inner) whose member name equals that of another SRC (outer), or is below it.
struct NestedSource<'a> {
    outer: &'a Source,
    inner: &'a Source,
    /// The last entry of the outer SRC on the path to the inner one.
    row: usize,
    /// The next component on the path to the inner SRC, which the outer one does not have, and
    /// whether it is the last component.
    missing: Option<(Vec<u8>, bool)>,
}

/// Pairs of SRCs where one is inside the other in the archive.
fn nested_sources(rows: &Rows) -> Vec<NestedSource<'_>> {
    let sources = rows.sources().iter();
    let sources = sources.filter(|source| source.rows.start < rows.len());
    let named = sources.map(|source| (unread::name(&source.path), source));
    let named: Vec<(Vec<u8>, &Source)> = named.collect();
    let mut nested = Vec::new();
    for (name, outer) in &named {
        for (inner_name, inner) in &named {
            let mut row = outer.rows.start;
            if row == inner.rows.start || !is_within(inner_name, name) {
                continue;
            }
            let mut missing = None;
            let mut rest = components(&inner_name[name.len()..]).peekable();
            while let Some(part) = rest.next() {
                match rows.children(row).find(|child| rows.name(*child) == part) {
                    Some(child) => row = child,
                    None => {
                        missing = Some((part.to_vec(), rest.peek().is_none()));
                        break;
                    }
                }
            }
            nested.push(NestedSource {
                outer,
                inner,
                row,
                missing,
            });
        }
    }
    nested
}

/// Protects entries that could not be read: restoring the increment must not remove them, and the
/// next increment must dump them.
pub(crate) fn keep_unreadable(rows: &Rows, hidden: &Hidden, plan: &mut Plan) {
    if hidden.is_empty() {
        return;
    }
    plan.is_unchanged = false;
    let mut within: HashMap<&[u8], BTreeSet<&[u8]>> = HashMap::new();
    for path in hidden.paths() {
        let slash = path.iter().rposition(|&b| b == b'/');
        // The parent of listed relative names is a SRC with an empty name.
        if slash.is_none() {
            within.entry(b"").or_default().insert(path);
        }
        if let Some(slash) = slash {
            // Try the parent with and without a final slash, because a SRC may be given with one.
            for dir in [&path[..slash], &path[..=slash]] {
                within.entry(dir).or_default().insert(&path[slash + 1..]);
            }
        }
    }
    let mut path = Vec::new();
    for row in rows.directories().map(|row| row as usize) {
        rows.path(row, &mut path);
        if hidden.is_all() || hidden.has(&path) {
            plan.set(row, PlanStep::Whole);
            plan.blind.insert(row);
        }
        if let Some(mut unseen) = within.remove(&path[..]) {
            unseen.retain(|name| rows.children(row).all(|child| rows.name(child) != *name));
            let unread = unseen.into_iter().map(|name| (Code::N, name.to_vec()));
            let unread: Vec<ListedName> = unread.collect();
            if !unread.is_empty() {
                plan.unread.entry(row).or_default().extend(unread);
            }
        }
    }
}
