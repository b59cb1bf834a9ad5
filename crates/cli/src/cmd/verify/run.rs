//! `fathom verify`: checks archives, and compares a directory with them.

use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use ::show::name::printable;
use archive::increment::history::History;
use archive::list::{self, MemberSelection};
use archive::verify::{Tree, compare_newest, verify, verify_chains};
use walk::{Filter, ReachableMounts};

use super::show;
use crate::args::values::bytes;
use crate::cmd::selection::read_list;
use crate::cmd::verify::args::Verify as Args;
use crate::date::Zone;
use crate::error::{Error, Outcome, not_an_archive};
use crate::input::archives_and_paths;
use crate::out::Out;
use crate::progress::Progress;

const CHAINS_SCHEMA: &str = "fathom.chains/1";
const SCHEMA: &str = "fathom.verify/1";

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let start = Instant::now();
    if let Some(state) = &args.state {
        return verify_state(state.as_bytes(), args, out);
    }
    let archives = archives_and_paths(&args.archives, &args.paths)?;
    let names = &archives.archives;
    let against = args.against.as_deref().map(OsStrExt::as_bytes);
    let filter = args.excludes.read(&[])?.filter();
    args.excludes.globs.note_unmatched(&[], out);
    let mut tree = against.map(|dir| open(dir, filter, args)).transpose()?;
    if !args.files_from.is_empty() {
        let (_, listed) = read_list(&args.files_from, args.null, &[])?;
        tree = tree.map(|tree| tree.with_listed(listed));
    }
    let inputs = list::open(names).map_err(|error| not_an_archive(error, names))?;
    let mut wanted = MemberSelection::new(&archives.paths);
    let mut progress = Progress::new(out.progress);
    let verified = verify(inputs, &mut wanted, tree.as_mut(), |far, place, path| {
        let (members, mib) = (far.members, place >> 20);
        progress.at(|| format!("{members} members, {mib} MiB, at {}", printable(path)));
    });
    drop(progress);
    let verified = verified?;
    add_facts(verified.members, verified.damaged, out);
    let given = bytes(&args.archives);
    let given: Vec<&[u8]> = match archives.are_parts {
        true => given.iter().take(1).map(Vec::as_slice).collect(),
        false => names.iter().map(Vec::as_slice).collect(),
    };
    let report = show::VerificationReport {
        archives: &given,
        against,
        verified: &verified,
        seconds: start.elapsed().as_secs_f64(),
    };
    let print_text = || print(out, || show::summary(&report));
    out.report(SCHEMA, &report, &verified.warnings, print_text)
}

/// Opens the directory of `--against`. Must be called before threads are started, because the check
/// of mounts forks child processes.
fn open(dir: &[u8], filter: Filter, args: &Args) -> Result<Tree, Error> {
    let deadline = args.deadline.get();
    // Members with excluded names are compared, too, so this check has no filter.
    let around = ReachableMounts::find(&[dir.to_vec()], false, &Filter::default(), deadline)?;
    let tree = Tree::open(dir, filter, &around, deadline);
    let tree = tree.map_err(|e| Error::read("cannot open directory", dir, e, ""))?;
    Ok(tree.with_ignored(&args.ignore))
}

/// Prints a summary, except with `--quiet`, where the exit status and the warnings tell the result.
fn print(out: &Out, text: impl FnOnce() -> String) -> Result<(), Error> {
    match out.quiet {
        true => Ok(()),
        false => out.data(text()),
    }
}

/// Records metrics for `--report` and `--metrics`.
fn add_facts(members: u64, damaged: u64, out: &Out) {
    out.facts.add("members", members);
    out.facts.add("damaged_places", damaged);
}

fn verify_state(state: &[u8], args: &Args, out: &Out) -> Outcome {
    let start = Instant::now();
    if !args.paths.is_empty() {
        let message = "--state checks complete dumps, so it cannot be used with PATH";
        return Err(Error::new(message).with_hint(
            "check one file with fathom restore --state DIR --to - PATH >/dev/null, or give an archive without --state",
        ));
    }
    let against = args.against.as_deref().map(OsStrExt::as_bytes);
    let open = |dir| open(dir, Filter::default(), args);
    let tree = against.map(open).transpose()?;
    let history = History::read(state)?;
    let mut progress = Progress::new(out.progress);
    let all = history.dumps().len();
    let mut checked = verify_chains(&history, |at, bytes, path| {
        let (number, mib) = (at + 1, bytes >> 20);
        progress.at(|| {
            format!(
                "archive {number} of {all}, {mib} MiB, at {}",
                printable(path)
            )
        });
    })?;
    if let Some(tree) = tree {
        let (compared, mut warnings) = compare_newest(&history, tree, |entries, path| {
            progress.at(|| format!("{entries} entries compared, at {}", printable(path)));
        })?;
        checked.compared = Some(compared);
        checked.warnings.append(&mut warnings);
    }
    drop(progress);
    let archives = || {
        checked
            .dumps
            .iter()
            .filter_map(|dump| dump.archive.as_ref())
    };
    let members = archives().fold(0, |sum: u64, archive| sum.saturating_add(archive.members));
    add_facts(
        members,
        archives().map(|archive| archive.damaged).sum(),
        out,
    );
    let lost = checked
        .dumps
        .iter()
        .filter(|dump| !dump.is_restorable)
        .count();
    out.facts.add("unrestorable_dumps", lost);
    let report = show::Chains {
        history: &history,
        checked: &checked,
        against,
        seconds: start.elapsed().as_secs_f64(),
    };
    let print_text = || print(out, || report.text(&Zone::local(), out.table_style()));
    out.report(CHAINS_SCHEMA, &report, &checked.warnings, print_text)
}
