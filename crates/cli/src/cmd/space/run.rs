//! `fathom space`: accounts for every byte of a file system.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use ::show::units::{count, duration, plural};
use archive::Users;
use base::{Warning, WarningReason};
use space::{Bill, View};
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
    let mut bill = watch_walk(out.messages(), &diagnostics, || view.examine(&diagnostics))?;
    let used = used_percent(bill.used, bill.available);
    if let Some(most) = args.threshold.filter(|most| used > *most) {
        let full = Warning::about(dir, WarningKind::AboveThreshold { used, most });
        bill.warnings.push(full);
    }
    add_facts(&bill, out);
    let seconds = start.elapsed().as_secs_f64();
    let users = Users::read();
    let report = show::SpaceReport {
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

#[derive(Debug, thiserror::Error)]
enum WarningKind {
    #[error("{used:.0} % of the space is used, more than --threshold {most} %")]
    AboveThreshold { used: f64, most: f64 },
}

impl WarningReason for WarningKind {}

/// The percentage of used space, as df(1) computes it.
fn used_percent(used: u64, available: u64) -> f64 {
    match used.saturating_add(available) {
        0 => 0.0,
        all => 100.0 * used as f64 / all as f64,
    }
}

/// Records metrics for `--report` and `--metrics`.
fn add_facts(bill: &Bill, out: &Out) {
    let facts = [
        ("size_bytes", "Size of the file system", bill.size),
        ("used_bytes", "Space that is used", bill.used),
        (
            "available_bytes",
            "Space that users can use",
            bill.available,
        ),
    ];
    for (name, help, value) in facts {
        out.facts.add(name, help, value);
    }
    let unaccounted = "Used space that is not accounted for";
    out.facts
        .add("unaccounted_bytes", unaccounted, bill.unaccounted());
    let mut kinds: BTreeMap<&str, i64> = BTreeMap::new();
    for item in &bill.items {
        *kinds.entry(item.kind.name()).or_default() += item.bytes;
    }
    for (kind, bytes) in kinds {
        let labels = vec![("kind", kind.to_owned())];
        let help = "Space by what it is used for";
        out.facts.add_with("item_bytes", help, labels, bytes);
    }
}
