//! Tests that a proposal saves the difference of two predictions: for the command as it is, and for
//! the command with the proposal.

use std::ffi::OsString;
use std::path::Path;

use serde_json::Value;

use super::searched_with;
use crate::support::run::args;
use crate::support::{Need, require};

/// The predicted requests that the start waits for, with cold caches.
fn waited(value: &Value) -> u64 {
    let rows = value["result"]["predicted"]["requests"].as_array().unwrap();
    let waited = rows.iter().filter(|row| row["waited_for"] == true);
    waited.map(|row| row["cold"].as_u64().unwrap()).sum()
}

/// The proposal whose text contains a word.
fn proposal<'a>(value: &'a Value, word: &str) -> &'a Value {
    let mut fixes = value["result"]["fixes"].as_array().unwrap().iter();
    let found = fixes.find(|fix| fix["change"].as_str().unwrap().contains(word));
    found.unwrap_or_else(|| panic!("no proposal about {word}: {value}"))
}

/// Searches with and without a variable. Returns the report with it, and the predicted requests that
/// the proposal saves and that the start without the variable saves.
fn compare(flags: &[&str], command: &[OsString], variable: &str, list: &str) -> (Value, u64, u64) {
    let place = tempfile::tempdir().unwrap();
    let search = |is_set: bool| {
        let (value, ran) = searched_with(place.path(), flags, command, |program| {
            program
                .env("PATH", "/usr/bin:/bin")
                .env("PYTHONDONTWRITEBYTECODE", "1")
                .env_remove("PYTHONPATH")
                .current_dir("/");
            if is_set {
                program.env(variable, list);
            }
        });
        assert_eq!(ran.code(), 0, "{ran}");
        value
    };
    let (with, without) = (search(true), search(false));
    let saved = proposal(&with, variable)["saves_requests"]
        .as_u64()
        .unwrap();
    let difference = waited(&with).saturating_sub(waited(&without));
    (with, saved, difference)
}

/// Twenty empty directories, as the value of a variable.
fn empty_directories(place: &Path) -> String {
    let dirs = (0..20).map(|n| place.join(format!("lib{n}")));
    let made = dirs.map(|dir| {
        std::fs::create_dir_all(&dir).unwrap();
        dir.display().to_string()
    });
    made.collect::<Vec<_>>().join(":")
}

#[test]
fn directories_of_ld_library_path_save_what_the_start_without_them_saves() {
    if require(&[Need::Program("env")]) {
        let place = tempfile::tempdir().unwrap();
        let list = empty_directories(place.path()) + ":/opt/no-such-directory/lib";
        let command = args!["env", "true"].to_vec();
        let (_, saved, difference) = compare(&["--rtt", "5ms"], &command, "LD_LIBRARY_PATH", &list);
        // Each directory takes at least a LOOKUP, an ACCESS, and LOOKUPs of names in it.
        assert!(saved >= 3 * 20, "{saved}");
        assert_eq!(saved, difference);
    }
}

#[test]
fn directories_of_pythonpath_save_what_the_start_without_them_saves() {
    if require(&[Need::File("/usr/bin/python3")]) {
        let place = tempfile::tempdir().unwrap();
        let list = empty_directories(place.path()) + ":/opt/no-such-directory/lib";
        let command = args!["/usr/bin/python3", "-c", "import json, decimal"].to_vec();
        let (_, saved, difference) = compare(&["--rtt", "5ms"], &command, "PYTHONPATH", &list);
        // Each directory takes at least a LOOKUP and a READDIR.
        assert!(saved >= 2 * 20, "{saved}");
        assert!(saved.abs_diff(difference) <= 3, "{saved}, but {difference}");
    }
}

#[test]
fn savings_are_those_of_the_predicted_number_of_nodes() {
    if require(&[Need::Program("env")]) {
        let place = tempfile::tempdir().unwrap();
        let list = empty_directories(place.path());
        let command = args!["env", "true"].to_vec();
        let flags = ["--rtt", "500us", "--nodes", "1000", "--server-rate", "5000"];
        let (value, saved, _) = compare(&flags, &command, "LD_LIBRARY_PATH", &list);
        let fix = proposal(&value, "LD_LIBRARY_PATH");
        let seconds = fix["saves_seconds"].as_f64().unwrap();
        // The server answers each request of 1000 nodes in 0.2 s.
        let expected = 0.2 * saved as f64;
        assert!(
            (0.9 * expected..=1.1 * expected).contains(&seconds),
            "{fix}"
        );
        let total = value["result"]["predicted"]["seconds"].as_f64().unwrap();
        for fix in value["result"]["fixes"].as_array().unwrap() {
            assert!(fix["saves_seconds"].as_f64().unwrap() <= total, "{fix}");
        }
    }
}

#[test]
fn copied_files_leave_the_requests_for_other_names() {
    if require(&[Need::Program("dash")]) {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("data");
        std::fs::write(&file, "text").unwrap();
        let tests = (0..50).map(|n| format!("test -e {}/none{n}; ", place.path().display()));
        let script = format!("{}cat {}", tests.collect::<String>(), file.display());
        let place = tempfile::tempdir().unwrap();
        let command = args!["dash", "-c", script].to_vec();
        let (value, _) = searched_with(place.path(), &["--rtt", "5ms"], &command, |_| {});
        let saved = proposal(&value, "copy the ")["saves_requests"]
            .as_u64()
            .unwrap();
        assert!(
            saved > 0 && saved + 50 <= waited(&value),
            "{saved}: {value}"
        );
    }
}
