//! Predicates that exclude each other, so that no entry can match.

use super::Predicates;
use super::test::{IdTest, PermMatch, PermTest, Types};
use crate::entry::Type;

/// Why no entry can match.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum Contradiction {
    #[error("no entry can match: the sizes exclude each other")]
    Sizes,
    #[error("no entry can match: the numbers of links exclude each other")]
    Links,
    #[error("no entry can match: no time is within both limits")]
    Times,
    #[error("no entry can match: the minimum depth is greater than the maximum")]
    Depths,
    #[error("no entry can match: the owners exclude each other")]
    Owners,
    #[error("no entry can match: the permissions exclude each other")]
    Permissions,
    #[error("no entry can match: only files and directories can be empty")]
    NeverEmpty,
    #[error("no entry can match: an empty file does not have that size")]
    EmptySize,
}

impl mounts::WarningReason for Contradiction {}

impl Predicates {
    /// Why nothing can match, if that is certain.
    pub fn contradiction(&self) -> Option<Contradiction> {
        use Contradiction::*;
        let ranges = self.sizes.iter().map(|size| size.range());
        let links = self.links.iter().map(|links| links.range());
        let time = self.time;
        let is_never = [
            (!overlap(ranges), Sizes),
            (!overlap(links), Links),
            (
                matches!((time.after, time.before), (Some(after), Some(before)) if after >= before),
                Times,
            ),
            (
                self.max_depth.is_some_and(|max| max < self.min_depth),
                Depths,
            ),
            (
                !are_consistent(&self.users) || !are_consistent(&self.groups),
                Owners,
            ),
            (!can_hold(&self.perms, self.types), Permissions),
            (self.empty && !self.can_be_empty(), NeverEmpty),
            (self.empty && !self.empty_size_passes(), EmptySize),
        ];
        let mut found = is_never.into_iter().filter(|(is_never, _)| *is_never);
        found.next().map(|(_, reason)| reason)
    }

    fn can_be_empty(&self) -> bool {
        self.types.accepts(Type::File) || self.types.accepts(Type::Directory)
    }

    /// The size of a directory without entries differs by file system; that of a file is 0.
    fn empty_size_passes(&self) -> bool {
        self.types.accepts(Type::Directory) || self.sizes.iter().all(|test| test.accepts(0))
    }
}

fn overlap(ranges: impl Iterator<Item = (u128, u128)>) -> bool {
    let (low, high) = ranges.fold((0, u128::MAX), |(low, high), range| {
        (low.max(range.0), high.min(range.1))
    });
    low <= high
}

fn are_consistent(tests: &[IdTest]) -> bool {
    let mut required = tests.iter().filter(|test| !test.negated);
    required
        .next()
        .is_none_or(|one| tests.iter().all(|test| test.accepts(one.id)))
}

fn can_hold(tests: &[PermTest], types: Types) -> bool {
    let exact = |test: &&PermTest| test.how == PermMatch::Exact;
    let Some(first) = tests.iter().find(exact) else {
        return true;
    };
    let passes = |mode: u32| tests.iter().all(|test| test.accepts(mode));
    let is_other = types.is_any() || !only_directories(types);
    is_other && passes(0o100_000 | first.bits)
        || types.accepts(Type::Directory) && passes(0o040_000 | first.directory_bits)
}

fn only_directories(types: Types) -> bool {
    let mut directories = Types::default();
    directories.insert(Type::Directory);
    types == directories
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Time;
    use crate::predicate::test::{NumberTest, Sign, SizeTest, TimeTest};

    #[test]
    fn contradictions_are_found() {
        assert_eq!(Predicates::default().contradiction(), None);
        let size = |sign, number| SizeTest {
            units: NumberTest { sign, number },
            unit: 1024,
        };
        let sizes = |sizes: &[SizeTest]| Predicates {
            sizes: sizes.to_vec(),
            ..Predicates::default()
        };
        let (more, less) = (size(Sign::Greater, 3), size(Sign::Less, 4));
        assert_eq!(
            sizes(&[more, less]).contradiction(),
            Some(Contradiction::Sizes)
        );
        let wider = size(Sign::Less, 5);
        assert_eq!(sizes(&[more, wider]).contradiction(), None);
        let at = |sec| Some(Time { sec, nsec: 0 });
        let time = TimeTest {
            after: at(5),
            before: at(5),
            ..TimeTest::default()
        };
        let times = Predicates {
            time,
            ..Predicates::default()
        };
        assert_eq!(times.contradiction(), Some(Contradiction::Times));
        let users = |ids: &[(u32, bool)]| Predicates {
            users: ids
                .iter()
                .map(|&(id, negated)| IdTest { id, negated })
                .collect(),
            ..Predicates::default()
        };
        let both = users(&[(0, false), (0, true)]);
        assert_eq!(both.contradiction(), Some(Contradiction::Owners));
        assert_eq!(users(&[(0, true), (1, true)]).contradiction(), None);
        let exact = |bits| PermTest {
            how: PermMatch::Exact,
            bits,
            directory_bits: bits,
        };
        let perms = Predicates {
            perms: vec![exact(0o644), exact(0o600)],
            ..Predicates::default()
        };
        assert_eq!(perms.contradiction(), Some(Contradiction::Permissions));
        let mut links = Types::default();
        links.insert(Type::Symlink);
        let empty = Predicates {
            empty: true,
            types: links,
            ..Predicates::default()
        };
        assert_eq!(empty.contradiction(), Some(Contradiction::NeverEmpty));
    }
}
