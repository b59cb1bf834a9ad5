//! `fathom survey --diff`: what has changed from one survey to another.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use mounts::Warning;
use report::survey::diff::{Verdict, diff};
use serde_json::Value;

use crate::error::{Error, Outcome};
use crate::input::whole;
use crate::out::Out;

const SCHEMA: &str = "fathom.survey.diff/1";
const NEXT: &str = "give what fathom survey --json has printed";

pub(super) fn run(old: &OsStr, new: &OsStr, out: &Out) -> Outcome {
    let names = [old.as_bytes(), new.as_bytes()];
    let [old, new] = [read(names[0])?, read(names[1])?];
    let diff = diff(&old, &new)
        .map_err(|(which, why)| Error::read("cannot compare", names[which.min(1)], why, NEXT))?;
    let worse: Vec<Warning> = diff
        .of(Verdict::Worse)
        .map(|change| Warning::general(change.to_line()))
        .collect();
    if out.json {
        out.envelope(SCHEMA, &diff, &worse)?;
        out.warn(&worse);
    } else {
        // What got worse is what the text begins with: it need not be said twice.
        out.data(diff.to_text(out.look(), out.verbose).as_bytes())?;
    }
    Ok(worse.len())
}

fn read(name: &[u8]) -> Result<Value, Error> {
    const MOST: usize = 256 << 20;
    let bytes = whole(name, MOST, "cannot read the survey", NEXT)?;
    serde_json::from_slice(&bytes)
        .map_err(|e| Error::read("cannot compare", name, format!("it is not JSON: {e}"), NEXT))
}
