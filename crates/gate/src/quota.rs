//! The CPU quota of a cgroup.

use crate::file::{read_kernel, read_kernel_in};
use crate::flags::{AtFlags, StatxMask};
use crate::fs::{CWD, statx};
use crate::long::c_string;

/// The CPU time that the processes of a cgroup may use together.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Quota {
    /// Inode number of the cgroup, which is the same in all namespaces.
    pub cgroup: u64,
    /// CPU time per elapsed time: a number of processors.
    pub processors: f64,
}

/// The smallest quota of the cgroup of this process and those above it; `None` if no visible cgroup
/// has a quota. [CPU
/// controller](https://docs.kernel.org/admin-guide/cgroup-v2.html#cpu-interface-files), [CFS
/// bandwidth control](https://docs.kernel.org/scheduler/sched-bwc.html)
pub fn quota() -> Option<Quota> {
    lowest(&read_kernel(c"/proc/self/cgroup").ok()?, b"/sys/fs/cgroup")
}

/// The smallest quota of a process with this `/proc/PID/cgroup`, in cgroup file systems mounted at
/// `top`.
fn lowest(membership: &[u8], top: &[u8]) -> Option<Quota> {
    let lines = membership.split(|byte| *byte == b'\n');
    let quotas = lines.filter_map(|line| {
        // Format of a line: hierarchy-ID:controller-list:cgroup-path, see cgroups(7).
        let mut fields = line.splitn(3, |byte| *byte == b':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let is_v2 = controllers.is_empty();
        if !is_v2
            && !controllers
                .split(|byte| *byte == b',')
                .any(|name| name == b"cpu")
        {
            return None;
        }
        let root = [top, if is_v2 { b"" } else { &b"/cpu"[..] }].concat();
        let path = path.strip_suffix(b"/").unwrap_or(path);
        // In a container, a cgroup path outside of it has no files, but the root directory is its
        // own cgroup.
        let ends = (0..path.len())
            .filter(|end| path[*end] == b'/')
            .chain([path.len()]);
        let dirs = ends.map(|end| [&root, &path[..end]].concat());
        let limits = dirs.filter_map(|dir| Some((limit(&dir, is_v2)?, dir)));
        let (processors, dir) = limits.min_by(|a, b| a.0.total_cmp(&b.0))?;
        let dir = statx(
            CWD,
            &c_string(&dir).ok()?,
            AtFlags::empty(),
            StatxMask::BASIC_STATS,
        )
        .ok()?;
        Some(Quota {
            cgroup: dir.ino,
            processors,
        })
    });
    quotas.min_by(|a, b| a.processors.total_cmp(&b.processors))
}

/// The quota of a cgroup in processors. In version 2, `cpu.max` is `$MAX $PERIOD` in microseconds,
/// or `max` without a quota; in version 1, `cpu.cfs_quota_us` is -1 without a quota.
fn limit(dir: &[u8], is_v2: bool) -> Option<f64> {
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let (most, period) = if is_v2 {
        let text = read(dir, b"cpu.max")?;
        let (most, period) = text.split_once(' ')?;
        (number(most)?, number(period)?)
    } else {
        let value = |file| number(&read(dir, file)?);
        (value(b"cpu.cfs_quota_us")?, value(b"cpu.cfs_period_us")?)
    };
    (most > 0.0 && period > 0.0).then_some(most / period)
}

fn read(dir: &[u8], file: &[u8]) -> Option<String> {
    String::from_utf8(read_kernel_in(dir, file).ok()?).ok()
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests make files")]
mod tests {
    use std::fs::{create_dir_all, metadata, write};
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn the_smallest_quota_counts() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path();
        let (job, step) = (top.join("job"), top.join("job/step"));
        create_dir_all(&step).unwrap();
        let found = |membership: &[u8]| lowest(membership, top.as_os_str().as_bytes());
        let of = |dir: &std::path::Path, processors| {
            let cgroup = metadata(dir).unwrap().ino();
            Some(Quota { cgroup, processors })
        };
        let own = b"4:memory:/other\n0::/job/step\n";
        assert_eq!(found(own), None);
        write(step.join("cpu.max"), "max 100000\n").unwrap();
        assert_eq!(found(own), None);
        write(job.join("cpu.max"), "150000 100000\n").unwrap();
        assert_eq!(found(own), of(&job, 1.5));
        write(step.join("cpu.max"), "50000 100000\n").unwrap();
        assert_eq!(found(own), of(&step, 0.5));
        // The cgroup path as seen from inside of a container without a cgroup namespace.
        write(top.join("cpu.max"), "200000 100000\n").unwrap();
        assert_eq!(found(b"0::/not/seen\n"), of(top, 2.0));

        let old = top.join("cpu/old");
        create_dir_all(&old).unwrap();
        write(old.join("cpu.cfs_period_us"), "100000\n").unwrap();
        write(old.join("cpu.cfs_quota_us"), "-1\n").unwrap();
        assert_eq!(found(b"3:cpu,cpuacct:/old\n"), None);
        write(old.join("cpu.cfs_quota_us"), "30000\n").unwrap();
        assert_eq!(found(b"3:cpu,cpuacct:/old\n"), of(&old, 0.3));
        assert_eq!(found(b"3:cpu:/old\n0::/job\n"), of(&old, 0.3));
        assert_eq!(found(b"nothing\n"), None);
    }
}
