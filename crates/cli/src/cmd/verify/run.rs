//! `fathom verify`: whether an archive is whole, and a tree as it says.

use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use ::show::name::printable;
use archive::input::Input;
use archive::verify::{Tree, verify};
use walk::Filter;

use super::show;
use crate::cmd::verify::args::Verify as Args;
use crate::error::{Error, Outcome};
use crate::out::Out;
use crate::progress::Progress;

const SCHEMA: &str = "fathom.verify/1";

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let start = Instant::now();
    let archive = args.archive.as_bytes();
    let against = args.against.as_deref().map(OsStrExt::as_bytes);
    let filter = Filter::new(&args.exclude, None)
        .map_err(|error| Error::new(format!("--exclude: {error}")))?;
    let open =
        |dir| Tree::open(dir, filter).map_err(|e| Error::read("cannot open directory", dir, e, ""));
    let mut tree = against.map(open).transpose()?;
    let mut input = Input::open(archive)?;
    let mut progress = Progress::new(out.progress);
    let verified = verify(archive, &mut input, tree.as_mut(), |far, place, path| {
        progress.at(|| {
            format!(
                "{} members, {} MiB, at {}",
                far.members,
                place >> 20,
                printable(path)
            )
        });
    });
    drop(progress);
    let verified = verified?;
    let report = show::Report {
        archive,
        against,
        verified: &verified,
        seconds: start.elapsed().as_secs_f64(),
    };
    if out.json {
        out.envelope(SCHEMA, &report, &verified.warnings)?;
    } else {
        out.data(show::summary(&report).as_bytes())?;
    }
    out.warn(&verified.warnings);
    Ok(verified.warnings.len())
}
