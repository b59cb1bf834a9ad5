//! Records of a perf_event_open(2) ring, and the format files of tracepoints with the offsets of their
//! fields. [perf_event_open(2)](https://man7.org/linux/man-pages/man2/perf_event_open.2.html)

use crate::{u16_at, u32_at, u64_at};

/// A record. Events must have been opened with `sample_id_all` and the sample type [`SAMPLE`], and
/// either all or none of them with [`IDS`]. Times are in nanoseconds of the event's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Record<'a> {
    /// A tracepoint was reached.
    Sample {
        /// `None` without [`IDS`].
        by: Option<Task>,
        time: u64,
        /// The tracepoint's record, which begins with its number.
        raw: &'a [u8],
        /// `None` without [`ABI`].
        abi: Option<Abi>,
    },
    /// A process or thread was created.
    Fork { made: Task, by: Task, time: u64 },
    /// A thread has ended.
    Exit { ended: Task, time: u64 },
    /// The number of records that did not fit into the ring.
    Lost(u64),
    /// A record of another type.
    Other,
}

/// Ids of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Task {
    pub pid: u32,
    pub tid: u32,
}

/// The word size of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Abi {
    Bits32,
    Bits64,
}

/// `PERF_SAMPLE_TIME | PERF_SAMPLE_RAW`: in every sample.
pub const SAMPLE: u64 = 1 << 2 | 1 << 10;
/// `PERF_SAMPLE_TID`, optional: the thread, in the PID namespace of the process that opened the event.
/// See [`thread`].
pub const IDS: u64 = 1 << 1;
/// `PERF_SAMPLE_REGS_USER`, optional, with a single register: for the word size of the program.
pub const ABI: u64 = 1 << 12;

/// Length of a record's header: type, flags, and length of the record.
pub const HEAD: usize = 8;

/// The length of the record that begins here, with its header; `None` for an impossible one.
pub fn length(head: &[u8]) -> Option<usize> {
    let len = usize::from(u16_at(head, 6)?);
    (len >= HEAD).then_some(len)
}

impl Record<'_> {
    /// Parses a whole record; `None` if it is too short. `ids`: the events were opened with [`IDS`].
    pub fn parse(bytes: &[u8], ids: bool) -> Option<Record<'_>> {
        let (head, body) = bytes.split_at_checked(HEAD)?;
        let task = |pid, tid| {
            Some(Task {
                pid: u32_at(body, pid)?,
                tid: u32_at(body, tid)?,
            })
        };
        Some(match u32_at(head, 0)? {
            2 => Record::Lost(u64_at(body, 8)?),
            4 => Record::Exit {
                ended: task(0, 8)?,
                time: u64_at(body, 16)?,
            },
            // pid, ppid, tid, ptid, time
            7 => Record::Fork {
                made: task(0, 8)?,
                by: task(4, 12)?,
                time: u64_at(body, 16)?,
            },
            9 => {
                let (by, body) = if ids {
                    (Some(task(0, 4)?), body.get(8..)?)
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

    /// Its time; `None` for records without one.
    pub fn time(&self) -> Option<u64> {
        match self {
            Record::Sample { time, .. } | Record::Fork { time, .. } | Record::Exit { time, .. } => {
                Some(*time)
            }
            Record::Lost(_) | Record::Other => None,
        }
    }
}

/// Entry or return of a system call: the tracepoints `raw_syscalls:sys_enter` and `sys_exit`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Syscall {
    Enter { number: i64, args: [u64; 6] },
    Exit { number: i64, result: i64 },
}

impl Syscall {
    /// Parses a record of `sys_enter`.
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

    /// Parses a record of `sys_exit`.
    pub fn exit(raw: &[u8]) -> Option<Syscall> {
        Some(Syscall::Exit {
            number: u64_at(raw, 8)?.cast_signed(),
            result: u64_at(raw, 16)?.cast_signed(),
        })
    }
}

/// The number of a record's tracepoint.
pub fn tracepoint(raw: &[u8]) -> Option<u16> {
    u16_at(raw, 0)
}

/// The thread of a tracepoint's record, in the initial PID namespace.
pub fn thread(raw: &[u8]) -> Option<u32> {
    u32_at(raw, 4)
}

/// A string of variable length without its NUL: the `__data_loc` field at an offset of a record.
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
        if last != name {
            return None;
        }
        str::from_utf8(offset).ok()?.parse().ok()
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
    fn field_offsets_are_read_from_the_format() {
        let at = |name: &[u8]| field(FORMAT, name);
        assert_eq!(
            [b"filename".as_slice(), b"pid", b"comm", b"old_pid", b"none"].map(at),
            [Some(8), Some(12), Some(16), Some(32), None]
        );
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn records_of_all_types_are_parsed() {
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
    fn a_string_of_variable_length_is_found() {
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
