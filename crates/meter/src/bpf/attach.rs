//! Attaches to processes that run already. The program at `sys_enter` of this process finds the
//! `task_struct` of a thread by a descriptor of /proc/PID/task/TID, and enters the thread into the
//! map `tasks`, as if it had been forked by a metered one. It is detached when all are entered, so
//! the calls of other processes cost no more than those of processes beside a command.
//!
//! Threads of a cgroup of version 2, and all threads of the machine, need not be found: they
//! [join](super::layout::kind::JOIN) when they make their next call. Of cgroups of version 1, BPF programs cannot
//! tell the members, so processes that come into them later are found in `cgroup.procs`.

use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use foldhash::HashSet;
use gate::bpf::{Map, Program, prctl_unknown};
use gate::fs::{CWD, Open, openat};
use gate::process::{Child, Shared};
use gate::{Errno, clock};

use super::code::Code;
use super::kit::{Kit, Maps, attach};
use super::layout::{adoption, announce, shared, slot};
use super::reader::{Find, Reader};
use crate::attach::{MOST_LISTS, list_threads, myself, running};
use crate::cgroup::Cgroup;
use crate::collector::time_empty_call;
use crate::error::{Error, Step, Unavailable};
use crate::names::{Attached, OpenFiles};

/// Enters threads into the maps, while it exists.
pub(super) struct Adopter<'a> {
    words: &'a Shared,
    maps: &'a Maps,
    cookie: [u64; 2],
    program: Program,
}

/// What became of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Adopted {
    /// It is metered from now on.
    Now,
    /// It was metered before.
    Before,
    /// It is being created: one that is metered creates it, or one that is not.
    Unborn,
    /// It has ended.
    Gone,
    /// There is no room for it.
    Full,
}

impl<'a> Adopter<'a> {
    pub(super) fn new(
        words: &'a Shared,
        maps: &'a Maps,
        cookie: [u64; 2],
        code: &Code,
    ) -> Result<Adopter<'a>, Unavailable> {
        if !code.knows_types() {
            return Err(Unavailable::AttachNeedsBtf);
        }
        Ok(Adopter {
            words,
            maps,
            cookie,
            program: code.load("fathom_adopt")?,
        })
    }

    /// Meters those of the processes that are not metered yet, and returns which that are.
    pub(super) fn processes(
        &self,
        processes: &[u32],
        reader: &mut Reader<'_>,
    ) -> Result<Vec<u32>, Error> {
        let _attached = attach(c"sys_enter", &self.program)?;
        let mut attached = Vec::new();
        for &pid in processes {
            if self.process(pid, reader).map_err(Step::WriteMaps.early())? {
                attached.push(pid);
            }
        }
        Ok(attached)
    }

    /// Meters a process, and passes on what it has open. Returns whether it is metered from now on.
    fn process(&self, pid: u32, reader: &mut Reader<'_>) -> gate::Result<bool> {
        let before = OpenFiles::read(pid);
        let number = self.new_slot(pid)?;
        let mut adopted = Vec::new();
        let mut seen = HashSet::default();
        // A thread that is not metered yet may create others, until it is, or ends. So the last list
        // has only threads that were metered before.
        let mut is_complete = false;
        for _ in 0..MOST_LISTS {
            let (listed, has_all) = list_threads(pid);
            is_complete = has_all;
            for tid in listed {
                if seen.contains(&tid) {
                    continue;
                }
                match self.thread(pid, tid, number)? {
                    Adopted::Now => {
                        adopted.push(tid);
                        is_complete = false;
                    }
                    Adopted::Gone => is_complete = false,
                    Adopted::Before | Adopted::Full => {}
                    Adopted::Unborn => {
                        is_complete = false;
                        continue;
                    }
                }
                seen.insert(tid);
            }
            if is_complete {
                break;
            }
        }
        if !is_complete {
            self.words[shared::UNFOLLOWED].fetch_add(1, Ordering::Relaxed);
        }
        if adopted.is_empty() {
            self.maps.slots.delete(&number.to_ne_bytes())?;
            return Ok(false);
        }
        reader.attached(
            number,
            &Attached {
                pid,
                threads: adopted,
                program: running(pid),
                open: OpenFiles::read(pid).since(&before),
            },
        );
        Ok(true)
    }

    /// Makes a slot without threads, and returns its number.
    fn new_slot(&self, pid: u32) -> gate::Result<u64> {
        // As the programs make them.
        let number = clock::monotonic() >> 10 << 22 | u64::from(pid);
        let mut value = [0; slot::LEN as usize];
        let mut put = |at: i16, bytes: &[u8]| {
            if let Some(to) = value.get_mut(at as usize..at as usize + bytes.len()) {
                to.copy_from_slice(bytes);
            }
        };
        put(slot::PROGRAM, &number.to_ne_bytes());
        put(slot::PID, &pid.to_ne_bytes());
        put(slot::NAME_LEN, &1u32.to_ne_bytes());
        self.maps.slots.update(&number.to_ne_bytes(), &value)?;
        self.words[shared::SLOTS].fetch_add(1, Ordering::Relaxed);
        Ok(number)
    }

    fn thread(&self, pid: u32, tid: u32, slot: u64) -> gate::Result<Adopted> {
        let path = gate::long::c_string(format!("/proc/{pid}/task/{tid}").as_bytes())?;
        let thread = match openat(CWD, &path, Open::PATH | Open::DIRECTORY) {
            Ok(thread) => thread,
            Err(Errno::ENOENT | Errno::ESRCH) => return Ok(Adopted::Gone),
            Err(errno) => return Err(errno),
        };
        let store = |word: usize, value: u64| self.words[word].store(value, Ordering::SeqCst);
        store(shared::ADOPT_FD, thread.as_raw_fd() as u64);
        store(shared::ADOPT_SLOT, slot);
        let mut ids = [0; 8];
        ids[..4].copy_from_slice(&pid.to_ne_bytes());
        ids[4..].copy_from_slice(&tid.to_ne_bytes());
        store(shared::ADOPT_IDS, u64::from_ne_bytes(ids));
        store(shared::ADOPTED, 0);
        let [first, second] = self.cookie;
        prctl_unknown(announce::THREAD, first, second);
        let result = self.words[shared::ADOPTED].load(Ordering::SeqCst);
        Ok(match result as i32 {
            adoption::NOW => Adopted::Now,
            adoption::BEFORE => Adopted::Before,
            adoption::UNBORN => Adopted::Unborn,
            adoption::FULL => {
                self.words[shared::UNFOLLOWED].fetch_add(1, Ordering::Relaxed);
                Adopted::Full
            }
            adoption::GONE => Adopted::Gone,
            // The program did not run.
            _ => return Err(Errno::ENOSYS),
        })
    }
}

/// Meters a child of this process for a moment, which finds out where the registers of a thread are,
/// how deep our PID namespace is, and what a metered call costs.
pub(super) fn calibrate(kit: &Kit) -> Result<(), Error> {
    const LIMIT: Duration = Duration::from_secs(5);
    let words = &kit.words;
    let work = || {
        prctl_unknown(announce::COMMAND, kit.cookie[0], kit.cookie[1]);
        words[shared::EMPTY_CALL].store(time_empty_call(), Ordering::Relaxed);
    };
    let mut child = Child::fork(work).map_err(Step::Fork.early())?;
    child.wait(LIMIT);
    match words[shared::SEEN].load(Ordering::Acquire) {
        0 => Err(Step::BeSeen.early()(Errno::ENOSYS)),
        _ => Ok(()),
    }
}

/// The members of a cgroup of version 1, in which processes are looked for now and then.
pub(super) struct Members<'a> {
    cgroup: &'a Cgroup,
    adopter: Adopter<'a>,
    /// Those that were found the last time.
    known: HashSet<u32>,
    /// When to look again, in nanoseconds of the monotonic clock.
    next: u64,
}

impl<'a> Members<'a> {
    pub(super) fn new(cgroup: &'a Cgroup, adopter: Adopter<'a>) -> Members<'a> {
        Members {
            cgroup,
            adopter,
            known: HashSet::default(),
            next: 0,
        }
    }
}

impl Find for Members<'_> {
    fn find(&mut self, reader: &mut Reader<'_>) -> Result<Vec<u32>, Error> {
        const INTERVAL: u64 = 20_000_000;
        let now = clock::monotonic();
        if now < self.next {
            return Ok(Vec::new());
        }
        self.next = now + INTERVAL;
        let myself = myself();
        let mut processes = self.cgroup.processes();
        processes.retain(|pid| Some(*pid) != myself);
        let known = std::mem::replace(&mut self.known, processes.iter().copied().collect());
        processes.retain(|pid| !known.contains(pid));
        match processes.is_empty() {
            true => Ok(Vec::new()),
            false => self.adopter.processes(&processes, reader),
        }
    }
}

/// Has threads join from now on.
pub(super) fn begin_joins(kit: &Kit) -> Result<(), Error> {
    let program = kit.code.load("fathom_join")?;
    let _attached = attach(c"sys_enter", &program)?;
    let [first, second] = kit.cookie;
    prctl_unknown(announce::JOINS, first, second);
    match kit.words[shared::OWN_PID].load(Ordering::Acquire) {
        0 => Err(Step::BeSeen.early()(Errno::ENOSYS)),
        _ => Ok(()),
    }
}

/// Has the threads of a cgroup of version 2 join, when threads do.
pub(super) fn set_cgroup(cgroups: &Map, cgroup: &Cgroup) -> Result<(), Unavailable> {
    let fd = cgroup.dir.as_raw_fd().to_ne_bytes();
    cgroups.update(&[0; 4], &fd).map_err(Unavailable::BpfMap)
}
