//! Tests of `--format fstab`: mount -a creates the same mounts from its lines.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, mount_move,
    mount_remount, unmount,
};

use crate::support::build::{bind, dir, file, name, odd_names, tmpfs};
use crate::support::disks::{EXT4, Loop, attach, image};
use crate::support::effort::effort;
use crate::support::reference::{Mount, table};
use crate::support::run::args;
use crate::support::trees::Dice;
use crate::support::{Need, fathom, in_namespace, require, run};

/// File systems on loop devices, with directories and files.
fn devices(base: &Path, count: usize) -> Vec<Loop> {
    (0..count)
        .map(|n| {
            let (from, to) = (base.join(format!("disk{n}")), dir(base.join("filling")));
            image(EXT4[0], 16, &from);
            let device = attach(&from);
            in_namespace(|_| {
                mount(&device.0, &to, "ext4", MountFlags::empty(), None).unwrap();
                file(to.join("one/two/file"), 1);
                file(to.join("a b\n#/file\\"), 1);
            });
            device
        })
        .collect()
}

/// The directories at or below `top`, or the files, across mounts.
fn places(top: &Path, directories: bool) -> Vec<PathBuf> {
    let mut found = vec![top.to_owned()];
    let mut at = 0;
    while at < found.len() && found.len() < 300 {
        let is_dir = fs::symlink_metadata(&found[at]).is_ok_and(|seen| seen.is_dir());
        if is_dir && let Ok(entries) = fs::read_dir(&found[at]) {
            let mut entries: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
            entries.sort();
            found.extend(entries);
        }
        at += 1;
    }
    found.retain(|path| fs::symlink_metadata(path).unwrap().is_dir() == directories);
    found
}

/// Creates random mounts below `top`. Mounts that the kernel refuses are omitted.
fn build(top: &Path, devices: &[Loop], dice: &mut Dice) {
    let mut names = odd_names();
    names.retain(|name| name.len() < 40);
    for _ in 0..6 + dice.below(14) {
        let directories = places(top, true);
        let mut at = dice.pick(&directories).clone();
        if dice.one_in(2) && at.as_os_str().len() < 2000 {
            let odd: &Vec<u8> = dice.pick(&names);
            at.push(name(odd));
            let _ = fs::create_dir(&at);
        }
        let mounts = table(top);
        let some_mount = |dice: &mut Dice| match mounts.is_empty() {
            true => top.to_owned(),
            false => dice.pick(&mounts).target.clone(),
        };
        let _ = match dice.below(9) {
            0 | 1 => mount("some tmpfs", &at, "tmpfs", MountFlags::NOSUID, c"size=1m"),
            2 | 3 => {
                let device = &dice.pick(devices).0;
                mount(device, &at, "ext4", MountFlags::empty(), None)
            }
            4 => mount_bind(dice.pick(&directories), &at),
            5 => {
                let bound = mount_bind(dice.pick(&directories), &at);
                let flags = [MountFlags::RDONLY, MountFlags::NOEXEC, MountFlags::empty()];
                bound.and_then(|()| mount_remount(&at, MountFlags::BIND | *dice.pick(&flags), c""))
            }
            6 => match &places(top, false)[..] {
                [] => Ok(()),
                files => mount_bind(dice.pick(files), dice.pick(files)),
            },
            7 => mount_move(some_mount(dice), &at),
            _ => unmount(some_mount(dice), UnmountFlags::DETACH),
        };
    }
    if dice.one_in(3)
        && let [first, ..] = &table(top)[..]
    {
        let _ = mount_remount(&first.target, MountFlags::BIND | MountFlags::RDONLY, c"");
    }
}

/// The facts that are compared: mount point, type, source, device, root and read-only flag. A tmpfs
/// other than that of the test is new each time, so its device is not compared.
type Facts = (PathBuf, String, Vec<u8>, String, Vec<u8>, bool);

fn facts(mount: &Mount, ground: &str) -> Facts {
    let is_new = mount.fstype == "tmpfs" && mount.dev != ground;
    (
        mount.target.clone(),
        mount.fstype.clone(),
        mount.source.clone(),
        if is_new {
            "new".to_owned()
        } else {
            mount.dev.clone()
        },
        mount.fsroot.clone(),
        mount.options.iter().any(|option| option == "ro"),
    )
}

fn counted(mounts: &[Mount], ground: &str) -> BTreeMap<Facts, i32> {
    let mut all = BTreeMap::new();
    for mount in mounts {
        *all.entry(facts(mount, ground)).or_default() += 1;
    }
    all
}

/// Whether a comment in the lines says why a mount point is skipped.
fn is_skipped(lines: &[u8], target: &Path) -> bool {
    let target = target.as_os_str().as_bytes();
    let escaped = target.iter().flat_map(|&byte| match byte {
        b' ' | b'\t' | b'\n' | b'\r' | b'\\' | b'#' => format!("\\{byte:03o}").into_bytes(),
        byte => vec![byte],
    });
    let comment = [b"# ", &escaped.collect::<Vec<u8>>()[..], b" is skipped: "].concat();
    lines
        .split(|&b| b == b'\n')
        .any(|line| line.starts_with(&comment))
}

/// Builds mounts below `top` in one namespace, and lets mount -a recreate them from the printed
/// fstab in a second one.
fn round_trip(base: &Path, top: &Path, build: impl FnOnce() + Send) -> (Vec<u8>, Vec<Mount>) {
    let ground = table(base)
        .into_iter()
        .find(|m| m.target == base)
        .unwrap()
        .dev;
    let (lines, before) = in_namespace(|_| {
        build();
        let ran = run(&mut fathom(args!["mounts", top, "--format", "fstab"])).exits(0);
        (ran.stdout, table(top))
    });
    let shown = String::from_utf8_lossy(&lines).into_owned();
    let after = in_namespace(|_| {
        let tab = base.join("tab");
        fs::write(&tab, &lines).unwrap();
        let ran = Command::new("mount")
            .args(["-a", "-T"])
            .arg(&tab)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(ran.status.success(), "{said}\n{shown}");
        table(top)
    });
    let (made, given) = (counted(&after, &ground), counted(&before, &ground));
    for (facts, count) in &made {
        assert!(
            given.get(facts) >= Some(count),
            "too many: {facts:?}\n{shown}\n{before:#?}"
        );
    }
    for (facts, count) in &given {
        assert!(
            made.get(facts) >= Some(count) || is_skipped(&lines, &facts.0),
            "missing: {facts:?}\n{shown}\n{before:#?}"
        );
    }
    // Each visible mount with a line is visible again.
    let visible = |all: &[Mount]| -> Vec<Facts> {
        let visible = all.iter().filter(|mount| !mount.hidden);
        visible.map(|mount| facts(mount, &ground)).collect()
    };
    let again = visible(&after);
    for facts in visible(&before) {
        assert!(
            again.contains(&facts) || is_skipped(&lines, &facts.0),
            "covered: {facts:?}\n{shown}\n{before:#?}"
        );
    }
    (lines, after)
}

#[test]
fn mount_a_makes_random_mounts_again() {
    if require(&[Need::Root, Need::Loop, Need::Program("mount")]) {
        in_namespace(|base| {
            let devices = devices(base, 3);
            let (mut lines, mut comments) = (0, 0);
            for round in 0..effort(8, 100) {
                let top = dir(base.join(format!("tree{round}")));
                dir(top.join("x/y"));
                file(top.join("x/file"), 1);
                let mut dice = Dice::new(round as u64);
                let (written, _) = round_trip(base, &top, || build(&top, &devices, &mut dice));
                for line in written
                    .split(|&b| b == b'\n')
                    .filter(|line| !line.is_empty())
                {
                    *if line.starts_with(b"#") {
                        &mut comments
                    } else {
                        &mut lines
                    } += 1;
                }
            }
            // Most mounts have a line, so the test is meaningful.
            assert!(lines > comments, "{lines} lines and {comments} comments");
        });
    }
}

#[test]
fn part_of_a_device_is_never_written_as_the_whole() {
    if require(&[Need::Root, Need::Loop, Need::Program("mount")]) {
        in_namespace(|base| {
            let devices = devices(base, 1);
            let top = dir(base.join("tree"));
            let (whole, part) = (dir(top.join("whole")), dir(top.join("part")));
            let mount_whole =
                || mount(&devices[0].0, &whole, "ext4", MountFlags::empty(), None).unwrap();

            let (lines, after) = round_trip(base, &top, || {
                mount_whole();
                bind(whole.join("one"), &part);
                unmount(&whole, UnmountFlags::DETACH).unwrap();
            });
            assert!(after.is_empty(), "{after:?}");
            assert!(is_skipped(&lines, &part));

            // A later mount covers the original, or a directory above it.
            for over in [&whole, &top] {
                let (lines, after) = round_trip(base, &top, || {
                    mount_whole();
                    bind(whole.join("one"), &part);
                    mount_change(&whole, MountPropagationFlags::PRIVATE).unwrap();
                    tmpfs(over);
                });
                assert_eq!(after.len(), 3, "{}", String::from_utf8_lossy(&lines));
            }
        });
    }
}
