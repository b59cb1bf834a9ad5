//! Tests that problems of file systems are listed first: full, failing, hung, hidden.

use std::fs;
use std::path::Path;

use rustix::mount::MountFlags;

use super::survey;
use crate::support::build::{bind, bush, dir, tmpfs};
use crate::support::disks::{EXT4, image, mount_image};
use crate::support::fuse::{Manner::Hung, serve};
use crate::support::run::{args, mount_at};
use crate::support::{Need, fathom, in_namespace, require, run};

const NEEDS: [Need; 3] = [Need::Root, Need::Fuse, Need::Loop];

/// Mounts an ext4 file system of 16 MiB.
fn ext4(ground: &Path, at: &Path, flags: MountFlags) {
    let name = at.file_name().unwrap().to_str().unwrap();
    let file = ground.join(format!("{name}.img"));
    image(EXT4[0], 16, &file);
    assert!(mount_image(EXT4[0], &file, at, flags));
}

/// Makes ext4 record an error, as a damaged directory would.
fn fail(at: &Path) {
    let name = device(at);
    fs::write(format!("/sys/fs/ext4/{name}/trigger_fs_error"), "damaged").unwrap();
}

fn device(at: &Path) -> String {
    let table = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    let is_it = |line: &&str| line.split(' ').nth(4) == at.to_str();
    let line = table.lines().find(is_it).unwrap();
    let source = line.split(" - ").nth(1).unwrap().split(' ').nth(1).unwrap();
    source.trim_start_matches("/dev/").to_owned()
}

#[test]
fn full_failing_and_hung_file_systems_come_first() {
    if require(&NEEDS) {
        in_namespace(|ground| {
            let (tree, here) = (tmpfs(ground.join("tree")), dir(ground.join("here")));
            let at = |name: &str| dir(tree.join(name));
            bush(&tree, 3, 3);
            ext4(ground, &at("failing"), MountFlags::empty());
            ext4(ground, &at("healthy"), MountFlags::empty());
            ext4(ground, &at("meant"), MountFlags::RDONLY);
            bind(at("healthy"), at("bound"));
            rustix::mount::mount_remount(at("bound"), MountFlags::BIND | MountFlags::RDONLY, "")
                .unwrap();
            ext4(ground, &at("full"), MountFlags::empty());
            let filler = at("full").join("filler");
            let _ = fs::write(&filler, vec![1; 32 << 20]);
            fail(&at("failing"));
            let hung = serve(Hung, tree.join("hung"));

            let mut command = survey(args![&tree]);
            let ran = run(command.current_dir(&here)).exits(1);
            let first = ran
                .lines()
                .into_iter()
                .take(10)
                .collect::<Vec<_>>()
                .join("\n");
            for (name, state) in [("failing", "failing"), ("full", "full"), ("hung", "hung")] {
                let path = tree.join(name).display().to_string();
                let is_named = |line: &str| line.starts_with(&path) && line.contains(state);
                let is_named = first.lines().any(is_named);
                assert!(is_named, "{name}: {first}");
            }
            let mut command = survey(args![&tree, "--json"]);
            let value = run(command.current_dir(&here)).exits(1).json();
            let state = |name: &str| {
                let path = tree.join(name).display().to_string();
                let systems = value["result"]["file_systems"].as_array().unwrap();
                let is_it = |one: &&serde_json::Value| one["target"] == path.as_str();
                systems.iter().find(is_it).map(|one| one["state"].clone())
            };
            assert_eq!(state("healthy").unwrap(), "ok");
            assert_eq!(state("meant").unwrap(), "read-only");
            let advice = value["result"]["advice"].to_string();
            let of_failing = advice.split("Save what is on").nth(1).unwrap();
            let of_failing = of_failing.split(", and").next().unwrap();
            assert!(
                !advice.contains("meant") && !of_failing.contains("bound"),
                "{advice}"
            );
            assert!(
                advice.contains("hung") && advice.contains("failing"),
                "{advice}"
            );
            drop(hung);

            let mut check = fathom(args!["mounts", &tree, "--check", "--json"]);
            let value = run(&mut check).exits(1).json();
            for (name, verdict) in [("failing", "failing"), ("healthy", "ok"), ("bound", "ok")] {
                let found = mount_at(&value, &tree.join(name));
                assert_eq!(found["verdict"], verdict, "{name}");
            }
        });
    }
}
