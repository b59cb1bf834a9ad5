//! `fathom verify`: checks an archive, and compares a directory with it.

use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use ::show::name::printable;
use archive::list::{self, Wanted};
use archive::run::archives_in;
use archive::verify::{Tree, verify};

use super::show;
use crate::args::values::bytes;
use crate::cmd::selection::read_list;
use crate::cmd::verify::args::Verify as Args;
use crate::error::{Error, Outcome};
use crate::out::Out;
use crate::progress::Progress;

const SCHEMA: &str = "fathom.verify/1";

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let start = Instant::now();
    let Some(archive) = args.archive.as_deref().filter(|_| args.state.is_none()) else {
        return Err(
            Error::new("verify checks one archive, and not a state directory").with_hint(
                "fathom list --state prints the archives; give verify one after the other",
            ),
        );
    };
    let archive = archive.as_bytes();
    let against = args.against.as_deref().map(OsStrExt::as_bytes);
    let filter = args.excludes.read()?.filter();
    let open =
        |dir| Tree::open(dir, filter).map_err(|e| Error::read("cannot open directory", dir, e, ""));
    let mut tree = against.map(open).transpose()?;
    if !args.files_from.is_empty() {
        let (_, listed) = read_list(&args.files_from, args.null, &[])?;
        tree = tree.map(|tree| tree.with_listed(listed));
    }
    let parts = archives_in(archive)?;
    let names = parts.unwrap_or_else(|| vec![archive.to_vec()]);
    let mut wanted = Wanted::new(&bytes(&args.paths));
    let mut progress = Progress::new(out.progress);
    let verified = verify(
        list::open(&names)?,
        &mut wanted,
        tree.as_mut(),
        |far, place, path| {
            let (members, mib) = (far.members, place >> 20);
            progress.at(|| format!("{members} members, {mib} MiB, at {}", printable(path)));
        },
    );
    drop(progress);
    let verified = verified?;
    let report = show::VerificationReport {
        archive,
        against,
        verified: &verified,
        seconds: start.elapsed().as_secs_f64(),
    };
    let print_text = || out.data(show::summary(&report));
    out.report(SCHEMA, &report, &verified.warnings, print_text)
}
