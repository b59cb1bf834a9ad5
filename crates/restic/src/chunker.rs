//! Cuts the contents of large files into blobs where restic cuts them, so that both programs share
//! blobs: where the low bits of a Rabin fingerprint of the last 64 bytes are zero (Rabin,
//! "Fingerprinting by Random Polynomials", 1981).

use crate::config::Chunking;
use crate::error::Error;

/// Number of bytes in the window of a fingerprint.
const WINDOW: usize = 64;

/// The chunking rules of a repository, with the tables of its polynomial.
pub(crate) struct Chunker {
    rabin: Option<Rabin>,
    /// Minimum length of a blob, except the last of a file.
    shortest: usize,
    /// Maximum length of a blob.
    longest: usize,
}

/// Tables for computing a fingerprint: the remainder of the bytes of the window, as a polynomial
/// over GF(2), modulo the polynomial of the repository.
struct Rabin {
    /// The remainder of a byte and 63 zeros, which removes the byte when it leaves the window.
    leaving: [u64; 256],
    /// Reduces a fingerprint that was shifted by a byte, indexed by the eight bits above its
    /// degree.
    reducing: [u64; 256],
    /// The shift that brings the highest eight bits of a fingerprint to the lowest place.
    shift: u32,
    /// The bits of a fingerprint that are zero where a blob ends.
    mask: u64,
}

impl Chunker {
    /// Prepares the tables for chunking parameters.
    ///
    /// # Errors
    /// If the parameters are invalid.
    pub(crate) fn new(chunking: &Chunking) -> Result<Chunker, Error> {
        let Chunking {
            polynomial,
            size,
            shortest,
            longest,
        } = *chunking;
        let is_valid = match polynomial {
            None => size > 0,
            Some(polynomial) => {
                size.is_power_of_two()
                    && (WINDOW..=size).contains(&shortest)
                    && longest >= size
                    && (9..=55).contains(&degree(polynomial))
            }
        };
        if !is_valid {
            return Err(Error::Chunking);
        }
        Ok(Chunker {
            rabin: polynomial.map(|polynomial| Rabin::new(polynomial, size as u64 - 1)),
            shortest,
            longest,
        })
    }

    /// Minimum length of a blob; shorter files are one blob.
    pub(crate) fn shortest(&self) -> usize {
        self.shortest
    }

    /// The length of a blob of zeros, when more zeros follow.
    pub(crate) fn zeros(&self) -> usize {
        // The fingerprint of zeros is zero, which ends a blob at the minimum length.
        match self.rabin {
            Some(_) => self.shortest,
            None => self.longest,
        }
    }

    /// The end of the first blob in `bytes`; `None` if the blob is longer. An earlier call has
    /// found no end in the first `seen` bytes. At the end of a file, the caller ends the blob.
    pub(crate) fn end(&self, bytes: &[u8], seen: usize) -> Option<usize> {
        let limit = bytes.len().min(self.longest);
        let from = seen.max(self.shortest);
        if limit < self.shortest {
            return None;
        }
        let found = self.rabin.as_ref().and_then(|rabin| {
            // If an earlier call has searched up to `seen`, the blob does not end at `seen`.
            let mut print = rabin.fingerprint(&bytes[from - WINDOW..from]);
            if seen < from && rabin.ends(print) {
                return Some(from);
            }
            let leaving = &bytes[from - WINDOW..];
            let entering = bytes[from..limit].iter().zip(leaving);
            let mut at = from;
            for (&entering, &leaving) in entering {
                print = rabin.slide(print, entering, leaving);
                at += 1;
                if rabin.ends(print) {
                    return Some(at);
                }
            }
            None
        });
        found.or_else(|| (bytes.len() >= self.longest).then_some(self.longest))
    }
}

impl Rabin {
    fn new(polynomial: u64, mask: u64) -> Rabin {
        let degree = degree(polynomial);
        let table = |of: &dyn Fn(u64) -> u64| std::array::from_fn(|byte| of(byte as u64));
        Rabin {
            leaving: table(&|byte| {
                let zeros = 0..WINDOW - 1;
                zeros.fold(remainder(byte, polynomial), |print, _| {
                    remainder(print << 8, polynomial)
                })
            }),
            reducing: table(&|byte| {
                let high = byte << degree;
                remainder(high, polynomial) | high
            }),
            shift: degree - 8,
            mask,
        }
    }

    fn fingerprint(&self, window: &[u8]) -> u64 {
        let append = |print, &byte: &u8| self.append(print, byte);
        window.iter().fold(0, append)
    }

    #[inline]
    fn append(&self, print: u64, byte: u8) -> u64 {
        let high = (print >> self.shift) as u8;
        (print << 8 | u64::from(byte)) ^ self.reducing[usize::from(high)]
    }

    #[inline]
    fn slide(&self, print: u64, entering: u8, leaving: u8) -> u64 {
        self.append(print ^ self.leaving[usize::from(leaving)], entering)
    }

    #[inline]
    fn ends(&self, print: u64) -> bool {
        print & self.mask == 0
    }
}

fn degree(polynomial: u64) -> u32 {
    63 - polynomial.max(1).leading_zeros()
}

/// The remainder of a division of polynomials over GF(2).
fn remainder(mut of: u64, by: u64) -> u64 {
    while of > 0 && degree(of) >= degree(by) {
        of ^= by << (degree(of) - degree(by));
    }
    of
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESTIC: Chunking = Chunking {
        polynomial: Some(0x003D_A335_8B4D_C173),
        size: 1 << 20,
        shortest: 512 << 10,
        longest: 8 << 20,
    };

    fn chunker() -> Chunker {
        Chunker::new(&RESTIC).unwrap()
    }

    fn random(len: usize) -> Vec<u8> {
        let mut state = 1_u64;
        let next = |_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        };
        (0..len).map(next).collect()
    }

    /// The lengths of the blobs, when `at_once` bytes arrive at a time.
    fn cut(bytes: &[u8], at_once: usize) -> Vec<usize> {
        let (chunker, mut found) = (chunker(), Vec::new());
        let (mut begin, mut seen, mut have) = (0, 0, 0);
        while begin < bytes.len() {
            match chunker.end(&bytes[begin..have], seen) {
                Some(end) => {
                    found.push(end);
                    (begin, seen) = (begin + end, 0);
                }
                None if have == bytes.len() => {
                    found.push(have - begin);
                    begin = have;
                }
                None => {
                    seen = have - begin;
                    have = bytes.len().min(have + at_once);
                }
            }
        }
        found
    }

    #[test]
    fn parameters_that_make_no_sense_are_refused() {
        let fixed = Chunking {
            polynomial: None,
            ..RESTIC
        };
        assert!(Chunker::new(&fixed).is_ok());
        for wrong in [
            Chunking { size: 0, ..fixed },
            Chunking {
                size: 3 << 18,
                ..RESTIC
            },
            Chunking {
                shortest: WINDOW - 1,
                ..RESTIC
            },
            Chunking {
                longest: 1 << 19,
                ..RESTIC
            },
            Chunking {
                polynomial: Some(1 << 8),
                ..RESTIC
            },
        ] {
            assert!(Chunker::new(&wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn slid_fingerprints_are_those_of_the_window() {
        let rabin = Rabin::new(0x003D_A335_8B4D_C173, (1 << 20) - 1);
        let bytes = random(1000);
        let mut print = rabin.fingerprint(&bytes[..WINDOW]);
        for at in WINDOW..bytes.len() {
            print = rabin.slide(print, bytes[at], bytes[at - WINDOW]);
            let window = &bytes[at + 1 - WINDOW..=at];
            assert_eq!(print, rabin.fingerprint(window));
            let divide =
                |print, byte: &u8| remainder(print << 8 | u64::from(*byte), 0x003D_A335_8B4D_C173);
            assert_eq!(print, window.iter().fold(0, divide));
        }
    }

    #[test]
    fn cuts_do_not_depend_on_how_bytes_arrive() {
        let bytes = random(20 << 20);
        let all = cut(&bytes, bytes.len());
        assert_eq!(all.iter().sum::<usize>(), bytes.len());
        assert!(all.len() > 5, "{all:?}");
        for at_once in [100_003, 512 << 10, 1 << 20] {
            assert_eq!(cut(&bytes, at_once), all);
        }
        // A blob's end depends on the window only, not on earlier bytes.
        let later = cut(&bytes[all[0]..], bytes.len());
        assert_eq!(later, all[1..]);
    }

    #[test]
    fn limits_hold() {
        // The fingerprint of zeros is zero.
        assert_eq!(chunker().zeros(), 512 << 10);
        assert_eq!(cut(&[0; 2 << 20], 1 << 20), [512 << 10; 4]);
        assert_eq!(cut(&[1; 17 << 20], 1 << 20), [8 << 20, 8 << 20, 1 << 20]);
        assert_eq!(cut(b"small", 1), [5]);
        assert_eq!(cut(b"", 1), [0; 0]);
    }
}
