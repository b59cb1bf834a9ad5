//! What one process tells another: a log in memory that both share, and how what was found becomes
//! bytes in it and is made of them again.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use gate::process::Shared;
use gate::{Errno, Gate};

use crate::desk::{Moved, Trouble};
use crate::finding::{Experiment, Finding, Value};
use crate::gates::Price;
use crate::run::{Answer, Measured};
use crate::samples::{Kind, Series};

/// A log, to which one process adds. Who reads it, at whatever time, sees whole entries only, and
/// those that were added by a process that was killed since.
#[derive(Debug)]
pub(crate) struct Log(Shared);

impl Log {
    /// A log with room for so many words of 64 bits. What no longer fits in is left out.
    pub(crate) fn new(words: usize) -> gate::Result<Log> {
        Shared::new(1 + words).map(Log)
    }

    /// Adds an entry.
    pub(crate) fn add(&self, entry: &impl Carried) {
        let mut bytes = Vec::new();
        entry.put(&mut bytes);
        let Some((used, entries)) = self.0.split_first() else {
            return;
        };
        let from = used.load(Relaxed) as usize;
        let end = from + 1 + bytes.len().div_ceil(8);
        let Some(place) = entries.get(from..end) else {
            return;
        };
        let words = bytes.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        });
        let words = [bytes.len() as u64].into_iter().chain(words);
        place
            .iter()
            .zip(words)
            .for_each(|(place, word)| place.store(word, Relaxed));
        used.store(end as u64, Release);
    }

    /// The entry at a place, which is then that of the next one; `None` while there is none.
    pub(crate) fn read<T: Carried>(&self, at: &mut usize) -> Option<T> {
        let (used, entries) = self.0.split_first()?;
        let entries = entries.get(*at..used.load(Acquire) as usize)?;
        let (len, words) = entries.split_first()?;
        let len = len.load(Relaxed) as usize;
        let words = words.get(..len.div_ceil(8))?;
        *at += 1 + words.len();
        let bytes: Vec<u8> = words
            .iter()
            .flat_map(|word| word.load(Relaxed).to_le_bytes())
            .take(len)
            .collect();
        T::take(&mut &bytes[..])
    }
}

/// What becomes bytes, and is made of them again by the same program.
pub(crate) trait Carried: Sized {
    /// Adds its bytes.
    fn put(&self, into: &mut Vec<u8>);
    /// Takes its bytes from the beginning of these; `None` where they are none of its.
    fn take(from: &mut &[u8]) -> Option<Self>;
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Carried for $type {
            fn put(&self, into: &mut Vec<u8>) {
                into.extend(self.to_le_bytes());
            }
            fn take(from: &mut &[u8]) -> Option<Self> {
                let (bytes, rest) = from.split_first_chunk()?;
                *from = rest;
                Some(<$type>::from_le_bytes(*bytes))
            }
        }
    )*};
}

numbers!(u8, i32, u32, u64, usize, f64);

/// One of those that the type counts up in `ALL`.
macro_rules! one_of_all {
    ($($type:ty),*) => {$(
        impl Carried for $type {
            fn put(&self, into: &mut Vec<u8>) {
                <$type>::ALL.iter().position(|known| known == self).unwrap_or_default().put(into);
            }
            fn take(from: &mut &[u8]) -> Option<Self> {
                <$type>::ALL.get(usize::take(from)?).copied()
            }
        }
    )*};
}

one_of_all!(Experiment, Gate, Kind);

/// All fields, one after the other.
macro_rules! fields {
    ($($type:ident { $($field:ident),* })*) => {$(
        impl Carried for $type {
            fn put(&self, into: &mut Vec<u8>) {
                $(self.$field.put(into);)*
            }
            fn take(from: &mut &[u8]) -> Option<Self> {
                Some($type { $($field: Carried::take(from)?),* })
            }
        }
    )*};
}

fields! {
    Moved { read, written }
    Series { kind, step, runs, trials }
    Price { gate, what, warm, threads, ns, low, high, calls }
    Finding {
        experiment, name, inferred, unit, truth, truth_source, agrees, confidence, method, by_time, trials, refused
    }
    Measured { finding, seconds, moved }
    Answer { fstype, measured, prices, series, hung }
}

impl Carried for bool {
    fn put(&self, into: &mut Vec<u8>) {
        u8::from(*self).put(into);
    }
    fn take(from: &mut &[u8]) -> Option<Self> {
        u8::take(from).map(|byte| byte != 0)
    }
}

impl<T: Carried> Carried for Vec<T> {
    fn put(&self, into: &mut Vec<u8>) {
        self.len().put(into);
        self.iter().for_each(|each| each.put(into));
    }
    fn take(from: &mut &[u8]) -> Option<Self> {
        (0..usize::take(from)?).map(|_| T::take(from)).collect()
    }
}

impl Carried for String {
    fn put(&self, into: &mut Vec<u8>) {
        self.as_bytes().to_vec().put(into);
    }
    fn take(from: &mut &[u8]) -> Option<Self> {
        String::from_utf8(Carried::take(from)?).ok()
    }
}

/// The names of findings, units and calls. Those that come from another process are never given
/// back: there are some dozens of them.
impl Carried for &'static str {
    fn put(&self, into: &mut Vec<u8>) {
        self.to_string().put(into);
    }
    fn take(from: &mut &[u8]) -> Option<Self> {
        String::take(from).map(|text| &*text.leak())
    }
}

impl<T: Carried> Carried for Option<T> {
    fn put(&self, into: &mut Vec<u8>) {
        self.is_some().put(into);
        self.iter().for_each(|some| some.put(into));
    }
    fn take(from: &mut &[u8]) -> Option<Self> {
        if bool::take(from)? {
            T::take(from).map(Some)
        } else {
            Some(None)
        }
    }
}

impl<A: Carried, B: Carried> Carried for (A, B) {
    fn put(&self, into: &mut Vec<u8>) {
        self.0.put(into);
        self.1.put(into);
    }
    fn take(from: &mut &[u8]) -> Option<Self> {
        Some((A::take(from)?, B::take(from)?))
    }
}

impl<T: Carried> Carried for Result<T, Trouble> {
    fn put(&self, into: &mut Vec<u8>) {
        self.is_ok().put(into);
        match self {
            Ok(done) => done.put(into),
            Err(why) => why.put(into),
        }
    }
    fn take(from: &mut &[u8]) -> Option<Self> {
        if bool::take(from)? {
            T::take(from).map(Ok)
        } else {
            Trouble::take(from).map(Err)
        }
    }
}

impl Carried for Errno {
    fn put(&self, into: &mut Vec<u8>) {
        self.0.put(into);
    }
    fn take(from: &mut &[u8]) -> Option<Self> {
        i32::take(from).map(Errno)
    }
}

impl Carried for Value {
    fn put(&self, into: &mut Vec<u8>) {
        match self {
            Value::Number(v) => (0_u8, *v).put(into),
            Value::Range(low, high) => (1_u8, (*low, *high)).put(into),
            Value::List(values) => (2_u8, values.clone()).put(into),
            Value::Word(word) => (3_u8, word.clone()).put(into),
        }
    }
    fn take(from: &mut &[u8]) -> Option<Self> {
        match u8::take(from)? {
            0 => f64::take(from).map(Value::Number),
            1 => <(f64, f64)>::take(from).map(|(low, high)| Value::Range(low, high)),
            2 => Vec::take(from).map(Value::List),
            3 => String::take(from).map(Value::Word),
            _ => None,
        }
    }
}

/// What is heard of it is what it says, and the call that failed.
impl Carried for Trouble {
    fn put(&self, into: &mut Vec<u8>) {
        (
            *self == Trouble::Interrupted,
            (self.to_string(), self.refusal()),
        )
            .put(into);
    }
    fn take(from: &mut &[u8]) -> Option<Self> {
        let (is_interrupted, (why, refusal)): (bool, (String, Option<(Gate, Errno)>)) =
            Carried::take(from)?;
        Some(match refusal {
            _ if is_interrupted => Trouble::Interrupted,
            Some((gate, errno)) => Trouble::Told { why, gate, errno },
            None => Trouble::Hindered(why),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn again<T: Carried>(it: &T) -> Option<T> {
        let mut bytes = Vec::new();
        it.put(&mut bytes);
        let mut left = &bytes[..];
        let same = T::take(&mut left);
        assert!(left.is_empty());
        same
    }

    #[test]
    fn what_was_found_is_carried_over() {
        let why = Trouble::Refused {
            doing: "cannot write to the file",
            gate: Gate::Pwrite64,
            errno: Errno::ENOSPC,
        };
        let values = [
            Value::Number(f64::NEG_INFINITY),
            Value::Range(1.5, 2.0),
            Value::List(vec![1, u64::MAX]),
            Value::Word("ä".to_owned()),
        ];
        let known = values.map(|value| {
            let finding =
                Finding::known(Experiment::Block, "cluster", "bytes", 4096_u64, 0.5, "so")
                    .by_time()
                    .tried(3);
            Finding {
                inferred: Some(value),
                ..finding
            }
            .beside(Some((4096_u64.into(), "statfs(2)".to_owned())), 0.0)
        });
        let unknown = Finding::hindered(Experiment::Gates, "fsync", "ns", &why);
        let moved = Moved {
            read: 1,
            written: u64::MAX,
        };
        let price = Price {
            gate: "openat+close",
            what: "a new file",
            warm: true,
            threads: 2,
            ns: 0.5,
            low: 0.25,
            high: 1e300,
            calls: 7,
        };
        let found = known.into_iter().chain([unknown]);
        let answer = Answer {
            fstype: Some(b"fuse.\xff".to_vec()),
            measured: found
                .map(|finding| Measured {
                    finding,
                    seconds: 0.125,
                    moved,
                })
                .collect(),
            prices: Some(vec![price]),
            series: vec![Series {
                runs: vec![1, 4],
                ..Series::of(Kind::Passes, 4096, vec![vec![1.0, 0.1]; 3])
            }],
            hung: Some("so".to_owned()),
        };
        assert_eq!(again(&answer).as_ref(), Some(&answer));
        assert_eq!(again(&Answer::default()), Some(Answer::default()));

        let heard = again(&why).unwrap();
        assert_eq!(
            (heard.refusal(), heard.to_string()),
            (why.refusal(), why.to_string())
        );
        let hindered = Trouble::Hindered("so".to_owned());
        assert_eq!(again(&hindered).as_ref(), Some(&hindered));
        let samples: Result<Vec<(u64, f64)>, Trouble> = Ok(vec![(1, 10.0), (2, 20.0)]);
        assert_eq!(again(&samples), Some(samples));
        assert_eq!(
            again(&Err::<u8, _>(Trouble::Interrupted)),
            Some(Err(Trouble::Interrupted))
        );
    }

    #[test]
    fn a_log_is_read_in_order_and_what_does_not_fit_in_is_left_out() {
        let log = Log::new(8).unwrap();
        let mut at = 0;
        assert_eq!(log.read::<String>(&mut at), None);
        log.add(&"one".to_owned());
        log.add(&"two".to_owned());
        assert_eq!(log.read(&mut at), Some("one".to_owned()));
        log.add(&"so long that there is no room for it".to_owned());
        assert_eq!(log.read(&mut at), Some("two".to_owned()));
        assert_eq!(log.read::<String>(&mut at), None);
        log.add(&7_u8);
        assert_eq!(log.read(&mut at), Some(7_u8));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = Answer::take(&mut &bytes[..]);
            let _ = Result::<Vec<(u64, f64)>, Trouble>::take(&mut &bytes[..]);
        }
    }
}
