//! The difference of two surveys as text and as JSON.

use std::borrow::Cow;

use serde_json::{Value, json};
use show::json_object;
use show::name::printable;
use show::table::{Align, Table, TableStyle, Tone};
use show::units::{duration, size};
use survey::diff::{
    Change, Diff, Fact, MachineFact, MountFact, Subject, Uncompared, Unit, Verdict, WhyUncompared,
};

/// What has changed, without the path that it is about.
fn what(subject: &Subject) -> Cow<'static, str> {
    let quoted = |name: &str| printable(name.as_bytes()).into_owned();
    let text = match subject {
        Subject::Machine(fact) => return machine(*fact).into(),
        Subject::Mount { fact, .. } => return mount(*fact).into(),
        Subject::FileSystemType(_) => return "type".into(),
        Subject::ChosenEngine => return "the engine that is chosen".into(),
        Subject::DumpGather => return "how a dump gathers".into(),
        Subject::DumpCalls => return "calls for an entry that is gathered".into(),
        Subject::PathElement(_) => return "element of PATH".into(),
        Subject::PathFileSystem(_) => return "its file system".into(),
        Subject::MethodTime(by) => format!("finding them by {}", quoted(by)),
        Subject::MethodCalls(by) => format!("calls to find them by {}", quoted(by)),
        Subject::MethodRuns(name) | Subject::EngineRuns(name) => {
            format!("whether {} can be compared", quoted(name))
        }
        Subject::Experiment {
            name,
            stated_by_kernel,
            ..
        } if *stated_by_kernel => format!("{}, as the kernel says", quoted(name)),
        Subject::Experiment { name, .. } => quoted(name),
        Subject::EngineTime(engine) => format!("an entry by {}", quoted(engine)),
        Subject::EngineCalls(engine) => format!("calls for an entry by {}", quoted(engine)),
        Subject::Price {
            gate,
            what,
            state,
            threads,
        } => {
            let threads = match threads {
                0 | 1 => String::new(),
                threads => format!(", on {threads} threads"),
            };
            let [gate, what, state] = [gate, what, state].map(|word| quoted(word));
            format!("{gate} of {what}, {state}{threads}")
        }
        Subject::Misses(command) => format!("misses of {}", quoted(command)),
        Subject::Lookups(command) => format!("look-ups of {}", quoted(command)),
    };
    text.into()
}

fn machine(fact: MachineFact) -> &'static str {
    match fact {
        MachineFact::Directory => "the directory surveyed",
        MachineFact::Host => "the machine's name",
        MachineFact::Kernel => "kernel",
        MachineFact::Arch => "architecture",
        MachineFact::Cpus => "processors",
        MachineFact::Memory => "memory",
        MachineFact::Root => "surveyed by root",
        MachineFact::Deep => "surveyed with --deep",
        MachineFact::Version => "version of fathom",
    }
}

fn mount(fact: MountFact) -> &'static str {
    match fact {
        MountFact::Presence => "the mount",
        MountFact::Source => "source",
        MountFact::Fstype => "fstype",
        MountFact::Fsroot => "fsroot",
        MountFact::Kind => "kind",
        MountFact::Hidden => "hidden",
        MountFact::Verdict => "whether it answers",
        MountFact::Options => "options",
    }
}

fn why(uncompared: &Uncompared) -> Cow<'static, str> {
    match &uncompared.why {
        WhyUncompared::DifferentDirectories => "the surveys are of different directories".into(),
        WhyUncompared::InNeither => "neither survey has it".into(),
        WhyUncompared::NotInOld => "the old survey has it not".into(),
        WhyUncompared::NotInNew => "the new survey has it not".into(),
        WhyUncompared::NoExperiments(dir) => {
            format!("the new survey has no experiments in '{}'", printable(dir)).into()
        }
        WhyUncompared::DifferentLevels => {
            "the engines were compared on different parts of the tree".into()
        }
    }
}

/// What has changed, with the path that it is about.
pub(super) fn subject(change: &Change) -> String {
    let what = what(&change.subject);
    match change.subject.path() {
        Some(path) => format!("{}: {what}", printable(path)),
        None => what.into_owned(),
    }
}

/// A value as JSON.
fn value(fact: &Option<Fact>) -> Value {
    match fact {
        None => Value::Null,
        Some(Fact::Text(text)) => json!(text),
        Some(Fact::Number(number)) => json!(number),
        Some(Fact::Flag(flag)) => json!(flag),
        Some(Fact::Mount { source, fstype }) => json!(format!("{source} ({fstype})")),
        Some(Fact::Options(options)) => json!(options.join(",")),
        Some(Fact::Compared) => json!("compared"),
    }
}

/// A value for people.
fn shown(fact: &Option<Fact>, unit: Unit) -> String {
    let number = match fact {
        None => return "-".to_owned(),
        Some(Fact::Number(number)) => number,
        _ => {
            let value = value(fact);
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            return printable(text.as_bytes()).into_owned();
        }
    };
    let figure = number.as_f64().unwrap_or_default();
    match unit {
        Unit::Seconds => duration(figure),
        Unit::Nanoseconds => format!("{figure:.0} ns"),
        Unit::Bytes => number.as_u64().map_or_else(|| number.to_string(), size),
        Unit::Calls if figure.fract() == 0.0 => format!("{figure:.0}"),
        Unit::Calls => format!("{figure:.3}"),
        Unit::None => number.to_string(),
    }
}

/// A change in a line, for a warning.
pub(in crate::cmd::survey) fn line(change: &Change) -> String {
    let ratio = change.ratio.map_or(String::new(), |ratio| {
        format!(" ({ratio:.2} times as much)")
    });
    let unit = change.subject.unit();
    format!(
        "{}: {}: was {}, is {}{ratio}",
        change.subject.section().name(),
        subject(change),
        shown(&change.old, unit),
        shown(&change.new, unit)
    )
}

/// The difference for people; with `all`, also what is within the noise.
pub(super) fn text(diff: &Diff, style: TableStyle, all: bool) -> String {
    let kinds = [
        (Verdict::Worse, "Worse", Tone::Bad),
        (Verdict::Better, "Better", Tone::Plain),
        (Verdict::Other, "Otherwise than it was", Tone::Plain),
        (Verdict::Noise, "Within the noise of its trials", Tone::Dim),
    ];
    let mut text = String::new();
    for (verdict, head, tone) in kinds {
        let changes: Vec<&Change> = diff.with(verdict).collect();
        if changes.is_empty() || verdict == Verdict::Noise && !all {
            continue;
        }
        text.push_str(&style.heading(head));
        text.push_str(&table(&changes, tone).to_text(style.width, style.color));
        text.push('\n');
    }
    let noise = diff.with(Verdict::Noise).count();
    let changed = diff.changes.len() - noise;
    let noise = match noise {
        0 => String::new(),
        1 => "; one differs by no more than its trials do".to_owned(),
        n => format!("; {n} differ by no more than their trials do"),
    };
    text.push_str(&style.wrapped(&format!(
        "Of {} figures and facts {changed} have changed{noise}.",
        diff.compared
    )));
    for one in &diff.uncompared {
        let line = format!("Not compared: {}: {}.", one.section.name(), why(one));
        text.push_str(&style.wrapped(&line));
    }
    text
}

fn table(changes: &[&Change], tone: Tone) -> Table {
    use Align::{Left, Right};
    let columns = [
        ("SECTION", Left),
        ("OLD", Right),
        ("NEW", Right),
        ("RATIO", Right),
        ("WHAT", Left),
    ];
    let mut table = Table::new(&columns, changes.len());
    for change in changes {
        let unit = change.subject.unit();
        let [old, new] = [&change.old, &change.new].map(|fact| shown(fact, unit));
        let ratio = change
            .ratio
            .map_or(String::new(), |ratio| format!("{ratio:.2}"));
        let section = change.subject.section().name();
        table.row([section, &old, &new, &ratio, &subject(change)], tone);
    }
    table
}

/// The difference as `result` of the JSON.
pub(super) struct JsonDiff<'a>(pub(super) &'a Diff);

json_object!(JsonDiff<'_>, |this| {
    "worse": this.0.with(Verdict::Worse).count(),
    "better": this.0.with(Verdict::Better).count(),
    "other": this.0.with(Verdict::Other).count(),
    "noise": this.0.with(Verdict::Noise).count(),
    "compared": this.0.compared,
    "changes": this.0.changes.iter().map(JsonChange).collect::<Vec<_>>(),
    "uncompared": this.0.uncompared.iter().map(JsonUncompared).collect::<Vec<_>>(),
});

struct JsonChange<'a>(&'a Change);

json_object!(JsonChange<'_>, |this| {
    "section": this.0.subject.section().name(),
    name "path": this.0.subject.path(),
    "what": what(&this.0.subject),
    "old": value(&this.0.old),
    "new": value(&this.0.new),
    "unit": this.0.subject.unit().symbol(),
    "ratio": this.0.ratio,
    "verdict": this.0.verdict.name(),
});

struct JsonUncompared<'a>(&'a Uncompared);

json_object!(JsonUncompared<'_>, |this| {
    "section": this.0.section.name(),
    "why": why(this.0),
});
