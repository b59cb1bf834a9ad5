//! `fathom mounts`: finds mount points, and the details that were requested.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use ::show::name::printable;
use ::show::table::TableStyle;
use ::show::units::{duration, plural};
use mounts::boundaries::Boundary;
use mounts::locate::LocateOptions;
use mounts::method::SearchContext;
use mounts::point::Verdict;
use mounts::root::Root;
use mounts::{
    Hints, LocateReport, Method, MissingPart, Point, beneath, boundaries, check, locate, names,
    servers,
};

use super::show::{self, Mounts, SCHEMA};
use super::{assert, compare, fstab, watch};
use crate::cmd::mounts::args::{Format, Mounts as Args};
use crate::error::{Error, Outcome};
use crate::input::whole;
use crate::out::Out;
use crate::progress::Progress;

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let format = match out.json {
        true => Format::Json,
        false => args.format.unwrap_or(Format::Table),
    };
    let is_table_or_json = matches!(format, Format::Table | Format::Json);
    if !is_table_or_json && (args.compare || args.watch || !args.assert.is_empty()) {
        return Err(Error::new(
            "--compare, --watch and --assert cannot be used with this --format",
        )
        .with_hint("use --format table or --format json"));
    }
    if !is_table_or_json && (args.beneath || args.boundaries || args.servers) {
        return Err(Error::new(
            "--beneath, --boundaries and --servers cannot be used with this --format",
        )
        .with_hint("use --format table or --format json"));
    }
    if !args.assert.is_empty() {
        return assert::run(args, format, out);
    }
    let knows_ids = |method| matches!(method, Method::Kernel | Method::Mountinfo | Method::Search);
    if args.beneath && !args.by.is_none_or(knows_ids) {
        return Err(Error::new(format!(
            "--beneath cannot be used with --by {}",
            args.by_name()
        ))
        .with_hint("use --by auto, kernel, mountinfo or search"));
    }
    let options = locate_options(args, format)?;
    let deadline = args.deadline.unwrap_or(check::ANSWER_WITHIN);
    let root = mounts::check::open_root(args.root.as_bytes(), deadline)?;
    if args.watch {
        return watch::run(&root.path, format == Format::Json, out);
    }
    if args.compare {
        return compare::run(root, &options, args.trials, format, out);
    }
    let start = Instant::now();
    let mut progress = Progress::new(out.progress);
    let report = locate(&root, &options, &mut |far, path| progress.search(far, path));
    let mut report = report.map_err(|e| {
        let by = args.by_name();
        Error::new(format!("cannot find mount points with --by {by}: {e}")).with_hint(
            match args.by {
                None => "",
                Some(_) => "use --by auto",
            },
        )
    })?;
    let boundaries = examine(args, format, &root, &mut report, &mut progress)?;
    drop(progress);
    add_facts(&report.points, out);
    let root = root.into_path(); // close the descriptor before calls are counted
    let took = start.elapsed();
    print(
        args,
        &root,
        &report,
        boundaries.as_deref(),
        format,
        took,
        out,
    )?;
    let warnings = out.warn(&report.warnings);
    // The process is about to end: freeing tens of thousands of mounts would take as long as
    // printing them.
    std::mem::forget(report);
    Ok(warnings)
}

/// Records metrics for `--report` and `--metrics`: the number of mounts, and the verdict on each
/// checked mount.
///
/// `mount_ok`, the series for alerts, has no label for the verdict. Otherwise, a mount that changes
/// from slow to hung would start a new series, and so restart the `for` of an alert rule.
fn add_facts(points: &[Point], out: &Out) {
    out.facts.add("mount_points", points.len());
    let verdicts = mount_verdicts(points);
    for (mount, verdict) in &verdicts {
        let labels = vec![("mount", mount.clone())];
        let is_ok = u8::from(answers(*verdict));
        out.facts.add_with("mount_ok", labels, is_ok);
    }
    for (mount, verdict) in verdicts {
        let labels = vec![("mount", mount), ("verdict", verdict.name().to_owned())];
        out.facts.add_with("mount_verdict", labels, 1);
    }
}

/// The verdict on each visible mount, by mount point. Hidden mounts are omitted, because a visible
/// mount can have the same path.
fn mount_verdicts(points: &[Point]) -> BTreeMap<String, Verdict> {
    let mut verdicts = BTreeMap::new();
    for point in points {
        let Some(verdict) = point.verdict.filter(|it| *it != Verdict::Hidden) else {
            continue;
        };
        let mount = String::from_utf8_lossy(&point.target).into_owned();
        let known = verdicts.entry(mount).or_insert(verdict);
        // Two mount points that are not UTF-8 can have the same label: report the one that does not
        // answer.
        if !answers(verdict) {
            *known = verdict;
        }
    }
    verdicts
}

fn answers(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Ok | Verdict::Slow)
}

/// Adds the requested details to each mount point. With `--boundaries`, also returns subvolumes,
/// snapshots and automounts that are missing from the mount table.
fn examine(
    args: &Args,
    format: Format,
    root: &Root,
    report: &mut LocateReport,
    progress: &mut Progress,
) -> Result<Option<Vec<Boundary>>, Error> {
    let is_checked = args.check || format == Format::Exclude;
    // An unreadable directory is an error even if the mount table lists the mounts below it. A
    // directory on a network mount is not opened, because that can hang.
    let may_hang = report.root_fstype().is_some_and(mounts::may_hang);
    if !is_checked && !may_hang {
        root.check_readable()?;
    }
    let points = &mut report.points;
    if let Some(from) = args.names {
        names::resolve(points, from);
    }
    if args.servers {
        servers::name_servers(points);
    }
    let mut tick = |far: &mounts::method::SearchProgress, path: &[u8]| progress.search(far, path);
    let loss = match args.beneath {
        true => MissingPart::Count,
        false => MissingPart::Boundaries,
    };
    let mut context = SearchContext::new(loss, &mut tick);
    if args.beneath {
        beneath::count_hidden_files(points, &mut context).map_err(|e| {
            Error::new(format!(
                "cannot count files beneath the mounts without a mount table: {e}"
            ))
        })?;
    }
    let root_mount = report.root_mount.as_ref();
    let root_fstype = root_mount.map(|mount| &mount.content.fstype[..]);
    let find = || boundaries::find(root, root_fstype, points, &mut context);
    let boundaries = args.boundaries.then(find);
    report.warnings.append(&mut context.warnings);
    drop(context);
    if is_checked {
        let total = points.len();
        let deadline = args.deadline.unwrap_or(Duration::from_secs(2));
        let checked = check::check(points, deadline, |done| {
            progress.at(|| format!("{done} of {total} mounts checked"));
        });
        report.warnings.extend(checked.map_err(|e| {
            Error::new(format!("cannot create a process to check the mounts: {e}"))
        })?);
    }
    Ok(boundaries)
}

fn print(
    args: &Args,
    root: &[u8],
    report: &LocateReport,
    boundaries: Option<&[Boundary]>,
    format: Format,
    took: Duration,
    out: &Out,
) -> Result<(), Error> {
    let points = &report.points;
    let (by, why) = (report.method.name(), report.reason.to_string());
    match format {
        Format::Json => {
            let result = Mounts {
                root: Some(root),
                by,
                why: &why,
                complete: report.is_complete(),
                mounts: points,
                boundaries,
                search: report.search,
                root_mount: report.root_mount.as_ref().map(show::RootMount),
                ..Mounts::default()
            };
            out.envelope(SCHEMA, result, &report.warnings)
        }
        Format::Table => {
            let style = TableStyle {
                tree: out.on_terminal(),
                ..out.table_style()
            };
            let mut written = Ok(());
            show::table(points, style, &mut |piece| {
                if written.is_ok() {
                    written = out.data(piece);
                }
            });
            written?;
            for boundary in boundaries.unwrap_or_default() {
                let path = printable(&boundary.path);
                out.data(format!("{} {path}\n", boundary.kind.name()))?;
            }
            let calls = gate::meter::tally().calls();
            let mounts = plural(points.len() as u64, "mount", "mounts");
            let (calls, took) = (plural(calls, "call", "calls"), duration(took.as_secs_f64()));
            if points.is_empty() {
                let root = printable(root);
                let above = report.root_mount.as_ref().map(show::containing);
                let above = above.unwrap_or_default();
                out.note(format_args!("no mount point at or below '{root}'{above}"));
            }
            out.note(format_args!(
                "{mounts} found with {by} in {took} and {calls}{}",
                out.reason(&why)
            ));
            if args.servers {
                out.note(show::servers(points));
            }
            Ok(())
        }
        Format::Paths => out.names(|to| to.write_all(&show::paths(points, b'\n'))),
        Format::Paths0 => out.names(|to| to.write_all(&show::paths(points, 0))),
        Format::Mnttab => out.names(|to| to.write_all(&fstab::mnttab(points))),
        Format::Fstab => {
            // The original of a bind mount can be outside of the listed directory.
            let every = if root == b"/" {
                None
            } else {
                every_mount(report.method)
            };
            let lines = fstab::fstab(points, every.as_ref().unwrap_or(points));
            out.names(|to| to.write_all(&lines))
        }
        Format::Exclude => out.names(|to| to.write_all(&show::exclude(points))),
    }
}

/// All mounts in the kernel's table; `None` for methods that do not read it.
fn every_mount(method: Method) -> Option<Vec<Point>> {
    if !matches!(method, Method::Kernel | Method::Mountinfo) {
        return None;
    }
    let root = Root::open(b"/").ok()?;
    let options = LocateOptions {
        method: Some(method),
        bound: None,
        hints: Hints::Auto,
    };
    let report = locate(&root, &options, &mut |_, _| {}).ok();
    report.map(|report| report.points)
}

impl Args {
    fn by_name(&self) -> &'static str {
        self.by.map_or("auto", Method::name)
    }
}

fn locate_options(args: &Args, format: Format) -> Result<LocateOptions, Error> {
    if args.deadline.is_some() && !args.check && format != Format::Exclude {
        return Err(Error::new("--deadline requires --check").with_hint("add --check"));
    }
    let method = args.by;
    let hints = match args.hints.as_bytes() {
        b"auto" => Hints::Auto,
        b"none" => Hints::None,
        b"ids" => Hints::Ids,
        _ => Hints::File(read_mount_points(&args.hints)?),
    };
    let is_used = match (&hints, method) {
        (Hints::Auto, _) | (_, Some(Method::Search)) => true,
        (Hints::None | Hints::File(_), Some(Method::Getmnt2 | Method::Getmnt3)) => true,
        (Hints::None | Hints::Ids, None) => args.compare,
        _ => false,
    };
    if !is_used {
        let (hints, by) = (printable(args.hints.as_bytes()), args.by_name());
        return Err(
            Error::new(format!("--hints {hints} cannot be used with --by {by}"))
                .with_hint("use --by search"),
        );
    }
    let has_bound = |by| matches!(by, Method::Getmnt1 | Method::Getmnt2 | Method::Getmnt3);
    if args.depth.is_some() && !args.by.is_some_and(has_bound) && !args.compare {
        return Err(Error::new(format!(
            "--depth cannot be used with --by {}",
            args.by_name()
        ))
        .with_hint("use --by getmnt1, getmnt2 or getmnt3"));
    }
    let bound = args.depth.unwrap_or(4);
    Ok(LocateOptions {
        method,
        bound: (bound > 0).then_some(bound),
        hints,
    })
}

fn read_mount_points(file: &OsStr) -> Result<Vec<Vec<u8>>, Error> {
    const MOST: usize = 64 << 20;
    const NEXT: &str = "use --hints auto, none, ids, or a file that exists";
    let bytes = whole(file.as_bytes(), MOST, "cannot read hints from", NEXT)?;
    let end = if bytes.contains(&0) { 0 } else { b'\n' };
    let lines = bytes.split(|&b| b == end);
    Ok(lines.filter_map(ondisk::mnttab::mount_point).collect())
}

#[cfg(test)]
mod tests {
    use ondisk::Dev;

    use super::*;

    #[test]
    fn hidden_mounts_do_not_hide_the_verdict_on_a_visible_one() {
        let point = |target: &[u8], verdict| Point {
            verdict: Some(verdict),
            ..Point::bare(target.to_vec(), Dev::default(), None)
        };
        let points = [
            point(b"/mp", Verdict::Hidden),
            point(b"/mp", Verdict::Hung),
            point(b"/mp/below", Verdict::Hidden),
            point(b"/x\xff", Verdict::Stale),
            point(b"/x\xfe", Verdict::Ok),
            Point::bare(b"/unchecked".to_vec(), Dev::default(), None),
        ];
        let verdicts: Vec<_> = mount_verdicts(&points).into_iter().collect();
        let expected = [("/mp", Verdict::Hung), ("/x\u{fffd}", Verdict::Stale)];
        assert_eq!(verdicts, expected.map(|(mount, it)| (mount.to_owned(), it)));
    }
}
