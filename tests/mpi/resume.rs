//! `fathom walk --resume` by the ranks of an MPI job: what is finished stays, the rest is walked again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::walk::{names, refused, result, walk};
use super::{NEEDS, RANK, launcher_of_killed, run_job};
use crate::support::build::{bush, dir};
use crate::support::run::{Ran, args};
use crate::support::{fathom, fathom_path, require, run};

/// The number of pieces in which a tree is walked.
const PIECES: usize = 16;

fn resume(many: usize, top: &Path, out: &Path) -> Value {
    let more = ["--resume", "--catalog", out.to_str().unwrap()];
    result(&walk(many, top, &more).exits(0))
}

fn alone(words: &[std::ffi::OsString]) -> Value {
    run(&mut fathom(words.to_vec())).exits(0).json()["result"].clone()
}

#[test]
fn finished_pieces_are_kept() {
    if !require(&NEEDS) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let (top, out) = (dir(scratch.path().join("tree")), scratch.path().join("out"));
    bush(&top, 12, 9);
    for nth in 0..30 {
        bush(&dir(top.join(format!("a/b{}/c{nth}", nth % 4))), 2, 5);
    }
    let whole = alone(&args!["walk", &top, "--json"]);
    let check = |kept: usize| {
        let found = resume(2, &top, &out);
        assert_eq!(found["kept"], kept, "{found}");
        assert_eq!(found["digest"], whole["digest"]);
        assert_eq!(names(&out).len(), 2 * PIECES);
        let queried = alone(&args!["query", &out, "--json"]);
        assert_eq!(queried["digest"], whole["digest"]);
    };
    check(0);
    check(2 * PIECES);
    // Of a piece that only one rank has named nothing is kept.
    fs::remove_file(out.join("part-5-of-32.parquet")).unwrap();
    fs::remove_file(out.join("part-30-of-32.parquet")).unwrap();
    check(2 * (PIECES - 2));
    let before = names(&out);
    for (many, more) in [
        (3, &[][..]),
        (2, &["--exclude", "x"]),
        (2, &["--run", "other"]),
    ] {
        let into = ["--resume", "--catalog", out.to_str().unwrap()];
        let ran = walk(many, &top, &[&into, more].concat());
        refused(&ran, "cannot write");
        assert_eq!(names(&out), before, "{ran}");
    }
    let ran = walk(2, &top, &["--catalog", out.to_str().unwrap()]);
    refused(&ran, "of another run");
}

/// Runs four ranks, so slowly that they take two seconds or more, and kills one of them when there are so many
/// parts.
fn killed_at(parts: usize, victim: usize, top: &Path, out: &Path, pids: &Path) -> Ran {
    let script = format!(
        "echo $$ > {}/{RANK}; exec {} \"$@\"",
        pids.display(),
        fathom_path().display()
    );
    let mut command = launcher_of_killed();
    command.args(["-np", "4", "sh", "-c", &script, "sh"]);
    command.args(args![
        "walk",
        top,
        "--resume",
        "--catalog",
        out,
        "--max-rate",
        "1500"
    ]);
    let (out, pid): (PathBuf, PathBuf) = (out.into(), pids.join(victim.to_string()));
    let killer = std::thread::spawn(move || {
        while names(&out)
            .iter()
            .filter(|name| name.starts_with("part-"))
            .count()
            < parts
        {
            std::thread::sleep(Duration::from_millis(2));
        }
        let pid = fs::read_to_string(pid).unwrap();
        run(Command::new("kill").args(["-KILL", pid.trim()]))
    });
    let ran = run_job(&mut command);
    killer.join().unwrap();
    ran
}

#[test]
fn killed_walks_are_resumed() {
    if !require(&NEEDS) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let top = dir(scratch.path().join("tree"));
    bush(&top, 20, 30);
    let whole = alone(&args!["walk", &top, "--json"]);
    let (out, pids) = (scratch.path().join("out"), dir(scratch.path().join("pids")));
    let mut least = 0;
    for (parts, victim) in [(1, 3), (18, 0), (39, 2)] {
        let ran = killed_at(parts, victim, &top, &out, &pids);
        // In the first piece the signal is in time, however late it comes.
        assert!(parts > 1 || ran.code() != 0, "{ran}");
        if ran.code() == 0 {
            break;
        }
        // Whoever reads what there is learns that parts are missing.
        let left = names(&out).len();
        assert!(left >= least && left < 4 * PIECES, "{left} parts: {ran}");
        let ran = run(&mut fathom(args!["changed", &top, "--since", &out])).refused();
        assert!(ran.stderr.contains("missing"), "{ran}");
        for name in names(&out) {
            run(&mut fathom(args!["query", out.join(name), "--json"])).exits(0);
        }
        // At most the parts of one piece are removed.
        least = left - 3;
    }
    let found = resume(4, &top, &out);
    assert_eq!(found["digest"], whole["digest"], "{found}");
    assert!(found["kept"].as_u64().unwrap() >= 36, "{found}");
    let queried = alone(&args!["query", &out, "--json"]);
    for field in ["digest", "entries"] {
        assert_eq!(queried[field], whole[field], "{field}");
    }
}
