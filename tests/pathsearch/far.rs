//! Predictions, held against a file system that counts what it is asked: a tree of this machine, shown by a FUSE server.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::mount::{UnmountFlags, mount_bind_recursive, unmount};
use serde_json::Value;

use super::support::far::{Far, Slowness, serve};
use super::support::run::args;
use super::support::{Need, in_namespace, require, run};
use super::{searched, searched_with, sh};

const PATH: &str = "/nowhere/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Requests that were predicted, cold or warm.
fn predicted(value: &Value, when: &str) -> BTreeMap<String, u64> {
    let rows = value["result"]["predicted"]["requests"].as_array().unwrap();
    let all = rows.iter().map(|row| (row["request"].as_str().unwrap().to_owned(), row[when].as_u64().unwrap()));
    all.filter(|(_, n)| *n > 0).collect()
}

/// Runs a command in the tree at `root`, which is mounted afresh, and counts.
fn counted(root: &Path, far: &Far, command: &[OsString]) -> BTreeMap<String, u64> {
    far.counts();
    let mut program = Command::new("chroot");
    program
        .env_remove("LD_LIBRARY_PATH")
        .arg(root)
        .arg("/usr/bin/env")
        .arg("-i")
        .arg(format!("PATH={PATH}"))
        .args(["LC_ALL=C.UTF-8"])
        .args(command);
    run(&mut program).exits(0);
    far.counts().into_iter().map(|(name, n)| (name.to_owned(), n)).collect()
}

/// Predicted and counted, side by side; those that are waited for within 20 % in all.
fn within(what: &str, predicted: &BTreeMap<String, u64>, counted: &BTreeMap<String, u64>) {
    let waited = |counts: &BTreeMap<String, u64>| -> u64 {
        counts.iter().filter(|(name, _)| !["RELEASE", "IOCTL"].contains(&name.as_str())).map(|(_, n)| n).sum()
    };
    let (expected, found) = (waited(predicted), waited(counted));
    println!("{what}: predicted {expected} {predicted:?}\n{what}: counted   {found} {counted:?}");
    let ratio = expected as f64 / found as f64;
    assert!((0.8..=1.2).contains(&ratio), "{what}: {ratio:.2}\npredicted {predicted:?}\ncounted   {counted:?}");
}

fn cold_and_warm(what: &str, command: &[OsString]) {
    in_namespace(|ground| {
        let place = tempfile::tempdir().unwrap();
        let whole: Vec<OsString> = args!["/usr/bin/env", "-i", format!("PATH={PATH}"), "LC_ALL=C.UTF-8"]
            .into_iter()
            .chain(command.iter().cloned())
            .collect();
        let (value, _) = searched(place.path(), &whole, |command| {
            command.env("PATH", PATH).current_dir("/");
        });
        let root = ground.join("root");
        let far = serve(Path::new("/"), &root, Slowness::default());
        for dir in ["proc", "dev"] {
            mount_bind_recursive(Path::new("/").join(dir), root.join(dir)).unwrap();
        }
        let cold = counted(&root, &far, command);
        within(&format!("{what}, cold"), &predicted(&value, "cold"), &cold);
        let warm = counted(&root, &far, command);
        within(&format!("{what}, warm"), &predicted(&value, "warm"), &warm);
        for dir in ["proc", "dev"] {
            let _ = unmount(root.join(dir), UnmountFlags::DETACH);
        }
        let _ = unmount(&root, UnmountFlags::DETACH);
    });
}

/// A script with twenty commands.
fn script() -> Vec<OsString> {
    let commands = [
        "ls",
        "cat /dev/null",
        "id -u",
        "uname",
        "date",
        "true",
        "head -c0 /dev/null",
        "tail -c0 /dev/null",
        "wc -c /dev/null",
        "sort /dev/null",
        "cut -c1 /dev/null",
        "tr a b </dev/null",
        "uniq /dev/null",
        "basename x",
        "dirname x",
        "env",
        "expr 1 + 1",
        "seq 1",
        "nproc",
        "tty",
    ];
    sh(
        "sh",
        &commands
            .map(|command| format!("{command} >/dev/null;"))
            .concat()
            .replace("tty >/dev/null;", "tty >/dev/null; exit 0"),
    )
}

#[test]
fn python_asks_for_as_much_as_was_predicted() {
    if require(&[Need::Root, Need::Fuse]) && Path::new("/usr/bin/python3").exists() {
        cold_and_warm("python3", &args!["/usr/bin/python3", "-c", "import json, decimal"]);
    }
}

#[test]
fn a_shell_script_asks_for_as_much_as_was_predicted() {
    if require(&[Need::Root, Need::Fuse]) {
        cold_and_warm("script", &script());
    }
}

#[test]
fn on_the_mount_itself_its_round_trip_is_measured_and_its_searches_are_what_is_predicted() {
    if require(&[Need::Root, Need::Fuse, Need::Program("dash")]) {
        in_namespace(|ground| {
            use std::os::unix::fs::PermissionsExt;
            let tree = ground.join("tree");
            for dir in 0..6 {
                std::fs::create_dir_all(tree.join(format!("bin{dir}"))).unwrap();
            }
            for tool in 0..20 {
                let file = tree.join(format!("bin5/tool{tool}"));
                std::fs::write(&file, "#!/bin/sh\nexit 0\n").unwrap();
                std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
            }
            let root = ground.join("far");
            let latency = Duration::from_millis(1);
            let dirs: Vec<String> = (0..6).map(|n| format!("{}/bin{n}", root.display())).collect();
            let path = format!("{}:/usr/bin:/bin", dirs.join(":"));
            let script = (0..20).map(|n| format!("tool{n};")).collect::<String>();
            for (forgets_misses, forgets_pages, only_lookups) in
                [(false, false, false), (true, true, false), (false, true, true)]
            {
                let how = Slowness { latency, forgets_misses, forgets_pages, only_lookups };
                let far = serve(&tree, &root, how);
                let place = tempfile::tempdir().unwrap();
                far.counts();
                let (value, _) = searched_with(place.path(), &["--rtt", "auto"], &sh("dash", &script), |command| {
                    command.env("PATH", &path);
                });
                far.counts();
                let predicted_ = &value["result"]["predicted"];
                assert_eq!((&predicted_["about"], &predicted_["rtt_source"]), (&"network".into(), &"measured".into()));
                let rtt = predicted_["rtt"].as_f64().unwrap();
                assert!((0.001..0.003).contains(&rtt), "{rtt}");
                assert_eq!(predicted_["manner"]["keeps_misses"], !forgets_misses, "{predicted_}");
                unmount(&root, UnmountFlags::DETACH).unwrap();
                drop(far);

                let far = serve(&tree, &root, how);
                let ran = run(Command::new("dash").arg("-c").arg(&script).env("PATH", &path)).exits(0);
                let counts: BTreeMap<String, u64> =
                    far.counts().into_iter().map(|(name, n)| (name.to_owned(), n)).collect();
                let manner = &predicted_["manner"];
                assert_eq!(
                    (&manner["keeps_pages"], &manner["opens"]),
                    (&(!forgets_pages).into(), &(!only_lookups).into())
                );
                let mut counts = counts;
                if only_lookups {
                    counts.retain(|name, _| name == "LOOKUP");
                }
                within("on the mount", &predicted(&value, "cold"), &counts);
                println!("measured {:?}, predicted {}", ran.elapsed, predicted_["seconds"]);
                for dir in 0..5 {
                    let name = format!("{}/bin{dir}", root.display());
                    let row = value["result"]["directories"].as_array().unwrap().iter().find(|row| row["dir"] == name);
                    let row = row.unwrap_or_else(|| panic!("no {name}"));
                    assert_eq!(
                        (&row["misses"], &row["network"], &row["fstype"]),
                        (&20.into(), &true.into(), &"fuse.far".into())
                    );
                    assert!(row["seconds"].as_f64().unwrap() > 0.015, "{row}");
                }
                unmount(&root, UnmountFlags::DETACH).unwrap();
            }
        });
    }
}

/// Seconds, predicted and measured, for bench/suite: a row for each trial.
#[test]
#[ignore = "takes the machine for itself: bench/suite pathsearch runs it"]
fn seconds() {
    let trials = std::env::var("FATHOM_TRIALS").map_or(3, |trials| trials.parse().unwrap());
    let cases = [("python3", args!["/usr/bin/python3", "-c", "import json, decimal"].to_vec()), ("script", script())];
    in_namespace(|ground| {
        for (name, command) in &cases {
            for latency in [200, 1000, 5000].map(Duration::from_micros) {
                for trial in 0..trials {
                    let how = Slowness { latency, ..Slowness::default() };
                    let afresh = |work: &mut dyn FnMut(&Path)| {
                        let root = ground.join("root");
                        let far = serve(Path::new("/"), &root, how);
                        for dir in ["proc", "dev", "tmp", "sys"] {
                            mount_bind_recursive(Path::new("/").join(dir), root.join(dir)).unwrap();
                        }
                        work(&root);
                        for dir in ["proc", "dev", "tmp", "sys"] {
                            let _ = unmount(root.join(dir), UnmountFlags::DETACH);
                        }
                        let _ = unmount(&root, UnmountFlags::DETACH);
                        drop(far);
                    };
                    let inside = |root: &Path| {
                        let mut program = Command::new("chroot");
                        program.arg(root).args(["/usr/bin/env", "-i", "LC_ALL=C.UTF-8"]).arg(format!("PATH={PATH}"));
                        program
                    };
                    let mut predicted = Value::Null;
                    afresh(&mut |root| {
                        let mut program = inside(root);
                        program.arg(env!("CARGO_BIN_EXE_fathom")).args([
                            "pathsearch",
                            "--json",
                            "--rtt",
                            "auto",
                            "-o",
                            "/tmp/fathom-seconds",
                            "--",
                        ]);
                        run(program.args(command)).exits(0);
                        let text = std::fs::read("/tmp/fathom-seconds").unwrap();
                        predicted = serde_json::from_slice::<Value>(&text).unwrap()["result"]["predicted"].clone();
                        std::fs::remove_file("/tmp/fathom-seconds").unwrap();
                    });
                    let mut measured = Duration::ZERO;
                    afresh(&mut |root| {
                        // chroot and env are there before the clock starts.
                        run(inside(root).arg("true")).exits(0);
                        measured = run(inside(root).args(command)).exits(0).elapsed;
                    });
                    let (seconds, rtt) = (predicted["seconds"].as_f64().unwrap(), predicted["rtt"].as_f64().unwrap());
                    println!("row,{name},{},{trial},{rtt},{seconds},{}", latency.as_micros(), measured.as_secs_f64());
                }
            }
        }
    });
}
