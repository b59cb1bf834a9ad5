//! The fixtures on which the commands in the pages run, each in its own mount namespace, and how they
//! are run.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::{MountFlags, mount};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::blocks::{Block, Mark, all, top};
use super::shape::difference;
use crate::support::build::{bind, dir, file, unmount};
use crate::support::disks::{BTRFS, EXT4, Make, image, mount_image, subvolume};
use crate::support::fuse::Manner::{Hung, Stale};
use crate::support::fuse::{Server, serve_as};
use crate::support::terminal::{at_terminal, into_pipe};
use crate::support::{Need, in_namespace, require};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fixture {
    /// /srv with mounts in it, two of which do not answer, and files beneath a mount.
    Srv,
    /// The same, with mounts over mounts, a mount on a file, and a btrfs with subvolumes.
    Mounts,
    /// /srv on ext4 with forty thousand files, and a small tmpfs in it.
    Tree,
    /// The top of this repository.
    Repository,
}

impl Fixture {
    pub(crate) fn parse(name: &str) -> Option<Fixture> {
        match name {
            "srv" => Some(Fixture::Srv),
            "mounts" => Some(Fixture::Mounts),
            "tree" => Some(Fixture::Tree),
            "repository" => Some(Fixture::Repository),
            _ => None,
        }
    }

    fn needs(self) -> &'static [Need] {
        match self {
            Fixture::Srv | Fixture::Mounts => &[
                Need::Root,
                Need::Loop,
                Need::Fuse,
                Need::Program("mkfs.btrfs"),
                Need::Program("jq"),
            ],
            Fixture::Tree => &[
                Need::Root,
                Need::Loop,
                Need::Program("mkfs.ext4"),
                Need::Program("jq"),
            ],
            Fixture::Repository => &[],
        }
    }
}

/// Runs every block on this fixture, in the order of the pages, and compares its output with the
/// page.
pub(crate) fn check_examples(fixture: Fixture) {
    let blocks = all().into_iter().filter_map(|block| match &block.mark {
        Mark::Run {
            fixture: name,
            piped,
        } if Fixture::parse(name) == Some(fixture) => Some((*piped, block)),
        _ => None,
    });
    let blocks: Vec<(bool, Block)> = blocks.collect();
    assert!(!blocks.is_empty(), "no page shows anything on {fixture:?}");
    if !require(fixture.needs()) {
        return;
    }
    assert!(
        Path::new("/srv").is_dir(),
        "the examples are about /srv, a directory that is everywhere, and not here"
    );
    let wrong = match fixture {
        Fixture::Repository => differing(&blocks, |_| top().to_owned()),
        _ => in_namespace(|at| {
            let servers = match fixture {
                Fixture::Tree => tree(at),
                _ => srv(at, fixture == Fixture::Mounts),
            };
            let wrong = differing(&blocks, |block| home(at, block));
            drop(servers);
            unmount("/srv");
            wrong
        }),
    };
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// The directory in which the blocks of a page run, one after the other.
fn home(at: &Path, block: &Block) -> PathBuf {
    dir(at.join(block.page.file_stem().unwrap()))
}

fn differing(blocks: &[(bool, Block)], home: impl Fn(&Block) -> PathBuf) -> Vec<String> {
    let differs = |(piped, block): &(bool, Block)| {
        let printed = printed(&block.script(), &home(block), *piped);
        if other_build().is_some() {
            eprintln!("{}:\n$ {}\n{printed}", block.place(), block.script());
        }
        let why = difference(&block.shown(), &printed)?;
        Some(format!(
            "{}: {why}\nprinted is:\n$ {}\n{printed}",
            block.place(),
            block.script()
        ))
    };
    blocks.iter().filter_map(differs).collect()
}

/// The directory of a different build (such as a release build) that provides the figures of the
/// pages: its output is printed in addition.
fn other_build() -> Option<PathBuf> {
    std::env::var_os("FATHOM_EXAMPLES_OF").map(PathBuf::from)
}

/// The output of a script, standard output and standard error together: on a terminal of 80
/// columns, or into a pipe.
fn printed(script: &str, home: &Path, piped: bool) -> String {
    let tested = || {
        Path::new(env!("CARGO_BIN_EXE_fathom"))
            .parent()
            .unwrap()
            .to_owned()
    };
    let programs = other_build().unwrap_or_else(tested);
    let path = std::env::var("PATH").unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(home);
    command.env(
        "PATH",
        format!("{}:{path}:/usr/sbin:/sbin", programs.display()),
    );
    // Colors are not compared.
    command.envs([("LC_ALL", "C.UTF-8"), ("NO_COLOR", "1")]);
    on_one_processor(&mut command);
    if piped {
        into_pipe(&mut command).0
    } else {
        at_terminal(&mut command, 80).0
    }
}

/// Restricts the command to one processor: the plan depends on the number of processors.
fn on_one_processor(command: &mut Command) {
    let allowed = sched_getaffinity(None).unwrap();
    let first = (0..CpuSet::MAX_CPU).find(|at| allowed.is_set(*at)).unwrap();
    let mut one = CpuSet::new();
    one.set(first);
    // SAFETY: between fork and exec it makes one system call, and allocates nothing.
    unsafe { command.pre_exec(move || Ok(sched_setaffinity(None, &one)?)) };
}

/// The fixture of README.md, or with `more` that of docs/mounts.md.
fn srv(at: &Path, more: bool) -> Vec<Server> {
    let srv = Path::new("/srv");
    disk(EXT4[0], at, srv);
    for (name, size) in [
        ("backup/dump.tar", 20 << 20),
        ("backup/dump.map", 10 << 20),
        ("site/index.html", 1000),
    ] {
        file(srv.join(name), size);
    }
    disk(BTRFS[0], at, &dir(srv.join("home")));
    tmpfs("scratch", &srv.join("backup"));
    bind(srv.join("site"), srv.join("www"));
    if more {
        let ada = subvolume(&srv.join("home/ada"), None);
        subvolume(&srv.join("home/ada-monday"), Some(&ada));
        tmpfs("db1", &srv.join("db"));
        tmpfs("log", &srv.join("db/log"));
        tmpfs("db2", &srv.join("db"));
        bind(
            file(srv.join("site/hosts"), 20),
            file(srv.join("jail/etc/hosts"), 0),
        );
    }
    vec![
        serve_as(Stale, &srv.join("media"), "nas1:/media", "fuse.sshfs"),
        serve_as(Hung, &srv.join("people"), "nas2:/people", "fuse.sshfs"),
    ]
}

/// The fixture for walks and dumps.
fn tree(at: &Path) -> Vec<Server> {
    let srv = Path::new("/srv");
    // The block size of a large disk, and the number of inodes of a small one.
    disk(
        Make {
            mkfs: "-b 4096 -N 65536",
            ..EXT4[0]
        },
        at,
        srv,
    );
    for user in ["ada", "bob", "cay", "dan"] {
        for month in 0..10 {
            let here = dir(srv.join(format!("mail/{user}/{month:02}")));
            (0..1000).for_each(|n| fs::write(here.join(format!("{n:04}")), b"").unwrap());
        }
    }
    for (name, size) in [
        ("www/index.html", 1000),
        ("www/logo.png", 200_000),
        ("db/data", 30 << 20),
        ("db/log", 3 << 20),
    ] {
        file(srv.join(name), size);
    }
    std::os::unix::fs::symlink("index.html", srv.join("www/start.html")).unwrap();
    tmpfs("scratch", &srv.join("scratch"));
    file(srv.join("scratch/x"), 3_000_000);
    fs::hard_link(srv.join("scratch/x"), srv.join("scratch/y")).unwrap();
    // Write everything to disk, so that an engine that reads the device need not wait for that.
    rustix::fs::sync();
    Vec::new()
}

fn disk(make: Make, beside: &Path, at: &Path) {
    let file = beside.join(format!("{}.image", make.fstype));
    image(make, 600, &file);
    assert!(mount_image(make, &file, at, MountFlags::empty()));
}

fn tmpfs(source: &str, at: &Path) {
    mount(source, dir(at), "tmpfs", MountFlags::empty(), None).unwrap();
}
