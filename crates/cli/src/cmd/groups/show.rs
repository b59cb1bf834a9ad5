//! The names of groups, and their totals as a table, CSV and JSON.

use archive::Users;
use serde::Serialize;
use show::json_object;
use show::name::printable;
use show::table::{Align, Table, Tone};
use show::units::{count, size};
use walk::group::{AGES, GroupBy, GroupSums, Growth, Key, type_of_key};

/// A group with its name.
pub(crate) struct Group<S = GroupSums> {
    /// The name in JSON and CSV.
    key: Vec<u8>,
    /// The name in the table, where it differs.
    label: Option<String>,
    sums: S,
}

json_object!(Group, |group| {
    name "key": Some(&group.key),
    "entries": group.sums.entries,
    "bytes": group.sums.bytes,
    "allocated": group.sums.allocated,
});

json_object!(Group<Growth>, |group| {
    name "key": Some(&group.key),
    "entries": group.sums.entries,
    "bytes": group.sums.bytes,
    "allocated": group.sums.allocated,
});

/// Gives groups their names. A user or group without one has its number.
pub(crate) fn named<S>(by: GroupBy, groups: Vec<(Key, S)>, users: &Users) -> Vec<Group<S>> {
    let groups = groups.into_iter();
    let named = groups.map(|(key, sums)| {
        let (key, label) = match key {
            Key::Name(name) => (name.into_vec(), None),
            Key::Number(number) => name_of_number(by, number, users),
        };
        let label = label.or_else(|| key.is_empty().then(|| "(none)".to_owned()));
        Group { key, label, sums }
    });
    named.collect()
}

fn name_of_number(by: GroupBy, number: u64, users: &Users) -> (Vec<u8>, Option<String>) {
    let or_number = |name: &[u8]| match name {
        b"" => number.to_string().into_bytes(),
        name => name.to_vec(),
    };
    let id = number as u32;
    match by {
        GroupBy::Owner => (or_number(users.user(id)), None),
        GroupBy::Group => (or_number(users.group(id)), None),
        GroupBy::Type => (type_of_key(number).name().into(), None),
        GroupBy::Age(..) => {
            let age = AGES.get(number as usize).map_or("older", |(name, _)| name);
            (age.into(), None)
        }
        GroupBy::Size if number == 0 => (b"0".into(), Some(size(0))),
        GroupBy::Size => {
            let range = format!("{} - {}", size(number), size(number.saturating_mul(4)));
            (number.to_string().into(), Some(range))
        }
        GroupBy::Links | GroupBy::Ext | GroupBy::Dir(_) => (number.to_string().into(), None),
    }
}

/// The heading of the names of groups.
fn heading(by: GroupBy) -> &'static str {
    match by {
        GroupBy::Owner => "OWNER",
        GroupBy::Group => "GROUP",
        GroupBy::Ext => "EXT",
        GroupBy::Type => "TYPE",
        GroupBy::Dir(_) => "DIRECTORY",
        GroupBy::Age(..) => "AGE",
        GroupBy::Size => "SIZE RANGE",
        GroupBy::Links => "LINKS",
    }
}

/// The table; on a terminal, with bars of the allocated space.
pub(crate) fn group_table(by: GroupBy, groups: &[Group], with_bars: bool) -> Table {
    use Align::{Left, Right};
    let columns = [
        ("ENTRIES", Right),
        ("SIZE", Right),
        ("ALLOCATED", Right),
        (heading(by), Left),
        ("", Left),
    ];
    let shown = if with_bars { 5 } else { 4 };
    let mut table = Table::new(&columns[..shown], groups.len());
    let most = groups.iter().map(|group| group.sums.allocated).max();
    for Group { key, label, sums } in groups {
        let name = label
            .as_deref()
            .map_or_else(|| printable(key), |it| it.into());
        let cells = [
            count(sums.entries).into(),
            size(sums.bytes).into(),
            size(sums.allocated).into(),
            name,
            bar(sums.allocated, most.unwrap_or(0)).into(),
        ];
        table.row(cells.into_iter().take(shown), Tone::Plain);
    }
    table
}

/// The table of how much groups grew.
pub(crate) fn growth_table(by: GroupBy, groups: &[Group<Growth>]) -> Table {
    use Align::{Left, Right};
    let columns = [
        ("ENTRIES", Right),
        ("SIZE", Right),
        ("ALLOCATED", Right),
        (heading(by), Left),
    ];
    let mut table = Table::new(&columns, groups.len());
    for Group { key, label, sums } in groups {
        let name = label
            .as_deref()
            .map_or_else(|| printable(key), |it| it.into());
        let cells = [
            signed(sums.entries, count).into(),
            signed(sums.bytes, size).into(),
            signed(sums.allocated, size).into(),
            name,
        ];
        table.row(cells, Tone::Plain);
    }
    table
}

/// A difference with its sign.
fn signed(difference: i64, text: fn(u64) -> String) -> String {
    let sign = match difference {
        0 => "",
        1.. => "+",
        _ => "-",
    };
    format!("{sign}{}", text(difference.unsigned_abs()))
}

/// A bar of at most 20 columns, in eighths of one.
fn bar(part: u64, most: u64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    const WIDTH: u128 = 20 * 8;
    let eighths = (u128::from(part) * WIDTH).checked_div(most.into());
    let eighths = eighths.unwrap_or(0) as usize;
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

pub(crate) fn group_ndjson<S>(groups: &[Group<S>]) -> String
where
    Group<S>: Serialize,
{
    let line = |group: &Group<S>| serde_json::to_string(group).unwrap_or_default() + "\n";
    groups.iter().map(line).collect()
}

/// As RFC 4180 has it. `key_b64` is empty if the key is UTF-8.
pub(crate) fn group_csv<S>(groups: &[Group<S>]) -> String
where
    Group<S>: Serialize,
{
    let mut text = "key,key_b64,entries,bytes,allocated\n".to_owned();
    for group in groups {
        let json = serde_json::to_value(group).unwrap_or_default();
        let coded = json["key_b64"].as_str().unwrap_or_default();
        let key = json["key"].as_str().unwrap_or_default();
        let [entries, bytes, allocated] =
            ["entries", "bytes", "allocated"].map(|field| &json[field]);
        let key = match key.contains(['"', ',', '\n', '\r']) {
            true => format!("\"{}\"", key.replace('"', "\"\"")),
            false => key.to_owned(),
        };
        text += &format!("{key},{coded},{entries},{bytes},{allocated}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_names_that_fit_each_format() {
        let sums = |entries| GroupSums {
            entries,
            bytes: 2048,
            allocated: 4096 * entries,
        };
        let users = Users::default();
        let sizes = vec![(Key::Number(0), sums(1)), (Key::Number(4096), sums(2))];
        let groups = named(GroupBy::Size, sizes, &users);
        let text = group_table(GroupBy::Size, &groups, false).to_text(None, false);
        assert!(
            text.contains("4 KiB - 16 KiB") && text.contains("0 B"),
            "{text}"
        );
        let names = vec![(Key::Name(b"a,\"b\xff".as_slice().into()), sums(1))];
        let groups = named(GroupBy::Ext, names, &users);
        let csv = group_csv(&groups);
        assert!(
            csv.ends_with("\"a,\"\"b\u{fffd}\",YSwiYv8=,1,2048,4096\n"),
            "{csv}"
        );
        assert!(group_ndjson(&groups).contains("\"key_b64\":\"YSwiYv8=\""));
        let none = vec![(Key::Name(Box::default()), sums(1))];
        let text = group_table(GroupBy::Ext, &named(GroupBy::Ext, none, &users), true);
        assert!(text.to_text(None, false).contains("(none)"));
    }

    #[test]
    fn growth_has_a_sign() {
        let growth = Growth {
            entries: -3,
            bytes: 2048,
            allocated: 0,
        };
        let groups = vec![(Key::Name(b"txt".as_slice().into()), growth)];
        let groups = named(GroupBy::Ext, groups, &Users::default());
        let text = growth_table(GroupBy::Ext, &groups).to_text(None, false);
        let words: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(words, ["-3", "+2", "KiB", "0", "B", "txt"]);
        assert!(group_csv(&groups).ends_with("\ntxt,,-3,2048,0\n"));
    }

    #[test]
    fn bars_are_in_proportion() {
        assert_eq!(bar(0, 0), "");
        assert_eq!(bar(5, 5), "█".repeat(20));
        assert_eq!(bar(1, 160), "▏");
    }
}
