//! `fathom query --diff`: what changed between two catalogs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use super::catalogs::python;
use super::since::{catalog, changed, changes, expect, on_each_kind};
use crate::support::build::{dir, file, tmpfs};
use crate::support::effort::effort;
use crate::support::reference::settle;
use crate::support::run::{Ran, args, exact};
use crate::support::tool::tool;
use crate::support::trees::{Dice, grow, mutate, plant, shuffle};
use crate::support::{Need, fathom, in_namespace, require, run};

fn diff(old: &Path, new: &Path, more: &[&str]) -> Ran {
    run(fathom(args!["query", "--diff", old, new]).args(more))
}

/// Waits until later changes get a different ctime.
fn rest() {
    sleep(Duration::from_millis(50));
}

const FORMATS: [&str; 8] = [
    "table", "ndjson", "paths", "paths0", "restic", "borg", "rsync", "tar",
];

const PREDICATES: [&[&str]; 6] = [
    &["--type", "f", "--size", "+1"],
    &["--type", "e"],
    &["--name", "*[0-4]*", "--min-depth", "2"],
    &["--max-depth", "2", "--perm", "/022"],
    &["--regex", "tree/[a-m].*[1-7]"],
    &["--links", "+1", "--owner", "root"],
];

#[test]
fn diff_of_catalogs_equals_changed_on_the_tree() {
    if !require(&[Need::Root, Need::Loop]) {
        return;
    }
    on_each_kind(|top, to, kind| {
        let mut dice = Dice::new(kind.len() as u64 + 40);
        grow(top, 5, 300);
        plant(top, &mut dice);
        settle(top);
        rest();
        let old = catalog(top, to);
        for round in 0..effort(1, 3) {
            let _open = mutate(top, &mut dice, 40);
            shuffle(top, &mut dice, 10);
            settle(top);
            let new = catalog(top, &to.with_extension(round.to_string()));
            let expected = changes(&changed(top, &old, &["--json"]).exits(0).json());
            let found = changes(&diff(&old, &new, &["--json"]).exits(0).json());
            let differ: Vec<_> = found.symmetric_difference(&expected).take(4).collect();
            assert!(
                differ.is_empty() && !found.is_empty(),
                "{kind}: {differ:#?}"
            );
            for format in FORMATS {
                let more = ["--format", format];
                let expected = changed(top, &old, &more).exits(0);
                let found = diff(&old, &new, &more).exits(0);
                assert!(found.stdout == expected.stdout, "{kind}, {format}: {found}");
            }
            for set in PREDICATES {
                let more = [set, &["--json"]].concat();
                let expected = changes(&changed(top, &old, &more).exits(0).json());
                let found = changes(&diff(&old, &new, &more).exits(0).json());
                let differ: Vec<_> = found.symmetric_difference(&expected).take(4).collect();
                assert!(differ.is_empty(), "{kind}, {set:?}: {differ:#?}");
                let more = [set, &["--format", "rsync"]].concat();
                let expected = changed(top, &old, &more).exits(0).stdout;
                assert!(
                    diff(&old, &new, &more).exits(0).stdout == expected,
                    "{set:?}"
                );
            }
            // With OLD and NEW swapped, added entries are removed ones.
            let back = diff(&new, &old, &["--json"]).exits(0);
            assert!(back.stderr.contains("OLD was written after NEW"), "{back}");
            for catalog in [&old, &new] {
                let same = changes(&diff(catalog, catalog, &["--json"]).exits(0).json());
                assert!(same.is_empty(), "{kind}: {same:?}");
            }
        }
    });
}

/// The paths whose entries differ, and the growth by owner, by size and by directory.
const INDEPENDENT: &str = r#"
import duckdb, json, sys
old, new = sys.argv[1:]
key = "dir || (CASE WHEN octet_length(dir) > 0 AND octet_length(name) > 0 THEN '/'::BLOB ELSE ''::BLOB END) || name"
same = " AND ".join(f"o.{c} IS NOT DISTINCT FROM n.{c}" for c in
    "ino mode size mtime mtime_ns ctime ctime_ns btime btime_ns".split())
paths = duckdb.sql(f"""
    SELECT coalesce(o.path, n.path) FROM (SELECT *, {key} AS path FROM '{old}') o
    FULL JOIN (SELECT *, {key} AS path FROM '{new}') n ON o.path = n.path
    WHERE o.path IS NULL OR n.path IS NULL OR NOT ({same})""").fetchall()
def growth(group):
    sums = f"""SELECT {group} AS key, count(*) AS n, sum(size) AS size, sum(blocks) * 512 AS allocated
        FROM (SELECT * FROM '%s' QUALIFY (mode >> 12) = 4 OR row_number() OVER (PARTITION BY ino) = 1) GROUP BY key"""
    rows = duckdb.sql(f"""
        SELECT coalesce(o.key, n.key), coalesce(n.n, 0) - coalesce(o.n, 0),
            coalesce(n.size, 0) - coalesce(o.size, 0), coalesce(n.allocated, 0) - coalesce(o.allocated, 0)
        FROM ({sums % old}) o FULL JOIN ({sums % new}) n ON o.key = n.key""").fetchall()
    return sorted([str(k), int(a), int(b), int(c)] for k, a, b, c in rows if (a, b, c) != (0, 0, 0))
print(json.dumps({
    "paths": sorted((p[0] or b".").hex() for p in paths),
    "owner": growth("uid"),
    "links": growth("nlink"),
}))
"#;

#[test]
fn changes_and_growth_equal_what_duckdb_computes() {
    let Some(python) = python("duckdb") else {
        return;
    };
    if !require(&[Need::Root]) {
        return;
    }
    in_namespace(|ground| {
        let (top, out) = (tmpfs(ground.join("top")), dir(ground.join("out")));
        let mut dice = Dice::new(77);
        grow(&top, 7, 400);
        rest();
        let old = catalog(&top, &out.join("old.parquet"));
        let _open = mutate(&top, &mut dice, 60);
        let new = catalog(&top, &out.join("new.parquet"));
        let script = out.join("independent.py");
        fs::write(&script, INDEPENDENT).unwrap();
        let ran = run(Command::new(python).args([&script, &old, &new])).exits(0);
        let expected: Value = serde_json::from_str(ran.lines()[0]).unwrap();

        // Entries below a renamed directory have new paths, too.
        let value = diff(&old, &new, &["--json"]).exits(0).json();
        let entries = value["result"]["entries"].as_array().unwrap();
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        let mut paths = BTreeSet::new();
        for entry in entries {
            paths.insert(hex(&exact(entry, "path")));
            paths.extend(entry.get("from").map(|_| hex(&exact(entry, "from"))));
        }
        let independent: BTreeSet<String> =
            serde_json::from_value(expected["paths"].clone()).unwrap();
        let moved: Vec<Vec<u8>> = entries
            .iter()
            .filter(|entry| entry.get("from").is_some())
            .flat_map(|entry| [exact(entry, "path"), exact(entry, "from")])
            .collect();
        let is_below = |path: &String| moved.iter().any(|dir| path.starts_with(&(hex(dir) + "2f")));
        let missed = independent
            .difference(&paths)
            .filter(|path| !is_below(path));
        assert_eq!(missed.collect::<Vec<_>>(), Vec::<&String>::new());
        let invented: Vec<_> = paths.difference(&independent).collect();
        assert!(invented.is_empty() && paths.len() > 20, "{invented:?}");

        for field in ["owner", "links"] {
            let ran = diff(&old, &new, &["--group-by", field, "--json"]).exits(0);
            let found = growth(&ran.json());
            let rows = expected[field].as_array().unwrap();
            let rows: BTreeMap<String, [i64; 3]> = rows
                .iter()
                .map(|row| {
                    let number = |nth: usize| row[nth].as_i64().unwrap();
                    let key = row[0].as_str().unwrap();
                    (name_of(field, key), [1, 2, 3].map(number))
                })
                .collect();
            assert!(!found.is_empty(), "{ran}");
            assert_eq!(found, rows, "{field}");
        }
    });
}

/// The growth of each group.
fn growth(value: &Value) -> BTreeMap<String, [i64; 3]> {
    let groups = value["result"]["groups"].as_array().unwrap().iter();
    let numbers = |group: &Value| {
        ["entries", "bytes", "allocated"].map(|field| group[field].as_i64().unwrap())
    };
    groups
        .map(|group| (group["key"].as_str().unwrap().to_owned(), numbers(group)))
        .collect()
}

/// The name of a user in /etc/passwd, or the number.
fn name_of(field: &str, number: &str) -> String {
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let known = users.lines().find_map(|line| {
        let parts: Vec<&str> = line.split(':').collect();
        (field == "owner" && parts[2] == number).then(|| parts[0].to_owned())
    });
    known.unwrap_or_else(|| number.to_owned())
}

#[test]
fn predicates_and_groups_of_a_difference() {
    if !require(&[Need::Root]) {
        return;
    }
    in_namespace(|ground| {
        let (top, out) = (tmpfs(ground.join("top")), dir(ground.join("out")));
        file(top.join("a/grows.log"), 1000);
        file(top.join("a/big.iso"), 9000);
        file(top.join("b/gone.iso"), 7000);
        file(top.join("b/same"), 10);
        dir(top.join("b/moves/empty"));
        file(top.join("b/moves/kept"), 10);
        fs::hard_link(top.join("a/big.iso"), top.join("b/link")).unwrap();
        rest();
        let old = catalog(&top, &out.join("old"));
        file(top.join("a/grows.log"), 5000);
        fs::remove_file(top.join("b/gone.iso")).unwrap();
        fs::rename(top.join("b/moves"), top.join("a/moved")).unwrap();
        file(top.join("c\n/new.iso"), 8000);
        let new = catalog(&top, &out.join("new"));
        let found = |more: &[&str]| {
            let more = [more, &["--json"]].concat();
            changes(&diff(&old, &new, &more).exits(0).json())
        };
        assert_eq!(
            found(&["--name", "*.iso"]),
            expect([("removed", "b/gone.iso"), ("added", "c\n/new.iso")])
        );
        assert_eq!(found(&["--size", "-7001c", "--type", "f"]).len(), 2);
        assert_eq!(
            found(&["--type", "d", "--name", "mov*"]),
            expect([("renamed", "a/moved <- b/moves")])
        );
        let rsync = diff(&old, &new, &["--type", "e", "--format", "rsync"]).exits(0);
        assert_eq!(rsync.stdout, b"./a/moved/empty\0");
        let print0 = diff(&old, &new, &["--ext", "iso", "--print0"]).exits(0);
        assert_eq!(print0.stdout, b"c\n/new.iso\0");
        // Paths of groups begin with DIR.
        let groups = |more: &[&str]| {
            let more = [more, &["--json"]].concat();
            growth(&diff(&old, &new, &more).exits(0).json())
        };
        let top = top.to_str().unwrap();
        let by_dir = groups(&["--group-by", "dir:1", "--type", "f"]);
        let bytes = |name: &str| by_dir[&format!("{top}/{name}")];
        assert_eq!(bytes("a")[..2], [1, 4010]);
        assert_eq!(bytes("b")[..2], [-2, -7010]);
        assert_eq!(bytes("c\n")[..2], [1, 8000]);
        assert_eq!(by_dir.len(), 3);
        assert_eq!(groups(&["--group-by", "ext", "--type", "f"]).len(), 2);
        let csv = diff(
            &old,
            &new,
            &["--group-by", "ext", "--type", "f", "--format", "csv"],
        );
        assert_eq!(csv.exits(0).lines().len(), 3);
        let first = [
            "--group-by",
            "dir",
            "--type",
            "f",
            "--top",
            "1",
            "--sort",
            "bytes",
        ];
        let table = diff(&old, &new, &first).exits(0);
        assert!(table.lines()[1].contains("+7.81 KiB"), "{table}");
    });
}

/// The changes that `changed` selects, and the catalog that it writes.
#[test]
fn predicates_of_changed_leave_the_new_catalog_complete() {
    if !require(&[Need::Root]) {
        return;
    }
    in_namespace(|ground| {
        let (top, out) = (tmpfs(ground.join("top")), dir(ground.join("out")));
        file(top.join("a/x.log"), 100);
        file(top.join("a/x.iso"), 9000);
        file(top.join("b/gone.iso"), 9000);
        file(top.join("b/gone.log"), 10);
        rest();
        let to = catalog(&top, &out.join("c"));
        for name in ["b/gone.iso", "b/gone.log"] {
            fs::remove_file(top.join(name)).unwrap();
        }
        file(top.join("a/y.iso"), 500);
        file(top.join("a/y.log"), 500);
        rest();
        let more = ["--name", "*.iso", "--update", "--json"];
        let found = changes(&changed(&top, &to, &more).exits(0).json());
        assert_eq!(
            found,
            expect([("added", "a/y.iso"), ("removed", "b/gone.iso")])
        );
        let whole = run(&mut fathom(args!["query", &to, "--format", "paths"])).exits(0);
        assert_eq!(whole.lines().len(), 7, "{whole}");
        let after = changes(&changed(&top, &to, &["--json"]).exits(0).json());
        assert!(after.is_empty(), "{after:?}");
        changed(&top, &to, &["--owner", "nobody-has-this-name"]).refused();
    });
}

/// Two data sets of three DIRs each. The names of their catalogs differ.
#[test]
fn diff_of_data_sets_is_that_of_their_catalogs() {
    if !require(&[Need::Root]) {
        return;
    }
    in_namespace(|ground| {
        let [old, new] = ["old", "new"].map(|name| dir(ground.join(name)));
        let mut dice = Dice::new(9);
        let tops = ["a", "b", "same"].map(|name| dir(tmpfs(ground.join(name)).join("top")));
        for (nth, top) in tops.iter().enumerate() {
            grow(top, nth as u64, 100);
            file(top.join("gone"), 10);
            file(top.join("from"), 10);
        }
        rest();
        let before = [0, 1, 2].map(|nth| {
            let to = old.join(format!("part-{nth}-of-3.parquet"));
            catalog(&tops[nth], &to)
        });
        let _open = [0, 1].map(|nth| mutate(&tops[nth], &mut dice, 20));
        for top in &tops[..2] {
            file(top.join("added"), 9000);
            fs::remove_file(top.join("gone")).unwrap();
            fs::rename(top.join("from"), top.join("to")).unwrap();
        }
        let after = [2, 0, 1].map(|nth| {
            let to = new.join(format!("{}.parquet", 3 - nth));
            (nth, catalog(&tops[nth], &to))
        });
        for more in [
            &[][..],
            &["--type", "f", "--size", "-20"],
            &["--name", "*[ao]*"],
        ] {
            let list = [more, &["--format", "paths0"]].concat();
            let mut expected = BTreeSet::new();
            for (nth, after) in &after {
                let found = diff(&before[*nth], after, &list).exits(0).stdout;
                let paths = found.split(|&b| b == 0).filter(|path| !path.is_empty());
                let top = tops[*nth].to_str().unwrap().as_bytes();
                expected.extend(paths.map(|path| match path {
                    b"." => top.to_vec(),
                    path => [top, b"/", path].concat(),
                }));
            }
            let found = diff(&old, &new, &list).exits(0).stdout;
            let found = found.split(|&b| b == 0).filter(|path| !path.is_empty());
            assert_eq!(found.map(<[u8]>::to_vec).collect::<BTreeSet<_>>(), expected);
            assert!(expected.len() > 1, "{more:?}");
        }
        let value = diff(&old, &new, &["--group-by", "dir:0", "--json"])
            .exits(0)
            .json();
        let grown: BTreeSet<String> = growth(&value).into_keys().collect();
        let expected = [0, 1].map(|nth: usize| tops[nth].to_str().unwrap().to_owned());
        assert_eq!(grown, BTreeSet::from(expected));
        // A catalog of a DIR is missing, on either side.
        fs::remove_file(old.join("part-1-of-3.parquet")).unwrap();
        for (one, other) in [(&old, &new), (&new, &old)] {
            let ran = diff(one, other, &[]).refused();
            assert!(ran.stderr.contains("no other catalog of"), "{ran}");
        }
    });
}

#[test]
fn catalogs_that_cannot_be_compared_are_refused() {
    if !require(&[Need::Root]) {
        return;
    }
    in_namespace(|ground| {
        let (one, other) = (tmpfs(ground.join("one")), tmpfs(ground.join("other")));
        let out = dir(ground.join("out"));
        grow(&one, 1, 30);
        grow(&other, 2, 30);
        rest();
        let old = catalog(&one, &out.join("old"));
        let refused = |old: &Path, new: &Path, says: &str| {
            for more in [&["--json"][..], &["--group-by", "owner"]] {
                let ran = diff(old, new, more).refused();
                assert!(ran.stderr.contains(says), "{ran}");
            }
        };
        let both = out.join("both");
        run(&mut fathom(args![
            "walk",
            &one,
            &other,
            "--catalog",
            &both,
            "-q"
        ]));
        if both.exists() {
            refused(&old, &both, "not one directory");
        }
        let bytes = fs::read(&old).unwrap();
        let bad = out.join("bad");
        fs::write(&bad, &bytes[..bytes.len() / 2]).unwrap();
        refused(&old, &bad, "truncated");
        refused(&bad, &old, "truncated");
        refused(&old, &out, "out'");
        // A catalog with a newer format version than this program's.
        let at = bytes
            .windows(11)
            .rposition(|it| it == b"\"version\":1")
            .unwrap();
        let mut newer = bytes.clone();
        newer[at + 10] = b'2';
        fs::write(&bad, &newer).unwrap();
        diff(&old, &bad, &[]).refused();
        // Catalogs of two walks with different options.
        let less = out.join("less");
        run(&mut fathom(args![
            "walk",
            &one,
            "--exclude",
            "*.o",
            "--catalog",
            &less,
            "-q"
        ]))
        .exits(0);
        let ran = diff(&old, &less, &["--json"]).exits(1);
        assert!(ran.stderr.contains("different options"), "{ran}");
        // Options that cannot be combined.
        for more in [
            &["--format", "du"][..],
            &["--format", "csv"],
            &["--top", "3"],
            &["--json", "--format", "paths"],
            &["--group-by", "owner", "--format", "tar"],
        ] {
            diff(&old, &old, more).refused();
        }
        run(&mut fathom(args!["query", &old, "--format", "rsync"])).refused();
        run(&mut fathom(args!["query", "--diff", &old])).exits(2);
        run(&mut fathom(args!["query", "--diff", &old, &old, &old])).exits(2);
    });
}

/// Entries of two directories are compared by name: their inodes have other numbers and ctimes.
#[test]
fn catalogs_of_two_directories_are_compared_by_name() {
    if !require(&[Need::Root]) {
        return;
    }
    in_namespace(|ground| {
        let (one, other) = (tmpfs(ground.join("one")), tmpfs(ground.join("other")));
        let out = dir(ground.join("out"));
        for path in [
            "same",
            "d/same",
            "size",
            "owner",
            "mode",
            "gone",
            "d/old name",
        ] {
            file(one.join(path), 10);
        }
        fs::hard_link(one.join("same"), one.join("link")).unwrap();
        file(one.join("type"), 10);
        tool(Command::new("cp").arg("-a").arg(one.join(".")).arg(&other));
        let old = catalog(&one, &out.join("old"));
        let list = |new: &Path, code: i32| -> Vec<String> {
            let ran = diff(&old, new, &["-v"]).exits(code);
            let words = "describe different directories";
            assert_eq!(ran.stderr.matches(words).count(), 1, "{ran}");
            assert!(ran.stderr.contains("fathom verify --against"), "{ran}");
            ran.lines().into_iter().map(str::to_owned).collect()
        };
        let new = catalog(&other, &out.join("new"));
        assert!(list(&new, 1).is_empty());
        let value = diff(&old, &new, &["--json"]).exits(1).json();
        assert_eq!(value["result"]["unchanged"], true);

        file(other.join("added"), 10);
        file(other.join("size"), 20);
        std::os::unix::fs::chown(other.join("owner"), Some(7), None).unwrap();
        crate::support::build::chmod(other.join("mode"), 0o600);
        fs::remove_file(other.join("gone")).unwrap();
        fs::rename(other.join("d/old name"), other.join("d/new name")).unwrap();
        fs::remove_file(other.join("type")).unwrap();
        file(other.join("type/below"), 1);
        let new = catalog(&other, &out.join("newer"));
        let lines = list(&new, 1);
        let found: BTreeSet<&str> = lines
            .iter()
            .map(|line| line.split(" (").next().unwrap())
            .collect();
        let expected = [
            "* .",
            "* d",
            "* mode",
            "* owner",
            "* size",
            "* type",
            "+ added",
            "+ d/new name",
            "+ type/below",
            "- d/old name",
            "- gone",
        ];
        assert_eq!(found, BTreeSet::from(expected), "{lines:?}");
        let has = |start: &str| lines.iter().any(|line| line.starts_with(start));
        assert!(has("* owner (uid 0 -> 7)"), "{lines:?}");
        assert!(has("* size (size 10 -> 20"), "{lines:?}");
        let ran = diff(&old, &new, &["--format", "ndjson"]).exits(1);
        let entries = ran.lines().into_iter().map(|line| {
            let entry: Value = serde_json::from_str(line).unwrap();
            (exact(&entry, "path"), entry["size"].as_u64())
        });
        let sizes: BTreeMap<Vec<u8>, Option<u64>> = entries.collect();
        for (path, size) in [
            ("added", 10),
            ("size", 20),
            ("gone", 10),
            ("d/old name", 10),
        ] {
            assert_eq!(sizes[path.as_bytes()], Some(size), "{path}");
        }
        // Sums of groups need no names.
        let value = diff(&old, &new, &["--group-by", "type", "--json"])
            .exits(1)
            .json();
        assert!(!value["result"]["groups"].as_array().unwrap().is_empty());
    });
}
