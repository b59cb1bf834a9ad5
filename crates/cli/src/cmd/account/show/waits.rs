//! Waits of calls, such as for pipes and sockets, as text.

use std::cmp::Reverse;

use account::report::AccountReport;
use account::waits::WaitKind;
use meter::names::DescriptorKind;
use show::columns;
use show::table::Table;
use show::units::{count, duration};

use super::words::{average, call_count};
use crate::out::seconds;

/// A sentence with the number of calls that waited, and the time for each kind of object (pipe,
/// socket). Kinds with less than `least` nanoseconds are added up. `None` if no call waited.
///
/// Tables of system calls do not include these calls, so that without this sentence their counts
/// would seem to differ from those of strace.
pub(super) fn waits_sentence(account: &AccountReport<'_>, least: u64) -> Option<String> {
    const MOST: usize = 3;
    let all = wait_calls(account);
    let waits = account.waits.iter().filter(|wait| wait.sum.nanos >= least);
    let named: Vec<_> = waits.take(MOST).collect();
    let others = all - named.iter().map(|wait| wait.sum.calls).sum::<u64>();
    let waits = named.into_iter().map(|wait| {
        let time = duration(seconds(wait.sum.nanos));
        format!(
            "{} {time} ({})",
            plural(wait.kind),
            call_count(wait.sum.calls)
        )
    });
    let mut waits: Vec<String> = waits.collect();
    match others {
        0 => {}
        _ if waits.is_empty() => waits.push(call_count(others)),
        _ => waits.push(format!("others ({})", call_count(others))),
    }
    let waits = waits.join(", ");
    (all > 0).then(|| format!("Waiting, not included in TIME and CALLS: {waits}."))
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
    let columns = columns![
        >"TIME", >"CALLS", >"ERRORS", >"PER CALL", <"WAITING FOR", <"SYSTEM CALLS"
    ];
    let rows = account.waits.iter().map(|wait| {
        let mut gates: Vec<_> = wait.gates.iter().collect();
        gates.sort_by_key(|(_, sum)| Reverse(sum.nanos));
        let gates = gates.into_iter();
        let gates = gates.map(|(name, sum)| format!("{} {name}", count(sum.calls)));
        [
            duration(seconds(wait.sum.nanos)),
            count(wait.sum.calls),
            count(wait.sum.errors),
            average(&wait.sum),
            plural(wait.kind).to_owned(),
            gates.collect::<Vec<_>>().join(", "),
        ]
    });
    Table::from_rows(&columns, rows)
}

#[cfg(test)]
mod tests {
    use super::super::tests::report;
    use super::*;

    #[test]
    fn all_calls_that_waited_are_counted() {
        let mut account = report(b"/x");
        let sentence = |account: &AccountReport<'_>, least| waits_sentence(account, least);
        let begin = "Waiting, not included in TIME and CALLS: ";
        let expect = |end: &str| Some(format!("{begin}{end}."));
        assert_eq!(sentence(&account, 0), expect("pipes 3.00 s (20 calls)"));
        assert_eq!(sentence(&account, u64::MAX), expect("20 calls"));
        let mut short = account.waits[0].clone();
        short.kind = WaitKind::Lock;
        (short.sum.calls, short.sum.nanos) = (1, 5);
        account.waits.push(short);
        assert_eq!(
            sentence(&account, 1000),
            expect("pipes 3.00 s (20 calls), others (1 call)")
        );
        account.waits.clear();
        assert_eq!(sentence(&account, 0), None);
    }
}
