//! Tests of `--compare`, `--names`, `--servers` and `--assert`.

use std::path::Path;

use serde_json::Value;

use super::METHODS;
use crate::support::build::{bush, dir, disk, tmpfs};
use crate::support::fuse::{Manner::Works, serve_as};
use crate::support::run::{Ran, args, mount_at, path};
use crate::support::{Need, fathom, in_namespace, require, run};

fn compare(root: &Path, more: &[&str]) -> Ran {
    run(fathom(args!["mounts", root, "--compare"]).args(more))
}

#[test]
fn all_methods_are_compared() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            bush(base, 10, 10);
            tmpfs(base.join("m"));
            let value = compare(base, &["--trials", "3", "--json"]).json();
            let comparison = &value["result"]["compare"];
            assert_eq!(comparison["trials"], 3);
            let methods = comparison["methods"].as_array().unwrap();
            for by in &METHODS[1..] {
                let method = methods
                    .iter()
                    .find(|method| method["by"] == *by)
                    .unwrap_or_else(|| panic!("no {by}"));
                assert_eq!(method["found"], 2, "{by}");
                ordered(&method["real"]);
            }
            for (of, to) in [
                ("getmnt1", "getmnt2"),
                ("getmnt2", "getmnt3"),
                ("getmnt1", "getmnt3"),
            ] {
                let ratios = comparison["ratios"].as_array().unwrap();
                let ratio = ratios
                    .iter()
                    .find(|r| r["of"] == of && r["to"] == to)
                    .unwrap_or_else(|| panic!("no {of}/{to}"));
                assert!(ratio["table"].as_str().unwrap().starts_with("Table "));
                ordered(&ratio["real"]);
            }
        });
    }
}

fn ordered(summary: &Value) {
    let figure = |name: &str| summary[name].as_f64().unwrap();
    assert!(
        figure("min") <= figure("median")
            && figure("median") <= figure("max")
            && figure("std_dev") >= 0.0
    );
    assert!(figure("min") <= figure("mean") && figure("mean") <= figure("max"));
}

#[test]
fn table_has_the_columns_of_the_papers() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let ran = compare(base, &[]);
            let text = String::from_utf8(ran.stdout.clone()).unwrap();
            for word in [
                "getmnt1", "getmnt2", "getmnt3", "naive", "mean", "median", "max", "min",
                "std_dev", "real", "user", "sys",
            ] {
                assert!(text.contains(word), "no {word}: {ran}");
            }
        });
    }
}

#[test]
fn devices_by_name_from_dev_and_from_sysfs() {
    if require(&[Need::Root, Need::Loop, Need::Program("mkfs.ext4")]) {
        in_namespace(|base| {
            let at = disk("ext4", &base.join("disk"));
            let device = |names: &str| {
                let ran = run(&mut fathom(args![
                    "mounts", &at, "--json", "--by", "naive", "--names", names
                ]));
                mount_at(&ran.exits(0).json(), &at)["source"]
                    .as_str()
                    .unwrap()
                    .to_owned()
            };
            let name = device("dev");
            assert!(name.starts_with("/dev/loop"), "{name}");
            assert_eq!(device("sys"), name);
        });
    }
}

#[test]
fn servers_of_network_mounts() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|base| {
            let at = |name: &str| base.join(name);
            let _server = serve_as(
                Works,
                &at("remote"),
                "me@filer.example:/export",
                "fuse.sshfs",
            );
            tmpfs(at("tmpfs"));
            let value = run(&mut fathom(args!["mounts", base, "--servers", "--json"]))
                .exits(0)
                .json();
            assert_eq!(mount_at(&value, &at("remote"))["server"], "filer.example");
            assert!(mount_at(&value, &at("tmpfs"))["server"].is_null());
            let plain = run(&mut fathom(args!["mounts", base, "--json"]))
                .exits(0)
                .json();
            assert!(
                mount_at(&plain, &at("remote"))["server"].is_null(),
                "nobody asked"
            );
        });
    }
}

#[test]
fn assert_checks_mount_points() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let (yes, no) = (tmpfs(base.join("yes")), dir(base.join("no")));
            run(&mut fathom(args!["mounts", base, "--assert", &yes, base])).exits(0);
            let value = run(&mut fathom(args![
                "mounts", base, "--json", "--assert", &yes, &no
            ]))
            .exits(1)
            .json();
            let asserted = value["result"]["asserted"].as_array().unwrap();
            let given: Vec<_> = asserted
                .iter()
                .map(|a| (path(a, "path"), a["mountpoint"] == true))
                .collect();
            assert_eq!(given, [(yes, true), (no.clone(), false)]);
            let ran = run(&mut fathom(args!["mounts", base, "--assert", &no])).exits(1);
            assert!(ran.stderr.contains(no.to_str().unwrap()), "{ran}");
            run(&mut fathom(args![
                "mounts",
                base,
                "--assert",
                base.join("missing")
            ]))
            .exits(1);
        });
    }
}
