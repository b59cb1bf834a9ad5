//! `fathom space`: the bill of a file system.

use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use ::show::units::{count, duration, plural};
use archive::Users;
use space::View;
use walk::{DEADLINE, Diagnostics};

use super::show;
use crate::cmd::space::args::Space as Args;
use crate::date::Zone;
use crate::error::Outcome;
use crate::out::Out;
use crate::progress::watch_walk;

const SCHEMA: &str = "fathom.space/1";

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let start = Instant::now();
    let dir = args.dir.as_bytes();
    let view = View::of_directory(dir, args.deadline.unwrap_or(DEADLINE))?;
    let diagnostics = Diagnostics::default();
    let bill = watch_walk(out.messages(), &diagnostics, || view.examine(&diagnostics))?;
    let seconds = start.elapsed().as_secs_f64();
    let users = Users::read();
    let report = show::Report {
        dir,
        bill: &bill,
        users: &users,
        seconds,
    };
    out.report(SCHEMA, &report, &bill.warnings, || {
        let zone = Zone::local();
        out.data(show::text(&report, args.top, &zone, out.table_style()))?;
        let calls = gate::meter::tally().calls();
        let files = plural(bill.files, "file or directory", "files and directories");
        out.note(format_args!(
            "{files} read with {} in {} and {} calls",
            bill.engine.name(),
            duration(seconds),
            count(calls)
        ));
        Ok(())
    })
}
