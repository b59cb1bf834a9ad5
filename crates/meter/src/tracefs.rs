//! The numbers of tracepoints, which the kernel tells in tracefs. Where that is not mounted, a
//! child mounts it in a mount namespace of its own, and nothing is left of it. (Not below debugfs:
//! who looks there has it mounted for all.)

use std::ffi::CString;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gate::file::read_kernel;
use gate::mount::{mount_own, unshare_mounts};
use gate::process::{Child, Shared};
use gate::{Tally, meter};
use ondisk::perf::field;

use crate::error::Unavailable;

/// Where tracefs belongs.
const USUAL: &str = "/sys/kernel/tracing";
/// Where else it may be mounted for a moment.
const PLACES: [&str; 3] = [USUAL, "/tmp", "/"];

/// Tracepoints, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tracepoints {
    /// `raw_syscalls:sys_enter` and `sys_exit`.
    pub(super) enter: u64,
    pub(super) exit: u64,
    /// `sched:sched_process_exec`.
    pub(super) exec: u64,
    /// Where in a record of that one its `filename` is.
    pub(super) filename: u64,
}

impl Tracepoints {
    /// From where tracefs is, or by mounting it.
    ///
    /// # Errors
    /// [`Unavailable::NoTracefs`].
    pub(super) fn find() -> Result<Tracepoints, Unavailable> {
        Tracepoints::under(USUAL)
            .or_else(Tracepoints::elsewhere)
            .ok_or(Unavailable::NoTracefs)
    }

    fn under(place: &str) -> Option<Tracepoints> {
        let read =
            |name: &str| read_kernel(&CString::new(format!("{place}/events/{name}")).ok()?).ok();
        let number = |name: &str| {
            str::from_utf8(&read(&format!("{name}/id"))?)
                .ok()?
                .trim()
                .parse()
                .ok()
        };
        Some(Tracepoints {
            enter: number("raw_syscalls/sys_enter")?,
            exit: number("raw_syscalls/sys_exit")?,
            exec: number("sched/sched_process_exec")?,
            filename: field(&read("sched/sched_process_exec/format")?, b"filename")? as u64,
        })
    }

    fn elsewhere() -> Option<Tracepoints> {
        const FOUND: usize = 4;
        const LIMIT: Duration = Duration::from_secs(10);
        let words = Shared::new(FOUND + 1 + Tally::WORDS).ok()?;
        let before = meter::tally();
        let mut child = Child::fork(|| {
            let found = unshare_mounts().ok().and_then(|()| {
                PLACES.iter().find_map(|place| {
                    mount_own(c"tracefs", &CString::new(*place).ok()?).ok()?;
                    Tracepoints::under(place)
                })
            });
            if let Some(Tracepoints {
                enter,
                exit,
                exec,
                filename,
            }) = found
            {
                for (word, value) in words.iter().zip([enter, exit, exec, filename]) {
                    word.store(value, Ordering::Relaxed);
                }
                words[FOUND].store(1, Ordering::Release);
            }
            meter::tally().since(&before).publish(&words[FOUND + 1..]);
        })
        .ok()?;
        child.wait(LIMIT)?;
        meter::add(&Tally::collect(&words[FOUND + 1..]));
        let word = |n: usize| words[n].load(Ordering::Relaxed);
        (words[FOUND].load(Ordering::Acquire) == 1).then(|| Tracepoints {
            enter: word(0),
            exit: word(1),
            exec: word(2),
            filename: word(3),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_elsewhere_is_what_is_there() {
        let Some(found) = Tracepoints::elsewhere() else {
            return eprintln!("SKIPPED: it takes root, and a kernel with tracefs");
        };
        assert!(
            found.enter != found.exit && found.exit != found.exec && found.filename >= 8,
            "{found:?}"
        );
        assert_eq!(Tracepoints::find(), Ok(found));
        if let Some(usual) = Tracepoints::under(USUAL) {
            assert_eq!(usual, found);
        }
        assert_eq!(Tracepoints::under("/no/such/place"), None);
    }
}
