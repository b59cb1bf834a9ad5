//! Wakes ranks on the same machine.
//!
//! MPI has no call that waits for a message without using a processor, and a look for messages at short intervals takes
//! processor time from the threads that work. So each rank has a datagram socket with an abstract name (unix(7)), and a rank that has
//! sent it a message by MPI sends it a datagram as well. A thread waits for datagrams and unparks the one that communicates: recv(2)
//! would round a timeout up to the next tick of the kernel, 4 ms or more. Nothing is left of such a socket when its process ends.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{self, JoinHandle};

/// The socket of this rank, and the addresses of all.
pub(crate) struct WakeSockets {
    sender: UnixDatagram,
    addresses: Vec<SocketAddr>,
    rank: usize,
    is_over: Arc<AtomicBool>,
    listener: Option<JoinHandle<()>>,
}

impl WakeSockets {
    /// Creates the socket of a rank, whose datagrams unpark the calling thread. `job` is the same for all ranks, and
    /// differs between jobs.
    pub(crate) fn new(job: &str, rank: usize, ranks: usize) -> io::Result<WakeSockets> {
        let address = |rank| SocketAddr::from_abstract_name(format!("fathom-{job}-{rank}"));
        let addresses = (0..ranks).map(address).collect::<io::Result<Vec<_>>>()?;
        let own = UnixDatagram::bind_addr(&addresses[rank])?;
        let sender = UnixDatagram::unbound()?;
        // A socket that has no room for another datagram wakes its rank anyway.
        sender.set_nonblocking(true)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let (to, is_done) = (thread::current(), Arc::clone(&is_over));
        let listen = move || {
            while own.recv(&mut [0]).is_ok() && !is_done.load(SeqCst) {
                to.unpark();
            }
        };
        let listener = Some(thread::Builder::new().spawn(listen)?);
        Ok(WakeSockets {
            sender,
            addresses,
            rank,
            is_over,
            listener,
        })
    }

    /// Wakes a rank.
    ///
    /// # Errors
    /// The rank has ended, is on another machine, or in another network namespace.
    pub(crate) fn wake(&self, rank: usize) -> io::Result<()> {
        match self.sender.send_to_addr(&[0], &self.addresses[rank]) {
            Err(e) if e.kind() != io::ErrorKind::WouldBlock => Err(e),
            _ => Ok(()),
        }
    }
}

impl Drop for WakeSockets {
    fn drop(&mut self) {
        self.is_over.store(true, SeqCst);
        // If the socket is full, the thread is awake.
        if self.wake(self.rank).is_ok()
            && let Some(listener) = self.listener.take()
        {
            let _ = listener.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    fn sockets(job: &str, rank: usize) -> io::Result<WakeSockets> {
        WakeSockets::new(&format!("{job}-{}", std::process::id()), rank, 2)
    }

    #[test]
    fn a_rank_wakes_another() {
        const LIMIT: Duration = Duration::from_secs(600);
        let first = sockets("wake", 0).unwrap();
        let (sender, news) = channel();
        let second = thread::spawn(move || {
            let _second = sockets("wake", 1).unwrap();
            sender.send("listens").unwrap();
            thread::park();
            sender.send("was woken").unwrap();
        });
        assert_eq!(news.recv_timeout(LIMIT), Ok("listens"));
        first.wake(1).unwrap();
        assert_eq!(news.recv_timeout(LIMIT), Ok("was woken"));
        second.join().unwrap();
        let ended = first.wake(1).unwrap_err();
        assert_eq!(ended.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn a_sender_waits_for_no_other_rank() {
        let (first, second) = (sockets("full", 0).unwrap(), sockets("full", 1).unwrap());
        (0..100_000).for_each(|_| first.wake(1).unwrap());
        drop(second);
    }

    #[test]
    fn a_name_in_use_is_an_error() {
        let first = sockets("name", 0).unwrap();
        assert!(sockets("name", 0).is_err());
        drop(first);
        assert!(sockets("name", 0).is_ok());
    }
}
