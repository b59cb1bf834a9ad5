//! Validation against the JSON schemas.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jsonschema::{Registry, Validator};
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
        "fathom.prune/1",
        include_str!("../../docs/schemas/prune.json"),
    ),
    (
        "fathom.snapshot/1",
        include_str!("../../docs/schemas/snapshot.json"),
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
    (
        "fathom.survey.diff/1",
        include_str!("../../docs/schemas/survey.diff.json"),
    ),
];

static VALIDATORS: LazyLock<BTreeMap<&str, Validator>> = LazyLock::new(|| {
    let parsed = |(name, text): &(_, &str)| (*name, serde_json::from_str::<Value>(text).unwrap());
    let schemas: Vec<(&str, Value)> = SCHEMAS.iter().map(parsed).collect();
    let mut registry = Registry::new();
    for (_, schema) in &schemas {
        registry = registry
            .add(schema["$id"].as_str().unwrap(), schema.clone())
            .unwrap();
    }
    let registry = registry.prepare().unwrap();
    let build = |schema| {
        jsonschema::options()
            .with_registry(&registry)
            .build(schema)
            .unwrap()
    };
    schemas
        .iter()
        .map(|(name, schema)| (*name, build(schema)))
        .collect()
});

/// Panics unless `value` names a schema and is valid.
pub(crate) fn check(value: &Value) {
    let name = value["schema"]
        .as_str()
        .unwrap_or_else(|| panic!("no schema named: {value}"));
    let validator = VALIDATORS
        .get(name)
        .unwrap_or_else(|| panic!("no such schema: {name}"));
    let faults: Vec<String> = validator
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
        assert_eq!(
            schema["$schema"],
            "https://json-schema.org/draft/2020-12/schema"
        );
    }
}
