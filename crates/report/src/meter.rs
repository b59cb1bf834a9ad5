//! The account of a command: its calls by gate, by program, by file and directory, the redundant
//! ones among them, and what changes would save.

use std::collections::BTreeMap;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use show::name::{entry, printable};
use show::table::{Align, Table, TableStyle, Tone, wrap};

/// What passed one gate.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Gate {
    /// Calls, failed ones included.
    pub calls: u64,
    /// Calls that failed.
    pub errors: u64,
    /// Wall time in them.
    pub seconds: f64,
    /// Milliseconds a call.
    pub ms_per_call: f64,
    /// Of the time in all gates.
    pub percent: f64,
    /// Failed calls by the error's name.
    pub errnos: BTreeMap<String, u64>,
}

/// Calls, together.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Sum {
    /// Calls, failed ones included.
    pub calls: u64,
    /// Calls that failed.
    pub errors: u64,
    /// Wall time in them.
    pub seconds: f64,
}

/// What a program did, or one of its processes.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Its file.
    pub program: Vec<u8>,
    /// The process; `None` where the row is of all of them, or of several that could not be told
    /// apart.
    pub pid: Option<u32>,
    /// Processes that ran it.
    pub processes: u64,
    /// All its calls.
    pub sum: Sum,
    /// Of the time in all gates.
    pub percent: f64,
    /// Its calls by gate.
    pub gates: BTreeMap<&'static str, u64>,
}

/// Calls on a file, or in a directory.
#[derive(Clone, Debug, Default)]
pub struct Place<'a> {
    /// Its absolute name.
    pub path: &'a [u8],
    /// Of a directory: different files in it.
    pub files: Option<u64>,
    /// All calls.
    pub sum: Sum,
    /// By gate.
    pub gates: BTreeMap<&'static str, u64>,
}

/// A redundant pattern.
#[derive(Clone, Copy, Debug)]
pub struct Pattern<'a> {
    /// Its name.
    pub name: &'static str,
    /// How often it was found.
    pub count: u64,
    /// Redundant calls in it.
    pub calls: u64,
    /// Wall time in them.
    pub seconds: f64,
    /// One file with which it happened.
    pub example: Option<&'a [u8]>,
}

/// A change, and what it would save.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    /// Its name.
    pub change: &'static str,
    /// Calls.
    pub saves_calls: i64,
    /// CPU seconds.
    pub saves_seconds: f64,
    /// Of the CPU time.
    pub saves_percent: f64,
    /// CPU seconds by the memo's model: the fixed price of each call that goes.
    pub saves_overhead_seconds: f64,
    /// Wall time in the calls that would go, as it was metered.
    pub elapsed_seconds: Option<f64>,
    /// Whether it is worth doing.
    pub advised: bool,
    /// How it is done, or why not.
    pub how: String,
}

/// What the changes are reckoned with.
#[derive(Clone, Debug, Serialize)]
pub struct Model {
    /// The fixed price of a call, in nanoseconds.
    pub fixed_ns: f64,
    /// Where the prices are from.
    pub prices: String,
    /// CPU time of the command without a meter: what percents are of.
    pub cpu_seconds: f64,
    /// All calls at their prices, as if they were like those that were looked at one by one.
    pub priced_seconds: f64,
}

/// How much of the run was looked at call by call.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Detail {
    /// Calls that were.
    pub calls: u64,
    /// Whether that is all of them, and all that was learned could be held.
    pub complete: bool,
    /// Different files.
    pub files: u64,
    /// Different directories.
    pub directories: u64,
    /// Calls on further files, for which there was no room.
    pub unheld: Sum,
    /// Calls on what has no name that is known.
    pub nameless: Sum,
    /// Descriptors and threads that could not be followed.
    pub forgotten: u64,
}

/// Rows that were asked for by `--by`, the costliest; and how many there are of them.
#[derive(Clone, Debug)]
pub enum By<'a> {
    /// Programs: they are there in any case.
    Program,
    /// Processes.
    Process(Vec<Program>, u64),
    /// Directories, cut to so many components where that was asked for.
    Directory(Vec<Place<'a>>, u64),
}

/// The account.
#[derive(Clone, Debug)]
pub struct Account<'a> {
    /// By gate.
    pub gates: BTreeMap<&'static str, Gate>,
    /// By program, costliest first.
    pub programs: Vec<Program>,
    /// By what was asked for.
    pub by: By<'a>,
    /// The costliest files.
    pub per_file: Vec<Place<'a>>,
    /// The costliest directories.
    pub per_directory: Vec<Place<'a>>,
    /// What these come from.
    pub detail: Detail,
    /// The patterns.
    pub patterns: Vec<Pattern<'a>>,
    /// The changes.
    pub what_if: Vec<Change>,
    /// What they are reckoned with.
    pub model: Model,
    /// The meter.
    pub meter: &'static str,
    /// Why this one.
    pub why: String,
    /// Calls that were lost.
    pub lost: u64,
    /// Calls that never returned.
    pub unfinished: u64,
    /// What metering took.
    pub overhead_seconds: f64,
    /// The exit status that is passed on.
    pub exit: i32,
    /// The signal that ended the command.
    pub signal: Option<i32>,
    /// Elapsed time.
    pub real: f64,
    /// CPU time in programs.
    pub user: f64,
    /// CPU time in the kernel.
    pub sys: f64,
}

impl Serialize for Program {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        entry(&mut map, "program", Some(&self.program))?;
        if let Some(pid) = self.pid {
            map.serialize_entry("pid", &pid)?;
        }
        map.serialize_entry("processes", &self.processes)?;
        sum(&mut map, &self.sum)?;
        map.serialize_entry("percent", &self.percent)?;
        map.serialize_entry("gates", &self.gates)?;
        map.end()
    }
}

impl Serialize for Place<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        entry(&mut map, "path", Some(self.path))?;
        if let Some(files) = self.files {
            map.serialize_entry("files", &files)?;
        }
        sum(&mut map, &self.sum)?;
        map.serialize_entry("gates", &self.gates)?;
        map.end()
    }
}

fn sum<M: SerializeMap>(map: &mut M, sum: &Sum) -> Result<(), M::Error> {
    map.serialize_entry("calls", &sum.calls)?;
    map.serialize_entry("errors", &sum.errors)?;
    map.serialize_entry("seconds", &sum.seconds)
}

impl Serialize for Pattern<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", self.name)?;
        map.serialize_entry("count", &self.count)?;
        map.serialize_entry("calls", &self.calls)?;
        map.serialize_entry("seconds", &self.seconds)?;
        entry(&mut map, "example", self.example)?;
        map.end()
    }
}

impl Serialize for Account<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (processes, by_directory) = match &self.by {
            By::Program => (None, None),
            By::Process(rows, _) => (Some(rows), None),
            By::Directory(rows, _) => (None, Some(rows)),
        };
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("gates", &self.gates)?;
        map.serialize_entry("programs", &self.programs)?;
        map.serialize_entry("processes", &processes)?;
        map.serialize_entry("by_directory", &by_directory)?;
        map.serialize_entry("per_file", &self.per_file)?;
        map.serialize_entry("per_directory", &self.per_directory)?;
        map.serialize_entry("detail", &self.detail)?;
        map.serialize_entry("patterns", &self.patterns)?;
        map.serialize_entry("what_if", &self.what_if)?;
        map.serialize_entry("model", &self.model)?;
        map.serialize_entry("meter", self.meter)?;
        map.serialize_entry("why", &self.why)?;
        map.serialize_entry("lost", &self.lost)?;
        map.serialize_entry("unfinished", &self.unfinished)?;
        map.serialize_entry("overhead_seconds", &self.overhead_seconds)?;
        map.serialize_entry("exit", &self.exit)?;
        map.serialize_entry("signal", &self.signal)?;
        map.serialize_entry("real", &self.real)?;
        map.serialize_entry("user", &self.user)?;
        map.serialize_entry("sys", &self.sys)?;
        map.end()
    }
}

/// The columns of sums, which begin many tables.
const TIME: [(&str, Align); 4] = [
    ("%TIME", Align::Right),
    ("SECONDS", Align::Right),
    ("#CALLS", Align::Right),
    ("#ERRORS", Align::Right),
];

fn time_cells(sum: &Sum, all: f64) -> [String; 4] {
    let percent = if all > 0.0 {
        100.0 * sum.seconds / all
    } else {
        0.0
    };
    [
        format!("{percent:.1}"),
        format!("{:.6}", sum.seconds),
        sum.calls.to_string(),
        sum.errors.to_string(),
    ]
}

impl Account<'_> {
    /// All of it, for people; of files and directories, so many.
    pub fn to_text(&self, style: TableStyle, top: usize) -> String {
        let mut text = self.head(style);
        let mut part = |title: &str, body: String| {
            text.push('\n');
            text.push_str(&style.heading(title));
            text.push_str(&body);
        };
        part("Calls by gate", self.gates_text(style));
        match &self.by {
            By::Program => part(
                "By program",
                self.programs_text(&self.programs, self.programs.len() as u64, style, top),
            ),
            By::Process(rows, of) => part("By process", self.programs_text(rows, *of, style, top)),
            By::Directory(rows, of) => {
                part("By directory", self.places_text(rows, *of, style, top))
            }
        }
        if self.detail.files == 0 {
            let why = self.left_out(style);
            if !why.is_empty() {
                part("Files", why);
            }
        } else {
            let files = self.places_text(&self.per_file, self.detail.files, style, top);
            part("Files", files);
            let directories =
                self.places_text(&self.per_directory, self.detail.directories, style, top);
            part("Directories", directories + &self.left_out(style));
        }
        if let Some(patterns) = self.patterns_text(style) {
            part("Redundant patterns", patterns);
        }
        if let Some(what_if) = self.what_if_text(style) {
            part("What if", what_if);
        }
        text
    }

    /// The gates and the changes, for a page that has more to say.
    pub fn brief(&self, style: TableStyle) -> String {
        let what_if = self
            .what_if_text(style)
            .map(|text| format!("\n{text}"))
            .unwrap_or_default();
        format!("{}\n{}{what_if}", self.head(style), self.gates_text(style))
    }

    /// All calls.
    pub fn calls(&self) -> u64 {
        self.gates.values().map(|gate| gate.calls).sum()
    }

    /// Wall time in all calls.
    pub fn seconds(&self) -> f64 {
        self.gates.values().map(|gate| gate.seconds).sum()
    }

    fn head(&self, style: TableStyle) -> String {
        self.sentences()
            .map(|sentence| line(style, sentence))
            .concat()
    }

    /// How the command ended, and how it was metered.
    pub fn sentences(&self) -> [String; 2] {
        let ended = match self.signal {
            Some(signal) => format!("ended by signal {signal} (status {})", self.exit),
            None => format!("exit status {}", self.exit),
        };
        let lost = match self.lost {
            0 => "none lost".to_owned(),
            lost => format!("{lost} LOST"),
        };
        [
            format!(
                "The command: {ended}; {:.3} s real, {:.3} s user, {:.3} s sys.",
                self.real, self.user, self.sys
            ),
            format!(
                "{} file-system calls, {:.6} s in them, {lost}; {} of metering beside that, by {}: {}.",
                self.calls(),
                self.seconds(),
                duration(self.overhead_seconds),
                self.meter,
                printable(self.why.as_bytes())
            ),
        ]
    }

    fn gates_text(&self, style: TableStyle) -> String {
        self.gates_table().to_text(style.width, style.color)
    }

    /// The calls by gate, costliest first.
    pub fn gates_table(&self) -> Table {
        use Align::{Left, Right};
        let columns = [
            ("%TIME", Right),
            ("SECONDS", Right),
            ("#CALLS", Right),
            ("ms/CALL", Right),
            ("GATE", Left),
            ("ERRORS", Left),
        ];
        let mut gates: Vec<_> = self.gates.iter().collect();
        gates.sort_by(|a, b| {
            b.1.seconds
                .total_cmp(&a.1.seconds)
                .then(b.1.calls.cmp(&a.1.calls))
                .then(a.0.cmp(b.0))
        });
        let mut table = Table::new(&columns, gates.len());
        for (name, gate) in gates {
            let mut errnos: Vec<_> = gate.errnos.iter().collect();
            errnos.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
            let errors: Vec<String> = errnos
                .into_iter()
                .map(|(errno, n)| format!("{n} {errno}"))
                .collect();
            let cells = [
                format!("{:.1}", gate.percent),
                format!("{:.6}", gate.seconds),
                gate.calls.to_string(),
                format!("{:.6}", gate.ms_per_call),
                (*name).to_owned(),
                errors.join(", "),
            ];
            table.row(cells, Tone::Plain);
        }
        table
    }

    fn programs_text(&self, rows: &[Program], of: u64, style: TableStyle, top: usize) -> String {
        use Align::{Left, Right};
        let pids = rows.iter().any(|row| row.pid.is_some());
        let who = if pids {
            ("PID", Right)
        } else {
            ("PROCESSES", Right)
        };
        let mut table = Table::new(
            &[&TIME[..], &[who, ("PROGRAM", Left)]].concat(),
            rows.len().min(top),
        );
        let all = self.seconds();
        for row in rows.iter().take(top) {
            let who = row
                .pid
                .map_or_else(|| row.processes.to_string(), |pid| pid.to_string());
            let cells = time_cells(&row.sum, all)
                .into_iter()
                .chain([who, shown(&row.program)]);
            table.row(cells, Tone::Plain);
        }
        table.to_text(style.width, style.color) + &more(of, top)
    }

    fn places_text(&self, rows: &[Place<'_>], of: u64, style: TableStyle, top: usize) -> String {
        use Align::{Left, Right};
        let directories = rows.iter().any(|row| row.files.is_some());
        let files = [("#FILES", Right)];
        let files = if directories { &files[..] } else { &[] };
        let mut table = Table::new(
            &[&TIME[..], files, &[("PATH", Left)]].concat(),
            rows.len().min(top),
        );
        let all = self.seconds();
        for row in rows.iter().take(top) {
            let files = row.files.map(|files| files.to_string());
            table.row(
                time_cells(&row.sum, all)
                    .into_iter()
                    .chain(files)
                    .chain([shown(row.path)]),
                Tone::Plain,
            );
        }
        table.to_text(style.width, style.color) + &more(of, top)
    }

    /// What the rows by file and directory leave out.
    fn left_out(&self, style: TableStyle) -> String {
        let Detail {
            calls,
            nameless,
            unheld,
            forgotten,
            ..
        } = self.detail;
        let mut text = String::new();
        let mut say = |what: String| text.push_str(&line(style, what));
        if nameless.calls > 0 {
            say(format!(
                "{} calls, {}, were on what has no name that is known: pipes, sockets, calls without a file.",
                nameless.calls,
                duration(nameless.seconds)
            ));
        }
        if unheld.calls > 0 {
            say(format!(
                "{} calls, {}, were on further files, for which there was no room.",
                unheld.calls,
                duration(unheld.seconds)
            ));
        }
        if forgotten > 0 {
            say(format!(
                "{forgotten} descriptors or threads were too many to be followed."
            ));
        }
        if calls < self.calls() {
            say(format!(
                "Files, directories and patterns are of the first {calls} calls of {}, and what changes would save is what they would save \
                 if all were like these; --calls gives more.",
                self.calls()
            ));
        }
        text
    }

    fn patterns_text(&self, style: TableStyle) -> Option<String> {
        self.patterns_table()
            .map(|table| table.to_text(style.width, style.color))
    }

    /// The redundant patterns; `None` when there is none.
    pub fn patterns_table(&self) -> Option<Table> {
        use Align::{Left, Right};
        let columns = [
            ("COUNT", Right),
            ("REDUNDANT", Right),
            ("SECONDS", Right),
            ("PATTERN", Left),
            ("FOR EXAMPLE", Left),
        ];
        let mut found: Vec<_> = self
            .patterns
            .iter()
            .filter(|pattern| pattern.count > 0)
            .collect();
        found.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        let mut table = Table::new(&columns, found.len());
        for pattern in &found {
            let cells = [
                pattern.count.to_string(),
                pattern.calls.to_string(),
                format!("{:.6}", pattern.seconds),
                pattern.name.to_owned(),
                pattern.example.map(shown).unwrap_or_default(),
            ];
            table.row(cells, Tone::Plain);
        }
        (!found.is_empty()).then_some(table)
    }

    fn what_if_text(&self, style: TableStyle) -> Option<String> {
        let table = self.what_if_table()?.to_text(style.width, style.color);
        let how: String = self
            .changes()
            .iter()
            .map(|change| line(style, change.said()))
            .collect();
        Some(format!(
            "{}\n{table}{how}",
            line(style, self.model.sentence())
        ))
    }

    /// The changes that would save something, most first.
    pub fn changes(&self) -> Vec<&Change> {
        let mut changes: Vec<_> = self
            .what_if
            .iter()
            .filter(|change| change.saves_calls != 0 || change.saves_seconds != 0.0)
            .collect();
        changes.sort_by(|a, b| b.saves_seconds.total_cmp(&a.saves_seconds));
        changes
    }

    /// What each change would save; `None` when nothing would be saved.
    pub fn what_if_table(&self) -> Option<Table> {
        use Align::{Left, Right};
        let columns = [
            ("-CALLS", Right),
            ("-CPU ms", Right),
            ("-CPU %", Right),
            ("BY 1974", Right),
            ("CHANGE", Left),
        ];
        let changes = self.changes();
        let mut table = Table::new(&columns, changes.len());
        for change in &changes {
            let cells = [
                change.saves_calls.to_string(),
                format!("{:.3}", 1000.0 * change.saves_seconds),
                format!("{:.1}", change.saves_percent),
                format!("{:.3}", 1000.0 * change.saves_overhead_seconds),
                change.change.to_owned(),
            ];
            table.row(
                cells,
                if change.advised {
                    Tone::Plain
                } else {
                    Tone::Dim
                },
            );
        }
        (!changes.is_empty()).then_some(table)
    }
}

impl Model {
    /// What percents are of, and where prices are from.
    pub fn sentence(&self) -> String {
        let Model {
            fixed_ns,
            prices,
            cpu_seconds,
            ..
        } = self;
        format!(
            "What each change would save of {cpu_seconds:.6} s of CPU time. By the model of 1974 any call costs {fixed_ns:.0} ns, \
             and what it takes beyond that is useful. Prices without a meter: {prices}."
        )
    }
}

impl Change {
    /// How it is done, or why not.
    pub fn said(&self) -> String {
        format!("{}: {}", self.change, self.how)
    }
}

fn line(style: TableStyle, text: String) -> String {
    wrap(&text, style.width.unwrap_or(80)) + "\n"
}

fn shown(path: &[u8]) -> String {
    printable(path).into_owned()
}

fn more(all: u64, top: usize) -> String {
    match all.saturating_sub(top as u64) {
        0 => String::new(),
        more => format!("and {more} more\n"),
    }
}

/// A time with as many places as say something.
fn duration(seconds: f64) -> String {
    if seconds < 0.1 {
        format!("{:.3} ms", 1000.0 * seconds)
    } else {
        format!("{seconds:.3} s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use unicode_width::UnicodeWidthStr;

    fn account(path: &[u8]) -> Account<'_> {
        let sum = Sum {
            calls: 120,
            errors: 20,
            seconds: 0.0012,
        };
        let gate = Gate {
            calls: 120,
            errors: 20,
            seconds: 0.0012,
            ms_per_call: 0.01,
            percent: 100.0,
            errnos: BTreeMap::from([("ENOENT".to_owned(), 19), ("EACCES".to_owned(), 1)]),
        };
        let place = |files| Place {
            path,
            files,
            sum,
            gates: BTreeMap::from([("openat", 120)]),
        };
        let program = Program {
            program: path.to_vec(),
            processes: 3,
            sum,
            percent: 100.0,
            gates: BTreeMap::from([("openat", 120)]),
            pid: None,
        };
        Account {
            gates: BTreeMap::from([("openat", gate)]),
            programs: vec![program.clone()],
            by: By::Process(
                vec![Program {
                    pid: Some(7),
                    ..program
                }],
                13,
            ),
            per_file: vec![place(None)],
            per_directory: vec![place(Some(2))],
            detail: Detail {
                calls: 100,
                complete: false,
                files: 12,
                directories: 1,
                unheld: sum,
                nameless: sum,
                forgotten: 1,
            },
            patterns: vec![Pattern {
                name: "miss",
                count: 20,
                calls: 20,
                seconds: 0.0001,
                example: Some(path),
            }],
            what_if: vec![Change {
                change: "cache-misses",
                saves_calls: 19,
                saves_seconds: 5e-6,
                saves_percent: 0.5,
                saves_overhead_seconds: 6e-6,
                elapsed_seconds: Some(0.0001),
                advised: true,
                how: "remember what is not there".to_owned(),
            }],
            model: Model {
                fixed_ns: 312.0,
                prices: "measured here".to_owned(),
                cpu_seconds: 0.001,
                priced_seconds: 0.0005,
            },
            meter: "ptrace",
            why: "the cheapest that works here".to_owned(),
            lost: 0,
            unfinished: 0,
            overhead_seconds: 0.002,
            exit: 137,
            signal: Some(9),
            real: 0.01,
            user: 0.001,
            sys: 0.002,
        }
    }

    #[test]
    fn the_report() {
        let text = account(b"/usr/bin/x").to_text(
            TableStyle {
                width: Some(80),
                ..TableStyle::default()
            },
            10,
        );
        for line in [
            "The command: ended by signal 9 (status 137); 0.010 s real, 0.001 s user, 0.002 s",
            "%TIME  SECONDS #CALLS  ms/CALL GATE   ERRORS",
            "100.0 0.001200    120 0.010000 openat 19 ENOENT, 1 EACCES",
            "%TIME  SECONDS #CALLS #ERRORS PID PROGRAM",
            "100.0 0.001200    120      20   7 /usr/bin/x",
            "100.0 0.001200    120      20      2 /usr/bin/x",
            "and 2 more",
            "and 3 more",
            "COUNT REDUNDANT  SECONDS PATTERN FOR EXAMPLE",
            "   20        20 0.000100 miss    /usr/bin/x",
            "-CALLS -CPU ms -CPU % BY 1974 CHANGE",
            "    19   0.005    0.5   0.006 cache-misses",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
        }
    }

    #[test]
    fn json_has_what_it_promises() {
        let value = serde_json::to_value(account(b"/\xff")).unwrap();
        for field in [
            "gates",
            "programs",
            "per_file",
            "per_directory",
            "patterns",
            "what_if",
            "meter",
            "lost",
            "overhead_seconds",
            "exit",
        ] {
            assert!(!value[field].is_null(), "{field}: {value}");
        }
        assert_eq!(value["gates"]["openat"]["errnos"]["ENOENT"], 19);
        assert_eq!(value["per_file"][0]["path_b64"], "L/8=");
        assert_eq!(value["programs"][0]["program_b64"], "L/8=");
        assert_eq!(value["patterns"][0]["example_b64"], "L/8=");
        assert_eq!(value["processes"][0]["pid"], 7);
        assert!(value["by_directory"].is_null());
    }

    proptest! {
        #[test]
        fn nothing_raw_is_shown_and_nothing_is_wider_than_the_terminal(
            path in prop::collection::vec(any::<u8>(), 0..200),
            width in 60..120_usize,
        ) {
            let text = account(&path).to_text(TableStyle { width: Some(width), ..TableStyle::default() }, 5);
            prop_assert!(!text.contains(|c: char| c.is_control() && c != '\n'));
            prop_assert!(text.lines().all(|line| line.width() <= width), "{}", text);
        }
    }
}
