//! The page: what stands in each section. How it looks is in `templates/`; figures are formatted as in the text reports.

use std::collections::BTreeMap;

use askama::Template;
use ondisk::split_options;

use super::draw::{Bar, Dot, Dots, bars, dots, line};
use super::findings::{BLOCK, CACHE, Commands, EXTENT, Known, READAHEAD, best_price, median};
use super::odd::odd;
use super::{FileSystem, MountsPart, Part, Plot, Point, StepTaken, Survey};
use crate::compare::{Method, methods_table};
use crate::meter::Account;
use crate::mounts::{Row, all, by_name, cell, limbs, size, source, state};
use crate::name::printable;
use crate::nightly::Nightly;
use crate::pathsearch::time;
use crate::plot::Scale;
use crate::probe::{Price, Probe, plain, prices_table};
use crate::startup::Startup;
use crate::stats::Stats;
use crate::table::{Align, Table, Tone};
use crate::time::utc;
use crate::walk;

/// Rows of a table of names: beyond them is the command that shows all.
const MOST: usize = 200;
/// The same where each is a sentence.
const MOST_SAID: usize = 40;
/// Directories in which a program looks in vain.
const MOST_TRIED: usize = 20;

#[derive(Template)]
#[template(path = "survey.html")]
struct Page<'a> {
    title: String,
    head: Vec<String>,
    lists: [List<'a>; 2],
    sections: Vec<Section>,
    foot: String,
}

/// The findings, or the advice.
struct List<'a> {
    id: &'static str,
    link: &'static str,
    title: String,
    none: &'static str,
    points: Vec<Shown<'a>>,
}

/// A point, and the section that has more.
struct Shown<'a> {
    text: &'a str,
    figure: &'a str,
    command: &'a str,
    section: &'static str,
    more: &'static str,
}

struct Section {
    /// The name of the section in the JSON.
    id: &'static str,
    title: &'static str,
    lead: &'static str,
    blocks: Vec<Block>,
}

/// What stands in a section, one below the other.
enum Block {
    Text(String),
    Command(String),
    Heading(String),
    List(Vec<String>),
    Facts(Vec<(&'static str, String)>),
    Skipped(String, String),
    Table(String, String),
    Plot(String, String),
    Tree(Tree),
}

/// The mounts as a tree.
struct Tree {
    caption: String,
    heads: Vec<&'static str>,
    rows: Vec<Branch>,
}

struct Branch {
    limb: String,
    target: String,
    cells: Vec<String>,
    class: &'static str,
}

/// Plots have numbers, so that their titles can be referred to.
#[derive(Default)]
struct Plots(usize);

impl Plots {
    fn next(&mut self) -> usize {
        self.0 += 1;
        self.0
    }
}

/// A table that can be moved within itself.
fn table(caption: &str, table: &Table) -> Block {
    Block::Table(caption.to_owned(), table.to_html(caption))
}

fn texts(sentences: impl IntoIterator<Item = String>) -> impl Iterator<Item = Block> {
    sentences.into_iter().map(Block::Text)
}

pub(super) fn html(survey: &Survey<'_>) -> String {
    let commands = Commands::of(survey);
    let plots = &mut Plots::default();
    let sections = vec![
        section("mounts", &survey.mounts, |part| mounts(part, &commands, plots)),
        section("probe", &survey.file_systems, |all| file_systems(all, survey.about.memory, &commands, plots)),
        section("walk", &survey.walking, |walk| walking(walk, &commands, plots)),
        section("dump", &survey.dumping, |dump| dumping(dump, &commands)),
        section("account", &survey.calls, |account| calls(account, &commands)),
        section("startup", &survey.starting, |startup| starting(startup, &commands)),
        section("gates", &survey.gates, |gates| prices(gates, &commands, plots)),
        measured(survey, plots),
    ];
    let page = Page {
        title: title(survey),
        head: head(survey),
        lists: [
            list("findings", "Findings", "finding", "Nothing was gathered that would say anything.", &survey.findings),
            list("advice", "Advice", "piece of advice", "Nothing that was gathered calls for any.", &survey.advice),
        ],
        sections,
        foot: format!(
            "fathom {}, {} UTC. This page needs nothing beside itself: no network, no script.",
            survey.about.version,
            utc(survey.about.when)
        ),
    };
    // Into a string nothing can fail.
    let page = page.render().unwrap_or_default();
    // Names have come as they are printed. What else has been quoted from somewhere must not break the page either.
    page.replace(|c: char| c.is_control() && c != '\n', "\u{fffd}")
}

/// What the sections are called, and what they are about.
const TITLES: [(&str, &str, &str); 8] = [
    ("mounts", "Mounts", "What is mounted here, what is odd about it, and what each way to find that out costs."),
    ("probe", "File systems", "What each file system does, found by experiment, beside what the kernel says of it."),
    ("walk", "Walking", "What it costs to look at every name and its metadata, by each engine that works here."),
    (
        "dump",
        "Dumping",
        "What a dump every night would cost: the metadata was gathered as a dump does, no data was read.",
    ),
    (
        "account",
        "The account of a walk",
        "What a walk, one call after the other, asks of the kernel, and what would save calls.",
    ),
    (
        "startup",
        "Path search",
        "Where the shell, the dynamic linker and Python look for what a program needs, mostly in vain.",
    ),
    (
        "gates",
        "Gate prices",
        "What one call costs here, when its answer is in memory (warm) and when it is not (cold).",
    ),
    ("steps", "How it was measured", "On which machine, in which steps, and what was left out."),
];

fn named(id: &str) -> (&'static str, &'static str) {
    TITLES.iter().find(|(known, ..)| *known == id).map_or(("", ""), |(_, title, lead)| (*title, *lead))
}

fn section<T>(id: &'static str, part: &Part<T>, blocks: impl FnOnce(&T) -> Vec<Block>) -> Section {
    let (title, lead) = named(id);
    let blocks = match part {
        Part::Gathered(found) => blocks(found),
        Part::Not { why, how } => vec![Block::Skipped(why.clone(), how.clone())],
    };
    Section { id, title, lead, blocks }
}

fn list<'a>(id: &'static str, link: &'static str, what: &str, none: &'static str, points: &'a [Point]) -> List<'a> {
    let shown = |point: &'a Point| {
        let Point { text, figure, command, section } = point;
        Shown { text, figure, command, section, more: named(section).0 }
    };
    let title = match (points.len(), what) {
        (0, _) => link.to_owned(),
        (1, what) => format!("One {what}"),
        (n, what) => {
            let word = ["Two", "Three", "Four", "Five"].get(n - 2).map_or(n.to_string(), |word| (*word).to_owned());
            let what = if what == "finding" { "findings" } else { "pieces of advice" };
            format!("{word} {what}")
        }
    };
    List { id, link, title, none, points: points.iter().map(shown).collect() }
}

fn title(survey: &Survey<'_>) -> String {
    let host = survey.about.host.as_deref().map_or(String::new(), |host| format!(" on {}", printable(host)));
    format!("Survey of {}{host}", printable(survey.root))
}

fn head(survey: &Survey<'_>) -> Vec<String> {
    let about = &survey.about;
    let cpus = if about.cpus == 1 { "1 processor".to_owned() } else { format!("{} processors", about.cpus) };
    let memory = about.memory.map_or(String::new(), |bytes| format!(", {} of memory", size(bytes)));
    let mut head = vec![format!(
        "Linux {} ({}), {cpus}{memory}; {} UTC, in {:.1} s.",
        about.kernel,
        about.arch,
        utc(about.when),
        about.seconds
    )];
    if !about.root {
        head.push("Not as root: what that leaves out is said where it is missing.".to_owned());
    }
    if let Some(ended) = &survey.ended {
        head.push(format!("It was ended early ({ended}): here is what had been done by then."));
    }
    head
}

fn mounts(part: &MountsPart<'_>, commands: &Commands, plots: &mut Plots) -> Vec<Block> {
    let rows = part.mounts.mounts;
    let odd = odd(rows);
    let by = part.methods.iter().find(|method| method.by == part.mounts.by);
    let mut facts = vec![
        ("Mounts", rows.len().to_string()),
        ("Of them odd", odd.len().to_string()),
        ("Found by", part.mounts.by.to_owned()),
    ];
    if let Some((by, ms)) = by.and_then(|by| Some((by, median(&by.runs, |t| t.real)?))) {
        facts.push(("That takes", format!("{ms:.2} ms, {} calls", by.calls())));
    }
    let mut blocks = vec![Block::Facts(facts), Block::Command(commands.mounts.clone())];
    let complete = if part.mounts.complete { "" } else { " Something may be missing: see the warnings." };
    blocks.push(Block::Text(format!(
        "Found by {}: {}.{complete}",
        part.mounts.by,
        printable(part.mounts.why.as_bytes())
    )));
    blocks.extend(texts(types(all(rows))));
    blocks.push(Block::Heading("What is odd".to_owned()));
    if odd.is_empty() {
        blocks
            .push(Block::Text("Nothing: a path reaches each mount, and none is on a file or there twice.".to_owned()));
    } else {
        let mut told = Table::new(&[("TARGET", Align::Left), ("WHY IT IS ODD", Align::Left)], odd.len().min(MOST_SAID));
        for odd in odd.iter().take(MOST_SAID) {
            told.row([printable(odd.target).as_ref(), &odd.why], Tone::Plain);
        }
        blocks.push(table("Mounts that are odd, the worst first", &told));
        blocks.extend(texts(more(odd.len(), MOST_SAID, "odd ones", &commands.mounts)));
    }
    if let Some(boundaries) = part.mounts.boundaries.filter(|boundaries| !boundaries.is_empty()) {
        let columns = [("PATH", Align::Left), ("KIND", Align::Left), ("DEV", Align::Left)];
        let mut told = Table::new(&columns, boundaries.len().min(MOST_SAID));
        for boundary in boundaries.iter().take(MOST_SAID) {
            told.row([printable(&boundary.path).as_ref(), boundary.kind, &boundary.dev.to_string()], Tone::Plain);
        }
        blocks.push(table("Where the file system changes and no mount table says so", &told));
        blocks.extend(texts(more(boundaries.len(), MOST_SAID, "boundaries", &commands.boundaries)));
    }
    if !rows.is_empty() {
        blocks.push(Block::Heading("The tree".to_owned()));
        blocks.push(Block::Tree(tree(part)));
    }
    blocks.extend(texts(more(rows.len(), MOST, "mounts", &commands.mounts)));
    if !part.methods.is_empty() {
        blocks.push(Block::Heading("What each method costs here".to_owned()));
        blocks.push(Block::Command(commands.compare.clone()));
        let rows: Vec<Dots> = part.methods.iter().filter_map(method_dots).collect();
        let title = "What each method of finding the mounts takes";
        blocks.extend(plot(
            dots(plots.next(), title, &rows),
            "Elapsed time on a scale of powers of ten: a dot at the median of the runs, a line from the shortest to the \
             longest.",
        ));
        blocks.push(table("Methods of finding the mounts: medians", &methods_table(part.methods)));
    }
    blocks.extend(texts(part.left_out.iter().map(|left| format!("{} left out: {}.", left.by, left.why))));
    blocks
}

/// A plot, unless there was nothing to draw.
fn plot(svg: String, caption: &str) -> Option<Block> {
    (!svg.is_empty()).then(|| Block::Plot(svg, caption.to_owned()))
}

fn more(all: usize, shown: usize, what: &str, command: &str) -> Option<String> {
    let left = all.saturating_sub(shown);
    (left > 0).then(|| format!("And {left} more {what}: {command} shows all of them."))
}

/// How many there are of each type of file system, most first.
fn types<'a>(rows: impl Iterator<Item = Row<'a>>) -> Option<String> {
    const TYPES: usize = 12;
    let mut counts: BTreeMap<&[u8], usize> = BTreeMap::new();
    rows.filter_map(|row| row.fstype).for_each(|fstype| *counts.entry(fstype).or_default() += 1);
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let said: Vec<String> = counts.iter().take(TYPES).map(|(of, n)| format!("{n} {}", printable(of))).collect();
    let left = counts.len().saturating_sub(TYPES);
    let rest = if left > 0 { format!(", and {left} types more") } else { String::new() };
    (!counts.is_empty()).then(|| format!("By type: {}{rest}.", said.join(", ")))
}

fn tree(part: &MountsPart<'_>) -> Tree {
    let rows = part.mounts.mounts;
    let order = by_name(rows);
    let limbs = limbs(rows, &order);
    let [mut with_verdict, mut with_beneath, mut with_state, mut with_server] = [false; 4];
    for row in all(rows) {
        with_verdict |= row.verdict.is_some();
        with_beneath |= row.beneath.is_some();
        with_server |= row.server.is_some();
        with_state |= row.hidden || row.kind == Some("file");
    }
    type Cell = fn(&Row<'_>) -> String;
    let columns: [(bool, &'static str, Cell); 7] = [
        (true, "SOURCE", |row| source(row).into_owned()),
        (true, "FSTYPE", |row| cell(row.fstype).into_owned()),
        (true, "ACCESS", access),
        (with_state, "STATE", |row| state(row).into_owned()),
        (with_verdict, "ANSWERS", |row| row.verdict.unwrap_or("-").to_owned()),
        (with_server, "SERVER", |row| cell(row.server.map(str::as_bytes)).into_owned()),
        (with_beneath, "BENEATH", |row| {
            row.beneath.map_or("-".to_owned(), |b| format!("{} files, {}", b.files, size(b.bytes)))
        }),
    ];
    let shown = || columns.iter().filter(|(shown, ..)| *shown);
    let branch = |&at: &usize| {
        let row = rows.row(at);
        let bad = row.verdict.is_some_and(|verdict| verdict != "ok" && verdict != "hidden");
        Branch {
            limb: limbs.get(at).cloned().unwrap_or_default(),
            target: printable(row.target).into_owned(),
            cells: shown().map(|(_, _, cell)| cell(&row)).collect(),
            class: if bad {
                "bad"
            } else if row.hidden {
                "dim"
            } else {
                ""
            },
        }
    };
    Tree {
        caption: "The mounts, in the order of their names".to_owned(),
        heads: std::iter::once("TARGET").chain(shown().map(|(_, head, _)| *head)).collect(),
        rows: order.iter().take(MOST).map(branch).collect(),
    }
}

fn access(row: &Row<'_>) -> String {
    let Some(options) = row.options else { return "-".to_owned() };
    (if split_options(options).any(|option| option == b"ro") { "ro" } else { "rw" }).to_owned()
}

fn method_dots(method: &Method) -> Option<Dots> {
    let stats = Stats::of(method.runs.iter().map(|t| t.real))?;
    let text = format!("{:.2} ms, {} calls", 1000.0 * stats.median, method.calls());
    Some(Dots {
        label: method.by.to_owned(),
        said: text.clone(),
        text,
        dots: vec![Dot { seconds: stats.median, range: (stats.min, stats.max), filled: true }],
    })
}

/// What stands in the overview of file systems.
const OVERVIEW: [(&str, &[&str]); 4] =
    [("BLOCK", BLOCK), ("READAHEAD", READAHEAD), ("CACHE", CACHE), ("LARGEST EXTENT", EXTENT)];

fn file_systems(all: &[FileSystem<'_>], memory: Option<u64>, commands: &Commands, plots: &mut Plots) -> Vec<Block> {
    let columns = [("DIRECTORY", Align::Left), ("FSTYPE", Align::Left)];
    let columns: Vec<_> = columns.into_iter().chain(OVERVIEW.map(|(head, _)| (head, Align::Right))).collect();
    let mut overview = Table::new(&columns, all.len());
    for FileSystem { probe, .. } in all {
        let dir = probe.dir.map_or("-".into(), printable).into_owned();
        let of = OVERVIEW.map(|(_, names)| Known::of(probe, names).to_string());
        overview.row([dir, cell(probe.fstype).into_owned()].into_iter().chain(of), Tone::Plain);
    }
    let mut blocks = vec![table("What each file system is", &overview)];
    if all.iter().any(|one| Known::of(&one.probe, CACHE) == Known::NotAsked) {
        let most = memory.map_or(String::new(), |memory| format!(" It is at most the memory, {}.", size(memory)));
        blocks.push(Block::Text(format!(
            "CACHE is how much of a file system stays in memory. To find out takes memory, and is done when it is asked for: {}.{most}",
            commands.cache
        )));
    }
    for (nth, FileSystem { probe, plots: drawn }) in all.iter().enumerate() {
        let dir = probe.dir.map_or("-".into(), printable);
        blocks.push(Block::Heading(format!("{dir} ({})", cell(probe.fstype))));
        blocks.push(Block::Command(commands.probe(probe.dir.unwrap_or(b"/"), &asked(probe))));
        blocks.push(table(&format!("What the experiments on {dir} have found"), &probe.table(true)));
        blocks.extend(texts(probe.notes(false).into_iter().map(|note| note + ".")));
        // What is fetched ahead says most; of the other plots those of one file system will do.
        let (first, rest): (Vec<_>, Vec<_>) = drawn.iter().partition(|plotted| plotted.experiment == "readahead");
        let rest = rest.into_iter().filter(|_| nth == 0);
        blocks.extend(first.into_iter().chain(rest).filter_map(|plotted| experiment(plotted, plots)));
    }
    blocks
}

/// The plot of an experiment.
fn experiment(plotted: &Plot, plots: &mut Plots) -> Option<Block> {
    let figure = &plotted.figure;
    let log = if Scale::of(&figure.points).log { ", on a scale of powers of ten" } else { "" };
    let caption = format!(
        "{} ({}): {} upwards{log}; what stands out has a ring. {}.",
        figure.title, plotted.experiment, figure.y, figure.note
    );
    plot(line(plots.next(), figure), &caption)
}

/// The experiments that were made.
fn asked(probe: &Probe<'_>) -> String {
    let mut names: Vec<&str> = probe.experiments.iter().map(|found| found.experiment).collect();
    names.dedup();
    names.join(" ")
}

fn walking(walk: &walk::Section<'_>, commands: &Commands, plots: &mut Plots) -> Vec<Block> {
    let real = |engine: &walk::Engine| median(&engine.runs, |t| t.real);
    let find = |name: &str| walk.compare.engines.iter().find(|engine| engine.engine == name);
    let chosen = find(walk.part.engine);
    let mut facts = vec![("Engine", walk.part.engine.to_owned())];
    if let Some((engine, ms)) = chosen.and_then(|engine| Some((engine, real(engine)?))) {
        facts.insert(0, ("Entries", engine.entries.to_string()));
        facts.push(("A walk takes", format!("{ms:.2} ms, {} calls", engine.calls())));
    }
    if let Some(ms) = find("stat").and_then(real) {
        facts.push(("One call after the other", format!("{ms:.2} ms")));
    }
    let mut blocks = vec![Block::Facts(facts), Block::Command(commands.walk.clone())];
    blocks.push(Block::Text(format!("By {}: {}.", walk.part.engine, printable(walk.part.why.as_bytes()))));
    let bar = |engine: &walk::Engine| {
        let ms = real(engine)?;
        Some(Bar { label: engine.engine.to_owned(), value: ms, text: format!("{ms:.2} ms, {} calls", engine.calls()) })
    };
    let rows: Vec<Bar> = walk.compare.engines.iter().filter_map(bar).collect();
    if !rows.is_empty() {
        let svg = bars(plots.next(), "What each engine takes to walk here", &rows);
        blocks.extend(plot(svg, "Elapsed time, medians: a bar of twice the length has taken twice as long."));
        blocks.push(table(
            "The engines: medians of the runs; x STAT is the share of what one call after the other takes",
            &walk.compare.table(),
        ));
    }
    blocks.push(Block::List(walk.compare.notes()));
    let columns = [("ENGINE", Align::Left), ("POSSIBLE", Align::Left), ("WHY", Align::Left)];
    let mut possible = Table::new(&columns, walk.explain.len());
    for row in walk.explain {
        let word = if row.possible { "yes" } else { "no" };
        possible.row([row.engine, word, &printable(row.why.as_bytes())], Tone::Plain);
    }
    if !walk.explain.is_empty() {
        blocks.push(table("Which engines can work here, and why others cannot", &possible));
    }
    blocks
}

fn dumping(dump: &Nightly, commands: &Commands) -> Vec<Block> {
    let facts = vec![
        ("Entries", dump.entries.to_string()),
        ("Everything", size(dump.first.bytes)),
        ("Calls when nothing has changed", dump.unchanged.calls.to_string()),
        ("CPU time then", format!("{:.2} ms", 1000.0 * dump.unchanged.cpu_seconds)),
    ];
    let mut blocks = vec![Block::Facts(facts), Block::Command(commands.dump.clone())];
    blocks.extend(texts(dump.head()));
    blocks.push(table("What a dump would cost", &dump.table()));
    blocks.push(Block::Text(dump.foot()));
    blocks
}

fn calls(account: &Account<'_>, commands: &Commands) -> Vec<Block> {
    let mut blocks = vec![Block::Command(commands.account.clone())];
    blocks.extend(texts(account.sentences()));
    blocks.push(table("The calls of a walk, by gate", &account.gates_table()));
    if let Some(patterns) = account.patterns_table() {
        blocks.push(Block::Heading("Redundant patterns".to_owned()));
        blocks.push(table("Redundant patterns among them", &patterns));
    }
    if let Some(what_if) = account.what_if_table() {
        blocks.push(Block::Heading("What if".to_owned()));
        blocks.push(Block::Text(account.model.sentence()));
        blocks.push(table("What changes would save", &what_if));
        blocks.push(Block::List(account.changes().into_iter().map(|change| change.said()).collect()));
    }
    blocks
}

fn starting(startup: &Startup<'_>, commands: &Commands) -> Vec<Block> {
    let count = |state: &str| startup.path.iter().filter(|element| element.state == state).count();
    let mut facts = vec![
        ("Directories in PATH", startup.path.len().to_string()),
        ("Of them not there", count("dead").to_string()),
        ("In it twice", count("again").to_string()),
    ];
    for one in &startup.started {
        let totals = one.totals;
        facts.push((
            one.command,
            format!("{} of {} look-ups miss, {}", totals.misses, totals.lookups, time(totals.seconds)),
        ));
    }
    let mut blocks = vec![Block::Facts(facts), Block::Command(commands.pathsearch.clone())];
    if !startup.path.is_empty() {
        let by = startup
            .started
            .first()
            .map_or(String::new(), |one| format!("; hits and misses are those of {}", one.command));
        blocks.push(table(&format!("The directories of PATH{by}"), &startup.path_table()));
    }
    if !startup.started.is_empty() {
        blocks.push(table("What starting programs takes", &startup.started_table()));
        blocks.push(Block::Text(startup.foot()));
    }
    for one in &startup.started {
        let mut searched: Vec<_> = one.directories.iter().filter(|row| row.misses > 0).collect();
        searched.sort_by_key(|row| std::cmp::Reverse(row.misses));
        if !searched.is_empty() {
            let columns = [
                ("DIRECTORY", Align::Left),
                ("KIND", Align::Left),
                ("MISSES", Align::Right),
                ("HITS", Align::Right),
                ("TIME", Align::Right),
            ];
            let mut told = Table::new(&columns, searched.len().min(MOST_TRIED));
            for row in searched.iter().take(MOST_TRIED) {
                let kinds: Vec<&str> = row.kinds.iter().map(|count| count.kind).collect();
                let cells = [
                    printable(&row.dir).into_owned(),
                    kinds.join(", "),
                    row.misses.to_string(),
                    row.hits.to_string(),
                    time(row.seconds),
                ];
                told.row(cells, Tone::Plain);
            }
            let command = commands.pathsearch.replace("env true", one.command).replace("pathsearch", "pathsearch -v");
            blocks.push(Block::Heading(format!("Where {} looks in vain", one.command)));
            blocks.push(table(&format!("Directories in which {} misses something", one.command), &told));
            blocks.extend(texts(more(searched.len(), MOST_TRIED, "directories", &command)));
        }
        if !one.fixes.is_empty() {
            blocks.push(Block::Heading(format!("What would help {}", one.command)));
            blocks.push(Block::List(one.fixes.iter().map(|fix| fix.sentence(startup.rtt)).collect()));
        }
    }
    blocks
}

fn prices(gates: &Probe<'_>, commands: &Commands, plots: &mut Plots) -> Vec<Block> {
    let mut blocks = vec![Block::Command(commands.gates.clone())];
    let all = gates.prices.as_deref().unwrap_or_default();
    let facts: Vec<(&'static str, String)> =
        [("An empty call", "getppid", "warm"), ("statx, warm", "statx", "warm"), ("statx, cold", "statx", "cold")]
            .into_iter()
            .filter_map(|(name, gate, state)| Some((name, format!("{} ns", plain(best_price(all, gate, state)?.ns)))))
            .collect();
    if !facts.is_empty() {
        blocks.insert(0, Block::Facts(facts));
    }
    let svg = dots(plots.next(), "What each call costs, on one thread", &price_dots(all));
    blocks.extend(plot(
        svg,
        "On a scale of powers of ten: a dot, and the first figure, where the answer is in memory (warm); a ring, and the \
         second one, where it is not (cold). Half of the batches are within the line.",
    ));
    if !all.is_empty() {
        blocks.push(table("What each call costs", &prices_table(all)));
    }
    if !gates.experiments.is_empty() {
        blocks.push(table("What every call costs at least", &gates.table(true)));
        blocks.extend(texts(gates.notes(false).into_iter().map(|note| note + ".")));
    }
    blocks
}

/// A row for each call on one thread, warm and cold together.
fn price_dots(prices: &[Price]) -> Vec<Dots> {
    let mut rows: Vec<((&str, &str), Dots)> = Vec::new();
    for price in prices.iter().filter(|price| price.threads == 1) {
        let key = (price.gate, price.what);
        let seconds = |ns: f64| ns / 1e9;
        let dot = Dot {
            seconds: seconds(price.ns),
            range: (seconds(price.low), seconds(price.high)),
            filled: price.state == "warm",
        };
        let said = format!("{} {} ns", price.state, plain(price.ns));
        match rows.iter_mut().find(|(known, _)| *known == key) {
            Some((_, row)) => {
                row.said = format!("{}, {said}", row.said);
                row.text = format!("{} / {} ns", row.text.trim_end_matches(" ns"), plain(price.ns));
                row.dots.push(dot);
            }
            None => {
                let text = format!("{}{} ns", if dot.filled { "" } else { "- / " }, plain(price.ns));
                rows.push((
                    key,
                    Dots { label: format!("{}: {}", price.gate, price.what), text, said, dots: vec![dot] },
                ));
            }
        }
    }
    rows.into_iter().map(|(_, row)| row).collect()
}

fn measured(survey: &Survey<'_>, plots: &mut Plots) -> Section {
    let about = &survey.about;
    let (title, lead) = named("steps");
    let facts = vec![
        ("Kernel", format!("Linux {} ({})", about.kernel, about.arch)),
        ("Processors", about.cpus.to_string()),
        ("Memory", about.memory.map_or("not known".to_owned(), size)),
        ("As root", (if about.root { "yes" } else { "no" }).to_owned()),
        ("Took", format!("{:.1} s", about.seconds)),
        ("Read", size(about.bytes_read)),
        ("Written, and taken away again", size(about.bytes_written)),
    ];
    let mut blocks = vec![Block::Facts(facts)];
    let deep = if about.deep { "It was asked to go deep." } else { "fathom survey --deep goes on for longer." };
    blocks.push(Block::Text(format!(
        "Files were only read, but for those without a name that the experiments made and took away. It was given \
         {:.0} s and {}. {deep}",
        about.limit_seconds,
        size(about.limit_bytes)
    )));
    if !survey.steps.is_empty() {
        let rows: Vec<Bar> = by_section(&survey.steps);
        if rows.len() > 1 {
            let svg = bars(plots.next(), "Where the time of this survey went", &rows);
            blocks.extend(plot(svg, "Seconds that each section took."));
        }
        blocks.push(table("The steps, in order", &steps_table(&survey.steps)));
        blocks.extend(texts(more(survey.steps.len(), MOST, "steps", "fathom survey --json")));
    }
    let skipped = survey.skipped();
    if !skipped.is_empty() {
        let left = |(id, skipped): &(&'static str, super::Skipped<'_>)| {
            format!("{}: {}. {} gives it.", named(id).0, skipped.why, skipped.how)
        };
        blocks.push(Block::Heading("What was left out".to_owned()));
        blocks.push(Block::List(skipped.iter().map(left).collect()));
    }
    if !about.lacking.is_empty() {
        blocks.push(Block::Heading("What more privilege would have shown".to_owned()));
        blocks.push(Block::List(about.lacking.iter().map(|what| format!("{what}.")).collect()));
    }
    if !survey.warnings.is_empty() {
        let said = survey.warnings.iter().take(MOST_SAID).map(|warning| {
            let path = warning.path.as_deref().map_or(String::new(), |path| format!("{}: ", printable(path)));
            format!("{path}{}", warning.message)
        });
        blocks.push(Block::Heading("Warnings".to_owned()));
        blocks.push(Block::List(said.collect()));
        blocks.extend(texts(more(survey.warnings.len(), MOST_SAID, "warnings", "fathom survey --json")));
    }
    Section { id: "steps", title, lead, blocks }
}

/// The seconds of each section, in the order in which they began.
fn by_section(steps: &[StepTaken]) -> Vec<Bar> {
    let mut rows: Vec<Bar> = Vec::new();
    for step in steps {
        let label = named(step.section).0;
        match rows.iter_mut().find(|row| row.label == label) {
            Some(row) => row.value += step.seconds,
            None => rows.push(Bar { label: label.to_owned(), value: step.seconds, text: String::new() }),
        }
    }
    rows.iter_mut().for_each(|row| row.text = format!("{:.2} s", row.value));
    rows
}

fn steps_table(steps: &[StepTaken]) -> Table {
    use Align::{Left, Right};
    let columns =
        [("STEP", Left), ("FOR", Left), ("STATE", Left), ("SECONDS", Right), ("READ", Right), ("WRITTEN", Right)];
    let mut table = Table::new(&columns, steps.len().min(MOST));
    for step in steps.iter().take(MOST) {
        let cells = [
            printable(step.name.as_bytes()).into_owned(),
            named(step.section).0.to_owned(),
            step.state.to_owned(),
            format!("{:.2}", step.seconds),
            size(step.bytes_read),
            size(step.bytes_written),
        ];
        table.row(cells, if step.state == "done" { Tone::Plain } else { Tone::Dim });
    }
    table
}
