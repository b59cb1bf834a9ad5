//! `fathom list`: lists the members of archives.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;

use archive::find::find;
use archive::increment::history::History;
use archive::list::{MemberSelection, each, open, unreadable};
use base::Warning;
use ondisk::pax::Member;

use super::show::{Entry, FoundVersions, Lines, ListedArchive};
use crate::args::values::bytes;
use crate::cmd::levels::{self, Dump};
use crate::cmd::list::args::List as Args;
use crate::date::Zone;
use crate::error::{Error, Outcome, not_an_archive};
use crate::hint::{ITS_SNAPSHOTS, has_snapshot_catalog};
use crate::input::archives_and_paths;
use crate::out::{Out, envelope};

const SCHEMA: &str = "fathom.list/1";
const FOUND_SCHEMA: &str = "fathom.found/1";
const DUMPS_SCHEMA: &str = "fathom.dumps/1";

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    if let Some(state) = &args.state {
        let paths = [bytes(&args.archives), bytes(&args.paths)].concat();
        return match paths.is_empty() {
            true => list_dumps(state.as_bytes(), out),
            false => find_in_dumps(state.as_bytes(), &paths, out),
        };
    }
    let archives = archives_and_paths(&args.archives, &args.paths)?;
    let (names, paths) = (archives.archives, archives.paths);
    let inputs = open(&names).map_err(|error| not_an_archive(error, &names))?;
    let mut wanted = MemberSelection::new(&paths);
    let mut printer = Printer::new(out);
    let mut warnings: Vec<Warning> = Vec::new();
    let mut identities = Vec::new();
    for mut opened in inputs {
        let name = opened.0;
        let print = |at, member: &Member| printer.member(name, at, member);
        match each(&mut opened, &mut wanted, &mut warnings, print) {
            Ok(()) => {}
            Err(ListError::Input(error)) => warnings.push(unreadable(&error)),
            Err(ListError::Output(error)) => return Err(error),
        }
        let lineage = opened.1.lineage();
        identities.push(ListedArchive { name, lineage });
    }
    warnings.extend(wanted.missing());
    printer.end(&identities, &warnings)?;
    Ok(out.warn(&warnings))
}

fn list_dumps(state: &[u8], out: &Out) -> Outcome {
    let history = History::read(state)?;
    let dumps = Dump::all(&history);
    let print_text = || match dumps.is_empty() {
        true => {
            note_empty(state, out);
            Ok(())
        }
        false => out.data(levels::table(&dumps, &Zone::local(), out.table_style())),
    };
    out.report(
        DUMPS_SCHEMA,
        BTreeMap::from([("dumps", &dumps)]),
        &[],
        print_text,
    )
}

fn note_empty(state: &[u8], out: &Out) {
    out.note(match has_snapshot_catalog(state) {
        true => ITS_SNAPSHOTS,
        false => "no dump with --state is recorded in this directory",
    });
}

fn find_in_dumps(state: &[u8], paths: &[Vec<u8>], out: &Out) -> Outcome {
    let history = History::read(state)?;
    if history.dumps().is_empty() {
        note_empty(state, out);
    }
    let found = find(&history, paths)?;
    let report = FoundVersions {
        state,
        history: &history,
        versions: &found.versions,
    };
    out.report(FOUND_SCHEMA, &report, &found.warnings, || {
        if !report.versions.is_empty() {
            out.names(|to| to.write_all(&report.lines(&Zone::local())))?;
            // Print the command on one line, however long, so that the user can copy it.
            out.note_table(|_| format!("to restore one: {}\n", report.command(&Zone::local())));
        }
        Ok(())
    })
}

/// The error that ended the listing of an archive: in reading the archive, or in writing the
/// output.
enum ListError {
    Input(archive::Error),
    Output(Error),
}

impl From<archive::Error> for ListError {
    fn from(error: archive::Error) -> ListError {
        ListError::Input(error)
    }
}

/// Prints members one by one, because an archive can have more members than fit in memory.
struct Printer<'a> {
    out: &'a Out,
    lines: Lines,
    buffer: Vec<u8>,
    members: u64,
    bytes: u64,
}

impl<'a> Printer<'a> {
    fn new(out: &'a Out) -> Printer<'a> {
        Printer {
            out,
            lines: Lines::new(Zone::local()),
            buffer: Vec::new(),
            members: 0,
            bytes: 0,
        }
    }

    fn member(&mut self, archive: &[u8], at: u64, member: &Member) -> Result<(), ListError> {
        const PIECE: usize = 64 << 10;
        if self.out.json {
            self.begin();
            let row = Entry {
                archive,
                at,
                member,
            };
            self.buffer
                .extend(serde_json::to_vec(&row).unwrap_or_default());
        } else {
            self.lines.line(member, &mut self.buffer);
        }
        self.members += 1;
        self.bytes = self.bytes.saturating_add(member.size);
        // On a terminal, print each member at once.
        if self.out.on_terminal() || self.buffer.len() >= PIECE {
            self.write()
        } else {
            Ok(())
        }
    }

    /// Begins the JSON of a member: with the envelope for the first member, with a comma for all
    /// others.
    fn begin(&mut self) {
        if self.members > 0 {
            return self.buffer.push(b',');
        }
        let (before, _) = envelope(SCHEMA, (), None, &[]).envelope_parts();
        self.buffer.extend(before.as_bytes());
        self.buffer.extend(br#"{"members":["#);
    }

    /// Ends the JSON, and writes what is still in the buffer.
    fn end(&mut self, archives: &[ListedArchive<'_>], warnings: &[Warning]) -> Result<(), Error> {
        if self.out.json {
            if self.members == 0 {
                self.begin();
            }
            let sums = format!(
                r#"],"count":{},"bytes":{},"archives":"#,
                self.members, self.bytes
            );
            let archives = serde_json::to_string(archives).unwrap_or_default();
            let (_, after) = envelope(SCHEMA, (), None, warnings).envelope_parts();
            let end = [&sums, &archives, "}", &after].concat();
            self.buffer.extend(end.as_bytes());
        }
        self.out.names(|to| to.write_all(&self.buffer))
    }

    fn write(&mut self) -> Result<(), ListError> {
        let written = self.out.names(|to| to.write_all(&self.buffer));
        let written = written.map_err(ListError::Output);
        self.buffer.clear();
        written
    }
}
