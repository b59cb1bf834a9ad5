//! A survey as `fathom survey --json` wrote it, read back.
//!
//! The document may be of another version of fathom, or damaged. So every member is `Lenient`: one
//! that is missing, or that has another type than expected, is read as absent, and the rest of the
//! document is still used.

use std::ops::Deref;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Number, Value};

use crate::error::Error;

/// The schema of a survey.
pub const SCHEMA: &str = "fathom.survey/1";

/// The members that are compared.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct SavedSurvey {
    pub(crate) root: Lenient<String>,
    root_b64: Lenient<String>,
    pub(crate) machine: Lenient<Machine>,
    pub(crate) mounts: Lenient<Mounts>,
    pub(crate) probe: List<FileSystem>,
    pub(crate) walk: Lenient<Walk>,
    pub(crate) dump: Lenient<Dump>,
    pub(crate) gates: Lenient<Gates>,
    pub(crate) startup: Lenient<Startup>,
}

impl SavedSurvey {
    /// Parses what `fathom survey --json` printed.
    ///
    /// # Errors
    /// The document is not JSON, or not of a survey.
    pub fn parse(document: &[u8]) -> Result<SavedSurvey, Error> {
        /// So much of a foreign schema is quoted.
        const QUOTED: usize = 60;
        let mut document: Value = serde_json::from_slice(document)?;
        match document["schema"].as_str() {
            Some(SCHEMA) => {}
            Some(other) => return Err(Error::OtherSchema(other.chars().take(QUOTED).collect())),
            None => return Err(Error::NoSchema),
        }
        match document.get_mut("result").map(Value::take) {
            Some(result @ Value::Object(_)) => Ok(SavedSurvey::deserialize(result)?),
            _ => Err(Error::NoResult),
        }
    }

    pub(crate) fn root_path(&self) -> Option<Vec<u8>> {
        exact_name(&self.root, &self.root_b64)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Machine {
    pub(crate) host: Lenient<String>,
    pub(crate) kernel: Lenient<String>,
    pub(crate) arch: Lenient<String>,
    pub(crate) cpus: Lenient<Number>,
    pub(crate) memory: Lenient<Number>,
    pub(crate) root: Lenient<bool>,
    pub(crate) deep: Lenient<bool>,
    pub(crate) version: Lenient<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Mounts {
    pub(crate) mounts: List<Mount>,
    pub(crate) compare: Lenient<MethodComparison>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Mount {
    target: Lenient<String>,
    target_b64: Lenient<String>,
    pub(crate) source: Lenient<String>,
    pub(crate) fstype: Lenient<String>,
    pub(crate) fsroot: Lenient<String>,
    pub(crate) kind: Lenient<String>,
    pub(crate) hidden: Lenient<bool>,
    pub(crate) verdict: Lenient<String>,
    pub(crate) options: Lenient<Vec<String>>,
}

impl Mount {
    pub(crate) fn target(&self) -> Option<Vec<u8>> {
        exact_name(&self.target, &self.target_b64)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct MethodComparison {
    pub(crate) methods: List<Method>,
    pub(crate) left_out: List<LeftOut>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Method {
    pub(crate) by: Lenient<String>,
    pub(crate) real: Lenient<Trials>,
    pub(crate) calls: Lenient<f64>,
    pub(crate) found: Lenient<f64>,
}

/// A method or an engine that was not compared.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct LeftOut {
    #[serde(alias = "engine")]
    pub(crate) by: Lenient<String>,
    pub(crate) why: Lenient<String>,
}

/// Statistics of the times of several trials.
#[derive(Clone, Copy, Deserialize)]
pub(crate) struct Trials {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct FileSystem {
    dir: Lenient<String>,
    dir_b64: Lenient<String>,
    pub(crate) fstype: Lenient<String>,
    pub(crate) experiments: List<Experiment>,
}

impl FileSystem {
    pub(crate) fn dir(&self) -> Option<Vec<u8>> {
        exact_name(&self.dir, &self.dir_b64)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Experiment {
    pub(crate) name: Lenient<String>,
    pub(crate) inferred: Lenient<Quantity>,
    pub(crate) truth: Lenient<Quantity>,
    pub(crate) unit: Lenient<String>,
    pub(crate) confidence: Lenient<f64>,
    pub(crate) by_time: Lenient<bool>,
}

/// What an experiment found.
#[derive(Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub(crate) enum Quantity {
    Number(Number),
    Text(String),
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Walk {
    pub(crate) engine: Lenient<String>,
    pub(crate) compare: Lenient<EngineComparison>,
    pub(crate) bounded: Lenient<Bounded>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct EngineComparison {
    pub(crate) engines: List<EngineRuns>,
    pub(crate) left_out: List<LeftOut>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct EngineRuns {
    pub(crate) engine: Lenient<String>,
    pub(crate) entries: Lenient<f64>,
    pub(crate) real: Lenient<Trials>,
    pub(crate) calls_per_entry: Lenient<f64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Bounded {
    pub(crate) levels: Lenient<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Dump {
    pub(crate) gather: Lenient<String>,
    pub(crate) calls: Lenient<f64>,
    pub(crate) entries: Lenient<f64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Gates {
    pub(crate) prices: List<Price>,
}

/// The price of a system call: all its members are needed.
#[derive(Deserialize)]
pub(crate) struct Price {
    pub(crate) gate: String,
    pub(crate) what: String,
    pub(crate) state: String,
    pub(crate) threads: u64,
    #[serde(default)]
    pub(crate) ns: Lenient<f64>,
    #[serde(default)]
    pub(crate) low: Lenient<f64>,
    #[serde(default)]
    pub(crate) high: Lenient<f64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Startup {
    pub(crate) path: List<PathElement>,
    pub(crate) started: List<Started>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct PathElement {
    dir: Lenient<String>,
    dir_b64: Lenient<String>,
    pub(crate) state: Lenient<String>,
    pub(crate) fstype: Lenient<String>,
}

impl PathElement {
    pub(crate) fn dir(&self) -> Option<Vec<u8>> {
        exact_name(&self.dir, &self.dir_b64)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Started {
    pub(crate) command: Lenient<String>,
    pub(crate) totals: Lenient<Lookups>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Lookups {
    pub(crate) misses: Lenient<f64>,
    pub(crate) lookups: Lenient<f64>,
}

/// The bytes of a name: from its `_b64` member, which exists where the name is not UTF-8.
fn exact_name(lossy: &Lenient<String>, coded: &Lenient<String>) -> Option<Vec<u8>> {
    let exact = coded.as_ref().and_then(|coded| STANDARD.decode(coded).ok());
    exact.or_else(|| lossy.as_ref().map(|name| name.clone().into_bytes()))
}

/// A member that is `None` unless the document has it in the expected type.
#[derive(PartialEq)]
pub(crate) struct Lenient<T>(Option<T>);

impl<T> Default for Lenient<T> {
    fn default() -> Self {
        Lenient(None)
    }
}

impl<T> Deref for Lenient<T> {
    type Target = Option<T>;

    fn deref(&self) -> &Option<T> {
        &self.0
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Ok(Lenient(T::deserialize(value).ok()))
    }
}

/// A list, without its elements of other types than expected.
pub(crate) struct List<T>(Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        List(Vec::new())
    }
}

impl<T> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let elements = Lenient::<Vec<Lenient<T>>>::deserialize(deserializer)?;
        let elements = elements.0.unwrap_or_default().into_iter();
        Ok(List(elements.filter_map(|element| element.0).collect()))
    }
}
