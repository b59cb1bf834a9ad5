//! Tests of intact and damaged archives: damage is reported, and the check continues after it.

use std::fs;
use std::path::Path;

use ondisk::pax::{BLOCK, Member, MemberKind, trailer};
use serde_json::Value;

use crate::support::pack::{end, plain, push, sum};
use crate::support::run::args;
use crate::support::{fathom, run};

/// The size of each file.
const LEN: usize = 700;

/// An archive of five files, and the offsets of their headers: the first and the third file have a
/// checksum in their own header, the second and the fifth in a record after the data, and the
/// fourth has none.
fn five() -> (Vec<u8>, Vec<usize>) {
    let (mut archive, mut starts) = (Vec::new(), Vec::new());
    for n in 0..5u8 {
        starts.push(archive.len());
        let data = vec![n; LEN];
        let before = [0, 2].contains(&n).then(|| sum(&data));
        push(
            &mut archive,
            &Member {
                blake3: before,
                ..plain(format!("file {n}"), &data)
            },
            &data,
        );
        if [1, 4].contains(&n) {
            trailer(&sum(&data), &mut archive);
        }
    }
    end(&mut archive);
    (archive, starts)
}

fn verify(at: &Path, archive: &[u8], code: i32) -> Value {
    let path = at.join("archive");
    fs::write(&path, archive).unwrap();
    let value = run(&mut fathom(args!["verify", &path, "--json"]))
        .exits(code)
        .json();
    let from_pipe = run(fathom(["verify", "-", "--json"]).stdin(fs::File::open(&path).unwrap()))
        .exits(code)
        .json();
    for field in ["members", "right", "unsaid", "damaged", "bytes"] {
        assert_eq!(
            value["result"][field], from_pipe["result"][field],
            "{field}"
        );
    }
    value
}

/// The fields `members`, `right`, `unsaid`, `damaged`
fn counts(value: &Value) -> [u64; 4] {
    ["members", "right", "unsaid", "damaged"].map(|field| value["result"][field].as_u64().unwrap())
}

#[test]
fn intact_archive() {
    let place = tempfile::tempdir().unwrap();
    let (archive, _) = five();
    let value = verify(place.path(), &archive, 0);
    assert_eq!(counts(&value), [5, 4, 1, 0]);
    assert_eq!(value["result"]["whole"], true);
    let said = run(&mut fathom(args!["verify", place.path().join("archive")])).exits(0);
    assert!(said.lines()[0].starts_with("intact: 5 members, "), "{said}");
}

#[test]
fn data_of_a_selected_hard_link_is_checked_under_its_first_name() {
    let place = tempfile::tempdir().unwrap();
    let link = Member {
        kind: MemberKind::Link,
        link: b"file 0".to_vec(),
        ..plain("link", b"")
    };
    let (mut archive, starts) = five();
    archive.truncate(starts[4]);
    push(&mut archive, &link, b"");
    end(&mut archive);
    let at = place.path().join("archive");
    for (is_damaged, expected) in [(false, [1, 1, 0, 0]), (true, [1, 0, 0, 1])] {
        archive[starts[1] - BLOCK] ^= u8::from(is_damaged);
        fs::write(&at, &archive).unwrap();
        let ran = run(&mut fathom(args!["verify", &at, "--json", "--", "link"]));
        let value = ran.exits(i32::from(is_damaged)).json();
        assert_eq!(counts(&value), expected, "{value}");
        assert_eq!(value["result"]["files"], 1, "{value}");
    }
}

#[test]
fn several_archives_are_added_up() {
    let place = tempfile::tempdir().unwrap();
    let (archive, _) = five();
    verify(place.path(), &archive, 0);
    let [one, other] = ["archive", "other"].map(|name| place.path().join(name));
    fs::write(&other, &archive).unwrap();
    let said = run(&mut fathom(args!["verify", &one, &other])).exits(0);
    let begin = "intact: 2 archives, 10 members, ";
    assert!(said.lines()[0].starts_with(begin), "{said}");
    let value = run(&mut fathom(args!["verify", &one, &other, "--json"])).exits(0);
    let value = value.json();
    assert_eq!(counts(&value), [10, 8, 2, 0]);
    let names = [&one, &other].map(|path| path.to_str().unwrap());
    assert_eq!(value["result"]["archives"], serde_json::json!(names));
    assert_eq!(value["result"]["archive"], names[0]);
    fs::write(&other, &archive[..archive.len() / 2]).unwrap();
    run(&mut fathom(args!["verify", &one, &other])).exits(1);
}

#[test]
fn two_archives_concatenated() {
    let place = tempfile::tempdir().unwrap();
    let (archive, _) = five();
    let value = verify(place.path(), &[&archive[..], &archive].concat(), 1);
    assert_eq!(counts(&value), [5, 4, 1, 1]);
    assert!(
        value["warnings"][0]["message"]
            .as_str()
            .unwrap()
            .contains("data follows the end")
    );
    verify(place.path(), &[&archive[..], &[0; 4 << 20]].concat(), 0);
}

#[test]
fn damaged_data_is_found() {
    let place = tempfile::tempdir().unwrap();
    let (whole, starts) = five();
    for (n, start) in starts.iter().enumerate() {
        for at in [3 * BLOCK, 3 * BLOCK + LEN - 1] {
            let mut archive = whole.clone();
            archive[start + at] ^= 1;
            match n {
                3 => drop(verify(place.path(), &archive, 0)),
                _ => {
                    let value = verify(place.path(), &archive, 1);
                    assert_eq!(counts(&value), [5, 3, 1, 1]);
                    assert_eq!(value["warnings"][0]["path"], format!("file {n}"));
                    let message = value["warnings"][0]["message"].as_str().unwrap();
                    assert!(message.contains(&format!("at byte {start}")), "{message}");
                }
            }
        }
    }
}

#[test]
fn damaged_headers_are_found() {
    let place = tempfile::tempdir().unwrap();
    let (whole, starts) = five();
    for (n, start) in starts.iter().enumerate() {
        let mut archive = whole.clone();
        archive[start + 2 * BLOCK] ^= 1;
        let value = verify(place.path(), &archive, 1);
        // The member and its checksum are lost; all other members are found.
        let [members, right, unsaid, damaged] = counts(&value);
        assert_eq!(
            (members, right + unsaid, damaged),
            (4, 4, 1),
            "{n}: {value}"
        );
        let message = value["warnings"][0]["message"].as_str().unwrap();
        assert!(
            message.contains(&format!(
                "wrong header checksum, at byte {}",
                start + 2 * BLOCK
            )),
            "{message}"
        );
    }
}

#[test]
fn any_damaged_byte_is_found() {
    let place = tempfile::tempdir().unwrap();
    let (whole, starts) = five();
    // All fields of a ustar header, and all data that has a checksum; the records of extended
    // headers have none.
    let start = starts[2];
    let meaningful = (start..start + BLOCK).chain(start + 2 * BLOCK..start + 3 * BLOCK + LEN);
    // Skip the header's checksum field: it may end with NUL and blank, or with blank and NUL, so
    // not every change of it is damage.
    for at in meaningful
        .step_by(37)
        .filter(|at| !(148..156).contains(&((at - start) % BLOCK)))
    {
        let mut archive = whole.clone();
        archive[at] ^= 0x20;
        let value = verify(place.path(), &archive, 1);
        assert!(value["result"]["damaged"].as_u64() >= Some(1), "{at}");
    }
}
