//! Why a table of gates, or a file of runs, cannot be read.

/// Why a table of gates, or a file of runs, cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{kind}", prefix(*line))]
pub struct Error {
    /// The line number, from 1; 0 for an error of the whole file.
    pub line: usize,
    /// The kind of error.
    pub kind: InputFault,
}

fn prefix(line: usize) -> String {
    match line {
        0 => String::new(),
        line => format!("line {line}: "),
    }
}

/// An error in a table of system calls or a file of runs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each one means")]
pub enum InputFault {
    #[error("the file is empty")]
    Empty,
    #[error("not UTF-8")]
    NotUtf8,
    #[error("unclosed quote")]
    OpenQuote,
    #[error("text after a closing quote")]
    AfterQuote,
    #[error("{cells} cells, but {headings} headings")]
    Cells { cells: usize, headings: usize },
    #[error("no column {0}")]
    NoColumn(&'static str),
    #[error("no value for {0}")]
    NoCell(&'static str),
    #[error("'{}' is not a valid {column}", text.escape_debug())]
    NotNumber { text: String, column: &'static str },
    #[error("for_effect must be yes or no, not '{}'", .0.escape_debug())]
    NotYesOrNo(String),
    #[error("it has no calls for information (for_effect is never no)")]
    NoGate,
    #[error("more than {0} columns")]
    ManyColumns(usize),
    #[error("two columns are named {}", .0.escape_debug())]
    SameColumns(String),
    #[error("no columns NAME_real, NAME_user, NAME_sys")]
    NoTimes,
    #[error("only one program, {}: nothing to compare it with", .0.escape_debug())]
    OneProgram(String),
    /// A cell is not a time or a count.
    #[error(
        "'{}' is not a valid {}: give a number, 0 or more",
        text.escape_debug(),
        column.escape_debug()
    )]
    NotTime { text: String, column: String },
    #[error("headings, but no runs")]
    NoRows,
    /// The file is not valid JSON, with the parser's message.
    #[error("not JSON: {0}")]
    NotJson(String),
    #[error("JSON without a schema: not written by fathom")]
    NoSchema,
    #[error("unsupported schema {}", .0.escape_debug())]
    OtherSchema(String),
    #[error("no figures in this JSON of fathom {0}")]
    NoFigures(String),
    #[error("no times of a run, as the tables of ratios need them")]
    NoRun,
    #[error(
        "a run has no name: call its file NAME.json or SYSTEM.NAME.json, as before.json or web1.before.json"
    )]
    NoName,
    #[error("this object is of fathom {}, those before it of fathom {}", .0, .1)]
    Mixed(String, String),
}

impl InputFault {
    /// The error with a line number.
    pub(crate) fn at(self, line: usize) -> Error {
        Error { line, kind: self }
    }

    /// The error of the file as a whole.
    pub(crate) fn in_file(self) -> Error {
        self.at(0)
    }
}
