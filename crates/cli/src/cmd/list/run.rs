//! `fathom list`: what is in archives.

use std::os::unix::ffi::OsStrExt;

use archive::list::{Wanted, each, open, unreadable};
use mounts::Warning;
use ondisk::pax::Member;

use super::show::{Entry, Lines};
use crate::cmd::list::args::List as Args;
use crate::error::{Error, Outcome};
use crate::out::Out;

const SCHEMA: &str = "fathom.list/1";

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let names: Vec<Vec<u8>> = args
        .archives
        .iter()
        .map(|name| name.as_bytes().to_vec())
        .collect();
    let paths: Vec<Vec<u8>> = args
        .paths
        .iter()
        .map(|path| path.as_bytes().to_vec())
        .collect();
    let inputs = open(&names)?;
    let mut wanted = Wanted::new(&paths);
    let mut printer = Printer::new(out);
    let mut warnings: Vec<Warning> = Vec::new();
    for (name, mut input) in inputs {
        match each(&mut input, &mut wanted, |at, member| {
            printer.member(name, at, member)
        }) {
            Ok(()) => {}
            Err(Stop::Input(error)) => warnings.push(unreadable(&error)),
            Err(Stop::Output(failed)) => return Err(failed),
        }
    }
    warnings.extend(wanted.missing());
    printer.end(&warnings)?;
    out.warn(&warnings);
    Ok(warnings.len())
}

/// Why going through an archive ends.
enum Stop {
    Input(archive::Error),
    Output(Error),
}

impl From<archive::Error> for Stop {
    fn from(error: archive::Error) -> Stop {
        Stop::Input(error)
    }
}

/// Members on stdout, as they come: there may be more than fit in memory.
struct Printer<'a> {
    out: &'a Out,
    lines: Lines,
    buffer: Vec<u8>,
    members: u64,
    bytes: u64,
}

impl<'a> Printer<'a> {
    /// Bytes that are written at a time.
    const PIECE: usize = 64 << 10;

    fn new(out: &'a Out) -> Printer<'a> {
        Printer {
            out,
            lines: Lines::new(!out.on_terminal()),
            buffer: Vec::new(),
            members: 0,
            bytes: 0,
        }
    }

    fn member(&mut self, archive: &[u8], at: u64, member: &Member) -> Result<(), Stop> {
        if self.out.json {
            self.begin();
            let row = serde_json::to_vec(&Entry {
                archive,
                at,
                member,
            });
            self.buffer.extend(row.unwrap_or_default());
        } else {
            self.lines.line(member, &mut self.buffer);
        }
        self.members += 1;
        self.bytes += member.size;
        // Who looks on wants to see them as they come.
        if self.out.on_terminal() || self.buffer.len() >= Printer::PIECE {
            self.write()
        } else {
            Ok(())
        }
    }

    /// What comes before a member in JSON.
    fn begin(&mut self) {
        if self.members > 0 {
            return self.buffer.push(b',');
        }
        let before = self.out.envelope_parts(SCHEMA, &[]).0;
        self.buffer.extend_from_slice(before.as_bytes());
        self.buffer.extend_from_slice(br#"{"members":["#);
    }

    /// What comes behind them all.
    fn end(&mut self, warnings: &[Warning]) -> Result<(), Error> {
        if self.out.json {
            if self.members == 0 {
                self.begin();
            }
            let sums = format!(r#"],"count":{},"bytes":{}}}"#, self.members, self.bytes);
            self.buffer.extend_from_slice(sums.as_bytes());
            self.buffer
                .extend_from_slice(self.out.envelope_parts(SCHEMA, warnings).1.as_bytes());
        }
        self.out.data(&self.buffer)
    }

    fn write(&mut self) -> Result<(), Stop> {
        let written = self.out.data(&self.buffer).map_err(Stop::Output);
        self.buffer.clear();
        written
    }
}
