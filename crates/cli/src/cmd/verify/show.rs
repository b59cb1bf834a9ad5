//! What `fathom verify` prints.

use archive::verify::VerifyReport;
use show::json_object;
use show::units::plural;

pub(crate) struct Report<'a> {
    pub(crate) archive: &'a [u8],
    /// The directory that it was compared with.
    pub(crate) against: Option<&'a [u8]>,
    pub(crate) verified: &'a VerifyReport,
    pub(crate) seconds: f64,
}

json_object!(Report<'_>, |report| {
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
pub(crate) fn summary(report: &Report<'_>) -> String {
    let verified = report.verified;
    let some = |n: u64, what: &str| plural(n, what, &format!("{what}s"));
    let state = match verified.damaged {
        0 => "whole".to_owned(),
        n => format!("damaged in {}", some(n, "place")),
    };
    let right = some(verified.right, "checksum");
    let checksums = match verified.without_checksum {
        0 => format!("{right} right"),
        unsaid => format!("{right} right, {} without one", some(unsaid, "file")),
    };
    let (members, bytes) = (
        some(verified.members, "member"),
        some(verified.bytes, "byte"),
    );
    let mut text = format!("{state}: {members}, {checksums}, {bytes}\n");
    if report.against.is_some() {
        let compared = some(verified.compared, "member");
        text += &match (verified.different, verified.unknown) {
            (0, 0) => format!("as in the archive: {compared}\n"),
            (n, 0) => format!("not as in the archive: {n} of {compared}\n"),
            (n, more) => {
                let more = some(more, "name");
                format!("not as in the archive: {n} of {compared}; not in it: {more}\n")
            }
        };
    }
    text
}
