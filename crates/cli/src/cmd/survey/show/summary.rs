//! The summary of a survey: at most 30 lines of at most 100 columns.

use base::path::below;
use mounts::check::Verdict;
use mounts::is_pseudo;
use show::columns;
use show::name::printable;
use show::table::{RowColour, Table, TableStyle, cut};
use show::units::{duration, plural, size};
use survey::capacity::{FileSystem, FsState};
use survey::cost::{Activity, ActivityCost, CostAmount, CostReduction};

use super::points::{Point, short_change};
use crate::cmd::survey::command::Commands;
use crate::out::json_warnings;
use survey::{Statement, Survey, activity_costs};
use walk::compare::Agreement;

const LINES: usize = 30;
pub(crate) const COLUMNS: usize = 100;
/// Maximum number of file systems, warnings and pieces of advice in the summary.
const SHOWN: usize = 8;
const WARNINGS: usize = 3;
const ADVICE: usize = 3;

pub(crate) fn text(survey: &Survey<'_>, style: TableStyle, page: Option<&[u8]>) -> String {
    let width = style.width.map_or(COLUMNS, |width| width.min(COLUMNS));
    let style = TableStyle {
        width: Some(width),
        ..style
    };
    let mut costs = format!("\n{}", costs(survey, style));
    let (systems, pseudo) = survey.file_systems();
    let (warnings, count) = warnings(survey, &systems);
    if !warnings.is_empty() {
        costs += "\n";
        warnings
            .iter()
            .for_each(|line| costs += &format!("{}\n", cut(line, width)));
    }
    let last = format!("\n{}", last(page, count));
    let above = format!("{}\n\n", cut(&title(survey), width));
    // File systems in a bad state take precedence over advice, and the file system of the surveyed
    // directory is always shown.
    let bad = systems.iter().filter(|one| one.state.is_bad()).count();
    let advised = Point::advice(survey);
    let with_pieces = |pieces| {
        let below = costs.clone() + &advice(&advised, pieces, width) + &last;
        // Three more lines: the heading, the number of omitted rows, and the pseudo file systems.
        let others = above.lines().count() + below.lines().count() + 3;
        (below, LINES.saturating_sub(others).clamp(1, SHOWN))
    };
    let mut pieces = (1..=ADVICE).rev().map(with_pieces);
    let fits = |(_, rows): &(String, usize)| *rows > bad.min(SHOWN - 1);
    let (below, rows) = pieces.find(fits).unwrap_or_else(|| with_pieces(1));
    above + &file_systems(survey, (systems, pseudo), rows, style) + &below
}

fn title(survey: &Survey<'_>) -> String {
    let machine = survey.machine;
    let host = machine.host.as_deref();
    let host = host.map_or(String::new(), |host| format!(" on {}", printable(host)));
    let memory = machine.memory.map(size);
    let memory = memory.map_or(String::new(), |memory| format!(", {memory} RAM"));
    let early = match survey.is_interrupted {
        true => " (interrupted)",
        false => "",
    };
    format!(
        "Survey of {}{host}{early}: Linux {}, {}{memory}",
        printable(survey.root),
        machine.kernel,
        plural(machine.cpus as u64, "CPU", "CPUs"),
    )
}

pub(crate) fn file_system_table<'a>(systems: impl IntoIterator<Item = &'a FileSystem>) -> Table {
    let columns = columns![
        <"FILE SYSTEM", <"STATE", >"SIZE", >"USED", >"USED %", >"INODES %", <"TYPE"
    ];
    let mut table = Table::new(&columns, 0);
    for one in systems {
        let percent = |value: Option<u64>| value.map_or("-".to_owned(), |it| it.to_string());
        let capacity = one.capacity;
        let bytes = |value: Option<u64>| value.map_or("-".to_owned(), size);
        let cells = [
            printable(&one.target).into_owned(),
            one.state.name().to_owned(),
            bytes(capacity.map(|capacity| capacity.size)),
            bytes(capacity.map(|capacity| capacity.used)),
            percent(capacity.and_then(|capacity| capacity.df_percent())),
            percent(capacity.and_then(|capacity| capacity.inodes_df_percent())),
            printable(&one.fstype).into_owned(),
        ];
        let tone = if one.state.is_bad() {
            RowColour::Bad
        } else {
            RowColour::Plain
        };
        table.row(cells, tone);
    }
    table
}

fn file_systems(
    survey: &Survey<'_>,
    (mut systems, pseudo): (Vec<FileSystem>, usize),
    rows: usize,
    style: TableStyle,
) -> String {
    let Some(mounted) = &survey.found.mounts else {
        return "The mounts are unknown; --full prints the reason.\n".to_owned();
    };
    let rows = systems.len().min(rows);
    // The file system of the surveyed directory is shown even if others are in a worse state.
    let holds = |one: &&FileSystem| below(&one.target, survey.root).is_some();
    let own = systems
        .iter()
        .filter(holds)
        .max_by_key(|one| one.target.len());
    let own = own.and_then(|own| systems.iter().position(|one| std::ptr::eq(one, own)));
    if let Some(own) = own.filter(|own| (1..=*own).contains(&rows)) {
        systems[rows - 1..=own].rotate_right(1);
    }
    let (shown, others) = systems.split_at(rows);
    let mut text = match shown {
        [] => "No file system that stores files is mounted here.\n".to_owned(),
        shown => file_system_table(shown).to_text(style.width, style.color),
    };
    if !others.is_empty() {
        let count = |is: fn(FsState) -> bool| others.iter().filter(|one| is(one.state)).count();
        let (ok, bad) = (count(FsState::is_ok), count(FsState::is_bad));
        let states = [
            (ok, "ok"),
            (bad, "not ok"),
            (others.len() - ok - bad, "not checked"),
        ];
        let states = states.into_iter().filter(|(n, _)| *n > 0);
        let states: Vec<String> = states.map(|(n, state)| format!("{n} {state}")).collect();
        let states = match ok == others.len() {
            true => "all ok".to_owned(),
            false => states.join(", "),
        };
        text += &format!("{} more, {states} (--full)\n", others.len());
    }
    if pseudo > 0 {
        let points = mounted.report.points.iter();
        let bad = points.filter(|point| {
            is_pseudo(point) && matches!(point.verdict, Some(Verdict::Hung | Verdict::Stale))
        });
        let state = match bad.count() {
            0 => "all ok".to_owned(),
            bad => format!("{bad} not ok"),
        };
        let pseudo = plural(pseudo as u64, "pseudo file system", "pseudo file systems");
        text += &format!("{pseudo}: {state}\n");
    }
    text
}

fn costs(survey: &Survey<'_>, style: TableStyle) -> String {
    let columns = columns![<"COST", <"NOW", <"POSSIBLE", <"HOW"];
    let commands = Commands::from_survey(survey);
    let row = |cost: &ActivityCost<'_>| {
        [
            activity(cost),
            cost.now.map_or("cannot tell".to_owned(), amount),
            cost.possible.map_or("-".to_owned(), amount),
            means(cost, &commands),
        ]
    };
    let rows = activity_costs(survey);
    let table = Table::from_rows(&columns, rows.iter().map(row));
    table.to_text(style.width, style.color) + &scope(survey, style)
}

/// A sentence with the file systems of the costs: the walk excludes file systems mounted below the
/// directory, as with -x, and the price of a call is that of one file system.
fn scope(survey: &Survey<'_>, style: TableStyle) -> String {
    let (systems, _) = survey.file_systems();
    let below =
        |one: &&FileSystem| one.target != survey.root && below(survey.root, &one.target).is_some();
    let walked = match systems.iter().filter(below).count() as u64 {
        0 => None,
        count => Some(format!(
            "scan and nightly backup are of the file system of {}, without the {} below it",
            printable(survey.root),
            plural(count, "file system", "file systems")
        )),
    };
    let priced = survey.found.gates.as_ref();
    let priced = priced.filter(|gates| walked.is_some() || gates.dir != survey.root);
    let priced = priced.map(|gates| {
        let fstype = gates.report.fstype.as_deref();
        let fstype = fstype.map_or(String::new(), |fstype| format!(" ({})", printable(fstype)));
        format!(
            "stat and fsync were measured in {}{fstype}",
            printable(&gates.dir)
        )
    });
    let parts: Vec<String> = walked.into_iter().chain(priced).collect();
    match parts.is_empty() {
        true => String::new(),
        false => style.wrapped(&format!("{}.", parts.join("; "))),
    }
}

/// The name of an activity; for a program start, with the program: `program start (python3)`.
fn activity(cost: &ActivityCost<'_>) -> String {
    let name = cost.activity.name();
    let program = cost.command.and_then(|command| command.split(' ').next());
    program.map_or(name.to_owned(), |program| format!("{name} ({program})"))
}

fn amount(amount: CostAmount) -> String {
    match amount {
        CostAmount::Seconds(seconds) => duration(seconds),
        CostAmount::EstimatedSeconds(seconds) => format!("estimated {}", duration(seconds)),
        CostAmount::Bytes(bytes) => size(bytes),
        CostAmount::EstimatedBytes(bytes) => format!("estimated {}", size(bytes)),
        CostAmount::AtMostBytes(bytes) => format!("up to {}", size(bytes)),
    }
}

/// The change that lowers the cost of an activity to the possible cost; or, if the possible cost is
/// unknown, the command that measures that cost.
pub(crate) fn means(cost: &ActivityCost<'_>, commands: &Commands) -> String {
    let text = match (cost.by, cost.activity) {
        (CostReduction::Fastest, _) => "nothing measured here costs less",
        (CostReduction::Engine(engine), _) => return format!("fathom walk, engine {engine}"),
        (CostReduction::Increments, _) => "fathom dump --since, 1 % of files changed",
        (CostReduction::Change(change), _) => return short_change(change),
        (CostReduction::NoChange, _) => "no change saves 10 ms and 5 %",
        (CostReduction::Cached, _) => "keep names and inodes in memory",
        (CostReduction::Batches, _) => "write more before each fsync",
        (CostReduction::Deep, Activity::Stat) => "cached; --deep measures it uncached, too",
        (CostReduction::Deep, _) => "--deep walks further",
        (CostReduction::Measure(section), _) => return commands.gather(section),
    };
    text.to_owned()
}

/// Warnings that fit in the summary and are not shown by the table of file systems, the most severe
/// first; and the number of all warnings.
fn warnings(survey: &Survey<'_>, systems: &[FileSystem]) -> (Vec<String>, usize) {
    let is_wrong = |statement: &Statement<'_>| {
        matches!(
            statement,
            Statement::EnginesDiffer(Agreement::Disagree) | Statement::KernelDisagrees { .. }
        )
    };
    let findings = survey.findings.iter().zip(Point::findings(survey));
    let wrong = findings.filter(|(conclusion, _)| is_wrong(&conclusion.statement));
    let wrong: Vec<String> = wrong.map(|(_, point)| point.text).collect();
    let is_in_table = |path: &[u8]| {
        let mut bad = systems.iter().filter(|one| one.state.is_bad());
        bad.any(|one| one.target == path)
    };
    let others = json_warnings(survey.warnings);
    let others = others
        .iter()
        .filter(|warning| !warning.path.as_deref().is_some_and(is_in_table));
    let others = others.map(|warning| {
        let path = warning.path.as_deref().map(printable);
        let path = path.map_or(String::new(), |path| format!("'{path}': "));
        let errno = warning.errno.as_deref();
        let errno = errno.map_or(String::new(), |errno| format!(" ({errno})"));
        format!("{path}{}{errno}", printable(warning.message.as_bytes()))
    });
    let count = survey.warnings.len() + wrong.len();
    let all: Vec<String> = wrong.into_iter().chain(others).collect();
    let shown = match all.len() {
        0..=WARNINGS => all.len(),
        _ => WARNINGS - 1,
    };
    let mut lines: Vec<String> = all[..shown]
        .iter()
        .map(|text| format!("warning: {text}"))
        .collect();
    if all.len() > shown {
        lines.push(format!("and {} more warnings (--full)", all.len() - shown));
    }
    (lines, count)
}

fn advice(advised: &[Point], pieces: usize, width: usize) -> String {
    let mut text = String::new();
    for (n, point) in (1..).zip(advised.iter().take(pieces)) {
        text += if n == 1 { "\n" } else { "" };
        let line = format!("{n}. {}", point.with_figure());
        text += &two_lines(&line, width);
        text += &format!("   {}\n", point.command);
    }
    text
}

/// Wraps a text to at most two lines, the second one indented.
fn two_lines(text: &str, width: usize) -> String {
    const INDENT: usize = 3;
    if cut(text, width) == text {
        return format!("{text}\n");
    }
    let style = TableStyle {
        width: Some(width.saturating_sub(INDENT)),
        ..TableStyle::default()
    };
    let wrapped = style.wrapped(text);
    let (first, rest) = wrapped
        .trim_end()
        .split_once('\n')
        .unwrap_or((wrapped.trim_end(), ""));
    let mut lines = format!("{}\n", cut(first, width));
    if !rest.is_empty() {
        let rest = rest.replace('\n', " ");
        let second = cut(&rest, width.saturating_sub(INDENT));
        lines += &format!("{:INDENT$}{second}\n", "");
    }
    lines
}

fn last(page: Option<&[u8]>, warnings: usize) -> String {
    let page = page.map(|page| format!("Page: {}", printable(page)));
    let warnings = (warnings > 0).then(|| plural(warnings as u64, "warning", "warnings"));
    let full = Some("--full prints everything".to_owned());
    let parts: Vec<String> = [page, warnings, full].into_iter().flatten().collect();
    parts.join("; ") + "\n"
}

/// The last line of the full text, which names the file of the page.
pub(crate) fn page_line(page: Option<&[u8]>) -> String {
    page.map_or(String::new(), |page| format!("Page: {}\n", printable(page)))
}
