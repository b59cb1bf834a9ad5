//! Validation against the JSON schemas.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex};

use jsonschema::{Retrieve, Uri, Validator};
use serde_json::Value;

const SCHEMAS: &[(&str, &str)] = &[
    (
        "fathom.mounts/1",
        include_str!("../../docs/schemas/mounts.json"),
    ),
    (
        "fathom.mounts.watch/1",
        include_str!("../../docs/schemas/watch.json"),
    ),
    (
        "fathom.walk/1",
        include_str!("../../docs/schemas/walk.json"),
    ),
    (
        "fathom.query/1",
        include_str!("../../docs/schemas/query.json"),
    ),
    (
        "fathom.changed/1",
        include_str!("../../docs/schemas/changed.json"),
    ),
    (
        "fathom.account/1",
        include_str!("../../docs/schemas/account.json"),
    ),
    (
        "fathom.compare/1",
        include_str!("../../docs/schemas/compare.json"),
    ),
    (
        "fathom.restore/1",
        include_str!("../../docs/schemas/restore.json"),
    ),
    (
        "fathom.dump/1",
        include_str!("../../docs/schemas/dump.json"),
    ),
    (
        "fathom.dumps/1",
        include_str!("../../docs/schemas/dumps.json"),
    ),
    (
        "fathom.found/1",
        include_str!("../../docs/schemas/found.json"),
    ),
    (
        "fathom.chains/1",
        include_str!("../../docs/schemas/chains.json"),
    ),
    (
        "fathom.prune/1",
        include_str!("../../docs/schemas/prune.json"),
    ),
    (
        "fathom.snapshot/1",
        include_str!("../../docs/schemas/snapshot.json"),
    ),
    (
        "fathom.space/1",
        include_str!("../../docs/schemas/space.json"),
    ),
    (
        "fathom.list/1",
        include_str!("../../docs/schemas/list.json"),
    ),
    (
        "fathom.verify/1",
        include_str!("../../docs/schemas/verify.json"),
    ),
    (
        "fathom.pathwalk/1",
        include_str!("../../docs/schemas/pathwalk.json"),
    ),
    (
        "fathom.probe/1",
        include_str!("../../docs/schemas/probe.json"),
    ),
    (
        "fathom.pathsearch/1",
        include_str!("../../docs/schemas/pathsearch.json"),
    ),
    (
        "fathom.survey/1",
        include_str!("../../docs/schemas/survey.json"),
    ),
];

/// Loads the schemas that a schema refers to. Most refer to none.
struct Others;

impl Retrieve for Others {
    fn retrieve(&self, uri: &Uri<String>) -> Result<Value, Box<dyn Error + Send + Sync>> {
        let id = format!("\"$id\": \"{uri}\"");
        let mut schemas = SCHEMAS.iter();
        let (_, text) = schemas
            .find(|(_, text)| text.contains(&id))
            .ok_or("unknown")?;
        Ok(serde_json::from_str(text)?)
    }
}

/// The validator of a schema, compiled at its first use in this process. A debug build takes 5 to
/// 20 ms of CPU time for each, and 10 ms once for the meta-schema.
fn validator(name: &str) -> Arc<Validator> {
    static COMPILED: Mutex<BTreeMap<String, Arc<Validator>>> = Mutex::new(BTreeMap::new());
    let mut compiled = COMPILED.lock().unwrap();
    let compile = || {
        let mut schemas = SCHEMAS.iter();
        let (_, text) = schemas
            .find(|(given, _)| *given == name)
            .unwrap_or_else(|| panic!("no such schema: {name}"));
        let schema = serde_json::from_str(text).unwrap();
        let options = jsonschema::options().with_retriever(Others);
        Arc::new(options.build(&schema).unwrap())
    };
    let validator = compiled.entry(name.to_owned()).or_insert_with(compile);
    Arc::clone(validator)
}

/// Panics unless `value` names a schema and is valid.
pub(crate) fn check(value: &Value) {
    let name = value["schema"]
        .as_str()
        .unwrap_or_else(|| panic!("no schema named: {value}"));
    let faults: Vec<String> = validator(name)
        .iter_errors(value)
        .map(|e| format!("{}: {e}", e.instance_path()))
        .collect();
    assert!(faults.is_empty(), "{name}:\n{}", faults.join("\n"));
}

#[test]
fn the_schemas_are_schemas() {
    for (name, text) in SCHEMAS {
        let schema: Value = serde_json::from_str(text).unwrap();
        assert!(jsonschema::meta::is_valid(&schema), "{name}");
        validator(name); // the schemas that it refers to exist, too
        assert_eq!(
            schema["$schema"],
            "https://json-schema.org/draft/2020-12/schema"
        );
    }
}
