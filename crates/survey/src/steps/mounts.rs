//! Steps: the mounts, their capacities, and the cost of each method to find them.

use std::collections::HashMap;
use std::time::Duration;

use base::Warning;
use gate::fs::Open;
use mounts::check::{self, Verdict, find_silent_mount};
use mounts::compare::compare;
use mounts::diagnosis::{AnomalyKind, diagnose};
use mounts::locate::{self, Method};
use mounts::{Hints, LocateReport, MountClass, Point, PointKind, may_hang, servers};
use ondisk::{Content, split_options};

use super::context::{Activity, StepContext, SurveyOptions};
use crate::capacity::{self, Capacity};
use crate::found::{ComparedMethods, SkippedMethods, SurveyResults, SurveyedMounts};
use crate::missing::{Missing, Task};
use crate::warning::WarningKind;

/// Number of runs of each method and of each engine.
pub const TRIALS: usize = 3;
/// Maximum number of file systems that are probed without `--deep`.
const MOST_PROBED: usize = 4;
/// The time to wait for a server, if the step has that much time.
const PATIENCE: Duration = Duration::from_secs(1);

fn locate_options() -> locate::LocateOptions {
    locate::LocateOptions {
        method: None,
        bound: Some(4),
        hints: Hints::Auto,
    }
}

/// Step: reads the mount table, and determines which mounts may be entered.
pub(super) fn table(step: &mut StepContext<'_>, found: &mut SurveyResults) -> Result<(), Missing> {
    let options = step.options;
    let mut tick = |far: &_, path: &[u8]| step.report(Activity::Searching(far, path));
    let mut report = locate::locate(&options.root, &locate_options(), &mut tick)
        .map_err(|e| Missing::failed(Task::FindMounts, e))?;
    found.warnings.append(&mut report.warnings);
    // Limit the wait to a third of the time, because two waits are possible: for the surveyed
    // directory, and for the mounts below it.
    let patience = PATIENCE.min(step.left() / 3);
    let dirs = [options.dir.clone()];
    let look = || drop(walk::explain(&dirs, false, walk::Fields::all()));
    let is_silent = find_silent_mount(&options.dir, patience, look).is_some();
    let is_remote = is_silent || report.root_fstype().is_some_and(may_hang);
    let points = &mut report.points;
    servers::name_servers(points);
    let failed = |e| Missing::failed(Task::CheckMounts, e);
    let is_local = |point: &Point| !point.fstype().is_none_or(may_hang);
    // The survey runs at low priority, so a local disk can appear slow: give it more time.
    let of_disks = step.left() / 2;
    let deadline = |point: &Point| if is_local(point) { of_disks } else { patience };
    let count = points.len();
    let checked = check::check_within(points, deadline, |done| {
        step.report(Activity::Checking(done, count));
    });
    let mut checked = checked.map_err(failed)?;
    let is_slow = |one: &Warning| matches!(one.reason(), Some(mounts::WarningKind::Slow(_)));
    for point in points.iter_mut().filter(|point| is_local(point)) {
        if point.verdict == Some(Verdict::Slow) {
            point.verdict = Some(Verdict::Ok);
            checked.retain(|one| !is_slow(one) || one.path.as_ref() != Some(&point.target));
        }
    }
    found.warnings.append(&mut checked);
    // If the surveyed directory is a mount point, `is_silent` gives the verdict of this mount.
    let own = |point: &&mut Point| !point.hidden && point.target == options.root.path;
    if let Some(point) = points.iter_mut().filter(own).find(|_| is_remote) {
        point.verdict.get_or_insert(answer(is_silent));
    }
    if is_silent {
        let kind = mounts::WarningKind::Hung(patience);
        found
            .warnings
            .push(Warning::about(&options.root.path, kind));
    }
    found.to_probe = to_probe(options, points, is_remote, is_silent);
    let mut own = own_mount(options, &report, is_remote, is_silent);
    if !is_remote {
        let checked = check::check(own.as_mut_slice(), of_disks, |_| {});
        found.warnings.extend(checked.map_err(failed)?);
    }
    found.mounts = Some(SurveyedMounts {
        excludes: options.excludes(&report.points),
        own,
        report,
        is_remote,
        is_silent,
    });
    Ok(())
}

fn answer(is_silent: bool) -> Verdict {
    match is_silent {
        true => Verdict::Hung,
        false => Verdict::Ok,
    }
}

/// The mount of DIR, if DIR is not itself a mount point.
fn own_mount(
    options: &SurveyOptions,
    report: &LocateReport,
    is_remote: bool,
    is_silent: bool,
) -> Option<Point> {
    let mut points = report.points.iter();
    let mount = report.root_mount.clone()?;
    if points.any(|point| !point.hidden && point.target == options.root.path) {
        return None;
    }
    let target = mount.target.clone()?;
    Some(Point {
        verdict: is_remote.then_some(answer(is_silent)),
        ..Point::from_row(mount, target, None, MountClass::Internal, false)
    })
}

/// Step: reads the capacity of each file system that stores files and answers.
pub(super) fn capacities(
    step: &mut StepContext<'_>,
    found: &mut SurveyResults,
) -> Result<(), Missing> {
    let mounted = found.mounts.as_ref().ok_or(Missing::NoMounts)?;
    let points = mounted.all();
    let mut capacities = HashMap::new();
    for point in capacity::answering(&points) {
        if step.left().is_zero() {
            break;
        }
        let opened = gate::long::open_long(&point.target, Open::PATH);
        if let Ok(statfs) = opened.and_then(gate::fs::fstatfs) {
            capacities.insert(point.dev, Capacity::from_statfs(&statfs));
        }
    }
    let full = capacity::full(&points, &capacities).into_iter();
    let full = full.map(|(target, _)| Warning::about(target, WarningKind::Full));
    let hidden = diagnose(&points)
        .into_iter()
        .filter(|one| one.kind() == AnomalyKind::Hidden);
    let hidden = hidden.map(|one| Warning::about(one.target, WarningKind::Hidden));
    let warnings: Vec<Warning> = full.chain(hidden).collect();
    found.warnings.extend(warnings);
    found.capacities = capacities;
    Ok(())
}

/// Step: compares the methods. Methods that read every directory are skipped if they would enter a
/// mount whose server might not respond.
pub(super) fn methods(
    step: &mut StepContext<'_>,
    found: &mut SurveyResults,
) -> Result<(), Missing> {
    const TABLE_IS_ENOUGH: [Method; 3] = [Method::Kernel, Method::Mountinfo, Method::Search];
    let options = step.options;
    let mounted = found.responding()?;
    let far: Vec<&Point> = mounted
        .report
        .points
        .iter()
        .filter(|point| options.keeps_out_of(point))
        .collect();
    // Run the cheapest methods first: they will have results even if time runs out.
    let mut wanted = Method::ALL.to_vec();
    wanted.reverse();
    let skipped = far.first().map(|first| {
        let (kept, methods) = wanted.iter().partition(|by| TABLE_IS_ENOUGH.contains(by));
        wanted = kept;
        SkippedMethods {
            methods,
            target: first.target.clone(),
            others: far.len() - 1,
            was_checked: options.network,
        }
    });
    let bounds = step.bounds();
    let tick = |method: &str, trial| step.report(Activity::Method(method, trial));
    let compared = compare(
        &options.root,
        &locate_options(),
        &wanted,
        TRIALS,
        &bounds,
        tick,
    );
    let comparison = compared.map_err(|e| Missing::failed(Task::RunMethod, e))?;
    if comparison.methods.is_empty() {
        return Err(Missing::NoMethod);
    }
    found.methods = Some(ComparedMethods {
        comparison,
        skipped,
    });
    Ok(())
}

impl SurveyOptions {
    /// Whether walks must not enter this mount, because its server might not respond. The surveyed
    /// directory itself is checked separately.
    fn keeps_out_of(&self, point: &Point) -> bool {
        let is_hung = point.verdict == Some(Verdict::Hung);
        let far = !point.hidden
            && point.target != self.root.path
            && (is_hung || point.fstype().is_some_and(may_hang));
        far && !(self.network && point.verdict == Some(Verdict::Ok))
    }

    /// Exclude patterns for mount points that a walk of DIR must not enter.
    fn excludes(&self, points: &[Point]) -> Vec<String> {
        let is_met = |point: &&Point| {
            point.parent.is_none() || self.root.anchor.is_none() || point.parent == self.root.anchor
        };
        let met = points
            .iter()
            .filter(|point| self.keeps_out_of(point))
            .filter(is_met);
        let dir = &self.dir[..];
        let dir = dir.strip_suffix(b"/").unwrap_or(dir);
        let path = |point: &Point| {
            Some(
                [
                    dir,
                    b"/",
                    base::path::below(&self.root.path, &point.target)?,
                ]
                .concat(),
            )
        };
        met.filter_map(path).map(|path| pattern(&path)).collect()
    }
}

/// An exclude pattern that matches a path and hardly any other path: `?` replaces special
/// characters and characters that are not ASCII; in a path that is not UTF-8, each byte that is not
/// ASCII. (`*` would also match slashes.)
fn pattern(path: &[u8]) -> String {
    let plain = |c: char| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '/' | '.' | '_' | '-' => c,
        _ => '?',
    };
    match str::from_utf8(path) {
        Ok(text) => text.chars().map(plain).collect(),
        Err(_) => path.iter().map(|&byte| plain(char::from(byte))).collect(),
    }
}

/// Whether the mount is a writable local disk or an overlay.
fn on_disk(content: &Content) -> bool {
    let source = content
        .source
        .as_deref()
        .is_some_and(|source| source.starts_with(b"/dev/"));
    let writable = split_options(&content.options).any(|option| option == b"rw");
    writable && (source && !may_hang(&content.fstype) || content.fstype == b"overlay")
}

/// The directories to probe, one for each file system: DIR, and mount points below it.
fn to_probe(options: &SurveyOptions, points: &[Point], hangs: bool, silent: bool) -> Vec<Vec<u8>> {
    let mut seen = Vec::new();
    let mut once: Vec<Vec<u8>> = Vec::new();
    let network = options.network;
    // `points` contains DIR only if DIR is a mount point, so add it here.
    if (!hangs || network && !silent)
        && let Ok(place) = probe::dir::ProbeDir::open_unnamed_only(&options.root.path)
        && place
            .mount
            .as_ref()
            .is_some_and(|mount| on_disk(&mount.content) || hangs)
    {
        seen.push(place.device());
        once.push(options.root.path.clone());
    }
    for point in points
        .iter()
        .filter(|point| !point.hidden && point.kind != Some(PointKind::File))
    {
        let far =
            network && point.verdict == Some(Verdict::Ok) && point.fstype().is_some_and(may_hang);
        let wanted = far
            || point
                .content
                .as_ref()
                .is_some_and(|content| on_disk(content));
        if wanted && point.verdict != Some(Verdict::Hung) && !seen.contains(&point.dev) {
            seen.push(point.dev);
            once.push(point.target.clone());
        }
    }
    if !options.deep {
        once.truncate(MOST_PROBED);
    }
    once
}

#[cfg(test)]
mod tests {
    use super::pattern;

    #[test]
    fn a_pattern_matches_its_path() {
        for (path, glob) in [
            (&b"/mnt/nfs-1.x"[..], "/mnt/nfs-1.x"),
            (b"/a b[c]*", "/a?b?c??"),
            ("/caf\u{e9}/\u{e9}\u{e9}x".as_bytes(), "/caf?/??x"),
            (b"/\xff\xfe", "/??"),
        ] {
            assert_eq!(pattern(path), glob);
            let (dir, name) = path.split_at(path.iter().rposition(|b| *b == b'/').unwrap_or(0));
            let dir = if dir.is_empty() { b"/" } else { dir };
            let filter = walk::Filter::new(&[glob], None);
            let mut matcher = filter.matcher();
            for (dir, is_kept) in [(dir, false), (b"/elsewhere", true)] {
                matcher.enter(dir);
                assert_eq!(matcher.keeps(&name[1..]), is_kept, "{glob}");
            }
        }
    }
}
