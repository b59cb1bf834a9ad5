//! Tests of `fathom mounts` under the profiles: the same mount points.

use serde_json::Value;

use crate::profiles::walks::WITHOUT_STATX;
use crate::profiles::{compare, filters, places};
use crate::support::build::{bind, dir, file, tmpfs};
use crate::support::profile::Profile;
use crate::support::run::{Ran, args};
use crate::support::{Need, fathom, in_namespace, require};

/// The reported facts of each mount, in order of their targets.
fn mounts(ran: &Ran, _: &Profile) -> Vec<String> {
    let value = ran.json();
    let about = |mount: &Value| {
        let fields = ["target", "fstype", "kind", "hidden", "verdict", "beneath"];
        fields.map(|field| mount[field].to_string()).join(" ")
    };
    let mounts = value["result"]["mounts"].as_array().unwrap();
    let mut all: Vec<String> = mounts.iter().map(about).collect();
    all.sort();
    all.push(value["result"]["boundaries"].to_string());
    all
}

#[test]
fn every_method_finds_the_same_mount_points() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let out = tmpfs(base.join("out"));
            let tree = dir(base.join("tree"));
            let inner = tmpfs(tree.join("a/b"));
            tmpfs(inner.join("c"));
            bind(&inner, tree.join("bound"));
            bind(file(tree.join("plain"), 3), tree.join("on file"));
            file(tree.join("over/hidden"), 100);
            tmpfs(tree.join("over"));
            let places = places(&tree, &out);
            // Errors of calls that have no replacement.
            let missing = "files beneath it: Function not implemented (os error 38)";
            let forbidden = "files beneath it: Operation not permitted (os error 1)";
            let open_tree = [
                ("4.18", missing),
                ("docker", forbidden),
                ("docker-18.03", forbidden),
            ];
            let statx = WITHOUT_STATX.map(|place| (place, "statx(2) does not report mount points"));
            let listmount: Vec<_> = filters()
                .iter()
                .map(|place| {
                    let text = if place.name.starts_with("docker") {
                        "Operation not permitted"
                    } else {
                        "Function not implemented"
                    };
                    (place.name, text)
                })
                .collect();
            let whole = |by| ["--by", by, "--depth", "0"].to_vec();
            for (arguments, unlike) in [
                (vec![], &[][..]),
                (vec!["--check"], &[]),
                (vec!["--beneath"], &open_tree),
                (vec!["--boundaries"], &[]),
                (vec!["--by", "kernel"], &listmount),
                (vec!["--by", "mountinfo"], &[("no /proc", "mountinfo")]),
                (vec!["--by", "search"], &statx),
                (whole("getmnt3"), &[]),
                (vec!["--by", "naive"], &[]),
            ] {
                let what = format!("mounts {arguments:?}");
                let mut words = args!["mounts", &tree, "--json"].to_vec();
                words.extend(arguments.iter().map(std::ffi::OsString::from));
                compare(&places, &what, unlike, || fathom(words.clone()), mounts);
            }
        });
    }
}
