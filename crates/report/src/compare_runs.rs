//! Ratios of runs on many systems: the tables of 1988 as text, as JSON, and as a page with a
//! figure.

use std::collections::{HashMap, HashSet};

use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};

use show::html::{escape, page, scroll};
use show::name::{entry, printable};
use show::stats::{self, Stats, StatsRow};
use show::table::{Align, Table, TableStyle, Tone};
use show::units::plural;

/// What is measured, in the order of [`Took`].
const MEASURES: [&str; 4] = ["real", "user", "sys", "calls"];

/// Seconds real, user and sys, and calls; or ratios of them.
pub type Took = [Option<f64>; MEASURES.len()];

/// A system.
#[derive(Clone, Debug)]
pub struct System<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// The file that it was read from.
    pub file: &'a [u8],
    /// The line there.
    pub line: usize,
    /// What else is known of it: column and cell.
    pub labels: &'a [(String, String)],
    /// What each program took on it.
    pub took: &'a [Took],
    /// Ratios that somebody has printed of it.
    pub printed: Took,
}

/// One program against another.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The one above the line, in [`Comparison::names`].
    pub of: usize,
    /// The one below it.
    pub to: usize,
    /// For each system.
    pub ratios: Vec<Took>,
}

/// Runs of the same programs on some systems.
#[derive(Clone, Debug)]
pub struct Comparison<'a> {
    /// Where they come from, in a word.
    pub kind: &'static str,
    /// The programs.
    pub names: &'a [String],
    /// The one that the others are held against.
    pub base: usize,
    /// The systems.
    pub systems: Vec<System<'a>>,
    /// The ratios.
    pub pairs: Vec<Pair>,
}

impl Serialize for System<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        entry(&mut map, "system", Some(self.name))?;
        entry(&mut map, "file", Some(self.file))?;
        map.serialize_entry("line", &self.line)?;
        map.serialize_entry(
            "labels",
            &List(
                self.labels
                    .iter()
                    .map(|(column, cell)| Label { column, cell }),
            ),
        )?;
        map.serialize_entry("took", &List(self.took.iter().map(Each)))?;
        map.serialize_entry("printed", &Each(&self.printed))?;
        map.end()
    }
}

#[derive(Serialize)]
struct Label<'a> {
    column: &'a str,
    cell: &'a str,
}

/// A list that is written as it comes.
struct List<I>(I);

impl<I: Iterator<Item: Serialize> + Clone> Serialize for List<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        self.0
            .clone()
            .try_for_each(|item| list.serialize_element(&item))?;
        list.end()
    }
}

/// Something for each measure.
struct Each<'a, T>(&'a [T; MEASURES.len()]);

impl<T: Serialize> Serialize for Each<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(MEASURES.iter().zip(self.0))
    }
}

impl Serialize for Comparison<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("kind", self.kind)?;
        map.serialize_entry("names", self.names)?;
        map.serialize_entry("base", &self.names.get(self.base))?;
        map.serialize_entry("systems", &self.systems)?;
        map.serialize_entry(
            "ratios",
            &List(self.pairs.iter().map(|pair| Shown {
                comparison: self,
                pair,
            })),
        )?;
        map.end()
    }
}

/// A pair, with the names of its programs and its systems.
#[derive(Clone, Copy)]
struct Shown<'a> {
    comparison: &'a Comparison<'a>,
    pair: &'a Pair,
}

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("of", self.name(self.pair.of))?;
        map.serialize_entry("to", self.name(self.pair.to))?;
        map.serialize_entry("systems", &self.rows().count())?;
        for (measure, name) in MEASURES.iter().enumerate() {
            map.serialize_entry(name, &self.stats(measure))?;
        }
        map.serialize_entry(
            "printed",
            &Each(&std::array::from_fn(|measure| self.printed(measure))),
        )?;
        let averages = |at: usize| {
            std::array::from_fn::<_, { MEASURES.len() }, _>(|measure| self.average(at, measure))
        };
        map.serialize_entry("average_of", &Each(&averages(self.pair.of)))?;
        map.serialize_entry("average_to", &Each(&averages(self.pair.to)))?;
        map.serialize_entry("each", &List(self.pair.ratios.iter().map(Each)))?;
        map.end()
    }
}

impl<'a> Shown<'a> {
    fn name(&self, at: usize) -> &'a str {
        self.comparison.names.get(at).map_or("", |name| name)
    }

    /// As the papers have it: getmnt1/getmnt2.
    fn title(&self) -> String {
        let name = |at| printable(self.name(at).as_bytes());
        format!("{}/{}", name(self.pair.of), name(self.pair.to))
    }

    /// The systems on which both ran, with their ratios.
    fn rows(&self) -> impl Iterator<Item = (&'a System<'a>, &'a Took)> {
        let (of, to) = (self.pair.of, self.pair.to);
        let ran = move |system: &System<'_>, at: usize| {
            system
                .took
                .get(at)
                .is_some_and(|took| took.iter().any(Option::is_some))
        };
        let rows = self.comparison.systems.iter().zip(&self.pair.ratios);
        rows.filter(move |(system, _)| ran(system, of) && ran(system, to))
    }

    fn took(&self, system: &System<'_>, at: usize, measure: usize) -> Option<f64> {
        system.took.get(at).and_then(|took| took[measure])
    }

    fn stats(&self, measure: usize) -> Option<Stats> {
        Stats::from_values(self.rows().filter_map(|(_, ratios)| ratios[measure]))
    }

    /// Of the ratios that were printed, if there are two programs and it is clear whose they are:
    /// those of the first against the second.
    fn printed(&self, measure: usize) -> Option<Stats> {
        let values = self
            .rows()
            .filter_map(|(system, _)| system.printed[measure]);
        Stats::from_values(values)
            .filter(|_| self.comparison.names.len() == 2 && self.pair.of < self.pair.to)
    }

    fn average(&self, at: usize, measure: usize) -> Option<f64> {
        Stats::from_values(
            self.rows()
                .filter_map(|(system, _)| self.took(system, at, measure)),
        )
        .map(|stats| stats.mean)
    }

    /// What was measured of both anywhere.
    fn measures(&self) -> Vec<usize> {
        let has = |measure: usize| {
            let both = |system| {
                [self.pair.of, self.pair.to]
                    .iter()
                    .all(|at| self.took(system, *at, measure).is_some())
            };
            self.rows().any(|(system, _)| both(system))
        };
        (0..MEASURES.len())
            .filter(|measure| has(*measure))
            .collect()
    }

    /// A time with as many places as tell the shortest from nothing; the papers have two.
    fn places(&self) -> usize {
        let both = [self.pair.of, self.pair.to];
        let times = self
            .rows()
            .flat_map(|(system, _)| both.iter().flat_map(move |at| system.took.get(*at)));
        // Calls are no times.
        let times = times
            .flat_map(|took| took.iter().take(3).flatten().copied())
            .filter(|time| *time > 0.0);
        match times.fold(f64::INFINITY, f64::min) {
            shortest if shortest >= 0.01 => 2,
            shortest if shortest >= 0.0001 => 4,
            _ => 6,
        }
    }

    /// The report's Figures 7 and 10.
    fn systems_table(&self) -> Table {
        use Align::{Left, Right};
        let (measures, places) = (self.measures(), self.places());
        let mut known = HashSet::new();
        let columns = self
            .rows()
            .flat_map(|(system, _)| system.labels)
            .map(|(column, _)| &column[..]);
        let columns: Vec<&str> = columns.filter(|column| known.insert(*column)).collect();
        let labels = columns
            .iter()
            .map(|column| (printable(column.as_bytes()).into_owned(), Left));
        let mut heads: Vec<(String, Align)> = std::iter::once(("SYSTEM".to_owned(), Left))
            .chain(labels)
            .collect();
        for group in [self.name(self.pair.of), self.name(self.pair.to), "ratio"] {
            for (at, measure) in measures.iter().enumerate() {
                let group = if at == 0 {
                    format!("{} ", printable(group.as_bytes()))
                } else {
                    String::new()
                };
                heads.push((format!("{group}{}", MEASURES[*measure]), Right));
            }
        }
        let mut table = Table::new(&heads, self.rows().count());
        for (system, ratios) in self.rows() {
            let mut cells = vec![printable(system.name).into_owned()];
            let labels: HashMap<&str, &str> = system
                .labels
                .iter()
                .map(|(column, cell)| (&column[..], &cell[..]))
                .collect();
            let label = |column: &&str| {
                printable(labels.get(column).unwrap_or(&"").as_bytes()).into_owned()
            };
            cells.extend(columns.iter().map(label));
            for at in [self.pair.of, self.pair.to] {
                cells.extend(
                    measures
                        .iter()
                        .map(|&measure| value(self.took(system, at, measure), measure, places)),
                );
            }
            cells.extend(
                measures
                    .iter()
                    .map(|&measure| ratios[measure].map_or("-".to_owned(), times)),
            );
            table.row(cells, Tone::Plain);
        }
        table
    }

    /// The journal paper's Tables 2 to 4.
    fn summary_table(&self) -> Table {
        let places = self.places();
        let averages = [self.pair.of, self.pair.to]
            .map(|at| format!("AVG {}", printable(self.name(at).as_bytes())));
        let mut rows = Vec::new();
        for measure in self.measures() {
            let averages = [self.pair.of, self.pair.to]
                .map(|at| value(self.average(at, measure), measure, places));
            let name = MEASURES[measure].to_owned();
            rows.push(StatsRow {
                name,
                stats: self.stats(measure),
                averages: averages.to_vec(),
            });
            if let Some(printed) = self.printed(measure) {
                let silent = vec![String::new(); 2];
                rows.push(StatsRow {
                    name: "  as printed".to_owned(),
                    stats: Some(printed),
                    averages: silent,
                });
            }
        }
        stats::table(&averages, &rows, 2)
    }

    /// How many systems, and of what.
    fn about(&self) -> String {
        let count = self.rows().count() as u64;
        let of = match self.comparison.kind {
            "csv" => String::new(),
            kind => format!(", by fathom {kind}"),
        };
        plural(count, "system", "systems") + &of
    }
}

/// A time, or a number of calls.
fn value(value: Option<f64>, measure: usize, places: usize) -> String {
    match value {
        None => "-".to_owned(),
        Some(calls) if MEASURES[measure] == "calls" => format!("{calls:.0}"),
        Some(seconds) => format!("{seconds:.places$}"),
    }
}

/// A ratio: two places, as in the papers, or more where these would show nothing.
fn times(ratio: f64) -> String {
    if ratio >= 0.1 {
        format!("{ratio:.2}")
    } else {
        format!("{ratio:.2e}")
    }
}

impl<'a> Comparison<'a> {
    fn shown(&'a self) -> impl Iterator<Item = Shown<'a>> {
        self.pairs.iter().map(move |pair| Shown {
            comparison: self,
            pair,
        })
    }

    /// The tables; without those of the systems if only the sum is wanted.
    pub fn to_text(&self, style: TableStyle, only_summary: bool) -> String {
        let mut out = String::new();
        for shown in self.shown() {
            let gap = if out.is_empty() { "" } else { "\n" };
            out.push_str(&format!("{gap}{}, {}\n\n", shown.title(), shown.about()));
            if !only_summary {
                out.push_str(&shown.systems_table().to_text(style.width, style.color));
                out.push('\n');
            }
            out.push_str(&shown.summary_table().to_text(style.width, style.color));
        }
        out
    }

    fn to_html(&self) -> String {
        let mut out = String::new();
        for shown in self.shown() {
            let title = shown.title();
            let head = escape(&title);
            out.push_str(&format!(
                "<section>\n<h2>{head}</h2>\n<p>{}.</p>\n",
                escape(&shown.about())
            ));
            out.push_str(&figure(&shown));
            let summary = shown
                .summary_table()
                .to_html(&format!("{title}: the ratios; AVG in seconds"));
            out.push_str(&scroll(&format!("{title}, the ratios"), &summary));
            let systems = shown
                .systems_table()
                .to_html(&format!("{title}, system by system: seconds, and ratios"));
            out.push_str(&scroll(&format!("{title}, system by system"), &systems));
            out.push_str("</section>\n");
        }
        out
    }
}

/// A page with all comparisons.
pub fn html(comparisons: &[Comparison<'_>]) -> String {
    const INTRODUCTION: &str = "<p>A ratio says how many times as much the program above the line takes as the one below it, on \
        one system. Mean, median, max, min and standard deviation (of the sample) are over the systems. Where a time is missing \
        or 0 there is no ratio.</p>\n";
    let sections: String = comparisons.iter().map(Comparison::to_html).collect();
    page("Ratios of runs", &format!("{INTRODUCTION}{sections}"))
}

/// Columns of the figure: those of a small phone, so that its letters are read there as they are.
const WIDTH: f64 = 340.0;
/// What is left free on either side.
const MARGIN: f64 = 14.0;
/// Rows for each measure: its name, and the dots.
const STRIP: f64 = 62.0;
/// Half of the room for dots.
const ROOM: f64 = 19.0;
/// As far apart are dots, where there is room.
const DOT: f64 = 5.0;

/// A strip for each measure, on a scale of powers: a dot for each system, and a line at the median.
fn figure(shown: &Shown<'_>) -> String {
    let strips: Vec<(usize, Stats)> = shown
        .measures()
        .into_iter()
        .filter_map(|measure| Some((measure, shown.stats(measure)?)))
        .collect();
    let ends = strips
        .iter()
        .flat_map(|(_, stats)| [stats.min, stats.max])
        .chain([1.0])
        .map(f64::log10);
    let (lowest, highest) = ends.fold((0.0_f64, 0.0_f64), |(low, high), end| {
        (low.min(end), high.max(end))
    });
    let pad = ((highest - lowest) * 0.04).max(0.02);
    let (from, to) = (lowest - pad, highest + pad);
    let x = |ratio: f64| MARGIN + (ratio.log10() - from) / (to - from) * (WIDTH - 2.0 * MARGIN);
    let bottom = STRIP * strips.len() as f64 + 6.0;
    let height = bottom + 20.0;
    let mut drawn = String::new();
    for tick in ticks(from, to) {
        let (at, class) = (x(tick), if tick == 1.0 { "strong" } else { "line" });
        let label = tick_label(tick);
        drawn.push_str(&format!(
            "<line class=\"{class}\" x1=\"{at:.1}\" y1=\"4\" x2=\"{at:.1}\" y2=\"{bottom:.1}\"/>\n"
        ));
        drawn.push_str(&format!(
            "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>\n",
            bottom + 15.0
        ));
    }
    let mut said = Vec::new();
    for (strip, (measure, stats)) in strips.iter().enumerate() {
        let top = STRIP * strip as f64 + 4.0;
        let name = MEASURES[*measure];
        let median = times(stats.median);
        let words = format!(
            "{name}: median {median}, from {} to {}",
            times(stats.min),
            times(stats.max)
        );
        drawn.push_str(&format!(
            "<text x=\"{MARGIN}\" y=\"{:.1}\">{words}</text>\n",
            top + 11.0
        ));
        let middle = top + 17.0 + ROOM;
        let at = x(stats.median);
        let (above, below) = (middle - ROOM - 2.0, middle + ROOM + 2.0);
        drawn.push_str(&format!(
            "<line class=\"strong\" stroke-width=\"2\" x1=\"{at:.1}\" y1=\"{above:.1}\" x2=\"{at:.1}\" y2=\"{below:.1}\"/>\n"
        ));
        drawn.push_str(&dots(
            shown
                .rows()
                .filter_map(|(_, ratios)| ratios[*measure])
                .map(x),
            middle,
        ));
        said.push(words);
    }
    let title = escape(&shown.title());
    let said = said.join("; ");
    format!(
        "<figure>\n<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"Ratios {title}. {said}\">\n{drawn}</svg>\n\
         <figcaption>How many times as much: a dot for each system, a thick line at the median, a thin one at 1, where both take \
         the same. The scale is one of powers.</figcaption>\n</figure>\n"
    )
}

/// Dots at these columns, piled up where there are many. More than fit a pile are not drawn: the
/// table has them.
fn dots(columns: impl Iterator<Item = f64>, middle: f64) -> String {
    const MOST: usize = 60;
    let mut piles: Vec<Vec<f64>> = vec![Vec::new(); (WIDTH / DOT) as usize + 1];
    for column in columns {
        if let Some(pile) = piles.get_mut((column.max(0.0) / DOT) as usize) {
            pile.push(column);
        }
    }
    let mut drawn = String::new();
    for pile in piles {
        let count = pile.len().min(MOST);
        let apart = DOT.min(2.0 * ROOM / count.max(1) as f64);
        for (at, column) in pile.into_iter().take(count).enumerate() {
            // From the middle outwards, above and below in turn.
            let step = at.div_ceil(2) as f64 * apart;
            let row = if at % 2 == 0 {
                middle - step
            } else {
                middle + step
            };
            drawn.push_str(&format!(
                "<circle cx=\"{column:.1}\" cy=\"{row:.1}\" r=\"2.4\"/>\n"
            ));
        }
    }
    drawn
}

/// Round numbers between two powers of ten: few enough that they do not touch.
fn ticks(from: f64, to: f64) -> Vec<f64> {
    const MOST: usize = 8;
    let (fine, whole): (&[f64], &[f64]) = (&[1.0, 2.0, 5.0], &[1.0]);
    for (parts, every) in [(fine, 1), (whole, 1), (whole, 2), (whole, 4), (whole, 8)] {
        let powers = (from.floor() as i32..=to.ceil() as i32).filter(|power| power % every == 0);
        let all = powers.flat_map(|power| parts.iter().map(move |part| part * 10_f64.powi(power)));
        let within: Vec<f64> = all
            .filter(|tick| (from..=to).contains(&tick.log10()))
            .collect();
        if within.len() <= MOST {
            return within;
        }
    }
    vec![1.0]
}

fn tick_label(tick: f64) -> String {
    if (0.001..1e5).contains(&tick) {
        format!("{tick}")
    } else {
        format!("{tick:.0e}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// Two systems, a mis-measured one of them.
    fn with<T>(test: impl FnOnce(&Comparison<'_>) -> T) -> T {
        let names = names(&["old", "new"]);
        let took = [
            [
                [Some(4.0), Some(1.0), Some(0.5), None],
                [Some(2.0), Some(0.5), Some(0.25), None],
            ],
            [
                [Some(9.0), Some(0.0), Some(0.5), None],
                [Some(3.0), Some(0.5), None, None],
            ],
        ];
        let labels = [("os <b>".to_owned(), "a&b".to_owned())];
        let system = |name: &'static [u8], at: usize| System {
            name,
            file: b"f",
            line: at + 2,
            labels: &labels,
            took: &took[at],
            printed: [Some(2.0 + at as f64), None, None, None],
        };
        let ratios = vec![
            [Some(2.0), Some(2.0), Some(2.0), None],
            [Some(3.0), None, None, None],
        ];
        let systems = vec![system(b"s1", 0), system(b"s\xff", 1)];
        let pairs = vec![Pair {
            of: 0,
            to: 1,
            ratios,
        }];
        test(&Comparison {
            kind: "csv",
            names: &names,
            base: 1,
            systems,
            pairs,
        })
    }

    #[test]
    fn the_tables_of_1988() {
        let text = with(|comparison| comparison.to_text(TableStyle::default(), false));
        let expected = "\
old/new, 2 systems

SYSTEM os <b> old real user  sys new real user  sys ratio real user  sys
s1     a&b        4.00 1.00 0.50     2.00 0.50 0.25       2.00 2.00 2.00
s\\xff  a&b        9.00 0.00 0.50     3.00 0.50    -       3.00    -    -

Time         mean median  max  min std_dev AVG old AVG new
real         2.50   2.50 3.00 2.00    0.71    6.50    2.50
  as printed 2.50   2.50 3.00 2.00    0.71
user         2.00   2.00 2.00 2.00    0.00    0.50    0.50
sys          2.00   2.00 2.00 2.00    0.00    0.50    0.25
";
        assert_eq!(text, expected);
        assert!(
            with(|comparison| comparison.to_text(TableStyle::default(), true))
                .contains("old/new, 2 systems\n\nTime ")
        );
    }

    #[test]
    fn the_json_has_all_of_it() {
        let value = with(|comparison| serde_json::to_value(comparison).unwrap());
        assert_eq!(
            (&value["base"], &value["systems"][1]["system_b64"]),
            (&"new".into(), &"c/8=".into())
        );
        assert_eq!(value["systems"][0]["labels"][0]["cell"], "a&b");
        assert_eq!(value["systems"][0]["took"][1]["sys"], 0.25);
        let ratio = &value["ratios"][0];
        assert_eq!(
            (&ratio["of"], &ratio["systems"], &ratio["real"]["mean"]),
            (&"old".into(), &2.into(), &2.5.into())
        );
        assert!(
            ratio["calls"].is_null()
                && ratio["each"][1]["user"].is_null()
                && ratio["printed"]["user"].is_null()
        );
        assert_eq!(
            (
                &ratio["printed"]["real"]["mean"],
                &ratio["average_of"]["real"]
            ),
            (&2.5.into(), &6.5.into())
        );
        // Turned round, the ratios are others than were printed.
        let turned = with(|comparison| {
            let pairs = vec![Pair {
                of: 1,
                to: 0,
                ..comparison.pairs[0].clone()
            }];
            serde_json::to_value(Comparison {
                base: 0,
                pairs,
                ..comparison.clone()
            })
            .unwrap()
        });
        assert!(turned["ratios"][0]["printed"]["real"].is_null(), "{turned}");
    }

    #[test]
    fn the_page_is_whole_and_escaped() {
        let page = with(|comparison| html(std::slice::from_ref(comparison)));
        assert!(
            page.contains("os &lt;b&gt;") && page.contains("a&amp;b") && !page.contains("<b>"),
            "{page}"
        );
        assert_eq!(
            (
                page.matches("<table>").count(),
                page.matches("</svg>").count()
            ),
            (2, 1)
        );
        assert_eq!(page.matches("<circle").count(), 4);
        assert!(
            page.contains("real: median 2.50, from 2.00 to 3.00"),
            "{page}"
        );
    }

    #[test]
    fn ticks_are_few_and_round() {
        assert_eq!(ticks(-0.1, 1.1), [1.0, 2.0, 5.0, 10.0]);
        assert_eq!(ticks(-2.1, 2.1), [0.01, 0.1, 1.0, 10.0, 100.0]);
        for (from, to) in [(-0.02, 0.02), (-24.0, 24.0), (0.3, 0.4), (-3.0, 14.0)] {
            assert!(ticks(from, to).len() <= 8, "{from} {to}");
        }
    }

    #[test]
    fn piles_stay_within_their_strip() {
        let drawn = dots(std::iter::repeat_n(100.0, 10_000), 40.0);
        assert!(drawn.matches("<circle").count() <= 60);
        let rows = drawn
            .split("cy=\"")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap().parse::<f64>().unwrap());
        assert!(
            rows.into_iter().all(|row| (row - 40.0).abs() <= ROOM + 1.0),
            "{drawn}"
        );
    }
}
