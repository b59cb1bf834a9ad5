//! `fathom survey`: one page on this machine, in sections. A section is a struct that is gathered once and shown twice, as
//! text and as a member of the JSON; a new one is a new field of [`Page`] and a line in [`run`].

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use account::call::{Command, Ended, Failure};
use archive::dump::{Plan, Step};
use archive::gather::{self, Gather};
use gate::fs::{At, Want};
use gate::long::statx_long;
use mounts::compare::{Alone, NoRun, alone};
use mounts::{Hints, Kind, Warning, locate, may_hang};
use ondisk::split_options;
use pathsearch::search::path::{Element, elements};
use pathsearch::search::trace::Trace;
use pathsearch::search::tree::Places;
use pathsearch::search::{Rtt, search};
use probe::cache::How;
use probe::place::Place;
use probe::{Answer, Experiment, Limits, Question, Trouble};
use report::compare::{Comparison, comparison, methods_text};
use report::meter::Account;
use report::mounts::{Look, Mounts, Rows};
use report::name::{entry, printable};
use report::nightly::{Expected, Nightly};
use report::pathsearch::{Started, Startup};
use report::probe::Probe;
use report::table::wrap;
use report::walk::{Part, Section};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use walk::{By, Type};

use super::account::command::{self, Taken};
use super::mounts::{Compared, Points, compare_methods, open_root};
use super::pathsearch::{meter, surroundings};
use super::probe::{draw, is_there, shown};
use super::walk::{compare as engines, refused};
use crate::args::{AccountBy, Survey as Args, Tread};
use crate::out::{Done, Failed, Out};
use crate::progress::Progress;

const SCHEMA: &str = "fathom.survey/1";

/// The page.
struct Page<'a> {
    root: &'a [u8],
    mounts: Mounts<'a>,
    walk: Option<Section<'a>>,
    dump: Option<&'a Nightly>,
    account: Option<&'a Account<'a>>,
    account_skipped: Option<&'a str>,
    probe: &'a [Probe<'a>],
    startup: Option<&'a Startup<'a>>,
}

impl Serialize for Page<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        entry(&mut map, "root", Some(self.root))?;
        map.serialize_entry("mounts", &self.mounts)?;
        map.serialize_entry("walk", &self.walk)?;
        map.serialize_entry("dump", &self.dump)?;
        map.serialize_entry("account", &self.account)?;
        map.serialize_entry("account_skipped", &self.account_skipped)?;
        map.serialize_entry("probe", &self.probe)?;
        map.serialize_entry("startup", &self.startup)?;
        map.end()
    }
}

/// Runs of each method and of each engine.
const TRIALS: usize = 3;
/// What the experiments on one file system may read and write.
const PROBED: u64 = 96 << 20;
/// Files and directories of the account that the JSON has; and calls that are looked at one by one.
const ACCOUNTED: usize = 10;
const ACCOUNTED_CALLS: u64 = 1 << 18;
/// File systems that are experimented on: the page is to be there soon.
const MOST_PROBED: usize = 6;

pub(crate) fn run(args: &Args, out: &Out) -> Done {
    args.plot.iter().try_for_each(|dir| is_there(dir))?;
    let root = open_root(&args.dir)?;
    let question = locate::Question { by: None, bound: Some(4), hints: Hints::Auto };
    let answer =
        locate::locate(&root, &question, &mut |_, _| {}).map_err(|e| Failed(format!("cannot find the mounts: {e}")))?;
    let by = answer.by.name();
    let rows = Points(answer.points);
    let compared = compare_methods(&root, &question, TRIALS, args.limit, out)?;
    let path = root.into_path(); // its descriptor is closed before the gates are counted
    let mut warnings: Vec<Warning> = answer.warnings;
    let hangs = answer.root_fstype.as_deref().is_some_and(may_hang);
    let walked = walk_it(args, hangs, out).map_err(|Failed(why)| warnings.push(Warning::general(why))).ok();
    let walk = walked.as_ref().and_then(section);
    // Where every engine takes too long, gathering does.
    let is_walked = walk.as_ref().is_some_and(|walk| !walk.compare.engines.is_empty());
    let dump = walk.as_ref().filter(|_| is_walked).and_then(|walk| {
        nightly(args, walk.part).map_err(|Failed(why)| warnings.push(Warning::general(why))).ok().flatten()
    });
    let accounted = account_for(args, hangs, is_walked);
    let account = accounted.as_ref().map(|taken| taken.shown(AccountBy::Program, ACCOUNTED));
    let probed = probe_them(&path, &rows, hangs, args, out)?;
    let probe: Vec<Probe<'_>> = probed.iter().map(|(dir, answer)| shown(Some(dir), answer)).collect();
    let starting = Starting::gather(&mut warnings);
    let startup = starting.shown();
    let Compared { methods, left_out } = &compared;
    let comparison: Comparison<'_> = comparison(methods, left_out);
    if out.json {
        let mounts = Mounts {
            root: Some(&path),
            compare: Some(&comparison),
            ..Mounts::of(by, &answer.why, answer.lacking.is_empty(), &rows)
        };
        let (account, account_skipped) = (account.as_ref().ok(), account.as_ref().err().map(|why| &why[..]));
        let startup = startup.as_ref();
        let page =
            Page { root: &path, mounts, walk, dump: dump.as_ref(), account, account_skipped, probe: &probe, startup };
        out.envelope(SCHEMA, page, &warnings)?;
    } else {
        let hidden = rows.0.iter().filter(|point| point.hidden).count();
        let head = |text: &str| if out.color { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() };
        let mut text = format!("{}\n", head(&format!("Mounts: {} at or under {}", rows.len(), printable(&path))));
        if hidden > 0 {
            text.push_str(&format!("{hidden} of them no path reaches; they are marked hidden.\n"));
        }
        text.push_str(&wrap(&format!("Found by {by}: {}.", answer.why), out.width.unwrap_or(usize::MAX)));
        text.push_str("\n\n");
        let look = Look { width: out.width, tree: out.on_terminal(), color: out.color };
        report::mounts::table(&rows, look, &mut |piece| text.push_str(piece));
        text.push_str(&format!("\n{}\n", head("What each method costs here (medians of 3 runs)")));
        text.push_str(&methods_text(methods, out.width, out.color));
        for left in left_out {
            text.push_str(&format!("{}: {}; --limit gives it longer\n", left.by, left.why));
        }
        if let Some(walk) = &walk {
            text.push_str(&format!("\n{}\n", head("Walking: what each engine costs here (medians of 3 runs)")));
            text.push_str(&walking(walk, args.limit, look));
        }
        if walk.is_some() {
            text.push_str(&format!("\n{}\n", head("Dumping: what a nightly dump would cost here")));
            match &dump {
                Some(dump) => text.push_str(&dump.to_text(look)),
                None => text.push_str(&too_much("gathered", args.limit)),
            }
        }
        text.push_str(&format!("\n{}\n", head("Calls: what walking asks of the kernel, call by call")));
        match &account {
            Ok(account) => text.push_str(&account.brief(look)),
            Err(why) => {
                text.push_str(&(wrap(&format!("Not accounted for: {why}."), look.width.unwrap_or(usize::MAX)) + "\n"))
            }
        }
        if !probe.is_empty() {
            let size = PROBED >> 20;
            text.push_str(&format!(
                "\n{}\n",
                head(&format!("What each file system is, by experiment ({size} MiB at most)"))
            ));
            for (at, found) in probe.iter().enumerate() {
                text.push_str(if at == 0 { "" } else { "\n" });
                text.push_str(&found.to_text(look, false));
            }
        }
        if let Some(startup) = &startup {
            text.push_str(&format!("\n{}\n", head("Starting programs: PATH, the dynamic linker, Python")));
            text.push_str(&startup.to_text(look));
        }
        out.data(text.as_bytes())?;
    }
    out.warn(&warnings);
    Ok(warnings.len())
}

/// Walks by every engine, without going into other mounts: a server behind one of them might not answer. Where that holds for
/// the directory itself, a process that can be killed looks at it first.
fn walk_it(args: &Args, hangs: bool, out: &Out) -> Result<engines::Compared, Failed> {
    let dirs = vec![args.dir.as_bytes().to_vec()];
    if hangs && let Ok(Err(NoRun::Stopped(_))) = alone(args.limit, || walk::explain(&dirs).ok().map(|_| [])) {
        return Err(Failed::at("cannot walk", args.dir.as_bytes(), "no answer in time", "see fathom mounts --check"));
    }
    let question = walk::Question { dirs, one_file_system: true, ..walk::Question::default() };
    engines::engines(&question, TRIALS, args.limit, out)
}

/// Has a walk of DIR, one call after the other as find has it, accounted for by the cheapest meter that works; or says why not.
fn account_for(args: &Args, hangs: bool, is_walked: bool) -> Result<Taken, String> {
    const SIGALRM: i32 = 14;
    if hangs {
        return Err("a server behind it might not answer".to_owned());
    }
    if !is_walked {
        return Err(too_long(args.limit));
    }
    let limit = OsString::from(format!("{}ms", args.limit.as_millis().max(1)));
    let words = [&b"/proc/self/exe"[..], b"tread", b"--limit", limit.as_bytes(), b"--", args.dir.as_bytes()];
    let words = words.map(|word| OsStr::from_bytes(word).to_owned());
    let taken = command::take(&words, "auto", ACCOUNTED_CALLS, None).map_err(|failure| match failure {
        Failure::Command(why, _) | Failure::Meter(why) => why,
    })?;
    match taken.metered.ended {
        Ended::Exited(0) => Ok(taken),
        Ended::Killed(SIGALRM) => Err(too_long(args.limit)),
        _ => Err("the walk has failed".to_owned()),
    }
}

fn too_long(limit: Duration) -> String {
    format!("it takes longer than {} s; --limit gives it longer", limit.as_secs_f64())
}

/// What [`account_for`] has accounted for.
pub(crate) fn tread(args: &Tread) -> Done {
    gate::process::end_after(args.limit);
    let dirs = vec![args.dir.as_bytes().to_vec()];
    let question = walk::Question { dirs, by: Some(By::Stat), one_file_system: true, ..walk::Question::default() };
    let summary = walk::Summary::default();
    walk::walk(&question, &summary, &walk::Desk::default()).map_err(refused)?;
    Ok(0)
}

/// Whether what is mounted is on a disk, or on what may be, can be written to, and has no server that might not answer.
fn on_disk(content: &ondisk::Content) -> bool {
    let source = content.source.as_deref().is_some_and(|source| source.starts_with(b"/dev/"));
    let writable = split_options(&content.options).any(|option| option == b"rw");
    writable && !may_hang(&content.fstype) && (source || content.fstype == b"overlay")
}

/// Block and readahead of the file system that DIR is on, and of each that is mounted below it: by files without a name.
fn probe_them(
    root: &[u8],
    rows: &Points,
    hangs: bool,
    args: &Args,
    out: &Out,
) -> Result<Vec<(Vec<u8>, Answer)>, Failed> {
    let mut seen = HashSet::new();
    let mut once: Vec<&[u8]> = Vec::new();
    if !hangs
        && let Ok(Some(mount)) = Place::open(root).map(|place| place.mount)
        && on_disk(&mount.content)
    {
        seen.insert(mount.dev);
        once.push(root);
    }
    for point in rows.0.iter().filter(|point| !point.hidden && point.kind != Some(Kind::File)) {
        if point.content.as_ref().is_some_and(|content| on_disk(content)) && seen.insert(point.dev) {
            once.push(&point.target);
        }
    }
    let mut progress = Progress::new(out.progress);
    let mut probed = Vec::new();
    let held = gate::interrupt::hold();
    for dir in once.into_iter().take(MOST_PROBED) {
        let question = Question {
            dir: dir.to_vec(),
            experiments: vec![Experiment::Block, Experiment::Readahead],
            limits: Limits { bytes: PROBED, time: args.limit },
            cache: How::default(),
        };
        let done = probe::run(&question, &mut |what| progress.at(|| format!("{}: {what}", printable(dir))));
        if done == Err(Trouble::Interrupted) {
            break;
        }
        // What cannot even be opened has been said elsewhere on the page.
        probed.extend(done.ok().map(|answer| (dir.to_vec(), answer)));
    }
    drop(progress);
    drop(held);
    for (n, (_, answer)) in (1..).zip(&probed) {
        for series in answer.series.iter().filter(|_| args.plot.is_some()) {
            draw(args.plot.as_deref().unwrap_or_default(), &format!("{n}-"), series)?;
        }
    }
    Ok(probed)
}

fn section(compared: &engines::Compared) -> Option<Section<'_>> {
    let compare = report::walk::Comparison::of(&compared.engines, &compared.left_out);
    Some(Section { part: compared.parts.first()?, explain: &compared.possible, compare })
}

fn walking(walk: &Section<'_>, limit: Duration, look: Look) -> String {
    let why = format!("By {}: {}.", walk.part.engine, walk.part.why);
    let mut text = wrap(&why, look.width.unwrap_or(usize::MAX)) + "\n\n";
    if walk.compare.engines.is_empty() {
        text.push_str(&too_much("walked", limit));
    }
    text.push_str(&walk.compare.to_text(look));
    text
}

fn too_much(done: &str, limit: Duration) -> String {
    format!("There is more than can be {done} in {} s; --limit gives it longer.\n", limit.as_secs_f64())
}

/// What a nightly dump would cost, from gathering what it would; `None` where that takes too long. Other mounts are left out, as
/// in the walk.
fn nightly(args: &Args, part: &Part) -> Result<Option<Nightly>, Failed> {
    let question = gather::Question {
        sources: vec![[args.dir.as_bytes(), b"/"].concat()],
        one_file_system: true,
        ..gather::Question::default()
    };
    let ran = alone(args.limit, || {
        let (rows, answer) = gather::gather(&question, &walk::Desk::default()).ok()?;
        let engine = answer.parts.first()?.engine;
        let plan = Plan::full(&rows);
        let files = (0..rows.len()).filter(|&row| rows.kind(row) == Type::File && plan.step(row) == Step::Whole);
        let (files, bytes) = files.fold((0, 0_u64), |(n, sum), row| (n + 1, sum.saturating_add(rows.meta(row).size)));
        let engine = By::ALL.iter().position(|by| *by == engine)?;
        Some([rows.len() as u64, files, bytes, engine as u64])
    });
    let ran = ran.map_err(|e| Failed(format!("cannot make a process to gather in: {e}")))?;
    let Ok(Alone { real, user, sys, tally, gave: [entries, files, bytes, engine] }) = ran else { return Ok(None) };
    let Some(engine) = usize::try_from(engine).ok().and_then(|at| By::ALL.get(at)) else { return Ok(None) };
    let none = Expected { files: 0, bytes: 0, calls: 0, cpu_seconds: 0.0 };
    let nightly = Nightly {
        gather: Gather::of(*engine).name(),
        engine: engine.name(),
        why: part.why.clone(),
        entries,
        files,
        bytes,
        seconds: real.as_secs_f64(),
        cpu_seconds: (user + sys).as_secs_f64(),
        calls: tally.calls(),
        call_seconds: call_seconds(args.dir.as_bytes()),
        first: none,
        unchanged: none,
        changed: none,
    };
    Ok(Some(nightly.expect()))
}

/// What a call costs here: statx(2) of DIR, over and over.
fn call_seconds(dir: &[u8]) -> f64 {
    const ROUNDS: u32 = 1000;
    let before = gate::process::cpu_time();
    for _ in 0..ROUNDS {
        let _ = statx_long(dir, At::empty(), Want::BASIC_STATS);
    }
    gate::process::cpu_time().saturating_sub(before).as_secs_f64() / f64::from(ROUNDS)
}

/// What starting programs takes here.
struct Starting {
    path: Vec<u8>,
    elements: Vec<(Vec<u8>, Element)>,
    places: Places,
    started: Vec<Started>,
}

/// Programs that may be started unasked: they do nothing. What they are for is in the report.
const STARTED: [(&str, &str, &[&str]); 2] = [
    ("env true", "PATH and ld.so", &["env", "true"]),
    ("python3 -c pass", "python", &["sh", "-c", "exec python3 -c pass </dev/null >/dev/null 2>&1"]),
];

impl Starting {
    fn gather(warnings: &mut Vec<Warning>) -> Starting {
        let around = surroundings();
        let path = around.path.clone().unwrap_or_default();
        let elements = elements(&path, &mut pathsearch::search::path::Here);
        let question =
            pathsearch::search::Question { far: vec![b"/".to_vec()], rtt: Rtt::Assumed, nodes: 1, rate: None };
        let mut started = Vec::new();
        for (command, about, words) in STARTED {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let mut meter = |command: &Command, trace: &mut Trace| meter(account::meter::auto::NAME, command, trace);
            let found = Command::find(&words).and_then(|command| search(&command, &around, &question, &mut meter));
            match found {
                // There is no Python here.
                Ok((metered, _)) if metered.ended.status() != 0 => {}
                Ok((metered, judged)) => {
                    let shown = super::pathsearch::result(&judged, &metered, &question);
                    started.push(Started {
                        command,
                        about,
                        totals: shown.totals,
                        directories: shown.directories.iter().map(Into::into).collect(),
                        kinds: shown.kinds,
                        requests: judged.predicted.requests.cold.waited(),
                        seconds_far: shown.predicted.seconds,
                        fixes: shown.fixes,
                    });
                }
                Err(Failure::Meter(why)) => {
                    warnings.push(Warning::general(format!("cannot watch programs start: {why}")));
                    break;
                }
                Err(Failure::Command(..)) => {}
            }
        }
        Starting { path, elements, places: Places::read(), started }
    }

    fn shown(&self) -> Option<Startup<'_>> {
        if self.path.is_empty() && self.started.is_empty() {
            return None;
        }
        let path = self.elements.iter().map(|(dir, element)| {
            let place = self.places.of_name(dir).filter(|_| dir.starts_with(b"/"));
            report::pathsearch::Element {
                dir,
                state: match element {
                    Element::Live => "live",
                    Element::Dead => "dead",
                    Element::Again(_) => "again",
                    Element::Fixed => "unknown",
                },
                fstype: place.map(|mount| mount.fstype.as_slice()),
                network: place.is_some_and(|mount| mount.network),
            }
        });
        Some(Startup { path: path.collect(), started: self.started.clone(), rtt: pathsearch::search::ASSUMED_RTT })
    }
}
