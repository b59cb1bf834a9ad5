//! `fathom space`: accounts for every byte of a file system.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use ::show::shell::quoted;
use ::show::units::{count, duration, plural};
use archive::Users;
use base::{Capacity, Warning, WarningReason};
use space::{Bill, ExaminedMount, read_capacity};
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
    let deadline = args.deadline.unwrap_or(DEADLINE);
    let is_quiet = out.quiet && !out.json;
    let is_monitored = args.monitor.report.is_some() || args.monitor.metrics.is_some();
    if let Some(most) = args.threshold
        && is_quiet
        && !is_monitored
    {
        // statfs(2) suffices, also for a file and for a file system of the kernel.
        let (capacity, fstype) = read_capacity(dir, deadline)?;
        let above = threshold_warnings(dir, &fstype, &capacity, most);
        return Ok(out.warn(&above));
    }
    let view = ExaminedMount::of_directory(dir, deadline)?;
    let diagnostics = Diagnostics::default();
    let mut bill = watch_walk(out.messages(), &diagnostics, || view.examine(&diagnostics))?;
    let above = args
        .threshold
        .map(|most| threshold_warnings(dir, &bill.fstype, &bill.capacity, most));
    bill.warnings.extend(above.iter().flatten().cloned());
    add_facts(&bill, out);
    if let Some(above) = &above
        && is_quiet
    {
        return Ok(out.warn(above));
    }
    let seconds = start.elapsed().as_secs_f64();
    let users = Users::read();
    let report = show::SpaceReport {
        dir,
        bill: &bill,
        threshold: args.threshold,
        users: &users,
        seconds,
    };
    let warnings = out.report(SCHEMA, &report, &bill.warnings, || {
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
        if mounts::root::absolute(dir).is_some_and(|dir| dir != bill.mount_point) {
            out.note(format_args!(
                "the sizes are those of the whole file system; for this directory alone: fathom walk --format du {}",
                quoted(dir)
            ));
        }
        let used = bill.capacity.inodes_df_percent();
        if used.is_some_and(|used| used >= FEW_INODES) {
            let at = quoted(&bill.mount_point);
            out.note(format_args!(
                "next: fathom walk -x --format du --sort count --top 10 {at}"
            ));
        } else if let Some(largest) = show::largest_directory(&bill) {
            out.note(format_args!("next: fathom walk -x --format du {}", quoted(largest)));
        }
        Ok(())
    })?;
    // Files that cannot be read do not change the percentages of df(1).
    Ok(above.map_or(warnings, |above| above.len()))
}

/// Percentage of used inodes from which on the number of inodes matters more than their sizes.
const FEW_INODES: u64 = 90;

#[derive(Debug, thiserror::Error)]
enum WarningKind {
    #[error("{used} % of the space is used, more than --threshold {most} %")]
    SpaceAboveThreshold { used: u64, most: f64 },
    #[error("{used} % of the inodes are used, more than --threshold {most} %")]
    InodesAboveThreshold { used: u64, most: f64 },
}

impl WarningReason for WarningKind {}

/// The warnings that a file system is above `--threshold`. Read-only images are always full.
fn threshold_warnings(dir: &[u8], fstype: &[u8], capacity: &Capacity, most: f64) -> Vec<Warning> {
    if mounts::is_read_only_image(fstype) {
        return Vec::new();
    }
    let kinds = above_threshold(capacity, most).into_iter();
    kinds.map(|kind| Warning::about(dir, kind)).collect()
}

/// Compares the percentages of df(1), as they are printed, with `--threshold`.
fn above_threshold(capacity: &Capacity, most: f64) -> Vec<WarningKind> {
    let is_above = |used: &u64| *used as f64 > most;
    let space = capacity.df_percent().filter(is_above);
    let space = space.map(|used| WarningKind::SpaceAboveThreshold { used, most });
    let inodes = capacity.inodes_df_percent().filter(is_above);
    let inodes = inodes.map(|used| WarningKind::InodesAboveThreshold { used, most });
    space.into_iter().chain(inodes).collect()
}

/// Records metrics for `--report` and `--metrics`.
fn add_facts(bill: &Bill, out: &Out) {
    let capacity = &bill.capacity;
    out.facts.add("size_bytes", capacity.size);
    out.facts.add("used_bytes", capacity.used);
    out.facts.add("available_bytes", capacity.available);
    if capacity.inodes > 0 {
        out.facts.add("inodes", capacity.inodes);
        out.facts.add("inodes_used", capacity.inodes_used);
    }
    if let Some(percent) = capacity.df_percent() {
        out.facts.add("used_ratio", percent as f64 / 100.0);
    }
    if let Some(bytes) = bill.unaccounted() {
        out.facts.add("unaccounted_bytes", bytes);
    }
    let mut kinds: BTreeMap<&str, i64> = BTreeMap::new();
    for item in &bill.items {
        *kinds.entry(item.kind.name()).or_default() += item.bytes;
    }
    for (kind, bytes) in kinds {
        let labels = vec![("kind", kind.to_owned())];
        out.facts.add_with("item_bytes", labels, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threshold_is_compared_with_the_percentages_of_df() {
        let capacity = Capacity {
            size: 1000,
            used: 741,
            available: 259,
            inodes: 72,
            inodes_used: 72,
        };
        let texts = |most| -> Vec<String> {
            let kinds = above_threshold(&capacity, most);
            kinds.iter().map(ToString::to_string).collect()
        };
        let inodes = "100 % of the inodes are used, more than --threshold";
        assert_eq!(texts(100.0), [""; 0]);
        assert_eq!(texts(75.0), [format!("{inodes} 75 %")]);
        let space = "75 % of the space is used, more than --threshold 74 %".to_owned();
        assert_eq!(texts(74.0), [space, format!("{inodes} 74 %")]);
    }
}
