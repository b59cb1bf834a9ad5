//! Why a document is not a survey.

/// The schema of a survey.
pub const SCHEMA: &str = "fathom.survey/1";

/// Why a document is not a survey.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not JSON.
    #[error("it is not JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// It has no `schema`.
    #[error("it has no schema; expected {SCHEMA}")]
    NoSchema,
    /// It is the result of another command.
    #[error("its schema is '{}'; expected {SCHEMA}", .0.escape_debug())]
    OtherSchema(String),
    /// It has no `result`.
    #[error("there is no result in it")]
    NoResult,
}
