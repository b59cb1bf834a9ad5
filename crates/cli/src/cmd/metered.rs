//! Shared by `fathom account` and `fathom pathsearch`: run a command under a meter, return its exit
//! status, and report after it has ended, without touching its input and output.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use gate::Errno;
use gate::file::{Permissions, Writer};
use show::table::TableStyle;

use crate::error::Error;
use crate::out::Out;
use crate::ranks::check_own_output;

/// The destination of the report.
pub(crate) enum ReportTarget<'a> {
    /// Write the report into a file, atomically.
    File(Writer, &'a [u8]),
    /// Write the report to standard output, after the output of the command.
    Stdout,
    Stderr,
}

impl<'a> ReportTarget<'a> {
    /// Opens the destination before the command runs, so that an error ends fathom first: the file
    /// of `-o`; otherwise standard output for machine formats, and standard error for text.
    pub(crate) fn begin(
        command: &str,
        output: Option<&'a OsStr>,
        is_for_programs: bool,
    ) -> Result<ReportTarget<'a>, Error> {
        match output.map(OsStr::as_bytes) {
            Some(b"-") => Ok(ReportTarget::Stdout),
            Some(name) => {
                check_own_output(command, name)?;
                let cannot = |e| Error::write("cannot write the report to", name, e, "");
                Ok(ReportTarget::File(
                    Writer::create(name, Permissions::Public).map_err(cannot)?,
                    name,
                ))
            }
            None if is_for_programs => Ok(ReportTarget::Stdout),
            None => Ok(ReportTarget::Stderr),
        }
    }

    /// Writes the report of a command that has ended with `status`.
    pub(crate) fn end(
        self,
        text: impl FnOnce(TableStyle) -> String,
        status: i32,
        out: &Out,
    ) -> Result<(), Error> {
        match self {
            ReportTarget::File(mut file, name) => {
                let exited = format!("the command itself exited with status {status}");
                let next = format!("check the free space; {exited}");
                file.write_all(text(TableStyle::default()).as_bytes())
                    .map_err(|e| Error::write("cannot write the report to", name, e, &next))?;
                file.publish().map_err(|e| {
                    let next = match e {
                        Errno::ENOENT => format!(
                            "the directory, or the temporary file in it, was removed; {exited}"
                        ),
                        _ => next,
                    };
                    Error::write("cannot write the report to", name, e, &next)
                })
            }
            // JSON contains unescaped names: escape control characters on a terminal.
            ReportTarget::Stdout if out.json => {
                let text = text(out.table_style());
                out.names(|to| to.write_all(text.as_bytes()))
            }
            ReportTarget::Stdout => out.data(text(out.table_style())),
            ReportTarget::Stderr => {
                let text = text(out.table_style_err());
                std::io::stderr().write_all(text.as_bytes()).map_err(|e| {
                    Error::new(format!("cannot write the report to standard error: {e}"))
                        .with_hint("write it to a file with -o")
                })
            }
        }
    }
}

/// The error of a command that could not be metered. If the command cannot be executed, fathom
/// exits with the status that a shell would return.
pub(crate) fn not_metered(error: meter::Error, out: &Out) -> Error {
    if let meter::Error::Command(why) = &error {
        out.exit_with(why.exit_status());
    }
    error.into()
}
