//! `--explain` says what is possible and why; `--compare` runs all of it, and they agree.

use std::path::Path;

use super::engines::still;
use super::right::{engines, summary};
use crate::support::build::dir;
use crate::support::disks::{BTRFS, EXT4, XFS, mounted};
use crate::support::trees::grow;
use crate::support::{Need, in_namespace, require};

const ALL: [&str; 5] = ["threads", "bulkstat", "btrfs", "ext4", "stat"];

/// The tree on each kind of file system, and the engines there.
fn on_each_kind(look: impl Fn(&Path, &[&str]) + Sync) {
    in_namespace(|ground| {
        for make in [EXT4[0], XFS[0], BTRFS[0]] {
            let at = ground.join(make.fstype);
            assert!(mounted(make, &at));
            grow(&dir(at.join("tree")), 1, 100);
            look(&at, engines(make.fstype));
        }
        let tmpfs = still(&ground.join("tmpfs")).to_owned();
        grow(&tmpfs, 1, 100);
        look(&tmpfs, engines("tmpfs"));
    });
}

#[test]
fn every_engine_is_explained() {
    if require(&[Need::Root, Need::Loop]) {
        on_each_kind(|at, possible| {
            let value = summary(at, "auto", &["--explain"]);
            let explained = value["result"]["explain"].as_array().unwrap();
            for engine in ALL {
                let row = explained
                    .iter()
                    .find(|row| row["engine"] == engine)
                    .unwrap_or_else(|| panic!("no {engine}: {value}"));
                assert_eq!(row["possible"], possible.contains(&engine), "{row}");
                assert!(row["why"].as_str().unwrap().len() > 5, "{row}");
            }
            assert_eq!(summary(at, "auto", &[])["result"]["explain"], serde_json::Value::Null);
        });
    }
}

#[test]
fn every_possible_engine_is_compared_and_they_agree() {
    if require(&[Need::Root, Need::Loop]) {
        on_each_kind(|at, possible| {
            let value = summary(at, "auto", &["--compare"]);
            let text = value["result"]["compare"].to_string();
            let digest = value["result"]["digest"].as_str().unwrap();
            for engine in ALL {
                assert!(possible.contains(&engine) <= text.contains(&format!("\"{engine}\"")), "{engine}: {text}");
            }
            assert!(text.contains(digest) || text.contains("\"agree\":true"), "{text}");
        });
    }
}
