//! What perf_event_open(2) puts into its ring, and the format files of tracepoints, which say where
//! their fields are.
//! [perf_event_open(2)](https://man7.org/linux/man-pages/man2/perf_event_open.2.html)

use crate::{u16_at, u32_at, u64_at};

/// A record. Events must have been opened with the sample type that [`SAMPLE`] stands for, all or
/// none of them with [`IDS`] besides, and with `sample_id_all`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record<'a> {
    /// A tracepoint was reached.
    Sample {
        /// Process and thread: `None` unless the event was opened with [`IDS`].
        by: Option<Task>,
        /// When, on the clock that the event was opened with, in nanoseconds.
        time: u64,
        /// The tracepoint's record: begins with its number.
        raw: &'a [u8],
        /// What the caller runs: `None` unless the event was opened with [`ABI`].
        abi: Option<Abi>,
    },
    /// A process or thread was made.
    Fork {
        /// What was made.
        made: Task,
        /// By whom.
        by: Task,
        /// When.
        time: u64,
    },
    /// A thread has ended.
    Exit {
        /// Which.
        ended: Task,
        /// When.
        time: u64,
    },
    /// So many records did not fit into the ring.
    Lost(u64),
    /// Something else.
    Other,
}

/// Ids of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Task {
    /// Its process.
    pub pid: u32,
    /// Itself.
    pub tid: u32,
}

/// What kind of program a sample is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Abi {
    /// One of 32 bits.
    Bits32,
    /// One of 64 bits.
    Bits64,
}

/// `PERF_SAMPLE_TIME | PERF_SAMPLE_RAW`: what each sample has.
pub const SAMPLE: u64 = 1 << 2 | 1 << 10;
/// `PERF_SAMPLE_TID`, which may be added: who it was, as the PID namespace of who opened the event
/// knows it. See [`thread`].
pub const IDS: u64 = 1 << 1;
/// `PERF_SAMPLE_REGS_USER`, which may be added, with a single register: it says of how many bits
/// the program is.
pub const ABI: u64 = 1 << 12;

/// What every record begins with: its type, flags, and length with this head.
pub const HEAD: usize = 8;

/// The length of the record that begins here, its head included; `None` for one that cannot be.
pub fn length(head: &[u8]) -> Option<usize> {
    let len = usize::from(u16_at(head, 6)?);
    (len >= HEAD).then_some(len)
}

impl Record<'_> {
    /// From the bytes of a whole record; `None` when they are too few. Whether events were opened
    /// with [`IDS`] is to be said.
    pub fn parse(bytes: &[u8], ids: bool) -> Option<Record<'_>> {
        let (head, body) = bytes.split_at_checked(HEAD)?;
        let task = |at| {
            Some(Task {
                pid: u32_at(body, at)?,
                tid: u32_at(body, at + 4)?,
            })
        };
        // pid, ppid, tid, ptid, time
        let second = |at| {
            Some(Task {
                pid: u32_at(body, at)?,
                tid: u32_at(body, at + 8)?,
            })
        };
        Some(match u32_at(head, 0)? {
            2 => Record::Lost(u64_at(body, 8)?),
            4 => Record::Exit {
                ended: second(0)?,
                time: u64_at(body, 16)?,
            },
            7 => Record::Fork {
                made: second(0)?,
                by: second(4)?,
                time: u64_at(body, 16)?,
            },
            9 => {
                let (by, body) = if ids {
                    (Some(task(0)?), body.get(8..)?)
                } else {
                    (None, body)
                };
                let len = usize::try_from(u32_at(body, 8)?).ok()?;
                let (raw, rest) = body.get(12..)?.split_at_checked(len)?;
                let abi = match u64_at(rest, 0) {
                    Some(1) => Some(Abi::Bits32),
                    Some(2) => Some(Abi::Bits64),
                    _ => None,
                };
                Record::Sample {
                    by,
                    time: u64_at(body, 0)?,
                    raw,
                    abi,
                }
            }
            _ => Record::Other,
        })
    }

    /// When it was made; `None` for what bears no time.
    pub fn time(&self) -> Option<u64> {
        match self {
            Record::Sample { time, .. } | Record::Fork { time, .. } | Record::Exit { time, .. } => {
                Some(*time)
            }
            Record::Lost(_) | Record::Other => None,
        }
    }
}

/// A call that begins or ends, from the tracepoints `raw_syscalls:sys_enter` and `sys_exit`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Syscall {
    /// It begins.
    Enter {
        /// Its number.
        number: i64,
        /// Its arguments.
        args: [u64; 6],
    },
    /// It ends.
    Exit {
        /// Its number.
        number: i64,
        /// What it answers.
        result: i64,
    },
}

impl Syscall {
    /// From the record of `sys_enter`.
    pub fn enter(raw: &[u8]) -> Option<Syscall> {
        let mut args = [0; 6];
        for (n, arg) in args.iter_mut().enumerate() {
            *arg = u64_at(raw, 16 + 8 * n)?;
        }
        Some(Syscall::Enter {
            number: u64_at(raw, 8)?.cast_signed(),
            args,
        })
    }

    /// From the record of `sys_exit`.
    pub fn exit(raw: &[u8]) -> Option<Syscall> {
        Some(Syscall::Exit {
            number: u64_at(raw, 8)?.cast_signed(),
            result: u64_at(raw, 16)?.cast_signed(),
        })
    }
}

/// The number of the tracepoint that a record is of.
pub fn tracepoint(raw: &[u8]) -> Option<u16> {
    u16_at(raw, 0)
}

/// The thread that a tracepoint's record is of, as the first PID namespace knows it.
pub fn thread(raw: &[u8]) -> Option<u32> {
    u32_at(raw, 4)
}

/// A string of a record whose place and length are in the record themselves: a `__data_loc` field
/// at `at`. Without its NUL.
pub fn text(raw: &[u8], at: usize) -> Option<&[u8]> {
    let place = u32_at(raw, at)?;
    let (from, len) = ((place & 0xffff) as usize, (place >> 16) as usize);
    let text = raw.get(from..from.checked_add(len)?)?;
    Some(text.split(|&byte| byte == 0).next().unwrap_or_default())
}

/// The offset of a field in a tracepoint's record, from its format file.
pub fn field(format: &[u8], name: &[u8]) -> Option<usize> {
    format.split(|&byte| byte == b'\n').find_map(|line| {
        let mut parts = line
            .trim_ascii()
            .split(|&byte| byte == b';')
            .map(<[u8]>::trim_ascii);
        let declared = parts.next()?.strip_prefix(b"field:")?;
        let last = declared
            .rsplit(|&byte| byte == b' ' || byte == b'*')
            .next()?;
        let last = last.split(|&byte| byte == b'[').next()?;
        let offset = parts.next()?.strip_prefix(b"offset:")?;
        if last == name {
            str::from_utf8(offset).ok()?.parse().ok()
        } else {
            None
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FORMAT: &[u8] = b"name: sched_process_exec\nID: 310\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\
        \tsigned:0;\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\tfield:__data_loc char[] filename;\toffset:8;\
        \tsize:4;\tsigned:0;\n\tfield:pid_t pid;\toffset:12;\tsize:4;\tsigned:1;\n\tfield:char comm[16];\toffset:16;\tsize:16;\
        \tsigned:0;\n\tfield:pid_t old_pid;\toffset:32;\tsize:4;\tsigned:1;\n\nprint fmt: \"filename=%s\"\n";

    fn record(kind: u32, body: &[u8]) -> Vec<u8> {
        let len = (HEAD + body.len()) as u16;
        [
            &kind.to_ne_bytes()[..],
            &0u16.to_ne_bytes(),
            &len.to_ne_bytes(),
            body,
        ]
        .concat()
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn fields_are_where_the_format_says() {
        let at = |name: &[u8]| field(FORMAT, name);
        assert_eq!(
            [b"filename".as_slice(), b"pid", b"comm", b"old_pid", b"none"].map(at),
            [Some(8), Some(12), Some(16), Some(32), None]
        );
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn records_are_as_the_kernel_makes_them() {
        let fork = record(7, &words(&[10, 9, 11, 8, 77, 0, 0, 0, 0, 0]));
        let (made, by) = (Task { pid: 10, tid: 11 }, Task { pid: 9, tid: 8 });
        assert_eq!(
            Record::parse(&fork, false),
            Some(Record::Fork { made, by, time: 77 })
        );
        assert_eq!(length(&fork), Some(48));

        let raw = words(&[380, 11, 257, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0]);
        let mut sample = words(&[10, 11, 5, 0, raw.len() as u32]);
        sample.extend(&raw);
        sample.extend(words(&[1, 0, 0, 0]));
        let whole = record(9, &sample);
        let Some(Record::Sample {
            by,
            time: 5,
            raw,
            abi,
        }) = Record::parse(&whole, true)
        else {
            panic!("{whole:?}")
        };
        assert_eq!(
            (by, tracepoint(raw), abi),
            (
                Some(Task { pid: 10, tid: 11 }),
                Some(380),
                Some(Abi::Bits32)
            )
        );
        assert_eq!(thread(raw), Some(11));
        let short = record(9, &sample[8..]);
        assert_eq!(
            Record::parse(&short, false),
            Some(Record::Sample {
                by: None,
                time: 5,
                raw,
                abi
            })
        );
        assert_eq!(
            Syscall::enter(raw),
            Some(Syscall::Enter {
                number: 257,
                args: [1, 2, 3, 4, 5, 6]
            })
        );
        assert_eq!(
            Syscall::exit(&raw[..24]),
            Some(Syscall::Exit {
                number: 257,
                result: 1
            })
        );
        assert_eq!(
            Record::parse(&record(2, &words(&[1, 0, 42, 0])), true),
            Some(Record::Lost(42))
        );
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn a_text_is_where_its_field_says() {
        let raw = [&words(&[0, 0, 6 << 16 | 12])[..], b"a/b\0\0\0"].concat();
        assert_eq!(text(&raw, 8), Some(&b"a/b"[..]));
        assert_eq!(text(&raw[..17], 8), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            kind in 0u32..12,
            body in proptest::collection::vec(any::<u8>(), 0..200),
            ids in any::<bool>(),
        ) {
            if let Some(Record::Sample { raw, .. }) = Record::parse(&record(kind, &body), ids) {
                let _ = (Syscall::enter(raw), Syscall::exit(raw), tracepoint(raw), thread(raw), text(raw, 8));
            }
            let _ = (Record::parse(&body, ids), length(&body), field(&body, b"pid"));
        }
    }
}
