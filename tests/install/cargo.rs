//! `cargo install` of a static build: one test for both, because the binary that cargo builds for the
//! tests has other features, and does not run on other machines.

use std::process::Command;

use super::*;
use crate::support::build::{bush, file};
use crate::support::need::{built, musl};
use crate::support::run::{Ran, args, program};
use crate::support::tool::tool;
use crate::support::{Need, fathom, require, run};

fn cargo() -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    // Without debug information, the build takes less time.
    cargo
        .current_dir(top())
        .arg("--quiet")
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        // The compiler of the tests: see tools/test.
        .env_remove("RUSTC_WORKSPACE_WRAPPER");
    cargo
}

/// Installs the program below `root`, as a static binary.
fn installed(root: &Path) -> PathBuf {
    let words = args![
        "install",
        "--path=crates/cli",
        "--debug",
        "--locked",
        "--target",
        musl(),
        "--root",
        root
    ];
    tool(cargo().args(words).arg("--target-dir").arg(built("")));
    root.join("bin/fathom")
}

#[test]
fn cargo_installs_the_program_and_takes_it_away() {
    if require(&[Need::Musl]) {
        let root = tempfile::tempdir().unwrap();
        let fathom = installed(root.path());
        let said = run(&mut program(&fathom, ["--version"])).exits(0);
        assert_eq!(
            said.lines(),
            [format!("fathom {}", env!("CARGO_PKG_VERSION"))]
        );
        let help = run(&mut program(&fathom, ["walk", "--help"])).exits(0);
        assert!(help.lines().len() > 20, "{help}");
        tool(cargo().args(args!["uninstall", "--root", root.path(), "fathom"]));
        assert!(!fathom.exists());
    }
}

#[test]
fn one_file_needs_no_library_and_does_the_same() {
    if require(&[
        Need::Musl,
        Need::Program("file"),
        Need::Program("chroot"),
        Need::Root,
    ]) {
        // A root directory with nothing but the program.
        let empty = tempfile::tempdir().unwrap();
        let one = installed(empty.path());
        let kind = String::from_utf8(tool(Command::new("file").arg("--brief").arg(&one))).unwrap();
        assert!(
            kind.contains("static") && !kind.contains("interpreter"),
            "{kind}"
        );
        bush(&empty.path().join("tree"), 3, 10);
        file(empty.path().join("tree/d0/large"), 300_000);
        let inside = |words: &[&str]| -> Ran {
            let mut chroot = program("chroot".as_ref(), [empty.path()]);
            run(chroot.arg("/bin/fathom").args(words))
        };
        assert!(inside(&["--version"]).exits(0).lines()[0].starts_with("fathom "));
        let walked = |ran: Ran| ran.exits(0).json()["result"].clone();
        let static_one = walked(inside(&["walk", "tree", "--json"]));
        let dynamic = walked(run(
            fathom(args!["walk", "tree", "--json"]).current_dir(&empty)
        ));
        for what in ["entries", "files", "bytes", "digest"] {
            assert_eq!(static_one[what], dynamic[what], "{what}");
        }
        // Run the parts that are written in C: zstd, and the checksums.
        inside(&["dump", "tree", "-o", "tree.tar.zst", "--catalog", "catalog"]).exits(0);
        inside(&["verify", "tree.tar.zst", "--against", "/"]).exits(0);
        let changed = inside(&["changed", "tree", "--since", "catalog", "--json"])
            .exits(0)
            .json();
        assert_eq!(
            changed["warnings"].as_array().map(Vec::len),
            Some(0),
            "{changed}"
        );
        let archive = |program: &mut Command, name: &str| {
            let archive = empty.path().join(name);
            run(program
                .args(args!["dump", "tree", "-o", archive])
                .current_dir(&empty))
            .exits(0);
            std::fs::read(archive).unwrap()
        };
        let by_it = archive(&mut program(&one, [""; 0]), "one.tar.zst");
        assert!(
            by_it == archive(&mut fathom([""; 0]), "other.tar.zst"),
            "the archives differ"
        );
    }
}

#[test]
fn one_file_meets_the_kernel_as_the_other_does() {
    if require(&[Need::Musl, Need::Root]) {
        let root = tempfile::tempdir().unwrap();
        let one = installed(root.path());
        let run = |words: &[&str]| run(&mut program(&one, words));
        let mounts = run(&["mounts", "/", "--json"]);
        assert!(mounts.code() < 2, "{mounts}");
        assert!(
            !mounts.json()["result"]["mounts"]
                .as_array()
                .unwrap()
                .is_empty()
        );
        let checked = run(&["mounts", "/proc", "--check", "--json"]);
        assert!(checked.code() < 2, "{checked}");
        for meter in ["ptrace", "auto"] {
            let account = run(&[
                "account",
                "--meter",
                meter,
                "--json",
                "--",
                "cat",
                "/dev/null",
            ])
            .exits(0)
            .json();
            assert!(
                account["result"]["gates"]["read"]["calls"].as_u64() >= Some(1),
                "{account}"
            );
        }
    }
}
