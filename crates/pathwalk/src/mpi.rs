//! The ranks of an MPI job. The standard's name for each call stands beside it.

use mpi::Count;
use mpi::Threading;
use mpi::datatype::PartitionMut;
use mpi::environment::Universe;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives};

use crate::Team;

/// All processes that a launcher has started together. MPI ends for this process when it is
/// dropped, for which all must be there.
pub struct Ranks {
    world: SimpleCommunicator,
    // Dropped after the communicator: MPI_Finalize.
    _universe: Universe,
}

impl Ranks {
    /// Joins the others (`MPI_Init_thread`); only the calling thread will speak to them. `None`
    /// when it has been done before.
    pub fn join() -> Option<Ranks> {
        let (universe, _) = mpi::initialize_with_threading(Threading::Funneled)?;
        Some(Ranks {
            world: universe.world(),
            _universe: universe,
        })
    }
}

impl Team for Ranks {
    fn rank(&self) -> usize {
        usize::try_from(self.world.rank()).unwrap_or(0)
    }

    fn size(&self) -> usize {
        usize::try_from(self.world.size()).unwrap_or(1)
    }

    /// `MPI_Barrier`
    fn barrier(&self) {
        self.world.barrier();
    }

    /// `MPI_Allgather` of the lengths, `MPI_Allgatherv` of the words.
    fn share(&self, words: &[u8]) -> Vec<Vec<u8>> {
        // With a byte more, so that nobody says nothing: to Open MPI the address that Rust gives to
        // what is empty means MPI_IN_PLACE.
        let said = [words, b"."].concat();
        let mut lengths: Vec<Count> = vec![0; self.size()];
        // What is said is a few kilobytes.
        let length = Count::try_from(said.len()).unwrap_or(Count::MAX);
        self.world.all_gather_into(&length, &mut lengths[..]);
        let mut end: Count = 0;
        let start = |length: &Count| {
            end += length;
            end - length
        };
        let starts: Vec<Count> = lengths.iter().map(start).collect();
        let mut all = vec![0_u8; usize::try_from(end).unwrap_or(0)];
        let mut parts = PartitionMut::new(&mut all[..], &lengths[..], &starts[..]);
        self.world.all_gather_varcount_into(&said[..], &mut parts);
        let of = |(start, length): (&Count, &Count)| {
            let (start, length) = (*start as usize, *length as usize);
            all.get(start..(start + length).saturating_sub(1))
                .unwrap_or_default()
                .to_vec()
        };
        starts.iter().zip(&lengths).map(of).collect()
    }
}
