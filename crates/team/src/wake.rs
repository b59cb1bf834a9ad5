//! Wakes ranks on the same machine.
//!
//! MPI has no call that waits for a message without using a processor, and polling at short
//! intervals takes CPU time from the working threads. So each rank has a pipe. A rank that sends it
//! a message by MPI also writes a byte into its pipe, and a thread that reads the pipe unparks the
//! communicating thread. A timeout instead would be rounded up to the kernel's next tick, 4 ms or
//! more.
//!
//! Other ranks open the pipe as /proc/PID/fd/N, which the kernel permits to processes of the same
//! user only. The pipe has no name that another user could squat or write to, and it vanishes with
//! its process.
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "pipes between ranks are no work on file systems"
)]

use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{self, JoinHandle};

use serde::{Deserialize, Serialize};

/// The pipe of this rank.
pub(crate) struct WakePipe {
    reader: PipeReader,
}

/// The location of a pipe for other processes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Address {
    /// The boot id, which differs between machines and between boots of a machine.
    boot: String,
    process: u32,
    descriptor: i32,
    /// The device of the pipe file system, and the inode number of the pipe.
    identity: (u64, u64),
}

impl WakePipe {
    pub(crate) fn new() -> io::Result<WakePipe> {
        // This rank opens the writing end of its own pipe through /proc, like the pipes of other
        // ranks.
        let (reader, _) = io::pipe()?;
        Ok(WakePipe { reader })
    }

    pub(crate) fn address(&self) -> io::Result<Address> {
        let descriptor = self.reader.as_raw_fd();
        Ok(Address {
            boot: std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?,
            process: std::process::id(),
            descriptor,
            identity: identity(&File::from(OwnedFd::from(self.reader.try_clone()?)))?,
        })
    }

    /// Opens the pipes of all ranks, of which this one is `rank`. From now on, a byte in its pipe
    /// unparks the calling thread.
    ///
    /// # Errors
    /// If the ranks are not all on this machine, in the same PID namespace, and of the same user.
    pub(crate) fn connect(self, addresses: &[Address], rank: usize) -> io::Result<WakePipes> {
        let pipes = addresses.iter().map(Address::open);
        let pipes = pipes.collect::<io::Result<Vec<File>>>()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let (to, is_done, mut reader) = (thread::current(), Arc::clone(&is_over), self.reader);
        let listen = move || {
            let mut bytes = [0; 4096];
            while reader.read(&mut bytes).is_ok() && !is_done.load(SeqCst) {
                to.unpark();
            }
        };
        let listener = Some(thread::Builder::new().spawn(listen)?);
        Ok(WakePipes {
            pipes,
            rank,
            is_over,
            listener,
        })
    }
}

/// `O_NONBLOCK` of fcntl.h, which is the same on all supported architectures.
const O_NONBLOCK: i32 = 0o4000;

impl Address {
    fn open(&self) -> io::Result<File> {
        let elsewhere = || io::Error::from(io::ErrorKind::NotFound);
        if std::fs::read_to_string("/proc/sys/kernel/random/boot_id")? != self.boot {
            return Err(elsewhere());
        }
        let path = format!("/proc/{}/fd/{}", self.process, self.descriptor);
        // In a different PID namespace the path may be anything, and opening that could have side
        // effects.
        let target = std::fs::read_link(&path)?;
        if target.as_os_str() != format!("pipe:[{}]", self.identity.1).as_str() {
            return Err(elsewhere());
        }
        // Open for reading, too, so that writing never raises SIGPIPE.
        let pipe = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(O_NONBLOCK)
            .open(path)?;
        match identity(&pipe)? == self.identity {
            true => Ok(pipe),
            false => Err(elsewhere()),
        }
    }
}

fn identity(pipe: &File) -> io::Result<(u64, u64)> {
    pipe.metadata().map(|it| (it.dev(), it.ino()))
}

/// The pipes of all ranks.
pub(crate) struct WakePipes {
    pipes: Vec<File>,
    rank: usize,
    is_over: Arc<AtomicBool>,
    listener: Option<JoinHandle<()>>,
}

impl WakePipes {
    /// Wakes a rank. If the pipe of the rank is full, a wake-up is pending anyway.
    pub(crate) fn wake(&self, rank: usize) {
        let _ = (&self.pipes[rank]).write(&[0]);
    }
}

impl Drop for WakePipes {
    fn drop(&mut self) {
        self.is_over.store(true, SeqCst);
        self.wake(self.rank);
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    fn two() -> ([WakePipe; 2], [Address; 2]) {
        let pipes = [WakePipe::new().unwrap(), WakePipe::new().unwrap()];
        let addresses = [0, 1].map(|rank: usize| pipes[rank].address().unwrap());
        (pipes, addresses)
    }

    #[test]
    fn a_rank_wakes_another() {
        const LIMIT: Duration = Duration::from_secs(600);
        let ([first, second], addresses) = two();
        let first = first.connect(&addresses, 0).unwrap();
        let (sender, news) = channel();
        let second = thread::spawn(move || {
            let _second = second.connect(&addresses, 1).unwrap();
            sender.send("listens").unwrap();
            thread::park();
            sender.send("was woken").unwrap();
        });
        assert_eq!(news.recv_timeout(LIMIT), Ok("listens"));
        first.wake(1);
        assert_eq!(news.recv_timeout(LIMIT), Ok("was woken"));
        second.join().unwrap();
        first.wake(1);
    }

    #[test]
    fn a_sender_waits_for_no_other_rank() {
        let ([first, second], addresses) = two();
        let first = first.connect(&addresses, 0).unwrap();
        (0..100_000).for_each(|_| first.wake(1));
        drop(second);
    }

    #[test]
    fn only_the_pipe_of_a_rank_on_this_machine_is_opened() {
        let ([_first, _second], [address, other]) = two();
        assert!(address.open().is_ok());
        let of_another_machine = Address {
            boot: "another".to_owned(),
            ..address.clone()
        };
        let of_another_process = Address {
            identity: other.identity,
            ..address
        };
        assert!(of_another_machine.open().is_err());
        assert!(of_another_process.open().is_err());
    }
}
