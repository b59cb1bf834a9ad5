//! The difference of two surveys as text and as JSON.

use std::borrow::Cow;

use serde_json::Value;
use show::json_object;
use show::name::printable;
use show::table::{Align, Table, TableStyle, Tone};
use show::units::{duration, size};
use survey::Section;
use survey::diff::{Change, Diff, Unit, Verdict, What, WhyUncompared};

fn what(change: &Change) -> String {
    let name = printable(change.name.as_bytes());
    let text = match &change.what {
        What::Directory => "the directory surveyed",
        What::Host => "the machine's name",
        What::Kernel => "kernel",
        What::Arch => "architecture",
        What::Cpus => "processors",
        What::Memory => "memory",
        What::Root => "surveyed by root",
        What::Deep => "surveyed with --deep",
        What::Version => "version of fathom",
        What::Mount => "the mount",
        What::Source => "source",
        What::Fstype => "fstype",
        What::Fsroot => "fsroot",
        What::Kind => "kind",
        What::Hidden => "hidden",
        What::Responds => "whether it answers",
        What::Options => "options",
        What::MethodTime => return format!("time to find the mounts by {name}"),
        What::MethodCalls => return format!("calls to find the mounts by {name}"),
        What::MethodRuns | What::EngineRuns => return format!("{name} is available"),
        What::FileSystemType => "type",
        What::Measured(_) => return name.into_owned(),
        What::StatedByKernel(_) => return format!("{name}, as reported by the kernel"),
        What::ChosenEngine => "the engine of --engine auto",
        What::EngineTime => return format!("time per entry, engine {name}"),
        What::EngineCalls => return format!("calls per entry, engine {name}"),
        What::DumpGather => "method to read the metadata of a dump",
        What::DumpCalls => "calls per entry of a dump",
        What::Price {
            target,
            state,
            threads,
        } => {
            let threads = match threads {
                0 | 1 => String::new(),
                threads => format!(", on {threads} threads"),
            };
            let [target, state] = [target, state].map(|word| printable(word.as_bytes()));
            return format!("{name} ({target}), {state}{threads}");
        }
        What::PathElement => "element of PATH",
        What::PathFileSystem => "its file system",
        What::Misses => return format!("failed lookups of {name}"),
        What::Lookups => return format!("lookups of {name}"),
    };
    text.to_owned()
}

fn why(why: &WhyUncompared) -> Cow<'static, str> {
    match why {
        WhyUncompared::DifferentDirectories => "the surveys are of different directories".into(),
        WhyUncompared::InNeither => "missing in both surveys".into(),
        WhyUncompared::NotInOld => "missing in the old survey".into(),
        WhyUncompared::NotInNew => "missing in the new survey".into(),
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
    match &change.path {
        Some(path) => format!("{}: {}", printable(path), what(change)),
        None => what(change),
    }
}

fn shown(value: &Value, unit: Unit) -> String {
    let number = match value {
        Value::Null => return "-".to_owned(),
        Value::Number(number) => number,
        Value::String(text) => return printable(text.as_bytes()).into_owned(),
        value => return value.to_string(),
    };
    let figure = number.as_f64().unwrap_or_default();
    match unit {
        Unit::Seconds => duration(figure),
        Unit::Nanoseconds => duration(figure / 1e9),
        Unit::Bytes => number.as_u64().map_or_else(|| number.to_string(), size),
        Unit::Calls if figure.fract() == 0.0 => format!("{figure:.0}"),
        Unit::Calls => format!("{figure:.3}"),
        Unit::None => number.to_string(),
    }
}

/// A change in a line, for a warning.
pub(in crate::cmd::survey) fn line(change: &Change) -> String {
    let ratio = change.ratio.map_or(String::new(), |ratio| {
        format!(" ({ratio:.2} times the old value)")
    });
    let unit = change.what.unit();
    format!(
        "{}: {}: was {}, is {}{ratio}",
        change.what.section().name(),
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
        (Verdict::Other, "Changed", Tone::Plain),
        (Verdict::Noise, "Within the noise of the trials", Tone::Dim),
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
        1 => "; 1 more differs within the noise of its trials".to_owned(),
        n => format!("; {n} more differ within the noise of their trials"),
    };
    text.push_str(&style.wrapped(&format!(
        "{changed} of {} compared values changed{noise}.",
        diff.compared
    )));
    for (section, reason) in &diff.uncompared {
        let line = format!("Not compared: {}: {}.", section.name(), why(reason));
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
        let unit = change.what.unit();
        let [old, new] = [&change.old, &change.new].map(|value| shown(value, unit));
        let ratio = change
            .ratio
            .map_or(String::new(), |ratio| format!("{ratio:.2}"));
        let section = change.what.section().name();
        table.row([section, &old, &new, &ratio, &subject(change)], tone);
    }
    table
}

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
    "section": this.0.what.section().name(),
    name "path": this.0.path.as_deref(),
    "what": what(this.0),
    "old": this.0.old,
    "new": this.0.new,
    "unit": this.0.what.unit().symbol(),
    "ratio": this.0.ratio,
    "verdict": this.0.verdict.name(),
});

struct JsonUncompared<'a>(&'a (Section, WhyUncompared));

json_object!(JsonUncompared<'_>, |this| {
    "section": this.0.0.name(),
    "why": why(&this.0.1),
});
