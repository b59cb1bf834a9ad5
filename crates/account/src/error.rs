//! Why a table of gates, or a file of runs, cannot be read.

use crate::compare::runs::Kind;

/// Why a table of gates, or a file of runs, cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{kind}", prefix(*line))]
pub struct Error {
    /// The line, from 1; 0 when the file as a whole is meant.
    pub line: usize,
    /// What is wrong there.
    pub kind: ErrorKind,
}

fn prefix(line: usize) -> String {
    match line {
        0 => String::new(),
        line => format!("line {line}: "),
    }
}

/// What is wrong with a table or with runs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each one means")]
pub enum ErrorKind {
    #[error("it is empty")]
    Empty,
    #[error("it is not UTF-8")]
    NotUtf8,
    #[error("a quote in it is not closed")]
    OpenQuote,
    #[error("something stands behind a closing quote in it")]
    AfterQuote,
    #[error("it has {cells} cells, and the headings are {headings}")]
    Cells { cells: usize, headings: usize },
    #[error("there is no column {0}")]
    NoColumn(&'static str),
    #[error("there is no {0}")]
    NoCell(&'static str),
    #[error("'{}' is no {column}", text.escape_debug())]
    NotNumber { text: String, column: &'static str },
    #[error("for_effect is yes or no, and not '{}'", .0.escape_debug())]
    NotYesOrNo(String),
    #[error("no gate in it is called for information")]
    NoGate,
    #[error("it has more than {0} columns")]
    ManyColumns(usize),
    #[error("it has two columns {}", .0.escape_debug())]
    SameColumns(String),
    #[error("there are no columns NAME_real, NAME_user, NAME_sys")]
    NoTimes,
    #[error("there are times of {} only, and nothing to compare them with", .0.escape_debug())]
    OneProgram(String),
    /// A cell is not a time or a count.
    #[error(
        "'{}' is no {}: give a number, 0 or more",
        text.escape_debug(),
        column.escape_debug()
    )]
    NotTime { text: String, column: String },
    #[error("there are headings in it, and no runs")]
    NoRows,
    /// It is not JSON, by the parser's words.
    #[error("it is no JSON: {0}")]
    NotJson(String),
    #[error("it is none of fathom's: it names no schema")]
    NoSchema,
    #[error("it is {}", .0.escape_debug())]
    OtherSchema(String),
    #[error("it has no runs in it")]
    NotCompared(Kind),
    #[error("it has no run in it")]
    NoRun,
    #[error(
        "one run has nothing to be called by: name its file NAME.json or SYSTEM.NAME.json, as before.json or web1.before.json"
    )]
    NoName,
    #[error("here is one of fathom {}, and above are others of fathom {}", .0.name(), .1.name())]
    Mixed(Kind, Kind),
}

impl ErrorKind {
    /// The error for a line.
    pub(crate) fn at(self, line: usize) -> Error {
        Error { line, kind: self }
    }

    /// The error for the file as a whole.
    pub(crate) fn in_file(self) -> Error {
        self.at(0)
    }
}
