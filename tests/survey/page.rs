//! Tests of the destination of the page, and that its figures equal those of single commands.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::mount::{MountFlags, mount_remount};
use serde_json::Value;

use super::{PATIENT, names, survey};
use crate::support::build::{bush, chmod, dir, tmpfs};
use crate::support::disks::{EXT4, Make, mounted};
use crate::support::restrict::fathom_as_nobody;
use crate::support::run::{args, path};
use crate::support::{Need, fathom, in_namespace, require, run};

const PAGE: &str = "fathom-survey.html";

fn is_page(file: &Path) {
    let page = fs::read_to_string(file).unwrap();
    assert!(
        page.starts_with("<!DOCTYPE html>") || page.starts_with("<!doctype html>"),
        "{page:.100}"
    );
    assert!(page.trim_end().ends_with("</html>"));
}

#[test]
fn page_is_written_to_the_given_file() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let (here, seen) = (dir(ground.join("here")), tmpfs(ground.join("seen")));
            bush(&seen, 3, 3);
            let survey_here = |args: &[OsString]| {
                let mut command = fathom(args!["survey", &seen]);
                command.args(PATIENT).args(args).current_dir(&here);
                command
            };
            // In the current directory, the page replaces an existing file, also with --json.
            fs::write(here.join(PAGE), "old").unwrap();
            let ran = run(&mut survey_here(&args!["--json"])).exits(0);
            is_page(&here.join(PAGE));
            assert!(ran.stderr.contains(PAGE), "{ran}");
            ran.json();
            // The page has names from directories that only this user can read.
            fs::remove_file(here.join(PAGE)).unwrap();
            run(&mut survey_here(&[])).exits(0);
            let mode = fs::metadata(here.join(PAGE)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            // The page is written to a given file.
            let other = ground.join("other.html");
            run(&mut survey_here(&args!["-q", "-o", &other])).exits(0);
            is_page(&other);
            // The page is written to standard output, and nothing else is.
            let ran = run(&mut survey_here(&args!["-o", "-"])).exits(0);
            fs::write(&other, &ran.stdout).unwrap();
            is_page(&other);
            assert_eq!(names(&here), [PAGE]);
        });
    }
}

#[test]
fn output_that_cannot_be_written_is_refused_before_anything_is_measured() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let (here, seen) = (tmpfs(ground.join("here")), tmpfs(ground.join("seen")));
            let none = ground.join("none/x.html");
            let refused = |args: &[OsString]| {
                // With --verbose, each step would print a line: the survey must be refused before
                // the first one.
                let ran = run(fathom(args.to_vec()).arg("-v").current_dir(&here)).refused();
                assert!(ran.stderr.contains("--no-page"), "{ran}");
            };
            refused(&args!["survey", &seen, "-o", &none]);
            refused(&args!["survey", &seen, "-o", &seen]);
            mount_remount(&here, MountFlags::RDONLY, "").unwrap();
            refused(&args!["survey", &seen, "-o", "x.html", "--json"]);
            // If the default page cannot be written, the survey succeeds nevertheless.
            let words = args!["survey", &seen, PATIENT[0], PATIENT[1]];
            let ran = run(fathom(words).current_dir(&here)).exits(0);
            assert!(ran.stderr.contains("no page: cannot write"), "{ran}");
            run(fathom(args!["survey", &seen, "--plot", &none]).current_dir(&seen)).refused();
            assert_eq!(names(&seen), [] as [&str; 0]);
        });
    }
}

/// The finding with this name.
fn finding<'a>(experiments: &'a Value, name: &str) -> &'a Value {
    experiments
        .as_array()
        .unwrap()
        .iter()
        .find(|finding| finding["name"] == name)
        .unwrap()
}

#[test]
fn every_figure_is_that_of_the_single_command() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|ground| {
            let disk = ground.join("disk");
            assert!(mounted(
                Make {
                    mkfs: "-b 1024",
                    ..EXT4[0]
                },
                &disk
            ));
            bush(&disk, 4, 5);
            tmpfs(disk.join("d0/inner"));
            let json = |command: &mut std::process::Command| run(command).json()["result"].clone();
            let all = json(&mut survey(args![&disk, "--json"]));

            let mounts = json(&mut fathom(args!["mounts", &disk, "--check", "--json"]));
            assert_eq!(all["mounts"]["mounts"], mounts["mounts"]);
            for method in all["mounts"]["compare"]["methods"].as_array().unwrap() {
                assert_eq!(method["found"], 2, "{method}");
            }
            let walk = json(&mut fathom(args!["walk", &disk, "-x", "--json"]));
            assert_eq!(all["walk"]["engine"], walk["engine"]);
            for engine in all["walk"]["compare"]["engines"].as_array().unwrap() {
                assert_eq!(
                    (&engine["entries"], &engine["digest"]),
                    (&walk["entries"], &walk["digest"]),
                    "{engine}"
                );
            }
            assert!(all["walk"]["bounded"].is_null(), "{}", all["walk"]);
            assert_eq!(all["dump"]["bytes"], 0);

            let probe = json(&mut fathom(args![
                "probe",
                &disk,
                "block",
                "readahead",
                "cache",
                "--json",
                "--max-seconds",
                "10m"
            ]));
            let ours = &all["probe"][0];
            assert_eq!(path(ours, "dir"), disk);
            for name in [
                "allocation-block",
                "cluster",
                "page-cache-granule",
                "readahead-steady",
                "cache-limit",
            ] {
                let (one, other) = (
                    finding(&ours["experiments"], name),
                    finding(&probe["experiments"], name),
                );
                // While other programs read, a window of readahead may be unknown.
                let is_unknown = [one, other].iter().any(|it| it["inferred"].is_null());
                let members = ["truth", "unit", "inferred"];
                for member in &members[..if is_unknown { 2 } else { 3 }] {
                    assert_eq!(one[member], other[member], "{name}: {one} {other}");
                }
            }
            let prices = all["gates"]["prices"].as_array().unwrap();
            assert!(
                prices
                    .iter()
                    .any(|price| price["gate"] == "statx" && price["state"] == "warm"),
                "{prices:?}"
            );
            assert_eq!(all["skipped"], serde_json::json!({}));
        });
    }
}

#[test]
fn plain_user_gets_a_useful_page() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let (seen, here) = (tmpfs(ground.join("seen")), tmpfs(ground.join("here")));
            bush(&seen, 3, 3);
            fs::create_dir(seen.join("closed")).unwrap();
            chmod(seen.join("closed"), 0o700);
            chmod(&here, 0o777);
            // The home directory is on the same file system. In its root directory, only root may
            // create files.
            chmod(&seen, 0o755);
            fs::create_dir(seen.join("home")).unwrap();
            chmod(seen.join("home"), 0o777);
            let mut command = fathom_as_nobody(ground, args!["survey", &seen, "--json"]);
            command.args(PATIENT);
            command.current_dir(&here).env("HOME", seen.join("home"));
            let ran = run(&mut command).exits(0);
            let result = &ran.json()["result"];
            is_page(&here.join(PAGE));
            let fsync = &result["costs"][4];
            assert!(fsync["now"].as_f64() > Some(0.0), "{fsync}");
            assert_eq!(path(&result["gates"], "dir"), seen.join("home"));
            assert_eq!(result["machine"]["root"], false);
            let lacking = result["machine"]["lacking"].to_string();
            assert!(
                lacking.contains("the engines bulkstat") && lacking.contains("cannot read"),
                "{lacking}"
            );
            for section in ["mounts", "walk", "dump", "account", "startup", "gates"] {
                assert!(
                    result[section].is_object(),
                    "{section}: {}",
                    result["skipped"]
                );
            }
        });
    }
}
