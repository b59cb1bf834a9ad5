//! The changed figures of two files as text, as JSON and on the page.

use std::collections::BTreeMap;

use account::figures::{FigureChange, Verdict};
use show::name::printable;
use show::table::{RowColour, Table, TableStyle};
use show::units::{count, duration, plural, size};
use show::{columns, json_object};

use crate::json::Json;

/// Default number of rows per unit in a table. The limit is per unit, so that many rows with times
/// do not displace the rows with calls.
const ROWS: usize = 10;

json_object!(Json<'_, FigureChange>, |change| {
    "name": change.name,
    "unit": change.unit,
    "old": change.old.as_ref().map(|figure| figure.value),
    "old_spread": change.old.as_ref().and_then(|figure| figure.spread),
    "new": change.new.as_ref().map(|figure| figure.value),
    "new_spread": change.new.as_ref().and_then(|figure| figure.spread),
    "ratio": change.ratio(),
    "verdict": change.verdict().name(),
});

fn heading(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Changed => "Changed by more than the spread",
        Verdict::Unknown => "Different, spread unknown",
        Verdict::Missing => "In one file only",
        Verdict::Unchanged => "Within the spread",
    }
}

/// One table per verdict. Unchanged figures are omitted, unless `all` is true.
pub(super) fn figures_text(
    changes: &[FigureChange],
    names: [&[u8]; 2],
    style: TableStyle,
    all: bool,
) -> String {
    let mut text = style.wrapped(&summary(changes, names));
    for verdict in Verdict::ALL {
        let of_verdict = with_verdict(changes, verdict);
        if of_verdict.is_empty() || verdict == Verdict::Unchanged && !all {
            continue;
        }
        let mut shown = of_verdict.clone();
        if !all {
            let mut rows: BTreeMap<&str, usize> = BTreeMap::new();
            shown.retain(|change| {
                let of_unit = rows.entry(&change.unit).or_default();
                *of_unit += 1;
                *of_unit <= ROWS
            });
        }
        text += &format!("\n{}", style.heading(heading(verdict)));
        text += &table(&shown).to_text(style.width, style.color);
        let more = of_verdict.len() - shown.len();
        if more > 0 {
            text += &format!(
                "{} more (use -v to print all of them)\n",
                count(more as u64)
            );
        }
    }
    text
}

/// The tables for the HTML page, each with its caption.
pub(super) fn figures_tables(changes: &[FigureChange]) -> Vec<(&'static str, Table)> {
    let tables = Verdict::ALL.map(|verdict| {
        let of_verdict = with_verdict(changes, verdict);
        (heading(verdict), table(&of_verdict))
    });
    let tables = tables.into_iter().filter(|(_, table)| !table.is_empty());
    tables.collect()
}

/// A sentence with the number of figures by verdict.
pub(super) fn summary(changes: &[FigureChange], names: [&[u8]; 2]) -> String {
    let [old, new] = names.map(printable);
    let number = |verdict| count(with_verdict(changes, verdict).len() as u64);
    let all = plural(changes.len() as u64, "figure", "figures");
    format!(
        "From {old} to {new}: of {all}, {} changed, {} with an unknown spread differ, {} are in one file only.",
        number(Verdict::Changed),
        number(Verdict::Unknown),
        number(Verdict::Missing)
    )
}

fn with_verdict(changes: &[FigureChange], verdict: Verdict) -> Vec<&FigureChange> {
    let changes = changes.iter();
    changes.filter(|it| it.verdict() == verdict).collect()
}

fn table(changes: &[&FigureChange]) -> Table {
    let heads = columns![>"CHANGE", >"OLD", >"NEW", >"PERCENT", <"FIGURE"];
    let mut table = Table::new(&heads, changes.len());
    table.keep(heads.len());
    let cell = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    for change in changes {
        let value = |value: f64| value_text(value, &change.unit);
        let difference = change.difference();
        let sign = if difference > Some(0.0) { "+" } else { "" };
        let cells = [
            cell(difference.map(|by| format!("{sign}{}", value(by)))),
            cell(change.old.as_ref().map(|figure| value(figure.value))),
            cell(change.new.as_ref().map(|figure| value(figure.value))),
            cell(change.ratio().map(percent)),
            printable(change.name.as_bytes()).into_owned(),
        ];
        table.row(cells, RowColour::Plain);
    }
    table
}

/// Formats the ratio of new to old as a change in percent. A ratio would be confusing here, because
/// the tables for several programs, like the papers, divide old by new.
fn percent(ratio: f64) -> String {
    let percent = 100.0 * (ratio - 1.0);
    let sign = if percent < 0.0 { "-" } else { "+" };
    match percent.abs() {
        small if small < 9.95 => format!("{percent:+.1} %"),
        // A rounded -100 % would say that nothing is left.
        _ if ratio > 0.0 && percent < -99.5 => almost_all(percent),
        large => format!("{sign}{} %", count(large.round() as u64)),
    }
}

/// A percentage above -100, with at least two decimals, and as many as it takes not to print -100.
fn almost_all(percent: f64) -> String {
    let texts = (2..=9).map(|places| format!("{percent:.places$} %"));
    let mut texts = texts.filter(|text| !text.starts_with("-100"));
    texts.next().unwrap_or_else(|| "-100 %".to_owned())
}

/// A value with its unit. Counts, such as calls, have no unit.
fn value_text(value: f64, unit: &str) -> String {
    let sign = if value < 0.0 { "-" } else { "" };
    let value = value.abs();
    let text = match unit {
        "s" => duration(value),
        "bytes" => size(value as u64),
        _ if value.fract() == 0.0 => count(value as u64),
        _ if value >= 0.001 => format!("{value:.3}"),
        _ => format!("{value:.2e}"),
    };
    format!("{sign}{text}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use account::figures::{Figure, compare};
    use show::serde_json;

    fn changes() -> Vec<FigureChange> {
        let old = [
            Figure::exact("openat calls", 10.0, "calls"),
            Figure::exact("openat seconds", 0.001, "s"),
            Figure::single("real", 0.25, "s"),
            Figure::exact("read calls", 3.0, "calls"),
            Figure::exact("cache", 4096.0, "bytes"),
        ];
        let new = [
            Figure::exact("openat calls", 1200.0, "calls"),
            Figure::exact("openat seconds", 0.003, "s"),
            Figure::single("real", 0.125, "s"),
            Figure::exact("read calls", 3.0, "calls"),
            Figure::exact("cache", 1024.0, "bytes"),
            Figure::exact("drift\x1b", -1.5, "ppm"),
        ];
        compare(&old, &new)
    }

    #[test]
    fn rows_have_signs_and_names_are_escaped() {
        let names: [&[u8]; 2] = [b"a.json", b"b.json"];
        let text = figures_text(&changes(), names, TableStyle::default(), false);
        assert_eq!(
            text,
            "\
From a.json to b.json: of 6 figures, 3 changed, 1 with an unknown spread differ, 1 are in one file only.

Changed by more than the spread
  CHANGE     OLD     NEW   PERCENT FIGURE
+2.00 ms 1.00 ms 3.00 ms    +200 % openat seconds
  -3 KiB   4 KiB   1 KiB     -75 % cache
  +1,190      10   1,200 +11,900 % openat calls

Different, spread unknown
 CHANGE    OLD    NEW PERCENT FIGURE
-125 ms 250 ms 125 ms   -50 % real

In one file only
CHANGE OLD    NEW PERCENT FIGURE
     -   - -1.500       - drift\\x1b
"
        );
        let all = figures_text(&changes(), names, TableStyle::default(), true);
        assert!(
            all.contains("\nWithin the spread\n") && all.contains(" read calls\n"),
            "{all}"
        );
    }

    #[test]
    fn only_a_new_value_of_0_is_a_decrease_by_100_percent() {
        for (ratio, text) in [
            (0.0, "-100 %"),
            (2.0 / 4002.0, "-99.95 %"),
            (1e-6, "-99.9999 %"),
            (0.004, "-99.60 %"),
            (0.006, "-99 %"),
            (1e-15, "-100 %"),
        ] {
            assert_eq!(percent(ratio), text, "{ratio}");
        }
    }

    #[test]
    fn long_tables_are_cut_off_unless_all_is_requested() {
        let figures = |value| {
            let figure = |n| Figure::exact(format!("{n} calls"), value, "calls");
            (0..30).map(figure).collect::<Vec<_>>()
        };
        let changes = compare(&figures(1.0), &figures(2.0));
        let text = |all| figures_text(&changes, [b"a", b"b"], TableStyle::default(), all);
        assert!(text(false).ends_with("\n20 more (use -v to print all of them)\n"));
        assert_eq!(text(true).matches(" calls\n").count(), 30);
    }

    #[test]
    fn json_has_both_values_and_the_verdict() {
        let json = serde_json::to_value(Json(&changes()[..])).unwrap();
        assert_eq!(
            json[0],
            serde_json::json!({
                "name": "openat seconds", "unit": "s", "old": 0.001, "old_spread": 0.0,
                "new": 0.003, "new_spread": 0.0, "ratio": 3.0, "verdict": "changed",
            })
        );
        let missing = json.as_array().unwrap().iter();
        let mut missing = missing.filter(|it| it["verdict"] == "missing");
        assert!(missing.next().unwrap()["old"].is_null());
    }
}
