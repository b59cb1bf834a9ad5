//! Series of samples: a line, with its peaks marked.

use super::{Canvas, FileLayout, ends, file};
use crate::html::escape;

/// A series of samples: a line, with its peaks marked.
#[derive(Clone, PartialEq, Debug, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Plot {
    pub title: String,
    /// The conclusion from the series, in words.
    pub note: String,
    /// The name of the horizontal axis; `y` is that of the vertical one.
    pub x: String,
    pub y: String,
    pub points: Vec<(f64, f64)>,
    /// Indices of the marked points.
    pub marks: Vec<usize>,
}

/// The vertical scale of a series.
struct Scale {
    /// Whether the scale is logarithmic: on a linear one, a few very high samples would flatten all
    /// others.
    log: bool,
    /// The ends of the scale, as logarithms if it is logarithmic.
    from: f64,
    to: f64,
}

impl Scale {
    fn new(points: &[(f64, f64)]) -> Scale {
        let mut sorted: Vec<f64> = points.iter().map(|point| point.1).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let middle = sorted.get(sorted.len() / 2).copied().unwrap_or(0.0);
        let highest = sorted.last().map_or(0.0, |last| last.max(0.0));
        let lowest = sorted.first().copied().unwrap_or(0.0);
        let log = lowest > 0.0 && highest > 20.0 * middle;
        let (from, to) = match log {
            true => (lowest.log10() - 0.05, highest.log10() + 0.15),
            false => (0.0, highest * 1.12 + 1e-9),
        };
        Scale { log, from, to }
    }

    /// The position of a value: 0 at the bottom, 1 at the top.
    fn position(&self, value: f64) -> f64 {
        let value = if self.log { value.log10() } else { value };
        ((value - self.from) / (self.to - self.from)).clamp(0.0, 1.0)
    }

    /// Tick marks of the axis: round values, at most `most` + 1.
    fn ticks(&self, most: u32) -> Vec<f64> {
        let wide = self.to - self.from;
        let rough = (wide / f64::from(most)).max(f64::MIN_POSITIVE);
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .map(|part| part * power)
            .into_iter()
            .find(|step| *step >= rough)
            .unwrap_or(wide);
        // On a logarithmic scale, only whole powers of ten count as round.
        let step = if self.log { step.ceil().max(1.0) } else { step };
        let first = (self.from / step).ceil();
        (0..=most)
            .map(|n| (first + f64::from(n)) * step)
            .take_while(|value| *value <= self.to)
            .map(|value| if self.log { 10_f64.powf(value) } else { value })
            .collect()
    }
}

fn number(v: f64) -> String {
    match v.abs() {
        a if a >= 1e9 => format!("{:.4}G", v / 1e9).replace(".0000G", "G"),
        a if a >= 1e6 => format!("{:.2}M", v / 1e6).replace(".00M", "M"),
        a if a >= 1e4 => format!("{:.1}k", v / 1e3).replace(".0k", "k"),
        _ => format!("{v:.2}")
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_owned(),
    }
}

/// Reduces points to the maximum of each group of neighbours, so that no peak is lost.
fn thinned(points: &[(f64, f64)], most: usize) -> Vec<(f64, f64)> {
    let part = points.len().div_ceil(most).max(1);
    let highest = |part: &[(f64, f64)]| part.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    points.chunks(part).filter_map(highest).collect()
}

/// A series laid out in an area.
struct PlotArea {
    points: Vec<(f64, f64)>,
    scale: Scale,
    first: f64,
    last: f64,
    /// The upper end and the height of the area, in pixels.
    top: f64,
    height: f64,
}

impl PlotArea {
    /// Lays out at most `most` points of a series; `None` if it has no points.
    fn new(plot: &Plot, most: usize, top: f64, height: f64) -> Option<PlotArea> {
        let points: Vec<_> = plot.finite_points().collect();
        let (first, last) = (points.first()?.0, points.last()?.0);
        let points = thinned(&points, most);
        Some(PlotArea {
            scale: Scale::new(&points),
            points,
            first,
            last: last.max(first + 1.0),
            top,
            height,
        })
    }

    fn x(&self, x: f64) -> f64 {
        (100.0 * (x - self.first) / (self.last - self.first)).clamp(0.0, 100.0)
    }

    fn y(&self, y: f64) -> f64 {
        self.top + self.height * (1.0 - self.scale.position(y))
    }

    fn draw_grid(&self, canvas: &mut Canvas) {
        for tick in self.scale.ticks(4) {
            let y = self.y(tick);
            canvas.line("line", (0.0, y), (100.0, y));
            let (y, tick) = (y + 4.0, number(tick));
            canvas.0 += &format!("<text class=\"soft end\" x=\"-6\" y=\"{y:.1}\">{tick}</text>\n");
        }
    }

    /// Draws the samples. A viewBox scales the line to the area, because points of an SVG polyline
    /// cannot be percentages.
    fn draw_curve(&self, canvas: &mut Canvas) {
        let point = |(x, y): &(f64, f64)| {
            let up = self.scale.position(*y);
            format!("{:.1},{:.1}", 10.0 * self.x(*x), 1000.0 * (1.0 - up))
        };
        let points = self.points.iter().map(point).collect::<Vec<_>>().join(" ");
        let (top, height) = (self.top, self.height);
        canvas.0 += &format!(
            "<svg x=\"0\" y=\"{top}\" width=\"100%\" height=\"{height}\" viewBox=\"0 0 1000 1000\" \
             preserveAspectRatio=\"none\"><polyline class=\"curve\" points=\"{points}\"/></svg>\n"
        );
    }

    /// Draws a ring around each mark, with its position as a number if `numbers`.
    fn draw_marks(&self, canvas: &mut Canvas, plot: &Plot, most: usize, numbers: bool) {
        let marked = plot.marks.iter().take(most);
        let points = marked.filter_map(|at| plot.points.get(*at));
        for (x, y) in points.filter(|(x, y)| x.is_finite() && y.is_finite()) {
            let at = (self.x(*x), self.y(*y));
            canvas.circle("ring", at, 3.5);
            if numbers {
                canvas.text("start", (at.0 + 0.6, at.1 - 8.0), &number(*x));
            }
        }
    }
}

impl Plot {
    fn finite_points(&self) -> impl Iterator<Item = (f64, f64)> {
        let points = self.points.iter().copied();
        points.filter(|(x, y)| x.is_finite() && y.is_finite())
    }

    /// Whether the vertical scale is logarithmic.
    pub fn is_logarithmic(&self) -> bool {
        Scale::new(&self.points).log
    }

    /// The figure for a page; empty if there are no samples.
    pub fn to_page_svg(&self, id: usize) -> String {
        /// Maximum number of points: more are not visible, and take bytes of the page.
        const POINTS: usize = 500;
        /// Maximum number of rings: more would hide the line.
        const RINGS: usize = 40;
        const TOP: f64 = 10.0;
        const HEIGHT: f64 = 160.0;
        let Some(plot) = PlotArea::new(self, POINTS, TOP, HEIGHT) else {
            return String::new();
        };
        let mut canvas = Canvas::default();
        plot.draw_grid(&mut canvas);
        plot.draw_curve(&mut canvas);
        plot.draw_marks(&mut canvas, self, RINGS, false);
        let last = self.finite_points().last().map_or(plot.last, |(x, _)| x);
        let (first, last) = (number(plot.first), number(last));
        let row = TOP + HEIGHT + 16.0;
        canvas.text("soft start", (0.0, row), &first);
        canvas.text("soft end", (100.0, row), &last);
        let (lowest, highest) = ends(self.finite_points().map(|(_, y)| y)).unwrap_or_default();
        let description = format!(
            "{} (vertical axis) by {} (horizontal axis), from {first} to {last}: between {} and {}; {} marked. {}.",
            self.y,
            self.x,
            number(lowest),
            number(highest),
            self.marks.len(),
            self.note
        );
        // The numbers of the vertical axis are left of the area.
        let svg = canvas.into_svg(id, &self.title, &description, TOP + HEIGHT + 22.0);
        let svg = svg.replacen("<svg role", "<svg class=\"inset\" role", 1);
        let log = if self.is_logarithmic() {
            ", powers of ten"
        } else {
            ""
        };
        format!(
            "<p class=\"title\">{}</p>\n<p class=\"soft\" aria-hidden=\"true\">↑ {}{log}</p>\n{svg}\
             <p class=\"soft across\" aria-hidden=\"true\">{} →</p>\n",
            escape(&self.title),
            escape(&self.y),
            escape(&self.x)
        )
    }

    /// The figure as a separate SVG file.
    pub fn to_svg(&self) -> String {
        /// Maximum number of points: more are not visible at this size.
        const POINTS: usize = 1200;
        /// Maximum number of numbered marks: more numbers would overlap.
        const NUMBERED: usize = 16;
        const LAYOUT: FileLayout = FileLayout {
            width: 960.0,
            height: 540.0,
            left: 86.0,
            top: 76.0,
            area_width: 850.0,
            area_height: 400.0,
        };
        let high = LAYOUT.area_height;
        let mut canvas = Canvas::default();
        if let Some(plot) = PlotArea::new(self, POINTS, 0.0, high) {
            plot.draw_grid(&mut canvas);
            let across = Scale {
                log: false,
                from: plot.first,
                to: plot.last,
            };
            for tick in across.ticks(10) {
                canvas.text("mid", (plot.x(tick), high + 20.0), &number(tick));
            }
            plot.draw_curve(&mut canvas);
            let numbers = self.marks.len() <= NUMBERED;
            plot.draw_marks(&mut canvas, self, usize::MAX, numbers);
        }
        canvas.line("axis", (0.0, 0.0), (0.0, high));
        canvas.line("axis", (0.0, high), (100.0, high));
        let mut frame = Canvas::default();
        frame.text("mid title", (50.0, 32.0), &self.title);
        frame.text("mid", (50.0, 56.0), &self.note);
        let log = if self.is_logarithmic() {
            ", logarithmic"
        } else {
            ""
        };
        frame.text("mid", (50.0, LAYOUT.height - 18.0), &self.x);
        let y = escape(&self.y);
        frame.0 += &format!(
            "<text class=\"mid\" transform=\"translate(22,{}) rotate(-90)\">{y}{log}</text>\n",
            LAYOUT.top + high / 2.0
        );
        file(&LAYOUT, &frame, &canvas)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Plot {
        Plot {
            title: "256-byte reads & <others>".to_owned(),
            note: "4096".to_owned(),
            x: "run".to_owned(),
            y: "ns".to_owned(),
            points: (1..=100)
                .map(|run| (f64::from(run), if run % 16 == 1 { 10.0 } else { 1.0 }))
                .collect(),
            marks: (0..100).step_by(16).collect(),
        }
    }

    /// Series with little or nothing to draw.
    fn odd_points() -> [Vec<(f64, f64)>; 5] {
        [
            vec![],
            vec![(1.0, 0.0)],
            vec![(1.0, 5.0), (2.0, 5.0)],
            vec![(1.0, 1e300), (2.0, -1e300)],
            vec![(f64::NAN, f64::INFINITY)],
        ]
    }

    #[test]
    fn a_file_has_its_marks_and_its_texts() {
        let text = example().to_svg();
        assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"));
        assert_eq!(text.matches("<circle").count(), 7);
        assert!(
            text.contains("256-byte reads &amp; &lt;others&gt;"),
            "{text}"
        );
        assert!(text.contains(">97</text>"), "{text}");
    }

    #[test]
    fn a_series_without_finite_points_is_drawn() {
        for points in odd_points() {
            let plot = Plot {
                points,
                marks: vec![7],
                ..example()
            };
            for text in [plot.to_svg(), plot.to_page_svg(7)] {
                assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
            }
            assert!(plot.to_svg().contains("</svg>"));
        }
    }

    #[test]
    fn thinning_keeps_peaks() {
        const MOST: usize = 1200;
        let points: Vec<(f64, f64)> = (0..16_384)
            .map(|i| (f64::from(i), if i == 9999 { 50.0 } else { 1.0 }))
            .collect();
        let thin = thinned(&points, MOST);
        assert!(thin.len() <= MOST && thin.contains(&(9999.0, 50.0)));
    }

    #[test]
    fn a_series_in_a_page_has_its_marks_and_its_description() {
        let plot = Plot {
            title: "Pages".to_owned(),
            note: "readahead-steady: 128K".to_owned(),
            y: "pages".to_owned(),
            points: (1..=2000)
                .map(|run| (f64::from(run), f64::from(run / 32 * 32)))
                .collect(),
            marks: vec![31, 63],
            ..example()
        };
        let text = plot.to_page_svg(7);
        assert_eq!(text.matches("<circle").count(), 2);
        assert!(
            text.contains("pages (vertical axis) by run (horizontal axis), from 1 to 2000"),
            "{text}"
        );
        assert!(text.contains("readahead-steady: 128K."), "{text}");
        assert!(text.len() < 10_000, "{}", text.len());
    }

    #[test]
    fn ticks_are_round_and_few() {
        let ticks = |log, from, to| Scale { log, from, to }.ticks(4);
        assert_eq!(ticks(false, 0.0, 2294.0), [0.0, 1000.0, 2000.0]);
        assert_eq!(ticks(false, 0.0, 11.2), [0.0, 5.0, 10.0]);
        assert_eq!(ticks(true, 1.9, 4.2), [100.0, 1000.0, 10_000.0]);
        assert!(ticks(true, 2.1, 2.9).is_empty());
        assert_eq!(ticks(false, 0.0, 1e-9).len(), 3);
    }
}
