//! What differs between two saved surveys: the effect of an upgrade of the kernel or the storage.

use serde_json::Value;

use crate::saved::SavedSurvey;
use crate::section::Section;

pub mod change;
mod compare;
mod pair;

pub use change::{Change, Diff, Unit, Verdict, What, WhyUncompared};

use compare::{Spread, Subject, calls_apart, known};
use pair::{Pair, Paired, exact_name, member, numbers};

impl Diff {
    /// Compares an old survey with a new one.
    pub fn new(old: &SavedSurvey, new: &SavedSurvey) -> Diff {
        let mut diff = Diff::default();
        let surveys = [&old.0, &new.0];
        diff.section(Section::Machine, surveys, Diff::machine);
        let [old_root, new_root] = surveys.map(|survey| exact_name(survey, "root"));
        if old_root == new_root {
            diff.section(Section::Mounts, surveys, Diff::mounts);
            diff.section(Section::Probe, surveys, Diff::file_systems);
            diff.section(Section::Walk, surveys, Diff::walk);
            diff.section(Section::Dump, surveys, Diff::dump);
        } else {
            use Section::{Dump, Mounts, Probe, Walk};
            let why = WhyUncompared::DifferentDirectories;
            let sections = [Mounts, Probe, Walk, Dump];
            diff.uncompared
                .extend(sections.map(|section| (section, why.clone())));
            diff.fact(What::Directory, member(surveys, "root"));
        }
        diff.section(Section::Gates, surveys, Diff::prices);
        diff.section(Section::Startup, surveys, Diff::startup);
        diff.changes.sort_by_key(|change| change.verdict);
        diff.uncompared.dedup();
        diff
    }

    /// Compares a section, if both surveys have it.
    fn section(&mut self, section: Section, surveys: Pair<'_>, compare: fn(&mut Diff, Pair<'_>)) {
        let pair = member(surveys, section.name());
        if self.have(section, pair) {
            compare(self, pair);
        }
    }

    fn machine(&mut self, machines: Pair<'_>) {
        let facts = [
            (What::Host, "host"),
            (What::Kernel, "kernel"),
            (What::Arch, "arch"),
            (What::Cpus, "cpus"),
            (What::Memory, "memory"),
            (What::Root, "root"),
            (What::Deep, "deep"),
            (What::Version, "version"),
        ];
        for (what, key) in facts {
            let pair = member(machines, key);
            if known(pair).is_some() {
                self.fact(what, pair);
            }
        }
    }

    fn mounts(&mut self, sections: Pair<'_>) {
        let paired = Paired::new(member(sections, "mounts"), |mount| {
            exact_name(mount, "target")
        });
        self.compared += paired.len();
        let mut presence = |mount: &Value, is_removed| {
            let [source, fstype] = ["source", "fstype"].map(|key| mount[key].as_str());
            let (source, fstype) = (source.unwrap_or_default(), fstype.unwrap_or_default());
            let shown = Value::from(format!("{source} ({fstype})"));
            let (values, verdict) = match is_removed {
                true => ([shown, Value::Null], Verdict::Worse),
                false => ([Value::Null, shown], Verdict::Other),
            };
            let of = Subject::path(exact_name(mount, "target"));
            self.push(What::Mount, of, values, None, verdict);
        };
        paired
            .removed
            .iter()
            .for_each(|mount| presence(mount, true));
        paired.added.iter().for_each(|mount| presence(mount, false));
        for pair in paired.both {
            self.mount(pair);
        }
        self.methods(member(sections, "compare"));
    }

    /// A mount that both surveys have.
    fn mount(&mut self, mounts: Pair<'_>) {
        let [old, new] = mounts;
        let of = Subject::path(exact_name(new, "target"));
        let worse_if = |is_worse| match is_worse {
            true => Verdict::Worse,
            false => Verdict::Better,
        };
        let facts = [
            (What::Source, "source", Verdict::Other),
            (What::Fstype, "fstype", Verdict::Other),
            (What::Fsroot, "fsroot", Verdict::Other),
            (What::Kind, "kind", Verdict::Other),
            (What::Hidden, "hidden", worse_if(new["hidden"] == true)),
            (What::Responds, "verdict", worse_if(new["verdict"] != "ok")),
        ];
        for (what, key, verdict) in facts {
            let values = known(member(mounts, key)).filter(|[old, new]| old != new);
            if let Some(values) = values {
                self.push(what, of.clone(), values, None, verdict);
            }
        }
        let (Some(before), Some(after)) = (options(old), options(new)) else {
            return;
        };
        let without = |all: &[&str], others: &[&str]| {
            let lost = all.iter().filter(|option| !others.contains(option));
            lost.copied().collect::<Vec<_>>().join(",")
        };
        let values = [without(&before, &after), without(&after, &before)];
        if values.iter().any(|changed| !changed.is_empty()) {
            let is_read_only = after.contains(&"ro") && !before.contains(&"ro");
            let was_writable = before.contains(&"rw") && !after.contains(&"rw");
            let verdict = match is_read_only && was_writable {
                true => Verdict::Worse,
                false => Verdict::Other,
            };
            self.push(What::Options, of, values.map(Value::from), None, verdict);
        }
    }

    fn methods(&mut self, comparisons: Pair<'_>) {
        if !self.have(Section::Mounts, comparisons) {
            return;
        }
        let paired = Paired::new(member(comparisons, "methods"), |run| run["by"].as_str());
        for pair in &paired.both {
            let of = Subject::name(pair[0]["by"].as_str().unwrap_or_default());
            let times = pair.map(|run| Spread::read_trials(run, 1.0));
            self.time(What::MethodTime, of.clone(), times, false);
            // Where there are other mounts, there may be other directories to search.
            if let Some([then, now]) = numbers(*pair, "found")
                && let Some(calls) = numbers(*pair, "calls")
                && then == now
            {
                self.count(What::MethodCalls, of, calls, 1.01);
            }
        }
        self.only_one_ran(What::MethodRuns, "by", paired, comparisons);
    }

    /// Enters the methods or engines that only one of the surveys could run.
    fn only_one_ran(&mut self, what: What, key: &str, paired: Paired<'_>, [old, new]: Pair<'_>) {
        let why = |comparison: &Value, run: &Value| {
            let mut left_out = comparison["left_out"].as_array().into_iter().flatten();
            let left = left_out.find(|left| left[key] == run[key]);
            left.map_or(Value::Null, |left| compare::scalar(&left["why"]))
        };
        let compared = || Value::from("compared");
        let removed = paired.removed.into_iter();
        let removed = removed.map(|run| (run, [compared(), why(new, run)], Verdict::Worse));
        let added = paired.added.into_iter();
        let added = added.map(|run| (run, [why(old, run), compared()], Verdict::Better));
        for (run, values, verdict) in removed.chain(added) {
            self.compared += 1;
            let of = Subject::name(run[key].as_str().unwrap_or_default());
            self.push(what.clone(), of, values, None, verdict);
        }
    }

    fn file_systems(&mut self, lists: Pair<'_>) {
        let paired = Paired::new(lists, |system| exact_name(system, "dir"));
        for system in paired.removed {
            let dir = exact_name(system, "dir").unwrap_or_default();
            self.uncompared
                .push((Section::Probe, WhyUncompared::NoExperiments(dir)));
        }
        for pair in paired.both {
            let of = Subject::path(exact_name(pair[0], "dir"));
            let fstypes = member(pair, "fstype");
            self.property(What::FileSystemType, of.clone(), fstypes);
            let experiments = member(pair, "experiments");
            for pair in Paired::new(experiments, |found| found["name"].as_str()).both {
                self.experiment(&of, pair);
            }
        }
    }

    fn experiment(&mut self, of: &Subject, experiments: Pair<'_>) {
        // A result that rests on times, or on trials that did not agree, varies between runs.
        const SURE: f64 = 0.9;
        let is_sure = |found: &Value| {
            let confidence = found["confidence"].as_f64();
            found["by_time"] == false && confidence.is_some_and(|confidence| confidence >= SURE)
        };
        let [old, _] = experiments;
        let unit = match old["unit"].as_str() {
            Some("bytes") => Unit::Bytes,
            _ => Unit::None,
        };
        let of = Subject {
            name: old["name"].as_str().unwrap_or_default().to_owned(),
            ..of.clone()
        };
        if experiments.iter().all(|found| is_sure(found)) {
            let inferred = member(experiments, "inferred");
            self.property(What::Measured(unit), of.clone(), inferred);
        }
        let truths = member(experiments, "truth");
        self.property(What::StatedByKernel(unit), of, truths);
    }

    fn walk(&mut self, walks: Pair<'_>) {
        self.fact(What::ChosenEngine, member(walks, "engine"));
        let [old, new] = walks.map(|walk| &walk["bounded"]["levels"]);
        let comparisons = member(walks, "compare");
        if old != new {
            let why = WhyUncompared::DifferentLevels;
            self.uncompared.push((Section::Walk, why));
        } else if comparisons.iter().all(|comparison| comparison.is_object()) {
            self.engines(comparisons);
        }
    }

    fn engines(&mut self, comparisons: Pair<'_>) {
        let engines = member(comparisons, "engines");
        let paired = Paired::new(engines, |run| run["engine"].as_str());
        for pair in &paired.both {
            let Some([then, now]) = numbers(*pair, "entries") else {
                continue;
            };
            let of = Subject::name(pair[0]["engine"].as_str().unwrap_or_default());
            let [old, new] = pair;
            let times = [
                Spread::read_trials(old, then),
                Spread::read_trials(new, now),
            ];
            self.time(What::EngineTime, of.clone(), times, false);
            if let Some(calls) = numbers(*pair, "calls_per_entry") {
                self.count(What::EngineCalls, of, calls, calls_apart([then, now]));
            }
        }
        self.only_one_ran(What::EngineRuns, "engine", paired, comparisons);
    }

    fn dump(&mut self, dumps: Pair<'_>) {
        let gather = member(dumps, "gather");
        self.fact(What::DumpGather, gather);
        if let Some([before, after]) = numbers(dumps, "calls")
            && let Some([then, now]) = numbers(dumps, "entries")
            && gather[0] == gather[1]
        {
            let calls = [before / then.max(1.0), after / now.max(1.0)];
            let apart = calls_apart([then, now]);
            self.count(What::DumpCalls, Subject::default(), calls, apart);
        }
    }

    fn prices(&mut self, sections: Pair<'_>) {
        let key = |price: &Value| {
            let text = |key: &str| price[key].as_str().map(str::to_owned);
            let threads = price["threads"].as_u64()?;
            Some((text("gate")?, text("what")?, text("state")?, threads))
        };
        for pair in Paired::new(member(sections, "prices"), key).both {
            let prices = pair.map(|price| Spread::read(price, ["ns", "low", "high"], 1.0));
            let Some((gate, target, state, threads)) = key(pair[0]) else {
                continue;
            };
            let what = What::Price {
                target,
                state,
                threads,
            };
            // They wait for a device, which others use as well.
            let fluctuates = gate == "fsync" || pair[0]["state"] == "cold";
            self.time(what, Subject::name(&gate), prices, fluctuates);
        }
    }

    fn startup(&mut self, sections: Pair<'_>) {
        self.search_path(member(sections, "path"));
        let started = member(sections, "started");
        for pair in Paired::new(started, |one| one["command"].as_str()).both {
            let of = Subject::name(pair[0]["command"].as_str().unwrap_or_default());
            let totals = member(pair, "totals");
            for (what, key) in [(What::Misses, "misses"), (What::Lookups, "lookups")] {
                if let Some(counts) = numbers(totals, key) {
                    self.count(what, of.clone(), counts, 1.0);
                }
            }
        }
    }

    /// The directories of PATH.
    fn search_path(&mut self, paths: Pair<'_>) {
        let paired = Paired::new(paths, |element| exact_name(element, "dir"));
        self.compared += paired.len();
        let absent = Value::Null;
        let removed = paired.removed.iter().map(|element| [*element, &absent]);
        let added = paired.added.iter().map(|element| [&absent, *element]);
        let both = paired.both.iter().copied();
        for pair in removed.chain(added).chain(both) {
            let [old, new] = pair;
            let of = Subject::path(exact_name(old, "dir").or_else(|| exact_name(new, "dir")));
            let states = member(pair, "state").map(compare::scalar);
            let is_listed_in_one = old.is_null() || new.is_null();
            if is_listed_in_one || states[0] != states[1] {
                let verdict = match new["state"] == "dead" && !is_listed_in_one {
                    true => Verdict::Worse,
                    false => Verdict::Other,
                };
                self.push(What::PathElement, of.clone(), states, None, verdict);
            }
            let fstypes = known(member(pair, "fstype")).filter(|[old, new]| old != new);
            if let Some(fstypes) = fstypes {
                self.push(What::PathFileSystem, of, fstypes, None, Verdict::Other);
            }
        }
    }
}

fn options(mount: &Value) -> Option<Vec<&str>> {
    let options = mount["options"].as_array()?;
    options.iter().map(Value::as_str).collect()
}
