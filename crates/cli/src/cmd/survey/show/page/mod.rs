//! The HTML page of a survey. Its layout is in `templates/`.
//!
//! This module joins the sections; their contents are in `mounts`, `systems`, `walking`, `starting`
//! and `steps`, which correspond to the steps of the survey.

use askama::Template;
use ondisk::utc;
use show::html::shell;
use show::name::printable;
use show::units::{duration, plural, size};
use survey::{Section, Survey, SurveyResults};

use self::costs::costs;
use self::mounts::mounts;
use self::problems::{Disk, Problem, disks, problems, verdict};
use self::starting::starting;
use self::steps::measured;
use self::systems::{file_systems, prices};
use self::walking::{calls, directories, dumping, space, walking};
use super::points::Point;
use super::title::section_title;
use crate::cmd::survey::command::Commands;

mod block;
mod costs;
mod mounts;
mod problems;
mod starting;
mod steps;
mod systems;
mod walking;

use self::block::{Block, Plots};

#[derive(Template)]
#[template(path = "survey.html")]
struct Page {
    title: String,
    machine: String,
    head: Vec<String>,
    verdict: String,
    /// The CSS class of the most severe problem.
    worst: &'static str,
    problems: Vec<Problem>,
    disks: Vec<Disk>,
    more_disks: Option<String>,
    lists: [List; 2],
    sections: Vec<PageSection>,
    foot: String,
}

struct List {
    id: &'static str,
    title: &'static str,
    none: &'static str,
    points: Vec<Point>,
}

impl Point {
    /// The title of the section with the details.
    fn more(&self) -> &'static str {
        section_title(self.section).0
    }
}

struct PageSection {
    /// The id of the section, as in the JSON; `costs`, `space` and `directories` exist only on the
    /// page.
    id: &'static str,
    title: &'static str,
    lead: &'static str,
    blocks: Vec<Block>,
}

pub(crate) fn html(survey: &Survey<'_>) -> String {
    let problems = problems(survey);
    let (disks, left) = disks(survey, MOST_DISKS);
    let page = Page {
        title: title(survey),
        machine: machine(survey),
        head: head(survey),
        verdict: verdict(&problems),
        worst: problems.first().map_or("ok", |one| one.severity.class()),
        problems,
        disks,
        more_disks: more_disks(left),
        lists: [
            list(
                "findings",
                "Findings",
                "No findings.",
                Point::findings(survey),
            ),
            list("advice", "Advice", "No advice.", Point::advice(survey)),
        ],
        sections: sections(survey),
        foot: format!(
            "fathom {}, {} UTC. This page loads nothing from the network and runs no scripts.",
            survey.machine.version,
            utc(survey.machine.when)
        ),
    };
    // Rendering into a string cannot fail.
    let page = shell(&page.title, &page.render().unwrap_or_default());
    // Names are escaped already; control characters in other text would make the HTML invalid.
    page.replace(|c: char| c.is_control() && c != '\n', "\u{fffd}")
}

fn sections(survey: &Survey<'_>) -> Vec<PageSection> {
    let commands = &Commands::from_survey(survey);
    let plots = &mut Plots::default();
    let mut sections = vec![PageSection {
        id: "costs",
        title: "Costs",
        lead: "What common work costs on this machine now, and what it could cost.",
        blocks: costs(survey),
    }];
    if let Some(walk) = &survey.found.walking {
        let maps = [
            PageSection {
                id: "space",
                title: "Space by directory",
                lead: "Which directories use the space.",
                blocks: space(walk, plots),
            },
            PageSection {
                id: "directories",
                title: "Calls by directory",
                lead: "Which directories a scan spends its system calls on.",
                blocks: directories(walk, plots),
            },
        ];
        sections.extend(maps.into_iter().filter(|map| !map.blocks.is_empty()));
    }
    let mut add = |section, blocks: Option<Vec<Block>>| {
        let (title, lead) = section_title(section);
        sections.push(PageSection {
            id: section.name(),
            title,
            lead,
            blocks: blocks.unwrap_or_else(|| vec![Block::missing(section, survey)]),
        });
    };
    let SurveyResults {
        mounts: mounted,
        walking: walk,
        dump,
        startup,
        gates,
        file_systems: all,
        ..
    } = survey.found;
    let blocks = mounted.as_ref().map(|it| mounts(survey, it));
    add(Section::Mounts, blocks);
    let blocks = file_systems(all, survey.machine.memory, commands, plots);
    add(Section::Probe, Some(blocks).filter(|_| !all.is_empty()));
    let blocks = walk.as_ref().map(|it| walking(it, commands));
    add(Section::Walk, blocks);
    let blocks = dump.as_ref().map(|it| dumping(it, commands));
    add(Section::Dump, blocks);
    let account = survey.account.as_ref();
    add(Section::Account, account.map(|it| calls(it, commands)));
    let blocks = startup.as_ref().map(|it| starting(it, commands));
    add(Section::Startup, blocks);
    let blocks = gates.as_ref().map(|it| prices(it, commands));
    add(Section::Gates, blocks);
    add(Section::Steps, Some(measured(survey, commands)));
    sections
}

fn list(id: &'static str, title: &'static str, none: &'static str, points: Vec<Point>) -> List {
    List {
        id,
        title,
        none,
        points,
    }
}

/// Maximum number of file systems whose capacity is at the top of the page.
const MOST_DISKS: usize = 12;

fn more_disks(left: usize) -> Option<String> {
    let more = plural(left as u64, "more file system", "more file systems");
    (left > 0).then(|| {
        format!("And {more}, no worse and no fuller than these: fathom survey --json has all.")
    })
}

fn title(survey: &Survey<'_>) -> String {
    let host = survey.machine.host.as_deref();
    let host = host.map_or(String::new(), |host| format!(" on {}", printable(host)));
    format!("Survey of {}{host}", printable(survey.root))
}

fn machine(survey: &Survey<'_>) -> String {
    let machine = survey.machine;
    let cpus = plural(machine.cpus as u64, "processor", "processors");
    let memory = machine.memory.map_or(String::new(), |bytes| {
        format!(" · {} of memory", size(bytes))
    });
    let user = if machine.root {
        "as root"
    } else {
        "not as root"
    };
    format!(
        "Linux {} ({}) · {cpus}{memory} · {} UTC, {}, {user}",
        machine.kernel,
        machine.arch,
        utc(machine.when).replace('T', " "),
        duration(machine.seconds)
    )
}

fn head(survey: &Survey<'_>) -> Vec<String> {
    let mut head = Vec::new();
    if !survey.machine.root && !survey.machine.unseen.is_empty() {
        head.push("Not run as root: see what root would add at the end of the page.".to_owned());
    }
    if survey.is_interrupted {
        head.push("Interrupted: the page has what was measured until then.".to_owned());
    }
    head
}
