//! The page: what stands in each section. How it looks is in `templates/`; figures are formatted as
//! in the text reports.
//!
//! Here is what holds the sections together; what is in them is in `mounts`, `systems`, `walking`,
//! `starting` and `steps`, as the steps are that gather it (`cmd/survey` of the program).

use askama::Template;

use self::mounts::mounts;
use self::starting::starting;
use self::steps::measured;
use self::systems::{file_systems, prices};
use self::walking::{calls, dumping, walking};
use super::commands::Commands;
use super::survey::{Part, Point, Survey};
use show::html::shell;
use show::name::printable;
use show::table::Table;
use show::time::utc;
use show::units::{plural, size};

mod mounts;
mod starting;
mod steps;
mod systems;
mod walking;

/// Rows of a table of names: beyond them is the command that shows all.
const MOST: usize = 200;
/// The same where each is a sentence.
const MOST_SAID: usize = 40;

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

pub(crate) fn html(survey: &Survey<'_>) -> String {
    let commands = Commands::of_survey(survey);
    let plots = &mut Plots::default();
    let sections = vec![
        section("mounts", &survey.mounts, |part| {
            mounts(part, &commands, plots)
        }),
        section("probe", &survey.file_systems, |all| {
            file_systems(all, survey.about.memory, &commands, plots)
        }),
        section("walk", &survey.walking, |walk| {
            walking(walk, &commands, plots)
        }),
        section("dump", &survey.dumping, |dump| dumping(dump, &commands)),
        section("account", &survey.calls, |account| {
            calls(account, &commands)
        }),
        section("startup", &survey.starting, |startup| {
            starting(startup, &commands)
        }),
        section("gates", &survey.gates, |gates| {
            prices(gates, &commands, plots)
        }),
        measured(survey, plots),
    ];
    let page = Page {
        title: title(survey),
        head: head(survey),
        lists: [
            list(
                "findings",
                "Findings",
                "finding",
                "Nothing was gathered that would say anything.",
                &survey.findings,
            ),
            list(
                "advice",
                "Advice",
                "piece of advice",
                "Nothing that was gathered calls for any.",
                &survey.advice,
            ),
        ],
        sections,
        foot: format!(
            "fathom {}, {} UTC. This page needs nothing beside itself: no network, no script.",
            survey.about.version,
            utc(survey.about.when)
        ),
    };
    // Rendering into a string cannot fail.
    let page = shell(&page.title, &page.render().unwrap_or_default());
    // Names have come as they are printed. What else has been quoted from somewhere must not break
    // the page either.
    page.replace(|c: char| c.is_control() && c != '\n', "\u{fffd}")
}

/// What the sections are called, and what they are about.
const TITLES: [(&str, &str, &str); 8] = [
    (
        "mounts",
        "Mounts",
        "What is mounted here, what is odd about it, and what each way to find that out costs.",
    ),
    (
        "probe",
        "File systems",
        "What each file system does, found by experiment, beside what the kernel says of it.",
    ),
    (
        "walk",
        "Walking",
        "What it costs to look at every name and its metadata, by each engine that works here.",
    ),
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
    (
        "steps",
        "How it was measured",
        "On which machine, in which steps, and what was left out.",
    ),
];

pub(crate) fn named(id: &str) -> (&'static str, &'static str) {
    TITLES
        .iter()
        .find(|(known, ..)| *known == id)
        .map_or(("", ""), |(_, title, lead)| (*title, *lead))
}

fn section<T>(id: &'static str, part: &Part<T>, blocks: impl FnOnce(&T) -> Vec<Block>) -> Section {
    let (title, lead) = named(id);
    let blocks = match part {
        Part::Gathered(found) => blocks(found),
        Part::Not { why, how } => vec![Block::Skipped(why.clone(), how.clone())],
    };
    Section {
        id,
        title,
        lead,
        blocks,
    }
}

fn list<'a>(
    id: &'static str,
    link: &'static str,
    what: &str,
    none: &'static str,
    points: &'a [Point],
) -> List<'a> {
    let shown = |point: &'a Point| {
        let Point {
            text,
            figure,
            command,
            section,
        } = point;
        Shown {
            text,
            figure,
            command,
            section,
            more: named(section).0,
        }
    };
    let title = match (points.len(), what) {
        (0, _) => link.to_owned(),
        (1, what) => format!("One {what}"),
        (n, what) => {
            let word = ["Two", "Three", "Four", "Five"]
                .get(n - 2)
                .map_or(n.to_string(), |word| (*word).to_owned());
            let what = if what == "finding" {
                "findings"
            } else {
                "pieces of advice"
            };
            format!("{word} {what}")
        }
    };
    List {
        id,
        link,
        title,
        none,
        points: points.iter().map(shown).collect(),
    }
}

fn title(survey: &Survey<'_>) -> String {
    let host = survey
        .about
        .host
        .as_deref()
        .map_or(String::new(), |host| format!(" on {}", printable(host)));
    format!("Survey of {}{host}", printable(survey.root))
}

fn head(survey: &Survey<'_>) -> Vec<String> {
    let about = &survey.about;
    let cpus = plural(about.cpus as u64, "processor", "processors");
    let memory = about.memory.map_or(String::new(), |bytes| {
        format!(", {} of memory", size(bytes))
    });
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
        head.push(format!(
            "It was ended early ({ended}): here is what had been done by then."
        ));
    }
    head
}

/// A plot, unless there was nothing to draw.
fn plot(svg: String, caption: &str) -> Option<Block> {
    (!svg.is_empty()).then(|| Block::Plot(svg, caption.to_owned()))
}

/// What a table leaves out, as it is called where it is one and where there are more.
fn more(all: usize, shown: usize, [one, many]: [&str; 2], command: &str) -> Option<String> {
    let left = all.saturating_sub(shown) as u64;
    let what = plural(left, &format!("more {one}"), &format!("more {many}"));
    (left > 0).then(|| format!("And {what}: {command} shows all of them."))
}
