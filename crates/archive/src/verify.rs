//! Checks that an archive is complete and undamaged, and compares it with a tree.
//!
//! The checksums of all headers are checked, those of the members' data where there are any, and
//! the end of the archive. After damage, the check goes on with the next valid header.

use gate::fs::{At, Want};
use gate::long::statx_long;
use mounts::Warning;
use ondisk::Dev;
use ondisk::pax::Kind;

use crate::error::{Error, ErrorKind};
use crate::input::ChecksumStatus;
use crate::list::{self, Opened, Wanted};
use crate::warning::WarningKind;
use known::{Known, plain};
use unlisted::Skipped;

mod difference;
mod elsewhere;
mod known;
mod tree;
mod unlisted;

pub use difference::{Difference, TreeAccess};
pub use tree::Tree;

/// The result of a verification.
#[derive(Clone, Debug, Default)]
pub struct VerifyReport {
    /// Members of all kinds.
    pub members: u64,
    /// Plain files.
    pub files: u64,
    /// Files whose data matches their checksum.
    pub right: u64,
    /// Files without a checksum.
    pub without_checksum: u64,
    /// Places where the archive is damaged, wrong checksums included.
    pub damaged: u64,
    /// Members that were compared with a tree.
    pub compared: u64,
    /// Members that differ from the tree, or are not there.
    pub different: u64,
    /// Files in the dumped directories that are not in the archive; files in a directory of these
    /// are not counted.
    pub unknown: u64,
    /// Bytes of the archive that were read, uncompressed.
    pub bytes: u64,
    /// What is wrong.
    pub warnings: Vec<Warning>,
    /// Warnings beyond [`MOST_WARNINGS`].
    more_warnings: u64,
}

/// A damaged archive could cause millions.
const MOST_WARNINGS: usize = 100_000;

/// If none of so many members is in the tree, it is probably the wrong one.
const MISSING_AT_FIRST: u64 = 1000;

/// Reads an archive, or all parts of one, to its end, or of an archive with an index no more than the wanted
/// members need. Only these are checked. `watch` gets, for each member, the report so far, the bytes that
/// were read, and the member's name.
///
/// # Errors
/// A file is not an archive, or cannot be read further; or `against` is the wrong directory.
pub fn verify(
    archives: Vec<Opened<'_>>,
    wanted: &mut Wanted,
    against: Option<&mut Tree>,
    mut watch: impl FnMut(&VerifyReport, u64, &[u8]),
) -> Result<VerifyReport, Error> {
    let stat = |name: &[u8]| {
        let seen = || statx_long(name, At::empty(), Want::BASIC_STATS).ok();
        let seen = (name != b"-").then(seen).flatten();
        seen.map(|seen| (seen.dev.into(), seen.ino))
    };
    let mut check = Verification {
        report: VerifyReport::default(),
        known: Known::default(),
        first: None,
        own: archives.iter().filter_map(|(name, _)| stat(name)).collect(),
        against,
    };
    for archive in archives {
        check.read(archive, wanted, &mut watch)?;
    }
    check.end(wanted)
}

/// What is known of the archives so far.
struct Verification<'a> {
    report: VerifyReport,
    known: Known,
    /// The first member.
    first: Option<Vec<u8>>,
    /// The archives themselves.
    own: Vec<(Dev, u64)>,
    against: Option<&'a mut Tree>,
}

impl Verification<'_> {
    fn read(
        &mut self,
        (name, mut input): Opened<'_>,
        wanted: &mut Wanted,
        watch: &mut impl FnMut(&VerifyReport, u64, &[u8]),
    ) -> Result<(), Error> {
        let Verification {
            report,
            known,
            first,
            own,
            against,
        } = self;
        let input = &mut input;
        let before = report.bytes;
        let mut last: Option<(Vec<u8>, u64)> = None;
        match wanted.regions() {
            None => input.check(),
            Some(regions) => {
                input.check_used();
                input.narrow(regions);
            }
        }
        loop {
            let next = input.next();
            if let (Some((path, at)), Some(checksum_status)) =
                (last.take(), input.checksum_status())
            {
                report.add_status(checksum_status, &path, at);
            }
            for defect in input.take_defects() {
                report.damaged += 1;
                report.warn(list::defect(name, defect));
            }
            let member = match next {
                Ok(Some(member)) => member,
                Ok(None) => break,
                Err(Error {
                    kind: kind @ ErrorKind::DamagedArchive { .. },
                    ..
                }) => {
                    report.damaged += 1;
                    report.warn(Warning::about(name, WarningKind::Damaged(kind)));
                    break;
                }
                Err(other) => return Err(other),
            };
            if !wanted.has(&member.path) {
                continue;
            }
            input.use_contents(&member);
            report.members += 1;
            report.files += u64::from(member.kind == Kind::File);
            watch(report, before + input.place(), &member.path);
            last = Some((member.path.clone(), input.at()));
            if let Some(tree) = against {
                let mut differences = Vec::new();
                let compared = tree.compare(input, &member, known, &mut differences);
                report.compared += 1;
                report.different += u64::from(!differences.is_empty());
                if first.is_none() && member.kind != Kind::Label {
                    *first = Some(plain(&member.path)).filter(|path| !path.is_empty());
                }
                if report.compared == MISSING_AT_FIRST {
                    tree.check_members(first.as_deref(), known)?;
                }
                differences
                    .into_iter()
                    .for_each(|difference| report.warn(difference));
                if let Err(error) = compared {
                    report.damaged += 1;
                    let kind = WarningKind::Damaged(error.kind);
                    report.warn(Warning::about(&member.path, kind));
                    input.recover();
                }
                if let Some(list) = &member.dumpdir {
                    let skipped = Skipped::new(own, tree);
                    let warn = |warning| report.unknown(warning);
                    tree.find_unlisted(&member.path, list, &skipped, warn);
                }
            }
        }
        report.bytes = before + input.place();
        Ok(())
    }

    fn end(self, wanted: &Wanted) -> Result<VerifyReport, Error> {
        let Verification {
            mut report,
            known,
            first,
            own,
            against,
        } = self;
        if let Some(tree) = against {
            tree.check_members(first.as_deref(), &known)?;
            let skipped = Skipped::new(&own, tree);
            tree.find_unknown(&known, &skipped, |warning| report.unknown(warning));
        }
        for warning in wanted.missing() {
            report.warn(warning);
        }
        if report.more_warnings > 0 {
            let kind = WarningKind::MoreOfThese(report.more_warnings);
            report.warnings.push(Warning::general(kind));
        }
        Ok(report)
    }
}

impl VerifyReport {
    /// Counts a file at an offset of the archive.
    fn add_status(&mut self, status: ChecksumStatus, path: &[u8], at: u64) {
        match status {
            ChecksumStatus::Right => self.right += 1,
            ChecksumStatus::NoChecksum => self.without_checksum += 1,
            ChecksumStatus::Wrong => {
                self.damaged += 1;
                let kind = WarningKind::WrongChecksum { at };
                self.warn(Warning::about(path, kind));
            }
        }
    }

    /// A file is in the tree only; or a system call failed while these were looked for.
    fn unknown(&mut self, warning: Warning) {
        self.unknown += u64::from(warning.gate.is_none());
        self.warn(warning);
    }

    fn warn(&mut self, warning: Warning) {
        if self.warnings.len() < MOST_WARNINGS {
            self.warnings.push(warning);
        } else {
            self.more_warnings += 1;
        }
    }
}
