//! Watches mounts being attached and detached: by fanotify if available, otherwise by polling
//! mountinfo.

use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::{AsFd, BorrowedFd};

use gate::fs::{CWD, Open, openat, read};
use gate::notify::{self, Event, FAN_MNT_ATTACH, FAN_MNT_DETACH, FAN_Q_OVERFLOW, poll};
use gate::{Errno, Fd, Gate};
use ondisk::Mount;

use crate::error::{Error, ErrorKind, FanotifyRefusal, TableSource};
use crate::table::{Describe, Table, list};

/// A change of the mount table, with the id of the mount.
#[derive(Clone, Debug)]
pub enum Change {
    /// A mount was attached; `None` if it was detached before it could be described.
    Attach(u64, Option<Box<Mount>>),
    /// A mount was detached; `None` if it was never described.
    Detach(u64, Option<Box<Mount>>),
    /// The queue overflowed: changes were lost, and the table must be read again.
    Overflow,
}

/// Watches the mount namespace of this process.
pub struct Watch {
    source: WatchSource,
    stop: Fd,
    pending: VecDeque<Change>,
    stopped: bool,
}

enum WatchSource {
    /// Events from fanotify. `known`: the mounts that exist, by their 64-bit ids.
    Fanotify {
        group: Fd,
        known: HashMap<u64, Mount>,
    },
    /// Changes of mountinfo, found by polling.
    Mountinfo {
        table: Table,
        fanotify: FanotifyRefusal,
    },
}

impl Watch {
    /// Begins to watch. From then on SIGINT and SIGTERM end the watch, not the process.
    ///
    /// # Errors
    /// Neither fanotify nor mountinfo is available.
    pub fn start() -> Result<Watch, Error> {
        let stop = notify::stop_signals()
            .map_err(|errno| Error::failed(ErrorKind::WaitForSignals, Gate::Read, errno))?;
        let source = match fanotify() {
            Ok(group) => {
                // Describe the existing mounts after the fanotify group has begun to listen, so
                // that no change is lost.
                let mut describe = Describe::everything();
                let ids = list()?;
                let known = ids
                    .into_iter()
                    .filter_map(|id| Some((id, describe.mount(id).ok()??)))
                    .collect();
                WatchSource::Fanotify { group, known }
            }
            Err(fanotify) => {
                let table = Table::read(TableSource::Mountinfo).map_err(|error| {
                    Error::from(ErrorKind::NoWatch {
                        fanotify,
                        mountinfo: Box::new(error),
                    })
                })?;
                WatchSource::Mountinfo { table, fanotify }
            }
        };
        Ok(Watch {
            source,
            stop,
            pending: VecDeque::new(),
            stopped: false,
        })
    }

    /// Why the table is polled; `None` if fanotify reports every change. Polling misses a mount
    /// that is attached and detached between two polls.
    pub fn polls_because(&self) -> Option<FanotifyRefusal> {
        match self.source {
            WatchSource::Fanotify { .. } => None,
            WatchSource::Mountinfo { fanotify, .. } => Some(fanotify),
        }
    }

    /// Whether the ids of the changes are the kernel's 64-bit ids, as opposed to those of
    /// mountinfo.
    pub fn ids_are_unique(&self) -> bool {
        matches!(self.source, WatchSource::Fanotify { .. })
    }

    /// Waits for the next change; `None` after a signal has ended the watch.
    ///
    /// # Errors
    /// The source of changes fails.
    pub fn wait(&mut self) -> Result<Option<Change>, Error> {
        loop {
            if let Some(change) = self.pending.pop_front() {
                return Ok(Some(change));
            }
            if self.stopped {
                return Ok(None);
            }
            let source = match &self.source {
                WatchSource::Fanotify { group, .. } => (group.as_fd(), Event::Readable),
                WatchSource::Mountinfo { table, .. } => (
                    table.changes().unwrap_or(self.stop.as_fd()),
                    Event::Priority,
                ),
            };
            let [changed, stopped] =
                poll([source, (self.stop.as_fd(), Event::Readable)], None).map_err(cannot_wait)?;
            self.stopped = stopped;
            if changed {
                self.collect()?; // report changes that came before a signal, too
            }
        }
    }

    /// Waits until `output` is writable; false if a signal ends the watch before that.
    ///
    /// # Errors
    /// The errors of poll(2).
    pub fn wait_for_room(&self, output: BorrowedFd<'_>) -> Result<bool, Error> {
        let stop = (self.stop.as_fd(), Event::Readable);
        let room = poll([(output, Event::Writable), stop], None);
        room.map(|[room, _]| room).map_err(cannot_wait)
    }

    fn collect(&mut self) -> Result<(), Error> {
        match &mut self.source {
            WatchSource::Fanotify { group, known } => {
                let mut buffer = vec![0u8; 64 << 10];
                let n = match read(&*group, &mut buffer) {
                    Ok(n) => n,
                    Err(Errno::EAGAIN | Errno::EINTR) => return Ok(()),
                    Err(errno) => {
                        return Err(Error::failed(ErrorKind::ReadEvents, Gate::Read, errno));
                    }
                };
                let mut describe = Describe::everything();
                let mut is_moved = false;
                for event in ondisk::fanotify::events(&buffer[..n]) {
                    if event.mask & FAN_Q_OVERFLOW != 0 {
                        self.pending.push_back(Change::Overflow);
                    }
                    let Some(id) = event.mount else { continue };
                    // The kernel merges the events of a mount: one event with both flags means that
                    // the mount was attached and then detached, or was moved.
                    let detached = event.mask & FAN_MNT_DETACH != 0;
                    let attached = event.mask & FAN_MNT_ATTACH != 0;
                    is_moved |= detached && attached && known.contains_key(&id);
                    if detached && (!attached || known.contains_key(&id)) {
                        self.pending
                            .push_back(Change::Detach(id, known.remove(&id).map(Box::new)));
                    }
                    if attached {
                        let mount = describe.mount(id).ok().flatten();
                        known.extend(mount.clone().map(|mount| (id, mount)));
                        let gone = mount.is_none();
                        self.pending
                            .push_back(Change::Attach(id, mount.map(Box::new)));
                        if detached && gone {
                            self.pending.push_back(Change::Detach(id, None));
                        }
                    }
                }
                if is_moved {
                    // The kernel sends no events for mounts on a mount that was moved.
                    for (&id, old) in known.iter_mut() {
                        let Ok(Some(new)) = describe.mount(id) else {
                            continue;
                        };
                        if new.target != old.target {
                            let old = std::mem::replace(old, new.clone());
                            self.pending.extend([
                                Change::Detach(id, Some(Box::new(old))),
                                Change::Attach(id, Some(Box::new(new))),
                            ]);
                        }
                    }
                }
            }
            WatchSource::Mountinfo { table, .. } => {
                let new = Table::read(TableSource::Mountinfo)?;
                let old = std::mem::replace(table, new);
                let key = |row: &Mount| (row.id, row.target.clone());
                let [before, after] = [&old.mounts, &table.mounts]
                    .map(|rows| rows.iter().map(key).collect::<HashSet<_>>());
                let detached = old
                    .mounts
                    .into_iter()
                    .filter(|row| !after.contains(&key(row)));
                let attached = table
                    .mounts
                    .iter()
                    .filter(|row| !before.contains(&key(row)));
                self.pending
                    .extend(detached.map(|row| Change::Detach(row.id, Some(Box::new(row)))));
                self.pending.extend(
                    attached.map(|row| Change::Attach(row.id, Some(Box::new(row.clone())))),
                );
            }
        }
        Ok(())
    }
}

fn cannot_wait(errno: Errno) -> Error {
    Error::failed(ErrorKind::WaitForChanges, Gate::Read, errno)
}

fn fanotify() -> Result<Fd, FanotifyRefusal> {
    let refused = |gate| move |errno| FanotifyRefusal { gate, errno };
    let group = notify::fanotify_init_mounts(true)
        .or_else(|_| notify::fanotify_init_mounts(false))
        .map_err(refused(Gate::FanotifyInit))?;
    let namespace =
        openat(CWD, c"/proc/self/ns/mnt", Open::NONBLOCK).map_err(refused(Gate::Openat))?;
    notify::fanotify_mark_mntns(&group, &namespace).map_err(refused(Gate::FanotifyMark))?;
    Ok(group)
}
