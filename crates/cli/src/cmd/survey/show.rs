//! The survey on a terminal.

use super::survey::{Part, Survey};
use report::compare::methods_table;
use report::mounts;
use show::name::printable;
use show::table::TableStyle;

impl Survey<'_> {
    /// All sections, one after the other.
    pub(crate) fn to_text(&self, style: TableStyle) -> String {
        let mut text = Text {
            text: String::new(),
            style,
        };
        self.points(&mut text);
        self.mounts_text(&mut text);
        text.section(
            "Walking: what each engine costs here",
            &self.walking,
            |text, walk| {
                let why = format!("By {}: {}.", walk.part.engine, walk.part.why);
                text.line(&printable(why.as_bytes()));
                walk.bounded
                    .iter()
                    .flat_map(|bounded| bounded.sentences())
                    .for_each(|said| text.line(&said));
                text.put("\n");
                text.put(&walk.compare.to_text(style));
            },
        );
        text.section(
            "Dumping: what a nightly dump would cost here",
            &self.dumping,
            |text, dump| {
                text.put(&dump.to_text(style));
            },
        );
        text.section(
            "Calls: what walking asks of the kernel, call by call",
            &self.calls,
            |text, account| {
                text.put(&account.brief(style));
            },
        );
        text.section(
            "What each file system is, by experiment",
            &self.file_systems,
            |text, all| {
                for (at, one) in all.iter().enumerate() {
                    text.put(if at == 0 { "" } else { "\n" });
                    text.put(&one.probe.to_text(style, false));
                }
            },
        );
        text.section(
            "Starting programs: PATH, the dynamic linker, Python",
            &self.starting,
            |text, startup| {
                text.put(&startup.to_text(style));
            },
        );
        text.section("What each call costs here", &self.gates, |text, gates| {
            text.put(&gates.to_text(style, false))
        });
        self.took(&mut text);
        text.text
    }

    fn points(&self, text: &mut Text) {
        for (head, points) in [
            ("What matters most", &self.findings),
            ("What to do about it", &self.advice),
        ] {
            if points.is_empty() {
                continue;
            }
            text.head(head);
            for point in points {
                text.line(&format!(
                    "- {} ({}; {})",
                    point.text, point.figure, point.command
                ));
            }
            text.put("\n");
        }
    }

    fn mounts_text(&self, text: &mut Text) {
        let style = text.style;
        match &self.mounts {
            Part::Gathered(part) => {
                let rows = part.mounts.mounts;
                text.head(&format!(
                    "Mounts: {} at or under {}",
                    rows.len(),
                    printable(self.root)
                ));
                let hidden = mounts::all(rows).filter(|row| row.hidden).count();
                match hidden {
                    0 => {}
                    1 => text.put("One of them no path reaches; it is marked hidden.\n"),
                    n => text.put(&format!(
                        "{n} of them no path reaches; they are marked hidden.\n"
                    )),
                }
                text.line(&format!(
                    "Found by {}: {}.",
                    part.mounts.by,
                    printable(part.mounts.why.as_bytes())
                ));
                text.put("\n");
                mounts::table(rows, style, &mut |piece| text.put(piece));
                text.section(
                    "What each way to find them costs here",
                    &part.compared,
                    |text, compared| {
                        text.put(
                            &methods_table(compared.methods).to_text(style.width, style.color),
                        );
                        for left in compared.left_out {
                            text.line(&format!(
                                "{} left out: {}",
                                left.by,
                                printable(left.why.as_bytes())
                            ));
                        }
                    },
                );
            }
            Part::Not { why, how } => {
                text.head(&format!("Mounts at or under {}", printable(self.root)));
                text.not(why, how);
            }
        }
    }

    fn took(&self, text: &mut Text) {
        let about = &self.about;
        text.put("\n");
        text.head("What this survey took");
        let mib = |bytes: u64| bytes as f64 / 1_048_576.0;
        text.line(&format!(
            "{:.1} s of {:.0}, {:.1} MiB read from disks and {:.1} written to files without a name, of {:.0} MiB.",
            about.seconds,
            about.limit_seconds,
            mib(about.bytes_read),
            mib(about.bytes_written),
            mib(about.limit_bytes)
        ));
        if let Some(why) = &self.ended {
            text.line(&format!("It was ended early: {why}."));
        }
        if !about.lacking.is_empty() {
            text.put("Root would see more:\n");
        }
        for lacking in &about.lacking {
            text.line(&printable(format!("- {lacking}").as_bytes()));
        }
    }
}

struct Text {
    text: String,
    style: TableStyle,
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

    /// A section that is there, or why it is not.
    fn section<T>(&mut self, head: &str, part: &Part<T>, show: impl FnOnce(&mut Text, &T)) {
        self.put("\n");
        self.head(head);
        match part {
            Part::Gathered(found) => show(self, found),
            Part::Not { why, how } => self.not(why, how),
        }
    }

    fn not(&mut self, why: &str, how: &str) {
        // A command is to be typed as it stands: its names are in quotes already, and have nothing
        // raw in them.
        self.line(&format!(
            "Not gathered: {}. To have it: {how}",
            printable(why.as_bytes())
        ));
    }
}
