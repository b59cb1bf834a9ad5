//! What is compared in each section.

use super::change::{Fact, MachineFact, MountFact, Subject, Unit, Values, Verdict, WhyUncompared};
use super::compare::{Comparison, Spread};
use super::pair::Paired;
use crate::saved::{
    Dump, EngineComparison, Experiment, FileSystem, Gates, LeftOut, Machine, MethodComparison,
    Mount, Mounts, PathElement, Price, Startup, Walk,
};
use crate::section::Section;

/// By this factor calls per entry must differ where the tree has another number of entries.
const CALLS_APART: f64 = 1.01;

/// By which factor calls per entry must differ.
fn calls_apart(old_entries: f64, new_entries: f64) -> f64 {
    if old_entries == new_entries {
        1.0
    } else {
        CALLS_APART
    }
}

impl Comparison {
    pub(super) fn machine(&mut self, old: &Option<Machine>, new: &Option<Machine>) {
        use MachineFact::*;
        let Some((old, new)) = self.both(Section::Machine, old, new) else {
            return;
        };
        let facts = [
            (Host, Values::of_text(&old.host, &new.host)),
            (Kernel, Values::of_text(&old.kernel, &new.kernel)),
            (Arch, Values::of_text(&old.arch, &new.arch)),
            (Cpus, Values::of_number(&old.cpus, &new.cpus)),
            (Memory, Values::of_number(&old.memory, &new.memory)),
            (Root, Values::of_flag(*old.root, *new.root)),
            (Deep, Values::of_flag(*old.deep, *new.deep)),
            (Version, Values::of_text(&old.version, &new.version)),
        ];
        for (fact, values) in facts {
            if values.are_known() {
                self.fact(Subject::Machine(fact), values);
            }
        }
    }

    pub(super) fn mounts(&mut self, old: &Option<Mounts>, new: &Option<Mounts>) {
        let Some((old, new)) = self.both(Section::Mounts, old, new) else {
            return;
        };
        let paired = Paired::new(&old.mounts, &new.mounts, Mount::target);
        self.compared += (paired.both.len() + paired.removed.len() + paired.added.len()) as u64;
        let presence = |mount: &Mount| Subject::Mount {
            target: mount.target(),
            fact: MountFact::Presence,
        };
        let shown = |mount: &Mount| Fact::Mount {
            source: mount.source.clone().unwrap_or_default(),
            fstype: mount.fstype.clone().unwrap_or_default(),
        };
        for mount in paired.removed {
            let values = Values {
                old: Some(shown(mount)),
                new: None,
            };
            self.push(presence(mount), values, Verdict::Worse);
        }
        for mount in paired.added {
            let values = Values {
                old: None,
                new: Some(shown(mount)),
            };
            self.push(presence(mount), values, Verdict::Other);
        }
        for (old, new) in paired.both {
            self.mount(old, new);
        }
        self.methods(&old.compare, &new.compare);
    }

    /// A mount that both surveys have.
    fn mount(&mut self, old: &Mount, new: &Mount) {
        use MountFact::{Fsroot, Fstype, Hidden, Kind, Source};
        let texts = [
            (Source, Values::of_text(&old.source, &new.source)),
            (Fstype, Values::of_text(&old.fstype, &new.fstype)),
            (Fsroot, Values::of_text(&old.fsroot, &new.fsroot)),
            (Kind, Values::of_text(&old.kind, &new.kind)),
        ];
        let mut facts: Vec<_> = texts
            .map(|(fact, values)| (fact, values, Verdict::Other))
            .into();
        let worse_if = |is_worse| {
            if is_worse {
                Verdict::Worse
            } else {
                Verdict::Better
            }
        };
        let hidden = Values::of_flag(*old.hidden, *new.hidden);
        facts.push((Hidden, hidden, worse_if(*new.hidden == Some(true))));
        let verdict = Values::of_text(&old.verdict, &new.verdict);
        let is_ok = new.verdict.as_deref() == Some("ok");
        facts.push((MountFact::Verdict, verdict, worse_if(!is_ok)));
        for (fact, values, verdict) in facts {
            if values.are_known() && values.old != values.new {
                let target = new.target();
                self.push(Subject::Mount { target, fact }, values, verdict);
            }
        }
        self.mount_options(old, new);
    }

    fn mount_options(&mut self, old: &Mount, new: &Mount) {
        let (Some(before), Some(after)) = (&*old.options, &*new.options) else {
            return;
        };
        let without = |all: &[String], others: &[String]| -> Vec<String> {
            let lost = all.iter().filter(|option| !others.contains(option));
            lost.cloned().collect()
        };
        let (removed, added) = (without(before, after), without(after, before));
        if removed.is_empty() && added.is_empty() {
            return;
        }
        let has = |options: &[String], wanted: &str| options.iter().any(|option| option == wanted);
        let verdict = if has(&added, "ro") && has(&removed, "rw") {
            Verdict::Worse
        } else {
            Verdict::Other
        };
        let subject = Subject::Mount {
            target: new.target(),
            fact: MountFact::Options,
        };
        let values = Values {
            old: Some(Fact::Options(removed)),
            new: Some(Fact::Options(added)),
        };
        self.push(subject, values, verdict);
    }

    fn methods(&mut self, old: &Option<MethodComparison>, new: &Option<MethodComparison>) {
        let Some((old, new)) = self.both(Section::Mounts, old, new) else {
            return;
        };
        let paired = Paired::new(&old.methods, &new.methods, |method| method.by.clone());
        for (before, after) in paired.both {
            let by = before.by.clone().unwrap_or_default();
            let times = [before, after].map(|method| Spread::from_trials(&method.real));
            if let [Some(old), Some(new)] = times {
                self.time(Subject::MethodTime(by.clone()), old, new);
            }
            // Where there are other mounts, there may be other directories to search.
            if let (Some(old), Some(new)) = (*before.calls, *after.calls)
                && before.found.is_some()
                && before.found == after.found
            {
                self.count(Subject::MethodCalls(by), old, new, CALLS_APART);
            }
        }
        let name = |by: &Option<String>| by.clone().unwrap_or_default();
        for method in paired.removed {
            let by = name(&method.by);
            let why = why_left_out(&new.left_out, &by);
            self.stopped_running(Subject::MethodRuns(by), why);
        }
        for method in paired.added {
            let by = name(&method.by);
            let why = why_left_out(&old.left_out, &by);
            self.started_running(Subject::MethodRuns(by), why);
        }
    }

    /// A method or an engine could be run then, and cannot now.
    fn stopped_running(&mut self, subject: Subject, why: Option<Fact>) {
        self.compared += 1;
        let values = Values {
            old: Some(Fact::Compared),
            new: why,
        };
        self.push(subject, values, Verdict::Worse);
    }

    /// A method or an engine can be run now, and could not then.
    fn started_running(&mut self, subject: Subject, why: Option<Fact>) {
        self.compared += 1;
        let values = Values {
            old: why,
            new: Some(Fact::Compared),
        };
        self.push(subject, values, Verdict::Better);
    }

    pub(super) fn file_systems(&mut self, old: &[FileSystem], new: &[FileSystem]) {
        if !self.have(Section::Probe, !old.is_empty(), !new.is_empty()) {
            return;
        }
        let paired = Paired::new(old, new, FileSystem::dir);
        for system in paired.removed {
            let dir = system.dir().unwrap_or_default();
            self.cannot(Section::Probe, WhyUncompared::NoExperiments(dir));
        }
        for (old, new) in paired.both {
            let dir = old.dir();
            let types = Values::of_text(&old.fstype, &new.fstype);
            self.property(Subject::FileSystemType(dir.clone()), types);
            let key = |experiment: &Experiment| experiment.name.clone();
            for (old, new) in Paired::new(&old.experiments, &new.experiments, key).both {
                self.experiment(&dir, old, new);
            }
        }
    }

    fn experiment(&mut self, dir: &Option<Vec<u8>>, old: &Experiment, new: &Experiment) {
        // A result that rests on times, or on trials that did not agree, varies between runs.
        const SURE: f64 = 0.9;
        let is_sure = |experiment: &Experiment| {
            *experiment.by_time == Some(false)
                && experiment.confidence.is_some_and(|sure| sure >= SURE)
        };
        let unit = match old.unit.as_deref() {
            Some("bytes") => Unit::Bytes,
            _ => Unit::None,
        };
        let subject = |stated_by_kernel| Subject::Experiment {
            dir: dir.clone(),
            name: old.name.clone().unwrap_or_default(),
            stated_by_kernel,
            unit,
        };
        if is_sure(old) && is_sure(new) {
            let inferred = Values {
                old: old.inferred.as_ref().map(Fact::from),
                new: new.inferred.as_ref().map(Fact::from),
            };
            self.property(subject(false), inferred);
        }
        let truth = Values {
            old: old.truth.as_ref().map(Fact::from),
            new: new.truth.as_ref().map(Fact::from),
        };
        self.property(subject(true), truth);
    }

    pub(super) fn walk(&mut self, old: &Option<Walk>, new: &Option<Walk>) {
        let Some((old, new)) = self.both(Section::Walk, old, new) else {
            return;
        };
        let engines = Values::of_text(&old.engine, &new.engine);
        self.fact(Subject::ChosenEngine, engines);
        let levels = |walk: &Walk| walk.bounded.as_ref().and_then(|bounded| *bounded.levels);
        if levels(old) != levels(new) {
            return self.cannot(Section::Walk, WhyUncompared::DifferentLevels);
        }
        if let (Some(old), Some(new)) = (&*old.compare, &*new.compare) {
            self.engines(old, new);
        }
    }

    fn engines(&mut self, old: &EngineComparison, new: &EngineComparison) {
        let paired = Paired::new(&old.engines, &new.engines, |run| run.engine.clone());
        for (before, after) in paired.both {
            let (Some(then), Some(now)) = (*before.entries, *after.entries) else {
                continue;
            };
            let engine = before.engine.clone().unwrap_or_default();
            let times = [before, after].map(|run| Spread::from_trials(&run.real));
            if let [Some(old), Some(new)] = times {
                let (old, new) = (old.per_entry(then), new.per_entry(now));
                self.time(Subject::EngineTime(engine.clone()), old, new);
            }
            if let (Some(old), Some(new)) = (*before.calls_per_entry, *after.calls_per_entry) {
                self.count(
                    Subject::EngineCalls(engine),
                    old,
                    new,
                    calls_apart(then, now),
                );
            }
        }
        let name = |engine: &Option<String>| engine.clone().unwrap_or_default();
        for run in paired.removed {
            let engine = name(&run.engine);
            let why = why_left_out(&new.left_out, &engine);
            self.stopped_running(Subject::EngineRuns(engine), why);
        }
        for run in paired.added {
            let engine = name(&run.engine);
            let why = why_left_out(&old.left_out, &engine);
            self.started_running(Subject::EngineRuns(engine), why);
        }
    }

    pub(super) fn dump(&mut self, old: &Option<Dump>, new: &Option<Dump>) {
        let Some((old, new)) = self.both(Section::Dump, old, new) else {
            return;
        };
        let gather = Values::of_text(&old.gather, &new.gather);
        let is_same = gather.old == gather.new;
        self.fact(Subject::DumpGather, gather);
        if let (Some(before), Some(after)) = (*old.calls, *new.calls)
            && let (Some(then), Some(now)) = (*old.entries, *new.entries)
            && is_same
        {
            let (before, after) = (before / then.max(1.0), after / now.max(1.0));
            self.count(Subject::DumpCalls, before, after, calls_apart(then, now));
        }
    }

    pub(super) fn prices(&mut self, old: &Option<Gates>, new: &Option<Gates>) {
        let Some((old, new)) = self.both(Section::Gates, old, new) else {
            return;
        };
        let key = |price: &Price| {
            let Price {
                gate, what, state, ..
            } = price;
            Some((gate.clone(), what.clone(), state.clone(), price.threads))
        };
        for (before, after) in Paired::new(&old.prices, &new.prices, key).both {
            if let [Some(old), Some(new)] = [before, after].map(Spread::from_price) {
                let subject = Subject::Price {
                    gate: before.gate.clone(),
                    what: before.what.clone(),
                    state: before.state.clone(),
                    threads: before.threads,
                };
                self.time(subject, old, new);
            }
        }
    }

    pub(super) fn startup(&mut self, old: &Option<Startup>, new: &Option<Startup>) {
        let Some((old, new)) = self.both(Section::Startup, old, new) else {
            return;
        };
        self.search_path(&old.path, &new.path);
        let paired = Paired::new(&old.started, &new.started, |one| one.command.clone());
        for (old, new) in paired.both {
            let command = old.command.clone().unwrap_or_default();
            let (Some(before), Some(after)) = (&*old.totals, &*new.totals) else {
                continue;
            };
            if let (Some(old), Some(new)) = (*before.misses, *after.misses) {
                self.count(Subject::Misses(command.clone()), old, new, 1.0);
            }
            if let (Some(old), Some(new)) = (*before.lookups, *after.lookups) {
                self.count(Subject::Lookups(command), old, new, 1.0);
            }
        }
    }

    /// The directories of PATH.
    fn search_path(&mut self, old: &[PathElement], new: &[PathElement]) {
        let paired = Paired::new(old, new, PathElement::dir);
        self.compared += (paired.both.len() + paired.removed.len() + paired.added.len()) as u64;
        for element in paired.removed {
            let values = Values::of_text(&element.state, &None);
            self.push(Subject::PathElement(element.dir()), values, Verdict::Other);
        }
        for element in paired.added {
            let values = Values::of_text(&None, &element.state);
            self.push(Subject::PathElement(element.dir()), values, Verdict::Other);
        }
        for (old, new) in paired.both {
            let states = Values::of_text(&old.state, &new.state);
            if states.old != states.new {
                let verdict = match new.state.as_deref() {
                    Some("dead") => Verdict::Worse,
                    _ => Verdict::Other,
                };
                self.push(Subject::PathElement(new.dir()), states, verdict);
            }
            let types = Values::of_text(&old.fstype, &new.fstype);
            if types.are_known() && types.old != types.new {
                self.push(Subject::PathFileSystem(new.dir()), types, Verdict::Other);
            }
        }
    }
}

/// The reason that a survey gives for not running a method or an engine.
fn why_left_out(left_out: &[LeftOut], name: &str) -> Option<Fact> {
    let left = left_out
        .iter()
        .find(|left| left.by.as_deref() == Some(name))?;
    left.why.as_deref().map(Fact::from)
}
