//! The names of groups, and their totals as a table, CSV and JSON.

use std::io::{self, Write};

use archive::Users;
use serde::{Serialize, Serializer};
use show::json_object;
use show::name::printable;
use show::table::{Align, RowColour, Table, TableStyle};
use show::units::{count, size};
use walk::group::{AGES, GroupBy, GroupSums, Growth, Key, SortedGroups, type_of_key};

/// Groups whose names are generated one by one while they are printed, because a list of many long
/// names would take much memory.
#[derive(Clone, Copy)]
pub(crate) struct NamedGroups<'a, S> {
    pub(crate) by: GroupBy,
    pub(crate) groups: &'a SortedGroups<S>,
    pub(crate) users: &'a Users,
}

/// A group with its name.
pub(crate) struct Group<S> {
    /// The name of the group in JSON and CSV.
    key: Vec<u8>,
    /// The name in the table, if it differs from `key`.
    label: Option<String>,
    sums: S,
}

json_object!(Group<GroupSums>, |group| {
    name "key": Some(&group.key),
    "entries": group.sums.entries,
    "bytes": at_most_64_bits(group.sums.bytes),
    "allocated": at_most_64_bits(group.sums.allocated),
});

json_object!(Group<Growth>, |group| {
    name "key": Some(&group.key),
    "entries": group.sums.entries,
    "bytes": group.sums.bytes,
    "allocated": group.sums.allocated,
});

impl<S: Copy> Serialize for NamedGroups<'_, S>
where
    Group<S>: Serialize,
{
    fn serialize<T: Serializer>(&self, serializer: T) -> Result<T::Ok, T::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<S: Copy> NamedGroups<'_, S> {
    /// The groups with their names. A user or group id without a name is named by its number.
    fn iter(&self) -> impl Iterator<Item = Group<S>> {
        self.groups.iter().map(|(key, sums)| {
            let (key, label) = match key {
                Key::Name(name) => (name.into_vec(), None),
                Key::Number(number) => name_of_number(self.by, number, self.users),
            };
            let label = label.or_else(|| key.is_empty().then(|| "(none)".to_owned()));
            Group { key, label, sums }
        })
    }
}

impl<S> Group<S> {
    fn label(&self) -> String {
        let label = self.label.clone();
        label.unwrap_or_else(|| printable(&self.key).into_owned())
    }
}

pub(crate) fn at_most_64_bits(sum: u128) -> u64 {
    sum.try_into().unwrap_or(u64::MAX)
}

/// The name of a user or group; the number if the name is empty.
pub(crate) fn or_number(name: &[u8], id: u32) -> Vec<u8> {
    match name {
        b"" => id.to_string().into_bytes(),
        name => name.to_vec(),
    }
}

fn name_of_number(by: GroupBy, number: u64, users: &Users) -> (Vec<u8>, Option<String>) {
    let id = number as u32;
    match by {
        GroupBy::Owner => (or_number(users.user(id), id), None),
        GroupBy::Group => (or_number(users.group(id), id), None),
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

/// The column heading above the names of groups.
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

/// The label of the last row of a table.
const TOTAL: &str = "total";

/// The columns common to all tables of groups.
fn columns(by: GroupBy) -> [(&'static str, Align); 4] {
    use Align::{Left, Right};
    [
        ("ENTRIES", Right),
        ("SIZE", Right),
        ("ALLOCATED", Right),
        (heading(by), Left),
    ]
}

impl NamedGroups<'_, GroupSums> {
    /// Writes the table; on a terminal, with bars of the allocated space. With `has_total`, the
    /// last row has the total of all groups.
    pub(crate) fn write_table(
        &self,
        style: TableStyle,
        has_total: bool,
        put: &mut dyn FnMut(&str),
    ) {
        let mut columns = columns(self.by).to_vec();
        columns.extend(style.width.map(|_| ("", Align::Left)));
        let most = self.groups.sums().map(|sums| sums.allocated).max();
        let most = at_most_64_bits(most.unwrap_or(0));
        let cells = |sums: GroupSums, label: String, most: u64| {
            let allocated = at_most_64_bits(sums.allocated);
            let cells = [
                count(sums.entries),
                size(at_most_64_bits(sums.bytes)),
                size(allocated),
                label,
                bar(allocated, most),
            ];
            cells.into_iter().take(columns.len())
        };
        let rows = || {
            let groups = self.iter();
            let groups = groups.map(|group| cells(group.sums, group.label(), most));
            // The total has no bar: those of the groups are relative to the largest group.
            groups.chain(has_total.then(|| cells(self.groups.total(), TOTAL.to_owned(), 0)))
        };
        write_rows(&columns, rows, style, put);
    }
}

impl NamedGroups<'_, Growth> {
    /// Writes the table of the growth of each group; the last row has the total of all groups.
    pub(crate) fn write_table(&self, style: TableStyle, put: &mut dyn FnMut(&str)) {
        let cells = |growth: Growth, label: String| {
            [
                signed(growth.entries, count),
                signed(growth.bytes, size),
                signed(growth.allocated, size),
                label,
            ]
            .into_iter()
        };
        let rows = || {
            let groups = self.iter();
            let groups = groups.map(|group| cells(group.sums, group.label()));
            groups.chain([cells(self.groups.total(), TOTAL.to_owned())])
        };
        write_rows(&columns(self.by), rows, style, put);
    }
}

/// Writes a table whose rows are generated one by one, because a list of many long paths would take
/// much memory. Each row is generated twice: to measure the columns, and to print the row.
pub(crate) fn write_rows<R: Iterator<Item = String>, T: Iterator<Item = R>>(
    columns: &[(&'static str, Align)],
    rows: impl Fn() -> T,
    style: TableStyle,
    put: &mut dyn FnMut(&str),
) {
    let mut table = Table::new(columns, 0);
    rows().for_each(|cells| table.measure(cells));
    let rows = rows().map(|cells| (cells, RowColour::Plain));
    table.write_rows(rows, style.width, style.color, put);
}

/// A difference with its sign, formatted by `text`.
fn signed(difference: i64, text: fn(u64) -> String) -> String {
    let sign = match difference {
        0 => "",
        1.. => "+",
        _ => "-",
    };
    format!("{sign}{}", text(difference.unsigned_abs()))
}

/// A bar of at most 20 columns, drawn in eighths of a column.
fn bar(part: u64, most: u64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    const WIDTH: u128 = 20 * 8;
    let eighths = (u128::from(part) * WIDTH).checked_div(most.into());
    let eighths = eighths.unwrap_or(0) as usize;
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

impl<S: Copy> NamedGroups<'_, S>
where
    Group<S>: Serialize,
{
    pub(crate) fn write_ndjson(&self, to: &mut dyn Write) -> io::Result<()> {
        self.iter().try_for_each(|group| {
            serde_json::to_writer(&mut *to, &group)?;
            to.write_all(b"\n")
        })
    }

    /// Writes the groups as CSV (RFC 4180). The column `key_b64` is empty if the key is UTF-8.
    pub(crate) fn write_csv(&self, to: &mut dyn Write) -> io::Result<()> {
        to.write_all(b"key,key_b64,entries,bytes,allocated\n")?;
        for group in self.iter() {
            let json = serde_json::to_value(group).unwrap_or_default();
            let coded = json["key_b64"].as_str().unwrap_or_default();
            let key = json["key"].as_str().unwrap_or_default();
            let [entries, bytes, allocated] =
                ["entries", "bytes", "allocated"].map(|field| &json[field]);
            let key = match key.contains(['"', ',', '\n', '\r']) {
                true => format!("\"{}\"", key.replace('"', "\"\"")),
                false => key.to_owned(),
            };
            writeln!(to, "{key},{coded},{entries},{bytes},{allocated}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use walk::group::{Adder, GroupOrder, Groups};

    use super::*;

    fn groups(by: GroupBy, add: impl FnOnce(&mut Adder<'_>)) -> Groups {
        let groups = Groups::new(by);
        add(&mut groups.adder());
        groups
    }

    /// The groups as table, CSV and NDJSON.
    fn texts<S: Copy>(
        by: GroupBy,
        groups: &SortedGroups<S>,
        write_table: impl FnOnce(NamedGroups<'_, S>, &mut dyn FnMut(&str)),
    ) -> [String; 3]
    where
        Group<S>: Serialize,
    {
        let users = &Users::default();
        let named = NamedGroups { by, groups, users };
        let (mut table, mut csv, mut ndjson) = (String::new(), Vec::new(), Vec::new());
        write_table(named, &mut |piece| table.push_str(piece));
        named.write_csv(&mut csv).unwrap();
        named.write_ndjson(&mut ndjson).unwrap();
        let [csv, ndjson] = [csv, ndjson].map(|text| String::from_utf8(text).unwrap());
        [table, csv, ndjson]
    }

    #[test]
    fn groups_have_names_that_fit_each_format() {
        let sums = GroupSums::from_entry(2048, 8);
        let texts = |by, add: &dyn Fn(&mut Adder<'_>)| {
            let groups = groups(by, add).into_sorted(GroupOrder::Key, None);
            texts(by, &groups, |named, put| {
                named.write_table(TableStyle::default(), true, put);
            })
        };
        let [table, ..] = texts(GroupBy::Size, &|to| {
            to.add_numbers([(0, None, sums), (4096, None, sums)].into_iter());
        });
        assert!(
            table.contains("4 KiB - 16 KiB") && table.contains("0 B"),
            "{table}"
        );
        let last: Vec<&str> = table.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(last, ["2", "4", "KiB", "8", "KiB", "total"]);
        let [_, csv, ndjson] = texts(GroupBy::Ext, &|to| to.add_name(b"a,\"b\xff", sums));
        assert!(
            csv.ends_with("\"a,\"\"b\u{fffd}\",YSwiYv8=,1,2048,4096\n"),
            "{csv}"
        );
        assert!(ndjson.contains("\"key_b64\":\"YSwiYv8=\""));
        let most = GroupSums::from_entry(u64::MAX, u64::MAX);
        let [table, csv, _] = texts(GroupBy::Ext, &|to| {
            to.add_name(b"", most);
            to.add_name(b"", most);
        });
        assert!(table.contains("(none)"), "{table}");
        assert!(csv.ends_with(&format!(",,2,{0},{0}\n", u64::MAX)), "{csv}");
    }

    #[test]
    fn growth_has_a_sign() {
        let add = |bytes: &'static [u64]| {
            groups(GroupBy::Ext, move |to| {
                let sums = bytes.iter().map(|&bytes| GroupSums::from_entry(bytes, 0));
                sums.for_each(|sums| to.add_name(b"txt", sums));
            })
        };
        let growth = add(&[2048]).into_growth(add(&[0, 0, 0, 0]), GroupOrder::Key, None);
        let [table, csv, _] = texts(GroupBy::Ext, &growth, |named, put| {
            named.write_table(TableStyle::default(), put);
        });
        for (row, label) in table.lines().skip(1).zip(["txt", "total"]) {
            let words: Vec<&str> = row.split_whitespace().collect();
            assert_eq!(words, ["-3", "+2", "KiB", "0", "B", label]);
        }
        assert_eq!(table.lines().count(), 3, "{table}");
        assert!(csv.ends_with("\ntxt,,-3,2048,0\n"), "{csv}");
    }

    #[test]
    fn bars_are_in_proportion() {
        assert_eq!(bar(0, 0), "");
        assert_eq!(bar(5, 5), "█".repeat(20));
        assert_eq!(bar(1, 160), "▏");
    }
}
