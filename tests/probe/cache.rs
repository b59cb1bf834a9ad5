//! Tests of the capacity of the page cache, in cgroups with a limit.

use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::right::PATIENT;
use super::{finding, inferred};
use crate::support::disks::{EXT4, XFS, image, mount_image, mounted_with};
use crate::support::run::args;
use crate::support::wait::wait_until;
use crate::support::{Need, fathom, in_namespace, require, run};

/// A memory cgroup with a limit, which is removed when it is dropped.
struct Group(PathBuf);

impl Group {
    /// Creates the cgroup; `None` if the machine does not allow it.
    fn new(name: &str, limit: u64) -> Option<Group> {
        let v1 = Path::new("/sys/fs/cgroup/memory");
        let (top, file) = if v1.join("memory.limit_in_bytes").exists() {
            (v1, "memory.limit_in_bytes")
        } else {
            (Path::new("/sys/fs/cgroup"), "memory.max")
        };
        let group = Group(top.join(format!("fathom-test-{name}-{}", std::process::id())));
        fs::create_dir(&group.0).ok()?;
        fs::write(group.0.join(file), limit.to_string()).ok()?;
        Some(group)
    }

    /// The number of its processes that the OOM killer has killed.
    fn kills(&self) -> u64 {
        let said = ["memory.oom_control", "memory.events"]
            .iter()
            .find_map(|file| fs::read_to_string(self.0.join(file)).ok());
        let said = said.unwrap();
        said.lines()
            .find_map(|line| line.strip_prefix("oom_kill "))
            .unwrap()
            .parse()
            .unwrap()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let removed = || fs::remove_dir(&self.0).is_ok();
        // A process leaves its cgroup a moment after it has ended.
        if !removed() && !std::thread::panicking() {
            wait_until("a cgroup can be removed", removed);
        }
    }
}

/// Bytes read from the device of a mount point.
fn device_reads(at: &Path) -> u64 {
    let dev = rustix::fs::stat(at).unwrap().st_dev;
    let stat = format!(
        "/sys/dev/block/{}:{}/stat",
        rustix::fs::major(dev),
        rustix::fs::minor(dev)
    );
    fs::read_to_string(stat)
        .unwrap()
        .split_whitespace()
        .nth(2)
        .unwrap()
        .parse::<u64>()
        .unwrap()
        * 512
}

/// Bytes of a file that are in memory.
fn resident(file: &Path) -> u64 {
    let said = Command::new("fincore")
        .args(["--bytes", "--noheadings", "--output", "RES"])
        .arg(file)
        .output()
        .unwrap();
    String::from_utf8(said.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

fn read_whole(file: &Path) {
    let mut file = fs::File::open(file).unwrap();
    file.read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn the_capacity_is_within_5_percent_of_the_limit_and_others_keep_their_pages() {
    if !require(&[Need::Root, Need::Loop, Need::Program("fincore")]) {
        return;
    }
    in_namespace(|ground| {
        for make in [EXT4[0], XFS[0]] {
            let (at, file) = (ground.join(make.fstype), ground.join("image"));
            fs::create_dir(&at).unwrap();
            image(make, 600, &file);
            assert!(mount_image(
                make,
                &file,
                &at,
                rustix::mount::MountFlags::empty()
            ));
            let other = at.join("another's");
            fs::write(&other, vec![7; 32 << 20]).unwrap();
            rustix::fs::sync();

            // The limit also covers the program and the kernel's memory for it: 3.5 MiB with debug
            // assertions, which is more than 5 percent of 64 MiB.
            for limit in [96_u64 << 20, 256 << 20, 1 << 30] {
                // The probe runs in an existing cgroup, and in one that it creates.
                let given = Group::new(&format!("{}-{limit}", make.fstype), limit)
                    .expect("no memory cgroup");
                let mut inside = fathom(args!["probe", &at, "cache", "--json"]);
                let procs = given.0.join("cgroup.procs");
                // SAFETY: between fork and exec it writes a few bytes to a file.
                unsafe { inside.pre_exec(move || fs::write(&procs, "0")) };
                let own = fathom(args![
                    "probe",
                    &at,
                    "cache",
                    "--cache-limit",
                    limit.to_string(),
                    "--json"
                ]);
                for mut command in [inside, own] {
                    command.args(PATIENT);
                    // On a busy machine, the kernel may reclaim the pages at any time. A probe that
                    // fills all memory would evict them each time.
                    let stays = (0..20).any(|_| {
                        read_whole(&other);
                        let before = device_reads(&at);
                        let value = run(&mut command).exits(0).json();
                        let found = inferred(&value, "cache-capacity")
                            .as_f64()
                            .unwrap_or_else(|| panic!("{value}"));
                        assert!(
                            (found / limit as f64 - 1.0).abs() <= 0.05,
                            "{limit}: {}",
                            finding(&value, "cache-capacity")
                        );
                        assert!(device_reads(&at) - before < 64 << 20);
                        resident(&other) >= 24 << 20
                    });
                    assert!(stays, "another's file is evicted: {command:?}");
                }
                assert_eq!(given.kills(), 0);
            }
            crate::support::build::unmount_whole(&at);
            fs::remove_file(&file).unwrap();
        }
    });
}

#[test]
fn the_report_says_which_limit_the_cache_has() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|ground| {
            let at = ground.join("at");
            let flags = rustix::mount::MountFlags::empty();
            assert!(mounted_with(EXT4[0], 600, &at, flags));
            for full in [&["--full"][..], &[]] {
                let mut command = fathom(args!["probe", &at, "cache", "--cache-limit", "96M"]);
                let ran = run(command.args(full).args(PATIENT)).exits(0);
                let text = String::from_utf8(ran.stdout).unwrap();
                let limit = "in a cgroup limited to 96 MiB, made for this; outside, ";
                assert!(text.contains(limit), "{text}");
            }
        });
    }
}

/// A cgroup above sets the limit. Processes in a different cgroup below it, and cached files, use a
/// part of it.
#[test]
fn capacity_agrees_with_a_limit_that_other_cgroups_share() {
    if !require(&[Need::Root, Need::Loop]) {
        return;
    }
    in_namespace(|ground| {
        let at = ground.join("at");
        let flags = rustix::mount::MountFlags::empty();
        assert!(mounted_with(EXT4[0], 600, &at, flags));

        let limit = 128 << 20;
        let above = Group::new("shared", limit).expect("no memory cgroup");
        let _ = fs::write(above.0.join("cgroup.subtree_control"), "+memory");
        let [ours, others] = ["ours", "others"].map(|name| {
            let group = Group(above.0.join(name));
            fs::create_dir(&group.0).unwrap();
            group
        });
        let enter = |command: &mut Command, group: &Group| {
            let procs = group.0.join("cgroup.procs");
            // SAFETY: between fork and exec it writes a few bytes to a file.
            unsafe { command.pre_exec(move || fs::write(&procs, "0")) };
        };
        // 32 MiB of memory, a quarter of the limit.
        let mut hog = Command::new("sh");
        hog.args([
            "-c",
            "x=$(head -c 32M /dev/zero | tr '\\0' x); echo; read end",
        ]);
        enter(&mut hog, &others);
        let pipes = hog.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut hog = pipes.spawn().unwrap();
        hog.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();

        let mut probe = fathom(args!["probe", &at, "cache", "--json"]);
        enter(probe.args(PATIENT), &ours);
        let value = run(&mut probe).exits(0).json();
        let found = finding(&value, "cache-capacity");
        assert_eq!(
            (&found["truth"], &found["agrees"]),
            (&limit.into(), &true.into()),
            "{found}"
        );
        let capacity = found["inferred"].as_u64().unwrap();
        assert!(capacity < limit - (28 << 20), "{found}");
        drop(hog.stdin.take());
        hog.wait().unwrap();
        crate::support::build::unmount_whole(&at);
        drop((ours, others));
    });
}

/// The result of inference from times depends on the load. bench/probes.py measures how often it is
/// right; unit tests of the search simulate caches under load. This test checks that the finding is
/// bounded, marked, and consistent with its samples, and that some run finds a capacity.
#[test]
fn the_papers_method_is_bounded_marked_and_can_be_replayed() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|ground| {
            let (at, file, kept) = (ground.join("at"), ground.join("image"), ground.join("kept"));
            fs::create_dir(&at).unwrap();
            fs::create_dir(&kept).unwrap();
            image(EXT4[0], 600, &file);
            assert!(mount_image(
                EXT4[0],
                &file,
                &at,
                rustix::mount::MountFlags::empty()
            ));
            let arguments = args![
                "probe", &at, "cache", "--method", "paper", "--json", "--csv", &kept
            ];
            let is_found = || {
                let ran = run(fathom(arguments.clone()).args(PATIENT));
                let value = ran.json();
                let found = finding(&value, "cache-capacity");
                assert_eq!(found["by_time"], true);
                assert!(found["bytes_read"].as_u64().unwrap() <= 1 << 30);
                let Some(capacity) = found["inferred"].as_u64() else {
                    // Without a capacity, the probe warns that nothing was measured.
                    assert!(ran.exits(1).stderr.contains("nothing was measured"));
                    return false;
                };
                ran.exits(0);
                let limit = found["truth"].as_u64().unwrap();
                assert!(
                    capacity % (limit / 16) == 0 && capacity <= limit * 3 / 2,
                    "{found}"
                );
                let samples = kept.join(&super::names(&kept)[0]);
                let again = run(&mut fathom(args!["probe", "--replay", &samples, "--json"]))
                    .exits(0)
                    .json();
                assert_eq!(*inferred(&again, "cache-capacity"), capacity);
                true
            };
            assert!((0..20).any(|_| is_found()), "no run finds a capacity");
        });
    }
}
