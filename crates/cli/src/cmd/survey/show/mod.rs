//! The text of a survey; the submodules make the page ([`page`]) and the JSON ([`json`]).

use mounts::Point as Mount;
use show::name::printable;
use show::table::TableStyle;
use show::units::{duration, size};
use survey::{ComparedMethods, Section, Survey, SurveyedMounts, WalkCosts};

use self::points::Point;
use super::command::Commands;
use crate::cmd::account::show::brief;
use crate::cmd::mounts::methods::methods_table;
use crate::cmd::mounts::show as mount_table;

pub(crate) mod activity;
pub(crate) mod anomalies;
pub(crate) mod bounded;
pub(crate) mod json;
pub(crate) mod known;
pub(crate) mod missing;
pub(crate) mod nightly;
pub(crate) mod page;
pub(crate) mod points;
pub(crate) mod startup;
pub(crate) mod summary;
pub(crate) mod title;

pub(crate) fn text(survey: &Survey<'_>, style: TableStyle) -> String {
    let found = survey.found;
    let width = style.width.unwrap_or(summary::COLUMNS);
    let mut text = Text {
        text: String::new(),
        style,
        prose: TableStyle {
            width: Some(width.min(summary::COLUMNS)),
            ..style
        },
        survey,
    };
    text.points("Findings", &Point::findings(survey), true);
    text.points("Advice", &Point::advice(survey), false);
    text.mounts();
    let walk = found.walking.as_ref().map(|walking| text.walk(walking));
    text.section("Walk: cost of each engine", Section::Walk, walk);
    let dump = found.dump.as_ref().map(|dump| nightly::text(dump, style));
    text.section("Nightly dump: estimated cost", Section::Dump, dump);
    let account = survey.account.as_ref();
    let account = account.map(|account| brief(account, style));
    text.section("System calls of a walk", Section::Account, account);
    let probed = found.file_systems.iter();
    let probed = probed.map(|one| known::report(one).to_text(style, false));
    let probed = probed.reduce(|all, one| all + "\n" + &one);
    text.section("File systems, by experiment", Section::Probe, probed);
    let head = "Program start: PATH, dynamic linker, Python";
    let startup = found.startup.as_ref();
    let startup = startup.map(|startup| startup::text(startup, style));
    text.section(head, Section::Startup, startup);
    let gates = found.gates.as_ref();
    let gates = gates.map(|gates| known::report(gates).to_text(style, false));
    text.section("Price of each system call", Section::Gates, gates);
    text.took();
    text.text
}

struct Text<'a> {
    text: String,
    style: TableStyle,
    /// The style of prose: its lines are at most as wide as those of the summary.
    prose: TableStyle,
    survey: &'a Survey<'a>,
}

impl Text<'_> {
    fn line(&mut self, text: &str) {
        self.text += &self.prose.wrapped(text);
    }

    /// Adds a list item, whose further lines are indented.
    fn item(&mut self, text: &str) {
        self.text += &self.prose.item(text);
    }

    fn head(&mut self, text: &str) {
        self.text += &self.style.heading(text);
    }

    /// Adds findings or advice. `has_figure` says whether their texts already contain the figures.
    fn points(&mut self, head: &str, points: &[Point], has_figure: bool) {
        if points.is_empty() {
            return;
        }
        self.head(head);
        for point in points {
            match has_figure {
                true => self.item(&point.text),
                false => self.item(&point.with_figure()),
            }
            // Commands are not wrapped, so that they can be copied.
            self.text += &format!("  {}\n", point.command);
        }
        self.text += "\n";
    }

    fn section(&mut self, head: &str, section: Section, body: Option<String>) {
        self.text += "\n";
        self.head(head);
        match body {
            Some(body) => self.text += &body,
            None => self.missing(section),
        }
    }

    fn missing(&mut self, section: Section) {
        // The command is printed unescaped, so that it can be copied: names in it are quoted for
        // the shell.
        let how = Commands::from_survey(self.survey).gather(section);
        let why = missing::text(self.survey.found.why_missing(section));
        let why = printable(why.as_bytes());
        self.line(&format!("Not measured: {why}. To measure it: {how}"));
    }

    fn mounts(&mut self) {
        let root = printable(self.survey.root);
        match &self.survey.found.mounts {
            Some(mounted) => {
                let count = mounted.report.points.len();
                self.head(&format!("Mounts: {count} at or under {root}"));
                self.mount_table(mounted);
            }
            None => {
                self.head(&format!("Mounts at or under {root}"));
                self.missing(Section::Mounts);
            }
        }
    }

    fn mount_table(&mut self, SurveyedMounts { report, .. }: &SurveyedMounts) {
        let is_hidden = |point: &&Mount| point.hidden;
        match report.points.iter().filter(is_hidden).count() {
            0 => {}
            1 => self.text += "1 of them is hidden: no path reaches it.\n",
            n => {
                self.text += &format!("{n} of them are hidden: no path reaches them.\n");
            }
        }
        let why = report.reason.to_string();
        let why = printable(why.as_bytes());
        self.line(&format!("Found by {}: {why}.", report.method.name()));
        if !report.points.is_empty() {
            self.text += "\n";
        }
        let text = &mut self.text;
        mount_table::table(&report.points, self.style, &mut |piece| *text += piece);
        let head = "Cost of each method to find mounts";
        let methods = self.survey.found.methods.as_ref();
        let methods = methods.map(|methods| self.methods(methods));
        self.section(head, Section::Mounts, methods);
    }

    fn methods(&self, compared: &ComparedMethods) -> String {
        let TableStyle { width, color, .. } = self.style;
        let mut text = methods_table(&compared.comparison.methods).to_text(width, color);
        for left in missing::left_out(compared) {
            let why = printable(left.why.as_bytes());
            text += &self.prose.wrapped(&format!("{} skipped: {why}", left.by));
        }
        text
    }

    fn walk(&self, walking: &WalkCosts) -> String {
        let (engine, reason) = (walking.part.engine.name(), &walking.part.reason);
        let why = format!("By {engine}: {reason}.");
        let mut text = self.prose.wrapped(&printable(why.as_bytes()));
        for sentence in walking.bounded.iter().flat_map(bounded::sentences) {
            text += &self.prose.wrapped(&sentence);
        }
        text + "\n" + &bounded::comparison(walking).to_text(self.style)
    }

    fn took(&mut self) {
        let machine = self.survey.machine;
        self.text += "\n";
        self.head("Cost of this survey");
        self.line(&format!(
            "{} (limit: {}); {} read from disks, {} written to temporary files (limit: {}).",
            duration(machine.seconds),
            duration(machine.limit_seconds),
            size(machine.bytes_read),
            size(machine.bytes_written),
            size(machine.limit_bytes)
        ));
        if self.survey.is_interrupted {
            self.line("It was interrupted.");
        }
        if !machine.unseen.is_empty() {
            self.text += "Root would add:\n";
        }
        for unseen in &machine.unseen {
            let unseen = missing::unseen(unseen);
            self.item(&printable(unseen.as_bytes()));
        }
    }
}
