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
use super::section_title;
use crate::cmd::survey::survey::Survey;

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

/// The findings, or the advice.
struct List {
    id: &'static str,
    link: &'static str,
    title: String,
    none: &'static str,
    points: Vec<Item>,
}

/// A finding or a piece of advice, and the section that has more.
struct Item {
    text: String,
    figure: String,
    command: String,
    section: &'static str,
    more: &'static str,
}

struct PageSection {
    /// The name of the section in the JSON.
    id: &'static str,
    title: &'static str,
    lead: &'static str,
    blocks: Vec<Block>,
}

/// The page.
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
    let found = survey.found;
    let memory = survey.machine.memory;
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
    let blocks = found
        .mounts
        .as_ref()
        .map(|mounted| mounts(survey, mounted, plots));
    add(Section::Mounts, blocks);
    let all = Some(&found.file_systems[..]).filter(|all| !all.is_empty());
    let blocks = all.map(|all| file_systems(all, memory, commands, plots));
    add(Section::Probe, blocks);
    let blocks = found
        .walking
        .as_ref()
        .map(|walk| walking(walk, commands, plots));
    add(Section::Walk, blocks);
    add(
        Section::Dump,
        found.dump.as_ref().map(|dump| dumping(dump, commands)),
    );
    let blocks = survey
        .account
        .as_ref()
        .map(|account| calls(account, commands));
    add(Section::Account, blocks);
    let blocks = found
        .startup
        .as_ref()
        .map(|startup| starting(startup, commands));
    add(Section::Startup, blocks);
    let blocks = found
        .gates
        .as_ref()
        .map(|gates| prices(gates, commands, plots));
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
    let item = |point: Point| Item {
        text: point.text,
        figure: point.figure,
        command: point.command,
        section: point.section.name(),
        more: section_title(point.section).0,
    };
    List {
        id,
        link,
        title,
        none,
        points: points.into_iter().map(item).collect(),
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
