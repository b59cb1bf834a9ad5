//! The output of `fathom verify`.

use archive::increment::history::History;
use archive::verify::{ChainsReport, CheckedDump, VerifyReport};
use show::name::printable;
use show::table::{RowColour, Table, TableStyle};
use show::units::{count, plural, size, sized};
use show::{columns, json_object};

use crate::cmd::levels::{archive_cell, local_date, unread_line, utc_date};
use crate::date::Zone;

pub(crate) struct VerificationReport<'a> {
    /// The archives, as given; never empty.
    pub(crate) archives: &'a [&'a [u8]],
    /// The directory that the archive was compared with.
    pub(crate) against: Option<&'a [u8]>,
    pub(crate) verified: &'a VerifyReport,
    pub(crate) seconds: f64,
}

json_object!(VerificationReport<'_>, |report| {
    name "archive": report.archives.first().copied(),
    names "archives": Some(report.archives),
    "whole": report.verified.damaged == 0,
    "members": report.verified.members,
    "files": report.verified.files,
    "right": report.verified.right,
    "unsaid": report.verified.without_checksum,
    "damaged": report.verified.damaged,
    "bytes": report.verified.bytes,
    name "against": report.against,
    "compared": report.against.map(|_| report.verified.compared),
    "different": report.against.map(|_| report.verified.different),
    "unknown": report.against.map(|_| report.verified.unknown),
    "seconds": report.seconds,
});

/// The summary: a line about the archive, and one about the compared directory, if any.
pub(crate) fn summary(report: &VerificationReport<'_>) -> String {
    let verified = report.verified;
    let some = |n: u64, what: &str| plural(n, what, &format!("{what}s"));
    let state = match verified.damaged {
        0 => "intact".to_owned(),
        n => format!("damaged in {}", some(n, "place")),
    };
    let mut checksums = format!("{} correct", some(verified.right, "checksum"));
    if verified.without_checksum > 0 {
        let files = some(verified.without_checksum, "file");
        checksums += &format!(", {files} without checksum");
    }
    let (members, bytes) = (some(verified.members, "member"), sized(verified.bytes));
    let archives = match report.archives.len() {
        0 | 1 => String::new(),
        n => format!("{}, ", some(n as u64, "archive")),
    };
    let mut text = format!("{state}: {archives}{members}, {bytes} uncompressed, {checksums}\n");
    if let Some(dir) = report.against {
        let compared = some(verified.compared, "member");
        text += &format!("compared with '{}': ", printable(dir));
        text += &match verified.different {
            0 => format!("{compared} equal"),
            n => format!("{n} of {compared} differ"),
        };
        if verified.unknown > 0 {
            let files = some(verified.unknown, "file");
            text += &format!(", {files} not in the archive");
        }
        text += "\n";
    }
    text
}

/// The checks of all dumps of a state directory.
pub(crate) struct Chains<'a> {
    pub(crate) history: &'a History,
    pub(crate) checked: &'a ChainsReport,
    /// The directory that the newest dump was compared with.
    pub(crate) against: Option<&'a [u8]>,
    pub(crate) seconds: f64,
}

json_object!(Chains<'_>, |chains| {
    "dumps": (0..chains.checked.dumps.len()).map(|at| OneDump { chains, at }).collect::<Vec<_>>(),
    "whole": chains.checked.dumps.iter().all(|dump| dump.is_restorable),
    "bytes": chains.checked.bytes(),
    name "against": chains.against,
    "compared": chains.checked.compared.map(|compared| compared.entries),
    "different": chains.checked.compared.map(|compared| compared.different),
    "unknown": chains.checked.compared.map(|compared| compared.unknown),
    "seconds": chains.seconds,
});

struct OneDump<'a> {
    chains: &'a Chains<'a>,
    at: usize,
}

impl<'a> OneDump<'a> {
    fn checked(&self) -> &'a CheckedDump {
        &self.chains.checked.dumps[self.at]
    }
}

json_object!(OneDump<'_>, |dump| {
    "date": utc_date(&dump.chains.history.dumps()[dump.at]),
    "level": dump.chains.history.dumps()[dump.at].level,
    name "archive": dump.chains.history.dumps()[dump.at].archive.as_deref(),
    "restorable": dump.checked().is_restorable,
    "members": dump.checked().archive.as_ref().map(|archive| archive.members),
    "damaged": dump.checked().archive.as_ref().map(|archive| archive.damaged),
    "unread": dump.chains.history.dumps()[dump.at].unread.count,
});

impl Chains<'_> {
    /// The table of dumps, and a line about the compared directory.
    pub(crate) fn text(&self, zone: &Zone, style: TableStyle) -> String {
        let columns = columns![
            >"N", >"DATE", <"STATUS", >"LEVEL", >"MEMBERS", >"SIZE", <"ARCHIVE"
        ];
        let mut table = Table::new(&columns, self.checked.dumps.len());
        table.identify_by(6);
        for (at, (dump, checked)) in self
            .history
            .dumps()
            .iter()
            .zip(&self.checked.dumps)
            .enumerate()
        {
            let members = checked
                .archive
                .as_ref()
                .map(|archive| count(archive.members));
            let (status, tone) = match (checked.is_restorable, &checked.archive) {
                (true, _) if !dump.unread.is_empty() => ("incomplete", RowColour::Bad),
                (true, _) => ("ok", RowColour::Plain),
                (false, Some(archive)) if archive.damaged > 0 => ("damaged", RowColour::Bad),
                (false, Some(_)) => ("not restorable", RowColour::Bad),
                (false, None) => ("unavailable", RowColour::Bad),
            };
            let cells = [
                (at + 1).to_string(),
                local_date(dump, zone),
                status.to_owned(),
                dump.level.to_string(),
                members.unwrap_or_else(|| "-".to_owned()),
                size(dump.bytes),
                archive_cell(dump),
            ];
            table.row(cells, tone);
        }
        let mut text = table.to_text(style.width, style.color);
        let dumps = self.history.dumps().iter().zip(0..);
        text.extend(dumps.map(|(dump, at)| unread_line(dump, at)));
        if let (Some(dir), Some(compared)) = (self.against, self.checked.compared) {
            let entries = plural(compared.entries, "entry", "entries");
            text += &format!("the newest dump compared with '{}': ", printable(dir));
            text += &match compared.different {
                0 => format!("{entries} equal"),
                n => format!("{n} of {entries} differ"),
            };
            if compared.unknown > 0 {
                let files = plural(compared.unknown, "file", "files");
                text += &format!(", {files} not in the dump");
            }
            text += "\n";
        }
        text
    }
}
