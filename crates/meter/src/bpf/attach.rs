//! Attaches to running processes. The program at `sys_enter` of fathom finds the `task_struct` of a
//! thread by a descriptor of /proc/PID/task/TID, and enters the thread into the map `tasks`, as if
//! a metered thread had forked it. That program is detached once all threads are entered, so that
//! unmetered processes are not slowed down further.
//!
//! Threads of a cgroup2, and all threads of the machine, need not be found: they
//! [join](super::layout::kind::JOIN) at their next call. BPF programs cannot tell the members of a
//! cgroup of version 1, so `cgroup.procs` is read for processes that enter it later.

use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use foldhash::HashSet;
use gate::bpf::{Map, Program, prctl_unknown};
use gate::fs::{CWD, Open, openat};
use gate::process::{Child, SharedWords};
use gate::{Errno, clock};

use super::code::Code;
use super::kit::{BpfObjects, Maps, attach};
use super::layout::{adoption, announce, shared, slot};
use super::reader::{ProcessFinder, Reader};
use crate::attach::{MOST_LISTS, list_threads, myself, running};
use crate::cgroup::Cgroup;
use crate::collector::time_empty_call;
use crate::error::{Error, MeterStep, Unavailable};
use crate::names::{AttachedProcess, OpenFiles};

/// Enters running threads into the BPF maps.
pub(super) struct ThreadRegistrar<'a> {
    words: &'a SharedWords,
    maps: &'a Maps,
    cookie: [u64; 2],
    program: Program,
}

/// The result of entering a running thread into the map `tasks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RegistrationOutcome {
    /// The thread is metered from now on.
    Now,
    /// The thread was metered before.
    Before,
    /// The thread is still being created, by a metered or an unmetered thread.
    Unborn,
    /// The thread has ended.
    Gone,
    /// The map has no room for the thread.
    Full,
}

impl<'a> ThreadRegistrar<'a> {
    pub(super) fn new(
        words: &'a SharedWords,
        maps: &'a Maps,
        cookie: [u64; 2],
        code: &Code,
    ) -> Result<ThreadRegistrar<'a>, Unavailable> {
        if !code.knows_types() {
            return Err(Unavailable::AttachNeedsBtf);
        }
        Ok(ThreadRegistrar {
            words,
            maps,
            cookie,
            program: code.load("fathom_adopt")?,
        })
    }

    /// Meters the processes, and returns those that were not metered before.
    pub(super) fn processes(
        &self,
        processes: &[u32],
        reader: &mut Reader<'_>,
    ) -> Result<Vec<u32>, Error> {
        let _attached = attach(c"sys_enter", &self.program)?;
        let mut attached = Vec::new();
        for &pid in processes {
            if self
                .process(pid, reader)
                .map_err(MeterStep::WriteMaps.before_start())?
            {
                attached.push(pid);
            }
        }
        Ok(attached)
    }

    /// Meters a process, and reports its open files. Returns whether it is metered from now on.
    fn process(&self, pid: u32, reader: &mut Reader<'_>) -> gate::Result<bool> {
        let before = OpenFiles::read(pid);
        let number = self.new_slot(pid)?;
        let mut adopted = Vec::new();
        let mut seen = HashSet::default();
        // A thread that is not yet metered may create others until it is metered or ends. So list
        // until all listed threads were metered before.
        let mut is_complete = false;
        for _ in 0..MOST_LISTS {
            let (listed, has_all) = list_threads(pid);
            is_complete = has_all;
            for tid in listed {
                if seen.contains(&tid) {
                    continue;
                }
                match self.thread(pid, tid, number)? {
                    RegistrationOutcome::Now => {
                        adopted.push(tid);
                        is_complete = false;
                    }
                    RegistrationOutcome::Gone => is_complete = false,
                    RegistrationOutcome::Before | RegistrationOutcome::Full => {}
                    RegistrationOutcome::Unborn => {
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
            &AttachedProcess {
                pid,
                threads: adopted,
                program: running(pid),
                open: OpenFiles::read(pid).since(&before),
            },
        );
        Ok(true)
    }

    /// Creates a slot, the map entry of a process, without threads; returns its number.
    fn new_slot(&self, pid: u32) -> gate::Result<u64> {
        // Number the slots like the BPF programs do.
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

    fn thread(&self, pid: u32, tid: u32, slot: u64) -> gate::Result<RegistrationOutcome> {
        let path = gate::long::c_string(format!("/proc/{pid}/task/{tid}").as_bytes())?;
        let thread = match openat(CWD, &path, Open::PATH | Open::DIRECTORY) {
            Ok(thread) => thread,
            Err(Errno::ENOENT | Errno::ESRCH) => return Ok(RegistrationOutcome::Gone),
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
            adoption::NOW => RegistrationOutcome::Now,
            adoption::BEFORE => RegistrationOutcome::Before,
            adoption::UNBORN => RegistrationOutcome::Unborn,
            adoption::FULL => {
                self.words[shared::UNFOLLOWED].fetch_add(1, Ordering::Relaxed);
                RegistrationOutcome::Full
            }
            adoption::GONE => RegistrationOutcome::Gone,
            // The kernel did not run the BPF program.
            _ => return Err(Errno::ENOSYS),
        })
    }
}

/// Meters a child of fathom briefly, to find the offset of a thread's registers, the depth of the
/// PID namespace, and the cost of metering a call.
pub(super) fn calibrate(kit: &BpfObjects) -> Result<(), Error> {
    const LIMIT: Duration = Duration::from_secs(5);
    let words = &kit.words;
    let work = || {
        prctl_unknown(announce::COMMAND, kit.cookie[0], kit.cookie[1]);
        words[shared::EMPTY_CALL].store(time_empty_call(), Ordering::Relaxed);
    };
    let mut child = Child::fork(work).map_err(MeterStep::Fork.before_start())?;
    child.wait(LIMIT);
    match words[shared::SEEN].load(Ordering::Acquire) {
        0 => Err(MeterStep::BeSeen.before_start()(Errno::ENOSYS)),
        _ => Ok(()),
    }
}

/// The members of a cgroup of version 1, which are listed periodically.
pub(super) struct Members<'a> {
    cgroup: &'a Cgroup,
    adopter: ThreadRegistrar<'a>,
    /// The processes that `cgroup.procs` contained when it was last read.
    known: HashSet<u32>,
    /// Earliest time to read `cgroup.procs` again, in nanoseconds of `CLOCK_MONOTONIC`.
    next: u64,
}

impl<'a> Members<'a> {
    pub(super) fn new(cgroup: &'a Cgroup, adopter: ThreadRegistrar<'a>) -> Members<'a> {
        Members {
            cgroup,
            adopter,
            known: HashSet::default(),
            next: 0,
        }
    }
}

impl ProcessFinder for Members<'_> {
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

/// Tells the BPF programs to meter threads at their next call from now on.
pub(super) fn begin_joins(kit: &BpfObjects) -> Result<(), Error> {
    let program = kit.code.load("fathom_join")?;
    let _attached = attach(c"sys_enter", &program)?;
    let [first, second] = kit.cookie;
    prctl_unknown(announce::JOINS, first, second);
    match kit.words[shared::OWN_PID].load(Ordering::Acquire) {
        0 => Err(MeterStep::BeSeen.before_start()(Errno::ENOSYS)),
        _ => Ok(()),
    }
}

/// Sets the cgroup2 whose threads are metered at their next call.
pub(super) fn set_cgroup(cgroups: &Map, cgroup: &Cgroup) -> Result<(), Unavailable> {
    let fd = cgroup.dir.as_raw_fd().to_ne_bytes();
    cgroups.update(&[0; 4], &fd).map_err(Unavailable::BpfMap)
}
