//! `fathom survey --diff`: what differs between two saved surveys.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use base::Warning;
use survey::diff::{Diff, Verdict};
use survey::saved::SavedSurvey;

use super::warning::WarningKind;
use crate::error::{Error, Outcome};
use crate::input::whole;
use crate::out::Out;

pub(super) mod show;
#[cfg(test)]
mod tests;

const SCHEMA: &str = "fathom.survey.diff/1";
const NEXT: &str = "give what fathom survey --json has printed";

pub(super) fn run(old: &OsStr, new: &OsStr, out: &Out) -> Outcome {
    let diff = Diff::new(&read(old)?, &read(new)?);
    let worse: Vec<Warning> = diff
        .with(Verdict::Worse)
        .map(|change| Warning::general(WarningKind::Worse(change.clone())))
        .collect();
    if out.json {
        out.envelope(SCHEMA, show::JsonDiff(&diff), &worse)?;
        out.warn(&worse);
    } else {
        // The text begins with what got worse, so warnings would repeat it.
        out.data(show::text(&diff, out.table_style(), out.verbose).as_bytes())?;
    }
    Ok(worse.len())
}

fn read(name: &OsStr) -> Result<SavedSurvey, Error> {
    const MOST: usize = 256 << 20;
    let name = name.as_bytes();
    let document = whole(name, MOST, "cannot read the survey", NEXT)?;
    SavedSurvey::parse(&document).map_err(|e| Error::read("cannot compare", name, e, NEXT))
}
