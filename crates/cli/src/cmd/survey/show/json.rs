//! A survey as `result` of the JSON.

use std::collections::BTreeMap;

use crate::cmd::mounts::show::Mounts;
use crate::cmd::walk::show::{List, possible_engines};
use ::survey::{Machine, StepTaken};
use show::json_object;

use super::commands::Commands;
use super::missing::{text, unseen};
use super::points::Point;
use crate::cmd::survey::survey::{Survey, Walking};
use crate::json::Json;
use ::survey::bounded::Bounded;

/// A survey as JSON.
pub(crate) struct JsonSurvey<'a>(pub(crate) &'a Survey<'a>);

json_object!(JsonSurvey<'_>, |this| {
    name "root": Some(this.0.root),
    "machine": JsonMachine(&this.0.about),
    "findings": Point::findings(this.0),
    "advice": Point::advice(this.0),
    "mounts": this.mounts(),
    "probe": this.0.file_systems.gathered().into_iter().flatten().map(|one| &one.probe).collect::<Vec<_>>(),
    "walk": this.0.walking.gathered().map(JsonWalking),
    "dump": this.0.dumping.gathered().map(|dump| Json(*dump)),
    "account": this.0.calls.gathered().map(|account| Json(*account)),
    "account_skipped": this.0.calls.missing().map(text),
    "startup": this.0.starting.gathered(),
    "gates": this.0.gates.gathered(),
    "skipped": this.skipped(),
    "steps": this.0.steps.iter().map(JsonStep).collect::<Vec<_>>(),
    "ended": this.0.is_interrupted.then_some("interrupted"),
});

impl<'a> JsonSurvey<'a> {
    fn mounts(&self) -> Option<&Mounts<'a>> {
        self.0.mounts.gathered().map(|part| &part.mounts)
    }

    fn skipped(&self) -> BTreeMap<&'static str, Skipped> {
        let commands = Commands::new(self.0);
        let missing = self.0.missing().into_iter();
        missing
            .map(|(section, missing)| {
                let (why, how) = (text(missing), commands.gather(section));
                (section.name(), Skipped { why, how })
            })
            .collect()
    }
}

/// Why a section is missing, and the command that gathers it.
struct Skipped {
    why: String,
    how: String,
}

json_object!(Skipped, |skipped| {
    "why": skipped.why,
    "how": skipped.how,
});

struct JsonMachine<'a>(&'a Machine);

json_object!(JsonMachine<'_>, |this| {
    name "host": this.0.host.as_deref(),
    "kernel": this.0.kernel,
    "arch": this.0.arch,
    "cpus": this.0.cpus,
    "memory": this.0.memory,
    "root": this.0.root,
    "lacking": this.0.unseen.iter().map(unseen).collect::<Vec<_>>(),
    "version": this.0.version,
    "when": this.0.when,
    "seconds": this.0.seconds,
    "bytes_read": this.0.bytes_read,
    "bytes_written": this.0.bytes_written,
    "limit_seconds": this.0.limit_seconds,
    "limit_bytes": this.0.limit_bytes,
    "deep": this.0.deep,
});

struct JsonWalking<'a>(&'a Walking<'a>);

json_object!(JsonWalking<'_>, |this| {
    "engine": this.0.part.engine.name(),
    "why": this.0.part.reason.to_string(),
    "explain": List(possible_engines(this.0.explain)),
    "compare": this.0.compare,
    "bounded": this.0.bounded.map(JsonBounded),
});

struct JsonBounded<'a>(&'a Bounded);

json_object!(JsonBounded<'_>, |this| {
    "engine": this.0.engine,
    "entries": this.0.entries,
    "seconds": this.0.seconds,
    "bytes": this.0.bytes,
    "inodes": this.0.inodes,
    "whole_seconds": this.0.whole_seconds(),
    "levels": this.0.levels,
});

struct JsonStep<'a>(&'a StepTaken);

json_object!(JsonStep<'_>, |this| {
    "name": this.0.name,
    "section": this.0.section.name(),
    "state": this.0.state.name(),
    "seconds": this.0.seconds,
    "bytes_read": this.0.bytes_read,
    "bytes_written": this.0.bytes_written,
});
