//! The table of system calls with their prices, and its CSV format.

use std::borrow::Cow;

use crate::error::{Error, InputFault};
use crate::records::{NumberedRecord, is_plausible, records};

/// A value for directories, and one for all other files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerKind<T> {
    /// The value for directories.
    pub dir: T,
    /// The value for files other than directories.
    pub file: T,
}

impl<T> PerKind<T> {
    /// The values for directories and for other files.
    pub const fn new(dir: T, file: T) -> PerKind<T> {
        PerKind { dir, file }
    }

    /// Applies a function to both values.
    pub fn map<U>(self, mut each: impl FnMut(T) -> U) -> PerKind<U> {
        PerKind::new(each(self.dir), each(self.file))
    }
}

/// A system call in the table: its price and number of calls.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    /// The name of the system call.
    pub name: String,
    /// The price of a call in milliseconds.
    pub ms: f64,
    /// The number of calls per directory and per file.
    pub calls: PerKind<f64>,
    /// The call is made for its effect, not for information.
    pub for_effect: bool,
}

/// The column headings, in any order; the memo's segments are called files here.
const COLUMNS: [&[&str]; 5] = [
    &["gate"],
    &["ms_per_call"],
    &["calls_per_dir"],
    &["calls_per_file", "calls_per_seg"],
    &["for_effect"],
];

/// Parses a table: comma-separated, with a line of headings; lines that begin with `#` are
/// comments.
///
/// # Errors
/// A missing column, an invalid cell, or a table without any call for information.
pub fn parse(text: &str) -> Result<Vec<Gate>, Error> {
    let mut records = records(text);
    let (line, head) = records
        .next()
        .unwrap_or_else(|| Err(InputFault::Empty.in_file()))?;
    let mut places = [0; COLUMNS.len()];
    for (place, names) in places.iter_mut().zip(COLUMNS) {
        let found = head.iter().position(|cell| names.contains(&&**cell));
        *place = found.ok_or_else(|| InputFault::NoColumn(names[0]).at(line))?;
    }
    let gate = |record: Result<NumberedRecord<'_>, Error>| {
        let (line, row) = record?;
        let (cells, headings) = (row.len(), head.len());
        if cells > headings {
            return Err(InputFault::Cells { cells, headings }.at(line));
        }
        parse_gate(&row, &places).map_err(|kind| kind.at(line))
    };
    let gates = records.map(gate).collect::<Result<Vec<_>, _>>()?;
    match fixed_price(&gates) {
        Some(_) => Ok(gates),
        None => Err(InputFault::NoGate.in_file()),
    }
}

fn parse_gate(row: &[Cow<'_, str>], places: &[usize; 5]) -> Result<Gate, InputFault> {
    let cell = |column: usize| {
        let found = row
            .get(places[column])
            .map(|cell| cell.trim())
            .filter(|cell| !cell.is_empty());
        found.ok_or(InputFault::NoCell(COLUMNS[column][0]))
    };
    let number = |column: usize| {
        let text = cell(column)?;
        let value = text.parse().ok().filter(|value| is_plausible(*value));
        value.ok_or_else(|| InputFault::NotNumber {
            text: text.to_owned(),
            column: COLUMNS[column][0],
        })
    };
    let for_effect = match cell(4)? {
        yes if yes.eq_ignore_ascii_case("yes") => true,
        no if no.eq_ignore_ascii_case("no") => false,
        other => return Err(InputFault::NotYesOrNo(other.to_owned())),
    };
    let calls = PerKind::new(number(2)?, number(3)?);
    Ok(Gate {
        name: cell(0)?.to_owned(),
        ms: number(1)?,
        calls,
        for_effect,
    })
}

/// System calls for information that are made at least once.
pub(crate) fn information_calls(gates: &[Gate]) -> impl Iterator<Item = &Gate> {
    gates
        .iter()
        .filter(|gate| !gate.for_effect && gate.calls.dir + gate.calls.file > 0.0)
}

/// The fixed price of any call, in milliseconds: that of the cheapest call for information. `None`
/// if the table has no call for information.
pub fn fixed_price(gates: &[Gate]) -> Option<f64> {
    information_calls(gates)
        .map(|gate| gate.ms)
        .min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn columns_come_in_any_order_and_segments_are_files() {
        let text = "# of a memo\r\nfor_effect,calls_per_seg,gate,ms_per_call,more,calls_per_dir\r\nno,0.5,a,14,x,2\r\n";
        let a = Gate {
            name: "a".to_owned(),
            ms: 14.0,
            calls: PerKind::new(2.0, 0.5),
            for_effect: false,
        };
        assert_eq!(parse(text), Ok(vec![a.clone()]));
        let quoted = "\u{feff}\"gate\",\"ms_per_call\",\"calls_per_dir\",\"calls_per_file\",\"for_effect\"\n\"a, \"\"b\"\"\",\"14\",2,\"0.5\",\"No\"\n";
        assert_eq!(
            parse(quoted),
            Ok(vec![Gate {
                name: "a, \"b\"".to_owned(),
                ..a
            }])
        );
    }

    #[test]
    fn errors_name_the_line() {
        let head = "gate,ms_per_call,calls_per_dir,calls_per_file,for_effect";
        for (row, line, what) in [
            ("a,14,1,1", 2, "no value for for_effect"),
            ("a,-1,1,1,no", 2, "'-1' is not a valid ms_per_call"),
            ("a,nan,1,1,no", 2, "'nan' is not a valid ms_per_call"),
            ("a,1,inf,1,no", 2, "'inf' is not a valid calls_per_dir"),
            (",1,1,1,no", 2, "no value for gate"),
            ("a,1e300,1,1,no", 2, "'1e300' is not a valid ms_per_call"),
            ("a,\"1,5\",1,1,no", 2, "'1,5' is not a valid ms_per_call"),
            ("a,1,1,1,no,1", 2, "6 cells, but 5 headings"),
            ("a,\"1,1,1,no", 2, "unclosed quote"),
            ("a,1,1,1,perhaps", 2, "for_effect must be yes or no"),
            ("a,1,1,1,yes", 0, "it has no calls for information"),
            ("a,1,0,0,no", 0, "it has no calls for information"),
        ] {
            let wrong = parse(&format!("{head}\n{row}\n")).unwrap_err();
            assert!(
                wrong.line == line && wrong.kind.to_string().starts_with(what),
                "{row}: {wrong}"
            );
        }
        assert_eq!(
            parse("gate,ms_per_call\n").unwrap_err().to_string(),
            "line 1: no column calls_per_dir"
        );
        assert_eq!(
            parse("\n# nothing\n").unwrap_err().to_string(),
            "the file is empty"
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(gate,ms_per_call,calls_per_dir,calls_per_file,for_effect\n)?[a-z0-9,.\n#-]*|\\PC*") {
            let _ = parse(&text);
        }
    }
}
