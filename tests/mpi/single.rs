//! Tests of jobs with a single rank, which works like a process without a launcher.

use std::fs;

use super::walk::{names, refused};
use super::{NEEDS, launcher, mpirun, run_job};
use crate::support::build::{bush, dir};
use crate::support::run::args;
use crate::support::terminal::at_terminal;
use crate::support::{fathom, fathom_path, require, run};

/// Options that several ranks do not support, and outputs with the name of a file.
#[test]
fn a_single_rank_works_like_a_process() {
    if !require(&NEEDS) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let at = scratch.path();
    let tree = dir(at.join("tree"));
    bush(&tree, 3, 3);
    let catalog = at.join("a.parquet");
    for words in [
        args!["walk", &tree, "--group-by", "group"].to_vec(),
        args!["walk", &tree, "--format", "paths"].to_vec(),
        args!["walk", &tree, "--compare", "--trials", "1"].to_vec(),
        args!["walk", &tree, "--catalog", &catalog].to_vec(),
        args!["dump", &tree, "--since", &catalog, "-o", at.join("1.tar")].to_vec(),
        args!["dump", &tree, "-o", at.join("0.tar.zst")].to_vec(),
        args!["restore", at.join("0.tar.zst"), "-C", dir(at.join("to"))].to_vec(),
    ] {
        let ran = mpirun(1, words).exits(0);
        assert!(!ran.stderr.contains("rank"), "{ran}");
    }
    for file in ["a.parquet", "1.tar", "0.tar.zst"] {
        assert!(at.join(file).is_file(), "{file}");
    }
    // Other outputs are directories of parts, as with several ranks.
    let out = at.join("out");
    mpirun(1, args!["dump", &tree, "-o", &out]).exits(0);
    assert_eq!(names(&out), ["part-0-of-1.tar.zst"]);
    let out = at.join("catalogs");
    mpirun(1, args!["walk", &tree, "--catalog", &out]).exits(0);
    assert_eq!(names(&out), ["part-0-of-1.parquet"]);
    let paths = args!["walk", &tree, "--format", "paths"];
    refused(&mpirun(2, paths), "this --format cannot be used");
}

/// The environment of an interactive shell can have a rank, but not the number of ranks.
#[test]
fn a_rank_without_a_number_of_ranks_is_single() {
    let scratch = tempfile::tempdir().unwrap();
    bush(scratch.path(), 3, 3);
    let words = args!["walk", scratch.path(), "--group-by", "group"];
    let plain = run(&mut fathom(words.clone())).exits(0);
    let ran = run(fathom(words).env("PMIX_RANK", "0")).exits(0);
    assert_eq!(ran.stdout, plain.stdout);
}

#[test]
fn a_single_rank_can_run_several_programs() {
    if !require(&NEEDS) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    bush(scratch.path(), 3, 3);
    let script = format!(
        "{0} walk \"$0\" && {0} walk \"$0\"",
        fathom_path().display()
    );
    let mut command = launcher();
    run_job(
        command
            .args(["-np", "1", "sh", "-c", &script])
            .arg(scratch.path()),
    )
    .exits(0);
}

#[test]
fn ranks_print_nothing_if_quiet() {
    if !require(&NEEDS) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    bush(scratch.path(), 3, 3);
    for many in [1, 2] {
        let ran = mpirun(many, args!["walk", scratch.path(), "-q"]).exits(0);
        assert!(ran.stdout.is_empty(), "{ran}");
    }
}

/// Each rank has a pseudo-terminal of Open MPI, also if the output of mpirun is a file.
#[test]
fn output_to_a_launcher_is_not_for_a_terminal() {
    let scratch = tempfile::tempdir().unwrap();
    let long = "n".repeat(200);
    fs::create_dir(scratch.path().join(&long)).unwrap();
    fs::write(scratch.path().join(&long).join("file"), [1; 5000]).unwrap();
    let words = args!["walk", scratch.path(), "--format", "du"];
    let print = |more: &[&str]| {
        let mut command = fathom(words.clone());
        command.args(more).env_remove("NO_COLOR");
        let names = ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"];
        command.envs(names.into_iter().zip(["0", "1"]));
        at_terminal(command.env("TERM", "xterm"), 80).0
    };
    let text = print(&[]);
    assert!(!text.contains('\x1b') && text.contains(&long), "{text}");
    let text = print(&["--color", "always"]);
    assert!(text.contains('\x1b') && !text.contains(&long), "{text}");
}

#[test]
fn measurements_by_several_ranks_are_noted() {
    if !require(&NEEDS) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let note = "each process does all of the work and disturbs the measurements of the others";
    let words = args!["probe", scratch.path(), "gates"];
    for (many, is_noted) in [(1, false), (2, true)] {
        let ran = mpirun(many, words.clone());
        assert_eq!(ran.stderr.contains(note), is_noted, "{ran}");
    }
}

/// The reports of all ranks but one would be lost.
#[test]
fn ranks_do_not_write_the_same_report() {
    let scratch = tempfile::tempdir().unwrap();
    for command in ["account", "pathsearch"] {
        let at = dir(scratch.path().join(command));
        let report = |name: &str, [rank, size]: [&str; 2]| {
            let mut fathom = fathom(args![command, "-o", name, "--", "true"]);
            fathom.current_dir(&at);
            let names = ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"];
            fathom.envs(names.into_iter().zip([rank, size]));
            (run(&mut fathom), at.join(name))
        };
        let (ran, file) = report("shared.txt", ["3", "4"]);
        assert!(ran.code() == 2 && !file.exists(), "{ran}");
        assert!(
            ran.stderr.contains("shared.$OMPI_COMM_WORLD_RANK.txt"),
            "{ran}"
        );
        for (name, ranks) in [("own.3.txt", ["3", "4"]), ("shared.txt", ["0", "1"])] {
            let (ran, file) = report(name, ranks);
            assert!(ran.code() == 0 && file.exists(), "{ran}");
            assert!(!ran.stderr.contains("each process does all"), "{ran}");
        }
    }
}
