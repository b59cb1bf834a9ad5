//! What matters most of a survey, and what to do about it. Everything that could be said is
//! weighed, and the five that weigh most are said. Nothing is said without the figure that shows
//! it.

use super::commands::Commands;
use super::odd::{Kind, Odd};
use super::survey::{Point, Survey};
use report::compare::median_ms;
use report::walk::{Bounded, Engine, Section, about};
use show::name::printable;

mod advice;
mod found;

/// As many are said.
const FIVE: usize = 5;

/// Points with their weights.
#[derive(Default)]
struct Weighed(Vec<(u32, Point)>);

impl Weighed {
    fn add(
        &mut self,
        weight: u32,
        section: &'static str,
        figure: String,
        text: String,
        command: &str,
    ) {
        self.0.push((
            weight,
            Point {
                text,
                figure,
                command: command.to_owned(),
                section,
            },
        ));
    }

    /// Those that weigh most; among equals the one that came first.
    fn most(mut self) -> Vec<Point> {
        self.0.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
        self.0
            .into_iter()
            .take(FIVE)
            .map(|(_, point)| point)
            .collect()
    }
}

/// Five findings, or fewer where there is less to say; what matters most first.
pub(crate) fn of(survey: &Survey<'_>) -> Vec<Point> {
    let commands = Commands::of_survey(survey);
    let mut found = Weighed::default();
    found::mounts(survey, &commands, &mut found);
    found::file_systems(survey, &commands, &mut found);
    found::walk(survey, &commands, &mut found);
    found::path(survey, &commands, &mut found);
    found::dump(survey, &commands, &mut found);
    found::calls(survey, &commands, &mut found);
    found::prices(survey, &commands, &mut found);
    found.most()
}

/// Five pieces of advice, or fewer; what helps most first.
pub(crate) fn advice(survey: &Survey<'_>) -> Vec<Point> {
    let commands = Commands::of_survey(survey);
    let mut found = Weighed::default();
    advice::mounts(survey, &commands, &mut found);
    advice::walk(survey, &commands, &mut found);
    advice::path(survey, &mut found);
    advice::dump(survey, &commands, &mut found);
    advice::calls(survey, &commands, &mut found);
    advice::file_systems(survey, &commands, &mut found);
    advice::prices(survey, &commands, &mut found);
    advice::more(survey, &commands, &mut found);
    found.most()
}

/// A few names, and how many more there are.
fn names<'a>(of: impl Iterator<Item = &'a [u8]>) -> String {
    const NAMED: usize = 3;
    const LONG: usize = 80;
    let of: Vec<&[u8]> = of.collect();
    let short = |name: &&[u8]| {
        let name = printable(name);
        match name.char_indices().nth(LONG) {
            Some((end, _)) => format!("{}…", &name[..end]),
            None => name.into_owned(),
        }
    };
    let named: Vec<String> = of.iter().take(NAMED).map(short).collect();
    let left = of.len().saturating_sub(NAMED);
    if left > 0 {
        format!("{} and {left} more", named.join(", "))
    } else {
        named.join(", ")
    }
}

fn of_kind<'a>(odd: &'a [Odd<'a>], kind: Kind) -> impl Iterator<Item = &'a [u8]> + Clone {
    odd.iter()
        .filter(move |odd| odd.kind == kind)
        .map(|odd| odd.target)
}

/// The engine that fathom takes, the plain one, and the fastest; with the milliseconds that they
/// take.
struct Engines<'a> {
    chosen: (&'a Engine, f64),
    plain: Option<(&'a Engine, f64)>,
    fastest: (&'a Engine, f64),
}

impl<'a> Engines<'a> {
    /// `None` if none has been through.
    fn of(walk: &Section<'a>) -> Option<Engines<'a>> {
        let timed = |engine: &'a Engine| Some((engine, median_ms(&engine.runs, |t| t.real)?));
        let timed: Vec<_> = walk.compare.engines.iter().filter_map(timed).collect();
        let find = |name: &str| {
            timed
                .iter()
                .find(|(engine, _)| engine.engine == name)
                .copied()
        };
        let fastest = timed.iter().min_by(|a, b| a.1.total_cmp(&b.1)).copied()?;
        Some(Engines {
            chosen: find(walk.part.engine).unwrap_or(fastest),
            plain: find("stat"),
            fastest,
        })
    }
}

/// What a bounded walk would take, or how fast it was.
fn took(bounded: &Bounded) -> String {
    match bounded.whole_seconds {
        Some(seconds) => format!("some {}", about(seconds)),
        None => format!("{:.0} entries a second", bounded.rate()),
    }
}

/// How an engine was stopped, if it was.
fn unfinished(walk: &Section<'_>, engine: &str) -> Option<String> {
    let left = walk
        .compare
        .left_out
        .iter()
        .find(|left| left.engine == engine && left.why.starts_with("stopped"))?;
    Some(printable(left.why.as_bytes()).into_owned())
}

/// A sentence up to its first comma.
fn beginning(sentence: &str) -> String {
    sentence.split(',').next().unwrap_or_default().to_owned()
}
