//! Validates each object that a test reads against its JSON schema.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jsonschema::{Registry, Validator};
use serde_json::Value;

/// A schema by the name that objects give it, and its text.
macro_rules! schemas {
    ($($name:literal $file:literal,)*) => {
        &[$((
            concat!("fathom.", $name, "/1"),
            include_str!(concat!("../../docs/schemas/", $file, ".json")),
        ),)*]
    };
}

const SCHEMAS: &[(&str, &str)] = schemas! {
    "mounts" "mounts",
    "mounts.watch" "watch",
    "walk" "walk",
    "changed" "changed",
    "account" "account",
    "compare" "compare",
    "restore" "restore",
    "dump" "dump",
    "list" "list",
    "verify" "verify",
    "pathwalk" "pathwalk",
    "probe" "probe",
    "pathsearch" "pathsearch",
    "survey" "survey",
    "survey.diff" "survey.diff",
};

/// The definitions that the schemas share.
const COMMON: &str = include_str!("../../docs/schemas/common.json");

static VALIDATORS: LazyLock<BTreeMap<&str, Validator>> = LazyLock::new(|| {
    let parsed = |(name, text): &(_, &str)| (*name, serde_json::from_str::<Value>(text).unwrap());
    let schemas: Vec<(&str, Value)> = SCHEMAS.iter().map(parsed).collect();
    let common: Value = serde_json::from_str(COMMON).unwrap();
    let mut registry = Registry::new();
    for schema in schemas.iter().map(|(_, schema)| schema).chain([&common]) {
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

/// Panics unless `value` names a schema and is valid by it.
pub(crate) fn check(value: &Value) {
    let name = value["schema"]
        .as_str()
        .unwrap_or_else(|| panic!("no schema named: {value}"));
    let validator = VALIDATORS
        .get(name)
        .unwrap_or_else(|| panic!("no such schema: {name}"));
    let errors: Vec<String> = validator
        .iter_errors(value)
        .map(|e| format!("{}: {e}", e.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{name}:\n{}", errors.join("\n"));
}

#[test]
fn the_schemas_are_valid_schemas() {
    for (name, text) in SCHEMAS.iter().chain(&[("common", COMMON)]) {
        let schema: Value = serde_json::from_str(text).unwrap();
        assert!(jsonschema::meta::is_valid(&schema), "{name}");
        assert_eq!(
            schema["$schema"],
            "https://json-schema.org/draft/2020-12/schema"
        );
    }
}
