//! Tests of single fields of the metadata.

use crate::entry::{FileType, Meta, Time};

/// How a number is compared with the given one: less, equal or greater.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Sign {
    Less,
    Equal,
    Greater,
}

/// A test of a number, as in find: `-N`, `N` or `+N`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NumberTest {
    /// The comparison: less, equal or greater.
    pub sign: Sign,
    /// The number to compare with.
    pub number: u64,
}

impl NumberTest {
    /// Whether a number passes the test.
    #[inline]
    pub fn accepts(self, number: u64) -> bool {
        match self.sign {
            Sign::Less => number < self.number,
            Sign::Equal => number == self.number,
            Sign::Greater => number > self.number,
        }
    }

    /// The numbers that pass, as an inclusive range, which may be empty.
    pub fn range(self) -> (u128, u128) {
        let number = u128::from(self.number);
        match self.sign {
            Sign::Less => (0, number.wrapping_sub(1)),
            Sign::Equal => (number, number),
            Sign::Greater => (number + 1, u64::MAX.into()),
        }
    }
}

/// A test of a size in units, rounded up as in find: 1 byte counts as 1 MiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SizeTest {
    /// The test of the number of units.
    pub units: NumberTest,
    /// Size of the unit in bytes.
    pub unit: u64,
}

impl SizeTest {
    /// Whether a size in bytes passes the test.
    #[inline]
    pub fn accepts(self, bytes: u64) -> bool {
        self.units.accepts(bytes.div_ceil(self.unit))
    }

    /// The sizes that pass, as an inclusive range of bytes, which may be empty.
    pub fn range(self) -> (u128, u128) {
        let unit = u128::from(self.unit);
        let lower = |units: u128| units.checked_sub(1).map_or(0, |units| units * unit + 1);
        match self.units.sign {
            Sign::Less if self.units.number == 0 => (1, 0),
            _ => {
                let (low, high) = self.units.range();
                (lower(low), high.saturating_mul(unit))
            }
        }
    }
}

/// A file time: which of the four.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub enum TimeField {
    #[default]
    Mtime,
    Ctime,
    Atime,
    Btime,
}

impl TimeField {
    /// This time of a file, if the file system has it.
    #[inline]
    pub fn get(self, meta: &Meta) -> Option<Time> {
        match self {
            TimeField::Mtime => Some(meta.mtime),
            TimeField::Ctime => Some(meta.ctime),
            TimeField::Atime => Some(meta.atime),
            TimeField::Btime => meta.btime,
        }
    }
}

/// Limits for a file time; a time that equals a limit does not pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TimeTest {
    /// The file time to compare.
    pub field: TimeField,
    /// The file time must be later.
    pub after: Option<Time>,
    /// The file time must be earlier.
    pub before: Option<Time>,
}

impl TimeTest {
    /// Whether either limit is set.
    pub fn is_limited(&self) -> bool {
        self.after.is_some() || self.before.is_some()
    }

    /// Whether a file time passes; a file without that time does not.
    #[inline]
    pub fn accepts(&self, time: Option<Time>) -> bool {
        time.is_some_and(|time| {
            self.after.is_none_or(|after| time > after)
                && self.before.is_none_or(|before| time < before)
        })
    }
}

/// A test of a user or group id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdTest {
    /// The user or group id.
    pub id: u32,
    /// Whether the test is inverted: any other id passes.
    pub negated: bool,
}

impl IdTest {
    /// Whether a user or group id passes the test.
    #[inline]
    pub fn accepts(self, id: u32) -> bool {
        (id == self.id) != self.negated
    }
}

/// How permission bits are compared with the given ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PermMatch {
    /// The bits are equal to the given ones.
    Exact,
    /// All of the given bits are set.
    All,
    /// Any of the given bits is set; if none are given, always true.
    Any,
}

/// A test of the permission bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PermTest {
    /// The comparison of the bits.
    pub how: PermMatch,
    /// The bits to compare for a file that is no directory.
    pub bits: u32,
    /// The bits to compare for a directory: a symbolic `X` differs.
    pub directory_bits: u32,
}

impl PermTest {
    /// Whether the permission bits of a mode pass the test.
    #[inline]
    pub fn accepts(self, mode: u32) -> bool {
        let bits = match FileType::from_mode(mode) {
            FileType::Directory => self.directory_bits,
            _ => self.bits,
        };
        match self.how {
            PermMatch::Exact => mode & 0o7777 == bits,
            PermMatch::All => mode & bits == bits,
            PermMatch::Any => bits == 0 || mode & bits != 0,
        }
    }
}

/// A set of file types; the empty set accepts any.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Types(u8);

impl Types {
    /// Adds a file type to the set.
    pub fn insert(&mut self, kind: FileType) {
        self.0 |= 1 << kind as u8;
    }

    /// Whether the set is empty, which accepts any type.
    pub fn is_any(self) -> bool {
        self.0 == 0
    }

    /// Whether the set accepts a file type.
    #[inline]
    pub fn accepts(self, kind: FileType) -> bool {
        self.is_any() || self.0 & 1 << kind as u8 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_up_to_units() {
        let size = |sign, number, unit| SizeTest {
            units: NumberTest { sign, number },
            unit,
        };
        let mib = 1 << 20;
        for (test, yes, no) in [
            (size(Sign::Less, 1, mib), &[0][..], &[1, mib][..]),
            (size(Sign::Equal, 1, mib), &[1, mib], &[0, mib + 1]),
            (size(Sign::Greater, 1, mib), &[mib + 1, u64::MAX], &[0, mib]),
            (size(Sign::Less, 0, 1), &[], &[0, u64::MAX]),
            (size(Sign::Greater, u64::MAX, 1 << 40), &[], &[0, u64::MAX]),
        ] {
            let (low, high) = test.range();
            for bytes in yes {
                let within = (low..=high).contains(&(*bytes).into());
                assert!(test.accepts(*bytes) && within, "{test:?} {bytes}");
            }
            for bytes in no {
                let within = (low..=high).contains(&(*bytes).into());
                assert!(!test.accepts(*bytes) && !within, "{test:?} {bytes}");
            }
        }
    }

    #[test]
    fn permissions_compare_as_in_find() {
        let perm = |how, bits| PermTest {
            how,
            bits,
            directory_bits: bits,
        };
        assert!(perm(PermMatch::Exact, 0o644).accepts(0o100_644));
        assert!(!perm(PermMatch::Exact, 0o644).accepts(0o104_644));
        assert!(perm(PermMatch::All, 0o4000).accepts(0o104_644));
        assert!(perm(PermMatch::Any, 0o022).accepts(0o100_620));
        assert!(!perm(PermMatch::Any, 0o022).accepts(0o100_644));
        assert!(perm(PermMatch::Any, 0).accepts(0o100_000));
    }
}
