//! End-to-end tests of `fathom probe`. File systems are created in a mount namespace, which takes
//! root. No test depends on the speed or the load of the machine.

mod cache;
mod counts;
mod elsewhere;
mod fire;
mod replay;
mod right;
mod usage;

use serde_json::Value;

/// The finding of this name; there must be just one.
fn finding<'a>(value: &'a Value, name: &str) -> &'a Value {
    let all = value["result"]["experiments"].as_array().unwrap();
    let mut of: Vec<&Value> = all
        .iter()
        .filter(|finding| finding["name"] == name)
        .collect();
    assert_eq!(of.len(), 1, "{name}: {value}");
    of.remove(0)
}

/// The value of the finding of this name.
fn inferred<'a>(value: &'a Value, name: &str) -> &'a Value {
    &finding(value, name)["inferred"]
}

/// The names in a directory.
fn names(dir: &std::path::Path) -> Vec<String> {
    std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect()
}
