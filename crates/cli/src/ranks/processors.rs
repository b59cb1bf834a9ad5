//! Divides the processors of a machine among the ranks that run on it.

use gate::clock::affinity;
use gate::file::read_kernel;
use gate::machine::limit_processors;
use gate::quota::{Quota, quota};
use serde::{Deserialize, Serialize};
use team::{Team, share};

/// A rank's machine, processors and CPU quota.
#[derive(Serialize, Deserialize)]
struct Placement {
    /// The boot id of the kernel, which is the same in containers with different host names.
    machine: Vec<u8>,
    /// The CPU affinity of the rank, as a bit set.
    processors: Vec<u8>,
    /// The cgroup with the smallest quota of CPU time, and that quota in processors.
    quota: Option<(u64, f64)>,
}

/// Limits the number of threads of this rank: a processor in the affinity masks of several ranks
/// counts as a fraction for each of these ranks. Launchers do not always bind ranks (`--bind-to
/// none`, MPICH, more ranks than processors), and then each rank would start threads for all
/// processors of the machine. Ranks in the same cgroup also divide its CPU quota. `host` identifies
/// the machine if `/proc` is missing.
pub(super) fn divide(team: &dyn Team, host: String) {
    let mut processors = Vec::new();
    for cpu in affinity() {
        processors.resize(processors.len().max(cpu / 8 + 1), 0);
        processors[cpu / 8] |= 1 << (cpu % 8);
    }
    let machine = read_kernel(c"/proc/sys/kernel/random/boot_id");
    let machine = machine.unwrap_or_else(|_| host.into_bytes());
    let placements = share(
        team,
        Placement {
            machine,
            processors,
            quota: quota().map(|Quota { cgroup, processors }| (cgroup, processors)),
        },
    );
    if let Some(most) = share_of(team.rank(), &placements) {
        limit_processors(most);
    }
}

/// Number of processors of a rank. Each processor in its affinity mask counts as 1, divided by the
/// number of ranks that share the processor. If the rank's share of the CPU quota is less than the
/// sum, the share is used. The result is rounded, and at least 1; `None` if the affinity is
/// unknown.
fn share_of(rank: usize, placements: &[Placement]) -> Option<usize> {
    let own = placements.get(rank)?;
    let may_run = |placement: &Placement, cpu: usize| {
        let bits = placement.processors.get(cpu / 8);
        bits.is_some_and(|bits| bits & 1 << (cpu % 8) != 0)
    };
    let same: Vec<_> = placements
        .iter()
        .filter(|placement| placement.machine == own.machine)
        .collect();
    let parts = (0..own.processors.len() * 8)
        .filter(|&cpu| may_run(own, cpu))
        .map(|cpu| {
            1.0 / same
                .iter()
                .filter(|placement| may_run(placement, cpu))
                .count() as f64
        });
    let sum = parts.sum::<f64>();
    let quota = own.quota.map_or(f64::INFINITY, |(cgroup, processors)| {
        let limits =
            |placement: &&&Placement| placement.quota.is_some_and(|(other, _)| other == cgroup);
        processors / same.iter().filter(limits).count() as f64
    });
    (sum > 0.0).then(|| (sum.min(quota).round() as usize).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placement(machine: &str, processors: &[u8]) -> Placement {
        Placement {
            machine: machine.as_bytes().to_vec(),
            processors: processors.to_vec(),
            quota: None,
        }
    }

    fn shares(placements: &[Placement]) -> Vec<Option<usize>> {
        (0..placements.len())
            .map(|rank| share_of(rank, placements))
            .collect()
    }

    #[test]
    fn ranks_of_a_machine_divide_its_processors() {
        let all = [0xff, 0xff];
        let unbound = || placement("a", &all);
        assert_eq!(shares(&[unbound()]), [Some(16)]);
        assert_eq!(shares(&[unbound(), unbound()]), [Some(8); 2]);
        let three = [unbound(), placement("b", &all), unbound(), unbound()];
        assert_eq!(shares(&three), [Some(5), Some(16), Some(5), Some(5)]);
        // Ranks bound to a processor, to a socket, and to overlapping sets of processors.
        let bound = [
            placement("a", &[1]),
            placement("a", &[2]),
            placement("a", &[0xf0]),
        ];
        assert_eq!(shares(&bound), [Some(1), Some(1), Some(4)]);
        let sockets = [
            placement("a", &[0xff]),
            placement("a", &[0, 0xff]),
            unbound(),
        ];
        assert_eq!(shares(&sockets), [Some(4), Some(4), Some(8)]);
        // More ranks than processors, and a rank whose affinity is unknown.
        assert_eq!(
            shares(&[placement("a", &[1]), placement("a", &[1])]),
            [Some(1), Some(1)]
        );
        assert_eq!(shares(&[placement("a", &[])]), [None]);
    }

    #[test]
    fn ranks_of_a_cgroup_divide_its_quota() {
        let within = |machine, cgroup, processors| Placement {
            quota: Some((cgroup, processors)),
            ..placement(machine, &[0xff, 0xff])
        };
        let four = || within("a", 7, 4.0);
        assert_eq!(shares(&[four()]), [Some(4)]);
        let mixed = [four(), four(), within("a", 8, 1.0), within("b", 7, 4.0)];
        assert_eq!(shares(&mixed), [Some(2), Some(2), Some(1), Some(4)]);
        // A quota above the number of processors, and one below one processor per rank.
        assert_eq!(shares(&[within("a", 7, 64.0)]), [Some(16)]);
        assert_eq!(
            shares(&[within("a", 7, 0.5), within("a", 7, 0.5)]),
            [Some(1); 2]
        );
    }
}
