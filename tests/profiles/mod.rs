//! Every command on older kernels and in sandboxes, without booting them: system calls that are
//! missing there fail ([`crate::support::profile`]). The results must equal those without the profile, or
//! the command must say what is unavailable.
//!
//! `make test` runs some of the profiles, `tools/test-all profiles` all of them.

mod archives;
mod helper;
mod measures;
mod meters;
mod mounts;
mod walks;

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::{MountFlags, mount};

use crate::support::build::{dir, tmpfs};
use crate::support::disks::{BTRFS, EXT4, XFS, mounted, overlay};
use crate::support::effort::effort;
use crate::support::profile::{Profile, has_landlock};
use crate::support::run;
use crate::support::run::Ran;
use crate::support::trees::grow;

/// Profiles of kernels and sandboxes, oldest kernel first. An older kernel lacks all calls that a
/// newer one lacks, so the oldest finds most faults.
fn filters() -> Vec<Profile> {
    let mut all = Profile::kernels();
    all.truncate(effort(1, all.len()));
    let docker = Profile::docker();
    let few = effort(1, docker.len());
    all.extend(docker.into_iter().take(few));
    all.push(Profile::gvisor());
    all
}

/// Those of [`filters`], and profiles in which a part of the file system is missing or must not be
/// used: commands read `tree` and write only into `out`, a mount point.
fn places(tree: &Path, out: &Path) -> Vec<Profile> {
    let mut all = filters();
    all.extend([
        Profile::without("/proc"),
        Profile::without("/sys"),
        Profile::read_only(out),
    ]);
    if has_landlock() {
        all.push(Profile::landlock(tree, out));
    }
    all
}

/// Runs a command without a profile and with each, and compares the results. With the profiles that
/// `unlike` names, the command must fail instead: exit with a status other than 0 and this text on
/// stderr.
fn compare<T: Debug + PartialEq>(
    places: &[Profile],
    what: &str,
    unlike: &[(&str, &str)],
    command: impl Fn() -> Command,
    outcome: impl Fn(&Ran, &Profile) -> T,
) {
    let usual = run(&mut command());
    for place in places {
        let mut restricted = command();
        place.apply(&mut restricted);
        let ran = run(&mut restricted);
        let within = format!("{what}, {}", place.name);
        assert!(!ran.stderr.contains("stopped answering"), "{within}: {ran}");
        match unlike.iter().find(|(name, _)| *name == place.name) {
            Some((_, says)) => assert!(
                ran.code() != 0 && ran.stderr.contains(says),
                "{within} does not say '{says}': {ran}"
            ),
            None => assert_eq!(
                outcome(&ran, place),
                outcome(&usual, place),
                "{within}: {ran}\nwithout it: {usual}"
            ),
        }
    }
}

/// Mounts a tmpfs with noatime, so that reading changes nothing.
fn tmpfs_noatime(at: &Path) -> PathBuf {
    let (flags, options) = (MountFlags::NOATIME, c"mode=755");
    mount("tmpfs", dir(at), "tmpfs", flags, options).unwrap();
    at.to_owned()
}

/// Mounts one file system of each type below `base`, with a tree in each. Returns types and paths.
fn file_systems(base: &Path, entries: usize) -> Vec<(&'static str, PathBuf)> {
    let mut all = Vec::new();
    for make in [EXT4[0], XFS[0], BTRFS[0]] {
        let at = base.join("disks").join(make.fstype);
        assert!(mounted(make, &at));
        all.push((make.fstype, at));
    }
    all.push(("tmpfs", tmpfs_noatime(&base.join("disks/tmpfs"))));
    let layers = tmpfs(base.join("layers"));
    all.push((
        "overlay",
        overlay(&layers, &dir(base.join("disks/overlay"))),
    ));
    for (n, (_, at)) in all.iter().enumerate() {
        grow(at, n as u64, entries);
    }
    all
}
