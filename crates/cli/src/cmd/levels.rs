//! The dumps of a state directory, as printed by `list --state` and `dump --prune`.

use archive::increment::history::History;
use archive::increment::record::{ArchiveStatus, DumpRecord};
use base::path::split;
use ondisk::utc;
use show::name::printable;
use show::table::{RowColour, Table, TableStyle};
use show::units::{count, plural, size};
use show::{columns, json_object};

use crate::date::Zone;

/// A recorded dump with the status of its archive.
pub(crate) struct Dump<'a> {
    history: &'a History,
    /// The index of the dump in the history.
    pub(crate) at: usize,
    status: ArchiveStatus,
    /// Whether this dump cannot be restored, because the archive of a base is missing or damaged.
    is_baseless: bool,
}

impl<'a> Dump<'a> {
    /// The dump at index `at`, whose archive has this status.
    pub(crate) fn with_status(history: &'a History, at: usize, status: ArchiveStatus) -> Dump<'a> {
        Dump {
            history,
            at,
            status,
            is_baseless: false,
        }
    }

    pub(crate) fn all(history: &'a History) -> Vec<Dump<'a>> {
        let statuses = history.statuses();
        let restorable = history.restorable(&statuses).into_iter().enumerate();
        let dump = |(at, is_restorable): (usize, bool)| Dump {
            is_baseless: !is_restorable && statuses[at] == ArchiveStatus::Present,
            ..Dump::with_status(history, at, statuses[at])
        };
        restorable.map(dump).collect()
    }

    pub(crate) fn record(&self) -> &'a DumpRecord {
        &self.history.dumps()[self.at]
    }

    /// The size of the archive; 0 if it is no longer where it was written.
    pub(crate) fn present_bytes(&self) -> u64 {
        match self.status.exists() {
            true => self.record().bytes,
            false => 0,
        }
    }

    /// The indices of the dumps whose archives restore this dump, in order.
    fn chain(&self) -> Vec<usize> {
        self.history.chain(self.at).unwrap_or_default()
    }
}

/// When a dump began, in UTC, as RFC 3339; `restore --at` accepts it.
pub(crate) fn utc_date(dump: &DumpRecord) -> String {
    format!("{}Z", date(dump, utc))
}

/// When a dump began, in local time; `restore --at` accepts it.
pub(crate) fn local_date(dump: &DumpRecord, zone: &Zone) -> String {
    date(dump, |seconds| zone.text(seconds))
}

/// The date of a dump; with a fraction if a different dump began in the same second.
fn date(dump: &DumpRecord, text: impl Fn(i64) -> String) -> String {
    match dump.shares_second {
        false => text(dump.date.sec),
        true => format!("{}.{:09}", text(dump.date.sec), dump.date.nsec),
    }
}

json_object!(Dump<'_>, |dump| {
    "date": utc_date(dump.record()),
    "level": dump.record().level,
    "entries": dump.record().entries,
    "bytes": dump.record().bytes,
    "status": status(dump),
    "unread": dump.record().unread.count,
    names "unread_names": Some(&dump.record().unread.names()),
    name "archive": dump.record().archive.as_deref(),
    names "restore": Some(&restore(dump)),
});

/// The archives that restore a dump, in order; none if one of them is not recorded or went to a
/// pipe.
fn restore<'a>(dump: &Dump<'a>) -> Vec<&'a Vec<u8>> {
    let archives = dump.chain().into_iter();
    let archives = archives.map(|at| dump.history.dumps()[at].archive.as_ref());
    archives.collect::<Option<_>>().unwrap_or_default()
}

fn status(dump: &Dump<'_>) -> &'static str {
    match dump.status {
        ArchiveStatus::Present if dump.is_baseless => "no base",
        ArchiveStatus::Present if !dump.record().unread.is_empty() => "incomplete",
        ArchiveStatus::Present => "ok",
        ArchiveStatus::Missing => "missing",
        ArchiveStatus::Replaced => "replaced",
        ArchiveStatus::Streamed => "streamed",
        ArchiveStatus::Damaged => "damaged",
    }
}

/// The table of dumps. A column refers to the archives to restore by the number of their row. Dates
/// are in local time.
pub(crate) fn table(dumps: &[Dump<'_>], zone: &Zone, style: TableStyle) -> String {
    let columns = columns![
        >"N", >"DATE", <"STATUS", <"RESTORE", >"LEVEL", >"ENTRIES", >"SIZE", <"ARCHIVE"
    ];
    let mut table = Table::new(&columns, dumps.len());
    table.identify_by(7);
    for dump in dumps {
        let record = dump.record();
        let chain: Vec<String> = dump.chain().iter().map(|at| (at + 1).to_string()).collect();
        let chain = match chain.is_empty() {
            true => "cannot tell".to_owned(),
            false => chain.join(" "),
        };
        let tone = match dump.status {
            ArchiveStatus::Missing | ArchiveStatus::Replaced | ArchiveStatus::Damaged => {
                RowColour::Bad
            }
            _ if dump.is_baseless || !record.unread.is_empty() => RowColour::Bad,
            _ => RowColour::Plain,
        };
        table.row(
            [
                (dump.at + 1).to_string(),
                local_date(record, zone),
                status(dump).to_owned(),
                chain,
                record.level.to_string(),
                count(record.entries),
                size_cell(record),
                archive_cell(record),
            ],
            tone,
        );
    }
    let unread = dumps.iter().map(|dump| unread_line(dump.record(), dump.at));
    table.to_text(style.width, style.color) + &unread.collect::<String>()
}

/// The archive of a dump; only its file name if it is in the state directory.
pub(crate) fn archive_cell(record: &DumpRecord) -> String {
    let archive = record.archive.as_deref();
    let shown = archive.map(|archive| match record.is_named {
        true => split(archive).1,
        false => archive,
    });
    shown.map_or("-".into(), printable).into_owned()
}

/// The size of a dump's archive; `-` if it is unknown, because the archive was streamed.
pub(crate) fn size_cell(record: &DumpRecord) -> String {
    let known = record.archive.as_ref().map(|_| size(record.bytes));
    known.unwrap_or_else(|| "-".to_owned())
}

/// A line that names the files that the dump at index `at` could not read; empty if it read all.
pub(crate) fn unread_line(record: &DumpRecord, at: usize) -> String {
    const MOST: u64 = 5;
    let unread = &record.unread;
    if unread.is_empty() {
        return String::new();
    }
    let entries = plural(unread.count, "entry", "entries");
    let names = unread.names().into_iter().take(MOST as usize);
    let names: Vec<String> = names.map(|name| format!("'{}'", printable(name))).collect();
    let names = match unread.count.saturating_sub(names.len() as u64) {
        0 => format!(": {}", names.join(", ")),
        _ if names.is_empty() => String::new(),
        more => format!(": {} and {more} more", names.join(", ")),
    };
    format!("dump {} could not read {entries}{names}\n", at + 1)
}
