//! Where things go wrong: no room, no permission, no directory any more, and being stopped. Nothing
//! is left, and it is said why.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{finding, inferred, names};
use crate::support::build::{self, dir, tmpfs, tool};
use crate::support::disks::{BTRFS, EXT4, Make, image, mount_image, mounted};
use crate::support::fuse::{Manner, serve};
use crate::support::restrict::{as_nobody, fathom_in, in_chroot, populate_chroot};
use crate::support::run::{args, program};
use crate::support::{Need, fathom, in_namespace, require, run};

#[test]
fn a_disk_that_is_full_or_tiny() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|ground| {
            let (at, file) = (dir(ground.join("at")), ground.join("image"));
            let make = Make {
                mkfs: "-b 1024 -O ^has_journal",
                ..EXT4[0]
            };
            image(make, 4, &file);
            assert!(mount_image(
                make,
                &file,
                &at,
                rustix::mount::MountFlags::empty()
            ));
            let tiny = run(&mut fathom(args!["probe", &at, "--json"]));
            assert!([0, 1].contains(&tiny.code()), "{tiny}");
            assert_eq!(names(&at), ["lost+found"]);
            while fs::OpenOptions::new()
                .create(true)
                .append(true)
                .open(at.join("fill"))
                .and_then(|mut file| file.write_all(&[1; 1024]))
                .is_ok()
            {}
            let full = run(&mut fathom(args![
                "probe",
                &at,
                "block",
                "readahead",
                "extent",
                "--json"
            ]))
            .exits(1);
            let value = full.json();
            assert!(
                value["warnings"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .all(|warning| warning["errno"] == "ENOSPC"),
                "{full}"
            );
            assert!(full.stderr.contains("--max-bytes"), "{full}");
            assert_eq!(names(&at).len(), 2);
        });
    }
}

#[test]
fn a_quota_that_is_used_up() {
    if require(&[Need::Root, Need::Loop, Need::Program("btrfs")]) {
        in_namespace(|ground| {
            let disk = ground.join("disk");
            assert!(mounted(BTRFS[0], &disk));
            let at = crate::support::disks::subvolume(&disk.join("at"), None);
            tool(Command::new("btrfs").args(["quota", "enable"]).arg(&disk));
            tool(
                Command::new("btrfs")
                    .args(["qgroup", "limit", "1M"])
                    .arg(&at),
            );
            let ran = run(&mut fathom(args![
                "probe",
                &at,
                "readahead",
                "extent",
                "--json"
            ]))
            .exits(1);
            let value = ran.json();
            assert!(
                value["warnings"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .all(|warning| warning["errno"] == "EDQUOT"),
                "{ran}"
            );
            assert!(ran.stderr.contains("quota"), "{ran}");
            assert!(names(&at).is_empty());
        });
    }
}

#[test]
fn no_permission() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let own = fathom_in(&ground.join("bin"));
            let at = dir(ground.join("at"));
            let mut command = program(&own, args!["probe", &at, "block", "--json"]);
            as_nobody(&mut command);
            let ran = run(&mut command).exits(1);
            let value = ran.json();
            assert!(
                value["warnings"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .all(|warning| warning["errno"] == "EACCES"),
                "{ran}"
            );
            let mut command = program(
                &own,
                args!["probe", &dir(ground.join("at/closed")), "block"],
            );
            as_nobody(&mut command);
            run(&mut command);
        });
    }
}

#[test]
fn a_directory_that_is_deleted() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|ground| {
            let disk = ground.join("disk");
            assert!(mounted(EXT4[0], &disk));
            let at = dir(disk.join("at"));
            let script = "cd \"$0\" && rmdir \"$0\" && exec \"$1\" probe . block --json";
            let mut shell = Command::new("sh");
            shell
                .args(["-c", script])
                .arg(&at)
                .arg(env!("CARGO_BIN_EXE_fathom"))
                .stdin(Stdio::null());
            let ran = run(&mut shell).exits(1);
            assert!(
                ran.stderr.contains("is the directory still there?"),
                "{ran}"
            );
            ran.json();
        });
    }
}

/// Starts a probe, sends it a signal after a while, and waits for its end.
fn stopped(at: &Path, experiment: &str, signal: Signal, after: Duration) {
    let mut command = fathom(args!["probe", at, experiment]);
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(after);
    let _ = kill_process(Pid::from_child(&child), signal);
    let started = Instant::now();
    child.wait().unwrap();
    assert!(
        started.elapsed() < Duration::from_secs(20),
        "{signal:?} was not heeded"
    );
}

#[test]
fn whoever_is_stopped_leaves_nothing() {
    if require(&[Need::Root, Need::Fuse, Need::Program("bindfs")]) {
        in_namespace(|ground| {
            // FUSE has no files without a name: here there is something to be cleaned.
            let (from, at) = (tmpfs(ground.join("from")), dir(ground.join("at")));
            tool(Command::new("bindfs").arg(&from).arg(&at));
            let plain = tmpfs(ground.join("plain"));
            for place in [&plain, &at] {
                for (n, experiment) in
                    (0..).zip(["block", "readahead", "extent", "gates", "gates", "cache"])
                {
                    for signal in [Signal::INT, Signal::TERM] {
                        stopped(
                            place,
                            experiment,
                            signal,
                            Duration::from_millis(400 + 70 * n),
                        );
                        assert!(names(place).is_empty(), "{experiment}: {:?}", names(place));
                    }
                    stopped(
                        place,
                        experiment,
                        Signal::KILL,
                        Duration::from_millis(400 + 70 * n),
                    );
                }
                // What could not be put away, the next run puts away; groups, the next that makes
                // one.
                run(&mut fathom(args!["probe", place, "timer", "cache"])).exits(0);
                assert!(names(place).is_empty(), "{:?}", names(place));
            }
            crate::support::build::unmount(&at);
        });
    }
}

#[test]
fn a_file_system_that_does_not_answer_keeps_nobody_waiting() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|ground| {
            for (manner, step) in [
                (Manner::Silent, "open it"),
                (Manner::Syncs(0), "bring a file in it to the disk"),
            ] {
                let at = dir(ground.join("at"));
                let server = serve(manner, &at);
                let ran = run(&mut fathom(args!["probe", &at, "--max-seconds", "1s"])).refused();
                assert!(
                    ran.stderr.contains(step) && ran.elapsed < Duration::from_secs(15),
                    "{ran}"
                );
                drop(server);
                crate::support::build::unmount(&at);
            }
        });
    }
}

#[test]
fn a_file_system_that_stops_answering_keeps_nobody_waiting() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|ground| {
            let at = dir(ground.join("at"));
            // The first one finds out whether it answers at all.
            let server = serve(Manner::Syncs(1), &at);
            let ran = run(&mut fathom(args![
                "probe",
                &at,
                "timer",
                "block",
                "gates",
                "--max-seconds",
                "2s",
                "--json"
            ]));
            let value = ran.json();
            assert!(ran.elapsed < Duration::from_secs(20), "{ran}");
            let warnings = value["warnings"].as_array().unwrap();
            assert!(
                warnings.iter().any(|w| w["message"]
                    .as_str()
                    .unwrap()
                    .contains("in the middle of 'block: ")),
                "{ran}"
            );
            // What was found before is there; of the rest it is said why it is not.
            assert!(inferred(&value, "timer").is_string(), "{ran}");
            assert!(
                finding(&value, "gates")["method"]
                    .as_str()
                    .unwrap()
                    .contains("fathom mounts --check"),
                "{ran}"
            );
            drop(server);
            crate::support::build::unmount(&at);
        });
    }
}

#[test]
fn whoever_is_stopped_while_nobody_answers_ends() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|ground| {
            let at = dir(ground.join("at"));
            let server = serve(Manner::Silent, &at);
            stopped(&at, "block", Signal::INT, Duration::from_millis(300));
            drop(server);
            crate::support::build::unmount(&at);
        });
    }
}

/// What can be given for a directory, and can be asked little or nothing.
#[test]
fn places_that_are_no_good_for_it() {
    if !require(&[Need::Root, Need::Loop]) {
        return;
    }
    in_namespace(|ground| {
        let whole = dir(ground.join("whole"));
        let file = build::file(ground.join("file"), 1);
        let link = |to: &Path, name: &str| {
            std::os::unix::fs::symlink(to, ground.join(name)).unwrap();
            ground.join(name)
        };
        let fifo = ground.join("fifo");
        tool(Command::new("mkfifo").arg(&fifo));
        let nowhere = link(Path::new("nowhere"), "nowhere-link");
        for none in [
            &file,
            &fifo,
            &link(&file, "file-link"),
            &link(&fifo, "fifo-link"),
            &nowhere,
        ] {
            let ran = run(&mut fathom(args!["probe", none])).refused();
            assert!(ran.elapsed < Duration::from_secs(10), "{ran}");
        }

        let bound = build::bind(&whole, ground.join("bound"));
        let read_only = rustix::mount::MountFlags::BIND | rustix::mount::MountFlags::RDONLY;
        rustix::mount::mount_remount(&bound, read_only, "").unwrap();
        let with = |name: &str, options: &std::ffi::CStr| {
            let at = dir(ground.join(name));
            rustix::mount::mount(
                "small",
                &at,
                "tmpfs",
                rustix::mount::MountFlags::empty(),
                options,
            )
            .unwrap();
            at
        };
        let (tiny, full) = (with("tiny", c"size=64k"), with("full", c"size=1m"));
        let _ = fs::write(full.join("fill"), vec![1; 2 << 20]);
        let few = with("few", c"size=64m,nr_inodes=2");
        let groups = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"]
            .map(Path::new)
            .into_iter()
            .find(|at| at.exists());
        let others = ["/proc", "/proc/self", "/sys", "/sys/kernel"].map(Path::new);
        let whole_link = link(&whole, "link");
        let own = [&bound, &tiny, &full, &few, &whole_link].map(|at| at.as_path());
        for at in own.into_iter().chain(others).chain(groups) {
            // Of what others change meanwhile only our own names say anything.
            let ours = || {
                names(at)
                    .into_iter()
                    .filter(|name| name.starts_with(".fathom"))
                    .count()
            };
            let ran = run(&mut fathom(args![
                "probe",
                at,
                "--json",
                "--max-bytes",
                "64M"
            ]));
            let value = ran.json();
            assert!(inferred(&value, "timer").is_string(), "{ran}");
            for warning in value["warnings"].as_array().unwrap() {
                assert!(
                    warning["message"]
                        .as_str()
                        .is_some_and(|said| !said.is_empty()),
                    "{ran}"
                );
            }
            assert_eq!(ours(), 0, "{}", at.display());
        }
    });
}

#[test]
fn hardly_any_room_on_a_disk() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|ground| {
            let (at, file) = (dir(ground.join("at")), ground.join("image"));
            image(EXT4[0], 16, &file);
            assert!(mount_image(
                EXT4[0],
                &file,
                &at,
                rustix::mount::MountFlags::empty()
            ));
            let mut fill = fs::File::create(at.join("fill")).unwrap();
            while fill.write_all(&[1; 4096]).is_ok() {}
            fill.set_len(fill.metadata().unwrap().len() - (64 << 10))
                .unwrap();
            fill.sync_all().unwrap();
            let ran = run(&mut fathom(args!["probe", &at, "--json"])).exits(1);
            let value = ran.json();
            assert!(
                value["warnings"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .all(|warning| warning["errno"] == "ENOSPC"),
                "{ran}"
            );
            assert_eq!(
                *inferred(&value, "allocation-block"),
                serde_json::json!(rustix::fs::statvfs(&at).unwrap().f_frsize)
            );
            let mut left = names(&at);
            left.sort();
            assert_eq!(left, ["fill", "lost+found"]);
        });
    }
}

#[test]
fn without_proc_files_have_names_and_go_all_the_same() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let jail = tmpfs(ground.join("jail"));
            populate_chroot(&jail);
            let at = dir(jail.join("at"));
            let mut command = in_chroot(&jail);
            let ran = run(command.args(["probe", "/at", "block", "--json"]));
            assert_eq!(
                *super::inferred(&ran.json(), "allocation-block"),
                serde_json::json!(4096),
                "{ran}"
            );
            assert!(names(&at).is_empty());
        });
    }
}

#[test]
fn what_another_run_is_working_on_stays() {
    let ground = tempfile::tempdir().unwrap();
    let held = ground.path().join(".fathom-probe-1-1");
    let file = fs::File::create(&held).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let left = ground.path().join(".fathom-probe-1-2");
    fs::create_dir(&left).unwrap();
    fs::write(left.join("0-1"), "").unwrap();
    // A directory that only looks as if it were ours.
    let other = ground.path().join(".fathom-probe-1-3");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("shadow"), "").unwrap();
    run(&mut fathom(args!["probe", ground.path(), "timer"])).exits(0);
    let mut left = names(ground.path());
    left.sort();
    assert_eq!(left, [".fathom-probe-1-1", ".fathom-probe-1-3"]);
    assert_eq!(names(&other), ["shadow"]);
}

/// Bytes that were read from the device of what is mounted at a place, and written to it.
fn device_moved(at: &Path) -> u64 {
    let dev = rustix::fs::stat(at).unwrap().st_dev;
    let stat = format!(
        "/sys/dev/block/{}:{}/stat",
        rustix::fs::major(dev),
        rustix::fs::minor(dev)
    );
    let said = fs::read_to_string(stat).unwrap();
    let numbers: Vec<u64> = said
        .split_whitespace()
        .map(|word| word.parse().unwrap())
        .collect();
    (numbers[2] + numbers[6]) * 512
}

#[test]
fn all_of_it_moves_less_than_a_gibibyte() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|ground| {
            let (at, file) = (dir(ground.join("at")), ground.join("image"));
            image(EXT4[0], 3000, &file);
            assert!(mount_image(
                EXT4[0],
                &file,
                &at,
                rustix::mount::MountFlags::empty()
            ));
            let before = device_moved(&at);
            let value = run(&mut fathom(args!["probe", &at, "all", "--json"]))
                .exits(0)
                .json();
            rustix::fs::sync();
            let moved = device_moved(&at) - before;
            assert!(moved < 1 << 30, "{moved} bytes");
            for name in [
                "timer",
                "allocation-block",
                "readahead-steady",
                "cache-capacity",
                "extents",
                "empty-call",
            ] {
                assert!(!inferred(&value, name).is_null(), "{name}: {value}");
            }
            crate::support::build::unmount_whole(&at);
        });
    }
}

#[test]
fn it_keeps_within_its_bounds() {
    let ground = tempfile::tempdir().unwrap();
    let ran = run(&mut fathom(args![
        "probe",
        ground.path(),
        "--max-bytes",
        "8M",
        "--max-seconds",
        "3s",
        "--json"
    ]));
    assert!(ran.elapsed < Duration::from_secs(20), "{ran}");
    let value = ran.json();
    let mut moved = std::collections::BTreeMap::new();
    for finding in value["result"]["experiments"].as_array().unwrap() {
        let bytes =
            finding["bytes_read"].as_u64().unwrap() + finding["bytes_written"].as_u64().unwrap();
        moved.insert(finding["experiment"].as_str().unwrap(), bytes);
    }
    assert!(moved.values().sum::<u64>() <= 8 << 20, "{moved:?}");
}
