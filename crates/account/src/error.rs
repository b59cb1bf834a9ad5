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
pub enum ErrorKind {
    /// There is nothing in it.
    #[error("it is empty")]
    Empty,
    /// It is not UTF-8.
    #[error("it is not UTF-8")]
    NotUtf8,
    /// A quoted cell has no end.
    #[error("a quote in it is not closed")]
    OpenQuote,
    /// A quoted cell goes on behind its closing quote.
    #[error("something stands behind a closing quote in it")]
    AfterQuote,
    /// A row has another number of cells than the headings.
    #[error("it has {cells} cells, and the headings are {headings}")]
    Cells {
        /// Cells of the row.
        cells: usize,
        /// Cells of the headings.
        headings: usize,
    },
    /// A table of gates lacks a column.
    #[error("there is no column {0}")]
    NoColumn(&'static str),
    /// A cell is empty.
    #[error("there is no {0}")]
    NoCell(&'static str),
    /// A cell is not a number, or not one that can be.
    #[error("'{}' is no {column}", text.escape_debug())]
    NotNumber {
        /// The cell.
        text: String,
        /// The heading of its column.
        column: &'static str,
    },
    /// The column `for_effect` is a yes or no.
    #[error("for_effect is yes or no, and not '{}'", .0.escape_debug())]
    NotYesOrNo(String),
    /// No gate of the table has a price.
    #[error("no gate in it is called for information")]
    NoGate,
    /// There are more columns than this.
    #[error("it has more than {0} columns")]
    ManyColumns(usize),
    /// Two columns have one heading.
    #[error("it has two columns {}", .0.escape_debug())]
    SameColumns(String),
    /// No column has times.
    #[error("there are no columns NAME_real, NAME_user, NAME_sys")]
    NoTimes,
    /// All columns with times are of one program.
    #[error("there are times of {} only, and nothing to compare them with", .0.escape_debug())]
    OneProgram(String),
    /// A cell is not a time or a count.
    #[error(
        "'{}' is no {}: give a number, 0 or more",
        text.escape_debug(),
        column.escape_debug()
    )]
    NotTime {
        /// The cell.
        text: String,
        /// The heading of its column.
        column: String,
    },
    /// There are headings only.
    #[error("there are headings in it, and no runs")]
    NoRows,
    /// It is not JSON, by the parser's words.
    #[error("it is no JSON: {0}")]
    NotJson(String),
    /// An object names no schema.
    #[error("it is none of fathom's: it names no schema")]
    NoSchema,
    /// An object is of a schema that has no runs.
    #[error("it is {}", .0.escape_debug())]
    OtherSchema(String),
    /// Nothing was compared in the run that an object describes.
    #[error("it has no runs in it")]
    NotCompared(Kind),
    /// An object of `account` or `pathwalk` has no run.
    #[error("it has no run in it")]
    NoRun,
    /// A run has no name of its own, and its file gives none.
    #[error(
        "one run has nothing to be called by: name its file NAME.json or SYSTEM.NAME.json, as before.json or web1.before.json"
    )]
    NoName,
    /// Objects of two kinds are in one file.
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
