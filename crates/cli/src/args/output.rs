//! Output formats of entries and changes (`walk`, `query`, `changed`), and the flags that `walk`
//! and `query` share.

use clap::builder::TypedValueParser;
use clap::{Args, ValueEnum};
use walk::Moment;
use walk::group::{GroupBy, GroupOrder};
use walk::predicate::test::TimeField;

use crate::args::values::{choices, number};

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Print totals by owner, group, ext, type, dir:N, age, size or links
    ///
    /// The totals are the number of entries, their apparent size, and the allocated space. A file
    /// with several names counts once. The last line is the total of all groups. ext is the
    /// extension in lower case; dir:N is the directory at most N levels below DIR (default 1); age
    /// is the time since the last modification (or --time); size is a range of sizes. With --format
    /// csv or ndjson, numbers are exact, and there is no total.
    #[arg(long, value_name = "FIELD[:N]", value_parser = group_by)]
    pub(crate) group_by: Option<GroupField>,
    /// Sort --top, --format du or --group-by [default: allocated; du: as du]
    ///
    /// By default, --format du prints the contents of a directory before it, as du does, unless
    /// --top is given, --group-by size and age print their ranges in ascending order, and the
    /// others sort by allocated space. With --sort bytes, --top N prints
    /// the N files with the largest size, with holes.
    #[arg(long, value_name = "FIELD")]
    pub(crate) sort: Option<SortKey>,
    /// Print the N largest files (with --format du: directories), or groups
    #[arg(long, value_name = "N", value_parser = number(1..=u32::MAX as usize))]
    pub(crate) top: Option<usize>,
}

/// A format of entries, of changes, or of both. Each command has some of them.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    Summary,
    Du,
    Paths,
    /// Paths ended by NUL.
    Paths0,
    Ndjson,
    /// Quoted as in RFC 4180.
    Csv,
    Ncdu,
    /// Changes, one per line.
    Table,
    Restic,
    Borg,
    Rsync,
    Tar,
}

impl Format {
    /// Parses the formats that a command accepts. Each line of `table` is a name and a description.
    pub(crate) fn parser(table: &'static str) -> impl TypedValueParser<Value = Format> {
        choices(table).try_map(|name| Format::from_str(&name, false))
    }

    /// Whether the format has one line per entry, or one path per entry, ended by NUL.
    pub(crate) fn is_list(self) -> bool {
        use Format::{Csv, Ndjson, Paths, Paths0};
        matches!(self, Paths | Paths0 | Ndjson | Csv)
    }
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SortKey {
    /// By path, or by the name of the group
    #[value(alias = "path")]
    Name,
    /// By apparent size, largest first
    #[value(alias = "size")]
    Bytes,
    /// By allocated space, largest first
    Allocated,
    /// By number of inodes, largest first
    #[value(alias = "inodes")]
    Count,
}

impl SortKey {
    /// The order of groups that `--sort` selects.
    pub(crate) fn of_groups(self) -> GroupOrder {
        match self {
            SortKey::Name => GroupOrder::Key,
            SortKey::Bytes => GroupOrder::Bytes,
            SortKey::Allocated => GroupOrder::Allocated,
            SortKey::Count => GroupOrder::Entries,
        }
    }
}

/// The order of groups: that of `--sort`. By default, ranges of sizes and ages are in ascending
/// order, and all other groups are sorted by allocated space; `--top` selects the groups with the
/// most allocated space.
pub(crate) fn group_order(args: &OutputArgs, field: GroupField) -> GroupOrder {
    let is_range = matches!(field, GroupField::Age | GroupField::Size);
    match args.sort {
        Some(sort) => sort.of_groups(),
        None if is_range && args.top.is_none() => GroupOrder::Key,
        None => GroupOrder::Allocated,
    }
}

/// The field by which `--group-by` groups entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum GroupField {
    Owner,
    Group,
    Ext,
    Type,
    Dir(u32),
    Age,
    Size,
    Links,
}

impl GroupField {
    /// The grouping by this field. Ages are from `time`, which selects a timestamp of the file, to
    /// now.
    pub(crate) fn group_by(self, time: TimeField) -> GroupBy {
        match self {
            GroupField::Owner => GroupBy::Owner,
            GroupField::Group => GroupBy::Group,
            GroupField::Ext => GroupBy::Ext,
            GroupField::Type => GroupBy::Type,
            GroupField::Dir(depth) => GroupBy::Dir(depth),
            GroupField::Age => GroupBy::Age(time, Moment::now().time()),
            GroupField::Size => GroupBy::Size,
            GroupField::Links => GroupBy::Links,
        }
    }
}

fn group_by(text: &str) -> Result<GroupField, &'static str> {
    const FORM: &str = "use owner, group, ext, type, dir, dir:N, age, size or links";
    Ok(match text {
        "owner" => GroupField::Owner,
        "group" => GroupField::Group,
        "ext" => GroupField::Ext,
        "type" => GroupField::Type,
        "dir" => GroupField::Dir(1),
        "age" => GroupField::Age,
        "size" => GroupField::Size,
        "links" => GroupField::Links,
        _ if text.contains(',') => {
            return Err("give one field, and run the command again for the next one");
        }
        _ => {
            let depth = text.strip_prefix("dir:").ok_or(FORM)?;
            GroupField::Dir(depth.parse().map_err(|_| FORM)?)
        }
    })
}
