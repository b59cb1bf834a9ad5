//! A survey in words: on a terminal here, as a page in [`page`], as JSON in [`json`].

use crate::cmd::mounts::methods::methods_table;
use crate::cmd::mounts::show as mounts;
use ::survey::{Missing, Section};
use show::name::printable;
use show::table::TableStyle;

use self::commands::Commands;
use self::points::Point;
use super::survey::{Compared, MountsPart, Part, Survey};
use crate::cmd::account::show::brief;

pub(crate) mod anomalies;
pub(crate) mod bounded;
pub(crate) mod commands;
pub(crate) mod fixes;
pub(crate) mod json;
pub(crate) mod known;
pub(crate) mod missing;
mod nightly;
pub(crate) mod page;
pub(crate) mod points;
pub(crate) mod probe;
pub(crate) mod startup;

/// The title of a section, and what it is about.
pub(crate) fn section_title(section: Section) -> (&'static str, &'static str) {
    match section {
        Section::Mounts => (
            "Mounts",
            "What is mounted here, what is odd about it, and what each way to find that out costs.",
        ),
        Section::Probe => (
            "File systems",
            "What each file system does, found by experiment, beside what the kernel says of it.",
        ),
        Section::Walk => (
            "Walking",
            "What it costs to look at every name and its metadata, by each engine that works here.",
        ),
        Section::Dump => (
            "Dumping",
            "What a dump every night would cost: the metadata was gathered as a dump does, no data was read.",
        ),
        Section::Account => (
            "The account of a walk",
            "What a walk, one call after the other, asks of the kernel, and what would save calls.",
        ),
        Section::Startup => (
            "Path search",
            "Where the shell, the dynamic linker and Python look for what a program needs, mostly in vain.",
        ),
        Section::Gates => (
            "Gate prices",
            "What one call costs here, when its answer is in memory (warm) and when it is not (cold).",
        ),
        Section::Steps => (
            "How it was measured",
            "On which machine, in which steps, and what was left out.",
        ),
        Section::Machine => ("", ""),
    }
}

/// All sections, one after the other.
pub(crate) fn text(survey: &Survey<'_>, style: TableStyle) -> String {
    let mut text = Text {
        text: String::new(),
        style,
        commands: Commands::new(survey),
    };
    text.points("What matters most", &Point::findings(survey));
    text.points("What to do about it", &Point::advice(survey));
    text.mounts(survey);
    text.section(
        "Walking: what each engine costs here",
        Section::Walk,
        &survey.walking,
        |text, walk| {
            let why = format!("By {}: {}.", walk.part.engine.name(), walk.part.reason);
            text.line(&printable(why.as_bytes()));
            let bounded = walk.bounded.into_iter();
            bounded
                .flat_map(bounded::sentences)
                .for_each(|sentence| text.line(&sentence));
            text.put("\n");
            text.put(&walk.compare.to_text(style));
        },
    );
    text.section(
        "Dumping: what a nightly dump would cost here",
        Section::Dump,
        &survey.dumping,
        |text, dump| text.put(&nightly::text(dump, style)),
    );
    text.section(
        "Calls: what walking asks of the kernel, call by call",
        Section::Account,
        &survey.calls,
        |text, account| text.put(&brief(account, style)),
    );
    text.section(
        "What each file system is, by experiment",
        Section::Probe,
        &survey.file_systems,
        |text, all| {
            for (at, one) in all.iter().enumerate() {
                text.put(if at == 0 { "" } else { "\n" });
                text.put(&one.probe.to_text(style, false));
            }
        },
    );
    text.section(
        "Starting programs: PATH, the dynamic linker, Python",
        Section::Startup,
        &survey.starting,
        |text, startup| text.put(&startup.to_text(style)),
    );
    text.section(
        "What each call costs here",
        Section::Gates,
        &survey.gates,
        |text, gates| text.put(&gates.to_text(style, false)),
    );
    text.took(survey);
    text.text
}

struct Text {
    text: String,
    style: TableStyle,
    commands: Commands,
}

impl Text {
    fn put(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn line(&mut self, text: &str) {
        self.put(&self.style.wrapped(text));
    }

    fn head(&mut self, text: &str) {
        self.put(&self.style.heading(text));
    }

    fn points(&mut self, head: &str, points: &[Point]) {
        if points.is_empty() {
            return;
        }
        self.head(head);
        for Point {
            text,
            figure,
            command,
            ..
        } in points
        {
            self.line(&format!("- {text} ({figure}; {command})"));
        }
        self.put("\n");
    }

    /// A section, or why it is missing.
    fn section<T>(
        &mut self,
        head: &str,
        section: Section,
        part: &Part<T>,
        show: impl FnOnce(&mut Text, &T),
    ) {
        self.put("\n");
        self.head(head);
        match part {
            Part::Gathered(found) => show(self, found),
            Part::Missing(why) => self.missing(section, why),
        }
    }

    fn missing(&mut self, section: Section, missing: &Missing) {
        // The command is typed as it stands: its names are quoted already.
        let how = self.commands.gather(section);
        let why = missing::text(missing);
        let why = printable(why.as_bytes());
        self.line(&format!("Not gathered: {why}. To have it: {how}"));
    }

    fn mounts(&mut self, survey: &Survey<'_>) {
        let root = printable(survey.root);
        match &survey.mounts {
            Part::Gathered(part) => {
                let count = part.points.len();
                self.head(&format!("Mounts: {count} at or under {root}"));
                self.mount_table(part);
            }
            Part::Missing(why) => {
                self.head(&format!("Mounts at or under {root}"));
                self.missing(Section::Mounts, why);
            }
        }
    }

    fn mount_table(&mut self, part: &MountsPart<'_>) {
        let style = self.style;
        match part.points.iter().filter(|point| point.hidden).count() {
            0 => {}
            1 => self.put("One of them no path reaches; it is marked hidden.\n"),
            n => self.put(&format!(
                "{n} of them no path reaches; they are marked hidden.\n"
            )),
        }
        let why = printable(part.mounts.why.as_bytes());
        self.line(&format!("Found by {}: {why}.", part.mounts.by));
        self.put("\n");
        mounts::table(part.mounts.mounts, style, &mut |piece| self.put(piece));
        self.section(
            "What each way to find them costs here",
            Section::Mounts,
            &part.compared,
            Text::methods,
        );
    }

    fn methods(&mut self, compared: &Compared<'_>) {
        let style = self.style;
        self.put(&methods_table(compared.methods).to_text(style.width, style.color));
        for left in compared.left_out {
            let why = printable(left.why.as_bytes());
            self.line(&format!("{} left out: {why}", left.by));
        }
    }

    fn took(&mut self, survey: &Survey<'_>) {
        let about = &survey.about;
        self.put("\n");
        self.head("What this survey took");
        let mib = |bytes: u64| bytes as f64 / 1_048_576.0;
        self.line(&format!(
            "{:.1} s of {:.0}, {:.1} MiB read from disks and {:.1} written to files without a name, of {:.0} MiB.",
            about.seconds,
            about.limit_seconds,
            mib(about.bytes_read),
            mib(about.bytes_written),
            mib(about.limit_bytes)
        ));
        if survey.is_interrupted {
            self.line("It was ended early: interrupted.");
        }
        if !about.unseen.is_empty() {
            self.put("Root would see more:\n");
        }
        for unseen in &about.unseen {
            let line = format!("- {}", missing::unseen(unseen));
            self.line(&printable(line.as_bytes()));
        }
    }
}
