//! A log in shared memory that a child process writes and its parent reads.
//!
//! Each entry is a word with its length in bytes, and then the entry in postcard's encoding, padded
//! to words. The first word of the log counts the words of finished entries. It is stored last, so
//! that the parent never sees a partial entry, even if the child was killed while writing.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use gate::process::SharedWords;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A log from one process to another.
#[derive(Debug)]
pub struct Log(SharedWords);

impl Log {
    /// A log of this many 64-bit words. An entry that does not fit is dropped.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(words: usize) -> gate::Result<Log> {
        SharedWords::new(1 + words).map(Log)
    }

    /// Adds an entry.
    pub fn write(&self, entry: &impl Serialize) {
        let Ok(bytes) = postcard::to_allocvec(entry) else {
            return;
        };
        let Some((used, entries)) = self.0.split_first() else {
            return;
        };
        let from = used.load(Relaxed) as usize;
        let end = from + 1 + bytes.len().div_ceil(8);
        let Some(room) = entries.get(from..end) else {
            return;
        };
        let words = bytes.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        });
        let words = [bytes.len() as u64].into_iter().chain(words);
        for (place, word) in room.iter().zip(words) {
            place.store(word, Relaxed);
        }
        used.store(end as u64, Release);
    }

    /// Reads the entry at `at`, and advances `at`; `None` if there is no entry yet.
    pub fn read<T: DeserializeOwned>(&self, at: &mut usize) -> Option<T> {
        let (used, entries) = self.0.split_first()?;
        let entries = entries.get(*at..used.load(Acquire) as usize)?;
        let (len, words) = entries.split_first()?;
        let len = len.load(Relaxed) as usize;
        let words = words.get(..len.div_ceil(8))?;
        *at += 1 + words.len();
        let bytes = words
            .iter()
            .flat_map(|word| word.load(Relaxed).to_le_bytes());
        let bytes: Vec<u8> = bytes.take(len).collect();
        postcard::from_bytes(&bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_read_in_order_without_entries_that_did_not_fit() {
        let log = Log::new(8).unwrap();
        let mut at = 0;
        assert_eq!(log.read::<String>(&mut at), None);
        log.write(&"one".to_owned());
        log.write(&"two".to_owned());
        assert_eq!(log.read(&mut at), Some("one".to_owned()));
        log.write(&"so long that there is no room for it, however it is encoded".to_owned());
        assert_eq!(log.read(&mut at), Some("two".to_owned()));
        assert_eq!(log.read::<String>(&mut at), None);
        log.write(&7_u8);
        assert_eq!(log.read(&mut at), Some(7_u8));
    }

    #[test]
    fn half_an_entry_is_not_read() {
        let log = Log::new(16).unwrap();
        log.write(&"whole".to_owned());
        let used = log.0[0].load(Relaxed);
        log.write(&"torn by a kill".to_owned());
        log.0[0].store(used, Release);
        let mut at = 0;
        assert_eq!(log.read(&mut at), Some("whole".to_owned()));
        assert_eq!(log.read::<String>(&mut at), None);
        // Store a count that includes an entry which was not written.
        log.0[0].store(used + 1, Release);
        log.0[1 + used as usize].store(u64::MAX, Release);
        assert_eq!(log.read::<String>(&mut at), None);
    }
}
