//! The paths to look up: those of one file in every directory of the search. The paths of the next
//! file are made by incrementing the number at their ends in place, so that the timed loop neither
//! formats nor allocates.

use std::collections::TryReserveError;

/// The paths of one file, one per directory, each with a final NUL.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    paths: Vec<Vec<u8>>,
    /// The number at the end of the names.
    number: u64,
}

impl Paths {
    /// The paths of file 0, each of a prefix, `stem` (such as `15.`) and the number 0. Reserves
    /// room for numbers up to `last`.
    ///
    /// # Errors
    /// If memory allocation fails.
    pub(crate) fn new(
        prefixes: impl ExactSizeIterator<Item = Vec<u8>>,
        stem: &[u8],
        last: u64,
    ) -> Result<Paths, TryReserveError> {
        let digits = last.max(1).ilog10() as usize + 1;
        let mut paths = Vec::new();
        paths.try_reserve_exact(prefixes.len())?;
        for prefix in prefixes {
            let mut path = Vec::new();
            path.try_reserve_exact(prefix.len() + stem.len() + digits + 1)?;
            path.extend_from_slice(&prefix);
            path.extend_from_slice(stem);
            path.extend_from_slice(b"0\0");
            paths.push(path);
        }
        Ok(Paths { paths, number: 0 })
    }

    /// The paths, in the order of the directories.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.paths.iter().map(Vec::as_slice)
    }

    /// The path in one directory, without its NUL.
    #[cfg(test)]
    fn in_directory(&self, directory: usize) -> &[u8] {
        self.paths
            .get(directory)
            .and_then(|path| path.strip_suffix(b"\0"))
            .unwrap_or_default()
    }

    /// Changes all paths to those of the next file.
    #[inline]
    pub(crate) fn advance(&mut self) {
        self.number += 1;
        self.paths.iter_mut().for_each(count_up);
    }

    /// Changes all paths to those of the file with this number.
    pub(crate) fn seek(&mut self, number: u64) {
        if number == self.number {
            return;
        }
        self.number = number;
        let digits = number.to_string();
        for path in &mut self.paths {
            let end = path
                .iter()
                .rposition(|byte| *byte == b'.')
                .map_or(0, |at| at + 1);
            path.truncate(end);
            path.extend_from_slice(digits.as_bytes());
            path.push(0);
        }
    }
}

/// Increments the number at the end of a path, before its NUL.
#[inline]
fn count_up(path: &mut Vec<u8>) {
    for at in (0..path.len().saturating_sub(1)).rev() {
        match &mut path[at] {
            nine @ b'9' => *nine = b'0',
            digit @ b'0'..=b'8' => {
                *digit += 1;
                return;
            }
            _ => {
                path.insert(at + 1, b'1'); // all digits were nines
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(last: u64) -> Paths {
        Paths::new(
            [b"r/0/".to_vec(), b"r/1/".to_vec()].into_iter(),
            b"1.",
            last,
        )
        .unwrap()
    }

    #[test]
    fn counting_up_equals_formatting_and_does_not_allocate() {
        let mut counted = paths(1100);
        let capacities: Vec<usize> = counted.paths.iter().map(Vec::capacity).collect();
        for n in 0..=1100 {
            let expected = [0, 1].map(|d| format!("r/{d}/1.{n}\0").into_bytes());
            assert!(counted.iter().eq(expected.iter().map(Vec::as_slice)), "{n}");
            counted.advance();
        }
        assert_eq!(
            capacities,
            counted.paths.iter().map(Vec::capacity).collect::<Vec<_>>(),
            "advance() allocated"
        );
    }

    #[test]
    fn counting_up_continues_from_any_number() {
        let mut paths = paths(u64::MAX);
        for n in [5, 99, 7, 99_999, 0] {
            paths.seek(n);
            assert_eq!(paths.in_directory(1), format!("r/1/1.{n}").as_bytes());
            paths.advance();
            assert_eq!(paths.in_directory(0), format!("r/0/1.{}", n + 1).as_bytes());
        }
    }
}
