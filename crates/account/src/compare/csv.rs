//! Runs as comma-separated values: a row per system, and columns `NAME_real`, `NAME_user`,
//! `NAME_sys` and `NAME_calls` for each program.
//!
//! `NAME_user`, `NAME_sys` and `NAME_calls` count only beside a `NAME_real`, since other columns
//! may end so by chance. If NAME is `ratio` or ends in `_ratio`, its columns are not a program, but
//! printed ratios. All other columns are labels; the first label, or one called `system`, `host` or
//! the like, names the system.

use std::borrow::Cow;

use super::runs::{CSV, Measure, MeasureValues, Runs, System};
use crate::error::{Error, InputFault};
use crate::records::{NumberedRecord, is_plausible, records};

enum Column {
    Time { name: usize, measure: usize },
    Printed { measure: usize },
    Label,
}

/// Maximum number of columns: a file with more columns is not a table of runs.
const MOST_COLUMNS: usize = 1024;

/// Headings of the label that names the system. If no label has such a heading, the first label
/// names the system.
const SYSTEM: [&str; 6] = ["system", "host", "hostname", "machine", "node", "name"];

pub(super) fn parse(text: &str) -> Result<Runs, Error> {
    let mut records = records(text);
    let (line, head) = records
        .next()
        .unwrap_or_else(|| Err(InputFault::Empty.in_file()))?;
    let (names, columns) = headings(&head).map_err(|kind| kind.at(line))?;
    let labels = || (0..head.len()).filter(|&at| matches!(columns[at], Column::Label));
    let is_system = |&at: &usize| SYSTEM.contains(&head[at].to_lowercase().as_str());
    let system = labels().find(is_system).or_else(|| labels().next());
    let mut runs = Runs {
        names,
        ..Runs::new(CSV)
    };
    for record in records {
        runs.read_row(record?, &head, &columns, system)?;
    }
    if runs.systems.is_empty() {
        return Err(InputFault::NoRows.in_file());
    }
    Ok(runs)
}

impl Runs {
    /// Adds the system of a row. Its name is in the column with the index `system`.
    fn read_row(
        &mut self,
        (line, cells): NumberedRecord<'_>,
        head: &[Cow<'_, str>],
        columns: &[Column],
        system: Option<usize>,
    ) -> Result<(), Error> {
        if cells.len() != head.len() {
            let (cells, headings) = (cells.len(), head.len());
            return Err(InputFault::Cells { cells, headings }.at(line));
        }
        let mut row = System {
            line,
            took: vec![MeasureValues::default(); self.names.len()],
            ..System::default()
        };
        for (at, ((column, heading), cell)) in columns.iter().zip(head).zip(cells).enumerate() {
            let number = || number(&cell, heading).map_err(|kind| kind.at(line));
            match column {
                Column::Label if Some(at) == system => row.name = cell.into_owned().into_bytes(),
                Column::Label => row.labels.push((heading.to_string(), cell.into_owned())),
                Column::Printed { measure } => row.printed[*measure] = number()?,
                Column::Time { name, measure } => {
                    let value = number()?;
                    if value.is_none() {
                        self.empty.push((line, heading.to_string()));
                    }
                    row.took[*name][*measure] = value;
                }
            }
        }
        self.systems.push(row);
        Ok(())
    }
}

/// The NAMEs in the headings, and the role of each column.
fn headings(head: &[Cow<'_, str>]) -> Result<(Vec<String>, Vec<Column>), InputFault> {
    if head.len() > MOST_COLUMNS {
        return Err(InputFault::ManyColumns(MOST_COLUMNS));
    }
    for (at, heading) in head.iter().enumerate() {
        if !heading.is_empty() && head[..at].contains(heading) {
            return Err(InputFault::SameColumns(heading.to_string()));
        }
    }
    let split = |heading: &str| {
        let (name, suffix) = heading.rsplit_once('_')?;
        let mut measures = Measure::ALL.iter();
        let measure = measures.position(|measure| measure.name() == suffix)?;
        let is_real = |other: &Cow<'_, str>| other.strip_suffix("_real") == Some(name);
        let has_real = || head.iter().any(is_real);
        (!name.is_empty() && has_real()).then(|| (name.to_owned(), measure))
    };
    let mut names = Vec::new();
    let mut column = |heading: &Cow<'_, str>| {
        let Some((name, measure)) = split(heading) else {
            return Column::Label;
        };
        if name == "ratio" || name.ends_with("_ratio") {
            return Column::Printed { measure };
        }
        let known = names.iter().position(|known| *known == name);
        let name = known.unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        });
        Column::Time { name, measure }
    };
    let columns = head.iter().map(&mut column).collect();
    match &names[..] {
        [] => Err(InputFault::NoTimes),
        [one] => Err(InputFault::OneProgram(one.clone())),
        _ => Ok((names, columns)),
    }
}

/// Parses a cell as a number; `None` if it is empty.
fn number(cell: &str, heading: &str) -> Result<Option<f64>, InputFault> {
    if cell.is_empty() {
        return Ok(None);
    }
    match cell.trim().parse() {
        Ok(value) if is_plausible(value) => Ok(Some(value)),
        _ => Err(InputFault::NotTime {
            text: cell.to_owned(),
            column: heading.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wrong(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn as_a_spreadsheet_writes_it() {
        let text = "\u{feff}# runs\r\n\"os, version\",host,\"a_real\",a_user,b_real,b_user,last_user\r\n\r\n\
                    \"Debian \"\"13\"\"\", x , 4.0,\"1\",2e0,+0.5,root\r\n\"two\nlines\",y,1,,1,0,\n";
        let runs = parse(text).unwrap();
        assert_eq!(runs.names, ["a", "b"]);
        let [x, y] = &runs.systems[..] else {
            panic!("{runs:?}")
        };
        assert_eq!((&x.name[..], x.line), (&b"x"[..], 4));
        let labels = |system: &System| {
            system
                .labels
                .iter()
                .map(|(_, label)| label.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(labels(x), ["Debian \"13\"", "root"]);
        assert_eq!(
            x.took,
            [
                [Some(4.0), Some(1.0), None, None],
                [Some(2.0), Some(0.5), None, None]
            ]
        );
        assert_eq!(
            (labels(y), y.line),
            (vec!["two\nlines".to_owned(), String::new()], 5)
        );
        assert_eq!(runs.empty, [(5, "a_user".to_owned())]);
    }

    #[test]
    fn errors_name_the_line() {
        assert_eq!(wrong(""), "the file is empty");
        assert_eq!(wrong("# nothing\n\n"), "the file is empty");
        assert_eq!(wrong("a_real,b_real\n"), "headings, but no runs");
        assert_eq!(
            wrong("real,user,sys\n1,1,1\n"),
            "line 1: no columns NAME_real, NAME_user, NAME_sys"
        );
        assert_eq!(
            wrong("a_real,a_user\n1,1\n"),
            "line 1: only one program, a: nothing to compare it with"
        );
        assert_eq!(
            wrong("\na_real,printed_ratio_real\n"),
            "line 2: only one program, a: nothing to compare it with"
        );
        assert_eq!(
            wrong("a_real,b_real,a_real\n"),
            "line 1: two columns are named a_real"
        );
        assert_eq!(
            wrong("a_real,b_real\n1,2\n1\n"),
            "line 3: 1 cells, but 2 headings"
        );
        assert_eq!(
            wrong("a_real,b_real\n1,2,3\n"),
            "line 2: 3 cells, but 2 headings"
        );
        assert_eq!(wrong("a_real,b_real\n1,\"2\n"), "line 2: unclosed quote");
        assert_eq!(
            wrong("a_real,b_real\n1,\"2\"3\n"),
            "line 2: text after a closing quote"
        );
        for bad in [
            "-1",
            "nan",
            "inf",
            "1e16",
            "1e999",
            "1.2.3",
            "1s",
            "\"1,5\"",
            "\u{1b}[1m",
            "0x10",
        ] {
            let shown = bad.trim_matches('"').escape_debug().to_string();
            let line = format!("line 3: '{shown}' is not a valid b_real: give a number, 0 or more");
            assert_eq!(wrong(&format!("a_real,b_real\n1,2\n1,{bad}\n")), line);
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(a_real,b_real,b_user\n)?[a-z0-9,.\"\n\r#-]*|\\PC*") {
            let _ = parse(&text);
        }

        #[test]
        fn what_is_quoted_comes_back(cells in proptest::collection::vec("[a-z,\"\n\r ]{0,9}", 1..5)) {
            let quoted: Vec<String> = cells.iter().map(|cell| format!("\"{}\"", cell.replace('"', "\"\""))).collect();
            let heads: Vec<String> = (0..cells.len()).map(|n| format!("label{n}")).collect();
            let text = format!("a_real,b_real,{}\n1,2,{}\n3,4,{}\n", heads.join(","), quoted.join(","), quoted.join(","));
            let runs = parse(&text).unwrap();
            prop_assert_eq!(runs.systems.len(), 2);
            for system in &runs.systems {
                let labels = std::iter::once(String::from_utf8(system.name.clone()).unwrap());
                let labels: Vec<String> = labels.chain(system.labels.iter().map(|(_, label)| label.clone())).collect();
                prop_assert_eq!(&labels, &cells);
            }
        }
    }
}
