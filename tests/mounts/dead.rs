//! Tests that nothing waits for what rests on a dead server: overlays with a layer there, file
//! systems on an image file there, and directories there.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::{MountFlags, mount};
use rustix::process::{Pid, Signal, kill_process};

use super::stuck::left;
use crate::support::build::{dir, file};
use crate::support::disks::{EXT4, image, mount_image};
use crate::support::fuse::{Manner::Silent, serve};
use crate::support::reference::table;
use crate::support::run::{Running, args, mount_at, start};
use crate::support::wait::wait_until;
use crate::support::{Need, fathom, in_namespace, require, run};

const NEEDS: [Need; 4] = [Need::Root, Need::Fuse, Need::Loop, Need::Program("bindfs")];

/// Starts a FUSE server that shows a directory of the same disk, and can be stopped.
fn serve_copy(base: &Path, from: &Path, at: &Path) -> Running {
    dir(at);
    let server = start(Command::new("bindfs").arg("-f").arg(from).arg(at));
    wait_until("bindfs has mounted", || {
        table(base).iter().any(|mount| mount.target == at)
    });
    server
}

fn stop(server: &Running) {
    let process = Pid::from_raw(server.id().cast_signed()).unwrap();
    kill_process(process, Signal::STOP).unwrap();
}

/// Mounts an overlay and an ext4 file system in `tree`, whose files are on a server. The server
/// itself is not in `tree`.
fn on_server(base: &Path, tree: &Path) -> (Running, [PathBuf; 2]) {
    let (served, at) = (dir(base.join("served")), base.join("server"));
    dir(served.join("lower/sub"));
    image(EXT4[0], 16, &served.join("disk.image"));
    let server = serve_copy(base, &served, &at);
    let (disk, merged) = (dir(tree.join("disk")), dir(tree.join("merged")));
    let flags = MountFlags::RDONLY | MountFlags::NOATIME;
    assert!(mount_image(EXT4[0], &at.join("disk.image"), &disk, flags));
    let layers = format!(
        "lowerdir={}:{}",
        at.join("lower").display(),
        dir(base.join("other")).display()
    );
    let layers = std::ffi::CString::new(layers).unwrap();
    mount("an overlay", &merged, "overlay", flags, layers.as_c_str()).unwrap();
    for at in [&disk, &merged] {
        assert!(fs::read_dir(at).unwrap().next().is_some());
    }
    (server, [disk, merged])
}

#[test]
fn what_rests_on_a_dead_server_is_skipped() {
    if require(&NEEDS) {
        in_namespace(|base| {
            let tree = dir(base.join("tree"));
            file(tree.join("plain"), 1);
            let (server, mounts) = on_server(base, &tree);
            let check = || args!["mounts", &tree, "--check", "--deadline", "300ms", "--json"];
            let value = run(&mut fathom(check())).exits(0).json();
            for at in &mounts {
                assert_eq!(mount_at(&value, at)["verdict"], "ok");
            }
            stop(&server);
            let ran = run(&mut fathom(check())).exits(1);
            for at in &mounts {
                assert_eq!(mount_at(&ran.json(), at)["verdict"], "hung", "{ran}");
            }
            let ran = run(&mut fathom(args!["walk", &tree, "--deadline", "300ms"])).exits(1);
            assert_eq!(ran.stderr.matches("does not answer").count(), 2, "{ran}");
            run(&mut fathom(args!["space", &tree, "--deadline", "300ms"])).exits(0);
            let walked = args!["walk", &mounts[0], "--deadline", "300ms"];
            let ran = run(&mut fathom(walked)).exits(2);
            assert!(ran.stderr.contains("does not answer"), "{ran}");
            let searched = args!["mounts", &tree, "--by", "search"];
            run(&mut fathom(searched)).exits(1);
            drop(server);
        });
    }
}

#[test]
fn later_runs_on_a_dead_directory_leave_no_further_process() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|base| {
            let silent = base.join("silent");
            let link = base.join("link");
            std::os::unix::fs::symlink(&silent, &link).unwrap();
            let server = serve(Silent, &silent);
            let commands: [Vec<OsString>; 5] = [
                args!["walk", &silent, "--deadline", "200ms"].into(),
                args!["walk", &link, "--deadline", "200ms"].into(),
                args!["space", &silent, "--deadline", "200ms"].into(),
                args!["mounts", "--assert", &silent].into(),
                args!["mounts", "--assert", silent.join("x")].into(),
            ];
            let mut waiting = Vec::new();
            for words in commands {
                let ran = run(&mut fathom(words.clone()));
                assert_ne!(ran.code(), 0, "{ran}");
                let mut all = left(&silent);
                all.extend(left(&link));
                all.extend(left(&silent.join("x")));
                if waiting.is_empty() {
                    assert_eq!(all.len(), 1, "{ran}");
                    waiting.clone_from(&all);
                }
                assert_eq!(all, waiting, "{words:?}");
            }
            drop(server);
        });
    }
}

#[test]
fn a_survey_does_not_wait_for_a_dead_home() {
    if require(&NEEDS) {
        in_namespace(|base| {
            let tree = dir(base.join("tree"));
            file(tree.join("plain"), 1);
            let (served, home) = (dir(base.join("served")), base.join("home"));
            let server = serve_copy(base, &served, &home);
            stop(&server);
            let mut survey = fathom(args!["survey", &tree, "--limit", "2s"]);
            let ran = run(survey.env("HOME", &home).current_dir(base)).exits(1);
            let told = "the home directory does not answer";
            assert!(String::from_utf8_lossy(&ran.stdout).contains(told), "{ran}");
            drop(server);
        });
    }
}
