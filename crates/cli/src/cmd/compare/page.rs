//! The page of `fathom compare --html`: the tables, and a figure of the ratios.

use account::compare::comparison::{Comparison, PairView};
use account::compare::runs::Measure;
use show::html::{escape, page, scroll};
use show::stats::Stats;

use super::show::{origin, summary_table, systems_table, times, title};

/// A page with all comparisons.
pub(super) fn html(comparisons: &[Comparison<'_>]) -> String {
    const INTRODUCTION: &str = "<p>A ratio says how many times as much the program above the line takes as the one below it, on \
        one system. Mean, median, max, min and standard deviation (of the sample) are over the systems. Where a time is missing \
        or 0 there is no ratio.</p>\n";
    let sections: String = comparisons
        .iter()
        .flat_map(Comparison::pairs)
        .map(section)
        .collect();
    page("Ratios of runs", &format!("{INTRODUCTION}{sections}"))
}

fn section(pair: PairView<'_>) -> String {
    let title = title(pair);
    let summary = summary_table(pair).to_html(&format!("{title}: the ratios; AVG in seconds"));
    let systems =
        systems_table(pair).to_html(&format!("{title}, system by system: seconds, and ratios"));
    format!(
        "<section>\n<h2>{}</h2>\n<p>{}.</p>\n{}{}{}</section>\n",
        escape(&title),
        escape(&origin(pair)),
        figure(pair),
        scroll(&format!("{title}, the ratios"), &summary),
        scroll(&format!("{title}, system by system"), &systems)
    )
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

/// The scale of the figure: powers, from the least to the largest of all strips.
struct Scale {
    from: f64,
    to: f64,
}

impl Scale {
    fn new(strips: &[(Measure, Stats)]) -> Scale {
        let ends = strips
            .iter()
            .flat_map(|(_, stats)| [stats.min, stats.max])
            .chain([1.0])
            .map(f64::log10);
        let (lowest, highest) = ends.fold((0.0_f64, 0.0_f64), |(low, high), end| {
            (low.min(end), high.max(end))
        });
        let pad = ((highest - lowest) * 0.04).max(0.02);
        Scale {
            from: lowest - pad,
            to: highest + pad,
        }
    }

    /// The column of a ratio.
    fn x(&self, ratio: f64) -> f64 {
        MARGIN + (ratio.log10() - self.from) / (self.to - self.from) * (WIDTH - 2.0 * MARGIN)
    }

    /// Vertical lines at round numbers, with their labels.
    fn draw(&self, bottom: f64) -> String {
        let mut drawn = String::new();
        for tick in ticks(self.from, self.to) {
            let (at, class) = (self.x(tick), if tick == 1.0 { "strong" } else { "line" });
            let label = tick_label(tick);
            drawn.push_str(&format!(
                "<line class=\"{class}\" x1=\"{at:.1}\" y1=\"4\" x2=\"{at:.1}\" y2=\"{bottom:.1}\"/>\n"
            ));
            drawn.push_str(&format!(
                "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>\n",
                bottom + 15.0
            ));
        }
        drawn
    }
}

/// A strip for each measure: a dot for each system, and a line at the median.
fn figure(pair: PairView<'_>) -> String {
    let strips: Vec<(Measure, Stats)> = pair
        .measures()
        .filter_map(|measure| Some((measure, Stats::from_values(pair.ratios(measure))?)))
        .collect();
    let scale = Scale::new(&strips);
    let bottom = STRIP * strips.len() as f64 + 6.0;
    let height = bottom + 20.0;
    let mut drawn = scale.draw(bottom);
    let mut labels = Vec::new();
    for (strip, (measure, stats)) in strips.iter().enumerate() {
        let top = STRIP * strip as f64 + 4.0;
        let label = format!(
            "{}: median {}, from {} to {}",
            measure.name(),
            times(stats.median),
            times(stats.min),
            times(stats.max)
        );
        drawn.push_str(&format!(
            "<text x=\"{MARGIN}\" y=\"{:.1}\">{label}</text>\n",
            top + 11.0
        ));
        let middle = top + 17.0 + ROOM;
        let at = scale.x(stats.median);
        let (above, below) = (middle - ROOM - 2.0, middle + ROOM + 2.0);
        drawn.push_str(&format!(
            "<line class=\"strong\" stroke-width=\"2\" x1=\"{at:.1}\" y1=\"{above:.1}\" x2=\"{at:.1}\" y2=\"{below:.1}\"/>\n"
        ));
        let columns = pair.ratios(*measure).map(|ratio| scale.x(ratio));
        drawn.push_str(&dots(columns, middle));
        labels.push(label);
    }
    let title = escape(&title(pair));
    let labels = labels.join("; ");
    format!(
        "<figure>\n<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"Ratios {title}. {labels}\">\n{drawn}</svg>\n\
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
    use super::super::show::tests::example;
    use super::*;

    #[test]
    fn the_page_is_whole_and_escaped() {
        let runs = example();
        let page = html(&[Comparison::new(&runs, 1)]);
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
