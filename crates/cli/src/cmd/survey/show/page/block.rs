//! Blocks of HTML: the elements of a section of the page.

use askama::Template;
use show::table::Table;
use show::units::plural;
use survey::{Section, Survey};

use crate::cmd::survey::command::Commands;
use crate::cmd::survey::show::missing::text;

/// Maximum number of rows in a table of names; below it is the command that prints all.
pub(super) const MAX_ROWS: usize = 200;
/// Maximum number of rows in a table of sentences.
pub(super) const MAX_SENTENCES: usize = 40;

pub(super) enum Block {
    Text(String),
    Command(String),
    Heading(String),
    List(Vec<String>),
    Facts(Vec<(&'static str, String)>),
    Skipped(String, String),
    Table(String, String),
    /// The SVG of a plot, and its caption.
    Plot(String, String),
    Tree(Tree),
    /// A collapsed HTML element `details`: its summary, and its blocks.
    Details(String, Vec<Block>),
}

pub(super) struct Tree {
    pub(super) caption: String,
    pub(super) heads: Vec<&'static str>,
    pub(super) rows: Vec<Branch>,
}

pub(super) struct Branch {
    pub(super) limb: String,
    pub(super) target: String,
    pub(super) cells: Vec<String>,
    pub(super) class: &'static str,
}

/// Numbers the plots of a page, so that the ids of their titles are unique.
#[derive(Default)]
pub(super) struct Plots(usize);

impl Plots {
    pub(super) fn next(&mut self) -> usize {
        self.0 += 1;
        self.0
    }
}

/// A table with a scroll bar of its own.
pub(super) fn table(caption: &str, table: &Table) -> Block {
    Block::Table(caption.to_owned(), table.to_html(caption))
}

pub(super) fn texts(sentences: impl IntoIterator<Item = String>) -> impl Iterator<Item = Block> {
    sentences.into_iter().map(Block::Text)
}

/// The template of one block, which a `details` element uses for its inner blocks.
#[derive(Template)]
#[template(path = "block.html")]
struct SingleBlock<'a> {
    part: &'a Block,
}

impl Block {
    pub(super) fn to_html(&self) -> String {
        // Rendering into a string cannot fail.
        SingleBlock { part: self }.render().unwrap_or_default()
    }

    /// The reason why a section is missing, and the command that measures it.
    pub(super) fn missing(section: Section, survey: &Survey<'_>) -> Block {
        let why = text(survey.found.why_missing(section));
        Block::Skipped(why, Commands::from_survey(survey).gather(section))
    }
}

pub(super) fn plot(svg: String, caption: &str) -> Option<Block> {
    (!svg.is_empty()).then(|| Block::Plot(svg, caption.to_owned()))
}

/// A note on the number of omitted rows; `one` and `many` name a row in singular and plural.
pub(super) fn more(
    all: usize,
    shown: usize,
    [one, many]: [&str; 2],
    command: &str,
) -> Option<String> {
    let left = all.saturating_sub(shown) as u64;
    let what = plural(left, &format!("more {one}"), &format!("more {many}"));
    (left > 0).then(|| format!("And {what}: {command} shows all."))
}
