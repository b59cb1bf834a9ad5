//! Tests of `--deep`, which writes more, but leaves nothing behind either.

use std::path::Path;

use super::{names, survey};
use crate::support::build::{bush, file};
use crate::support::disks::{EXT4, mounted};
use crate::support::run::args;
use crate::support::{Need, in_namespace, require, run};

/// Cgroups that experiments have created, in any hierarchy.
fn groups() -> Vec<String> {
    let tops = ["/sys/fs/cgroup", "/sys/fs/cgroup/memory"].map(Path::new);
    let all = tops.into_iter().filter(|top| top.is_dir()).flat_map(names);
    all.filter(|name| name.starts_with("fathom-probe-"))
        .collect()
}

#[test]
fn deep_measures_cache_extents_and_uncached_calls() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|ground| {
            let disk = ground.join("disk");
            assert!(mounted(EXT4[0], &disk));
            bush(&disk, 3, 30);
            file(disk.join("d0/some"), 100_000);
            let before = names(&disk);
            let ran = run(&mut survey(args![&disk, "--deep", "--json"]));
            let value = ran.json();
            let result = &value["result"];
            let machine = &result["machine"];
            assert_eq!(
                (&machine["deep"], &machine["limit_bytes"]),
                (&true.into(), &(4_u64 << 30).into()),
                "{machine}"
            );
            let moved = machine["bytes_read"].as_u64().unwrap()
                + machine["bytes_written"].as_u64().unwrap();
            assert!(moved <= 4 << 30, "{machine}");

            let experiments = result["probe"][0]["experiments"].as_array().unwrap();
            let made: Vec<_> = experiments
                .iter()
                .map(|found| found["experiment"].as_str().unwrap())
                .collect();
            for experiment in ["block", "readahead", "cache", "extent"] {
                assert!(made.contains(&experiment), "no {experiment}: {made:?}");
            }
            let find = |name: &str| {
                experiments
                    .iter()
                    .find(|found| found["name"] == name)
                    .unwrap()
            };
            let (capacity, limit) = (find("cache-capacity"), find("cache-limit"));
            let held = capacity["inferred"]
                .as_f64()
                .unwrap_or_else(|| panic!("{capacity}"));
            let allowed = capacity["truth"].as_f64().unwrap();
            assert!((held / allowed - 1.0).abs() <= 0.05, "{capacity}");
            // The cache capacity inside a temporary cgroup is not reported as that of the machine.
            let block = result["findings"]
                .as_array()
                .unwrap()
                .iter()
                .find(|point| point["figure"].to_string().contains("block"));
            let said = block.unwrap()["figure"].as_str().unwrap();
            assert_eq!(
                said.contains("cache up to"),
                capacity["truth"] != limit["truth"],
                "{said}"
            );

            let prices = result["gates"]["prices"].as_array().unwrap();
            assert!(
                prices.iter().any(|price| price["state"] == "cold"),
                "{prices:?}"
            );
            assert_eq!(names(&disk), before, "something was left behind");
            let mine: Vec<_> = groups();
            let is_left = |name: &String| {
                let maker =
                    u32::from_str_radix(name.trim_start_matches("fathom-probe-"), 16).unwrap();
                !Path::new(&format!("/proc/{maker}")).exists()
            };
            assert!(!mine.iter().any(is_left), "{mine:?}");
        });
    }
}
