//! What `fathom account` and `fathom pathsearch` have in common: they run a command under a meter,
//! pass its exit status on, and report when it has ended, without touching its input and output.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use gate::file::Writer;
use show::table::TableStyle;

use crate::error::Error;
use crate::out::Out;

/// Where the report goes.
pub(crate) enum Report<'a> {
    /// Into a file; nothing is to be seen of it until it is whole.
    File(Writer, &'a [u8]),
    /// On standard output, behind what the command has written there.
    Stdout,
    /// On standard error.
    Stderr,
}

impl<'a> Report<'a> {
    /// As `-o` and `--json` have it. What can be refused is refused before anything runs.
    pub(crate) fn begin(output: Option<&'a OsStr>, out: &Out) -> Result<Report<'a>, Error> {
        match output.map(OsStr::as_bytes) {
            Some(b"-") => Ok(Report::Stdout),
            Some(name) => {
                let cannot = |e| {
                    Error::write(
                        "cannot write report",
                        name,
                        e,
                        "give a file that you may write",
                    )
                };
                Ok(Report::File(Writer::create(name).map_err(cannot)?, name))
            }
            None if out.json => Ok(Report::Stdout),
            None => Ok(Report::Stderr),
        }
    }

    /// Writes it; the command has ended with `status`.
    pub(crate) fn end(
        self,
        text: impl FnOnce(TableStyle) -> String,
        status: i32,
        out: &Out,
    ) -> Result<(), Error> {
        match self {
            Report::File(mut file, name) => {
                let next = format!("is there room? The command itself ended with status {status}");
                file.write_all(text(TableStyle::default()).as_bytes())
                    .map_err(|e| Error::write("cannot write report", name, e, &next))?;
                file.publish()
                    .map_err(|e| Error::write("cannot write report", name, e, &next))
            }
            Report::Stdout => out.data(text(out.table_style()).as_bytes()),
            Report::Stderr => out.data_err(&text(out.table_style_err())),
        }
    }
}

/// Why there is nothing to report. A command that cannot be run gives fathom its exit status.
pub(crate) fn not_metered(error: meter::Error, out: &Out) -> Error {
    if let meter::Error::Command(why) = &error {
        out.exit_with(why.exit_status());
    }
    error.into()
}
