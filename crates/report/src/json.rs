//! The envelope of every command's `--json`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::name::entry;

/// What passed one gate.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct GateRow {
    /// Calls, failed ones included.
    pub calls: u64,
    /// Calls that failed.
    pub errors: u64,
    /// Wall time in the calls; only while profiling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

/// What passed each gate, by name.
pub type Gates = BTreeMap<&'static str, GateRow>;

/// Something that was skipped or found wrong.
#[derive(Clone, Debug)]
pub struct Warning {
    /// The name it is about.
    pub path: Option<Vec<u8>>,
    /// The gate that failed.
    pub gate: Option<&'static str>,
    /// The error's name: `EACCES`.
    pub errno: Option<Cow<'static, str>>,
    /// What it means, and what to do next.
    pub message: String,
}

impl Serialize for Warning {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        entry(&mut map, "path", self.path.as_deref())?;
        map.serialize_entry("gate", &self.gate)?;
        map.serialize_entry("errno", &self.errno)?;
        map.serialize_entry("message", &self.message)?;
        map.end()
    }
}

/// `{"schema": ..., "result": ..., "gates": ..., "warnings": ...}`
#[derive(Clone, Debug, Serialize)]
pub struct Envelope<'a, R> {
    /// `fathom.<command>/1`
    pub schema: &'static str,
    /// What was asked for.
    pub result: R,
    /// What it cost.
    pub gates: &'a Gates,
    /// What was skipped or found wrong.
    pub warnings: &'a [Warning],
}

impl Envelope<'_, ()> {
    /// The line without its result, which belongs between the two parts: for one that is written as
    /// it comes.
    pub fn around(&self) -> (String, String) {
        let line = self.to_line();
        let (before, behind) = line.split_once("null").unwrap_or_default();
        (before.to_owned(), behind.to_owned())
    }
}

impl<R: Serialize> Envelope<'_, R> {
    /// As one line.
    pub fn to_line(&self) -> String {
        let mut line = serde_json::to_string(self).unwrap_or_default();
        line.push('\n');
        line
    }
}
