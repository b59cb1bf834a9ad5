//! The CPU time of the processes that a meter has attached to.

use std::time::Duration;

use gate::file::read_kernel;
use gate::perf::TaskClock;
use gate::{Errno, clock};

use crate::attach::{Status, myself, threads};
use crate::cgroup::Cgroup;

/// CPU time used since the construction of this value.
pub(crate) struct CpuTime<'a> {
    source: CpuTimeSource<'a>,
    /// User and system time at construction, for a source that is a counter.
    before: [Duration; 2],
    /// CPU clocks of the threads, inherited by their children; `None` if one is not permitted.
    clocks: Option<Vec<TaskClock>>,
    /// When to read the CPU times of the processes again, in nanoseconds of `CLOCK_MONOTONIC`.
    next: u64,
}

enum CpuTimeSource<'a> {
    /// Each process, its status when metering began, and its status when last read.
    Processes(Vec<(u32, Status, Status)>),
    /// `cpu.stat` of a cgroup, which includes the time of processes that have ended.
    Cgroup(&'a Cgroup),
    Machine,
}

impl<'a> CpuTime<'a> {
    pub(crate) fn of_processes(processes: &[u32]) -> CpuTime<'a> {
        let mut time = CpuTime::from_source(CpuTimeSource::Processes(Vec::new()));
        processes.iter().for_each(|pid| time.add(*pid));
        time
    }

    /// The CPU time of a cgroup2.
    pub(crate) fn of_cgroup(cgroup: &'a Cgroup) -> CpuTime<'a> {
        CpuTime::from_source(CpuTimeSource::Cgroup(cgroup))
    }

    /// The CPU time of all processes except fathom.
    pub(crate) fn of_machine() -> CpuTime<'a> {
        CpuTime::from_source(CpuTimeSource::Machine)
    }

    fn from_source(source: CpuTimeSource<'a>) -> CpuTime<'a> {
        CpuTime {
            before: source.count(),
            source,
            clocks: Some(Vec::new()),
            next: 0,
        }
    }

    /// Adds a process, whose CPU time counts from now on.
    pub(crate) fn add(&mut self, pid: u32) {
        if let CpuTimeSource::Processes(processes) = &mut self.source
            && let Some(status) = Status::read(pid)
        {
            processes.push((pid, status, status));
            let clocks = threads(pid).into_iter().map(TaskClock::open);
            let clocks = clocks.filter(|clock| !matches!(clock, Err(Errno::ESRCH)));
            let clocks: Result<Vec<TaskClock>, Errno> = clocks.collect();
            match (clocks, &mut self.clocks) {
                (Ok(clocks), Some(all)) => all.extend(clocks),
                _ => self.clocks = None,
            }
        }
    }

    /// Reads the CPU times of the processes periodically, because the kernel forgets those of an
    /// ended process. The clocks do not split CPU time into user and system time.
    pub(crate) fn update(&mut self) {
        const INTERVAL: u64 = 100_000_000;
        let now = clock::monotonic();
        if now >= self.next {
            self.next = now + INTERVAL;
            self.read();
        }
    }

    fn read(&mut self) {
        if let CpuTimeSource::Processes(processes) = &mut self.source {
            for (pid, start, last) in processes {
                let now = Status::read(*pid);
                *last = now.filter(|now| now.start == start.start).unwrap_or(*last);
            }
        }
    }

    /// User and system time until now. Without clocks, the time of an ended process counts only up
    /// to its last reading, and includes the time of children that it has waited for.
    pub(crate) fn times(mut self) -> (Duration, Duration) {
        self.read();
        let now = self.source.count();
        let [user, sys] = [0, 1].map(|at| now[at].saturating_sub(self.before[at]));
        let clocks = self.clocks.iter().flatten();
        let all: u64 = clocks.map(|clock| clock.nanos().unwrap_or_default()).sum();
        match all {
            0 => (user, sys),
            all => divide(Duration::from_nanos(all), user, sys),
        }
    }
}

impl CpuTimeSource<'_> {
    fn count(&self) -> [Duration; 2] {
        match self {
            CpuTimeSource::Processes(processes) => {
                let sum = |of: fn(&Status) -> u64| {
                    let used = |(_, start, last): &(u32, Status, Status)| {
                        of(last).saturating_sub(of(start))
                    };
                    ticks(processes.iter().map(used).sum())
                };
                [sum(|it| it.user), sum(|it| it.sys)]
            }
            CpuTimeSource::Cgroup(cgroup) => {
                let times = cgroup.cpu_time().unwrap_or_default();
                times.map(Duration::from_micros)
            }
            CpuTimeSource::Machine => {
                let text = read_kernel(c"/proc/stat").unwrap_or_default();
                let all = parse_machine(&text).unwrap_or_default();
                let own = myself().and_then(Status::read);
                let own = own.map_or([0, 0], |own| [own.user, own.sys]);
                [0, 1].map(|at| ticks(all[at].saturating_sub(own[at])))
            }
        }
    }
}

/// Splits the exact total CPU time in the ratio of `user` and `sys`, whose sum is less exact.
fn divide(all: Duration, user: Duration, sys: Duration) -> (Duration, Duration) {
    let sum = (user + sys).as_secs_f64();
    let sys = match sum > 0.0 {
        true => all.mul_f64(sys.as_secs_f64() / sum).min(all),
        false => Duration::ZERO,
    };
    (all - sys, sys)
}

/// Converts CPU ticks: `USER_HZ` is 100 on every supported architecture.
fn ticks(ticks: u64) -> Duration {
    Duration::from_millis(10 * ticks)
}

/// User and system time of all processors in /proc/stat, in ticks.
fn parse_machine(text: &[u8]) -> Option<[u64; 2]> {
    let line = text.split(|byte| *byte == b'\n').next()?;
    let fields = str::from_utf8(line.strip_prefix(b"cpu ")?).ok()?;
    let mut fields = fields.split_ascii_whitespace().map(str::parse::<u64>);
    let mut next = || fields.next()?.ok();
    let (user, nice, sys) = (next()?, next()?, next()?);
    Some([user + nice, sys])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_divided_as_in_the_samples() {
        let ms = Duration::from_millis;
        assert_eq!(divide(ms(100), ms(30), ms(10)), (ms(75), ms(25)));
        assert_eq!(divide(ms(7), ms(0), ms(0)), (ms(7), ms(0)));
        assert_eq!(divide(ms(7), ms(0), ms(10)), (ms(0), ms(7)));
    }

    #[test]
    fn the_time_of_all_processors_is_parsed() {
        assert_eq!(
            parse_machine(b"cpu  5 2 3 90 0\ncpu0 1 1 1 9 0\n"),
            Some([7, 3])
        );
        assert_eq!(parse_machine(b"cpu0 1 1 1\n"), None);
        assert_eq!(parse_machine(b"cpu  5 2\n"), None);
    }
}
