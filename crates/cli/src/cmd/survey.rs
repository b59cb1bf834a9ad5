//! `fathom survey`: one page on this machine, in sections. A section is a struct that is gathered once and shown twice, as
//! text and as a member of the JSON; a new one is a new field of [`Page`] and a line in [`run`].

use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use archive::dump::{Plan, Step};
use archive::gather::{self, Gather};
use gate::fs::{At, Want};
use gate::long::statx_long;
use mounts::compare::{Alone, NoRun, alone};
use mounts::locate::Question;
use mounts::{Hints, Warning, locate};
use report::compare::{Comparison, comparison, methods_text};
use report::mounts::{Look, Mounts, Rows};
use report::name::{entry, printable};
use report::nightly::{Expected, Nightly};
use report::table::wrap;
use report::walk::{Part, Section};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use walk::{By, Type};

use super::mounts::{Compared, Points, compare_methods, open_root};
use super::walk::compare as engines;
use crate::args::Survey as Args;
use crate::out::{Done, Failed, Out};

const SCHEMA: &str = "fathom.survey/1";

/// The page.
struct Page<'a> {
    root: &'a [u8],
    mounts: Mounts<'a>,
    walk: Option<Section<'a>>,
    dump: Option<&'a Nightly>,
}

impl Serialize for Page<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        entry(&mut map, "root", Some(self.root))?;
        map.serialize_entry("mounts", &self.mounts)?;
        map.serialize_entry("walk", &self.walk)?;
        map.serialize_entry("dump", &self.dump)?;
        map.end()
    }
}

/// Runs of each method and of each engine.
const TRIALS: usize = 3;

pub(crate) fn run(args: &Args, out: &Out) -> Done {
    let root = open_root(&args.dir)?;
    let question = Question { by: None, bound: Some(4), hints: Hints::Auto };
    let answer =
        locate(&root, &question, &mut |_, _| {}).map_err(|e| Failed(format!("cannot find the mounts: {e}")))?;
    let by = answer.by.name();
    let rows = Points(answer.points);
    let compared = compare_methods(&root, &question, TRIALS, args.limit, out)?;
    let path = root.into_path(); // its descriptor is closed before the gates are counted
    let mut warnings: Vec<Warning> = answer.warnings;
    let may_hang = answer.root_fstype.as_deref().is_some_and(mounts::may_hang);
    let walked = walk_it(args, may_hang, out).map_err(|Failed(why)| warnings.push(Warning::general(why))).ok();
    let walk = walked.as_ref().and_then(section);
    // Where every engine takes too long, gathering does.
    let is_walked = walk.as_ref().is_some_and(|walk| !walk.compare.engines.is_empty());
    let dump = walk.as_ref().filter(|_| is_walked).and_then(|walk| {
        nightly(args, walk.part).map_err(|Failed(why)| warnings.push(Warning::general(why))).ok().flatten()
    });
    let Compared { methods, left_out } = &compared;
    let comparison: Comparison<'_> = comparison(methods, left_out);
    if out.json {
        let mounts = Mounts {
            root: Some(&path),
            compare: Some(&comparison),
            ..Mounts::of(by, &answer.why, answer.lacking.is_empty(), &rows)
        };
        out.envelope(SCHEMA, Page { root: &path, mounts, walk, dump: dump.as_ref() }, &warnings)?;
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
        out.data(text.as_bytes())?;
    }
    out.warn(&warnings);
    Ok(warnings.len())
}

/// Walks by every engine, without going into other mounts: a server behind one of them might not answer. Where that holds for
/// the directory itself, a process that can be killed looks at it first.
fn walk_it(args: &Args, may_hang: bool, out: &Out) -> Result<engines::Compared, Failed> {
    let dirs = vec![args.dir.as_bytes().to_vec()];
    if may_hang && let Ok(Err(NoRun::Stopped(_))) = alone(args.limit, || walk::explain(&dirs).ok().map(|_| [])) {
        return Err(Failed::at("cannot walk", args.dir.as_bytes(), "no answer in time", "see fathom mounts --check"));
    }
    let question = walk::Question { dirs, one_file_system: true, ..walk::Question::default() };
    engines::engines(&question, TRIALS, args.limit, out)
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
