//! The outcome of a run for monitoring: a line of JSON (`--report`), and OpenMetrics text
//! (`--metrics`).
//!
//! Commands record metrics while they run ([`Facts::add`]). [`Monitor::finish`] adds the outcome at
//! the end, also of a failed run.

use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use ::show::name::printable;
use archive::increment::history::History;
use base::{Warning, WarningReason};
use catalog::ranges::Ranges;
use gate::file::{Permissions, append};
use gate::fs::{Open, Time};
use gate::long::{open_long, split_path};
use ondisk::utc;
use serde_json::{Map, Value, json};
use walk::Moment;

use crate::args::Command;
use crate::args::monitor::MonitorArgs;
use crate::error::Outcome;
use crate::facts::{Fact, Facts};
use crate::out::{Out, write_file};

/// Warning: the outcome of a run could not be written. The command itself may have succeeded.
#[derive(Clone, Copy, Debug, thiserror::Error)]
enum NotWritten {
    #[error("cannot write metrics")]
    Metrics,
    #[error("cannot append to the report")]
    Report,
}

impl WarningReason for NotWritten {}

/// The permissions of the metrics file. The metrics collector, which runs as a different user, must
/// be able to read it.
const EVERYBODY: Permissions = Permissions::Exactly(0o644);

const LAST_COMPLETE: &str = "last_complete_dump_timestamp_seconds";

/// Monitors the run of a command until its end.
pub(crate) struct Monitor<'a> {
    args: &'a MonitorArgs,
    command: &'static str,
    /// Labels of all metrics that say what the run works on, such as the sources of a dump.
    about: Vec<(&'static str, String)>,
    state: Option<&'a [u8]>,
    /// Whether the dump is a snapshot in a restic repository, which has no record.
    is_snapshot: bool,
    began: Time,
    start: Instant,
}

impl<'a> Monitor<'a> {
    /// Starts monitoring, if the command supports it and an option requests it.
    pub(crate) fn begin(given: &'a Command) -> Option<Monitor<'a>> {
        let shown = |name: &std::ffi::OsStr| name.to_string_lossy().into_owned();
        let (args, command, mut about, state) = match given {
            Command::Dump(args) => {
                let sources: Vec<String> =
                    args.sources.iter().map(|source| shown(source)).collect();
                let about = vec![("source", sources.join(" "))];
                (&args.monitor, "dump", about, args.state.as_ref())
            }
            Command::Verify(args) => {
                let archives: Vec<String> =
                    args.archives.iter().map(|archive| shown(archive)).collect();
                let about = match archives.is_empty() {
                    true => Vec::new(),
                    false => vec![("archive", archives.join(" "))],
                };
                (&args.monitor, "verify", about, args.state.as_ref())
            }
            Command::Mounts(args) => (&args.monitor, "mounts", Vec::new(), None),
            Command::Space(args) => {
                let about = vec![("directory", shown(&args.dir))];
                (&args.monitor, "space", about, None)
            }
            _ => return None,
        };
        about.extend(state.map(|state| ("state", shown(state))));
        let is_snapshot = matches!(given, Command::Dump(args) if args.restic.is_some());
        (args.report.is_some() || args.metrics.is_some()).then(|| Monitor {
            args,
            command,
            about,
            state: state.map(|state| state.as_bytes()),
            is_snapshot,
            began: Moment::now().time(),
            start: Instant::now(),
        })
    }

    /// Writes the outcome of the run. A failed write becomes a warning.
    pub(crate) fn finish(self, done: Outcome, out: &Out) -> Outcome {
        self.add_outcome(&done, &out.facts);
        if let Some(state) = self.state.filter(|_| !self.is_snapshot) {
            add_state(state, &out.facts);
        }
        let mut facts = out.facts.take();
        if self.is_snapshot && !facts.iter().any(|fact| fact.name == LAST_COMPLETE) {
            facts.extend(self.last_complete());
        }
        let mut failed = Vec::new();
        if let Some(path) = &self.args.report {
            let mut line = self.line(&done, &facts).to_string();
            line.push('\n');
            if let Err(errno) = append(path.as_bytes(), line.as_bytes()) {
                failed.push((path.as_bytes(), errno, NotWritten::Report));
            }
        }
        if let Some(path) = &self.args.metrics
            && let Err(errno) = write_file(path.as_bytes(), self.text(&facts).as_bytes(), EVERYBODY)
        {
            failed.push((path.as_bytes(), errno, NotWritten::Metrics));
        }
        let warnings = failed.into_iter().map(|(path, errno, reason)| {
            let failed = Warning::about(path, reason);
            Warning {
                errno: Some(errno),
                ..failed
            }
        });
        let warnings: Vec<Warning> = warnings.collect();
        out.warn(&warnings);
        done.map(|found| found + warnings.len())
    }

    /// The time of the last complete snapshot, from the metrics of an earlier run: without a record
    /// of snapshots, a failed run has no other source.
    fn last_complete(&self) -> Option<Fact> {
        const MOST: usize = 1 << 20;
        let path = self.args.metrics.as_ref()?.as_bytes();
        if path == b"-" {
            return None;
        }
        let (dir, name) = split_path(path);
        let dir = open_long(dir, Open::DIRECTORY).ok()?;
        let file = Ranges::open_in(&dir, name).ok()?;
        file.check_trusted().ok()?;
        let mut text = vec![0; (file.len() as usize).min(MOST)];
        let read = file.read_at(0, &mut text).ok()?;
        text.truncate(read);
        let before = format!("{} ", self.sample(LAST_COMPLETE, &[]));
        let mut lines = str::from_utf8(&text).ok()?.lines();
        let value = lines.find_map(|line| line.strip_prefix(&before))?;
        Some(Fact {
            name: LAST_COMPLETE,
            labels: Vec::new(),
            value: value.parse::<i64>().ok()?.into(),
        })
    }

    /// The name of a metric with its labels.
    fn sample(&self, name: &str, labels: &[(&'static str, String)]) -> String {
        let labels = self.about.iter().chain(labels);
        let labels = labels.map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
        let labels = labels.collect::<Vec<_>>().join(",");
        let labels = match &labels[..] {
            "" => labels,
            _ => format!("{{{labels}}}"),
        };
        format!("fathom_{}_{name}{labels}", self.command)
    }

    fn add_outcome(&self, done: &Outcome, facts: &Facts) {
        let status = match done {
            Ok(0) => 0,
            Ok(_) => 1,
            Err(_) => 2,
        };
        let warnings = done.as_ref().copied().unwrap_or_default();
        let seconds = self.start.elapsed().as_secs_f64();
        facts.add("exit_status", status);
        facts.add("warnings", warnings);
        facts.add("duration_seconds", seconds);
        facts.add("start_timestamp_seconds", self.began.sec);
    }

    /// The JSON line of `--report`.
    fn line(&self, done: &Outcome, facts: &[Fact]) -> Value {
        let mut values = Map::new();
        let (single, several): (Vec<&Fact>, Vec<&Fact>) =
            facts.iter().partition(|fact| fact.labels.is_empty());
        for fact in single {
            values.insert(fact.name.to_owned(), fact.value.clone());
        }
        for fact in several {
            let mut one = Map::new();
            for (name, label) in &fact.labels {
                one.insert((*name).to_owned(), label.as_str().into());
            }
            one.insert("value".to_owned(), fact.value.clone());
            let all = values.entry(fact.name).or_insert_with(|| json!([]));
            all.as_array_mut()
                .into_iter()
                .for_each(|all| all.push(one.clone().into()));
        }
        let about = self.about.iter();
        let about: Map<String, Value> = about
            .map(|(name, label)| ((*name).to_owned(), label.as_str().into()))
            .collect();
        json!({
            "schema": "fathom.report/1",
            "command": self.command,
            "about": about,
            "began": format!("{}Z", utc(self.began.sec)),
            "error": done.as_ref().err().map(|error| printable(error.to_string().as_bytes()).into_owned()),
            "values": values,
        })
    }

    /// The metrics as OpenMetrics text. Because all metrics are gauges, the text is also valid in
    /// the text format of Prometheus.
    fn text(&self, facts: &[Fact]) -> String {
        let (mut text, mut done) = (String::new(), Vec::new());
        for fact in facts {
            if done.contains(&fact.name) {
                continue;
            }
            done.push(fact.name);
            let name = format!("fathom_{}_{}", self.command, fact.name);
            let _ = writeln!(text, "# TYPE {name} gauge");
            let units = ["seconds", "bytes"];
            if let Some(unit) = units
                .into_iter()
                .find(|unit| name.ends_with(&format!("_{unit}")))
            {
                let _ = writeln!(text, "# UNIT {name} {unit}");
            }
            let _ = writeln!(text, "# HELP {name} {}.", fact.help());
            for one in facts.iter().filter(|one| one.name == fact.name) {
                let sample = self.sample(one.name, &one.labels);
                let _ = writeln!(text, "{sample} {}", one.value);
            }
        }
        text + "# EOF\n"
    }
}

/// Records when a complete snapshot in a restic repository began.
#[cfg(feature = "restic")]
pub(crate) fn add_complete_snapshot(began: Time, facts: &Facts) {
    facts.add(LAST_COMPLETE, began.sec);
}

/// Escapes the value of a label.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// Adds metrics of the state directory, also after a failed run.
fn add_state(state: &[u8], facts: &Facts) {
    let Ok(history) = History::read(state) else {
        return;
    };
    let dumps = history.dumps();
    let present = dumps.iter().filter(|dump| dump.status().exists());
    let bytes = present.fold(0_u64, |sum, dump| sum.saturating_add(dump.bytes));
    facts.add("state_dumps", dumps.len());
    facts.add("state_bytes", bytes);
    if let Some(last) = dumps.last() {
        facts.add("last_dump_timestamp_seconds", last.date.sec);
    }
    let is_complete = |at: usize| dumps[at].unread.is_empty() && !history.needs_damaged(at);
    let complete = (0..dumps.len()).rev().find(|&at| is_complete(at));
    if let Some(complete) = complete.map(|at| &dumps[at]) {
        facts.add(LAST_COMPLETE, complete.date.sec);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_that_of_openmetrics() {
        let facts = Facts::default();
        facts.add("duration_seconds", 1.5);
        let label = |mount: &str| vec![("mount", mount.to_owned())];
        facts.add_with("mount_ok", label("/a\"\\\n"), 1);
        facts.add_with("mount_ok", label("/b"), 0);
        let args = MonitorArgs::default();
        let monitor = Monitor {
            args: &args,
            command: "mounts",
            about: Vec::new(),
            state: None,
            is_snapshot: false,
            began: Time::default(),
            start: Instant::now(),
        };
        let facts = facts.take();
        let expected = [
            "# TYPE fathom_mounts_duration_seconds gauge",
            "# UNIT fathom_mounts_duration_seconds seconds",
            "# HELP fathom_mounts_duration_seconds Duration of the last run.",
            "fathom_mounts_duration_seconds 1.5",
            "# TYPE fathom_mounts_mount_ok gauge",
            "# HELP fathom_mounts_mount_ok Whether a mount answers.",
            "fathom_mounts_mount_ok{mount=\"/a\\\"\\\\\\n\"} 1",
            "fathom_mounts_mount_ok{mount=\"/b\"} 0",
            "# EOF\n",
        ];
        assert_eq!(monitor.text(&facts), expected.join("\n"));
        let line = monitor.line(&Ok(0), &facts);
        assert_eq!(line["values"]["mount_ok"][1]["value"], 0);
        assert_eq!(line["began"], "1970-01-01T00:00:00Z");
    }
}
