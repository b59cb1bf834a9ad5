//! The text of a survey; the submodules make the page ([`page`]) and the JSON ([`json`]).

use mounts::Point as Mount;
use show::name::printable;
use show::table::TableStyle;
use show::units::{duration, size};
use survey::{ComparedMethods, Section, Survey, SurveyedMounts};

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
    let mut text = Text {
        text: String::new(),
        style,
        survey,
    };
    text.points("Findings", &Point::findings(survey), true);
    text.points("Advice", &Point::advice(survey), false);
    text.mounts();
    let head = "Walk: cost of each engine";
    text.section(
        head,
        Section::Walk,
        found.walking.as_ref(),
        |text, walking| {
            let why = format!(
                "By {}: {}.",
                walking.part.engine.name(),
                walking.part.reason
            );
            text.line(&printable(why.as_bytes()));
            let bounded = walking.bounded.iter().flat_map(bounded::sentences);
            bounded.for_each(|sentence| text.line(&sentence));
            text.text += "\n";
            text.text += &bounded::comparison(walking).to_text(style);
        },
    );
    let head = "Nightly dump: estimated cost";
    text.section(head, Section::Dump, found.dump.as_ref(), |text, dump| {
        text.text += &nightly::text(dump, style);
    });
    let head = "System calls of a walk";
    text.section(
        head,
        Section::Account,
        survey.account.as_ref(),
        |text, account| {
            text.text += &brief(account, style);
        },
    );
    let head = "File systems, by experiment";
    let probed = Some(&found.file_systems).filter(|probed| !probed.is_empty());
    text.section(head, Section::Probe, probed, |text, probed| {
        let texts: Vec<String> = probed
            .iter()
            .map(|one| known::report(one).to_text(style, false))
            .collect();
        text.text += &texts.join("\n");
    });
    let head = "Program start: PATH, dynamic linker, Python";
    text.section(
        head,
        Section::Startup,
        found.startup.as_ref(),
        |text, startup| {
            text.text += &startup::text(startup, style);
        },
    );
    let head = "Price of each system call";
    text.section(head, Section::Gates, found.gates.as_ref(), |text, gates| {
        text.text += &known::report(gates).to_text(style, false);
    });
    text.took();
    text.text
}

struct Text<'a> {
    text: String,
    style: TableStyle,
    survey: &'a Survey<'a>,
}

impl Text<'_> {
    /// Wraps prose to the width of the terminal or of the summary, whichever is less, minus
    /// `indent` columns.
    fn prose(&self, text: &str, indent: usize) -> String {
        let width = self.style.width.unwrap_or(summary::COLUMNS);
        let style = TableStyle {
            width: Some(width.min(summary::COLUMNS).saturating_sub(indent)),
            ..self.style
        };
        style.wrapped(text)
    }

    fn line(&mut self, text: &str) {
        self.text += &self.prose(text, 0);
    }

    /// Adds a list item, whose further lines are indented.
    fn item(&mut self, text: &str) {
        let lines = self.prose(text, 2);
        self.text += &format!("- {}\n", lines.trim_end().replace('\n', "\n  "));
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

    fn section<T>(
        &mut self,
        head: &str,
        section: Section,
        gathered: Option<&T>,
        show: impl FnOnce(&mut Self, &T),
    ) {
        self.text += "\n";
        self.head(head);
        match gathered {
            Some(gathered) => show(self, gathered),
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
        self.section(head, Section::Mounts, methods, Text::methods);
    }

    fn methods(&mut self, compared: &ComparedMethods) {
        let TableStyle { width, color, .. } = self.style;
        self.text += &methods_table(&compared.comparison.methods).to_text(width, color);
        for left in missing::left_out(compared) {
            let why = printable(left.why.as_bytes());
            self.line(&format!("{} skipped: {why}", left.by));
        }
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
