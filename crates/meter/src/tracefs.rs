//! The numbers of tracepoints, from tracefs. Where that is not mounted, a child mounts it in a mount
//! namespace of its own, so that no mount is left. Mounts below debugfs are not searched: whoever
//! uses those has tracefs mounted as well.

use std::ffi::CString;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gate::file::read_kernel;
use gate::mount::{mount_own, unshare_mounts};
use gate::process::{Child, Shared};
use gate::{Tally, meter};
use ondisk::perf::field;

use crate::error::Unavailable;

/// Where tracefs is mounted as a rule.
const USUAL: &str = "/sys/kernel/tracing";
/// Where the child tries to mount it.
const PLACES: [&str; 3] = [USUAL, "/tmp", "/"];

/// Numbers of tracepoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tracepoints {
    /// `raw_syscalls:sys_enter` and `sys_exit`.
    pub(crate) enter: u64,
    pub(crate) exit: u64,
    /// `sched:sched_process_exec`, and the offset of `filename` in its records.
    pub(crate) exec: u64,
    pub(crate) filename: u64,
}

impl Tracepoints {
    pub(crate) fn find() -> Result<Tracepoints, Unavailable> {
        Tracepoints::read(USUAL)
            .or_else(Tracepoints::from_private_mount)
            .ok_or(Unavailable::NoTracefs)
    }

    fn read(tracefs: &str) -> Option<Tracepoints> {
        let read =
            |name: &str| read_kernel(&CString::new(format!("{tracefs}/events/{name}")).ok()?).ok();
        let number = |name: &str| {
            let id = read(&format!("{name}/id"))?;
            str::from_utf8(&id).ok()?.trim().parse().ok()
        };
        Some(Tracepoints {
            enter: number("raw_syscalls/sys_enter")?,
            exit: number("raw_syscalls/sys_exit")?,
            exec: number("sched/sched_process_exec")?,
            filename: field(&read("sched/sched_process_exec/format")?, b"filename")? as u64,
        })
    }

    fn from_private_mount() -> Option<Tracepoints> {
        const FOUND: usize = 4;
        const LIMIT: Duration = Duration::from_secs(10);
        let words = Shared::new(FOUND + 1 + Tally::WORDS).ok()?;
        let before = meter::tally();
        let mut child = Child::fork(|| {
            let read = |place: &&str| {
                mount_own(c"tracefs", &CString::new(*place).ok()?).ok()?;
                Tracepoints::read(place)
            };
            let unshared = unshare_mounts().ok();
            if let Some(found) = unshared.and_then(|()| PLACES.iter().find_map(read)) {
                let values = [found.enter, found.exit, found.exec, found.filename, 1];
                for (word, value) in words.iter().zip(values) {
                    word.store(value, Ordering::Release);
                }
            }
            meter::tally().since(&before).publish(&words[FOUND + 1..]);
        })
        .ok()?;
        child.wait(LIMIT)?;
        meter::add(&Tally::collect(&words[FOUND + 1..]));
        let word = |n: usize| words[n].load(Ordering::Acquire);
        (word(FOUND) == 1).then(|| Tracepoints {
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
    fn a_private_mount_has_the_same_numbers() {
        let Some(found) = Tracepoints::from_private_mount() else {
            return crate::skip::skip("root, and a kernel with tracefs are needed");
        };
        assert!(
            found.enter != found.exit && found.exit != found.exec && found.filename >= 8,
            "{found:?}"
        );
        assert_eq!(Tracepoints::find(), Ok(found));
        if let Some(usual) = Tracepoints::read(USUAL) {
            assert_eq!(usual, found);
        }
        assert_eq!(Tracepoints::read("/no/such/place"), None);
    }
}
