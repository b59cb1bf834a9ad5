//! Waits of calls, such as for pipes and sockets, as text.

use std::cmp::Reverse;

use account::report::AccountReport;
use account::waits::WaitKind;
use meter::names::DescriptorKind;
use show::table::{Align, RowColour, Table};
use show::units::{count, duration};

use super::words::{average, call_count};
use crate::out::seconds;

/// A sentence about the time that calls waited for each kind of object (pipe, socket). Kinds with
/// less than `least` nanoseconds are omitted.
pub(super) fn waits_sentence(account: &AccountReport<'_>, least: u64) -> Option<String> {
    const MOST: usize = 3;
    let waits = account.waits.iter().filter(|wait| wait.sum.nanos >= least);
    let waits = waits.take(MOST).map(|wait| {
        let time = duration(seconds(wait.sum.nanos));
        format!(
            "{} {time} ({})",
            plural(wait.kind),
            call_count(wait.sum.calls)
        )
    });
    let waits = waits.collect::<Vec<_>>().join(", ");
    (!waits.is_empty()).then(|| format!("Waiting, not included: {waits}."))
}

pub(super) fn wait_calls(account: &AccountReport<'_>) -> u64 {
    account.waits.iter().map(|wait| wait.sum.calls).sum()
}

fn plural(kind: WaitKind) -> &'static str {
    match kind {
        WaitKind::On(DescriptorKind::File) => "files",
        WaitKind::On(DescriptorKind::Pipe) => "pipes",
        WaitKind::On(DescriptorKind::Socket) => "sockets",
        WaitKind::On(DescriptorKind::Terminal) => "terminals",
        WaitKind::On(DescriptorKind::Event) => "eventfd",
        WaitKind::On(DescriptorKind::Timer) => "timers",
        WaitKind::On(DescriptorKind::Watch) => "inotify",
        WaitKind::On(DescriptorKind::Other) => "other kernel objects",
        WaitKind::On(DescriptorKind::Unknown) => "unknown descriptors",
        WaitKind::Lock => "locks",
    }
}

pub(super) fn waits_table(account: &AccountReport<'_>) -> Table {
    use Align::{Left, Right};
    let columns = [
        ("TIME", Right),
        ("CALLS", Right),
        ("ERRORS", Right),
        ("PER CALL", Right),
        ("WAITING FOR", Left),
        ("SYSTEM CALLS", Left),
    ];
    let mut table = Table::new(&columns, account.waits.len());
    for wait in &account.waits {
        let mut gates: Vec<_> = wait.gates.iter().collect();
        gates.sort_by_key(|(_, sum)| Reverse(sum.nanos));
        let gates = gates.into_iter();
        let gates = gates.map(|(name, sum)| format!("{} {name}", count(sum.calls)));
        let cells = [
            duration(seconds(wait.sum.nanos)),
            count(wait.sum.calls),
            count(wait.sum.errors),
            average(&wait.sum),
            plural(wait.kind).to_owned(),
            gates.collect::<Vec<_>>().join(", "),
        ];
        table.row(cells, RowColour::Plain);
    }
    table
}
