//! The ranks of an MPI job. Each method documents the MPI calls that it makes.

use std::thread;
use std::time::Duration;

use mpi::Count;
use mpi::Threading;
use mpi::datatype::PartitionMut;
use mpi::environment::Universe;
use mpi::point_to_point::{Destination, MatchedReceiveVec, Source};
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives};

use crate::wake::{Address, WakePipe, WakePipes};
use crate::{MOST_BYTES, MOST_LARGE_UNDER_WAY, MOST_UNDER_WAY, Team, share};

/// All processes of an MPI job. Dropping this value calls `MPI_Finalize`, which all ranks must
/// reach.
pub struct Ranks {
    world: SimpleCommunicator,
    /// The pipes that wake ranks, if all ranks are on one machine.
    pipes: Option<WakePipes>,
    // Dropping this field calls MPI_Finalize, so it must be dropped after the communicator.
    _universe: Universe,
}

impl Ranks {
    /// Joins the job (`MPI_Init_thread`). Only the calling thread may communicate. `None` if this
    /// process has joined before.
    pub fn join() -> Option<Ranks> {
        let (mut universe, _) = mpi::initialize_with_threading(Threading::Funneled)?;
        let world = universe.world();
        // A large buffer (MPI_Buffer_attach) takes little memory: only the pages for messages under
        // way are touched.
        universe.set_buffer_size(buffer_size(world.size()));
        let mut ranks = Ranks {
            world,
            pipes: None,
            _universe: universe,
        };
        ranks.pipes = ranks.open_pipes();
        Some(ranks)
    }

    /// Waits until all ranks call this, sleeping between checks: other MPI calls would poll all the
    /// time, and take CPU time from ranks on the same machine that still work.
    fn wait_for_all(&self) {
        const NAPS: [Duration; 2] = [Duration::from_micros(25), Duration::from_millis(1)];
        let mut request = self.world.immediate_barrier();
        let mut nap = NAPS[0];
        while let Err(pending) = request.test() {
            request = pending;
            thread::sleep(nap);
            nap = (nap * 5 / 4).min(NAPS[1]);
        }
    }

    /// Opens the pipes by which ranks wake each other; `None` if they are on several machines.
    fn open_pipes(&self) -> Option<WakePipes> {
        let own = WakePipe::new().ok();
        let address = own.as_ref().and_then(|own| own.address().ok());
        let addresses: Option<Vec<Address>> = share(self, address).into_iter().collect();
        let connect = |(own, all): (WakePipe, Vec<Address>)| own.connect(&all, self.rank()).ok();
        let pipes = own.zip(addresses).and_then(connect);
        let are_near = share(self, pipes.is_some())
            .into_iter()
            .all(|is_near| is_near);
        pipes.filter(|_| are_near)
    }
}

/// The size of a buffer for all messages that may be under way, each with MPI's overhead.
fn buffer_size(ranks: Count) -> usize {
    /// Assumed overhead of a message in bytes: more than the MPI_BSEND_OVERHEAD of Open MPI (128)
    /// and of MPICH (96).
    const OVERHEAD: usize = 512;
    /// The minimum size of the buffer, so that a job of few ranks has enough space in spite of
    /// fragmentation.
    const LEAST: usize = 1 << 20;
    let ranks = usize::try_from(ranks).unwrap_or(1);
    let each = MOST_LARGE_UNDER_WAY * MOST_BYTES + MOST_UNDER_WAY * 2 * OVERHEAD;
    let most = usize::try_from(Count::MAX).unwrap_or(usize::MAX);
    ranks.saturating_mul(2 * each).clamp(LEAST, most)
}

impl Team for Ranks {
    fn rank(&self) -> usize {
        usize::try_from(self.world.rank()).unwrap_or(0)
    }

    fn size(&self) -> usize {
        usize::try_from(self.world.size()).unwrap_or(1)
    }

    /// Calls `MPI_Barrier`.
    fn barrier(&self) {
        self.world.barrier();
    }

    /// Calls `MPI_Ibarrier`, then `MPI_Allgather` for the lengths and `MPI_Allgatherv` for the
    /// bytes.
    fn all_gather(&self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.wait_for_all();
        // Append a byte, so that no message is empty: Rust's address of an empty slice equals Open
        // MPI's MPI_IN_PLACE.
        let sent = [bytes, b"."].concat();
        let mut lengths: Vec<Count> = vec![0; self.size()];
        // The conversion cannot fail: messages have a few kilobytes.
        let length = Count::try_from(sent.len()).unwrap_or(Count::MAX);
        self.world.all_gather_into(&length, &mut lengths[..]);
        let mut end: Count = 0;
        let start = |length: &Count| {
            end += length;
            end - length
        };
        let starts: Vec<Count> = lengths.iter().map(start).collect();
        let mut all = vec![0_u8; usize::try_from(end).unwrap_or(0)];
        let mut parts = PartitionMut::new(&mut all[..], &lengths[..], &starts[..]);
        self.world.all_gather_varcount_into(&sent[..], &mut parts);
        let message = |(start, length): (&Count, &Count)| {
            let (start, length) = (*start as usize, *length as usize);
            all.get(start..(start + length).saturating_sub(1))
                .unwrap_or_default()
                .to_vec()
        };
        starts.iter().zip(&lengths).map(message).collect()
    }

    /// Calls `MPI_Bsend`, so that two ranks that send to each other do not block each other.
    fn send(&self, to: usize, bytes: &[u8]) {
        if let Ok(to) = Count::try_from(to) {
            self.world.process_at_rank(to).buffered_send(bytes);
        }
        if let Some(pipes) = &self.pipes {
            // Ignore a rank that has ended: the launcher reports it.
            pipes.wake(to);
        }
    }

    /// Calls `MPI_Improbe` and `MPI_Mrecv`.
    fn receive(&self) -> Option<(usize, Vec<u8>)> {
        let probe = || self.world.any_process().immediate_matched_probe();
        // The first MPI_Improbe may only make the library fetch messages that have arrived; the
        // second one finds them.
        let arrived = probe().or_else(probe)?;
        let (bytes, status) = arrived.matched_receive_vec();
        Some((usize::try_from(status.source_rank()).ok()?, bytes))
    }

    fn is_woken(&self) -> bool {
        self.pipes.is_some()
    }
}
