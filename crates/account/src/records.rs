//! Comma-separated values as spreadsheets and scripts write them (RFC 4180): cells may be quoted,
//! lines may end in CR LF, a byte order mark may come first. Empty lines, and lines that begin with
//! `#`, are skipped.

use std::borrow::Cow;

use crate::error::{Error, InputFault};

/// Whether a number is plausible as a time or a count.
pub(crate) fn is_plausible(value: f64) -> bool {
    /// Thirty million years in seconds.
    const LONGEST: f64 = 1e15;
    (0.0..=LONGEST).contains(&value)
}

/// The records of a CSV text.
pub(crate) fn records(text: &str) -> Records<'_> {
    Records {
        rest: text.strip_prefix('\u{feff}').unwrap_or(text),
        line: 1,
    }
}

/// A record, with the number of its first line.
pub(crate) type NumberedRecord<'a> = (usize, Vec<Cow<'a, str>>);

pub(crate) struct Records<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<NumberedRecord<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let first = self.rest.lines().next()?;
            if !first.trim().is_empty() && !first.starts_with('#') {
                break;
            }
            self.pass(first.len());
            self.pass(self.rest.find('\n').map_or(self.rest.len(), |at| at + 1));
        }
        let line = self.line;
        let mut cells = Vec::new();
        loop {
            match self.cell() {
                Ok((cell, is_last)) => {
                    cells.push(cell);
                    if is_last {
                        return Some(Ok((line, cells)));
                    }
                }
                Err(kind) => {
                    self.rest = "";
                    return Some(Err(kind.at(line)));
                }
            }
        }
    }
}

impl<'a> Records<'a> {
    /// Skips this number of bytes, and returns the skipped text.
    fn pass(&mut self, bytes: usize) -> &'a str {
        let (passed, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.line += passed.matches('\n').count();
        self.rest = rest;
        passed
    }

    /// The next cell, and whether it ends its record.
    fn cell(&mut self) -> Result<(Cow<'a, str>, bool), InputFault> {
        let blanks = self.rest.len() - self.rest.trim_start_matches([' ', '\t']).len();
        let mut quoted = None;
        if let Some(cell) = self.rest[blanks..].strip_prefix('"') {
            self.pass(blanks + 1);
            let end = closing(cell).ok_or(InputFault::OpenQuote)?;
            let content = self.pass(end);
            self.pass(1);
            quoted = Some(match content.contains('"') {
                true => content.replace("\"\"", "\"").into(),
                false => content.into(),
            });
        }
        let end = self.rest.find([',', '\n']).unwrap_or(self.rest.len());
        let plain = self.pass(end).trim();
        let is_last = self.pass(1) != ",";
        match quoted {
            None => Ok((plain.into(), is_last)),
            Some(cell) if plain.is_empty() => Ok((cell, is_last)),
            Some(_) => Err(InputFault::AfterQuote),
        }
    }
}

/// The offset of the closing quote of a quoted cell: the first quote that is not doubled.
fn closing(cell: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + cell.get(from..)?.find('"')?;
        if cell.as_bytes().get(at + 1) != Some(&b'"') {
            return Some(at);
        }
        from = at + 2;
    }
}
