//! What `fathom verify` prints.

use archive::verify::VerifyReport;
use show::json_object;
use show::name::printable;
use show::units::{plural, sized};

pub(crate) struct VerificationReport<'a> {
    pub(crate) archive: &'a [u8],
    /// The directory that it was compared with.
    pub(crate) against: Option<&'a [u8]>,
    pub(crate) verified: &'a VerifyReport,
    pub(crate) seconds: f64,
}

json_object!(VerificationReport<'_>, |report| {
    name "archive": Some(report.archive),
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

/// The summary: a line about the archive, and one about the directory where there was one.
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
    let mut text = format!("{state}: {members}, {bytes} uncompressed, {checksums}\n");
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
