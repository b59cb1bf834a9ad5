//! The page: what stands in each section. Its form is in `templates/`.
//!
//! This file holds the sections together; their contents are in `mounts`, `systems`, `walking`,
//! `starting` and `steps`, as the steps are that gather them.

use askama::Template;
use show::html::shell;
use show::name::printable;
use show::time::utc;
use show::units::{plural, size};
use survey::Section;

use self::mounts::mounts;
use self::starting::starting;
use self::steps::measured;
use self::systems::{file_systems, prices};
use self::walking::{calls, dumping, walking};
use super::points::Point;
use super::title::section_title;
use crate::cmd::survey::survey::{Found, Survey};

mod block;
mod mounts;
mod starting;
mod steps;
mod systems;
mod walking;

use self::block::{Block, Plots};

#[derive(Template)]
#[template(path = "survey.html")]
struct Page {
    title: String,
    head: Vec<String>,
    lists: [List; 2],
    sections: Vec<PageSection>,
    foot: String,
}

struct List {
    id: &'static str,
    link: &'static str,
    title: String,
    none: &'static str,
    points: Vec<Point>,
}

impl Point {
    /// The title of the section that has more.
    fn more(&self) -> &'static str {
        section_title(self.section).0
    }
}

struct PageSection {
    /// The name of the section in the JSON.
    id: &'static str,
    title: &'static str,
    lead: &'static str,
    blocks: Vec<Block>,
}

pub(crate) fn html(survey: &Survey<'_>) -> String {
    let page = Page {
        title: title(survey),
        head: head(survey),
        lists: [
            list(
                "findings",
                "Findings",
                ["finding", "findings"],
                "Nothing was gathered that would say anything.",
                Point::findings(survey),
            ),
            list(
                "advice",
                "Advice",
                ["piece of advice", "pieces of advice"],
                "Nothing that was gathered calls for any.",
                Point::advice(survey),
            ),
        ],
        sections: sections(survey),
        foot: format!(
            "fathom {}, {} UTC. This page needs nothing beside itself: no network, no script.",
            survey.machine.version,
            utc(survey.machine.when)
        ),
    };
    // Rendering into a string cannot fail.
    let page = shell(&page.title, &page.render().unwrap_or_default());
    // Names are escaped already; text of other origin must not break the page either.
    page.replace(|c: char| c.is_control() && c != '\n', "\u{fffd}")
}

fn sections(survey: &Survey<'_>) -> Vec<PageSection> {
    let commands = &survey.commands();
    let plots = &mut Plots::default();
    let mut sections = Vec::new();
    let mut add = |section, blocks: Option<Vec<Block>>| {
        let (title, lead) = section_title(section);
        sections.push(PageSection {
            id: section.name(),
            title,
            lead,
            blocks: blocks.unwrap_or_else(|| vec![Block::missing(section, survey)]),
        });
    };
    let Found {
        mounts: mounted,
        walking: walk,
        dump,
        startup,
        gates,
        file_systems: all,
        ..
    } = survey.found;
    let blocks = mounted.as_ref().map(|it| mounts(survey, it, plots));
    add(Section::Mounts, blocks);
    let blocks = file_systems(all, survey.machine.memory, commands, plots);
    add(Section::Probe, Some(blocks).filter(|_| !all.is_empty()));
    let blocks = walk.as_ref().map(|it| walking(it, commands, plots));
    add(Section::Walk, blocks);
    let blocks = dump.as_ref().map(|it| dumping(it, commands));
    add(Section::Dump, blocks);
    let account = survey.account.as_ref();
    add(Section::Account, account.map(|it| calls(it, commands)));
    let blocks = startup.as_ref().map(|it| starting(it, commands));
    add(Section::Startup, blocks);
    let blocks = gates.as_ref().map(|it| prices(it, commands, plots));
    add(Section::Gates, blocks);
    add(Section::Steps, Some(measured(survey, commands, plots)));
    sections
}

fn list(
    id: &'static str,
    link: &'static str,
    [one, many]: [&str; 2],
    none: &'static str,
    points: Vec<Point>,
) -> List {
    const WORDS: [&str; 4] = ["Two", "Three", "Four", "Five"];
    let title = match points.len() {
        0 => link.to_owned(),
        1 => format!("One {one}"),
        n => match WORDS.get(n - 2) {
            Some(word) => format!("{word} {many}"),
            None => format!("{n} {many}"),
        },
    };
    List {
        id,
        link,
        title,
        none,
        points,
    }
}

fn title(survey: &Survey<'_>) -> String {
    let host = survey.machine.host.as_deref();
    let host = host.map_or(String::new(), |host| format!(" on {}", printable(host)));
    format!("Survey of {}{host}", printable(survey.root))
}

fn head(survey: &Survey<'_>) -> Vec<String> {
    let machine = survey.machine;
    let cpus = plural(machine.cpus as u64, "processor", "processors");
    let memory = machine.memory.map_or(String::new(), |bytes| {
        format!(", {} of memory", size(bytes))
    });
    let mut head = vec![format!(
        "Linux {} ({}), {cpus}{memory}; {} UTC, in {:.1} s.",
        machine.kernel,
        machine.arch,
        utc(machine.when),
        machine.seconds
    )];
    if !machine.root {
        head.push("Not as root: what that leaves out is said where it is missing.".to_owned());
    }
    if survey.is_interrupted {
        head.push(
            "It was ended early (interrupted): here is what had been done by then.".to_owned(),
        );
    }
    head
}
