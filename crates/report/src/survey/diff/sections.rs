//! What is compared in each section.

use serde_json::Value;

use super::document::{Both, Paired, Spread, TRIALS, name, number, options, text};
use super::{Change, Report, Uncompared, Verdict, ratio};
use show::name::printable;

/// How far apart calls for each entry must be, where the tree has others than before.
const CALLS_APART: f64 = 1.01;

impl Report {
    pub(super) fn machine(&mut self, both: Both<'_>) {
        if !self.has("machine", both) {
            return;
        }
        let members = [
            ("host", "the machine's name", ""),
            ("kernel", "kernel", ""),
            ("arch", "architecture", ""),
            ("cpus", "processors", ""),
            ("memory", "memory", "bytes"),
            ("root", "surveyed by root", ""),
            ("deep", "surveyed with --deep", ""),
            ("version", "version of fathom", ""),
        ];
        for (member, what, unit) in members {
            let both = both.of(member);
            if both.is_known() {
                self.note("machine", what, unit, both, Verdict::Other);
            }
        }
    }

    pub(super) fn mounts(&mut self, both: &Both<'_>) {
        let both = both.of("mounts");
        if !self.has("mounts", both) {
            return;
        }
        let Paired { both, gone, come } = both.of("mounts").paired(|row| name(row, "target"));
        let about = |row: &Value, what: &str, values, verdict| Change {
            path: name(row, "target"),
            ..Change::of("mounts", what, values, verdict)
        };
        let shown = |row: &Value| -> Value {
            format!("{} ({})", text(row, "source"), text(row, "fstype")).into()
        };
        self.compared += (both.len() + gone.len() + come.len()) as u64;
        for row in gone {
            self.changes.push(about(
                row,
                "the mount",
                [shown(row), Value::Null],
                Verdict::Worse,
            ));
        }
        for row in come {
            self.changes.push(about(
                row,
                "the mount",
                [Value::Null, shown(row)],
                Verdict::Other,
            ));
        }
        for both in both {
            let Both { old, new } = both;
            for field in ["source", "fstype", "fsroot", "kind"] {
                let both = both.of(field);
                if both.old != both.new && both.is_known() {
                    self.changes
                        .push(about(new, field, both.values(), Verdict::Other));
                }
            }
            if let (Some(then), Some(now)) = (old["hidden"].as_bool(), new["hidden"].as_bool())
                && then != now
            {
                let verdict = if now { Verdict::Worse } else { Verdict::Better };
                self.changes
                    .push(about(new, "hidden", [then.into(), now.into()], verdict));
            }
            if let (Some(then), Some(now)) = (old["verdict"].as_str(), new["verdict"].as_str())
                && then != now
            {
                let verdict = if now == "ok" {
                    Verdict::Better
                } else {
                    Verdict::Worse
                };
                self.changes.push(about(
                    new,
                    "whether it answers",
                    [then.into(), now.into()],
                    verdict,
                ));
            }
            if let Some((lost, got)) = options(old, new) {
                let now_read_only = got.contains(&"ro") && lost.contains(&"rw");
                let verdict = if now_read_only {
                    Verdict::Worse
                } else {
                    Verdict::Other
                };
                self.changes.push(about(
                    new,
                    "options",
                    [lost.join(",").into(), got.join(",").into()],
                    verdict,
                ));
            }
        }
    }

    pub(super) fn methods(&mut self, both: Both<'_>) {
        if !self.has("mounts", both) {
            return;
        }
        let Paired {
            both: methods,
            gone,
            come,
        } = both
            .of("methods")
            .paired(|row| row["by"].as_str().map(str::to_owned));
        for both in methods {
            let by = printable(text(both.old, "by").as_bytes()).into_owned();
            let real = both.of("real");
            if let (Some(old), Some(new)) =
                (Spread::of(real.old, TRIALS), Spread::of(real.new, TRIALS))
            {
                self.timed("mounts", format!("finding them by {by}"), "s", old, new);
            }
            if let (Some((old, new)), Some((then, now))) =
                (both.of("calls").numbers(), both.of("found").numbers())
            {
                // With other mounts there are other directories to be searched.
                if then == now {
                    self.counted(
                        "mounts",
                        format!("calls to find them by {by}"),
                        old,
                        new,
                        CALLS_APART,
                    );
                }
            }
        }
        self.ran(both, "mounts", "by", gone, come);
    }

    /// What could be run then and cannot now, and the other way round.
    fn ran(
        &mut self,
        both: Both<'_>,
        section: &'static str,
        key: &str,
        gone: Vec<&Value>,
        come: Vec<&Value>,
    ) {
        let why = |all: &Value, which: &str| -> Value {
            let left = all["left_out"]
                .as_array()
                .into_iter()
                .flatten()
                .find(|left| left[key] == which);
            left.map_or(Value::Null, |left| left["why"].clone())
        };
        for (rows, verdict) in [(gone, Verdict::Worse), (come, Verdict::Better)] {
            for row in rows {
                let which = text(row, key);
                let values = match verdict {
                    Verdict::Worse => ["compared".into(), why(both.new, which)],
                    _ => [why(both.old, which), "compared".into()],
                };
                let what = format!("whether {} can be compared", printable(which.as_bytes()));
                self.compared += 1;
                self.changes
                    .push(Change::of(section, what, values, verdict));
            }
        }
    }

    pub(super) fn file_systems(&mut self, both: &Both<'_>) {
        let both = both.of("probe");
        if !self.has("probe", both) {
            return;
        }
        let Paired {
            both: systems,
            gone,
            ..
        } = both.paired(|row| name(row, "dir"));
        for row in gone {
            let dir = name(row, "dir").unwrap_or_default();
            let why = format!("the new survey has no experiments in '{}'", printable(&dir));
            self.uncompared.push(Uncompared {
                section: "probe",
                why,
            });
        }
        for system in systems {
            let dir = name(system.old, "dir");
            self.note_about(&dir, "type", system.of("fstype"), "");
            let key = |row: &Value| row["name"].as_str().map(str::to_owned);
            for both in system.of("experiments").paired(key).both {
                let what = printable(text(both.old, "name").as_bytes()).into_owned();
                let unit = if text(both.old, "unit") == "bytes" {
                    "bytes"
                } else {
                    ""
                };
                // What rests on times alone, or on a few trials that did not agree, changes from
                // one run to the next.
                const SURE: f64 = 0.9;
                let is_sure = |row: &Value| {
                    row["by_time"] == false && number(&row["confidence"]).is_some_and(|v| v >= SURE)
                };
                let is_about =
                    |row: &Value| row["inferred"].is_number() || row["inferred"].is_string();
                if [both.old, both.new]
                    .into_iter()
                    .all(|row| is_sure(row) && is_about(row))
                {
                    self.note_about(&dir, &what, both.of("inferred"), unit);
                }
                let said = format!("{what}, as the kernel says");
                self.note_about(&dir, &said, both.of("truth"), unit);
            }
        }
    }

    /// A fact about a file system, if both know it. What changes from one run to the next by a
    /// twentieth is the same.
    fn note_about(
        &mut self,
        dir: &Option<Vec<u8>>,
        what: &str,
        both: Both<'_>,
        unit: &'static str,
    ) {
        const SAME: f64 = 1.05;
        if !both.is_known() {
            return;
        }
        self.compared += 1;
        let ratio = both.numbers().and_then(|(old, new)| ratio(old, new));
        let is_same =
            both.old == both.new || ratio.is_some_and(|ratio| ratio < SAME && ratio > 1.0 / SAME);
        if !is_same {
            let change = Change::of("probe", what, both.values(), Verdict::Other);
            self.changes.push(Change {
                path: dir.clone(),
                unit,
                ratio,
                ..change
            });
        }
    }

    pub(super) fn walk(&mut self, both: Both<'_>) {
        if !self.has("walk", both) {
            return;
        }
        self.note(
            "walk",
            "the engine that is chosen",
            "",
            both.of("engine"),
            Verdict::Other,
        );
        let levels = both.of("bounded").of("levels");
        if levels.old != levels.new {
            let why = "the engines were compared on different parts of the tree".to_owned();
            return self.uncompared.push(Uncompared {
                section: "walk",
                why,
            });
        }
        let compare = both.of("compare");
        let key = |row: &Value| row["engine"].as_str().map(str::to_owned);
        let Paired {
            both: engines,
            gone,
            come,
        } = compare.of("engines").paired(key);
        for both in engines {
            let engine = printable(text(both.old, "engine").as_bytes()).into_owned();
            let Some((then, now)) = both.of("entries").numbers() else {
                continue;
            };
            let real = both.of("real");
            if let (Some(old), Some(new)) =
                (Spread::of(real.old, TRIALS), Spread::of(real.new, TRIALS))
            {
                self.timed(
                    "walk",
                    format!("an entry by {engine}"),
                    "s",
                    old.each(then),
                    new.each(now),
                );
            }
            if let Some((old, new)) = both.of("calls_per_entry").numbers() {
                let apart = if then == now { 1.0 } else { CALLS_APART };
                self.counted(
                    "walk",
                    format!("calls for an entry by {engine}"),
                    old,
                    new,
                    apart,
                );
            }
        }
        self.ran(compare, "walk", "engine", gone, come);
    }

    pub(super) fn dump(&mut self, both: Both<'_>) {
        if !self.has("dump", both) {
            return;
        }
        let gather = both.of("gather");
        self.note("dump", "how a dump gathers", "", gather, Verdict::Other);
        let (calls, entries) = (both.of("calls").numbers(), both.of("entries").numbers());
        if let (Some((old, new)), Some((then, now))) = (calls, entries)
            && gather.old == gather.new
        {
            let apart = if then == now { 1.0 } else { CALLS_APART };
            let (old, new) = (old / then.max(1.0), new / now.max(1.0));
            self.counted(
                "dump",
                "calls for an entry that is gathered".to_owned(),
                old,
                new,
                apart,
            );
        }
    }

    pub(super) fn prices(&mut self, both: Both<'_>) {
        if !self.has("gates", both) {
            return;
        }
        let key = |row: &Value| {
            let words =
                ["gate", "what", "state"].map(|field| row[field].as_str().map(str::to_owned));
            let [Some(gate), Some(what), Some(state)] = words else {
                return None;
            };
            Some((gate, what, state, row["threads"].as_u64()?))
        };
        for both in both.of("prices").paired(key).both {
            let of = |field: &str| printable(text(both.old, field).as_bytes()).into_owned();
            let threads = match both.old["threads"].as_u64() {
                Some(threads) if threads > 1 => format!(", on {threads} threads"),
                _ => String::new(),
            };
            let quartiles = ["ns", "low", "high"];
            if let (Some(old), Some(new)) = (
                Spread::of(both.old, quartiles),
                Spread::of(both.new, quartiles),
            ) {
                let what = format!("{} of {}, {}{threads}", of("gate"), of("what"), of("state"));
                self.timed("gates", what, "ns", old, new);
            }
        }
    }

    pub(super) fn startup(&mut self, both: Both<'_>) {
        if !self.has("startup", both) {
            return;
        }
        let Paired {
            both: elements,
            gone,
            come,
        } = both.of("path").paired(|row| name(row, "dir"));
        self.compared += (elements.len() + gone.len() + come.len()) as u64;
        let about = |row: &Value, what: &str, values, verdict| Change {
            path: name(row, "dir"),
            ..Change::of("startup", what, values, verdict)
        };
        for row in gone {
            self.changes.push(about(
                row,
                "element of PATH",
                [row["state"].clone(), Value::Null],
                Verdict::Other,
            ));
        }
        for row in come {
            self.changes.push(about(
                row,
                "element of PATH",
                [Value::Null, row["state"].clone()],
                Verdict::Other,
            ));
        }
        for both in &elements {
            let state = both.of("state");
            if state.old != state.new {
                let verdict = if state.new == "dead" {
                    Verdict::Worse
                } else {
                    Verdict::Other
                };
                self.changes
                    .push(about(both.new, "element of PATH", state.values(), verdict));
            }
            let fstype = both.of("fstype");
            if fstype.old != fstype.new && fstype.is_known() {
                self.changes.push(about(
                    both.new,
                    "its file system",
                    fstype.values(),
                    Verdict::Other,
                ));
            }
        }
        for both in both
            .of("started")
            .paired(|row| row["command"].as_str().map(str::to_owned))
            .both
        {
            let command = printable(text(both.old, "command").as_bytes()).into_owned();
            for (field, what) in [("misses", "misses"), ("lookups", "look-ups")] {
                if let Some((old, new)) = both.of("totals").of(field).numbers() {
                    self.counted("startup", format!("{what} of {command}"), old, new, 1.0);
                }
            }
        }
    }
}
