//! Tests of failures: no space, no permission, a deleted directory, signals, servers that do not
//! answer. No temporary file is left, and a warning names the reason.

use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::right::PATIENT;
use super::{finding, inferred, names};
use crate::support::build::{self, dir, tmpfs};
use crate::support::disks::{BTRFS, EXT4, Make, image, mount_image, mounted};
use crate::support::fuse::{Manner, serve};
use crate::support::restrict::{fathom_as_nobody, in_chroot, populate_chroot};
use crate::support::run::args;
use crate::support::tool::tool;
use crate::support::wait::{is_asleep, wait_until};
use crate::support::{Need, fathom, in_namespace, require, run};

#[test]
fn a_full_or_tiny_disk_warns_of_enospc() {
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
fn a_used_up_quota_warns_of_edquot() {
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
fn a_directory_without_permission_warns_of_eacces() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let at = dir(ground.join("at"));
            // Several experiments that fail for one reason give one warning, with one errno and one
            // hint.
            let mut command =
                fathom_as_nobody(ground, args!["probe", &at, "block", "readahead", "extent"]);
            let ran = run(&mut command).exits(1);
            let errno = "Permission denied (os error 13)";
            assert_eq!(ran.stderr.matches("fathom: ").count(), 1, "{ran}");
            assert_eq!(ran.stderr.matches(errno).count(), 1, "{ran}");
            assert!(
                ran.stderr.contains("block, readahead, extent: cannot "),
                "{ran}"
            );
            let hint = "hint: give a directory that you can enter and write to\n";
            assert!(ran.stderr.ends_with(hint), "{ran}");
            let mut command = fathom_as_nobody(ground, args!["probe", &at, "block", "--json"]);
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
            let mut command = fathom_as_nobody(
                ground,
                args!["probe", &dir(ground.join("at/closed")), "block"],
            );
            run(&mut command);
        });
    }
}

#[test]
fn a_deleted_directory_is_named_as_such() {
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
            assert!(ran.stderr.contains("No such file or directory"), "{ran}");
            ran.json();
        });
    }
}

/// Waits until the processes of a killed probe have released the locks on their temporary files. They
/// end a moment later than the probe, and until then the next run rightly leaves their files alone.
fn wait_for_release(at: &Path) {
    let is_held = |name: &String| {
        use rustix::fs::{FlockOperation, flock};
        let file = fs::File::open(at.join(name));
        file.is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_err())
    };
    wait_until("the temporary files are not locked", || {
        !names(at).iter().any(is_held)
    });
}

/// Starts a probe, sends it a signal as soon as `is_due`, which gets its process id, and waits
/// until the signal has ended the probe. A probe that ends before the signal is started again.
fn stop(at: &Path, experiment: &str, signal: Signal, is_due: impl Fn(u32) -> bool) {
    let mut command = fathom(args!["probe", at, experiment]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let is_stopped = || {
        let mut child = command.spawn().unwrap();
        let mut has_ended = false;
        wait_until("a probe can be stopped", || {
            has_ended = child.try_wait().unwrap().is_some();
            has_ended || is_due(child.id())
        });
        if !has_ended {
            kill_process(Pid::from_child(&child), signal).unwrap();
        }
        child.wait().unwrap().signal() == Some(signal.as_raw())
    };
    let hit = std::iter::repeat_with(is_stopped).take(100).any(|hit| hit);
    assert!(hit, "{experiment} was never stopped by {signal:?}");
}

/// Whether a process has a file in `at` open, with or without a name.
fn is_file_open(at: &Path) -> bool {
    let start = format!("{}/", at.display());
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let open = processes.filter_map(|process| fs::read_dir(process.path().join("fd")).ok());
    let files = open.flatten().flatten().map(|fd| fs::read_link(fd.path()));
    files.flatten().any(|file| {
        file.as_os_str()
            .as_encoded_bytes()
            .starts_with(start.as_bytes())
    })
}

/// Whether processes other than `first` have this argument, and all of them sleep.
fn others_sleep(first: u32, argument: &Path) -> bool {
    let argument = argument.as_os_str().as_encoded_bytes();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let numbers = processes.filter_map(|process| process.file_name().to_str()?.parse().ok());
    let mut others = numbers.filter(|process: &u32| {
        let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        *process != first && line.split(|byte| *byte == 0).any(|one| one == argument)
    });
    others.next().is_some_and(is_asleep) && others.all(is_asleep)
}

#[test]
fn signals_leave_no_temporary_files() {
    if require(&[Need::Root, Need::Fuse, Need::Program("bindfs")]) {
        in_namespace(|ground| {
            // FUSE does not support files without a name, so a killed run leaves some.
            let (from, at) = (tmpfs(ground.join("from")), dir(ground.join("at")));
            tool(Command::new("bindfs").arg(&from).arg(&at));
            let plain = tmpfs(ground.join("plain"));
            let experiments = ["block", "readahead", "extent", "gates", "cache"];
            // A tmpfs has no page cache to fill.
            for (place, experiments) in [(&plain, &experiments[..4]), (&at, &experiments)] {
                for experiment in experiments {
                    let stop = |signal| stop(place, experiment, signal, |_| is_file_open(place));
                    for signal in [Signal::INT, Signal::TERM] {
                        stop(signal);
                        assert!(names(place).is_empty(), "{experiment}: {:?}", names(place));
                    }
                    // A killed run on FUSE leaves its file, unless it was about to remove it.
                    let is_left = std::iter::repeat_with(|| {
                        stop(Signal::KILL);
                        wait_for_release(place);
                        place == &plain || !names(place).is_empty()
                    });
                    assert!(is_left.take(100).any(|left| left), "{experiment}");
                }
                // The next run removes the files of a killed one. Leftover cgroups are removed by
                // the next run that creates one.
                run(fathom(args!["probe", place, "timer", "cache"]).args(PATIENT)).exits(0);
                assert!(names(place).is_empty(), "{:?}", names(place));
            }
            crate::support::build::unmount(&at);
        });
    }
}

#[test]
fn hung_file_system_is_abandoned_at_the_deadline() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|ground| {
            for (manner, step) in [
                (Manner::Silent, "open it"),
                (Manner::Syncs(0), "sync a file in it"),
            ] {
                let at = dir(ground.join("at"));
                let server = serve(manner, &at);
                let ran = run(&mut fathom(args!["probe", &at, "--max-seconds", "1s"])).refused();
                assert!(ran.stderr.contains(step), "{ran}");
                drop(server);
                crate::support::build::unmount(&at);
            }
        });
    }
}

#[test]
fn file_system_that_hangs_later_is_abandoned_at_the_deadline() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|ground| {
            let at = dir(ground.join("at"));
            // The server answers one fsync(2): that of the check whether it answers at all.
            let server = serve(Manner::Syncs(1), &at);
            let ran = run(&mut fathom(args![
                "probe",
                &at,
                "timer",
                "block",
                "gates",
                "--max-seconds",
                "10s",
                "--json"
            ]));
            let value = ran.json();
            let warnings = value["warnings"].as_array().unwrap();
            assert!(
                warnings
                    .iter()
                    .any(|w| w["message"].as_str().unwrap().contains("during 'block: ")),
                "{ran}"
            );
            // Earlier findings are in the result; the others have a reason.
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
fn a_signal_ends_a_probe_whose_file_system_does_not_answer() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|ground| {
            let at = dir(ground.join("at"));
            let server = serve(Manner::Silent, &at);
            stop(&at, "block", Signal::INT, |first| others_sleep(first, &at));
            drop(server);
            crate::support::build::unmount(&at);
        });
    }
}

/// Directories that allow few or no experiments.
#[test]
fn unsuitable_directories_give_warnings_or_errors_and_no_hang() {
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
            run(&mut fathom(args!["probe", none])).refused();
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
            // Other programs change these directories, too, so count only names of fathom.
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
fn a_disk_with_64_kib_free_has_its_block_found() {
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
fn without_proc_files_have_names_and_are_removed() {
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
fn locked_temporary_files_of_another_run_stay() {
    let ground = tempfile::tempdir().unwrap();
    let held = ground.path().join(".fathom-probe-1-1");
    let file = fs::File::create(&held).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let left = ground.path().join(".fathom-probe-1-2");
    fs::create_dir(&left).unwrap();
    fs::write(left.join("0-1"), "").unwrap();
    // A directory with a temporary name, and a file that no experiment creates.
    let other = ground.path().join(".fathom-probe-1-3");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("shadow"), "").unwrap();
    run(&mut fathom(args!["probe", ground.path(), "timer"])).exits(0);
    let mut left = names(ground.path());
    left.sort();
    assert_eq!(left, [".fathom-probe-1-1", ".fathom-probe-1-3"]);
    assert_eq!(names(&other), ["shadow"]);
}

/// Bytes that were read from and written to the device of a mount point.
fn device_io_bytes(at: &Path) -> u64 {
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
fn all_experiments_read_and_write_less_than_a_gibibyte() {
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
            let before = device_io_bytes(&at);
            let value = run(fathom(args!["probe", &at, "all", "--json"]).args(PATIENT))
                .exits(0)
                .json();
            rustix::fs::sync();
            let bytes = device_io_bytes(&at) - before;
            assert!(bytes < 1 << 30, "{bytes} bytes");
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
fn max_bytes_and_max_seconds_bound_all_experiments() {
    let ground = tempfile::tempdir().unwrap();
    let ran = run(&mut fathom(args![
        "probe",
        ground.path(),
        "--max-bytes",
        "8M",
        "--json"
    ]));
    let value = ran.json();
    let mut moved = std::collections::BTreeMap::new();
    for finding in value["result"]["experiments"].as_array().unwrap() {
        let bytes =
            finding["bytes_read"].as_u64().unwrap() + finding["bytes_written"].as_u64().unwrap();
        moved.insert(finding["experiment"].as_str().unwrap(), bytes);
    }
    let sum = moved.values().sum::<u64>();
    assert!((1..=8 << 20).contains(&sum), "{moved:?}");

    // Measuring the clocks alone takes longer than a millisecond: no time is left for other
    // experiments.
    let arguments = ["probe".as_ref(), ground.path().as_os_str()];
    let limits = ["all", "--max-seconds", "1ms", "--json"];
    let ran = run(fathom(arguments).args(limits)).exits(1);
    let value = ran.json();
    for name in ["allocation-block", "readahead-steady", "extents", "gates"] {
        let method = finding(&value, name)["method"].as_str().unwrap();
        assert!(method.contains("--max-seconds"), "{name}: {ran}");
    }
}
