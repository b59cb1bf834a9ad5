//! A survey as `fathom survey --json` wrote it, read back.

use serde_json::Value;

use crate::error::{Error, SCHEMA};

/// The result of a survey. The document may be of another version of fathom, or damaged, so it is
/// kept as JSON: a member that is missing or of an unexpected type is treated as absent, and the
/// rest is still used.
pub struct SavedSurvey(pub(crate) Value);

impl SavedSurvey {
    /// Parses what `fathom survey --json` printed.
    ///
    /// # Errors
    /// The document is not JSON, or not of a survey.
    pub fn parse(document: &[u8]) -> Result<SavedSurvey, Error> {
        /// How many characters of another schema are quoted.
        const QUOTED: usize = 60;
        let mut document: Value = serde_json::from_slice(document)?;
        match document["schema"].as_str() {
            Some(SCHEMA) => {}
            Some(other) => return Err(Error::OtherSchema(other.chars().take(QUOTED).collect())),
            None => return Err(Error::NoSchema),
        }
        match document.get_mut("result").map(Value::take) {
            Some(result @ Value::Object(_)) => Ok(SavedSurvey(result)),
            _ => Err(Error::NoResult),
        }
    }
}
