//! Finds the contents of files that were selected by a further hard link: the archive has them
//! under the first name.

use std::collections::HashMap;

use ondisk::pax::{Member, MemberKind};

use crate::error::{Error, ErrorKind, Result};
use crate::input::{ChecksumStatus, Input, is_regular};
use crate::list::plain;
use crate::route::Region;

/// The target of hard links: a file under its first name.
pub(crate) struct HardLinkTarget<T> {
    /// Member name of the target, normalized by [`plain`].
    pub(crate) name: Vec<u8>,
    /// Offset of the first link; the target's member must come before.
    pub(crate) before: u64,
    /// The names that link to the target.
    pub(crate) names: T,
}

pub(crate) type Targets<T> = Vec<HardLinkTarget<T>>;

/// Passed to the callback when the member of a target was found, and after its data was read.
pub(crate) enum FoundTarget<'a> {
    /// The member of the target, neither a link nor a directory, and the input to read its contents
    /// from.
    File(Box<Member>, &'a mut Input),
    /// The checksum status of the target's data, after reading.
    Checked(ChecksumStatus),
}

/// The outcome of one pass over an archive for one target.
#[derive(Clone)]
enum PassOutcome {
    Nothing,
    File,
    /// The target is itself a hard link, to this name before this offset.
    Link(Vec<u8>, u64),
}

/// Passes the members of link targets to `take`, and returns the targets found and those missing.
/// An archive that cannot be read twice (a pipe) counts as one without any of the targets.
///
/// # Errors
/// The archive cannot be read; those of `take`.
pub(crate) fn find<T>(
    archive: &[u8],
    mut targets: Targets<T>,
    mut take: impl FnMut(&mut T, FoundTarget<'_>) -> Result<()>,
) -> Result<(Targets<T>, Targets<T>)> {
    /// Maximum length of a chain of links. Programs that write archives link to files, not to
    /// links.
    const MOST: usize = 8;
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for _ in 0..MOST {
        if targets.is_empty() || !is_regular(archive) {
            break;
        }
        let outcomes = read(archive, &mut targets, &mut take)?;
        for (target, outcome) in std::mem::take(&mut targets).into_iter().zip(outcomes) {
            match outcome {
                Some(PassOutcome::File) => found.push(target),
                Some(PassOutcome::Nothing) => missing.push(target),
                Some(PassOutcome::Link(name, before)) => targets.push(HardLinkTarget {
                    name,
                    before,
                    ..target
                }),
                None => targets.push(target),
            }
        }
    }
    missing.append(&mut targets);
    Ok((found, missing))
}

/// Reads an archive once, looking for targets. Of targets with the same name, only the first is
/// looked for.
fn read<T>(
    archive: &[u8],
    targets: &mut [HardLinkTarget<T>],
    take: &mut impl FnMut(&mut T, FoundTarget<'_>) -> Result<()>,
) -> Result<Vec<Option<PassOutcome>>> {
    let mut outcomes: Vec<Option<PassOutcome>> = vec![None; targets.len()];
    let mut by_name: HashMap<Vec<u8>, usize> = HashMap::new();
    for (nth, target) in targets.iter().enumerate() {
        by_name.entry(target.name.clone()).or_insert_with(|| {
            outcomes[nth] = Some(PassOutcome::Nothing);
            nth
        });
    }
    let mut input = Input::open(archive)?;
    input.check_used();
    input.narrow(by_name.keys().map(|name| Region::single(name)).collect());
    let mut last = None;
    loop {
        let next = match input.next_or_resume() {
            // Ignore damage here: the main pass over the archive reports it.
            Err(Error {
                kind: ErrorKind::DamagedArchive { .. },
                ..
            }) => return Ok(outcomes),
            next => next?,
        };
        if let (Some(nth), Some(status)) = (last.take(), input.checksum_status()) {
            let target: &mut HardLinkTarget<T> = &mut targets[nth];
            take(&mut target.names, FoundTarget::Checked(status))?;
        }
        let Some(member) = next else {
            return Ok(outcomes);
        };
        let Some(&nth) = by_name.get(&*plain(&member.path)) else {
            continue;
        };
        let target = &mut targets[nth];
        if input.at() >= target.before {
            continue;
        }
        outcomes[nth] = Some(match member.kind {
            MemberKind::Link => PassOutcome::Link(plain(&member.link).into_owned(), input.at()),
            MemberKind::Directory | MemberKind::Label | MemberKind::Continuation => continue,
            _ => {
                take(
                    &mut target.names,
                    FoundTarget::File(Box::new(member), &mut input),
                )?;
                last = Some(nth);
                PassOutcome::File
            }
        });
    }
}
