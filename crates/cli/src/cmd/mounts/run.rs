//! `fathom mounts`: which mount points are there, found how, at what cost.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use ::show::name::printable;
use ::show::table::TableStyle;
use ::show::times::Times;
use ::show::units::plural;
use gate::Errno;
use gate::fs::{At, Attributes, Want};
use mounts::boundaries::Boundary;
use mounts::compare::{Bounds, Located, Measured};
use mounts::locate::LocateOptions;
use mounts::method::SearchContext;
use mounts::root::Root;
use mounts::{
    Hints, LocateReport, Loss, Point, Warning, WarningReason, beneath, boundaries, check, locate,
    names, servers,
};

use super::methods::{LeftOut, Method, comparison, methods_table, profiles_text, ratios_text};
use super::show::{self, Asserted, Mounts};
use crate::cmd::mounts::args::{By, Format, Mounts as Args, Names};
use crate::error::{Error, Outcome};
use crate::input::whole;
use crate::out::{Out, gates, profile_lines};
use crate::progress::Progress;

pub(crate) const SCHEMA: &str = "fathom.mounts/1";

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let format = if out.json {
        Format::Json
    } else {
        args.format.unwrap_or(Format::Table)
    };
    let plain = matches!(format, Format::Table | Format::Json);
    if !plain && (args.compare || args.watch || !args.assert.is_empty()) {
        return Err(Error::new(
            "--compare, --watch and --assert are shown as table or json only".to_owned(),
        ));
    }
    if !args.assert.is_empty() {
        return assert(args, format, out);
    }
    let knows_ids = !matches!(args.by, By::Naive | By::Getmnt1 | By::Getmnt2 | By::Getmnt3);
    if args.beneath && !knows_ids {
        return Err(Error::new(format!(
            "--beneath needs to know what each mount is on, and {} does not",
            args.by_name()
        )));
    }
    let options = locate_options(args, format)?;
    let root = open_root(&args.root)?;
    if args.watch {
        return super::watch::run(&root.path, format == Format::Json, out);
    }
    if args.compare {
        return compare(root, &options, usize::from(args.trials), format, out);
    }
    let start = Instant::now();
    let check_wanted = args.check || format == Format::Exclude;
    let mut progress = Progress::new(out.progress);
    let mut report =
        locate(&root, &options, &mut |far, path| progress.search(far, path)).map_err(|e| {
            Error::new(format!(
                "cannot find the mounts by {}: {e}; try --by auto",
                args.by_name()
            ))
        })?;
    if !check_wanted {
        check_readable(&root, &report)?;
    }
    let mut tick = |far: &mounts::method::Progress, path: &[u8]| progress.search(far, path);
    let lost = if args.beneath {
        Loss::Count
    } else {
        Loss::Boundaries
    };
    let mut context = SearchContext::new(lost, &mut tick);
    if let Some(from) = args.names {
        names::resolve(
            &mut report.points,
            if from == Names::Dev {
                names::Names::Dev
            } else {
                names::Names::Sys
            },
        );
    }
    if args.servers {
        name_servers(&mut report.points);
    }
    if args.beneath {
        beneath::look(&mut report.points, &mut context).map_err(|e| {
            Error::new(format!(
                "cannot look beneath the mounts: no mount table says what is on what ({e})"
            ))
        })?;
    }
    let found = args.boundaries.then(|| {
        boundaries::find(
            &root,
            report.root_fstype.as_deref(),
            &report.points,
            &mut context,
        )
    });
    report.warnings.append(&mut context.warnings);
    drop(context);
    if check_wanted {
        let total = report.points.len();
        let checked = check::check(
            &mut report.points,
            args.deadline.unwrap_or(Duration::from_secs(2)),
            |done| {
                progress.at(|| format!("{done} of {total} mounts have answered"));
            },
        );
        report.warnings.extend(
            checked.map_err(|e| {
                Error::new(format!("cannot make a process to check the mounts: {e}"))
            })?,
        );
    }
    drop(progress);
    // The descriptor of the root is closed before the gates are counted.
    print(
        args,
        &root.into_path(),
        report,
        found.as_deref(),
        format,
        start.elapsed(),
        out,
    )
}

fn print(
    args: &Args,
    root: &[u8],
    report: LocateReport,
    boundaries: Option<&[Boundary]>,
    format: Format,
    took: Duration,
    out: &Out,
) -> Outcome {
    let LocateReport {
        method: by,
        reason,
        points,
        incomplete,
        warnings,
        search,
        ..
    } = report;
    let rows = points;
    let why = reason.to_string();
    match format {
        Format::Json => {
            let result = Mounts {
                root: Some(root),
                boundaries,
                search,
                ..Mounts::new(by.name(), &why, incomplete.is_empty(), &rows)
            };
            out.envelope(SCHEMA, result, &warnings)?;
        }
        Format::Table => {
            let style = TableStyle {
                tree: out.on_terminal(),
                ..out.table_style()
            };
            let mut written = Ok(());
            show::table(&rows, style, &mut |piece| {
                if written.is_ok() {
                    written = out.data(piece.as_bytes());
                }
            });
            written?;
            for boundary in boundaries.unwrap_or_default() {
                out.data(
                    format!("{} {}\n", boundary.kind.name(), printable(&boundary.path)).as_bytes(),
                )?;
            }
            let calls = gate::meter::tally().calls();
            let mounts = plural(rows.len() as u64, "mount", "mounts");
            let ms = 1000.0 * took.as_secs_f64();
            out.note(format_args!(
                "{mounts} by {} in {ms:.1} ms and {calls} calls: {why}",
                by.name()
            ));
            if args.servers {
                out.note(server_summary(&rows));
            }
        }
        Format::Paths => out.data(&show::paths(&rows, b'\n'))?,
        Format::Paths0 => out.data(&show::paths(&rows, 0))?,
        Format::Mnttab => out.data(&show::mnttab(&rows))?,
        Format::Fstab => {
            // What a bind mount shows may have its name outside of the root.
            let every = if root == b"/" { None } else { every_mount(by) };
            out.data(&show::fstab(&rows, every.as_ref().unwrap_or(&rows)))?;
        }
        Format::Exclude => out.data(&show::exclude(&rows))?,
    }
    out.warn(&warnings);
    // The process is about to end: to free ten thousand mounts one by one would take as long as to
    // print them.
    std::mem::forget(rows);
    Ok(warnings.len())
}

/// All mounts that there are, where they are read from a table.
fn every_mount(by: mounts::Method) -> Option<Vec<Point>> {
    if !matches!(by, mounts::Method::Kernel | mounts::Method::Mountinfo) {
        return None;
    }
    let root = Root::open(b"/").ok()?;
    let options = LocateOptions {
        method: Some(by),
        bound: None,
        hints: Hints::Auto,
    };
    locate(&root, &options, &mut |_, _| {})
        .ok()
        .map(|report| report.points)
}

fn server_summary(points: &[Point]) -> String {
    let mut servers: Vec<(&str, usize)> = Vec::new();
    for server in points.iter().filter_map(|point| point.server.as_deref()) {
        match servers.iter_mut().find(|(name, _)| *name == server) {
            Some((_, n)) => *n += 1,
            None => servers.push((server, 1)),
        }
    }
    let list: Vec<String> = servers
        .iter()
        .map(|(name, n)| format!("{} ({n})", printable(name.as_bytes())))
        .collect();
    if list.is_empty() {
        "no mount is on another machine".to_owned()
    } else {
        format!("servers: {}", list.join(", "))
    }
}

impl Args {
    fn by_name(&self) -> String {
        clap::ValueEnum::to_possible_value(&self.by)
            .map_or(String::new(), |value| value.get_name().to_owned())
    }
}

fn locate_options(args: &Args, format: Format) -> Result<LocateOptions, Error> {
    if args.deadline.is_some() && !args.check && format != Format::Exclude {
        return Err(Error::new(
            "--deadline says nothing without --check".to_owned(),
        ));
    }
    let by = match args.by {
        By::Auto => None,
        By::Kernel => Some(mounts::Method::Kernel),
        By::Mountinfo => Some(mounts::Method::Mountinfo),
        By::Search => Some(mounts::Method::Search),
        By::Getmnt3 => Some(mounts::Method::Getmnt3),
        By::Getmnt2 => Some(mounts::Method::Getmnt2),
        By::Getmnt1 => Some(mounts::Method::Getmnt1),
        By::Naive => Some(mounts::Method::Naive),
    };
    let hints = match args.hints.as_bytes() {
        b"auto" => Hints::Auto,
        b"none" => Hints::None,
        b"ids" => Hints::Ids,
        _ => Hints::File(read_names(&args.hints)?),
    };
    let fits = match (&hints, by) {
        (Hints::Auto, _) | (_, Some(mounts::Method::Search)) => true,
        (Hints::None | Hints::File(_), Some(mounts::Method::Getmnt2 | mounts::Method::Getmnt3)) => {
            true
        }
        (Hints::None | Hints::Ids, None) => args.compare,
        _ => false,
    };
    if !fits {
        let hints = printable(args.hints.as_bytes());
        return Err(Error::new(format!(
            "--hints {hints} says nothing to --by {}; give --by search",
            args.by_name()
        )));
    }
    if args.depth.is_some()
        && !matches!(args.by, By::Getmnt1 | By::Getmnt2 | By::Getmnt3)
        && !args.compare
    {
        return Err(Error::new(format!(
            "--depth says nothing to --by {}; only getmnt1 to getmnt3 have a bound",
            args.by_name()
        )));
    }
    let bound = args.depth.unwrap_or(4);
    Ok(LocateOptions {
        method: by,
        bound: (bound > 0).then_some(bound),
        hints,
    })
}

/// The mount points that a file names, in its order.
fn read_names(file: &OsStr) -> Result<Vec<Vec<u8>>, Error> {
    const MOST: usize = 64 << 20;
    let next = "--hints takes auto, none, ids or a file";
    let bytes = whole(file.as_bytes(), MOST, "cannot read the hints in", next)?;
    let end = if bytes.contains(&0) { 0 } else { b'\n' };
    Ok(bytes
        .split(|&b| b == end)
        .filter_map(ondisk::mnttab::mount_point)
        .collect())
}

pub(crate) fn open_root(given: &OsStr) -> Result<Root, Error> {
    Ok(Root::open(given.as_bytes())?)
}

/// A directory that cannot be read is refused, also where the report comes from a table; but where
/// its server might not report, it is not asked.
fn check_readable(root: &Root, report: &LocateReport) -> Result<(), Error> {
    if report.root_fstype.as_deref().is_some_and(mounts::may_hang) {
        return Ok(());
    }
    Ok(root.check_readable()?)
}

fn name_servers(points: &mut [Point]) {
    for point in points {
        if let (Some(fstype), Some(source)) = (point.fstype(), point.source()) {
            point.server = servers::server(fstype, source, point.options().unwrap_or_default());
        }
    }
}

/// `--assert`: is each of these a mount point?
fn assert(args: &Args, format: Format, out: &Out) -> Outcome {
    let mut asserted = Vec::new();
    let mut warnings = Vec::new();
    for path in args.assert.iter().map(|path| path.as_bytes()) {
        let at = At::NO_AUTOMOUNT | At::STATX_DONT_SYNC;
        let seen = gate::long::statx_long(path, at, Want::empty());
        let mountpoint = match seen {
            Ok(seen) if seen.attributes_known.contains(Attributes::MOUNT_ROOT) => {
                seen.attributes.contains(Attributes::MOUNT_ROOT)
            }
            Ok(_) | Err(Errno::ENOSYS | Errno::EPERM) => differs_from_above(path)?,
            Err(_) => false,
        };
        match seen {
            _ if mountpoint => {}
            Err(e @ (Errno::ENOENT | Errno::ENOTDIR)) => {
                warnings.push(Warning::failed(
                    path,
                    gate::Gate::Statx,
                    e,
                    WarningKind::NotMountPoint,
                ));
            }
            Err(e) => warnings.push(Warning::failed(
                path,
                gate::Gate::Statx,
                e,
                WarningKind::Unknown,
            )),
            Ok(_) => warnings.push(Warning::about(path, WarningKind::NotMountPoint)),
        }
        if mountpoint && !out.quiet && format == Format::Table {
            out.data(format!("{} is a mount point\n", printable(path)).as_bytes())?;
        }
        asserted.push(Asserted {
            path: path.to_vec(),
            mountpoint,
        });
    }
    if format == Format::Json {
        let result = Mounts {
            asserted: Some(&asserted),
            ..Mounts::new("search", "each path was looked at", true, &[])
        };
        out.envelope(SCHEMA, result, &warnings)?;
    }
    out.warn(&warnings);
    Ok(warnings.len())
}

/// Whether a directory is on another device than the one above it, where the kernel does not say
/// what is a mount point.
fn differs_from_above(path: &[u8]) -> Result<bool, Error> {
    let cwd = gate::fs::CWD;
    let above = mounts::path::join(path, b"..");
    let stat = |name: &[u8]| gate::long::newfstatat_long(cwd, name, At::NO_AUTOMOUNT);
    match (stat(path), stat(&above)) {
        (Ok(a), Ok(b)) if a.dev != b.dev || a.ino == b.ino => Ok(true),
        (Err(_), _) => Ok(false),
        _ => Err(Error::read(
            "cannot tell whether there is a mount at",
            path,
            "statx(2) does not say here, and bind mounts cannot be told otherwise",
            "run it where statx is allowed, on Linux 5.8 or later",
        )),
    }
}

/// What `--assert` and `--compare` warn of.
#[derive(Debug, thiserror::Error)]
enum WarningKind {
    #[error("not a mount point")]
    NotMountPoint,
    #[error("cannot tell whether it is a mount point")]
    Unknown,
    #[error("{method}: {why}")]
    LeftOut { method: &'static str, why: String },
}

impl WarningReason for WarningKind {
    fn explains_errno(&self) -> bool {
        matches!(self, WarningKind::NotMountPoint)
    }
}

/// The methods compared, ready to be shown.
pub(crate) struct Compared {
    pub(crate) methods: Vec<Method>,
    pub(crate) left_out: Vec<LeftOut>,
}

/// Runs methods on a tree.
pub(crate) fn compare_methods(
    root: &Root,
    options: &LocateOptions,
    methods: &[mounts::Method],
    trials: usize,
    bounds: &Bounds,
    mut progress: Progress,
) -> Result<Compared, Error> {
    let comparison =
        mounts::compare::compare(root, options, methods, trials, bounds, |method, trial| {
            let round = if trial == 0 {
                "profile".to_owned()
            } else {
                format!("trial {trial} of {trials}")
            };
            progress.at(|| format!("{method}, {round}"));
        })
        .map_err(|e| Error::new(format!("cannot make a process to run a method in: {e}")))?;
    let times = |run: &Measured<Located>| Times::new([run.real, run.user, run.sys]);
    let methods = comparison.profiles.iter().map(|profile| {
        let runs = comparison
            .trials
            .iter()
            .flatten()
            .filter(|run| run.result.method == profile.result.method)
            .map(times)
            .collect();
        Method {
            by: profile.result.method.name(),
            complete: profile.result.complete,
            found: profile.result.found,
            runs,
            gates: gates(&profile.tally),
            stat_calls: profile.tally.stat_calls(),
            profile: profile_lines(&profile.tally),
        }
    });
    let left_out = comparison.left_out.iter().map(|(by, why)| LeftOut {
        by: by.name(),
        why: why.to_string(),
    });
    Ok(Compared {
        methods: methods.collect(),
        left_out: left_out.collect(),
    })
}

/// `--compare`
fn compare(
    root: Root,
    options: &LocateOptions,
    trials: usize,
    format: Format,
    out: &Out,
) -> Outcome {
    const LIMIT: Duration = Duration::from_secs(3600);
    let report = locate(
        &root,
        &LocateOptions {
            method: None,
            ..options.clone()
        },
        &mut |_, _| {},
    )
    .map_err(|e| Error::new(format!("cannot find the mounts: {e}")))?;
    let bounds = Bounds::time(LIMIT);
    let compared = compare_methods(
        &root,
        options,
        &mounts::Method::ALL,
        trials,
        &bounds,
        Progress::new(out.progress),
    )?;
    let warnings: Vec<Warning> = compared
        .left_out
        .iter()
        .map(|left| {
            Warning::general(WarningKind::LeftOut {
                method: left.by,
                why: left.why.clone(),
            })
        })
        .collect();
    let path = root.into_path(); // its descriptor is closed before the gates are counted
    if format == Format::Json {
        let (why, is_complete) = (report.reason.to_string(), report.is_complete());
        let rows = report.points;
        let result = Mounts {
            root: Some(&path),
            compare: Some(&comparison(&compared.methods, &compared.left_out)),
            ..Mounts::new(report.method.name(), &why, is_complete, &rows)
        };
        out.envelope(SCHEMA, result, &warnings)?;
    } else {
        let mut text = methods_table(&compared.methods).to_text(out.width, out.color);
        text.push_str(&ratios_text(&compared.methods, out.color));
        text.push_str(&profiles_text(&compared.methods, out.color));
        out.data(text.as_bytes())?;
    }
    out.warn(&warnings);
    Ok(warnings.len())
}
