//! Checks that an archive is complete and undamaged, and compares it with a tree.
//!
//! All header checksums are verified, data checksums where there are any, and the end of the
//! archive. After damage, the check continues at the next valid header. A damaged stream of zstd
//! ends the check, unless the archive has an index: then it continues in a later frame.

use std::collections::{BTreeMap, BTreeSet};

use base::{Warning, Warnings};
use gate::fs::StatxMask;
use gate::long::stat_long;
use known::ArchivedFiles;
use ondisk::pax::{Member, MemberKind};

use crate::error::{Damage, Error, ErrorKind};
use crate::input::{ChecksumStatus, Input, is_regular};
use crate::linked::{FoundTarget, HardLinkTarget, find};
use crate::list::{self, MemberSelection, NamedInput};
use crate::warning::WarningKind;

mod chains;
mod difference;
mod elsewhere;
mod known;
mod lost;
mod tree;
mod unlisted;

pub use chains::{ChainsReport, CheckedDump, TreeComparison, compare_newest, verify_chains};
pub use difference::{Difference, IgnoredMetadata, TreeAccess};
pub use tree::Tree;

/// The result of a verification.
#[derive(Debug, Default)]
pub struct VerifyReport {
    /// Number of members of all kinds.
    pub members: u64,
    /// Number of regular files.
    pub files: u64,
    /// Number of files whose data matches their checksum.
    pub right: u64,
    /// Number of files without a checksum.
    pub without_checksum: u64,
    /// Number of damaged places, including wrong checksums.
    pub damaged: u64,
    /// Number of members compared with the tree.
    pub compared: u64,
    /// Number of members that differ from the tree, or are missing there.
    pub different: u64,
    /// Number of files in dumped directories that are not in the archive; a directory counts once,
    /// with everything in it.
    pub unknown: u64,
    /// Uncompressed bytes read of the archive.
    pub bytes: u64,
    /// Warnings about damage and differences.
    pub warnings: Vec<Warning>,
    /// The members lost in damaged frames.
    lost: Vec<LostMembers>,
    /// The warnings collected so far, within a limit.
    found: Warnings,
}

/// The members lost in damaged frames of zstd: those between two members.
#[derive(Debug)]
struct LostMembers {
    after: Vec<u8>,
    /// `None` up to the end of the archive.
    before: Option<Vec<u8>>,
}

/// Maximum number of warnings kept: a damaged archive could cause millions.
const MOST_WARNINGS: usize = 100_000;

/// If none of this many members is in the tree, it is probably the wrong directory.
const MISSING_AT_FIRST: u64 = 1000;

/// Reads an archive, or all parts of one, to its end; with an index, only as much as the wanted
/// members need. `watch` is called for each member with the report so far, the bytes read, and the
/// member's name.
///
/// # Errors
/// A file is no archive, or cannot be read further; or `against` is the wrong directory.
pub fn verify(
    archives: Vec<NamedInput<'_>>,
    wanted: &mut MemberSelection,
    mut against: Option<&mut Tree>,
    mut watch: impl FnMut(&VerifyReport, u64, &[u8]),
) -> Result<VerifyReport, Error> {
    let stat = |name: &[u8]| {
        let seen = || stat_long(name, StatxMask::BASIC_STATS).ok();
        let seen = (name != b"-").then(seen).flatten();
        seen.map(|seen| (seen.dev, seen.ino))
    };
    let own = archives.iter().filter_map(|(name, _)| stat(name)).collect();
    if let Some(tree) = &mut against {
        tree.archives = own;
    }
    let mut check = Verification {
        report: VerifyReport::default(),
        known: ArchivedFiles::default(),
        against,
        is_increment: false,
    };
    for archive in archives {
        check.read(archive, wanted, &mut watch)?;
    }
    check.end(wanted)
}

/// The state of a verification.
struct Verification<'a> {
    report: VerifyReport,
    known: ArchivedFiles,
    against: Option<&'a mut Tree>,
    /// Whether a member has a dumpdir, so that the archive is an increment.
    is_increment: bool,
}

impl Verification<'_> {
    fn read(
        &mut self,
        (name, mut input): NamedInput<'_>,
        wanted: &mut MemberSelection,
        watch: &mut impl FnMut(&VerifyReport, u64, &[u8]),
    ) -> Result<(), Error> {
        let Verification {
            report,
            known,
            against,
            is_increment,
        } = self;
        let input = &mut input;
        let before = report.bytes;
        let mut linked: BTreeMap<Vec<u8>, (u64, Vec<Member>)> = BTreeMap::new();
        let mut last: Option<(Vec<u8>, u64)> = None;
        // Name of the last member read, also of a member that was not selected.
        let mut latest: Vec<u8> = Vec::new();
        match wanted.regions() {
            None => input.check(),
            Some(regions) => {
                input.check_used();
                input.narrow(regions);
            }
        }
        loop {
            let next = input.next();
            // The file whose data could not be read to its end.
            let mut unfinished = None;
            if let Some((path, at)) = last.take() {
                match input.checksum_status() {
                    Some(checksum_status) => report.add_status(checksum_status, &path, at),
                    None => unfinished = Some(path),
                }
            }
            let mut is_damaged = false;
            for defect in input.take_defects() {
                is_damaged = true;
                wanted.is_incomplete |= defect.damage.is_loss();
                report.damaged += 1;
                report.warn(list::defect(name, defect));
            }
            let member = match next {
                Ok(Some(member)) => Some(member),
                Ok(None) => None,
                Err(Error {
                    kind: kind @ ErrorKind::DamagedArchive { .. },
                    ..
                }) => {
                    is_damaged = true;
                    wanted.is_incomplete = true;
                    report.damaged += 1;
                    let path = unfinished.as_deref().unwrap_or(name);
                    report.warn(Warning::about(path, WarningKind::Damaged(kind)));
                    None
                }
                Err(other) => return Err(other),
            };
            let Some(member) = member else {
                if is_damaged && report.resume(name, input, &latest) {
                    wanted.is_incomplete = true;
                    continue;
                }
                break;
            };
            latest.clone_from(&member.path);
            if !wanted.has(&member.path) {
                continue;
            }
            // The contents are stored under an unselected name; they are read later, for this link.
            if member.kind == MemberKind::Link && !wanted.includes(&member.link) {
                let name = list::plain(&member.link).into_owned();
                let new = || (input.at(), Vec::new());
                known.add_first(&member.path);
                linked.entry(name).or_insert_with(new).1.push(member);
                report.members += 1;
                continue;
            }
            input.use_contents(&member);
            report.members += 1;
            report.files += u64::from(member.kind == MemberKind::File);
            watch(report, before + input.place(), &member.path);
            let is_file = member.kind == MemberKind::File;
            last = is_file.then(|| (member.path.clone(), input.at()));
            if let Some(tree) = against {
                let place = tree.listed.as_ref().map(|list| list.position(&member.path));
                known.listed.extend(place.flatten());
                *is_increment |= member.dumpdir.is_some();
                report.compare(tree, input, &member, known);
                wanted.is_incomplete |= report.resume(name, input, &latest);
                if tree.silent.has(&member.path) {
                    continue;
                }
                if member.kind != MemberKind::Label {
                    known.add_first(&member.path);
                }
                if report.compared == MISSING_AT_FIRST {
                    tree.check_members(known)?;
                }
                if let Some(list) = &member.dumpdir {
                    let warn = |warning| report.unknown(warning);
                    tree.find_unlisted(&member.path, list, warn);
                }
            }
        }
        report.bytes = before + input.place();
        self.check_linked((name, input), linked)
    }

    /// Checks the contents of selected hard links whose targets were not selected, and compares them
    /// with the tree.
    fn check_linked(
        &mut self,
        (archive, input): (&[u8], &mut Input),
        linked: BTreeMap<Vec<u8>, (u64, Vec<Member>)>,
    ) -> Result<(), Error> {
        let targets = linked
            .into_iter()
            .map(|(name, (before, names))| HardLinkTarget {
                name,
                before,
                names,
            });
        let (report, known, mut at) = (&mut self.report, &mut self.known, 0);
        let mut tree = self.against.as_deref_mut();
        let (_, missing) = find(archive, targets.collect(), |names, found| {
            let Some((first, others)) = names.split_first() else {
                return Ok(());
            };
            let (path, link) = (first.path.clone(), first.path.clone());
            match found {
                FoundTarget::Checked(status) => report.add_status(status, &path, at),
                FoundTarget::File(member, input) => {
                    at = input.at();
                    report.files += u64::from(member.kind == MemberKind::File);
                    let member = Member { path, ..*member };
                    let Some(tree) = tree.as_deref_mut() else {
                        report.read_contents(input, &member);
                        return Ok(());
                    };
                    report.compare(tree, input, &member, known);
                    for other in others {
                        let link = link.clone();
                        let other = Member {
                            link,
                            ..other.clone()
                        };
                        report.compare(tree, input, &other, known);
                    }
                }
            }
            Ok(())
        })?;
        for link in missing.into_iter().flat_map(|target| target.names) {
            // A missing target means that the file is unchanged since the base, unless the archive
            // is a pipe that cannot be read twice.
            match &mut tree {
                Some(tree) if is_regular(archive) => report.compare(tree, input, &link, known),
                None if is_regular(archive) => {}
                _ => {
                    let reason = Difference::LinkNotRead(link.link.clone());
                    report.warn(Warning::about(&link.path, reason));
                }
            }
        }
        Ok(())
    }

    fn end(self, wanted: &MemberSelection) -> Result<VerifyReport, Error> {
        let Verification {
            mut report,
            known,
            against,
            is_increment,
        } = self;
        if let Some(tree) = against {
            tree.check_members(&known)?;
            let (mut told, is_listed) = (BTreeSet::new(), tree.listed.is_some());
            tree.find_unknown(&known, |warning| {
                told.extend(warning.path.clone().filter(|_| is_listed));
                report.unknown(warning);
            });
            // Increments have no members for unchanged names, so missing ones prove nothing.
            if wanted.is_all() && !is_increment {
                tree.find_unmet(&known, &told, |warning| report.unknown(warning));
            }
            for warning in tree.silent_warnings() {
                report.warn(warning);
            }
        }
        for warning in wanted.missing() {
            report.warn(warning);
        }
        report.warnings = report.found.take_all(WarningKind::MoreOfThese);
        Ok(report)
    }
}

impl VerifyReport {
    /// Compares a member with the file of the same name.
    fn compare(
        &mut self,
        tree: &mut Tree,
        input: &mut Input,
        member: &Member,
        known: &mut ArchivedFiles,
    ) {
        let mut differences = Vec::new();
        let compared = tree.compare(input, member, known, &mut differences);
        if !self.count(tree, &member.path, differences) {
            return;
        }
        if let Err(error) = compared {
            self.damaged_data(input, member, error);
        }
    }

    /// Reads the contents of a member to their end, for their checksum.
    fn read_contents(&mut self, input: &mut Input, member: &Member) {
        let mut contents = input.contents(member);
        let error = loop {
            match contents.next() {
                Ok(Some(_)) => {}
                Ok(None) => return,
                Err(error) => break error,
            }
        };
        self.damaged_data(input, member, error);
    }

    fn damaged_data(&mut self, input: &mut Input, member: &Member, error: Error) {
        self.damaged += 1;
        let kind = WarningKind::Damaged(error.kind);
        self.warn(Warning::about(&member.path, kind));
        input.recover();
    }

    /// Counts a member as compared, and warns of its differences. Returns `false` for a member on a
    /// mount that does not answer, which does not count.
    fn count(&mut self, tree: &Tree, path: &[u8], differences: Vec<Warning>) -> bool {
        if differences.is_empty() && tree.silent.has(path) {
            return false;
        }
        self.compared += 1;
        self.different += u64::from(!differences.is_empty());
        differences.into_iter().for_each(|it| self.warn(it));
        true
    }

    /// Continues in a later frame of a compressed archive whose stream has ended in damage, if the
    /// archive has an index. `latest` is the name of the last member read.
    fn resume(&mut self, archive: &[u8], input: &mut Input, latest: &[u8]) -> bool {
        if !input.resume_after_damage() {
            return false;
        }
        for defect in input.take_defects() {
            if let Damage::FrameLost { next } = &defect.damage {
                self.lost.push(LostMembers {
                    after: latest.to_vec(),
                    before: next.clone(),
                });
            }
            self.warn(list::defect(archive, defect));
        }
        true
    }

    /// Counts the checksum status of the file at an offset.
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

    /// Adds a warning about a file that is only in the tree, or about a failed system call of that
    /// search.
    fn unknown(&mut self, warning: Warning) {
        self.unknown += u64::from(warning.gate.is_none());
        self.warn(warning);
    }

    fn warn(&mut self, warning: Warning) {
        self.found.push(warning, MOST_WARNINGS);
    }
}
