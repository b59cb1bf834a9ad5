//! Tests of `fathom walk` under the profiles: the same digest by every engine that works there.

use serde_json::Value;

use crate::profiles::{compare, file_systems, places};
use crate::support::build::tmpfs;
use crate::support::effort::effort;
use crate::support::profile::Profile;
use crate::support::run::{Ran, args};
use crate::support::{Need, fathom, in_namespace, require};

/// Profiles without statx(2), and so without birth times and attributes.
pub(crate) const WITHOUT_STATX: [&str; 2] = ["gvisor", "docker-18.03"];

/// The totals of a walk; without the digest where metadata is missing, which the walk must report.
fn totals(ran: &Ran, place: &Profile) -> Value {
    let mut value = ran.json();
    let warnings = value["warnings"].to_string();
    let result = &mut value["result"];
    if WITHOUT_STATX.contains(&place.name) {
        result["digest"].take();
        let lacks = ran.code() == 1 && warnings.contains("birth times and attributes");
        assert!(ran.code() == 0 || lacks, "{}: {ran}", place.name);
    } else {
        assert_eq!(ran.code(), 0, "{}: {ran}", place.name);
    }
    for varying in ["seconds", "why", "parts"] {
        result[varying].take();
    }
    result.take()
}

#[test]
fn every_engine_returns_the_same_digest() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|base| {
            let out = tmpfs(base.join("out"));
            let all = file_systems(base, effort(150, 600));
            let places = places(&base.join("disks"), &out);
            for (fstype, top) in &all {
                let fast = match *fstype {
                    "ext4" => "ext4",
                    "xfs" => "bulkstat",
                    "btrfs" => "btrfs",
                    _ => "auto",
                };
                for engine in ["auto", "threads", "stat", fast] {
                    let unlike: &[_] = match engine {
                        "bulkstat" => &[("4.18", "XFS_IOC_BULKSTAT requires Linux 5.3")],
                        "ext4" => &[("no /proc", "cannot read /proc/self/uid_map")],
                        _ => &[],
                    };
                    let walk = || fathom(args!["walk", top, "--engine", engine, "--json"]);
                    compare(
                        &places,
                        &format!("{fstype} by {engine}"),
                        unlike,
                        walk,
                        totals,
                    );
                }
            }
        });
    }
}
