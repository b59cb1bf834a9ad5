//! Tests of `fathom space`: every kind of item on real file systems, compared with statvfs(2),
//! tune2fs, lsof and btrfs.

mod bill;
mod deleted;
mod subvolumes;
mod usage;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::build::{dir, tmpfs};
use crate::support::holder::Holder;
use crate::support::tool::tool;
use crate::support::{fathom, run};

const MIB: u64 = 1 << 20;

/// The result of `fathom space DIR`.
fn space(dir: &Path) -> Value {
    let args = ["space".into(), dir.as_os_str().to_owned(), "--json".into()];
    let value = run(&mut fathom(args)).json();
    assert_eq!(value["warnings"], serde_json::json!([]), "{value}");
    value["result"].clone()
}

/// The item of a kind, at a path if there is one.
#[track_caller]
fn item<'a>(result: &'a Value, kind: &str, path: Option<&Path>) -> &'a Value {
    let path = path.map(|path| path.to_str().unwrap());
    let mut items = result["items"].as_array().unwrap().iter();
    let found =
        items.find(|it| it["kind"] == kind && (path.is_none() || it["path"].as_str() == path));
    found.unwrap_or_else(|| panic!("no {kind} at {path:?}: {result:#}"))
}

fn bytes(item: &Value) -> i64 {
    item["bytes"].as_i64().unwrap()
}

/// Compares size, used and available space with statvfs(2), and checks that at most `most`
/// thousandths of the used space are unaccounted for.
#[track_caller]
fn check(result: &Value, at: &Path, most: i64) {
    let now = rustix::fs::statvfs(at).unwrap();
    let expected = [
        now.f_blocks * now.f_frsize,
        (now.f_blocks - now.f_bfree) * now.f_frsize,
        now.f_bavail * now.f_frsize,
    ];
    let found = ["size", "used", "available"].map(|field| result[field].as_u64().unwrap());
    assert_eq!(found, expected, "{result:#}");
    let items = result["items"].as_array().unwrap();
    let used = || items.iter().filter(|it| it["in_used"] == true);
    let rest = found[1].cast_signed() - used().map(bytes).sum::<i64>();
    let is_exact = used().all(|it| it["exact"] == true);
    let unaccounted = serde_json::json!(is_exact.then_some(rest));
    assert_eq!(result["unaccounted"], unaccounted, "{result:#}");
    assert!(
        rest.abs() * 1000 <= found[1].cast_signed() * most,
        "{rest}: {result:#}"
    );
    let of = |field: &str| {
        let all = result[field].as_array().unwrap().iter();
        all.map(|it| it["bytes"].as_u64().unwrap()).sum::<u64>()
    };
    // Owners and ages divide the files.
    let files = items.iter().filter(|it| {
        let kind = it["kind"].as_str().unwrap();
        ["files", "hidden"].contains(&kind) || it["part"] == "within"
    });
    let files: i64 = files.map(bytes).sum();
    assert_eq!(
        [of("owners"), of("ages")],
        [files.cast_unsigned(); 2],
        "{result:#}"
    );
    check_percent(result, at);
}

/// Compares the percentages with those of df(1).
#[track_caller]
fn check_percent(result: &Value, at: &Path) {
    let columns = "--output=pcent,itotal,iused,ipcent";
    let text = tool(Command::new("df").arg(columns).arg(at));
    let text = String::from_utf8(text).unwrap();
    let words: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
    let number = |word: &str| word.trim_end_matches('%').parse::<u64>().ok();
    let [percent, total, used, inodes] = words[..] else {
        panic!("{text}");
    };
    assert_eq!(result["percent"].as_u64(), number(percent), "{text}");
    let expected = match number(total) {
        Some(0) | None => Value::Null,
        total => {
            serde_json::json!({"total": total, "used": number(used), "percent": number(inodes)})
        }
    };
    let mut found = result["inodes"].clone();
    if let Some(inodes) = found.as_object_mut() {
        assert!(inodes.remove("places").is_some(), "{result:#}");
    }
    assert_eq!(found, expected, "{text}");
}

/// Creates a file of `size` bytes with incompressible data.
fn file(at: &Path, size: u64) -> PathBuf {
    let mut state = size ^ 0x9e37_79b9_7f4a_7c15 ^ (at.as_os_str().len() as u64) << 40;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let data: Vec<u8> = (0..size.div_ceil(8)).flat_map(|_| next()).collect();
    let mut file = fs::File::create(at).unwrap();
    file.write_all(&data[..size as usize]).unwrap();
    at.to_owned()
}

/// Fills a file system with files of every kind: plain, sparse, with several names, hidden beneath a mount, and deleted.
fn grow(at: &Path) -> Holder {
    dir(at.join("a/b"));
    dir(at.join("c"));
    file(&at.join("a/b/big"), 20 * MIB);
    fs::hard_link(at.join("a/b/big"), at.join("c/same")).unwrap();
    let sparse = fs::File::create(at.join("c/sparse")).unwrap();
    sparse.set_len(1 << 30).unwrap();
    let other = file(&at.join("c/other"), 5 * MIB);
    std::os::unix::fs::chown(&other, Some(1234), None).unwrap();
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(800 * 86_400);
    fs::File::open(&other).unwrap().set_modified(old).unwrap();
    file(&at.join("in root"), 3 * MIB);
    dir(at.join("m/n"));
    file(&at.join("m/n/covered"), 4 * MIB);
    tmpfs(at.join("m"));
    file(&at.join("m/elsewhere"), 2 * MIB);
    let gone = file(&at.join("gone"), 7 * MIB);
    let holder = Holder::of(&gone);
    fs::remove_file(gone).unwrap();
    tool(Command::new("sync").arg("-f").arg(at));
    holder
}

/// Checks the items of the files from [`grow`], including their metadata.
#[track_caller]
fn check_items(result: &Value, at: &Path, holder: &Holder) {
    for (kind, path, mebibytes) in [
        ("files", "a", 20),
        ("files", "c", 5),
        ("files", "", 3),
        ("hidden", "m", 4),
        ("deleted", "gone", 7),
    ] {
        let path = match path {
            "" => at.to_owned(),
            path => at.join(path),
        };
        let found = bytes(item(result, kind, Some(&path)));
        let more = found - mebibytes * MIB.cast_signed();
        assert!(
            (0..128 << 10).contains(&more),
            "{kind} {path:?}: {found}, {result:#}"
        );
    }
    let deleted = item(result, "deleted", None);
    assert_eq!(deleted["pid"], holder.id());
    assert_eq!(deleted["program"], "tail");
    assert_eq!(
        (&deleted["processes"], &deleted["owner"]),
        (&1.into(), &"root".into())
    );
    let owners = result["owners"].as_array().unwrap();
    let other = owners.iter().find(|it| it["owner"] == "1234").unwrap();
    assert_eq!(other["files"], 1);
    let oldest = result["ages"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&oldest["age"], &oldest["files"]),
        (&"older".into(), &1.into())
    );
    assert_eq!(oldest["bytes"], other["bytes"]);
}
