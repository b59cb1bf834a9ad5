//! Tests of `fathom probe`, `pathwalk` and `survey` under the profiles: direct observations are the
//! same. Prices and times are not compared.

use serde_json::Value;

use crate::profiles::{compare, filters};
use crate::support::build::{disk, tmpfs};
use crate::support::profile::Profile;
use crate::support::run::{Ran, args};
use crate::support::{Need, fathom, in_namespace, require};

#[test]
fn probe_finds_the_same_block_and_readahead() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|base| {
            // Findings that are observed, not inferred from times.
            const OBSERVED: [&str; 4] = [
                "allocation-block",
                "cluster",
                "readahead-initial",
                "readahead-steady",
            ];
            let observed = |ran: &Ran, _: &Profile| {
                let value = ran.json();
                let all = value["result"]["experiments"].as_array().unwrap();
                let about = |name: &str| {
                    let found = all.iter().find(|finding| finding["name"] == name);
                    found.map(|finding| {
                        [&finding["inferred"], &finding["truth"]].map(Value::to_string)
                    })
                };
                (ran.code(), OBSERVED.map(about))
            };
            for kind in ["ext4", "xfs"] {
                let top = disk(kind, &base.join(kind));
                let probe = || fathom(args!["probe", &top, "block", "readahead", "--json"]);
                compare(&filters(), kind, &[], probe, observed);
            }
        });
    }
}

#[test]
fn pathwalk_makes_the_same_lookups() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let tree = tmpfs(base.join("tree")).join("walk");
            for method in ["stat", "access", "open", "dirfd"] {
                let walk = || {
                    let words = args![
                        "pathwalk", "-c", "-t", "-r", "-l", "3", "-f", "50", "--method", method
                    ];
                    let mut command = fathom(words);
                    command.arg("--json").arg(&tree);
                    command
                };
                let calls = |ran: &Ran, _: &Profile| {
                    let call = match method {
                        "stat" => "newfstatat",
                        "access" => "faccessat",
                        _ => "openat",
                    };
                    let failed = ran.json()["gates"][call]["errors"].as_u64().unwrap();
                    (ran.code(), failed)
                };
                compare(&filters(), method, &[], walk, calls);
            }
        });
    }
}

#[test]
fn survey_completes_every_section() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|base| {
            let top = disk("ext4", &base.join("disk"));
            let survey = || {
                let mut command = fathom(args![
                    "survey",
                    &top,
                    "--json",
                    "--no-page",
                    "--limit",
                    "1s"
                ]);
                command.current_dir(base);
                command
            };
            let sections = |ran: &Ran, _: &Profile| {
                let value = ran.json();
                let result = value["result"].as_object().unwrap();
                let present = result.iter().filter(|(_, section)| !section.is_null());
                let names: Vec<String> = present.map(|(name, _)| name.clone()).collect();
                (ran.code() < 2, names)
            };
            let mut places = filters();
            places.retain(|place| ["4.18", "docker", "gvisor"].contains(&place.name));
            compare(&places, "survey", &[], survey, sections);
        });
    }
}
