//! Tests that block and readahead are found on every type of file system, with every readahead, in
//! random order, while a different process loads the machine.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::{finding, inferred};
use crate::support::disks::{EXT4, Make, image, mount_image, mounted_with};
use crate::support::effort::effort;
use crate::support::run::args;
use crate::support::trees::Dice;
use crate::support::{Need, fathom, in_namespace, require, run};

const fn make(name: &'static str, fstype: &'static str, mkfs: &'static str) -> Make {
    Make {
        name,
        fstype,
        mkfs,
        options: "",
    }
}

/// File systems, each with its block size and its cluster size.
const MAKES: [(Make, u64, u64); 8] = [
    (make("1K blocks", "ext4", "-b 1024"), 1024, 1024),
    (make("2K blocks", "ext4", "-b 2048"), 2048, 2048),
    (make("4K blocks", "ext4", "-b 4096"), 4096, 4096),
    (
        make("bigalloc", "ext4", "-b 4096 -O bigalloc -C 16384"),
        4096,
        16384,
    ),
    (
        make("inline_data", "ext4", "-b 4096 -O inline_data"),
        4096,
        4096,
    ),
    (make("4K blocks", "xfs", "-b size=4096"), 4096, 4096),
    (make("1K blocks", "xfs", "-b size=1024"), 1024, 1024),
    (make("default", "btrfs", ""), 4096, 4096),
];

const READAHEADS: [u64; 6] = [16, 64, 128, 512, 1024, 4096];

/// A process that loads a processor and the disk until it is dropped.
struct Load(Child);

impl Load {
    fn new(at: &Path) -> Load {
        let script =
            "while :; do dd if=/dev/zero of=load bs=64k count=64 conv=fsync 2>/dev/null; done";
        let mut shell = Command::new("sh");
        Load(
            shell
                .args(["-c", script])
                .current_dir(at)
                .stdin(Stdio::null())
                .spawn()
                .unwrap(),
        )
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sets the readahead of the file system at a path.
fn set_readahead(at: &Path, fstype: &str, kib: u64) {
    let dev = rustix::fs::stat(at).unwrap().st_dev;
    let bdi = if fstype == "btrfs" {
        let source = String::from_utf8(
            Command::new("findmnt")
                .args(["-no", "SOURCE"])
                .arg(at)
                .output()
                .unwrap()
                .stdout,
        );
        let device = source
            .unwrap()
            .trim()
            .trim_start_matches("/dev/")
            .to_owned();
        let mut all = fs::read_dir("/sys/fs/btrfs")
            .unwrap()
            .map(|entry| entry.unwrap().path());
        all.find(|uuid| uuid.join("devices").join(&device).exists())
            .unwrap()
            .join("bdi")
    } else {
        format!(
            "/sys/class/bdi/{}:{}",
            rustix::fs::major(dev),
            rustix::fs::minor(dev)
        )
        .into()
    };
    fs::write(bdi.join("read_ahead_kb"), kib.to_string()).unwrap();
}

/// More time than any machine takes.
pub(super) const PATIENT: [&str; 2] = ["--max-seconds", "10m"];

/// Probes a directory, and checks that no file is left there.
pub(super) fn probed(at: &Path, what: &[&str]) -> Value {
    let before = super::names(at);
    let arguments = args!["probe", at, "--json"]
        .into_iter()
        .chain(what.iter().chain(&PATIENT).map(Into::into));
    let value = run(&mut fathom(arguments)).exits(0).json();
    assert_eq!(super::names(at), before);
    value
}

#[test]
fn block_and_readahead_are_found_on_every_file_system() {
    if !require(&[Need::Root, Need::Loop, Need::Program("findmnt")]) {
        return;
    }
    in_namespace(|ground| {
        let rounds = effort(2, 100);
        // Each file system with each readahead, in random order.
        let mut cases: Vec<_> = (0..rounds.div_ceil(48).max(1) * 48)
            .map(|n| (MAKES[n % 8], READAHEADS[n / 8 % 6]))
            .collect();
        let mut dice = Dice::new(rounds as u64);
        (1..cases.len())
            .rev()
            .for_each(|at| cases.swap(at, dice.below(at + 1)));
        for (n, ((make, block, cluster), kib)) in cases.into_iter().take(rounds).enumerate() {
            let (at, file) = (ground.join(format!("at{n}")), ground.join("image"));
            fs::create_dir(&at).unwrap();
            image(make, 1200, &file);
            assert!(mount_image(
                make,
                &file,
                &at,
                rustix::mount::MountFlags::empty()
            ));
            set_readahead(&at, make.fstype, kib);
            let load = Load::new(ground);
            let value = probed(&at, &["block", "readahead"]);
            drop(load);
            let what = format!("{make:?}, {kib} KiB ahead");
            for (name, right) in [
                ("allocation-block", block),
                ("cluster", cluster),
                ("page-cache-granule", 4096),
                ("readahead-steady", kib << 10),
                ("readahead-trigger", kib << 10),
            ] {
                assert_eq!(
                    *inferred(&value, name),
                    json!(right),
                    "{what}: {}",
                    finding(&value, name)
                );
            }
            assert_eq!(
                finding(&value, "readahead-steady")["agrees"],
                true,
                "{what}"
            );
            // The result of inference from times depends on the load. bench/probes.py counts how
            // often it is right, and `--replay` checks it for recorded times. This test checks that
            // a wrong value is not marked as agreeing.
            for (name, right) in [
                ("allocation-block-by-time", block),
                ("page-cache-granule-by-time", 4096),
                ("readahead-steady-by-time", kib << 10),
            ] {
                let found = finding(&value, name);
                let agrees = match &found["inferred"] {
                    Value::Null => Value::Null,
                    value => (*value == json!(right)).into(),
                };
                assert_eq!(
                    (&found["by_time"], &found["truth"], &found["agrees"]),
                    (&true.into(), &right.into(), &agrees),
                    "{what}: {found}"
                );
            }
            crate::support::build::unmount_whole(&at);
            fs::remove_file(&file).unwrap();
        }
    });
}

/// If a control run without readahead gives the same result, there is no finding. A window larger
/// than the file is unknown.
#[test]
fn readahead_that_cannot_be_seen_has_no_value() {
    if !require(&[Need::Root, Need::Loop]) {
        return;
    }
    in_namespace(|ground| {
        let at = ground.join("at");
        let flags = rustix::mount::MountFlags::empty();
        assert!(mounted_with(EXT4[0], 600, &at, flags));
        for (kib, reason) in [
            (0, "no readahead"),
            (4, "no readahead"),
            (16 << 10, "did not become constant"),
        ] {
            set_readahead(&at, "ext4", kib);
            let value = probed(&at, &["timer", "readahead"]);
            for name in [
                "readahead-initial",
                "readahead-ramp",
                "readahead-steady",
                "readahead-trigger",
            ] {
                let found = finding(&value, name);
                assert_eq!(
                    (&found["inferred"], &found["agrees"]),
                    (&Value::Null, &Value::Null)
                );
                let method = found["method"].as_str().unwrap();
                assert!(method.contains(reason), "{kib} KiB: {found}");
            }
            let by_time = finding(&value, "readahead-steady-by-time");
            assert_eq!(by_time["inferred"], Value::Null, "{kib} KiB: {by_time}");
        }
        set_readahead(&at, "ext4", 0);
        let table = run(fathom(args!["probe", &at, "readahead"]).args(PATIENT)).exits(0);
        let table = table.lines().join("\n");
        assert!(
            table.contains("none") && !table.contains("unknown"),
            "{table}"
        );
        crate::support::build::unmount_whole(&at);
    });
}
