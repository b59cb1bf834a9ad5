//! Options and report of the experiments.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::finding::Finding;
use crate::names::{Call, Experiment, Quantity};
use crate::samples::Series;

/// Limits for all experiments together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Limits {
    /// Limit of bytes read and written.
    pub bytes: u64,
    pub time: Duration,
}

/// Bytes read from and written to the file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct IoBytes {
    pub read: u64,
    pub written: u64,
}

/// How the experiment `cache` fills the page cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheOptions {
    /// Use the paper's two passes over a file instead of holes.
    pub paper: bool,
    /// Memory limit of the temporary cgroup in bytes. Default: 256 MiB, or less if that exceeds an
    /// eighth of the available memory or the limit of I/O.
    pub limit: Option<u64>,
}

/// The experiments to run, their directory, and their limits.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ProbeOptions {
    pub dir: Vec<u8>,
    /// The experiments. The timer always runs, since the others need its clock.
    pub experiments: Vec<Experiment>,
    pub limits: Limits,
    /// Extra time for a child process that still uses CPU time (a slow machine), before it is
    /// killed and its findings so far are reported.
    pub lateness: Duration,
    pub cache: CacheOptions,
    /// Create only files without a name, and remove nothing: for a directory whose owner has not
    /// asked for experiments.
    pub unnamed_only: bool,
}

/// A finding, and the bytes and time that its experiment used.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct MeasuredFinding {
    pub finding: Finding,
    pub seconds: f64,
    pub io_bytes: IoBytes,
}

impl From<Finding> for MeasuredFinding {
    /// A finding without any I/O.
    fn from(finding: Finding) -> MeasuredFinding {
        MeasuredFinding {
            finding,
            seconds: 0.0,
            io_bytes: IoBytes::default(),
        }
    }
}

/// The price of a call.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Price {
    pub call: Call,
    /// Whether the call finds its data in memory.
    pub warm: bool,
    /// The number of threads that make the call at the same time.
    pub threads: usize,
    /// Nanoseconds per call on each thread: the median of batches; the quartiles follow.
    pub ns: f64,
    pub low: f64,
    pub high: f64,
    /// The number of calls made.
    pub calls: u64,
}

/// The results of the experiments.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ProbeReport {
    pub fstype: Option<Vec<u8>>,
    /// The findings, by experiment.
    pub measured: Vec<MeasuredFinding>,
    /// The prices of calls; `None` unless requested.
    pub prices: Option<Vec<Price>>,
    pub series: Vec<Series>,
    /// Why the experiments ended early: the file system stopped answering, or the child process was
    /// killed.
    pub stopped: Option<Error>,
}

impl ProbeReport {
    /// Adds later results.
    pub(crate) fn extend(&mut self, more: ProbeReport) {
        self.fstype = more.fstype.or(self.fstype.take());
        self.measured.extend(more.measured);
        self.prices = more.prices.or(self.prices.take());
        self.series.extend(more.series);
    }

    /// The finding of this quantity.
    pub fn find(&self, quantity: Quantity) -> Option<&Finding> {
        let mut findings = self.measured.iter().map(|measured| &measured.finding);
        findings.find(|finding| finding.quantity == quantity)
    }
}

#[cfg(test)]
mod tests {
    use gate::Errno;
    use proptest::prelude::*;
    use serde::de::DeserializeOwned;

    use super::*;
    use crate::error::{Purpose, Result};
    use crate::finding::{Method, ReportedValue, Source, Value};
    use crate::names::Kind;

    fn encoded_and_decoded<T: Serialize + DeserializeOwned>(it: &T) -> Option<T> {
        let bytes = postcard::to_allocvec(it).unwrap();
        let (same, left) = postcard::take_from_bytes(&bytes).ok()?;
        assert!(left.is_empty());
        Some(same)
    }

    #[test]
    fn a_report_survives_encoding() {
        let why = Error::Call {
            action: Purpose::Write,
            errno: Errno::ENOSPC,
        };
        let values = [
            Value::Number(f64::NEG_INFINITY),
            Value::Range(1.5, 2.0),
            Value::List(vec![1, u64::MAX]),
            Value::Holds(true),
        ];
        let known = values.map(|value| {
            let method = Method::DeviceReads {
                errno: Errno::EOPNOTSUPP,
                mebibytes: 3,
                usual: u64::MAX,
                agreeing: 2,
            };
            Finding::known(Quantity::Cluster, value, 0.5, method)
                .by_time()
                .with_trials(3)
                .compared_with(
                    Some(ReportedValue::new(4096_u64, Source::File("ä".to_owned()))),
                    0.0,
                )
        });
        let found = known.into_iter().chain([
            Finding::unknown(Quantity::All(Experiment::Gates), why.clone()),
            Finding::unknown(Quantity::CacheCapacity, Error::CgroupRefused(Errno::EROFS)),
        ]);
        let report = ProbeReport {
            fstype: Some(b"fuse.\xff".to_vec()),
            measured: found
                .map(|finding| MeasuredFinding {
                    finding,
                    seconds: 0.125,
                    io_bytes: IoBytes {
                        read: 1,
                        written: u64::MAX,
                    },
                })
                .collect(),
            prices: Some(vec![Price {
                call: Call::Create,
                warm: true,
                threads: 2,
                ns: 0.5,
                low: 0.25,
                high: 1e300,
                calls: 7,
            }]),
            series: vec![Series {
                runs: vec![1, 4],
                ..Series::from_trials(Kind::Passes, 4096, vec![vec![1.0, 0.1]; 3])
            }],
            stopped: Some(Error::ProcessEnded { signal: Some(9) }),
        };
        assert_eq!(encoded_and_decoded(&report).as_ref(), Some(&report));
        assert_eq!(
            encoded_and_decoded(&ProbeReport::default()),
            Some(ProbeReport::default())
        );
        assert_eq!(
            encoded_and_decoded(&why).unwrap().refusal(),
            Some((gate::Gate::Pwrite64, Errno::ENOSPC))
        );
        let samples: Result<Vec<(u64, f64)>> = Ok(vec![(1, 10.0), (2, 20.0)]);
        assert_eq!(encoded_and_decoded(&samples), Some(samples));
        assert_eq!(
            encoded_and_decoded(&Err::<u8, _>(Error::Interrupted)),
            Some(Err(Error::Interrupted))
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_decoding_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = postcard::from_bytes::<ProbeReport>(&bytes);
            let _ = postcard::from_bytes::<Result<Vec<(u64, f64)>>>(&bytes);
        }
    }
}
