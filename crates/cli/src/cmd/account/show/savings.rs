//! The estimated savings of changes, as text.

use account::report::AccountReport;
use account::whatif::{Obstacle, WhatIfChange};
use show::columns;
use show::table::{Align, RowColour, Table, TableStyle};
use show::units::{count, duration};

use super::how::how;
use super::words::line;

/// The table of changes, their savings and how to make them; `None` if no change saves time.
pub(crate) fn what_if_text(account: &AccountReport<'_>, style: TableStyle) -> Option<String> {
    let too_short = too_short_sentence(account).map(|text| line(style, &text));
    let Some(table) = what_if_table(account) else {
        return too_short;
    };
    let table = table.to_text(style.width, style.color);
    let how = saving_changes(account);
    let how = how.map(|change| line(style, &explain_change(change)));
    let how: String = how.collect();
    let model = line(style, &model_sentence(account));
    let too_short = too_short.unwrap_or_default();
    Some(format!("{model}\n{table}\n{how}{too_short}"))
}

/// The changes that save time, the largest saving first. Changes whose calls are too few or too
/// short for an estimate are omitted.
pub(crate) fn saving_changes<'a>(
    account: &AccountReport<'a>,
) -> impl Iterator<Item = &'a WhatIfChange> + use<'a> {
    let changes = account.effective_changes().into_iter();
    changes.filter(|change| change.seconds > 0.0 && !change.is_too_short())
}

/// The elapsed time that a change saves, if the report shows savings of CPU time, and the elapsed
/// time is much more.
pub(crate) fn elapsed_saving(account: &AccountReport<'_>, change: &WhatIfChange) -> Option<f64> {
    let elapsed = change.much_elapsed();
    elapsed.filter(|_| account.what_if.elapsed.is_none())
}

/// Names the changes whose calls are too few or too short for an estimate; `None` if there is no
/// such change.
pub(crate) fn too_short_sentence(account: &AccountReport<'_>) -> Option<String> {
    let changes = account.effective_changes().into_iter();
    let names = changes.filter(|change| change.seconds > 0.0 && change.is_too_short());
    let names: Vec<&str> = names.map(|change| change.kind.name()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "{}: too short to estimate (fewer than 100 calls, or less than 10 ms in them).",
            names.join(", ")
        )
    })
}

/// The table of the savings of each change; `None` if no change saves time.
pub(crate) fn what_if_table(account: &AccountReport<'_>) -> Option<Table> {
    use Align::Right;
    let (time, percent) = match account.what_if.elapsed {
        Some(_) => ("ELAPSED", "%ELAPSED"),
        None => ("CPU TIME", "%CPU"),
    };
    let has_elapsed =
        saving_changes(account).any(|change| elapsed_saving(account, change).is_some());
    let mut columns = columns![>time, >percent].to_vec();
    if has_elapsed {
        columns.push(("ELAPSED", Right));
    }
    columns.extend(columns![>"CALLS", >"1974 MODEL", <"CHANGE"]);
    let mut table = Table::new(&columns, 0);
    for change in saving_changes(account) {
        let mut cells = vec![duration(change.seconds), format!("{:.1}", change.percent)];
        if has_elapsed {
            let elapsed = elapsed_saving(account, change);
            cells.push(duration(elapsed.unwrap_or(change.seconds)));
        }
        cells.extend([
            count(u64::try_from(change.calls).unwrap_or_default()),
            duration(change.overhead.max(0.0)),
            match change.is_advised() {
                true => change.kind.name().to_owned(),
                false => format!("{} (not advised)", change.kind.name()),
            },
        ]);
        let tone = match change.is_advised() {
            true => RowColour::Plain,
            false => RowColour::Dim,
        };
        table.row(cells, tone);
    }
    (!table.is_empty()).then_some(table)
}

/// A sentence with the total saving and the source of the prices.
pub(crate) fn model_sentence(account: &AccountReport<'_>) -> String {
    let time = match account.what_if.elapsed {
        Some(_) => "elapsed time, most of it waiting for a network file system",
        None => "CPU time",
    };
    format!(
        "Estimated savings, of {} of {time}. 1974 MODEL is {} for each call avoided. Call prices: {}.",
        duration(account.what_if.all()),
        duration(account.what_if.fixed / 1e9),
        account.price_source
    )
}

/// The name of a change, and how to make the change or why it is not advised.
pub(crate) fn explain_change(change: &WhatIfChange) -> String {
    let obstacle = match change.obstacle {
        Some(Obstacle::FewFiles) => "not advised for fewer than 1,000 files; ",
        Some(Obstacle::Device) => "impossible here, because the device cannot be opened; ",
        Some(Obstacle::Costlier) | None => "", // `how` names both costs
    };
    format!("{}: {obstacle}{}", change.kind.name(), how(change.kind))
}

#[cfg(test)]
mod tests {
    use account::whatif::ChangeKind;

    use super::super::tests::report;
    use super::*;

    #[test]
    fn changes_that_are_not_advised_are_marked_with_the_reason() {
        let mut account = report(b"/usr/bin/x");
        for (obstacle, reason) in [
            (
                Obstacle::FewFiles,
                "raw-tables: not advised for fewer than 1,000 files; on ext4",
            ),
            (
                Obstacle::Device,
                "raw-tables: impossible here, because the device cannot",
            ),
        ] {
            let mut what_if = account.what_if.clone();
            what_if.changes[0].kind = ChangeKind::RawTables { is_asked: true };
            what_if.changes[0].obstacle = Some(obstacle);
            account.what_if = Box::leak(Box::new(what_if));
            let text = what_if_text(&account, TableStyle::default()).unwrap();
            assert!(text.contains("raw-tables (not advised)\n"), "{text}");
            assert!(text.contains(reason), "{text}");
        }
    }
}
