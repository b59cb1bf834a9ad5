//! Finds files of which only a further name is wanted: the archive has their contents under the first one.

use std::collections::HashMap;

use ondisk::pax::{Member, MemberKind};

use crate::error::{Error, ErrorKind, Result};
use crate::input::{ChecksumStatus, Input, is_regular};
use crate::list::plain;
use crate::route::Region;

/// A file that other names link to.
pub(crate) struct Target<T> {
    /// The name in the archive, as [`plain`] gives it.
    pub(crate) name: Vec<u8>,
    /// The member is before this offset, where a link to it is.
    pub(crate) before: u64,
    /// The names that link to it.
    pub(crate) names: T,
}

pub(crate) type Targets<T> = Vec<Target<T>>;

/// What was found of a target.
pub(crate) enum FoundTarget<'a> {
    /// A member that is no link and no directory, the current one of the input.
    File(Box<Member>, &'a mut Input),
    /// The checksum of its data, once that was read.
    Checked(ChecksumStatus),
}

/// What a pass over an archive has found of a target.
#[derive(Clone)]
enum PassOutcome {
    Nothing,
    File,
    /// It is a link itself.
    Link(Vec<u8>, u64),
}

/// Passes on what an archive has of some targets, and returns those that it has and those that it does not have. One
/// that cannot be read twice has none.
///
/// # Errors
/// The archive cannot be read; those of `take`.
pub(crate) fn find<T>(
    archive: &[u8],
    mut targets: Targets<T>,
    mut take: impl FnMut(&mut T, FoundTarget<'_>) -> Result<()>,
) -> Result<(Targets<T>, Targets<T>)> {
    /// In the archives that programs make, links lead to files, and not to links.
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
                Some(PassOutcome::Link(name, before)) => targets.push(Target {
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

/// Reads the members of an archive once. Of targets with the same name, only the first is looked for.
fn read<T>(
    archive: &[u8],
    targets: &mut [Target<T>],
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
        let next = match input.next() {
            // Damage is reported when all of the archive is read.
            Err(Error {
                kind: ErrorKind::DamagedArchive { .. },
                ..
            }) => return Ok(outcomes),
            next => next?,
        };
        if let (Some(nth), Some(status)) = (last.take(), input.checksum_status()) {
            let target: &mut Target<T> = &mut targets[nth];
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
